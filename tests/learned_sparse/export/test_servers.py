"""Bulk files and queries of OpenSearch and Elasticsearch, searched in the FeatureField of Anserini's Lucene."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode.__main__ import main as encode
from learned_sparse.export import documents
from learned_sparse.export.__main__ import main as export_main
from learned_sparse.export.exporting import export_vectors
from learned_sparse.lucene.jvm import start_jvm
from tests.learned_sparse.encoded_folder import dot_products
from tests.learned_sparse.export.collection import QUERIES, VECTORS
from tests.learned_sparse.input_files import write

Hits = list[tuple[str, float]]
Clause = Callable[[str, float], Any]
"""Term and weight to a Lucene query."""


class Features:
    """Documents in Lucene, each impact as a ``FeatureField``, as both engines store them."""

    def __init__(self, documents: list[dict[str, Any]]) -> None:
        start_jvm()
        from jnius import autoclass, cast

        self.java = autoclass
        lucene = "org.apache.lucene."
        self.feature = autoclass(f"{lucene}document.FeatureField")
        directory = autoclass(f"{lucene}store.ByteBuffersDirectory")()
        config = autoclass(f"{lucene}index.IndexWriterConfig")()
        writer = autoclass(f"{lucene}index.IndexWriter")(directory, config)
        stored = autoclass(f"{lucene}document.Field$Store").YES
        self.documents = documents
        for document in self.documents:
            record = autoclass(f"{lucene}document.Document")()
            record.add(autoclass(f"{lucene}document.StringField")("id", document["id"], stored))
            for term, impact in document.get("impacts", {}).items():
                record.add(self.feature("impacts", term, float(impact)))
            writer.addDocument(record)
        writer.close()
        reader = autoclass(f"{lucene}index.DirectoryReader").open(directory)
        self.searcher = autoclass(f"{lucene}search.IndexSearcher")(cast(f"{lucene}index.IndexReader", reader))
        self.stored = reader.storedFields()

    def hits(self, weights: Mapping[str, float], clause: Clause) -> Hits:
        """All documents with a score, best first, ties by id."""
        builder = self.java("org.apache.lucene.search.BooleanQuery$Builder")()
        should = self.java("org.apache.lucene.search.BooleanClause$Occur").SHOULD
        for term, weight in weights.items():
            builder.add(clause(term, weight), should)
        found = self.searcher.search(builder.build(), max(1, len(self.documents))).scoreDocs
        hits = [(str(self.stored.document(hit.doc).get("id")), float(hit.score)) for hit in found]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))

    def linear(self, term: str, weight: float) -> Any:
        """The clause of neural_sparse; Lucene refuses weights over 64."""
        return self.feature.newLinearQuery("impacts", term, weight)

    def boosted(self, term: str, weight: float) -> Any:
        """The clause of rank_feature and of sparse_vector: the weight is a boost."""
        clause = self.feature.newLinearQuery("impacts", term, 1.0)
        return self.java("org.apache.lucene.search.BoostQuery")(clause, weight)


def bulk_documents(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("bulk-*.ndjson"))
    lines = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    assert [line["index"]["_id"] for line in lines[::2]] == [document["id"] for document in lines[1::2]]
    return lines[1::2]


def bodies(path: Path) -> dict[str, dict[str, Any]]:
    """Query clause of each body by query id."""
    return {line["id"]: line["body"]["query"] for line in map(json.loads, path.read_bytes().splitlines())}


@pytest.mark.jvm
def test_opensearch_scores_are_exact(
    encoded: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 9_000)
    record = export_vectors("opensearch", tmp_path / "o", vectors=[encoded[0]], queries=encoded[1])
    features = Features(bulk_documents(tmp_path / "o"))
    assert [document["id"] for document in features.documents] == list(VECTORS)
    sizes = [file.stat().st_size for file in (tmp_path / "o").glob("bulk-*.ndjson")]
    assert len(sizes) > 2
    assert max(sizes) <= 9_000
    assert record["query_divisor"] == 16
    assert {"u__s", "______"} < {term for document in features.documents for term in document.get("impacts", {})}
    neural, ranked = (bodies(tmp_path / "o" / name) for name in ("queries.jsonl", "queries-rank-feature.jsonl"))
    assert list(neural) == list(ranked) == list(QUERIES)
    for name, query in QUERIES.items():
        if not query:
            assert neural[name] == ranked[name] == {"match_none": {}}
            continue
        expected = dot_products(query, VECTORS)
        weights = neural[name]["neural_sparse"]["impacts"]["query_tokens"]
        assert [(hit, score * 16) for hit, score in features.hits(weights, features.linear)] == expected
        clauses = [clause["rank_feature"] for clause in ranked[name]["bool"]["should"]]
        assert all(clause["linear"] == {} for clause in clauses)
        boosts = {clause["field"].removeprefix("impacts."): clause["boost"] for clause in clauses}
        assert features.hits(boosts, features.boosted) == expected
    assert json.loads((tmp_path / "o/mapping.json").read_bytes())["mappings"]["properties"] == {
        "id": {"type": "keyword"},
        "impacts": {"type": "rank_features"},
    }


@pytest.mark.jvm
def test_elasticsearch_scores_are_exact_without_a_divisor(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    record = export_vectors("elasticsearch", tmp_path / "e", vectors=[encoded[0]], queries=encoded[1])
    assert "query_divisor" not in record
    features = Features(bulk_documents(tmp_path / "e"))
    for name, clause in bodies(tmp_path / "e/queries.jsonl").items():
        if QUERIES[name]:
            assert clause["sparse_vector"] == {**clause["sparse_vector"], "field": "impacts", "prune": False}
            weights = clause["sparse_vector"]["query_vector"]
            assert features.hits(weights, features.boosted) == dot_products(QUERIES[name], VECTORS)
    mapping = json.loads((tmp_path / "e/mapping.json").read_bytes())["mappings"]["properties"]["impacts"]
    assert mapping == {"type": "sparse_vector", "index_options": {"prune": False}}


def test_fields_of_the_encoded_files_are_stored(tmp_path: Path) -> None:
    lines: list[Any] = [{"_id": "1", "title": "Hives", "text": "An itch."}, [], {"_id": "2", "text": "Drag of a wing."}]
    texts = write(tmp_path / "corpus.jsonl", *map(json.dumps, lines))
    options = ["--model", "splade-tiny", "--dtype", "fp32", "--input", str(texts), "--output", str(tmp_path / "v")]
    encode([*options, "--on-bad-line", "skip"])
    export = ["--format", "opensearch", "--vectors", str(tmp_path / "v"), "--output", str(tmp_path / "o")]
    assert export_main([*export, "--fields", "title", "text"]) == 0
    assert [dict(document, impacts=None) for document in bulk_documents(tmp_path / "o")] == [
        {"id": "1", "title": "Hives", "text": "An itch.", "impacts": None},
        {"id": "2", "text": "Drag of a wing.", "impacts": None},
    ]
    mapping = json.loads((tmp_path / "o/mapping.json").read_bytes())["mappings"]["properties"]
    assert mapping["title"] == mapping["text"] == {"type": "text"}
    with pytest.raises(LearnedSparseError, match="no document has 'url'"):
        export_main([*export, "--overwrite", "--fields", "url"])
    write(texts, *map(json.dumps, lines[::-1]))
    with pytest.raises(LearnedSparseError, match="document '2' does not follow"):
        export_main([*export, "--overwrite", "--fields", "text"])
    with pytest.raises(LearnedSparseError, match="opensearch and elasticsearch"):
        export_main(["--format", "pisa", *export[2:], "--overwrite", "--fields", "text"])
