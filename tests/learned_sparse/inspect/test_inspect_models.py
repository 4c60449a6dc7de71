"""``learned_sparse.inspect`` with real models: encoded, indexed and searched by their commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.encode import __main__ as encode
from learned_sparse.index import __main__ as index
from learned_sparse.lucene.searchers import search_impacts
from learned_sparse.search.query_encoder import QueryEncoder
from tests.encoders.models.cases import SMALLEST
from tests.learned_sparse.inspect.explaining import as_json
from tests.toy_data import TEXTS, WORDS, save_beir

QUERY = " ".join(WORDS)
EXPANDED = "rain and wind"
MODELS: dict[str, dict[str, Any]] = {
    "sparterm": {"threshold": 0.6},
    "splade": {},
    "sparterm+bm25": {"threshold": 0.6},
    "spade": {"k": 3},
    "uhd": {**SMALLEST["uhd"], "bucket_weights": [2, 1]},
}


@pytest.fixture(scope="module", params=MODELS)
def indexed(request: pytest.FixtureRequest, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a collection and its index by one of the models."""
    folder = tmp_path_factory.mktemp(request.param)
    model = new_model(request.param.removesuffix("+bm25"), MODELS[request.param], str(tiny_bert))
    for tower in model.towers.values():
        with torch.no_grad():
            for parameter in tower.new_parameters():
                parameter.mul_(10).add_(0.3 if parameter.dim() == 1 else 0)
    save_checkpoint(folder / "checkpoint", model)
    documents = {f"d{number}": text for number, text in enumerate(TEXTS)}
    expanded = None if request.param == "spade" else dict.fromkeys(documents, EXPANDED)  # SpaDE has it from a file
    save_beir(folder / "toy", documents, {"q": QUERY}, {"test": [("q", "d0", 1)]}, expanded)
    predicted = folder / "predicted.tsv"
    predicted.write_text("".join(f"{name}\t{EXPANDED}\n" for name in documents), encoding="utf-8")
    by_model = {"splade": ["--segment-length", "3"], "spade": ["--expanded", str(predicted)]}
    options = by_model.get(request.param, ["--with", "bm25"] if "+" in request.param else [])
    words = ["--model", request.param, "--checkpoint", str(folder / "checkpoint"), "--bits", "8", *options]
    encode.main([*words, "--collection", str(folder / "toy"), "--output", str(folder / "vectors")])
    index.main(["--input", str(folder / "vectors"), "--index", str(folder / "index")])
    return folder


@pytest.mark.jvm
def test_scores_are_lucenes_and_shares_add_up(indexed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    impacts = QueryEncoder.from_index(indexed / "index").encode(QUERY)
    hits = search_impacts(indexed / "index", {"q": impacts}, 2)["q"]
    assert len(hits) > 1
    capsys.readouterr()
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
