"""Towers that give the states of chosen layers, and bring a small head of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from encoders.backbone.backbone import backbone_folder
from encoders.backbone.masked_lm import checked_layers, load_pretrained, longest_input, quiet, read_config
from encoders.backbone.packed_forward import PackedForward, known_layers
from encoders.backbone.sliced_feed_forward import SlicedFeedForward
from encoders.backbone.tower import TowerKind
from encoders.checkpoints import locate, require_safetensors
from learned_sparse.core import LearnedSparseError, atomic_write

HEAD = "head.safetensors"


class HiddenStates(nn.Module):
    """A Hugging Face encoder without pooler and masked-LM head, and a ``head`` that reads its states.

    ``tower(input_ids, attention_mask)`` gives the states of ``layers``, each ``(batch, tokens, hidden)``: one tensor
    for one layer, a tuple for several. Layers count from 1, 0 is the embeddings. Whoever uses the tower calls ``head``.
    """

    def __init__(self, model: Any, head: nn.Module, layers: Sequence[int]) -> None:
        """``model`` loses its pooler (changed in place)."""
        super().__init__()
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        self.model, self.head, self.layers = model, head, tuple(layers)
        self.packed = PackedForward.of(model)
        """A faster forward pass, for inference on the CPU; None where the model's own is all there is."""
        self._feed_forward = SlicedFeedForward(known_layers(model))

    @property
    def hidden_size(self) -> int:
        """Of the states."""
        size: int = self.model.config.hidden_size
        return size

    @property
    def vocabulary_size(self) -> int:
        """Rows of the input embeddings."""
        size: int = self.model.get_input_embeddings().num_embeddings
        return size

    @property
    def longest_input(self) -> int | None:
        """The most tokens the position embeddings allow, if they set a limit."""
        return longest_input(self.model.config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor | tuple[Tensor, ...]:
        """States of the one layer, or of each layer in the order of ``layers``; those of padding mean nothing."""
        if self.packed is not None and self.packed.suits(input_ids):
            states = tuple(self.packed(input_ids, attention_mask, self.layers))
            return states[0] if len(states) == 1 else states
        last = self.layers == (self.model.config.num_hidden_layers,)
        with self._feed_forward.forward(input_ids):
            found = self.model(
                input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=not last, return_dict=True
            )
        if last:
            final: Tensor = found.last_hidden_state
            return final
        chosen = tuple(found.hidden_states[layer] for layer in self.layers)
        return chosen[0] if len(chosen) == 1 else chosen

    def new_parameters(self) -> list[nn.Parameter]:
        """The head's: no backbone brings them."""
        return list(self.head.parameters())

    def save(self, folder: Path) -> None:
        """A normal Hugging Face folder and the head; the head comes last, and a folder without it is refused."""
        (folder / HEAD).unlink(missing_ok=True)
        with quiet():
            self.model.save_pretrained(folder)
        content = {name: tensor.detach().cpu().contiguous() for name, tensor in self.head.state_dict().items()}
        with atomic_write(folder / HEAD) as file:
            file.write(to_safetensors(content))


def hidden_states_kind(make_head: Callable[[int], nn.Module], layers: Sequence[int] | None = None) -> TowerKind:
    """Towers whose heads come from ``make_head(hidden size)`` and read ``layers``; ``None``: the last one.

    Layers above the highest are never loaded: they cannot change its states. A saved head may have parts that
    ``make_head`` does not ask for, so that a checkpoint can be read with fewer layers than it was trained with.
    """

    def load(folder: Path) -> HiddenStates:
        with torch.random.fork_rng():
            tower = _made(folder, None, None)
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
        return _made(backbone_folder(name), revision, num_hidden_layers)

    def _made(name: str | Path, revision: str | None, num_hidden_layers: int | None) -> HiddenStates:
        folder = locate(name, revision)
        require_safetensors(folder, name)
        config = read_config(folder, name)
        if num_hidden_layers is not None:
            config.num_hidden_layers = checked_layers(name, config, num_hidden_layers)
        asked = (config.num_hidden_layers,) if layers is None else tuple(layers)
        config.num_hidden_layers = _highest(name, asked, config.num_hidden_layers)
        model, missing = load_pretrained(transformers.AutoModel, folder, name, config)
        _check_complete(name, missing)
        return HiddenStates(model, make_head(config.hidden_size), asked)

    return TowerKind(load=load, from_backbone=from_backbone)


def _highest(name: str | Path, layers: tuple[int, ...], there: int) -> int:
    wrong = [layer for layer in layers if not 0 <= layer <= there]
    if wrong or not layers:
        raise LearnedSparseError(
            f"{name}: no layer {wrong[0] if wrong else 'was named'}; give layers from 0 to {there}"
        )
    return max(layers)


def _check_complete(name: str | Path, missing: frozenset[str]) -> None:
    absent = sorted(key for key in missing if "pooler" not in key.split("."))
    if absent:
        raise LearnedSparseError(f"{name}: no weights for {', '.join(absent[:3])}; copy or download the model again")


def _load_head(head: nn.Module, folder: Path) -> None:
    try:
        content = from_safetensors((folder / HEAD).read_bytes())
        absent = head.load_state_dict(content, strict=False).missing_keys
    except FileNotFoundError:
        raise LearnedSparseError(
            f"{folder}: no {HEAD}, so it was not saved to the end; copy or train it again"
        ) from None
    except (SafetensorError, RuntimeError) as error:
        raise LearnedSparseError(f"{folder / HEAD}: not this model's head: {error}") from error
    if absent:
        raise LearnedSparseError(f"{folder / HEAD}: no weights for {', '.join(absent[:3])}")
