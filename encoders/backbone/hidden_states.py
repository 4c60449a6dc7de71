"""Towers whose hidden states are read by a small head, such as a score of each token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from torch import Tensor, nn

from encoders.backbone.lora import add_lora
from encoders.backbone.towers import (
    Attention,
    Tower,
    check_finite,
    in_length_groups,
    keep_layers,
    load_pretrained,
    pretrained_config,
    probe,
    read_tensors,
    save_network,
    write_tensors,
)
from encoders.checkpoints.foreign import UNICOIL_HEAD
from learned_sparse.core.errors import LearnedSparseError

HEAD = "head.safetensors"


class HiddenStates(Tower):
    """A Hugging Face network without pooler and vocabulary head, and a ``head`` that reads its states.

    ``tower(input_ids, attention_mask)`` gives the states of each of ``layers``, ``(batch, tokens, hidden)``; those of
    padding have no meaning. Layers count from 1; 0 is the embeddings. The caller applies ``head``.
    """

    def __init__(self, model: Any, head: nn.Module, layers: Sequence[int]) -> None:
        """Remove the pooler of ``model``, which is changed in place.

        Raises for a model that does not give one state for each token.
        """
        super().__init__(model)
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        self.head, self.layers = head, tuple(layers)
        self.vocabulary_size = model.get_input_embeddings().num_embeddings
        probe(model, lambda ids, mask: torch.cat([*self(ids, mask)], dim=-1))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """States of each of ``layers``."""
        learns = torch.is_grad_enabled() or self.model.training
        if learns and (grouped := in_length_groups(self.forward, input_ids, attention_mask)):
            return tuple(grouped)
        only_last = self.layers == (self.model.config.num_hidden_layers,)
        output = self.model(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=not only_last, return_dict=True,
            **self._options,
        )  # fmt: skip
        return (output.last_hidden_state,) if only_last else tuple(output.hidden_states[layer] for layer in self.layers)

    def new_parameters(self) -> list[nn.Parameter]:
        """The parameters of the head."""
        return list(self.head.parameters())

    def save(self, folder: Path) -> None:
        """Write a normal Hugging Face folder, then the head: a folder without head is incomplete and is refused."""
        (folder / HEAD).unlink(missing_ok=True)
        save_network(self.model, folder)
        write_tensors(folder / HEAD, self.head.state_dict())


class HiddenStatesKind:
    """Towers whose heads are made by ``make_head(hidden size)`` and read ``layers`` (``None``: the last one).

    Layers above the highest of ``layers`` are not loaded. A saved head may have parts that ``make_head`` does not
    create, so that a checkpoint can be read with fewer layers than it was trained with.
    """

    def __init__(self, make_head: Callable[[int], nn.Module], layers: Sequence[int] | None = None) -> None:
        self._make_head, self._layers = make_head, layers

    def load(self, folder: Path) -> HiddenStates:
        """Read the network and its head."""
        with torch.random.fork_rng(devices=[]):
            tower = self.from_backbone(folder, attention=None, head_device="meta")  # random numbers would take time
        _load_head(tower.head, folder)
        return tower

    def from_backbone(
        self,
        folder: Path,
        *,
        num_hidden_layers: int | None = None,
        attention: Attention | None = "bidirectional",
        lora: Mapping[str, Any] | None = None,
        head_device: str = "cpu",
        **_: Any,
    ) -> HiddenStates:
        """As ``LanguageModel.from_backbone``."""
        config = pretrained_config(folder, num_hidden_layers, attention)
        if getattr(config, "echo_input", False):
            raise LearnedSparseError(f"{folder}: attention: echo is for architectures with a vocabulary head")
        chosen = [config.num_hidden_layers] if self._layers is None else self._layers
        available = config.num_hidden_layers
        for layer in chosen:
            if not 0 <= layer <= available:
                raise LearnedSparseError(f"{folder}: no layer {layer}; give layers from 0 to {available}")
        keep_layers(config, max(chosen))
        model = load_pretrained(folder, config, transformers.AutoModel)[0]
        if lora is not None:
            add_lora(model, lora)
        with torch.device(head_device):
            head = self._make_head(config.hidden_size)
        return HiddenStates(model, head, chosen)


def _load_head(head: nn.Module, folder: Path) -> None:
    try:
        # Pyserini's uniCOIL keeps its head beside the encoder; a tower of ours does not
        content = read_tensors(folder, UNICOIL_HEAD) or from_safetensors((folder / HEAD).read_bytes())
        absent = head.load_state_dict(content, strict=False, assign=True).missing_keys
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


TowerKind: TypeAlias = type[Any] | HiddenStatesKind
"""A class of towers such as ``LanguageModel``, or ``HiddenStatesKind``. It loads towers from ``towers/NAME`` of a
checkpoint (``load``), or creates them from the folder of a backbone (``from_backbone``), with random numbers of torch's
generator and the options of ``encoders.encoding.model.new_model``; a tower ignores those that it has no use for."""
