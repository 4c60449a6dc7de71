"""Towers that give the states of chosen layers and have a small head of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as from_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from encoders.backbone.pretrained import (
    TowerKind,
    check_finite,
    in_length_groups,
    keep_layers,
    load_pretrained,
    longest_input,
    pretrained_config,
    probe,
    quiet,
)
from encoders.checkpoints import UNICOIL_HEAD
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write

HEAD = "head.safetensors"


class HiddenStates(nn.Module):
    """A Hugging Face encoder without pooler and masked-LM head, and a ``head`` that reads its states.

    ``tower(input_ids, attention_mask)`` gives the states of ``layers``, each ``(batch, tokens, hidden)``: one tensor
    for one layer, a tuple for several. Layers count from 1; 0 is the embeddings. The caller applies ``head``.
    """

    def __init__(self, model: Any, head: nn.Module, layers: Sequence[int]) -> None:
        """Remove the pooler of ``model``, which is changed in place.

        Raises for a model that does not give one state for each token.
        """
        super().__init__()
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        self.model, self.head, self.layers = model, head, tuple(layers)
        probe(model, lambda ids, mask: torch.cat([*self._states(ids, mask)], dim=-1))

    @property
    def hidden_size(self) -> int:
        """Size of the states."""
        size: int = self.model.config.hidden_size
        return size

    @property
    def vocabulary_size(self) -> int:
        """Rows of the input embeddings."""
        size: int = self.model.get_input_embeddings().num_embeddings
        return size

    @property
    def longest_input(self) -> int | None:
        """Maximum number of tokens that the position embeddings allow; None without a limit."""
        return longest_input(self.model)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor | tuple[Tensor, ...]:
        """States of the one layer, or of each of ``layers`` in order; those of padding have no meaning."""
        states = in_length_groups(self._states, input_ids, attention_mask)
        return states[0] if len(states) == 1 else states

    def _states(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        only_last = self.layers == (self.model.config.num_hidden_layers,)
        output = self.model(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=not only_last, return_dict=True
        )
        return (output.last_hidden_state,) if only_last else tuple(output.hidden_states[layer] for layer in self.layers)

    def new_parameters(self) -> list[nn.Parameter]:
        """The parameters of the head, which no backbone contains; they may need a higher learning rate."""
        return list(self.head.parameters())

    def save(self, folder: Path) -> None:
        """Write a normal Hugging Face folder, then the head: a folder without head is incomplete and is refused."""
        (folder / HEAD).unlink(missing_ok=True)
        with quiet():
            self.model.save_pretrained(folder)
        content = {name: tensor.detach().cpu().contiguous() for name, tensor in self.head.state_dict().items()}
        with atomic_write(folder / HEAD) as file:
            file.write(to_safetensors(content))


def hidden_states_kind(make_head: Callable[[int], nn.Module], layers: Sequence[int] | None = None) -> TowerKind:
    """Towers whose heads are made by ``make_head(hidden size)`` and read ``layers`` (``None``: the last one).

    Layers above the highest of ``layers`` are not loaded. A saved head may have parts that ``make_head`` does not
    create, so that a checkpoint can be read with fewer layers than it was trained with.
    """

    def load(folder: Path) -> HiddenStates:
        with torch.random.fork_rng(devices=[]):
            tower = from_backbone(folder)
        _load_head(tower.head, folder)
        return tower

    def from_backbone(
        name: str | Path,
        *,
        revision: str | None = None,
        num_hidden_layers: int | None = None,
        output_bias: float = 0.0,
    ) -> HiddenStates:
        del output_bias  # there are no outputs over the vocabulary
        folder, config = pretrained_config(name, revision, num_hidden_layers)
        chosen = [config.num_hidden_layers] if layers is None else layers
        keep_layers(config, _highest(name, chosen, config.num_hidden_layers))
        model, missing = load_pretrained(transformers.AutoModel, name, folder, config)
        _check_complete(name, missing)
        return HiddenStates(model, make_head(config.hidden_size), chosen)

    return TowerKind(load=load, from_backbone=from_backbone)


def _highest(name: str | Path, layers: Sequence[int], available: int) -> int:
    if not layers:
        raise LearnedSparseError(f"{name}: no layers given; give layers from 0 to {available}")
    for layer in layers:
        if not 0 <= layer <= available:
            raise LearnedSparseError(f"{name}: no layer {layer}; give layers from 0 to {available}")
    return max(layers)


def _check_complete(name: str | Path, missing: frozenset[str]) -> None:
    absent = sorted(key for key in missing if "pooler" not in key.split("."))
    if absent:
        raise LearnedSparseError(f"{name}: no weights for {', '.join(absent[:3])}; copy or download the model again")


def _load_head(head: nn.Module, folder: Path) -> None:
    try:
        content = _unicoil_head(folder) or from_safetensors((folder / HEAD).read_bytes())
        absent = head.load_state_dict(content, strict=False).missing_keys
    except FileNotFoundError:
        raise LearnedSparseError(
            f"{folder}: no {HEAD}, so it was not saved to the end; copy or train it again"
        ) from None
    except (SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise LearnedSparseError(f"{folder / HEAD}: not this model's head: {reason}") from error
    if absent:
        raise LearnedSparseError(f"{folder / HEAD}: no weights for {', '.join(absent[:3])}")
    check_finite(content, folder / HEAD)


def _unicoil_head(folder: Path) -> dict[str, Tensor]:
    """The head that Pyserini's uniCOIL keeps beside the encoder; empty in a tower of ours."""
    content: dict[str, Tensor] = {}
    for path in folder.glob("model*.safetensors"):
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(UNICOIL_HEAD)]  # noqa: SIM118  (no mapping)
            content |= {name.removeprefix(UNICOIL_HEAD): file.get_tensor(name) for name in names}
    return content
