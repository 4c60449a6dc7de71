"""A model as a folder: what it is, its tokenizer, its towers, and the quantisers and recipe that go with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from encoders.backbone import OUTPUT_BIAS, backbone_folder, quiet
from encoders.checkpoints.bag_notes import bags_of
from encoders.checkpoints.encoder_options import changed_keys
from encoders.checkpoints.hub import locate
from encoders.checkpoints.notes import FORMAT, NOTES, CheckpointNotes, as_json, read_notes, write_notes
from encoders.checkpoints.vocabulary import Vocabulary
from encoders.models import ARCHITECTURES, SIDES, Architecture, TermWeighers
from learned_sparse.core import LearnedSparseError, Quantizer, Side, did_you_mean, parse

_LONGEST = 256  # tokens, of queries and documents (both papers)
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")


@dataclass(kw_only=True)
class LoadedModel:
    """A model in memory, both sides."""

    architecture: str
    settings: Any
    weighers: TermWeighers
    towers: dict[str, Any]
    tokenizer: Any
    max_length: dict[str, int]
    quantizers: dict[str, Quantizer | None]
    recipe: Any = None
    training: Any = None


def new_model(
    architecture: str,
    settings: Mapping[str, Any],
    backbone: str,
    num_hidden_layers: int | None = None,
    seed: int = 0,
    *,
    revision: str | None = None,
    output_bias: float = OUTPUT_BIAS,
    max_length: Mapping[str, int] | None = None,
) -> LoadedModel:
    """An untrained model: every tower starts from ``backbone`` (see ``load_backbone``)."""
    family = architecture_named(architecture)
    parsed = parse(family.settings, settings, f"settings of {architecture}")
    folder = backbone_folder(backbone)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        towers = {
            name: family.tower(parsed, name).from_backbone(
                folder, revision=revision, num_hidden_layers=num_hidden_layers, output_bias=output_bias
            )
            for name in family.tower_names(parsed)
        }
    tokenizer = load_tokenizer(locate(folder, revision))
    lengths = {side: (max_length or {}).get(side, _default_length(towers)) for side in SIDES}
    quantizers = _default_quantizers(family, parsed)
    return _assemble(architecture, parsed, towers, tokenizer, max_length=lengths, quantizers=quantizers)


def save_checkpoint(folder: Path, model: LoadedModel) -> None:
    """Write ``folder``; the notes come last, so that an unfinished one is not taken for a checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NOTES).unlink(missing_ok=True)
    model.tokenizer.save_pretrained(folder)
    for name, tower in model.towers.items():
        tower.save(folder / "towers" / name)
    size = next(iter(model.towers.values())).vocabulary_size
    family = architecture_named(model.architecture)
    notes = CheckpointNotes(
        format=FORMAT,
        architecture=model.architecture,
        settings=as_json(model.settings),
        vocabulary_size=size,
        max_length=model.max_length,
        quantizers={side: None if kept is None else kept.to_json() for side, kept in model.quantizers.items()},
        recipe=model.recipe,
        training=model.training,
        bags=bags_of(family, model.settings, model.weighers, load_tokenizer(folder), folder, size),
    )
    write_notes(folder, notes)


def load_checkpoint(name: str | Path, *, architecture: str | None = None, revision: str | None = None) -> LoadedModel:
    """A checkpoint folder or Hub id of ours, or a plain masked-LM, which is read as SPLADE with max pooling.

    ``architecture``, if given, must be what the checkpoint holds.
    """
    folder = locate(name, revision)
    notes = read_notes(folder)
    if architecture is not None and architecture != notes.architecture:
        raise LearnedSparseError(f"{name}: holds architecture {notes.architecture!r}, not {architecture!r}")
    family = architecture_named(notes.architecture)
    settings = settings_of(notes, folder)
    towers = {
        name: family.tower(settings, name).load(tower_folder(folder, name)) for name in family.tower_names(settings)
    }
    return _assemble(
        notes.architecture,
        settings,
        towers,
        load_tokenizer(folder),
        max_length=notes.max_length,
        quantizers={side: notes.quantizer(side) for side in SIDES},
        recipe=notes.recipe,
        training=notes.training,
    )


def settings_of(notes: CheckpointNotes, folder: Path) -> Any:
    """The architecture's settings dataclass."""
    return parse(architecture_named(notes.architecture).settings, notes.settings, f"{folder / NOTES}: settings")


def change_settings(
    architecture: str, settings: Any, changes: Mapping[str, Any], who: str
) -> tuple[Any, frozenset[str]]:
    """The settings dataclass with ``changes``, and what differs; only the architecture's ``changeable`` fields may."""
    family, before = architecture_named(architecture), as_json(settings)
    chosen = parse(family.settings, {**before, **changes}, f"{who}: settings")
    return chosen, changed_keys(who, before, as_json(chosen), family.changeable)


def tower_folder(folder: Path, tower: str) -> Path:
    """Where a tower's weights are: under ``towers/``, or in ``folder`` itself if it is a plain masked-LM."""
    return folder / "towers" / tower if (folder / NOTES).exists() else folder


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer at the top of ``folder``."""
    if not any(file for pattern in _TOKENIZER_FILES for file in folder.glob(pattern)):
        # transformers 5 would make up an empty one
        raise LearnedSparseError(f"{folder}: no tokenizer files ({', '.join(_TOKENIZER_FILES)}); copy them there")
    try:
        with quiet():
            return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise LearnedSparseError(f"{folder}: no readable tokenizer: {error}") from error


def architecture_named(name: str) -> Architecture:
    """An entry of ``ARCHITECTURES``."""
    if name not in ARCHITECTURES:
        raise LearnedSparseError(f"unknown architecture {name!r}{did_you_mean(name, ARCHITECTURES)}")
    return ARCHITECTURES[name]


def default_quantizer(family: Architecture, settings: Any, side: Side) -> Quantizer | None:
    """The architecture's own; None if it has to be calibrated first."""
    scale = family.scale(settings, side)
    return None if scale is None else Quantizer(scale)


def _default_quantizers(family: Architecture, settings: Any) -> dict[str, Quantizer | None]:
    return {side: default_quantizer(family, settings, side) for side in SIDES}


def _assemble(architecture: str, settings: Any, towers: dict[str, Any], tokenizer: Any, **rest: Any) -> LoadedModel:
    sizes = {tower.vocabulary_size for tower in towers.values()}
    if len(sizes) != 1:
        raise LearnedSparseError(f"{architecture}: the towers' vocabularies differ in size: {sorted(sizes)}")
    vocabulary = Vocabulary.from_tokenizer(tokenizer, sizes.pop())
    weighers = ARCHITECTURES[architecture].build(settings, towers, vocabulary)
    return LoadedModel(
        architecture=architecture, settings=settings, weighers=weighers, towers=towers, tokenizer=tokenizer, **rest
    )


def _default_length(towers: Mapping[str, Any]) -> int:
    return min([_LONGEST, *(tower.longest_input or _LONGEST for tower in towers.values())])
