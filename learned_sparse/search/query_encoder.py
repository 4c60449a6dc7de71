"""Query texts to impacts: the encoder of a checkpoint, or the encoder that an index asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from learned_sparse.core.encoder import (
    Encoder,
    as_encoder,
    encode_texts,
    load_encoder,
    query_quantizer,
    resolve_checkpoint,
)
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import checkpoint_folder, is_name, read_json
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import EXPANDED
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.jsonvector.manifest import Manifest, as_text, differences

RECORDED_OPTIONS = ("max_length", "dtype", "top_k", "hybrid", "settings")
"""Keys of a recorded ``Encoder.description`` that are options of ``load_encoder``."""
PREFIX = "learned_sparse:"
"""``--encoder learned_sparse:FOLDER`` of stock Pyserini commands always means an encoder of this package."""


class QueryEncoder:
    """Query side of a model: text to ``{term: impact}``. It needs no JVM, and torch only if the model does.

    Pyserini's searcher takes an instance: ``LuceneImpactSearcher(index, QueryEncoder.from_index(index), min_idf=-1)``,
    with the class as ``learned_sparse`` gives it, which starts a Java that Pyserini runs on.

    * ``QueryEncoder("learned_sparse_home/checkpoints/splade")``, ``QueryEncoder("splade-tiny")``: from a checkpoint
    * ``QueryEncoder(my_encoder)``: from an instance of ``Encoder``
    * ``QueryEncoder.from_index("learned_sparse_home/indexes/pydoc/splade")``: the encoder that the index asks for
    """

    def __init__(
        self,
        encoder: Encoder | str | Path,
        quantizer: Quantizer | None = None,
        *,
        load: Callable[..., Encoder] | None = None,
        **options: Any,
    ) -> None:
        """``encoder``: the query side itself, or a checkpoint (folder, name or Hub id) to load with ``load``.

        ``options`` are those of ``load_encoder`` (``device``, ``dtype``, ``max_length``, ``top_k``, ``revision``,
        ``settings``). Without ``quantizer``, the encoder's own is used, else two decimals of each weight are kept;
        word counts for BM25 are never scaled.
        """
        if isinstance(encoder, str | Path):
            if load is None and "hybrid" in options:
                from learned_sparse.encode.hybrid import load_encoder as load
            self.encoder = (load or load_encoder)(str(encoder), "query", **options)
        elif options:
            raise TypeError(f"{', '.join(options)}: only for an encoder loaded from a checkpoint")
        else:
            self.encoder = as_encoder(encoder)
        self.quantizer = quantizer or query_quantizer(self.encoder)

    @classmethod
    def from_index(
        cls,
        index: str | Path,
        checkpoint: Encoder | str | Path | None = None,
        *,
        note: IndexNote | None = None,
        settings: Mapping[str, Any] | None = None,
        load: Callable[..., Encoder] | None = None,
        **options: Any,
    ) -> QueryEncoder:
        """The encoder that the documents of ``index`` were encoded for.

        Without ``checkpoint``, ``find_checkpoint`` looks the encoder up. An encoder that differs from the recorded one
        is an error that lists the differences. ``settings`` may change what documents do not depend on. An index
        without a record, such as a prebuilt one, accepts any ``checkpoint``. ``note`` is the note of the index if it is
        read already.
        """
        index = Path(index)
        note = note or IndexNote.load(index, foreign=checkpoint is not None)
        changes = dict(settings or {})
        if not note.manifests:
            if checkpoint is None:
                raise LearnedSparseError(
                    f"{index / INDEX_MANIFEST}: does not say which encoder its queries need; name one with "
                    "--checkpoint, or search encoded queries with --query-vectors"
                )
            return cls(checkpoint, None, load=load, **({"settings": changes, **options} if changes else options))
        manifest = note.manifests[0]
        recorded = dict(manifest.query_encoder or {})
        if changes:
            recorded["settings"] = {**recorded.get("settings", {}), **changes}
        source, of_index = checkpoint or find_checkpoint(manifest, index), dict[str, Any]()
        if isinstance(source, str | Path):
            of_index = {key: recorded[key] for key in RECORDED_OPTIONS if recorded.get(key)}
            of_index["model"] = manifest.model
        if checkpoint is None and manifest.options.get("revision"):
            of_index["revision"] = manifest.options["revision"]
        try:
            query_encoder = cls(source, manifest.query_quantizer, load=load, **{**of_index, **options})
        except LearnedSparseError as error:
            raise LearnedSparseError(
                f"{index}: cannot load its encoder from {source}; name another checkpoint with --checkpoint: {error}"
            ) from error
        if manifest.query_encoder is None:
            return query_encoder
        encoder, before = query_encoder.encoder, manifest.query_encoder.get("settings", {})
        for key, value in changes.items():
            if key not in encoder.query_only_settings and before.get(key) != value:
                free = ", ".join(sorted(encoder.query_only_settings)) or "none"
                raise LearnedSparseError(
                    f"{index}: documents depend on the setting {key!r} too: encode and index them again with "
                    f"--set {key}={value}; settings that only queries depend on: {free}"
                )
        if changed := differences(recorded, encoder.description):
            wrong = ", ".join(name for name in options if name in changed)
            way_out = f"omit {wrong}" if wrong else "name the checkpoint that encoded the documents with --checkpoint"
            raise LearnedSparseError(
                f"{index}: this encoder does not match the index: {as_text(changed, 'in the index', 'in the encoder')};"
                f" {way_out}, or encode and index them again"
            )
        return query_encoder

    def encode(self, text: str) -> dict[str, int]:
        """``{term: impact}`` of one query; empty if no term has an impact, or for an empty text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[dict[str, int]]:
        """``{term: impact}`` of each text, in order."""
        weights = encode_texts(self.encoder, [text.replace(EXPANDED, " ") for text in texts])
        impacts, _ = self.quantizer.quantize(weights, texts, "query")
        return [impacts.row(row) for row in range(len(texts))]


def find_checkpoint(manifest: Manifest, folder: Path) -> str:
    """The checkpoint of an index or of vectors in ``folder``: the recorded path, else its name in the home folder.

    A Hub id is returned as it is. ``LearnedSparseError``: the recorded folder is gone.
    """
    recorded = Path(manifest.checkpoint)
    if recorded.is_dir() or manifest.query_encoder is None:  # None: nothing to compare another folder with
        return manifest.checkpoint
    for name in (recorded.name, manifest.model):
        if is_name(name) and checkpoint_folder(name).is_dir():
            return str(checkpoint_folder(name))
    if recorded.is_absolute() or len(recorded.parts) > 2:
        raise LearnedSparseError(
            f"{folder}: its checkpoint {recorded} does not exist, and neither does {checkpoint_folder(recorded.name)}; "
            "name the checkpoint with --checkpoint"
        )
    return manifest.checkpoint


def encoder_named(name: str) -> QueryEncoder | None:
    """The encoder that ``--encoder NAME`` of a stock command names, or None if ``NAME`` is for Pyserini to resolve.

    Names of this package: ``learned_sparse:FOLDER-or-NAME``, a folder with a ``learned_sparse.json`` (a checkpoint, or
    an index, whose encoder is meant), and the name of a model in the home folder or of a published one.
    """
    rest = name.removeprefix(PREFIX)
    path = Path(rest, INDEX_MANIFEST)
    if path.is_file():
        return (
            QueryEncoder.from_index(rest) if read_json(path, record=True).get("kind") == "index" else QueryEncoder(rest)
        )
    checkpoint = resolve_checkpoint(rest)
    return None if checkpoint == name else QueryEncoder(checkpoint)
