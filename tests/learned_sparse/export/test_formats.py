"""The export command; exports read back: CIFF by protobuf, PISA, Seismic, Parquet by their libraries, and text."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json, sha256, write_json
from learned_sparse.export.__main__ import main
from learned_sparse.export.exporting import FORMATS, RECORD, export_vectors
from learned_sparse.export.inverted import _postings
from learned_sparse.jsonvector.manifest import Manifest
from tests.learned_sparse.encoded_folder import Vectors, description, dot_products, write_folder
from tests.learned_sparse.export.collection import KNOWN, QUERIES, VECTORS, lines, save

CIFF = {
    "Header": "version:i num_postings_lists:i num_docs:i total_postings_lists:i total_docs:i "
    "total_terms_in_collection:l average_doclength:d description:s",
    "Posting": "docid:i tf:i",
    "PostingsList": "term:s df:l cf:l postings:Posting",
    "DocRecord": "docid:i collection_docid:s doclength:i",
}
"""Messages and fields of CommonIndexFileFormat.proto, in the order of their numbers; i: int32, l: int64."""


@functools.cache
def messages() -> dict[str, Any]:
    """A class of protobuf for each message of CIFF."""
    proto = descriptor_pb2.FileDescriptorProto(name="ciff.proto", syntax="proto3")
    types = {"i": 5, "l": 3, "d": 1, "s": 9}
    for name, fields in CIFF.items():
        message = proto.message_type.add(name=name)
        for number, field in enumerate(fields.split(), start=1):
            key, kind = field.split(":")
            repeated = {} if kind in types else {"type_name": f".{kind}"}
            message.field.add(
                name=key, number=number, type=types.get(kind, 11), label=3 if repeated else 1, **repeated
            )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in CIFF}


def read_ciff(path: Path) -> tuple[Any, list[Any], list[Any]]:
    """Header, postings lists and document records."""
    classes, content, position = messages(), path.read_bytes(), 0

    def read(name: str) -> Any:
        nonlocal position
        size, start = _DecodeVarint32(content, position)
        position = start + size
        return classes[name].FromString(content[start:position])

    header = read("Header")
    lists = [read("PostingsList") for _ in range(header.num_postings_lists)]
    records = [read("DocRecord") for _ in range(header.num_docs)]
    assert position == len(content)
    return header, lists, records


def vectors_of(lists: list[Any], records: list[Any]) -> Vectors:
    """Vectors from postings lists, whose document numbers are gaps."""
    assert [record.docid for record in records] == list(range(len(records)))
    rows: list[dict[str, int]] = [{} for _ in records]
    for postings in lists:
        document = 0
        for posting in postings.postings:
            document += posting.docid
            rows[document][postings.term] = posting.tf
    return {record.collection_docid: row for record, row in zip(records, rows, strict=True)}


def test_ciff_holds_all_impacts(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    export_vectors("ciff", tmp_path / "ciff", vectors=[encoded[0]], queries=encoded[1])
    header, lists, records = read_ciff(tmp_path / "ciff/documents.ciff")
    assert vectors_of(lists, records) == VECTORS
    total = sum(sum(vector.values()) for vector in VECTORS.values())
    assert (header.version, header.num_docs, header.total_docs) == (1, 200, 200)
    assert (header.total_terms_in_collection, header.average_doclength) == (total, total / 200)
    terms = [postings.term for postings in lists]
    assert terms == sorted(terms)
    assert lines(tmp_path / "ciff/vocabulary.txt") == terms
    assert all(postings.df == len(postings.postings) for postings in lists)
    assert all(postings.cf == sum(posting.tf for posting in postings.postings) for postings in lists)
    assert [record.doclength for record in records] == [sum(vector.values()) for vector in VECTORS.values()]
    assert read_queries(tmp_path / "ciff/queries.txt", terms) == KNOWN


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), min_size=1, max_size=50))
def test_postings_are_those_of_protobuf(pairs: list[tuple[int, int]]) -> None:
    gaps, impacts = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    read = messages()["PostingsList"].FromString(_postings(gaps, impacts))
    assert [(posting.docid, posting.tf) for posting in read.postings] == pairs


def read_queries(path: Path, terms: list[str]) -> dict[str, dict[str, int]]:
    pairs = (line.split(":") for line in lines(path))
    return {name: dict(Counter(terms[int(number)] for number in numbers.split())) for name, numbers in pairs}


def test_a_pisa_folder_is_the_one_that_pyterrier_writes(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """``test_engines.py`` of the searchers searches such folders in PISA."""
    pisa: Any = pytest.importorskip("pyterrier_pisa", reason="pyterrier-pisa is not installed (the extra pisa)")
    record = export_vectors("pisa", tmp_path / "pisa", vectors=[encoded[0]], queries=encoded[1])
    assert record["terms_with_capitals"] == 1  # [CLS]
    theirs = pisa.PisaIndex(str(tmp_path / "theirs"), stemmer="none")
    theirs.toks_indexer(scale=1.0).index({"docno": name, "toks": dict(toks)} for name, toks in VECTORS.items())
    names = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert len(names) == 8
    for name in names:
        assert (tmp_path / "pisa" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes(), name
    assert read_queries(tmp_path / "pisa/queries.txt", lines(tmp_path / "pisa/fwd.terms")) == KNOWN


SMALL: Vectors = {"d\\1": {"hives": 3, "##s": 200}, "d2": {}, "é": {"hives": 1}}
SMALL_QUERIES: Vectors = {"q1": {"hives": 2, "nowhere": 1}, "none": {}}
FILES = {
    "qdrant": {
        "vocabulary.txt": "##s\nhives\n",
        "collection.json": '{"vectors":{},"sparse_vectors":{"impacts":{}}}\n',
        "points-00000.json": '{"points":[{"id":0,"vector":{"impacts":{"indices":[0,1],"values":[200,3]}},'
        '"payload":{"id":"d\\\\1"}},{"id":1,"vector":{},"payload":{"id":"d2"}},'
        '{"id":2,"vector":{"impacts":{"indices":[1],"values":[1]}},"payload":{"id":"é"}}]}\n',
        "queries.jsonl": '{"id":"q1","body":{"query":{"indices":[1],"values":[2]},"using":"impacts","limit":1000,'
        '"with_payload":true}}\n{"id":"none","body":{"query":{"indices":[],"values":[]},"using":"impacts","limit":1000,'
        '"with_payload":true}}\n',
    },
    "pgvector": {
        "schema.sql": "CREATE EXTENSION IF NOT EXISTS vector;\n"
        "CREATE TABLE documents (id text PRIMARY KEY, impacts sparsevec(2) NOT NULL);\n",
        "documents-00000.tsv": "d\\\\1\t{1:200,2:3}/2\nd2\t{}/2\né\t{2:1}/2\n",
        "queries.sql": "PREPARE search (sparsevec) AS\n"
        "SELECT id, -(impacts <#> $1) AS score FROM documents WHERE impacts <#> $1 < 0\n"
        'ORDER BY impacts <#> $1, id COLLATE "C" LIMIT 1000;\n'
        "EXECUTE search ('{2:2}/2'); -- q1\nEXECUTE search ('{}/2'); -- none\n",
    },
    "lsr-benchmark": {"doc/doc-ids.txt": "d\\1\nd2\né\n", "query/query-ids.txt": "q1\nnone\n"},
    "parquet": {"vocabulary.txt": "##s\nhives\n"},
}
"""Text files of ``SMALL`` in each format; ``test_engines.py`` loads those of a larger collection."""


@pytest.mark.parametrize("name", FILES)
def test_files_of_a_small_collection(name: str, tmp_path: Path) -> None:
    vectors, queries = save(tmp_path, SMALL, SMALL_QUERIES)
    export_vectors(name, tmp_path / "out", vectors=[vectors], queries=queries)
    assert {file: (tmp_path / "out" / file).read_text("utf-8") for file in FILES[name]} == FILES[name]
    if name == "lsr-benchmark":
        arrays = np.load(tmp_path / "out/doc/doc-embeddings.npz", allow_pickle=False)
        rows = {key: arrays[key].tolist() for key in ("indptr", "indices", "data")}
        assert rows == {"indptr": [0, 2, 2, 3], "indices": [0, 1, 1], "data": [200, 3, 1]}
    elif name == "parquet":
        parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (the extra parquet)")
        columns = parquet.read_table(tmp_path / "out/documents.parquet").to_pydict()
        assert columns == {"id": list(SMALL), "terms": [[0, 1], [], [1]], "impacts": [[200, 3], [], [1]]}
        assert parquet.read_table(tmp_path / "out/queries.parquet").to_pydict()["impacts"] == [[2], []]


def test_queries_alone_by_the_terms_of_their_documents(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    export_vectors("qdrant", tmp_path / "all", vectors=[encoded[0]], queries=encoded[1])
    export_vectors("qdrant", tmp_path / "more", queries=encoded[1], vocabulary=tmp_path / "all/vocabulary.txt")
    assert (tmp_path / "more/queries.jsonl").read_bytes() == (tmp_path / "all/queries.jsonl").read_bytes()


def test_seismic_by_its_library(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    seismic: Any = pytest.importorskip("seismic", reason="pyseismic-lsr is not installed (the extra seismic)")
    record = export_vectors("seismic", tmp_path / "s", vectors=[encoded[0]], queries=encoded[1])
    assert record["index"] == "SeismicIndex"
    index = seismic.SeismicIndex.build(str(tmp_path / "s/documents.jsonl"), num_threads=1)
    ids, query_ids = lines(tmp_path / "s/ids.txt"), lines(tmp_path / "s/query-ids.txt")
    assert (index.len, ids, query_ids) == (len(VECTORS), list(VECTORS), list(QUERIES))
    found = total = 0
    for query in map(json.loads, lines(tmp_path / "s/queries.jsonl")):
        name, vector = query_ids[query["id"]], query["vector"]
        assert vector == QUERIES[name]
        terms, weights = np.array(list(vector), seismic.get_seismic_string()), np.array([*vector.values()], np.float32)
        hits = index.search(name, terms, weights, k=10, query_cut=20, heap_factor=0.7)
        exact = dict(dot_products(vector, VECTORS))
        assert all(exact[ids[int(row)]] == score for _, score, row in hits)
        best = sorted(exact.values(), reverse=True)[:10]
        found += sum(score >= best[-1] for _, score, _ in hits)
        total += len(best)
    assert total > 100
    assert found / total > 0.9  # approximate: measured 0.985


@pytest.mark.parametrize(("count", "indexed"), [(1000, True), (1001, False)])
def test_pgvector_indexes_at_most_a_thousand_terms(count: int, indexed: bool, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", {"d1": {f"t{number}": 1 for number in range(count)}})
    export_vectors("pgvector", tmp_path / "p", vectors=[folder])
    assert (tmp_path / "p/index.sql").is_file() == indexed


@pytest.mark.parametrize("name", FORMATS)
def test_counts_and_files_are_recorded(name: str, encoded: tuple[Path, Path], tmp_path: Path) -> None:
    vectors, queries = encoded
    output = tmp_path / "out"
    words = ["--format", name, "--vectors", str(vectors), "--queries", str(queries), "--output", str(output)]
    assert main(words) == 0
    record = read_json(output / RECORD)
    assert (record["target"], record["documents"], record["queries"]) == (name, len(VECTORS), len(QUERIES))
    assert record["postings"] == sum(map(len, VECTORS.values()))
    written = KNOWN if FORMATS[name].vocabulary else QUERIES
    assert record["query_terms"] == sum(map(len, written.values()))
    assert record.get("query_terms_of_no_document", 0) == (written is KNOWN)
    assert record["source"]["model"] == "words"
    files = [path for path in output.rglob("*") if path.is_file() and path.name != RECORD]
    assert record["files"] == {path.relative_to(output).as_posix(): sha256(path) for path in files}
    assert main([*words, "--overwrite"]) == 0
    assert read_json(output / RECORD) == record


def test_queries_of_another_model_are_refused(tmp_path: Path) -> None:
    vectors, queries = save(tmp_path)
    manifest = Manifest.load(vectors)
    other = dataclasses.replace(manifest, kind="queries", parts=(), encoder=description(architecture="other"))
    write_json(queries / "manifest.json", dataclasses.asdict(other), record=True)
    with pytest.raises(LearnedSparseError, match=r"not encoded by the model of the documents .architecture"):
        export_vectors("seismic", tmp_path / "out", vectors=[vectors], queries=queries)


def test_plain_vectors_are_exported(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"id": "d1", "vector": {"a": 3}}\n', encoding="utf-8")
    record = export_vectors("opensearch", tmp_path / "out", vectors=[tmp_path / "one.jsonl"])
    assert (record["documents"], record["postings"], record["source"]) == (1, 1, {})


@pytest.mark.parametrize(
    ("name", "vectors", "message"),
    [
        ("seismic", {"d1": {"a": 2049}}, r"2,049, and seismic .* up to 2,048 exactly; encode with --bits 11"),
        ("opensearch", {"d1": {"a": 513}}, r"513, and opensearch .* up to 512 exactly; encode with --bits 9"),
        ("seismic", {"d1": {"x" * 101: 1}}, "more than 100 characters"),
        ("elasticsearch", {"d1": {"u.s": 1, "u__s": 2}}, r"'u\.s' and 'u__s' are both 'u__s' without dots"),
        ("pgvector", {"d1": {f"t{n}": 1 for n in range(16_001)}}, r"16,001 terms, a sparsevec at most 16,000"),
    ],
)
def test_what_an_engine_would_round_or_cut_is_refused(
    name: str, vectors: dict[str, dict[str, int]], message: str, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "vectors", vectors)
    with pytest.raises(LearnedSparseError, match=message):
        export_vectors(name, tmp_path / "out", vectors=[folder])
    assert not (tmp_path / "out").exists()
