"""An exported model gives the same vectors in the other tool; what the tool cannot compute is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SparseEncoder
from transformers import BertConfig

from encoders.checkpoints.notes import read_notes
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import LoadedModel, join_sides, load_checkpoint, new_model
from encoders.export import __main__ as command
from encoders.export.exporting import export_model
from encoders.models import SIDES
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from tests.tiny_models import TEXTS, VOCABULARY, for_pyserini

LENGTHS = {"query": 12, "document": 20}
"""Tokens; both sides truncate one of the texts."""
WHOLE = {"query": 64, "document": 64}


def model_of(folder: Path, settings: dict[str, Any], lengths: dict[str, int] = LENGTHS) -> LoadedModel:
    model = new_model("splade", settings, str(folder), max_length=lengths)
    if "query_weights" in model.towers:
        with torch.no_grad():
            model.towers["query_weights"].weights.uniform_(generator=torch.Generator().manual_seed(0))
    return model


def weights(model: LoadedModel, side: Side) -> torch.Tensor:
    """Weights of ``TEXTS`` in fp32, ``(texts, vocabulary)``."""
    tokens = model.tokenizer(
        TEXTS, padding=True, truncation=True, max_length=model.max_length[side], return_tensors="pt"
    )
    with torch.no_grad():
        result: torch.Tensor = model.weighers.eval()[side](tokens["input_ids"], tokens["attention_mask"])
    return result


@pytest.mark.parametrize(
    "settings",
    [
        {"pooling": "sum"},
        {"pooling": "max", "saturation": "log-log", "block_special_terms": True},
        {"pooling": "max", "query": "separate"},
        {"pooling": "max", "query": "bag-of-words"},
        {"pooling": "max", "query": "bag-of-words", "query_weighting": "learned", "bow_special_tokens": "none"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_sentence_transformers_gives_the_same_vectors(
    settings: dict[str, Any], tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)  # the matrix product of the other tool
    symmetric = "query" not in settings
    model = model_of(tiny_bert, settings, {"query": 12, "document": 12} if symmetric else LENGTHS)
    before = {side: weights(model, side) for side in SIDES}
    assert export_model(model, tmp_path / "splade", "sentence-transformers") == []
    theirs = SparseEncoder(str(tmp_path / "splade"), device="cpu", local_files_only=True)
    for side, encode in zip(SIDES, (theirs.encode_query, theirs.encode_document), strict=True):
        expected = encode(TEXTS, convert_to_sparse_tensor=False).cpu()
        assert float((before[side] - expected).abs().max()) <= 1e-6
        assert torch.equal(weights(model, side), before[side])  # the model in memory is as it was
    assert read_notes(tmp_path / "splade").max_length == model.max_length
    again = load_encoder(str(tmp_path / "splade"), "query", dtype="fp32").encode(TEXTS)
    np.testing.assert_allclose(again.to_scipy().toarray(), before["query"], atol=5e-6)


def impacts(folder: Path, side: Side, scale: float) -> list[dict[str, int]]:
    """Impacts of ``TEXTS`` by the checkpoint in ``folder``."""
    batch = load_encoder(str(folder), side, dtype="fp32").encode(TEXTS)
    quantized, _ = Quantizer(scale).quantize(batch)
    return [quantized.row(row) for row in range(len(TEXTS))]


@pytest.mark.jvm
def test_pyserini_gives_the_same_impacts(tiny_bert: Path, tmp_path: Path) -> None:
    from learned_sparse.lucene.jvm import start_jvm

    start_jvm()
    from pyserini.encode import SpladeDocumentEncoder, SpladeQueryEncoder, TokFreqQueryEncoder

    for name, query in (("splade", {}), ("splade-doc", {"query": "bag-of-words", "query_weighting": "tf"})):
        model = model_of(tiny_bert, {"pooling": "max", "block_special_terms": True, **query}, WHOLE)
        (note, *_) = export_model(model, tmp_path / name, "pyserini")
        assert "--quantization-factor 51.2" in note
        export_model(model, tmp_path / f"{name}-ours", "learned-sparse")
    queries = SpladeQueryEncoder(for_pyserini(tmp_path / "splade"))
    assert [nonzero(queries.encode(text)) for text in TEXTS] == impacts(tmp_path / "splade-ours", "query", 51.2)
    documents = SpladeDocumentEncoder(str(tmp_path / "splade"), device="cpu").encode(TEXTS, max_length=64)
    assert [nonzero(row) for row in documents] == impacts(tmp_path / "splade-ours", "document", 51.2)
    counts = TokFreqQueryEncoder(str(tmp_path / "splade-doc/query"))
    assert [counts.encode(text) for text in TEXTS] == impacts(tmp_path / "splade-doc-ours", "query", 1.0)


def nonzero(row: dict[str, int]) -> dict[str, int]:
    return {term: impact for term, impact in row.items() if impact}


@pytest.mark.jvm
@pytest.mark.parametrize("query", ["same", "separate"])
def test_pyserini_gives_the_impacts_of_unicoil(
    query: str, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from learned_sparse.lucene.jvm import start_jvm

    start_jvm()
    from pyserini.encode import UniCoilDocumentEncoder, UniCoilEncoder, UniCoilQueryEncoder

    if not hasattr(UniCoilEncoder, "load_pretrained_encoder"):  # its from_pretrained does not work with transformers 5
        monkeypatch.setattr(UniCoilEncoder, "from_pretrained", load_unicoil)
    settings = {"query": query, "bow_special_tokens": "separators", "expanded": False}
    model = new_model("unicoil", settings, str(tiny_bert), max_length=WHOLE)
    for seed, tower in enumerate(model.towers.values()):
        torch.nn.init.normal_(tower.head.weight, generator=torch.Generator().manual_seed(seed))
        torch.nn.init.ones_(tower.head.bias)
    folder = tmp_path / "unicoil"
    notes = export_model(model, folder, "pyserini")
    assert len(notes) == 3  # the last one: the length of queries
    folders = {side: folder if query == "same" else folder / side for side in SIDES}
    queries = UniCoilQueryEncoder(for_pyserini(folders["query"]))
    documents = UniCoilDocumentEncoder(for_pyserini(folders["document"]), device="cpu")
    expected = {"query": [queries.encode(text) for text in TEXTS], "document": []}
    expected["document"] = [
        {term: round(weight * 51.2) for term, weight in row.items()} for row in documents.encode(TEXTS, max_length=64)
    ]
    export_model(model, tmp_path / "ours", "learned-sparse")
    for side in SIDES:
        for name in ("ours", *(["unicoil"] if query == "same" else [])):  # what is exported is read again
            assert impacts(tmp_path / name, side, 51.2) == list(map(nonzero, expected[side]))
    assert sum(map(len, expected["query"])) > 20
    assert "UniCoilQueryEncoder" in (folder / "README.md").read_text()


def load_unicoil(folder: str) -> Any:
    """Every tensor of the folder into Pyserini's class, which adds only a pooler that it does not use."""
    from pyserini.encode import UniCoilEncoder

    model = UniCoilEncoder(BertConfig.from_pretrained(folder)).eval()
    missing, unexpected = model.load_state_dict(load_file(Path(folder) / "model.safetensors"), strict=False)
    assert (unexpected, {name.split(".")[1] for name in missing}) == ([], {"pooler"})
    return model


def test_opensearch_reads_idf_weights(tiny_bert: Path, tmp_path: Path) -> None:
    settings = {
        "pooling": "max",
        "query": "bag-of-words",
        "query_weighting": "learned",
        "block_special_terms": "special",
    }
    model = model_of(tiny_bert, settings)
    (note,) = export_model(model, tmp_path / "doc", "opensearch")
    assert "idf.json leaves them out" in note
    table = dict(zip(VOCABULARY, model.towers["query_weights"]().tolist(), strict=True))
    idf = json.loads((tmp_path / "doc" / "idf.json").read_text())
    assert idf == {
        term: weight for term, weight in table.items() if weight and term not in model.tokenizer.all_special_tokens
    }
    batch = load_encoder(str(tmp_path / "doc"), "document", dtype="fp32").encode(TEXTS)
    np.testing.assert_allclose(batch.to_scipy().toarray(), weights(model, "document"), atol=5e-6)


@pytest.mark.parametrize(
    ("architecture", "settings", "target", "reason"),
    [
        ("uhd", {"dimensions": 32, "layers": [1], "k": 4}, "sentence-transformers", "other tools have no such model"),
        ("splade", {"expansion": "lexical"}, "sentence-transformers", "expansion: lexical: other tools know full only"),
        ("splade", {"saturation": "none"}, "pyserini", "saturation: none"),
        ("splade", {"pooling": "sum"}, "pyserini", "know max pooling"),
        ("splade", {"pooling": "max"}, "opensearch", "doc-only form is"),
        ("splade", {"query": "bag-of-words", "query_weighting": "tf"}, "sentence-transformers", "count a term once"),
        ("unicoil", {"head": "two-layer"}, "pyserini", "head: two-layer: Pyserini's uniCOIL knows linear only"),
        ("unicoil", {"query_repeats": "max"}, "pyserini", "query_repeats: max: Pyserini's uniCOIL knows sum only"),
        ("unicoil", {"query": "bag-of-words"}, "pyserini", "Pyserini's uniCOIL has a network for queries"),
        ("unicoil", {}, "opensearch", "Pyserini knows uniCOIL"),
    ],
)
def test_models_without_the_form(
    architecture: str, settings: dict[str, Any], target: str, reason: str, tiny_bert: Path, tmp_path: Path
) -> None:
    model = new_model(architecture, settings, str(tiny_bert))
    with pytest.raises(LearnedSparseError, match=reason):
        export_model(model, tmp_path / "out", target)
    assert not (tmp_path / "out").exists()


def test_unicoil_on_another_backbone(tiny_distilbert: Path, tmp_path: Path) -> None:
    model = new_model("unicoil", {}, str(tiny_distilbert))
    with pytest.raises(LearnedSparseError, match="a backbone of type distilbert: Pyserini's uniCOIL is a BERT"):
        export_model(model, tmp_path / "out", "pyserini")


def test_two_folders_become_one_checkpoint(tiny_bert: Path, tiny_distilbert: Path, tmp_path: Path, capsys: Any) -> None:
    """As efficient-splade's: one folder for documents, another for queries."""
    output = tmp_path / "efficient"
    words = ["--checkpoint", str(tiny_bert), "--query-checkpoint", str(tiny_distilbert), "--to", "learned-sparse"]
    assert command.main([*words, "--output", str(output)]) == 0
    for side, folder in zip(SIDES, (tiny_distilbert, tiny_bert), strict=True):
        joined = load_encoder(str(output), side, dtype="fp32").encode(TEXTS)
        alone = load_encoder(str(folder), side, dtype="fp32").encode(TEXTS)
        assert [joined.row(row) for row in range(len(TEXTS))] == [alone.row(row) for row in range(len(TEXTS))]
    with pytest.raises(LearnedSparseError, match="replace it with --overwrite"):
        command.main([*words, "--output", str(output)])
    assert command.main([*words, "--output", str(output), "--overwrite", "--set", "pooling=sum"]) == 0
    assert read_notes(output).settings["pooling"] == "sum"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("x")
    with pytest.raises(LearnedSparseError, match="name another folder"):
        command.main([*words, "--output", str(tmp_path / "thesis"), "--overwrite"])
    with pytest.raises(LearnedSparseError, match="differ in settings"):
        join_sides(load_checkpoint(tiny_bert), load_checkpoint(tiny_bert, settings={"pooling": "sum"}))
