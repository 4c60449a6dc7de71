"""Decoder LMs and adapters are trained by recipes, and their vectors are those of sentence-transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from encoders.encoding.loading import load_encoder
from encoders.encoding.model import load_checkpoint
from encoders.export.__main__ import main as export
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.training.conftest import WORDS, Recipes, Trained

DECODER: dict[str, Any] = {
    "vocab_size": 65, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1,
}  # fmt: skip
TEXTS = [" ".join(WORDS[:4]), " ".join(WORDS[7:9])]


@pytest.mark.parametrize("kind", ["qwen3", "llama", "bert"])
def test_a_trained_backbone_with_adapters(
    kind: str, tiny_backbone: Path, tiny_recipe: Recipes, trained: Trained, tmp_path: Path
) -> None:
    backbone, peers = tiny_backbone, pytest.importorskip("sentence_transformers.sparse_encoder")
    tokenizer: Any = transformers.BertTokenizer.from_pretrained(tiny_backbone)
    if kind != "bert":
        config = transformers.CONFIG_MAPPING[kind](**DECODER)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(backbone := tmp_path / kind)
        tokenizer.save_pretrained(backbone)
    changes = {"backbone": str(backbone), "lora": {"rank": 2}, "settings": {"pooling": "max"}}
    run = trained(tiny_recipe({"steps": 3}, gradient_checkpointing=True, **changes))
    assert len(run.logged("loss")) == 3
    assert not any("lora" in name for name in run.weights())
    model = load_checkpoint(run.folder)
    tokens = model.tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model.weighers.eval().document(tokens["input_ids"], tokens["attention_mask"])
    found = load_encoder(str(run.folder), "document", dtype="fp32").encode(TEXTS).to_scipy().toarray()
    assert found == pytest.approx(expected.numpy(), abs=1e-5)
    words = ["--checkpoint", str(run.folder), "--to", "sentence-transformers", "--output", str(tmp_path / "out")]
    if kind != "bert":
        with pytest.raises(LearnedSparseError, match="a decoder LM: other tools compute SPLADE with masked-LMs only"):
            export(words)
    else:
        assert export(words) == 0
        peer = peers.SparseEncoder(str(tmp_path / "out"), device="cpu", local_files_only=True)
        theirs = peer.encode_document(TEXTS, convert_to_sparse_tensor=False).cpu()
        assert float((expected - theirs).abs().max()) <= 1e-5
