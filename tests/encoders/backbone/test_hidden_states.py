"""Towers of chosen layers give the hidden states of the full model, before and after saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from encoders.backbone.hidden_states import HEAD, HiddenStates, HiddenStatesKind
from learned_sparse.core.errors import LearnedSparseError
from tests.tiny_models import VOCABULARY

IDS = torch.tensor([[4, 60, 61, 62, 5], [4, 70, 5, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


class Head(nn.Module):
    """A linear layer and a buffer, both saved."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, 1)
        self.register_buffer("mask", (torch.rand(hidden) < 0.5).float())


def new_tower(folder: Path, layers: tuple[int, ...] | None, **options: Any) -> HiddenStates:
    tower: HiddenStates = HiddenStatesKind(Head, layers).from_backbone(folder, **options)
    return tower.eval()


def states(tower: HiddenStates) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        outputs: tuple[torch.Tensor, ...] = tower(IDS, MASK)
    return outputs


@pytest.mark.parametrize("kind", ["bert", "distilbert", "headless"])
@pytest.mark.parametrize("layers", [None, (0,), (1,), (2,), (1, 2), (2, 0, 1)])
def test_states_equal_those_of_the_full_model(
    kind: str, layers: tuple[int, ...] | None, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(f"tiny_{kind}")
    with torch.no_grad():
        reference = transformers.AutoModel.from_pretrained(folder).eval()(IDS, MASK, output_hidden_states=True)
    tower = new_tower(folder, layers)
    outputs = states(tower)
    expected = (2,) if layers is None else layers
    for layer, state in zip(expected, outputs, strict=True):
        torch.testing.assert_close(state[MASK.bool()], reference.hidden_states[layer][MASK.bool()])
    assert tower.layers == expected
    assert tower.model.config.num_hidden_layers == max(expected)  # layers above are not loaded
    assert not any("pooler" in name for name, _ in tower.named_parameters())
    tower.save(tmp_path)
    before = torch.random.get_rng_state()
    loaded: HiddenStates = HiddenStatesKind(Head, layers).load(tmp_path).eval()
    assert torch.equal(torch.random.get_rng_state(), before)
    for first, second in zip(outputs, states(loaded), strict=True):
        assert torch.equal(first, second)
    for name, tensor in tower.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_hidden_states_are_a_tower(tiny_bert: Path, tmp_path: Path) -> None:
    tower = new_tower(tiny_bert, (1,))
    assert (tower.vocabulary_size, tower.longest_input) == (len(VOCABULARY), 64)
    assert {id(parameter) for parameter in tower.new_parameters()} == set(map(id, tower.head.parameters()))
    tower.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors", HEAD}
    transformers.AutoModel.from_pretrained(tmp_path)  # a normal folder
    assert set(load_file(tmp_path / HEAD)) == {"linear.weight", "linear.bias", "mask"}


def test_missing_layers(tiny_bert: Path) -> None:
    for layers, options in (((3,), {}), ((1, 2), {"num_hidden_layers": 1}), ((-1,), {})):
        with pytest.raises(LearnedSparseError, match=rf"no layer {layers[-1]}; give layers from 0 to"):
            new_tower(tiny_bert, layers, **options)
    assert new_tower(tiny_bert, None, num_hidden_layers=1).layers == (1,)
    with pytest.raises(LearnedSparseError, match="1 to 2, not 3"):
        new_tower(tiny_bert, None, num_hidden_layers=3)


def heads(*layers: int) -> Any:
    return HiddenStatesKind(lambda hidden: nn.ModuleDict({str(layer): Head(hidden) for layer in layers}), layers)


def test_fewer_layers_than_were_saved(tiny_bert: Path, tmp_path: Path) -> None:
    tower = heads(1, 2).from_backbone(tiny_bert)
    tower.save(tmp_path)
    first = heads(1).load(tmp_path)
    assert first.model.config.num_hidden_layers == 1
    assert torch.equal(first.head["1"].linear.weight, tower.head["1"].linear.weight)
    with pytest.raises(LearnedSparseError, match=r"head\.safetensors: no weights for 0\."):
        heads(0, 1).load(tmp_path)


def test_damaged_heads(tiny_bert: Path, tmp_path: Path) -> None:
    kind = HiddenStatesKind(Head)
    new_tower(tiny_bert, None).save(tmp_path)
    content = (tmp_path / HEAD).read_bytes()
    (tmp_path / HEAD).write_bytes(content[: len(content) // 2])
    with pytest.raises(LearnedSparseError, match=r"head\.safetensors: weights cannot be read"):
        kind.load(tmp_path)
    save_file({"linear.weight": torch.zeros(1, 3)}, tmp_path / HEAD)
    with pytest.raises(LearnedSparseError, match="not this model's head"):
        kind.load(tmp_path)
    (tmp_path / HEAD).unlink()
    with pytest.raises(LearnedSparseError, match="not saved to the end"):
        kind.load(tmp_path)
