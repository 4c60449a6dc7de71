"""Queries to impacts: a ``QueryEncoder`` for Pyserini, and the encoder that an index asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from learned_sparse.core import (
    Encoder,
    LearnedSparseError,
    Quantizer,
    checkpoint_folder,
    load_encoder,
    read_json,
    without_mark,
)
from learned_sparse.encode import QUERY_QUANTIZER, WORD_COUNTS
from learned_sparse.index import INDEX_MANIFEST, IndexNote, is_index_note
from learned_sparse.jsonvector import Manifest, differences
from learned_sparse.lucene import allow_clauses, start_jvm

PREFIX = "learned_sparse:"
"""``--encoder learned_sparse:FOLDER`` of stock Pyserini commands always means ours."""


class QueryImpacts:
    """The query side of a model: texts to ``{term: impact}``, many at once."""

    def __init__(self, encoder: Encoder, quantizer: Quantizer) -> None:
        self.encoder = encoder
        self.quantizer = quantizer

    def __call__(self, texts: Sequence[str]) -> list[dict[str, int]]:
        """One ``{term: impact}`` for each text, in order; empty where nothing is left of it."""
        impacts, _ = self.quantizer.quantize(self.encoder.encode([without_mark(text) for text in texts]), texts)
        return [impacts.row(place) for place in range(len(impacts))]

    @classmethod
    def from_checkpoint(cls, checkpoint: str, quantizer: Quantizer | None = None, **options: Any) -> QueryImpacts:
        """From a checkpoint, with its own quantiser or the default one; ``options`` are those of ``load_encoder``."""
        encoder = load_encoder(checkpoint, "query", **options)
        default = WORD_COUNTS if encoder.description["scoring"] == "bm25" else encoder.quantizer or QUERY_QUANTIZER
        return cls(encoder, quantizer or default)

    @classmethod
    def from_index(
        cls,
        index: Path,
        checkpoint: str | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> QueryImpacts:
        """The query side an index asks for, as ``from_note`` makes it."""
        return cls.from_note(IndexNote.load(index), index, checkpoint, settings=settings, **options)

    @classmethod
    def from_note(
        cls,
        note: IndexNote,
        index: Path,
        checkpoint: str | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> QueryImpacts:
        """The query side an index asks for; a ``checkpoint`` that gives another one is an error saying what differs.

        ``settings`` are changes to those the index was made with, as far as documents do not depend on them.
        """
        if not note.manifests:
            raise LearnedSparseError(f"{index / INDEX_MANIFEST}: does not say which encoder its queries need")
        manifest = note.manifests[0]
        described = manifest.query_encoder or {}
        same = {key: described[key] for key in ("max_length", "dtype", "top_k") if described.get(key) is not None}
        if wanted := {**described.get("settings", {}), **(settings or {})}:
            same["settings"] = wanted
        where = checkpoint or manifest.checkpoint
        try:
            made = cls.from_checkpoint(where, manifest.query_quantizer, **{"model": manifest.model, **same, **options})
        except LearnedSparseError as error:
            raise LearnedSparseError(
                f"{index}: cannot make the encoder it asks for out of {where} (another one: --checkpoint): {error}"
            ) from error
        check_same(made.encoder, manifest, index, settings or {})
        return made


def check_same(encoder: Encoder, manifest: Manifest, index: Path, changes: Mapping[str, Any] | None = None) -> None:
    """Raise if ``encoder`` is not the query side that the documents of an index were encoded for.

    It may differ in the settings ``changes``, if it says that queries alone depend on them (``query_only_settings``).
    """
    if manifest.query_encoder is None:
        return
    free: frozenset[str] = encoder.query_only_settings
    stored, now = manifest.query_encoder, dict(encoder.description)
    for key, value in (changes or {}).items():
        if key not in free and stored.get("settings", {}).get(key) != value:
            raise LearnedSparseError(
                f"{index}: its documents depend on the setting {key!r} too: encode and index anew with "
                f"--set {key}={value}; what queries alone depend on: {', '.join(sorted(free)) or 'nothing'}"
            )
    lines = differences(_without(stored, changes or {}), _without(now, changes or {}))
    if lines:
        fields = "; ".join(
            line.replace(" before, ", " in the index, ").replace(" now", " in the encoder") for line in lines
        )
        raise LearnedSparseError(
            f"{index}: this encoder does not match the index: {fields}; "
            "name the checkpoint the documents were encoded with (--checkpoint), or encode and index anew"
        )


def _without(description: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """``description`` without some of its settings."""
    settings = {key: value for key, value in description.get("settings", {}).items() if key not in keys}
    return {**description, "settings": settings}


class LearnedSparseQueryEncoder:
    """A Pyserini ``QueryEncoder``, for ``LuceneImpactSearcher(index, query_encoder, min_idf=-1)``.

    It becomes a subclass of ``pyserini.encode.QueryEncoder`` when the first one is made: importing this module starts
    neither Java nor torch.

    * ``LearnedSparseQueryEncoder("learned_sparse_home/checkpoints/splade")``: from a checkpoint
    * ``LearnedSparseQueryEncoder.from_index("learned_sparse_home/indexes/pydoc/splade")``: what the index asks for
    """

    impacts: QueryImpacts

    def __new__(cls, *_: Any, **__: Any) -> LearnedSparseQueryEncoder:
        """An instance of a subclass that has Pyserini's ``QueryEncoder`` among its bases."""
        made: LearnedSparseQueryEncoder = object.__new__(_with_pyserini(cast("Any", cls)))
        return made

    def __init__(self, checkpoint: str | Path | QueryImpacts, **options: Any) -> None:
        """``options``: ``device``, ``dtype``, ``max_length``, ``top_k``, ``revision``, ``settings``."""
        self.impacts = (
            checkpoint
            if isinstance(checkpoint, QueryImpacts)
            else QueryImpacts.from_checkpoint(str(checkpoint), **options)
        )
        self.has_model, self.has_encoded_query = True, False

    @classmethod
    def from_index(cls, index: str | Path, checkpoint: str | None = None, **options: Any) -> LearnedSparseQueryEncoder:
        """The encoder that the documents of ``index`` were encoded for."""
        return cls(QueryImpacts.from_index(Path(index), checkpoint, **options))

    def encode(self, text: str, **_: Any) -> dict[str, int]:
        """``{term: impact}`` of one query; Lucene's limit of 1,024 terms is raised when the query needs it."""
        (impacts,) = self.impacts([text])
        allow_clauses(len(impacts))
        return impacts


def encoder_named(name: str) -> LearnedSparseQueryEncoder | None:
    """What ``--encoder NAME`` means if it is ours; None leaves it to Pyserini.

    Ours are ``learned_sparse:FOLDER-or-NAME``, a folder with a ``learned_sparse.json`` (a checkpoint, or an index,
    which names its encoder), and the name of a model in the home folder such as ``sparterm``.
    """
    if name.startswith(PREFIX):
        rest = name.removeprefix(PREFIX)
        return _from_folder(Path(rest)) or _from_folder(checkpoint_folder(rest)) or LearnedSparseQueryEncoder(rest)
    return _from_folder(Path(name)) or (_from_folder(checkpoint_folder(name)) if "/" not in name else None)


def _from_folder(folder: Path) -> LearnedSparseQueryEncoder | None:
    note = folder / "learned_sparse.json"
    if not note.is_file():
        return None
    if is_index_note(read_json(note)):
        return LearnedSparseQueryEncoder.from_index(folder)
    return LearnedSparseQueryEncoder(folder)


@cache
def _with_pyserini(kind: Any) -> Any:
    start_jvm()
    from pyserini.encode import QueryEncoder

    return (
        kind if issubclass(kind, QueryEncoder) else type(kind.__name__, (kind, QueryEncoder), {"__module__": __name__})
    )
