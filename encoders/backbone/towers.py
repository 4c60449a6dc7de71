"""Towers, the parts of a model with weights: what all have, and language models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from encoders.backbone.pretrained import (
    OUTPUT_BIAS,
    Attention,
    in_length_groups,
    is_causal,
    load_pretrained,
    longest_input,
    pretrained_config,
    probe,
    quiet,
    read_tensors,
    unsupported,
)
from encoders.head.screen import MIN_TERMS, Screen
from learned_sparse.core.errors import LearnedSparseError

_HEAD_OFFSET = 3.0  # GELU is nearly the identity there; LayerNorm removes the offset again


class Tower(nn.Module, ABC):
    """A part of a model with weights of its own, stored in ``towers/NAME``.

    Every tower has ``vocabulary_size`` and ``save``.
    """

    vocabulary_size: int
    """Number of token ids that the tower knows."""

    def __init__(self, model: Any = None) -> None:
        """``model``: a Hugging Face network, if the tower has one."""
        super().__init__()
        self.model = model
        self.longest_input = None if model is None else longest_input(model)
        """Maximum number of tokens that the position embeddings allow; None without a limit."""
        causal = model is not None and is_causal(model.config)
        self._options: dict[str, Any] = {"use_cache": False} if causal else {}
        """Options of each call of ``model``."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the weights into ``folder``, which may be missing."""

    def new_parameters(self) -> list[nn.Parameter]:
        """Parameters that no backbone contains; they may need a higher learning rate."""
        return []

    def trainable_parameters(self) -> list[nn.Parameter]:
        """Parameters that training may change: all of them; with LoRA those of the adapters and of the head."""
        adapters = [parameter for name, parameter in self.named_parameters() if ".lora_" in name]
        return [*adapters, *self.new_parameters()] if adapters else list(self.parameters())

    def add_to_bias(self, values: Tensor) -> bool:  # noqa: ARG002
        """Add ``values`` ``(vocabulary,)`` to the output bias; False without outputs over the vocabulary."""
        return False

    def recompute_layers(self) -> bool:
        """Compute layers again in the backward pass instead of keeping their results; False without layers.

        Raises for a network that cannot compute its layers again.
        """
        if self.model is None:
            return False
        options = {"use_reentrant": False}
        try:
            if hasattr(self.model, "activation_checkpointing_enable"):  # transformers 5.20
                self.model.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
            else:
                self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
        except ValueError as error:
            raise LearnedSparseError(
                f"gradient_checkpointing: backbone type {self.model.config.model_type!r} cannot compute its layers "
                "again; set gradient_checkpointing: false"
            ) from error
        return True


class LanguageModel(Tower):
    """A masked-LM or decoder LM of Hugging Face without its last matrix product.

    ``tower(input_ids, attention_mask)`` gives the states ``(batch, tokens, hidden)`` that the output embedding (the
    *decoder*) would read. Its weight ``(vocabulary, hidden)`` is the same tensor as the input embeddings if the model
    ties the two.
    """

    def __init__(self, model: Any) -> None:
        """Take the decoder out of ``model``, which is changed in place.

        Raises unless the logits of ``model`` are what the decoder gives.
        """
        super().__init__(model)
        decoder: Any = model.get_output_embeddings()
        problem = "its output embedding is not a linear layer with one output per token of the vocabulary"
        if not isinstance(decoder, nn.Linear) or decoder.out_features != len(model.get_input_embeddings().weight):
            raise unsupported(model, problem)
        self.decoder: nn.Linear = decoder
        self.vocabulary_size = decoder.out_features
        logits = probe(model, self._states)
        self.screen = Screen() if decoder.out_features >= MIN_TERMS else None
        """Finds the terms that can have weight; None for a small vocabulary."""
        self.has_added_bias = False
        """Whether the output bias is one that transformers does not read, because its class has none."""
        self._decoder_name = next(name for name, module in model.named_modules() if module is decoder)
        model.set_submodule(self._decoder_name, nn.Identity())
        decoded = probe(model, lambda *inputs: decoder(self._states(*inputs)), problem)
        rounding = 1e-6 * float(logits.nan_to_num().abs().max())
        if not torch.allclose(decoded, logits, rtol=0, atol=rounding, equal_nan=True):
            raise unsupported(model, problem)

    def decoder_parameters(self) -> tuple[Tensor, Tensor]:
        """``E`` ``(vocabulary, hidden)`` and ``b`` ``(vocabulary,)`` of the papers; 0 for a decoder without bias."""
        weight, bias = self.decoder.weight, self.decoder.bias
        return weight, weight.new_zeros(len(weight)) if bias is None else bias

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Hidden states before the decoder, ``(batch, tokens, hidden)``; those of padding have no meaning."""
        return in_length_groups(lambda *inputs: (self._states(*inputs),), input_ids, attention_mask)[0]

    def _states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        options, tokens = dict(self._options), input_ids.shape[1]
        if getattr(self.model.config, "echo_input", False):  # the positions leave out padding between the two copies
            input_ids, attention_mask = input_ids.repeat(1, 2), attention_mask.repeat(1, 2)
            options["position_ids"] = (attention_mask.cumsum(1) - 1).clamp(min=0)
        states: Tensor = self.model(
            input_ids=input_ids, attention_mask=attention_mask, return_dict=True, **options
        ).logits
        return states[:, -tokens:]

    def add_to_bias(self, values: Tensor) -> bool:
        """Add ``values`` ``(vocabulary,)`` to the output bias, which is created if the decoder has none."""
        with torch.no_grad():
            if self.decoder.bias is None:
                self.decoder.bias, self.has_added_bias = nn.Parameter(self.decoder_parameters()[1]), True
            self.decoder.bias.add_(values.to(self.decoder.bias.device))
        return True

    def save(self, folder: Path) -> None:
        """Write a normal Hugging Face folder: ``config.json`` and ``model.safetensors``."""
        self.model.set_submodule(self._decoder_name, self.decoder)
        try:
            save_network(self.model, folder)
        finally:
            self.model.set_submodule(self._decoder_name, nn.Identity())

    @classmethod
    def load(cls, folder: Path) -> LanguageModel:
        """A tower from a folder; a model without a trained head over the vocabulary is an error."""
        model, missing = load_pretrained(folder, pretrained_config(folder))
        if missing:
            raise LearnedSparseError(
                f"{folder}: not a trained masked-LM (no weights for {', '.join(sorted(missing)[:3])}); "
                "train from it with encoders.train, which adds a head"
            )
        tower = cls(model)
        if tower.decoder.bias is None:  # transformers does not load a bias that its class lacks
            for bias in read_tensors(folder, f"{tower._decoder_name}.bias").values():
                tower.add_to_bias(bias)
        return tower

    @classmethod
    def from_backbone(
        cls,
        folder: Path,
        *,
        num_hidden_layers: int | None = None,
        output_bias: float = OUTPUT_BIAS,
        attention: Attention | None = "bidirectional",
        adapt: Callable[[Any], None] = lambda _: None,
    ) -> LanguageModel:
        """A tower from the folder of a backbone.

        A backbone without masked-LM head gets one that starts as lexical matching: each hidden state scores the
        vocabulary by the input embeddings. ``output_bias`` sets how many terms have a positive score.
        ``num_hidden_layers`` keeps only the first layers. ``attention`` is for decoder LMs only; ``None``: as the
        folder says. ``adapt`` changes the network in place before it is probed, such as ``add_lora``.
        """
        config = pretrained_config(folder, num_hidden_layers, attention)
        model, missing = load_pretrained(folder, config)
        if missing and getattr(config, "classifier_bias", None) is False:  # ModernBERT's head has no bias to be offset
            config.classifier_bias = True
            model, missing = load_pretrained(folder, config)
        if missing:
            _initialise_head(model, missing, output_bias)
        adapt(model)
        return cls(model)


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
    modules = [model.get_submodule(name) for name in sorted({name.rpartition(".")[0] for name in missing})]
    if decoder.bias is None or any(isinstance(module, nn.Linear) and module.bias is None for module in modules):
        raise LearnedSparseError(
            f"{type(model).__name__}: no masked-LM head can be added, because its layers have no bias; use a backbone "
            "that was trained with its head"
        )
    with torch.no_grad():
        for module in modules:
            if isinstance(module, nn.Linear) and module is not decoder:
                nn.init.eye_(module.weight)
                nn.init.constant_(module.bias, _HEAD_OFFSET)
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()
        decoder.weight.copy_(embeddings.weight)
        decoder.bias.fill_(output_bias)


def save_network(model: Any, folder: Path) -> None:
    """Write a normal Hugging Face folder; adapters are merged into its weights."""
    from encoders.backbone.lora import merged_weights

    with quiet():
        model.save_pretrained(folder, state_dict=merged_weights(model))
