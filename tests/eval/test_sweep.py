"""A sweep gives the same numbers as encode, index, search and evaluate."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from eval.costs import count_documents, count_queries, expected_flops
from eval.measures import Scores, evaluate
from eval.sweep import combinations, main, sweep
from learned_sparse.collections.collection import load_collection
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.index import __main__ as index
from learned_sparse.search import __main__ as search
from learned_sparse.search.exact_searcher import ExactSearcher
from tests.tiny_models import WORDS
from tests.toy_data import save_beir

MEASURES = ("nDCG@10", "R@5", "MRR@10")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of thirty documents of three to twenty words; queries are the first words of documents."""
    folder = tmp_path_factory.mktemp("tiny-collection")
    texts = [" ".join(WORDS[i : i + 3 + 7 * i % 18]) for i in range(30)]
    documents = {f"d{i}": text for i, text in enumerate(texts)}
    queries = {f"q{i}": " ".join(text.split()[:2]) for i, text in enumerate(texts[:12])}
    judged = [(f"q{i}", f"d{i + further}", grade) for i in range(12) for further, grade in ((0, 2), (9, 1))]
    save_beir(folder, documents, queries, {"test": judged}, {"d4": "what causes rash? is it hot in april"})
    return folder


def checkpoint(folder: Path, backbone: Path, architecture: str, settings: dict[str, Any]) -> str:
    """A checkpoint whose weights do not depend on the settings."""
    save_checkpoint(folder, new_model(architecture, settings, str(backbone)))
    return str(folder)


@pytest.mark.jvm
def test_numbers_equal_those_of_the_pipeline(
    folder: Path, tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint saved with the changed settings is encoded, indexed, searched by Lucene and measured."""
    settings, changes = {"gate_pool": "max"}, {"threshold": 0.55}
    changed = checkpoint(tmp_path / "changed", tiny_bert, "sparterm", settings | changes)
    words = ["--model", "m", "--checkpoint", changed, "--collection", str(folder), "--device", "cpu", "--dtype", "fp32"]
    documents, queries = str(tmp_path / "documents"), str(tmp_path / "queries")
    assert encode.main([*words, "--output", documents]) == 0
    assert encode.main([*words, "--output", queries, "--queries"]) == 0
    assert index.main(["--input", documents, "--index", str(tmp_path / "index")]) == 0
    where = ["--index", str(tmp_path / "index"), "--collection", str(folder), "--split", "test"]
    assert search.main([*where, "--output", str(tmp_path / "run.txt"), "--hits", "7"]) == 0
    scores = evaluate(tmp_path / "run.txt", load_collection(folder).qrels("test"), MEASURES)
    counts = count_documents(documents), count_queries(queries)

    stored = checkpoint(tmp_path / "stored", tiny_bert, "sparterm", settings)
    words = ["--checkpoint", stored, "--collection", str(folder), "--hits", "7", "--dtype", "fp32", "--device", "cpu"]
    words += ["--measures", *MEASURES, "--set", "threshold=0.7,0.55"]
    assert main([*words, "--output", str(tmp_path / "sweep.json")]) == 0
    result = json.loads((tmp_path / "sweep.json").read_text())
    first, second = result["rows"]
    assert (first["settings"], first["stored"]) == ({"threshold": 0.7}, True)
    assert (second["settings"], second["stored"]) == ({"threshold": 0.55}, False)
    assert second["scores"] == dict(scores.mean)
    assert first["scores"] != second["scores"]
    sizes = [of.postings / of.texts for of in counts]
    flops = expected_flops(*counts)
    assert second["costs"] == {"FLOPS": flops, "terms/document": sizes[0], "terms/query": sizes[1]}
    assert result["weights_sha256"].keys() == {"importance", "gate"}
    heading, _, printed, changed_row, _ = capsys.readouterr().out.splitlines()[-5:]
    assert heading.split()[-1] == "stored"
    assert (printed.split()[0], printed.split()[-1]) == ("0.7", "*")
    assert f"{flops:.4f}" in changed_row


@pytest.mark.jvm
def test_settings_of_queries_do_not_encode_documents_again(
    folder: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = checkpoint(tmp_path / "stored", tiny_bert, "uhd", {"dimensions": 64, "layers": [1, 2], "k": 6})
    encoded: list[Any] = []

    def counting(output: Any, documents: Any, encoder: Any, **options: Any) -> Any:
        encoded.append(encoder.description["settings"]["k"])
        return write_vectors(output, documents, encoder, **options)

    monkeypatch.setattr("eval.sweep.write_vectors", counting)
    changes = combinations({"query_k": (2, 9), "k": (6, 4)})
    options: dict[str, Any] = {"measures": ("MRR@10",), "hits": 5, "device": "cpu", "dtype": "fp32"}
    _, rows = sweep(stored, load_collection(folder), "test", changes, **options)
    assert encoded == [6, 4]
    assert [row["settings"] for row in rows] == combinations({"query_k": (2, 9), "k": (6, 4)})
    terms = [(row["costs"]["terms/document"], row["costs"]["terms/query"]) for row in rows]
    assert terms[0][0] == terms[2][0] > terms[1][0] == terms[3][0]
    assert terms[0][1] == terms[1][1] < terms[2][1] == terms[3][1]


def test_one_variant_of_the_documents_is_in_memory(
    folder: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eleven alphas on 8.8 million passages would need more than 100 GB at once."""
    stored = checkpoint(tmp_path / "stored", tiny_bert, "spade", {})
    loaded: list[weakref.ref[ExactSearcher]] = []
    load = ExactSearcher.load

    def watched(*paths: Any) -> ExactSearcher:
        assert not [searcher for searcher in loaded if searcher() is not None]
        searcher = load(*paths)
        loaded.append(weakref.ref(searcher))
        return searcher

    monkeypatch.setattr(ExactSearcher, "load", watched)
    monkeypatch.setattr("eval.sweep.evaluate", lambda *_, **__: Scores(mean={}, per_query={}, missing=(), unjudged=()))
    changes = combinations({"alpha": (0.0, 0.5, 1.0)})
    options: dict[str, Any] = {"measures": ("MRR@10",), "hits": 5, "device": "cpu", "dtype": "fp32"}
    assert len(sweep(stored, load_collection(folder), "test", changes, **options)[1]) == len(loaded) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "query=tf"], "belongs to how the model was trained"),
        (["--set", "treshold=1"], "unknown key 'treshold'; did you mean 'threshold'"),
        (["--set", "threshold=0.5", "--measures", "MRP"], "unknown"),
    ],
)
def test_invalid_arguments_are_errors_before_anything_is_encoded(
    words: list[str], message: str, folder: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    name = checkpoint(tmp_path, tiny_bert, "sparterm", {})
    with pytest.raises(LearnedSparseError, match=message):
        main(["--checkpoint", name, "--collection", str(folder), *words])


def test_models_scored_by_bm25_are_refused(folder: Path, tiny_bert: Path, tmp_path: Path) -> None:
    name = checkpoint(tmp_path, tiny_bert, "sparterm", {"mode": "expansion-only", "query": "tf"})
    with pytest.raises(LearnedSparseError, match="scored by BM25"):
        main(["--checkpoint", name, "--collection", str(folder), "--set", "threshold=0.5"])
