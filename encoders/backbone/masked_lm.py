"""A masked language model cut in two: transformed hidden states, and the decoder that no longer reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from torch import Tensor, nn

from encoders.backbone.packed_forward import PackedForward, known_layers
from encoders.backbone.sliced_feed_forward import SlicedFeedForward
from encoders.checkpoints import locate, require_safetensors
from learned_sparse.core import LearnedSparseError


class Tower(nn.Module):
    """Any Hugging Face masked-LM without its last matrix product.

    ``tower(input_ids, attention_mask)`` gives the states ``(batch, tokens, hidden)`` that the output embedding (the
    *decoder*) would have read; ``decoder_weight`` ``(vocabulary, hidden)`` is the very tensor of the input embeddings
    if the model ties the two.
    """

    def __init__(self, model: Any) -> None:
        """Take the decoder out of ``model`` (changed in place)."""
        super().__init__()
        decoder: Any = model.get_output_embeddings()
        if not isinstance(decoder, nn.Linear):
            raise LearnedSparseError(
                f"{type(model).__name__}: no linear output embedding; use a masked-LM such as BERT"
            )
        self.decoder = decoder
        bias: Tensor | None = decoder.bias
        if bias is None:
            self.register_buffer("_no_bias", torch.zeros(decoder.out_features), persistent=False)
        self.model = model
        self._place = next(name for name, module in model.named_modules() if module is decoder)
        model.set_submodule(self._place, nn.Identity())
        self.packed = PackedForward.of(model)
        """A faster forward pass, for inference on the CPU; None where the model's own is all there is."""
        self._feed_forward = SlicedFeedForward(known_layers(model))

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
        """The most tokens the position embeddings allow, if they set a limit."""
        return longest_input(self.model.config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Transformed hidden states ``(batch, tokens, hidden)``; those of padding mean nothing."""
        if self.packed is not None and self.packed.suits(input_ids):
            return self.packed(input_ids, attention_mask)[0]
        with self._feed_forward.forward(input_ids):
            states: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=True).logits
        return states

    def new_parameters(self) -> list[nn.Parameter]:
        """None: heads that were added start as lexical matching, not at random."""
        return []

    def save(self, folder: Path) -> None:
        """A normal Hugging Face folder: ``config.json`` and ``model.safetensors``."""
        self.model.set_submodule(self._place, self.decoder)
        try:
            with quiet():
                self.model.save_pretrained(folder)
        finally:
            self.model.set_submodule(self._place, nn.Identity())

    @classmethod
    def load(cls, name: str | Path, revision: str | None = None) -> Tower:
        """From a folder or a Hub id; a model without trained masked-LM head is an error."""
        model, missing = load_masked_lm(name, revision)
        if missing:
            raise LearnedSparseError(
                f"{name}: not a trained masked-LM (no weights for {', '.join(sorted(missing)[:3])}); "
                "train from it with encoders.train, which adds a head"
            )
        return cls(model)


def load_masked_lm(
    name: str | Path, revision: str | None = None, num_hidden_layers: int | None = None
) -> tuple[Any, frozenset[str]]:
    """The whole masked-LM in float32, and the names of the parameters that its files do not have (a missing head)."""
    folder = locate(name, revision)
    require_safetensors(folder, name)
    config = read_config(folder, name)
    if num_hidden_layers is not None:
        config.num_hidden_layers = checked_layers(name, config, num_hidden_layers)
    return load_pretrained(transformers.AutoModelForMaskedLM, folder, name, config)


def checked_layers(name: str | Path, config: Any, num_hidden_layers: int) -> int:
    """``num_hidden_layers`` if a model with this configuration has so many."""
    if not 0 < num_hidden_layers <= config.num_hidden_layers:
        raise LearnedSparseError(
            f"{name}: num_hidden_layers must be 1 to {config.num_hidden_layers}, not {num_hidden_layers}"
        )
    return num_hidden_layers


def load_pretrained(kind: Any, folder: Path, name: str | Path, config: Any) -> tuple[Any, frozenset[str]]:
    """A model of transformers' auto class ``kind`` in float32, and the names of parameters that its files lack."""
    options = {"use_safetensors": True, "trust_remote_code": False, "dtype": torch.float32}
    if type(config) not in transformers.MODEL_FOR_MASKED_LM_MAPPING:
        raise LearnedSparseError(f"{name}: {config.model_type} is not a masked-LM that transformers knows; use BERT")
    with quiet():
        try:
            model, loading = kind.from_pretrained(folder, config=config, output_loading_info=True, **options)
        except ValueError as error:
            raise LearnedSparseError(f"{name}: not a masked-LM that transformers knows: {error}") from error
        except (OSError, SafetensorError) as error:
            raise LearnedSparseError(
                f"{name}: weights cannot be read ({error}); copy or download them again"
            ) from error
    return model, frozenset(loading["missing_keys"])


def longest_input(config: Any) -> int | None:
    """The most tokens the position embeddings of a Hugging Face model allow, if they set a limit."""
    longest = getattr(config, "max_position_embeddings", None)
    # RoBERTa's positions start after the padding id
    return longest - (config.pad_token_id + 1) if longest and "roberta" in config.model_type else longest


def read_config(folder: Path, name: str | Path) -> Any:
    """The Hugging Face configuration in ``folder``; ``name`` is for messages."""
    try:
        return transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise LearnedSparseError(f"{name}: no config.json that transformers can read: {reason}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and its report on absent and unused weights.

    Absent ones are handled here; unused ones (a pooler, layers cut off) are expected.
    """
    logging: Any = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
