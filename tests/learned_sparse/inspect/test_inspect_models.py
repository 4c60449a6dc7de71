"""``learned_sparse.inspect`` with real models: encoded, indexed and searched by their commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.encode import __main__ as encode
from learned_sparse.index import __main__ as index
from learned_sparse.lucene.searchers import search_impacts
from learned_sparse.search.query_encoder import QueryEncoder
from tests.learned_sparse.inspect.explaining import as_json
from tests.toy_data import TEXTS, WORDS, save_beir

QUERY = " ".join(WORDS)
EXPANDED = "rain and wind"
MODELS = {"splade": ["--segment-length", "3"], "spade": ["--expanded", "predicted.tsv"]}


@pytest.fixture(scope="module", params=MODELS)
def indexed(request: pytest.FixtureRequest, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a collection and its index by one of the models."""
    folder = tmp_path_factory.mktemp(request.param)
    save_checkpoint(folder / "checkpoint", new_model(request.param, {}, str(tiny_bert)))
    documents = {f"d{number}": text for number, text in enumerate(TEXTS)}
    save_beir(folder / "toy", documents, {"q": QUERY}, {"test": [("q", "d0", 1)]})
    (folder / "predicted.tsv").write_text("".join(f"{name}\t{EXPANDED}\n" for name in documents), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ["--model", request.param, "--checkpoint", str(folder / "checkpoint"), "--bits", "8"]
        encode.main([*words, *MODELS[request.param], "--collection", str(folder / "toy"), "--output", "vectors"])
        index.main(["--input", "vectors", "--index", "index"])
    return folder


@pytest.mark.jvm
def test_scores_are_lucenes_and_shares_add_up(
    indexed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    impacts = QueryEncoder.from_index(indexed / "index").encode(QUERY)
    hits = search_impacts(indexed / "index", {"q": impacts}, 2)["q"]
    assert len(hits) > 1
    capsys.readouterr()
    monkeypatch.chdir(indexed)
    for name, score in hits:
        content = as_json(capsys, "--index", indexed / "index", "--query", QUERY, "--document", name)
        assert content["score"]["total"] == content["score"]["lucene"] == score
        document = content["document"]
        assert document["notes"] == []
        number, _, segment = name.removeprefix("d").partition("#")
        words = TEXTS[int(number)].split()
        assert document["text"] == " ".join(words[3 * int(segment) :][:3] if segment else words)
        assert document["expanded"] == (EXPANDED if content["model"] == "spade" else "")
        for side in ("query", "document"):
            for term in content[side]["terms"]:
                assert sum(source["weight"] for source in term["words"]) == pytest.approx(term["weight"], rel=1e-4)
