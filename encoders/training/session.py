"""The processes of a run and the model of each: built from the recipe, encoding texts, saved and loaded."""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import accelerate
import numpy as np
import numpy.typing as npt
import torch
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast_object_list
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file
from torch import Tensor, nn

from encoders.backbone.device import choose_device, has_bf16, set_random_state
from encoders.checkpoints.notes import as_json, is_sparse_encoder
from encoders.checkpoints.tokenizer import tokenize_texts
from encoders.encoding.model import LoadedModel, new_model
from encoders.models import SIDES
from encoders.models.architecture import QUERY_WEIGHTS
from encoders.models.objectives import TermWeighers
from encoders.training.examples import Examples, Run, Vectors, best_documents, sample_texts
from encoders.training.recipe import Recipe, Stage
from learned_sparse.collections.topics import Query
from learned_sparse.core.encoder import Side, encode_texts
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.files import new_file
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.settings import parse

if TYPE_CHECKING:
    from encoders.encoding.encoder import CheckpointEncoder

_logger = logging.getLogger(__name__)
T = TypeVar("T")

IDF_DOCUMENTS = 20_000
"""Maximum number of documents of each source that document frequencies are counted in for ``idf_bias``."""

CALIBRATION_TEXTS = 1000
"""Number of training texts of each side that quantisers without a factor are calibrated on."""

TIMEOUT = timedelta(days=2)
"""Time that processes wait for each other: the main process validates, mines and writes alone. NCCL's 10 minutes end a
run whose validation takes longer; a process that fails is noticed at once by the launcher, which ends all others."""


class Session:
    """The processes of a run and the model that each of them holds; usually there is one process."""

    def __init__(self, recipe: Recipe, device: str | None, trackers: Sequence[Any] = (), folder: Path = Path()) -> None:
        """``trackers``: names or trackers of accelerate, which write below ``folder`` if they write files."""
        if not torch.distributed.is_initialized():  # an earlier run in this process may have had another device
            AcceleratorState._reset_state(reset_partial_state=True)  # noqa: SLF001
        self.processes = accelerate.Accelerator(
            cpu=device == "cpu", kwargs_handlers=[accelerate.InitProcessGroupKwargs(timeout=TIMEOUT)],
            log_with=list(trackers) or None, project_dir=folder,
        )  # fmt: skip
        state = self.processes.state
        configured = f"mixed_precision {state.mixed_precision}", state.distributed_type.name
        if state.mixed_precision != "no" or configured[1] in {"FSDP", "DEEPSPEED", "MEGATRON_LM"}:
            raise LearnedSparseError(
                f"accelerate's {' or '.join(configured)} has no effect here; give accelerate config mixed_precision "
                "'no' and multi-GPU, and set precision in the recipe"
            )
        for tracker, packages in {"tensorboard": ("tensorboard", "tensorboardX"), "wandb": ("wandb",)}.items():
            if tracker in trackers and not any(map(importlib.util.find_spec, packages)):
                raise LearnedSparseError(f"--log-with {tracker}: the package {packages[0]} is missing: install it")
        assigned: torch.device = self.processes.device  # each of several processes gets its device from accelerate
        self.num_processes = int(self.processes.num_processes)
        self.process_index = int(self.processes.process_index)  # from 0
        self.is_main = self.process_index == 0
        chosen = choose_device(None if self.num_processes > 1 else device)  # limits the threads, too
        self.device = assigned if device is None or self.num_processes > 1 else chosen
        self.recipe = recipe
        self.precision: str = recipe.precision
        if self.precision == "auto":
            self.precision = "bf16" if has_bf16(self.device) else "fp32"
        self.autocast = partial(torch.autocast, self.device.type, torch.bfloat16, enabled=self.precision == "bf16")
        """Context in which products are bfloat16 if ``precision`` is ``bf16``; the weights keep their data type."""
        bias: dict[str, Any] = {} if recipe.output_bias is None else {"output_bias": recipe.output_bias}
        self.model = new_model(
            recipe.architecture, recipe.settings, recipe.backbone, num_hidden_layers=recipe.num_hidden_layers,
            seed=recipe.seed, max_length=recipe.max_length, attention=recipe.attention, lora=recipe.lora, **bias,
        )  # fmt: skip
        towers = self.model.towers
        if recipe.gradient_checkpointing and True not in [tower.recompute_layers() for tower in towers.values()]:
            raise LearnedSparseError("gradient_checkpointing: no tower of this model has layers; set it to false")
        self.model.weighers.to(self.device)
        self._encoders: dict[tuple[Side, str | None], CheckpointEncoder] = {}
        for stage in recipe.stages:  # an error in a later stage is raised at once
            self.use_settings(stage)
            cotraining = stage.options.cotraining
            smallest = min(stage.batch_size, stage.batch_size if cotraining is None else cotraining.selected)
            if smallest < self.num_processes:
                raise LearnedSparseError(
                    f"stage {stage.name}: an update of {smallest} queries is too small for {self.num_processes} "
                    "processes; start fewer"
                )

    def use_settings(self, stage: Stage | None, mixture: Mapping[str, Any] | None = None) -> None:
        """Rebuild both sides with what training has learned and with the settings of ``stage``; the towers stay.

        Without a stage, the model of the checkpoint: what was learned and the best ``mixture`` become its settings.
        """
        changes, model = {} if stage is None else stage.settings, self.model
        where, allowed = f"stage {stage.name if stage else ''}: settings", model.settings.stage_settings
        for name in sorted(changes.keys() - allowed):
            hint = did_you_mean(name, allowed) if allowed else "; no setting of this architecture can"
            raise LearnedSparseError(f"{where}: {name!r} cannot change by stage{hint}")
        learned = {**getattr(model.weighers.document, "learned", dict)(), **changes, **(mixture or {})}
        if not learned or (stage is not None and not any(part.settings for part in self.recipe.stages)):
            return
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in learned.items()}
        settings = parse(type(model.settings), {**as_json(model.settings), **plain}, where)
        model.weighers = TermWeighers.of(settings, model.towers, model.vocabulary).to(self.device)
        if stage is None:
            model.settings = settings
            model.quantizers = {side: settings.quantizer(side) for side in SIDES}
        self._encoders.clear()

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The rows of each process, in their order; processes may have different numbers of rows."""
        if self.num_processes == 1:
            return [tensor]
        sizes: list[int] = self.processes.gather(torch.tensor([len(tensor)], device=self.device)).tolist()
        if max(sizes) == 0:
            return [tensor] * len(sizes)
        rows: Tensor = self.processes.gather(self.processes.pad_across_processes(tensor))
        return [part[:size] for part, size in zip(rows.split(max(sizes)), sizes, strict=True)]

    def gather_array(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The rows of all processes."""
        device = self.device if self.num_processes > 1 else "cpu"  # Apple GPUs have no float64
        gathered: npt.NDArray[Any] = torch.cat(self.gather(torch.from_numpy(array).to(device))).cpu().numpy()
        return gathered

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over the processes."""
        return cast("Tensor", self.processes.reduce(tensor, reduction="sum"))

    def on_main(self, compute: Callable[[], T]) -> T:
        """The result of ``compute`` in the main process, in every process."""
        (result,) = broadcast_object_list([compute() if self.is_main else cast("T", None)])
        return cast("T", result)

    def encode(self, side: Side, texts: Sequence[str], component: str | None = None) -> Vectors:
        """Weights of ``texts`` (texts, dimensions) by the current model or one component of it, without dropout."""
        from encoders.encoding.encoder import CheckpointEncoder

        module, model = self.model.weighers.part(component)[side], self.model
        with evaluating(module), self.autocast():
            if (side, component) not in self._encoders:
                terms, length = model.settings.terms or model.vocabulary.terms, model.max_length[side]
                self._encoders[side, component] = CheckpointEncoder(
                    module, model.tokenizer, terms, max_length=length, device=self.device, dtype="fp32"
                )
            return encode_texts(self._encoders[side, component], texts).to_scipy()

    def rank(
        self,
        queries: Sequence[Query],
        pool: Mapping[str, str],
        depth: int,
        *,
        checkpoint: str | None = None,
        component: str | None = None,
        observe: Callable[[Side, Vectors], None] = lambda *_: None,
    ) -> Run:
        """The ``depth`` best documents of each query, by ``checkpoint``, or by the current model or one component.

        All processes search, each its share of the documents. ``observe`` gets the weights of all texts.
        """
        from encoders.encoding.loading import load_encoder

        sides = {} if checkpoint is None else {s: load_encoder(checkpoint, s, device=str(self.device)) for s in SIDES}

        def encode(side: Side, texts: Sequence[str]) -> Vectors:
            vectors = encode_texts(sides[side], texts).to_scipy() if sides else self.encode(side, texts, component)
            observe(side, vectors)
            return vectors

        place = {"process": self.process_index, "processes": self.num_processes}
        device = self.device if self.device.type == "cuda" else None  # others have no sparse products
        return best_documents(encode, queries, pool, depth, gather=self.gather_array, device=device, **place)

    def start_from(self, documents: Sequence[str]) -> None:
        """Set start values by the document frequencies (df) of terms in ``documents``.

        A table of query weights gets ``ln((N + 1) / (df + 1)) / ln(N + 1)``. ``idf_bias * ln((N + 1) / (df + 1))`` is
        added to the output bias of every term: an untrained head then starts near tf-idf; a short run moves a bias as
        little as any other parameter. Towers that give no term weights (gates) or have no output over the vocabulary
        stay as they are.
        """
        recipe, towers = self.recipe, self.model.towers
        frequencies = inverse_document_frequencies(self.model, documents)
        if QUERY_WEIGHTS in towers:
            with torch.no_grad():
                towers[QUERY_WEIGHTS].weights.copy_(frequencies / math.log(len(documents) + 1))
        if not recipe.idf_bias:
            return
        if is_sparse_encoder(recipe.backbone):
            _logger.warning(
                "backbone %s is a sparse encoder already, which idf_bias %g changes for the worse; "
                "--set idf_bias=0, or take the recipe fine-tune-splade", recipe.backbone, recipe.idf_bias,
            )  # fmt: skip
        names = self.model.settings.trained_by_ranking
        if True not in [towers[name].add_to_bias(recipe.idf_bias * frequencies) for name in names]:
            raise LearnedSparseError(
                "idf_bias: no tower of this model has output biases over the vocabulary; leave it out"
            )

    def calibrate(self, sources: Sequence[Examples]) -> None:
        """Calibrate the quantisers that are missing, on texts of ``sources``, to the bits of the recipe.

        Weights that are whole numbers have the factor 1.
        """
        self._encoders.clear()
        texts = sample_texts(sources, self.recipe.negatives, CALIBRATION_TEXTS, self.recipe.seed)
        for side in (side for side in SIDES if self.model.quantizers[side] is None):
            values = self.encode(side, texts[side]).data
            whole = len(values) > 0 and np.array_equal(values, np.rint(values))
            self.model.quantizers[side] = Quantizer(1.0) if whole else Quantizer.calibrate(values, self.recipe.bits)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """``module`` in evaluation mode; each of its submodules gets its mode back at the end."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def inverse_document_frequencies(model: LoadedModel, documents: Sequence[str]) -> Tensor:
    """ln((N + 1) / (df + 1)) of every term ``(vocabulary,)``; 0 for special and ``[unused]`` tokens: no words."""
    vocabulary = model.vocabulary
    frequencies = torch.zeros(len(vocabulary.terms))
    for start in range(0, len(documents), 1000):
        chunk = list(documents[start : start + 1000])
        encoded = tokenize_texts(model.tokenizer, chunk, truncation=True, max_length=model.max_length["document"])
        for ids in encoded["input_ids"]:
            frequencies[list(set(ids))] += 1
    inverse = torch.log((len(documents) + 1) / (frequencies + 1))
    inverse[[*vocabulary.special_ids, *vocabulary.unused_ids]] = 0
    return inverse


def save_state(
    folder: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    random_states: Tensor,
    counts: Mapping[str, Tensor],
) -> None:
    """Write all tensors of a run: weights, optimizer, random numbers, and the ``counts`` of an unfinished window.

    ``random_states`` has one row of ``random_state`` for each process.
    """
    content = {"random_states": random_states, **{f"counts/{name}": tensor for name, tensor in counts.items()}}
    for number, state in optimizer.state_dict()["state"].items():
        content |= {f"optimizer/{number}/{name}": tensor for name, tensor in state.items()}
    save_file(_tensors(module), folder / "weights.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in content.items()}, folder / "state.safetensors")


def load_state(
    folder: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    process: int,
    processes: int,
) -> dict[str, Tensor]:
    """Restore weights, optimizer and random numbers of a saved state; returns its ``counts``.

    With another number of ``processes`` or another kind of device than before, the random numbers are not restored: the
    results differ, and a warning says so.
    """
    load_weights(folder / "weights.safetensors", module)
    with _readable(folder / "state.safetensors") as path:
        content = load_file(path)
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in _part(content, "optimizer/").items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    rows = content["random_states"]
    if len(rows) != processes or not set_random_state(rows[process], device):
        _logger.warning(
            "%s: saved with another number of processes or on another kind of device; its random numbers are not "
            "restored, and the weights will differ from those of an undisturbed run",
            folder,
        )
    return _part(content, "counts/")


def save_weights(path: Path, module: nn.Module) -> None:
    """Write the tensors of ``module`` as safetensors, whole or not at all."""
    with new_file(path) as temporary:
        save_file(_tensors(module), temporary)


def load_weights(path: Path, module: nn.Module) -> None:
    """Put the tensors of ``path`` into ``module``."""
    with _readable(path):
        load_model(module, path)


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Each tensor once. safetensors' ``save_model`` names shared tensors in an order that differs between processes."""
    names = {id(tensor): name for name, tensor in reversed(module.state_dict(keep_vars=True).items())}
    return {name: tensor.contiguous() for name, tensor in module.state_dict().items() if name in names.values()}


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    try:
        yield path
    except (SafetensorError, OSError, RuntimeError) as error:  # RuntimeError: the weights of another model
        raise LearnedSparseError(f"{path}: cannot be read ({error}); start again with --overwrite") from error


def _part(content: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in content.items() if name.startswith(prefix)}
