"""A model in memory with both sides: created from a backbone, saved as a checkpoint folder, and loaded again."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from encoders.backbone.towers import load_tokenizer
from encoders.checkpoints.hub import locate, published_settings
from encoders.checkpoints.notes import MAX_LENGTH, NOTES, CheckpointNotes, as_json, read_notes, write_notes
from encoders.checkpoints.tokenizer import Vocabulary, read_tokenizer, tokenizer_sha256, untruncated, with_word_marks
from encoders.models import ARCHITECTURES, SIDES
from encoders.models.architecture import QUERY_WEIGHTS
from encoders.models.objectives import TermWeighers
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_folder, sha256
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.settings import parse


@dataclass(kw_only=True)
class LoadedModel:
    """A model in memory, both sides."""

    architecture: str
    settings: Any
    """Of the class in ``ARCHITECTURES``."""
    towers: dict[str, Any]
    """Towers by name (``encoders.backbone.towers.Tower``)."""
    tokenizer: Any
    """A tokenizer of transformers."""
    max_length: dict[str, int]
    """Tokens per side."""
    quantizers: dict[str, Quantizer | None]
    """One per side; None if it has to be calibrated first."""
    recipe: Any = None
    training: Any = None
    prompts: dict[str, str] = field(default_factory=dict)
    """Text before each text of a side."""
    vocabulary: Vocabulary = field(init=False)
    weighers: TermWeighers = field(init=False)

    def __post_init__(self) -> None:
        """Both sides of the towers; raises if their vocabularies differ in size."""
        sizes = {tower.vocabulary_size for tower in self.towers.values()}
        if len(sizes) != 1:
            raise LearnedSparseError(f"{self.architecture}: the towers' vocabularies differ in size: {sorted(sizes)}")
        self.vocabulary = Vocabulary.from_tokenizer(self.tokenizer, sizes.pop(), self.architecture)
        self.weighers = TermWeighers.of(self.settings, self.towers, self.vocabulary)


def new_model(
    architecture: str,
    settings: Mapping[str, Any],
    backbone: str,
    *,
    seed: int = 0,
    max_length: Mapping[str, int] | None = None,
    **options: Any,
) -> LoadedModel:
    """An untrained model whose towers all start from ``backbone`` (see ``TowerKind`` in ``backbone.hidden_states``).

    A checkpoint of this package as ``backbone`` gives the network of its documents, with its head.
    ``options`` are those of ``LanguageModel.from_backbone``.
    """
    parsed = parse(ARCHITECTURES[architecture], settings, f"settings of {architecture}")
    folder = locate(backbone)
    network = folder / "towers" / "document" if (folder / NOTES).is_file() else folder
    with torch.random.fork_rng(devices=[]):  # backbones are created on the CPU
        torch.default_generator.manual_seed(seed)
        towers = {
            name: kind.from_backbone(network, **options) for name, kind in parsed.towers("document", "query").items()
        }
    tokenizer = load_tokenizer(folder)
    if tokenizer.pad_token_id is None:  # of decoder LMs
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.is_fast and (marked := with_word_marks(untruncated(tokenizer))):
        tokenizer._tokenizer = marked  # noqa: SLF001  (there is no public setter)
        tokenizer.add_prefix_space = True
    longest = min([MAX_LENGTH, *(tower.longest_input or MAX_LENGTH for tower in towers.values())])
    return LoadedModel(
        architecture=architecture,
        settings=parsed,
        towers=towers,
        tokenizer=tokenizer,
        max_length={side: (max_length or {}).get(side, longest) for side in SIDES},
        quantizers={side: parsed.quantizer(side) for side in SIDES},
    )


def save_checkpoint(folder: Path, model: LoadedModel) -> None:
    """Write ``folder``; an earlier checkpoint there stays whole until all files of the new one are written."""
    with new_folder(folder / ".checkpoint") as written:
        if model.tokenizer.is_fast:  # truncation and padding of its last call are no part of a checkpoint
            model.tokenizer.backend_tokenizer.no_truncation()
            model.tokenizer.backend_tokenizer.no_padding()
        files = [Path(path) for path in model.tokenizer.save_pretrained(written) if Path(path).is_file()]
        for name, tower in model.towers.items():
            tower.save(written / "towers" / name)
            files += (
                path for path in (written / "towers" / name).iterdir() if path.suffix in {".json", ".safetensors"}
            )
        notes = CheckpointNotes(
            architecture=model.architecture,
            settings=as_json(model.settings),
            vocabulary_size=len(model.vocabulary.terms),
            max_length=model.max_length,
            quantizers=model.quantizers,
            recipe=model.recipe,
            training=model.training,
            bags={} if model.settings.query_bag is None else _bags(model, written),
            files={path.relative_to(written).as_posix(): sha256(path) for path in sorted(files)},
            prompts=model.prompts,
        )
        write_notes(written, notes)
    # A kill from here on leaves a folder without notes, which is not taken for a checkpoint.
    (folder / NOTES).unlink(missing_ok=True)
    for path in sorted((folder / ".checkpoint").iterdir(), key=lambda path: (path.name == NOTES, path.name)):
        if path.is_dir():
            shutil.rmtree(folder / path.name, ignore_errors=True)
        path.replace(folder / path.name)
    (folder / ".checkpoint").rmdir()


def load_checkpoint(
    name: str | Path, *, revision: str | None = None, settings: Mapping[str, Any] | None = None
) -> LoadedModel:
    """The model in a checkpoint folder or Hub repository, ours or one of another tool.

    ``settings`` are changes that the checkpoint allows.
    """
    folder = locate(name, revision)
    notes = read_notes(folder)
    changes = {**published_settings(str(name), notes.unrecorded), **(settings or {})}
    chosen, quantizers = ARCHITECTURES[notes.architecture].changed(notes, changes, str(name))
    kinds = chosen.towers("document", "query")
    notes.check_files(folder, kinds)
    return LoadedModel(
        architecture=notes.architecture,
        settings=chosen,
        towers={tower: kind.load(notes.tower_folder(folder, tower)) for tower, kind in kinds.items()},
        tokenizer=load_tokenizer(folder / notes.towers.get("document", "")),
        max_length=notes.max_length,
        quantizers=dict(quantizers),
        recipe=notes.recipe,
        training=notes.training,
        prompts=notes.prompts,
    )


def join_sides(document: LoadedModel, query: LoadedModel) -> LoadedModel:
    """SPLADE with the documents of one model and the queries of another, which pools and tokenizes alike."""
    for model in (document, query):
        if model.architecture != "splade" or model.settings.query != "same":
            raise LearnedSparseError("join: give two SPLADE models that encode queries and documents alike")
    if document.settings != query.settings:
        raise LearnedSparseError("join: the two models differ in settings; --set corrects what a folder does not say")
    if tokenizer_sha256(document.tokenizer) != tokenizer_sha256(query.tokenizer):
        raise LearnedSparseError("join: the two models have different tokenizers, so their terms do not match")
    sides = {"document": document, "query": query}
    return dataclasses.replace(
        document,
        settings=dataclasses.replace(document.settings, query="separate"),
        towers={side: model.towers["document"] for side, model in sides.items()},
        max_length={side: model.max_length[side] for side, model in sides.items()},
        quantizers={side: model.quantizers[side] for side, model in sides.items()},
        prompts={side: model.prompts[side] for side, model in sides.items() if side in model.prompts},
    )


def _bags(model: LoadedModel, folder: Path) -> dict[str, Any]:
    """Notes on queries that are a bag of words.

    Empty where the package tokenizers alone could tokenize a text or spell a term differently than transformers.
    """
    from encoders.encoding.bag_of_words import BagNotes

    settings, tokenizer = model.settings, load_tokenizer(folder)
    module: Any = model.weighers.query
    same = tokenizer_sha256(read_tokenizer(folder)) == tokenizer_sha256(tokenizer)
    if tokenizer.truncation_side != "right" or tokenizer.split_special_tokens or not same or settings.terms:
        return {}
    quantizer = settings.quantizer("query")
    notes = BagNotes(
        weighting="tf" if module.weighting == "tf" else "binary" if module.table is None else "table",
        table=None if module.table is None else QUERY_WEIGHTS,
        excluded=module.excluded,
        scoring=settings.scoring,
        scale=None if quantizer is None else quantizer.scale,
        changeable=tuple(sorted(settings.changeable)),
        query_only_settings=tuple(sorted(settings.query_only_settings)),
    )
    return {"query": asdict(notes)}
