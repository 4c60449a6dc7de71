"""Towers, the parts of a model with weights: what all have, and language models of Hugging Face.

Pretrained models and tokenizers are loaded without running code of a folder, and with clear errors.
"""

from __future__ import annotations

import math
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn
from torch.nn import functional

from encoders.checkpoints.hub import read_config, read_object, tensor_names
from encoders.head.vocabulary_head import MIN_TERMS, Screen
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_file

Attention = Literal["bidirectional", "echo", "causal"]
"""Attention of a decoder LM. ``bidirectional``: each token sees the whole text. ``echo``: the text is read twice, and
the states of the second copy, which see the whole text, are taken (Springer et al. 2024)."""
OUTPUT_BIAS = -6.0
"""Bias of an added masked-LM head: about 100 active terms per passage with MiniLM before training."""

_LOADING = threading.RLock()
_LAYER = re.compile(r"(?:^|\.)layers?\.(\d+)\.")
_GROUP = 12  # texts, on a CPU; of 48 in a step, four groups were the fastest
_GROUP_ON_ACCELERATOR = 31  # of 62 or 64 passages of MS MARCO, two groups have a third less tokens; time not measured
_WORTH = 0.9  # share of the tokens; each group has a gradient of the embeddings, so that few saved ones do not pay
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
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
        self.longest_input: int | None = getattr(getattr(model, "config", None), "max_position_embeddings", None)
        """Maximum number of tokens that the position embeddings allow; None without a limit."""
        for name, module in model.named_modules() if self.longest_input else ():
            if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
                self.longest_input -= module.padding_idx + 1  # RoBERTa's positions start after the padding id
                break
        if self.longest_input and getattr(model.config, "echo_input", False):
            self.longest_input //= 2
        self.causal = model is not None and type(model.config) not in transformers.MODEL_FOR_MASKED_LM_MAPPING
        """Whether the network is a decoder LM, whatever its attention is."""
        self._options: dict[str, Any] = {"use_cache": False} if self.causal else {}
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
        logits = probe(model, self.forward)
        self.screen = Screen() if decoder.out_features >= MIN_TERMS else None
        """Finds the terms that can have weight; None for a small vocabulary."""
        self.has_added_bias = False
        """Whether the output bias is one that transformers does not read, because its class has none."""
        self._decoder_name = next(name for name, module in model.named_modules() if module is decoder)
        model.set_submodule(self._decoder_name, nn.Identity())
        states, rounding = probe(model, self.forward, problem), 1e-6 * float(logits.nan_to_num().abs().max())
        with torch.inference_mode():
            decoded = decoder(states.to(model.device)).cpu() if states.shape[-1] == decoder.in_features else states
        if decoded.shape != logits.shape or not decoded.allclose(logits, rtol=0, atol=rounding, equal_nan=True):
            raise unsupported(model, problem)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Hidden states before the decoder, ``(batch, tokens, hidden)``; those of padding have no meaning."""
        options, tokens = dict(self._options), input_ids.shape[1]
        learns = torch.is_grad_enabled() or self.model.training
        if learns and (grouped := in_length_groups(self.forward, input_ids, attention_mask)):
            return grouped[0]
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
                bias = self.decoder.weight.new_zeros(self.vocabulary_size)
                self.decoder.bias, self.has_added_bias = nn.Parameter(bias), True
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
        lora: Mapping[str, Any] | None = None,
    ) -> LanguageModel:
        """A tower from the folder of a backbone.

        A backbone without masked-LM head gets one that starts as lexical matching: each hidden state scores the
        vocabulary by the input embeddings. ``output_bias`` sets how many terms have a positive score.
        ``num_hidden_layers`` keeps only the first layers. ``attention`` is for decoder LMs only; ``None``: as the
        folder says.
        """
        config = pretrained_config(folder, num_hidden_layers, attention)
        model, missing = load_pretrained(folder, config)
        if missing and getattr(config, "classifier_bias", None) is False:  # ModernBERT's head has no bias to be offset
            config.classifier_bias = True
            model, missing = load_pretrained(folder, config)
        if missing:
            _initialise_head(model, missing, output_bias)
        if lora is not None:
            from encoders.backbone.lora import add_lora

            add_lora(model, lora)
        return cls(model)


def _initialise_head(model: Any, missing: Iterable[str], output_bias: float) -> None:
    """Initialise the parameters named ``missing``: identity transform, decoder = input embeddings."""
    decoder, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    if not isinstance(decoder, nn.Linear) or decoder.weight.shape != embeddings.weight.shape:
        raise LearnedSparseError(f"{type(model).__name__}: no masked-LM head can be added; use a BERT-like backbone")
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
    weights = None
    if any(".lora_" in name for name, _ in model.named_parameters()):
        from encoders.backbone.lora import merged_weights

        weights = merged_weights(model)
    with quiet():
        model.save_pretrained(folder, state_dict=weights)


def pretrained_config(folder: Path, num_hidden_layers: int | None = None, attention: Attention | None = None) -> Any:
    """The configuration of the model in ``folder``, with the first layers only if given.

    ``attention`` is that of a decoder LM; ``None``: as its configuration says. Raises if there are no weights, if the
    model is no language model, or if it has fewer layers.
    """
    tensors, config = tensor_names(folder), read_config(folder)
    if type(config) not in transformers.MODEL_FOR_MASKED_LM_MAPPING:
        if type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
            raise LearnedSparseError(
                f"{folder}: {config.model_type} is not a masked-LM or decoder LM of transformers; use BERT"
            )
        if attention is None and not hasattr(config, "is_causal"):
            raise LearnedSparseError(
                f"{folder}: a decoder LM that is no encoder yet (no is_causal in config.json); train from it with "
                "encoders.train"
            )
        if attention is not None:
            # transformers 5.2 and sentence-transformers read is_causal; echo_input is ours
            config.is_causal, config.echo_input = attention != "bidirectional", attention == "echo"
    layers = [int(match[1]) for tensor in tensors if (match := _LAYER.search(tensor))]
    if layers and max(layers) >= getattr(config, "num_hidden_layers", math.inf):
        raise LearnedSparseError(  # transformers leaves the others out silently
            f"{folder}: config.json has {config.num_hidden_layers} layers, the weights have {max(layers) + 1}; "
            "copy or download both again"
        )
    if num_hidden_layers is not None:
        if not 0 < num_hidden_layers <= config.num_hidden_layers:
            raise LearnedSparseError(
                f"{folder}: num_hidden_layers must be 1 to {config.num_hidden_layers}, not {num_hidden_layers}"
            )
        keep_layers(config, num_hidden_layers)
    return config


def keep_layers(config: Any, number: int) -> None:
    """Make ``config`` that of the first ``number`` layers."""
    if number != config.num_hidden_layers:
        try:
            config.num_hidden_layers = number
        except NotImplementedError as error:
            raise LearnedSparseError(
                f"backbone type {config.model_type!r}: layers cannot be left out; use all {config.num_hidden_layers}"
            ) from error


def load_pretrained(folder: Path, config: Any, auto_class: Any = None) -> tuple[Any, frozenset[str]]:
    """A language model of transformers, or one of ``auto_class``, in float32; and parameters of its head that its files
    lack. A pooler is not used.

    Raises if the weights do not fit the configuration, if one is NaN or infinite, or if others are missing.
    """
    safe = any(folder.glob("*.safetensors"))
    options = {"use_safetensors": safe, "weights_only": True, "trust_remote_code": False, "dtype": torch.float32}
    causal = type(config) not in transformers.MODEL_FOR_MASKED_LM_MAPPING
    lm: Any = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    with quiet():
        try:
            model, loading = (auto_class or lm).from_pretrained(
                folder, config=config, output_loading_info=True, ignore_mismatched_sizes=True, **options
            )
        except MemoryError:
            raise
        except Exception as error:  # what transformers raises depends on config.json
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise LearnedSparseError(
                f"{folder}: weights cannot be read, or do not fit config.json ({reason}); copy or download both again"
            ) from error
    for tensor, stored, expected in sorted(loading["mismatched_keys"]):
        raise LearnedSparseError(
            f"{folder}: {tensor} has the shape {list(stored)} in the weights and {list(expected)} in config.json; "
            "copy or download both again"
        )
    missing = frozenset(name for name in loading["missing_keys"] if "pooler" not in name.split("."))
    base = "" if auto_class else f"{model.base_model_prefix}."
    if absent := sorted(name for name in missing if name.startswith(base)):
        raise LearnedSparseError(f"{folder}: no weights for {', '.join(absent[:3])}; copy or download the model again")
    check_finite(model.state_dict(), folder)
    if causal and not config.is_causal:
        for module in model.modules():  # attention without a mask asks the layer
            if hasattr(module, "is_causal"):
                module.is_causal = False
    return model, missing


def read_tensors(folder: Path, prefix: str) -> dict[str, Tensor]:
    """The tensors in the safetensors of ``folder`` whose names begin with ``prefix``, by the rest of the name."""
    tensors: dict[str, Tensor] = {}
    for path in folder.glob("model*.safetensors"):
        with safe_open(path, framework="pt") as file:
            names = (name for name in file.keys() if name.startswith(prefix))  # noqa: SIM118  (no mapping)
            tensors |= {name.removeprefix(prefix): file.get_tensor(name) for name in names}
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file atomically."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with new_file(path) as temporary:
        temporary.write_bytes(to_safetensors(content, metadata))


def check_finite(tensors: Mapping[str, Tensor], name: str | Path) -> None:
    """Raise if a number in ``tensors`` is NaN or infinite, which gives empty vectors; ``name`` opens the message."""
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            smallest, largest = torch.aminmax(tensor)
            if not (math.isfinite(smallest) and math.isfinite(largest)):
                raise LearnedSparseError(f"{name}: {key} holds NaN or infinite numbers; use an earlier checkpoint")


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of transformers in ``folder``."""
    if not any(file for pattern in _TOKENIZER_FILES for file in folder.glob(pattern)):
        # transformers 5 would create an empty one
        raise LearnedSparseError(f"{folder}: no tokenizer files ({', '.join(_TOKENIZER_FILES)}); copy them there")
    read_object(folder / "tokenizer_config.json", optional=True)
    try:
        with quiet():
            return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # tokenizers raises nothing narrower
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise LearnedSparseError(f"{folder}: no readable tokenizer: {reason}") from error


def in_length_groups(forward: Callable[[Tensor, Tensor], Any], *inputs: Tensor) -> list[Tensor] | None:
    """For training, ``forward`` of groups of texts of similar length, and their results; None: all at once.

    ``inputs`` are token ids and mask. Each result is ``(texts, tokens, size)``, 0 at the padding that was cut off. The
    texts of a step differ in length: in one group, half of the tokens were padding. Both passes of gradient caching
    have the same groups, so the same dropout. Outside training the caller sorts texts by length.
    """
    (texts, tokens), mask = inputs[0].shape, inputs[1]
    group = _GROUP if mask.device.type == "cpu" else _GROUP_ON_ACCELERATOR
    if texts < 2 * group:
        return None
    lengths = (mask.bool() * torch.arange(1, tokens + 1, device=mask.device)).amax(1).clamp(min=1).cpu()
    order = lengths.argsort(stable=True)
    groups = [(rows.to(mask.device), int(lengths[rows[-1]])) for rows in order.tensor_split(texts // group)]
    if sum(len(rows) * longest for rows, longest in groups) > _WORTH * texts * tokens:
        return None
    parts = []
    for rows, longest in groups:
        states = forward(*(each[rows, :longest] for each in inputs))
        states = states if isinstance(states, tuple) else (states,)
        parts.append([functional.pad(each, (0, 0, 0, tokens - longest)) for each in states])
    back = order.argsort().to(mask.device)
    return [torch.cat(states)[back] for states in zip(*parts, strict=True)]


def probe(model: Any, forward: Callable[[Tensor, Tensor], Tensor], problem: str = "") -> Tensor:
    """Results of ``forward(input_ids, attention_mask)`` of ``model`` for a text of three tokens and one of four, each
    with two paddings. Raises if it does not work (``problem`` may say why), or if its results depend on the padding.
    """
    padding, last = model.config.pad_token_id or 0, len(model.get_input_embeddings().weight) - 1
    input_ids = torch.arange(6).add(last // 2).clamp(max=last).repeat(4, 1)
    mask = torch.tensor([[1, 1, 1, 0, 0, 0]] * 2 + [[1, 1, 1, 1, 0, 0]] * 2)  # a model may pool pairs of positions
    input_ids[0::2].masked_fill_(mask[0::2] == 0, padding)
    input_ids[1::2].masked_fill_(mask[1::2] == 0, last)
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            result = forward(input_ids.to(model.device), mask.to(model.device)).cpu()
    except Exception as error:  # of any kind: this is the code of a model that this package may not know
        problem = problem or f"it cannot read token ids and a mask alone ({type(error).__name__})"
        raise unsupported(model, problem) from error
    finally:
        model.train(training)
    if result.shape[:2] != mask.shape:
        raise unsupported(model, "it does not give a result for each token")
    kept = mask.bool()
    first, second = result[0::2][kept[0::2]], result[1::2][kept[1::2]]
    if not torch.allclose(first, second, rtol=0, atol=1e-4 * float(first.nan_to_num().abs().max()), equal_nan=True):
        raise unsupported(model, "its results depend on the padding, so on the other texts of a batch")
    return result


def unsupported(model: Any, reason: str) -> LearnedSparseError:
    """The error about a backbone that this package cannot use."""
    return LearnedSparseError(
        f"backbone type {model.config.model_type!r} is not supported: {reason}; use for instance BERT, RoBERTa, "
        "DistilBERT, ELECTRA, ALBERT, MPNet, DeBERTa, ModernBERT, Qwen3 or Llama"
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and its report of missing and unused weights.

    This package handles missing weights itself; unused ones (a pooler, removed layers) are expected. One thread at a
    time: transformers also sets torch's defaults while it loads.
    """
    logging: Any = transformers.utils.logging
    with _LOADING:
        verbosity, progress_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            if progress_bars:
                logging.enable_progress_bar()


def save_random_bert(folder: Path, words: Sequence[str], kind: str, layers: int) -> None:
    """Save a small BERT of random weights and a tokenizer that knows ``words``, for rehearsals.

    ``kind``: ``masked-lm``, ``headless``, or ``classifier`` with one score for a text pair.
    """
    config: Any = transformers.BertConfig(
        vocab_size=len(words) + 5, hidden_size=32, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=512, initializer_range=0.1,
    )  # fmt: skip
    config.num_labels = 1
    models: dict[str, Any] = {
        "masked-lm": transformers.BertForMaskedLM, "headless": transformers.BertModel,
        "classifier": transformers.BertForSequenceClassification,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(0)
        transformers.BertTokenizer(vocab=vocabulary, model_max_length=512).save_pretrained(folder)
        models[kind](config).eval().save_pretrained(folder)
