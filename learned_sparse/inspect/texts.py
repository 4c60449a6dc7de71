"""The texts that an index was made of, found again by their ids, and the encoder that read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.collections import Segmentation, load_collection, read_documents
from learned_sparse.core import Document, LearnedSparseError
from learned_sparse.encode import EncodeOptions
from learned_sparse.jsonvector import Manifest, differences


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things are now, as far as the user says so."""

    checkpoint: str | None = None
    device: str | None = None
    collection: str | None = None
    data: Path | None = None


def document_encoder(manifest: Manifest, places: Places) -> Any:
    """The encoder that made the vectors of ``manifest``; one that gives others is an error."""
    from learned_sparse.encode import load_side

    made = manifest.encoder
    options = EncodeOptions(
        model=manifest.model,
        revision=manifest.options.get("revision"),
        max_length=made.get("max_length"),
        dtype=made.get("dtype"),
        top_k=made.get("top_k"),
        device=places.device,
        changes=made.get("settings", {}),
    )
    checkpoint = places.checkpoint or manifest.checkpoint
    encoder = load_side(options, checkpoint)
    if lines := differences(made, dict(encoder.description)):
        raise LearnedSparseError(
            f"{checkpoint}: not the encoder of these vectors: {'; '.join(lines)}; name that one with --checkpoint"
        )
    return encoder


def find_document(manifest: Manifest, name: str, places: Places) -> Document:
    """The document ``name``, or the segment of that name but with its whole text, out of what was encoded."""
    cut = Segmentation.recorded(manifest.options)
    wanted = name.rpartition(cut.delimiter)[0] if cut else name
    for document in _documents(manifest, places):
        if document.id == wanted:
            return document
    raise LearnedSparseError(
        f"document {wanted!r} is not in {_source(manifest, places)}; name the collection that was encoded with "
        "--collection (and --data)"
    )


def text_of(manifest: Manifest, name: str, document: Document, encoder: Any) -> str:
    """What ``encoder`` read as ``name``: ``document`` or the segment of it, and what expands it if it asks for that."""
    cut = Segmentation.recorded(manifest.options)
    if cut:
        start, end = cut.spans(encoder.word_spans([document.text])[0])[int(name.rpartition(cut.delimiter)[2])]
        document = Document(name, document.text[start:end], document.expanded)
    return document.with_expanded if encoder.uses_expanded else document.text


def _documents(manifest: Manifest, places: Places) -> Iterator[Document]:
    files = _files(manifest, places)
    if not files:
        yield from load_collection(_source(manifest, places), data=places.data).documents("skip")
    for file in files:
        yield from read_documents(file, on_bad_line="skip")


def _files(manifest: Manifest, places: Places) -> list[Path]:
    """The files that were encoded, where they are still at their places and nobody names others."""
    files = [Path(entry["file"]) for entry in manifest.input]
    asked = places.collection is not None or places.data is not None
    return [] if asked or not all(file.is_file() for file in files) else files


def _source(manifest: Manifest, places: Places) -> str:
    if files := _files(manifest, places):
        return ", ".join(map(str, files))
    name = places.collection or manifest.collection
    if name is None:
        gone = ", ".join(str(entry["file"]) for entry in manifest.input) or "its input"
        raise LearnedSparseError(f"{gone}: what was encoded is not there any more; name it with --collection")
    return name
