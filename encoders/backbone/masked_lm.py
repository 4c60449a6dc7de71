"""Masked language models split in two: a network that gives hidden states, and the decoder matrix."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from encoders.backbone.pretrained import (
    OUTPUT_BIAS,
    TowerKind,
    in_length_groups,
    load_pretrained,
    longest_input,
    pretrained_config,
    probe,
    quiet,
    unsupported,
)
from encoders.head import Screen
from learned_sparse.core.errors import LearnedSparseError

_HEAD_OFFSET = 3.0  # GELU is nearly the identity there; LayerNorm removes the offset again


class Tower(nn.Module):
    """A Hugging Face masked-LM without its last matrix product.

    ``tower(input_ids, attention_mask)`` gives the states ``(batch, tokens, hidden)`` that the output embedding (the
    *decoder*) would read. ``decoder_weight`` ``(vocabulary, hidden)`` is the same tensor as the input embeddings if
    the model ties the two.
    """

    def __init__(self, model: Any) -> None:
        """Take the decoder out of ``model``, which is changed in place.

        Raises unless the logits of ``model`` are what the decoder gives.
        """
        super().__init__()
        decoder: Any = model.get_output_embeddings()
        _check_decoder(model, decoder)
        self.decoder: nn.Linear = decoder
        self.screen: Screen | None = None
        """Finds the terms that can have weight; set by ``prepare_for_inference``."""
        bias: Tensor | None = decoder.bias
        if bias is None:
            self.register_buffer("_no_bias", torch.zeros(decoder.out_features), persistent=False)
        self.model = model
        self._decoder_name = next(name for name, module in model.named_modules() if module is decoder)
        model.set_submodule(self._decoder_name, nn.Identity())

    @property
    def decoder_weight(self) -> Tensor:
        """``E`` of the papers, ``(vocabulary, hidden)``."""
        return self.decoder.weight

    @property
    def decoder_bias(self) -> Tensor:
        """``b`` of the papers, ``(vocabulary,)``."""
        bias: Tensor = self._no_bias if self.decoder.bias is None else self.decoder.bias
        return bias

    @property
    def vocabulary_size(self) -> int:
        """The number of dimensions."""
        return self.decoder.out_features

    @property
    def longest_input(self) -> int | None:
        """Maximum number of tokens that the position embeddings allow; None without a limit."""
        return longest_input(self.model)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Hidden states before the decoder, ``(batch, tokens, hidden)``; those of padding have no meaning."""
        (states,) = in_length_groups(lambda ids, mask: (_logits(self.model, ids, mask),), input_ids, attention_mask)
        return states

    def new_parameters(self) -> list[nn.Parameter]:
        """Randomly initialised parameters: none, because an added head starts as lexical matching."""
        return []

    def save(self, folder: Path) -> None:
        """Write a normal Hugging Face folder: ``config.json`` and ``model.safetensors``."""
        self.model.set_submodule(self._decoder_name, self.decoder)
        try:
            with quiet():
                self.model.save_pretrained(folder)
        finally:
            self.model.set_submodule(self._decoder_name, nn.Identity())

    @classmethod
    def load(cls, name: str | Path, revision: str | None = None) -> Tower:
        """A tower from a folder or Hub id; a model without a trained masked-LM head is an error."""
        model, missing = load_pretrained(transformers.AutoModelForMaskedLM, name, *pretrained_config(name, revision))
        if missing:
            raise LearnedSparseError(
                f"{name}: not a trained masked-LM (no weights for {', '.join(sorted(missing)[:3])}); "
                "train from it with encoders.train, which adds a head"
            )
        return cls(model)


def _check_decoder(model: Any, decoder: Any) -> None:
    """Raise unless the logits of ``model`` are what ``decoder`` gives, one for each token of the vocabulary."""
    problem = "its output embedding is not a linear layer with one output per token of the vocabulary"
    if not isinstance(decoder, nn.Linear) or decoder.out_features != len(model.get_input_embeddings().weight):
        raise unsupported(model, problem)
    outputs: list[Tensor] = []

    def forward(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        outputs.append(_logits(model, input_ids, attention_mask))
        return outputs[-1]

    hook = decoder.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    try:
        probe(model, forward)
    finally:
        hook.remove()
    if len(outputs) != 2 or outputs[0].data_ptr() != outputs[1].data_ptr():
        raise unsupported(model, problem)


def _logits(model: Any, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    logits: Tensor = model(input_ids=input_ids, attention_mask=attention_mask, return_dict=True).logits
    return logits


def load_backbone(
    name: str | Path,
    *,
    revision: str | None = None,
    num_hidden_layers: int | None = None,
    output_bias: float = OUTPUT_BIAS,
) -> Tower:
    """A tower from a Hugging Face folder, a Hub id, or the name of a published model such as ``minilm``.

    ``num_hidden_layers`` keeps only the first layers. A backbone without masked-LM head gets one that starts as lexical
    matching: each hidden state scores the vocabulary by the input embeddings. ``output_bias`` sets how many terms have
    a positive score.
    """
    folder, config = pretrained_config(name, revision, num_hidden_layers)
    model, missing = load_pretrained(transformers.AutoModelForMaskedLM, name, folder, config)
    if missing:
        _initialise_head(model, missing, output_bias)
    return Tower(model)


MASKED_LM = TowerKind(load=Tower.load, from_backbone=load_backbone)
"""A whole masked-LM."""


def _initialise_head(model: Any, missing: Iterable[str], output_bias: float) -> None:
    """Initialise the parameters named ``missing``: identity transform, decoder = input embeddings."""
    decoder, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    if not isinstance(decoder, nn.Linear) or decoder.weight.shape != embeddings.weight.shape:
        raise LearnedSparseError(f"{type(model).__name__}: no masked-LM head can be added; use a BERT-like backbone")
    absent = sorted(name for name in missing if name.startswith(f"{model.base_model_prefix}."))
    if absent:
        raise LearnedSparseError(
            f"{type(model).__name__}: no weights for {', '.join(absent[:3])}; copy or download the backbone again"
        )
    modules = {name.rpartition(".")[0] for name in missing}
    with torch.no_grad():
        for module in (model.get_submodule(name) for name in sorted(modules)):
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()
            elif isinstance(module, nn.Linear) and module is not decoder:
                nn.init.eye_(module.weight)
                nn.init.constant_(module.bias, _HEAD_OFFSET)
        decoder.weight.copy_(embeddings.weight)
        decoder.bias.fill_(output_bias)
