"""Folders of sentence-transformers, naver/splade, OpenSearch and Pyserini give the vectors of their own tools."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Router, Transformer
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

from encoders.checkpoints.notes import read_notes
from encoders.encoding.loading import load_encoder
from encoders.models import SIDES
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from tests.tiny_models import TEXTS, VOCABULARY, for_pyserini

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def rows(folder: Path, side: Side, **settings: Any) -> list[dict[str, float]]:
    batch = load_encoder(str(folder), side, dtype="fp32", settings=settings).encode(TEXTS)
    return [batch.row(row) for row in range(len(batch))]


def splade(folder: Path, **pooling: Any) -> list[Any]:
    return [Transformer(str(folder), transformer_task="fill-mask", max_seq_length=20), SpladePooling(**pooling)]


def save_and_compare(modules: list[Any], folder: Path) -> None:
    theirs: Any = SparseEncoder(modules=modules, device="cpu")
    theirs.save_pretrained(str(folder))
    for side, encode in zip(SIDES, (theirs.encode_query, theirs.encode_document), strict=True):
        ours = load_encoder(str(folder), side, dtype="fp32").encode(TEXTS)
        assert ours.terms == VOCABULARY
        expected = encode(TEXTS, convert_to_sparse_tensor=False).cpu()
        np.testing.assert_allclose(ours.to_scipy().toarray(), expected, rtol=1e-6, atol=5e-6)


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
@pytest.mark.parametrize("pooling", [("max", "relu"), ("sum", "relu"), ("max", "log1p_relu")])
def test_pooling_of_sentence_transformers(
    pooling: tuple[str, str], kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """20 tokens, which truncate one of the texts."""
    folder = request.getfixturevalue(f"tiny_{kind}")
    modules = splade(folder, pooling_strategy=pooling[0], activation_function=pooling[1])
    save_and_compare(modules, tmp_path / "theirs")


def test_static_weights_of_queries(tiny_bert: Path, tmp_path: Path) -> None:
    """The layout of sentence-transformers 6, and that of 5.0 with the names of its classes."""
    document = splade(tiny_bert, pooling_strategy="max")
    weight = torch.rand(len(VOCABULARY), generator=torch.Generator().manual_seed(1))
    tokenizer = splade(tiny_bert)[0].tokenizer
    tokenizer.model_max_length = 5
    static: Any = SparseStaticEmbedding(tokenizer=tokenizer, weight=weight)
    router = Router.for_query_document(query_modules=[static], document_modules=document)
    save_and_compare([router], tmp_path / "theirs")
    before = rows(tmp_path / "theirs", "document")
    old = tmp_path / "theirs" / "router_config.json"
    text = old.read_text().replace("document_0_Transformer", "document_0_MLMTransformer")
    for name in ("splade_pooling.SpladePooling", "sparse_static_embedding.SparseStaticEmbedding"):
        text = text.replace(f"modules.{name}", f"models.{name.rpartition('.')[2]}")
    old.write_text(text.replace('"sentence_transformers.base.modules.transformer.Transformer"', '"x.MLMTransformer"'))
    (old.parent / "document_0_Transformer").rename(old.parent / "document_0_MLMTransformer")
    assert "models.SparseStaticEmbedding" in old.read_text()
    assert rows(tmp_path / "theirs", "document") == before
    save_file({"weight": -weight}, old.parent / "query_0_SparseStaticEmbedding" / "model.safetensors")
    with pytest.raises(LearnedSparseError, match="not 171 weights of terms, finite and 0 or above"):
        rows(tmp_path / "theirs", "query")


def test_another_masked_lm_for_queries(tiny_bert: Path, tiny_distilbert: Path, tmp_path: Path) -> None:
    router = Router.for_query_document(query_modules=splade(tiny_distilbert), document_modules=splade(tiny_bert))
    folder = tmp_path / "theirs"
    save_and_compare([router], folder)
    (config,) = folder.glob("query_1_*/config.json")
    config.write_text(json.dumps({**json.loads(config.read_text()), "pooling_strategy": "sum"}))
    with pytest.raises(LearnedSparseError, match="queries and documents are pooled differently"):
        read_notes(folder)
    content = json.loads((folder / "router_config.json").read_text())
    content["structure"]["passage"] = content["structure"].pop("document")
    (folder / "router_config.json").write_text(json.dumps(content))
    with pytest.raises(LearnedSparseError, match="its routes are query, passage, not lists for query and document"):
        read_notes(folder)


def test_opensearch_doc_only(tiny_bert: Path, tmp_path: Path) -> None:
    """Model cards of opensearch-neural-sparse-encoding-doc-v1 and v3: no special terms, and idf weights of queries."""
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "doc"))
    idf = {term: 1 + number / 7 for number, term in enumerate(VOCABULARY) if term not in SPECIAL and number % 3}
    (folder / "idf.json").write_text(json.dumps(idf))
    plain = rows(tiny_bert, "document")
    assert any(set(row) & set(SPECIAL) for row in plain)
    expected = [{term: weight for term, weight in row.items() if term not in SPECIAL} for row in plain]
    assert rows(folder, "document") == expected
    twice = [pytest.approx({t: float(torch.tensor(w).log1p()) for t, w in row.items()}, abs=5e-6) for row in expected]
    assert rows(folder, "document", saturation="log-log") == twice
    tokenizer: Any = load_encoder(str(folder), "query").tokenizer
    bags = [set(tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])) for text in TEXTS]
    assert rows(folder, "query") == [pytest.approx({t: idf[t] for t in sorted(bag & idf.keys())}) for bag in bags]
    encoded = load_encoder(str(folder), "query", dtype="fp32").description["weights_sha256"]
    assert "idf.json" in encoded["query_weights"]
    (folder / "idf.json").write_text(json.dumps({"antidisestablishmentarianism": 3.0}))
    with pytest.raises(LearnedSparseError, match="is no token of the model"):
        rows(folder, "query")


def test_settings_that_a_plain_masked_lm_does_not_say(tiny_bert: Path) -> None:
    """naver/splade-v3-doc is such a folder: its queries are bags of words."""
    assert rows(tiny_bert, "query", query="bag-of-words")[5] == {"wing": 1.0}
    assert rows(tiny_bert, "document", query="bag-of-words") == rows(tiny_bert, "document")
    with pytest.raises(LearnedSparseError, match=r"no weights of its own for the tower 'query'.*--query-checkpoint"):
        rows(tiny_bert, "query", query="separate")
    assert set(rows(tiny_bert, "document", expansion="lexical")[5]) <= {"wing"}  # as naver/splade-v3-lexical
    with pytest.raises(LearnedSparseError, match="log-log needs pooling: max"):
        rows(tiny_bert, "document", saturation="log-log", pooling="sum")


@pytest.mark.parametrize(
    ("files", "length", "assumed"),
    [
        ({"tokenizer_config.json": 20}, 20, False),
        ({"tokenizer_config.json": 20, "sentence_bert_config.json": 16}, 16, False),
        ({"tokenizer_config.json": 512}, 64, False),  # more than the positions of the model
        ({"tokenizer_config.json": 10**30}, 64, True),  # how transformers writes "no limit"
    ],
)
def test_the_maximum_length_of_a_plain_masked_lm(
    files: dict[str, int], length: int, assumed: bool, tiny_bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the folder says; without that 256 tokens, or all that the model can read, and a message."""
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "model"))
    for name, limit in files.items():
        key = "model_max_length" if name == "tokenizer_config.json" else "max_seq_length"
        content = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        (folder / name).write_text(json.dumps({**content, key: limit}))
    caplog.set_level("INFO", "encoders")
    description = load_encoder(str(folder), "document").description
    (message,) = caplog.messages
    assert (description["max_length"], f"{length} tokens" in message) == (length, assumed)
    assert "pooling=sum" in message


def test_pickled_unicoil_and_deep_impact_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    """A folder of uniCOIL is compared with Pyserini's classes where one is exported."""
    folder = Path(shutil.copytree(tiny_bert, tmp_path / "unicoil"))
    tensors = {name: tensor for name, tensor in load_file(folder / "model.safetensors").items() if name[:4] == "bert"}
    head = {"impact_score_encoder.0.weight": torch.ones(1, 16)}
    save_file({**tensors, **head}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(LearnedSparseError, match="DeepImpact weighs whole words"):
        read_notes(folder)
    (folder / "model.safetensors").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["UniCoilEncoder"]}))
    torch.save(tensors | {"tok_proj.weight": torch.ones(1, 16)}, folder / "pytorch_model.bin")
    with pytest.raises(LearnedSparseError, match="not a trained masked-LM"):  # no masked-LM with a random head
        rows(folder, "document")


@pytest.mark.jvm
@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_splade_of_pyserini(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Its integers are round(weight / 5 * 256)."""
    from learned_sparse.lucene.jvm import start_jvm

    start_jvm()
    from pyserini.encode import SpladeQueryEncoder

    folder = str(shutil.copytree(request.getfixturevalue(f"tiny_{kind}"), tmp_path / "splade"))
    theirs = SpladeQueryEncoder(for_pyserini(Path(folder)))
    ours = load_encoder(folder, "query", dtype="fp32").encode(TEXTS)
    for row, text in enumerate(TEXTS):
        impacts = {term: weight / 5 * 256 for term, weight in ours.row(row).items()}
        expected = theirs.encode(text)
        assert impacts.keys() == expected.keys()
        for term, impact in expected.items():
            assert impacts[term] == pytest.approx(impact, abs=0.5 + 1e-3), (text, term)
