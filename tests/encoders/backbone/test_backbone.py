"""Loading of backbones, and the masked-LM head that is added if the checkpoint has none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from encoders.backbone.towers import LanguageModel
from encoders.checkpoints.hub import locate
from encoders.head.vocabulary_head import pool
from learned_sparse.core.errors import LearnedSparseError

IDS = torch.tensor([[4, 60, 61, 62, 5]])


def states(tower: LanguageModel) -> torch.Tensor:
    with torch.no_grad():
        hidden: torch.Tensor = tower.eval()(IDS, torch.ones_like(IDS))
    return hidden


def test_an_added_head_is_nearly_the_identity(tiny_headless: Path) -> None:
    tower = LanguageModel.from_backbone(tiny_headless, output_bias=-2.5)
    body = transformers.AutoModel.from_pretrained(tiny_headless).eval()
    with torch.no_grad():
        hidden = body(IDS).last_hidden_state
        # GELU(x + 3) is almost x + 3; LayerNorm removes the 3
        expected = torch.nn.functional.layer_norm(torch.nn.functional.gelu(hidden + 3), hidden.shape[-1:], eps=1e-12)
    torch.testing.assert_close(states(tower), expected)
    assert torch.cosine_similarity(states(tower), hidden - hidden.mean(-1, keepdim=True), dim=-1).min() > 0.9
    assert tower.decoder.bias.eq(-2.5).all()
    assert tower.decoder.weight is tower.model.get_input_embeddings().weight
    assert all(parameter.requires_grad for parameter in tower.parameters())


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_fewer_layers(kind: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(f"tiny_{kind}")
    full, shortened = LanguageModel.from_backbone(folder), LanguageModel.from_backbone(folder, num_hidden_layers=1)
    assert sum(p.numel() for p in shortened.parameters()) < sum(p.numel() for p in full.parameters())
    assert shortened.model.config.num_hidden_layers == 1
    assert not torch.allclose(states(shortened), states(full))
    with pytest.raises(LearnedSparseError, match="1 to 2, not 3"):
        LanguageModel.from_backbone(folder, num_hidden_layers=3)


@pytest.fixture
def minilm() -> Path:
    return locate("minilm")


def test_untrained_minilm_matches_words_and_their_neighbours(minilm: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    text = "hives are caused by allergic reactions and can be a sign of pregnancy"
    inputs = tokenizer([text], return_tensors="pt", return_token_type_ids=False)
    tower = LanguageModel.from_backbone(minilm, num_hidden_layers=5).eval()
    with torch.no_grad():
        weights = pool(tower(**inputs), inputs["attention_mask"], *tower.decoder_parameters(), pooling="max")
    assert 30 < int((weights > 0).sum()) < 300
    top = set(tokenizer.convert_ids_to_tokens(weights[0].topk(20).indices.tolist()))
    assert {"allergic", "pregnancy", "pregnant", "symptoms"} <= top  # two words of the text, two neighbours
