"""The texts that an index was made of: from the encoded files, or from a collection."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from learned_sparse.collections import Segmentation, load_collection, predicted_queries, read_documents
from learned_sparse.core import Document, LearnedSparseError
from learned_sparse.jsonvector import Manifest


def encoded_documents(
    manifest: Manifest | None, collection: str | None = None, data: Path | None = None
) -> tuple[Iterator[Document], str]:
    """The documents behind an index, without predicted queries of other files, and their name in messages.

    They come from the encoded files if these still exist and no collection is named, else from the collection.
    ``manifest`` is None for an index that records no source.
    """
    files = [Path(entry["file"]) for entry in manifest.input if "file" in entry] if manifest else []
    if files and collection is None and data is None and all(file.is_file() for file in files):
        documents = chain.from_iterable(read_documents(file, on_bad_line="skip") for file in files)
        return documents, ", ".join(map(str, files))
    if name := collection or (manifest.collection if manifest else None):
        return iter(load_collection(name, data=data).documents("skip")), name
    source = ", ".join(map(str, files)) or "its input"
    raise LearnedSparseError(f"{source}: the encoded documents are not there; name them with --collection")


def find_document(
    manifest: Manifest | None, id: str, collection: str | None = None, data: Path | None = None
) -> Document:
    """The document ``id`` by a pass over all documents (see ``encoded_documents``)."""
    documents, source = encoded_documents(manifest, collection, data)
    for document in documents:
        if document.id == id:
            return document
    raise LearnedSparseError(
        f"document {id!r} is not in {source}; name the collection that was encoded with --collection, --data"
    )


def document_of_segment(manifest: Manifest, id: str) -> str:
    """Id of the document that the segment ``id`` was cut from; ``id`` itself in an index of whole documents."""
    segmentation = Segmentation.recorded(manifest.options)
    return id.rpartition(segmentation.delimiter)[0] if segmentation and not segmentation.adds_up else id


def with_predicted_queries(manifest: Manifest, document: Document) -> Document:
    """``document`` with the predicted queries of the file that ``learned_sparse.encode --expanded`` was given."""
    if not (expanded := manifest.options.get("expanded")):
        return document
    found = (queries for id, queries in predicted_queries(Path(expanded)) if id == document.id)
    return Document(document.id, document.text, next(found, ""))
