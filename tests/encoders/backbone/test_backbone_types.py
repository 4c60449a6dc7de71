"""Each type of masked-LM in transformers gives its own logits through a tower, or is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from encoders.backbone import device
from encoders.backbone.hidden_states import HiddenStatesKind
from encoders.backbone.towers import LanguageModel
from encoders.head.vocabulary_head import pool
from learned_sparse.core.errors import LearnedSparseError

LONGEST = 32
SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "embedding_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": LONGEST,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FUNNEL = {"d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32, "block_sizes": [1, 1]}
OTHERS: dict[str, dict[str, Any]] = {
    "bart": {"d_model": 16},
    "esm": {"mask_token_id": 3},
    "funnel": FUNNEL,
    "llama": {"num_key_value_heads": 1},
    "longformer": {"attention_window": 4},
    "mobilebert": {"intra_bottleneck_size": 8, "true_hidden_size": 8},
    "deberta-v2, new head": {"legacy": False},
    "qwen3": {"num_key_value_heads": 1, "head_dim": 8},
}
EQUAL = {
    "albert": 32, "bert": 32, "big_bird": 32, "camembert": 31, "data2vec-text": 31, "deberta": 32, "deberta-v2": 32,
    "distilbert": 32, "electra": 32, "ernie": 32, "eurobert": 32, "flaubert": 32, "ibert": 31, "longformer": 31,
    "megatron-bert": 32, "modernbert": 32, "mpnet": 30, "nomic_bert": 32, "roberta": 31,
    "roformer": 32, "squeezebert": 32, "xlm": 32, "xlm-roberta": 31,
}  # fmt: skip
"""Longest input. RoBERTa's positions start after the padding id (0 here), MPNet's after 1."""
REFUSED = {
    "bart": "not a linear layer",
    "convbert": "depend on the padding",
    "deberta-v2, new head": "not a linear layer",
    "esm": "not a linear layer",
    "fnet": "depend on the padding",
    "funnel": "depend on the padding",
    "mobilebert": "depend on the padding",
    "nystromformer": "depend on the padding",
}
IDS, MASK = torch.tensor([[20, 21, 22, 23, 24], [25, 26, 27, 0, 0]]), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def random_model(kind: str, auto_class: Any = transformers.AutoModelForMaskedLM) -> Any:
    sizes = {**SIZES, **OTHERS.get(kind, {})}
    if kind == "funnel":
        del sizes["num_hidden_layers"]
    config = transformers.CONFIG_MAPPING[kind.partition(",")[0]](**sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = auto_class.from_config(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return model.float().eval()


@pytest.mark.parametrize("kind", EQUAL)
def test_equal_to_transformers(kind: str, tmp_path: Path) -> None:
    model = random_model(kind)
    with torch.no_grad():
        logits = model(input_ids=IDS, attention_mask=MASK).logits
    model.save_pretrained(tmp_path)
    tower = LanguageModel.load(tmp_path)
    assert tower.longest_input == EQUAL[kind]
    longest = torch.full((1, EQUAL[kind]), 20)
    with torch.no_grad():
        assert tower(longest, torch.ones_like(longest)).shape[:2] == longest.shape
        states = tower(IDS, MASK)
        weight, bias = tower.decoder.weight, tower.decoder.bias
        bias = torch.zeros(len(weight)) if bias is None else bias
        weights = pool(states, MASK, weight, bias, pooling="max", relu=False)
    expected = logits.masked_fill(MASK[:, :, None] == 0, -torch.inf).amax(1)
    torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-4)
    tower.save(tmp_path / "saved")
    assert torch.equal(LanguageModel.load(tmp_path / "saved")(IDS, MASK), tower(IDS, MASK))
    plain, report = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    with torch.no_grad():
        torch.testing.assert_close(plain.eval()(input_ids=IDS, attention_mask=MASK).logits, logits)
    for dtype in (torch.float32, torch.bfloat16):  # as encoders run it on a CPU
        with torch.no_grad():
            before = tower.to(dtype)(IDS, MASK)
            device.prepare_network(tower.model)
            after = tower(IDS, MASK)
        kept, rough = MASK.bool(), dtype == torch.bfloat16
        similarity = torch.cosine_similarity(after[kept].float(), before[kept].float(), dim=-1)
        assert similarity.min() > (0.99 if rough else 0.999999)
        if not rough:
            torch.testing.assert_close(after[kept], states[kept], rtol=1e-4, atol=1e-4)
        tower = LanguageModel.load(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_of_inference(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few texts at a time, with and without padding, as torch's own attention."""
    query, key, value = torch.randn(3, 5, 2, 7, 8, generator=torch.Generator().manual_seed(3)).to(dtype)
    padded = torch.zeros(5, 1, 1, 7, dtype=dtype)
    padded[2, :, :, 4:] = torch.finfo(dtype).min
    monkeypatch.setattr(device, "_SCORES", 2 * 7 * 7 * 2)  # two texts
    for mask in (None, padded, padded[2:3]):
        result, _ = device._attention(torch.nn.Identity(), query, key, value, mask)
        expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        tolerance = 1e-6 if dtype == torch.float32 else 0.03
        torch.testing.assert_close(result, expected.transpose(1, 2), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("capability", ["AVX2", "AVX512"])
def test_what_is_packed_for_inference(tiny_bert: Path, capability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    tower = LanguageModel.load(tiny_bert)
    weight = tower.model.bert.encoder.layer[0].attention.self.query.weight.clone()
    device.prepare_network(tower.model)
    assert tower.screen is None  # a small vocabulary
    assert not any(type(module) is torch.nn.Linear for module in tower.model.modules())
    layer = tower.model.bert.encoder.layer[0]
    assert torch.equal(layer.attention.self.query.weight, weight)
    inside = isinstance(layer.intermediate.intermediate_act_fn, torch.nn.Identity)
    assert inside == (capability == "AVX512")  # GELU is inside the product where that is faster


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind: str) -> None:
    model = random_model(kind)
    with pytest.raises(
        LearnedSparseError, match=f"'{model.config.model_type}' is not supported: .*{REFUSED[kind]}"
    ) as info:
        LanguageModel(model)
    assert "\n" not in str(info.value)


def test_layers_of_funnel_cannot_be_left_out(tmp_path: Path) -> None:
    random_model("funnel").save_pretrained(tmp_path)
    with pytest.raises(LearnedSparseError, match="'funnel': layers cannot be left out"):
        LanguageModel.from_backbone(tmp_path, num_hidden_layers=1)


@pytest.mark.parametrize("kind", ["mobilebert", "convbert"])
def test_hidden_states_are_refused_too(kind: str, tmp_path: Path) -> None:
    random_model(kind, transformers.AutoModel).save_pretrained(tmp_path)
    with pytest.raises(LearnedSparseError, match=f"'{kind}' is not supported"):
        HiddenStatesKind(torch.nn.Identity).from_backbone(tmp_path)
