"""Inspect a text, a document of an index, or the score of a document of an index for a query."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.documents import Document, read_documents
from learned_sparse.collections.segments import Segmentation
from learned_sparse.core.encoder import Encoder, Side, encode_texts
from learned_sparse.core.errors import LearnedSparseError, counted
from learned_sparse.core.lines import RESERVED
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.reading import Reading
from learned_sparse.core.records import EXPANDED, SparseBatch
from learned_sparse.encode.bm25 import AnalyzedText
from learned_sparse.encode.hybrid import load_encoder
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.inspect.explanation import Inspection, TextView, explain_score, make_view
from learned_sparse.jsonvector.manifest import Manifest, as_text, differences
from learned_sparse.search.maxp import MaxP
from learned_sparse.search.query_encoder import RECORDED_OPTIONS, QueryEncoder, find_checkpoint


def inspect_text(text: str, side: Side, model: str, checkpoint: str, **options: Any) -> Inspection:
    """``text`` as one side (``query`` or ``document``) of a checkpoint encodes it, with options of ``load_encoder``."""
    encoder = load_encoder(checkpoint, side, model=model, **options)
    view = _view(side, text, encoder, encoder.quantizer)
    return Inspection(model=model, query=view) if side == "query" else Inspection(model=model, document=view)


def encoded_documents(
    manifest: Manifest | None, collection: str | None = None, data: Path | None = None
) -> tuple[Iterable[Document], str]:
    """The documents behind an index, with the predicted queries of ``encode --expanded``, and their name in messages.

    They come from the encoded files if these still exist and no collection is named, else from the collection.
    ``manifest`` is None for an index that records no source.
    """
    files = [Path(entry["file"]) for entry in manifest.input if "file" in entry] if manifest else []
    predicted = manifest.options.get("expanded") if manifest else None
    expanded = Path(predicted) if predicted else None
    if files and collection is None and data is None and all(file.is_file() for file in files):
        readers = (read_documents(file, on_bad_line="skip", expanded=expanded) for file in files)
        return chain.from_iterable(readers), ", ".join(map(str, files))
    if name := collection or (manifest.collection if manifest else None):
        return load_collection(name, data=data).documents("skip", expanded), name
    source = ", ".join(map(str, files)) or "its input"
    raise LearnedSparseError(f"{source}: the encoded documents are not there; name them with --collection")


def encoder_cache() -> Callable[..., Encoder]:
    """``load_encoder`` that returns the same encoder for equal arguments. Several threads may ask."""
    lock, loaded = threading.Lock(), dict[str, Encoder]()

    def load(checkpoint: str, side: Side = "document", *, model: str | None = None, **options: Any) -> Encoder:
        given = sorted((name, value) for name, value in options.items() if value is not None)
        key = repr((os.path.realpath(checkpoint), side, given))
        with lock:
            if key not in loaded:
                loaded[key] = load_encoder(checkpoint, side, model=model, **options)
            return loaded[key]

    return load


@dataclass
class IndexInspector:
    """Inspects texts as the encoders of one index read them, its documents, and their scores for queries.

    Encoders are loaded at first use. Several threads may use an inspector.
    """

    index: Path
    checkpoint: str | None = None
    """Where the encoder is now, if not at the recorded location."""
    device: str | None = None
    collection: str | None = None
    """Where the documents are now, if not at the recorded location."""
    data: Path | None = None
    documents: Callable[[str], Document | None] | None = None
    """Returns the document of an id, or None; by default every look-up reads the collection."""
    load: Callable[..., Encoder] = field(default_factory=encoder_cache)
    """Loads encoders, once each; several indexes may share it."""

    def __post_init__(self) -> None:
        from learned_sparse.lucene.searchers import ImpactSearcher

        self.note, self._identity = IndexNote.load(self.index), _identity(self.index)
        self.manifest: Manifest | None = self.note.manifests[0] if self.note.manifests else None
        """Manifest of the first shard; all shards are encoded alike."""
        self.searcher = ImpactSearcher(self.index, self.note.scoring)
        self._text = AnalyzedText() if self.note.scoring == "bm25-text" else None
        """Encoder of both sides for an index of plain text."""
        self._query_side = QueryEncoder(self._text) if self._text else None
        self.model = "BM25" if self._text else self.manifest.model if self.manifest else "unknown"
        self._quantizer = self.manifest.quantizer if self.manifest else AnalyzedText.quantizer

    def check_unchanged(self) -> None:
        """Raise if the folder holds another index by now; the open one would still be searched."""
        if _identity(self.index) != self._identity:
            raise LearnedSparseError(f"{self.index}: changed since it was opened; start the server again")

    def query_encoder(self, settings: Mapping[str, Any] | None = None) -> QueryEncoder:
        """Encoder of queries; ``settings`` change what documents do not depend on."""
        if self._text and settings:
            raise LearnedSparseError(f"--set: {self.index} holds plain text, which is searched without an encoder")
        if self._query_side and not settings:
            return self._query_side
        encoder = QueryEncoder.from_index(
            self.index, self.checkpoint, note=self.note, settings=settings, load=self.load, device=self.device
        )
        if not settings:
            self._query_side = encoder
        return encoder

    def encoder(self, side: Side) -> Encoder:
        """The encoder of queries or of documents; raise if the checkpoint gives another than the recorded one."""
        if self._text or side == "query":
            return self.query_encoder().encoder
        if self.manifest is None:
            raise LearnedSparseError(f"{self.index}: does not record what it was made from, so no text can be read")
        manifest, recorded = self.manifest, self.manifest.encoder
        options = {key: recorded[key] for key in RECORDED_OPTIONS if recorded.get(key)}
        options |= {"revision": manifest.options.get("revision"), "device": self.device}
        if "hybrid" in options:
            options["statistics"] = str(self.index)
        checkpoint = self.checkpoint or find_checkpoint(manifest, self.index)
        encoder = self.load(checkpoint, "document", model=manifest.model, **options)
        if changed := differences(recorded, dict(encoder.description)):
            raise LearnedSparseError(
                f"{checkpoint}: not the encoder of these vectors: {as_text(changed)}; name that one with --checkpoint"
            )
        return encoder

    def text(self, text: str, side: Side, settings: Mapping[str, Any] | None = None) -> TextView:
        """Any text as the index's encoder of queries or of documents reads it; ``settings`` are those of queries."""
        if side == "document":
            return _view(side, text, self.encoder(side), self._quantizer)
        encoder = self.query_encoder(settings)
        return _view(side, text, encoder.encoder, encoder.quantizer)

    def document(self, id: str) -> Inspection:
        """The terms of a document, whose text is looked up and encoded again."""
        postings = self._postings(id)
        if id not in postings:
            raise LearnedSparseError(
                f"{self.index}: {id!r} is cut into segments; name one of them: {', '.join(postings)}"
            )
        view = self._document(id, postings[id], [], {})
        return Inspection(model=self.model, index=str(self.index), document=view)

    def pair(self, query: str, id: str, settings: Mapping[str, Any] | None = None) -> Inspection:
        """The score of a document, or of the best of its segments, for a query, term by term."""
        query_view = self.text(query, "query", settings)
        impacts = {term.term: term.impact for term in query_view.terms if term.impact}
        postings = self._postings(id)
        scores = {name: self.searcher.score(impacts, name) for name in postings}
        best = id if id in postings else min(scores, key=lambda name: (-scores[name], name))
        shared = impacts.keys() & postings[best].keys()
        products: dict[str, float] = {term: impacts[term] * postings[best][term] for term in shared}
        if self.note.scoring != "impact":
            products = {term: self.searcher.score({term: impacts[term]}, best) for term in shared}
        notes = [] if best == id else [f"the best of the {len(postings)} segments of {id}"]
        view = self._document(best, postings[best], notes, products)
        score = explain_score(query_view, view, products, scores[best])
        return Inspection(model=self.model, index=str(self.index), query=query_view, document=view, score=score)

    def _postings(self, id: str) -> dict[str, dict[str, int]]:
        """``{id: {term: impact}}`` of a document, or of all its segments; raise if there is neither."""
        maxp = MaxP.from_note(self.note)
        segments = [f"{id}{maxp.delimiter}{number}" for number in range(maxp.max_segments)] if maxp else []
        postings = self.searcher.postings([id, *segments])
        if not postings:
            raise LearnedSparseError(f"{self.index}: no document {id!r}; name one of its collection, or of a run")
        return {name: postings[name] for name in [id, *segments] if name in postings}

    def _document(self, id: str, row: Mapping[str, int], notes: list[str], products: Mapping[str, float]) -> TextView:
        """View of an indexed document; if its text cannot be encoded again, a note says why."""
        impacts = {term: impact for term, impact in row.items() if term not in RESERVED}
        text, reading = None, None
        if not impacts:
            notes.append("an empty vector: no query matches it")
        try:
            text = self._encoded_text(id)
            reading, now, more = _read(text, self.encoder("document"), self._quantizer)
            notes += more
            if changed := {term for term, _ in (now or {}).items() ^ impacts.items()}:
                notes.append(f"{len(changed)} of {len(impacts)} impacts of the index differ from the encoder's now")
        except LearnedSparseError as error:
            notes.append(f"only what the index holds, without text and sources: {error}")
        return make_view("document", text, reading, impacts, id=id, indexed=True, notes=notes, products=products)

    def _encoded_text(self, id: str) -> str:
        """The text of an indexed document or segment, with its expansion if the encoder reads it."""
        encoder = self.encoder("document")
        cut = Segmentation.recorded(self.manifest.options) if self.manifest else None
        if cut is None:
            document = self._find_document(id)
        elif cut.adds_up:
            raise LearnedSparseError("its weights are added up over segments, which have sources of their own")
        else:
            name, _, number = id.rpartition(cut.delimiter)
            document = self._find_document(name)
            spans = cut.spans(encoder.word_spans([document.text])[0]) or [(0, len(document.text))]
            if int(number) >= len(spans):
                raise LearnedSparseError(f"the text of document {name!r} has only {counted(len(spans), 'segment')} now")
            start, end = spans[int(number)]
            document = Document(id, document.text[start:end], document.expanded)
        return document.with_expanded if encoder.uses_expanded else document.text

    def _find_document(self, id: str) -> Document:
        if self.documents:
            if document := self.documents(id):
                return document
            raise LearnedSparseError(f"the text of document {id!r} is not there")
        documents, source = encoded_documents(self.manifest, self.collection, self.data)
        for document in documents:
            if document.id == id:
                return document
        raise LearnedSparseError(
            f"document {id!r} is not in {source}; name the collection that was encoded with --collection, --data"
        )


def _identity(index: Path) -> tuple[int, int] | None:
    note = index / INDEX_MANIFEST
    return (note.stat().st_ino, note.stat().st_mtime_ns) if note.is_file() else None


def _view(side: Side, text: str, encoder: Encoder, quantizer: Quantizer | None) -> TextView:
    text = text.replace(EXPANDED, " ")
    reading, impacts, notes = _read(text, encoder, quantizer)
    return make_view(side, text, reading, impacts, notes=notes)


def _read(
    text: str, encoder: Encoder, quantizer: Quantizer | None
) -> tuple[Reading | None, dict[str, int] | None, list[str]]:
    """Explanation and impacts of ``text``, or None, and notes about what there is not."""
    reading, notes = None, list[str]()
    if not text.strip():
        notes.append("the text is empty")
    else:
        try:
            reading = encoder.explain(text)
        except LearnedSparseError as error:
            notes.append(f"no sources: {error}")
    if quantizer is None:
        return reading, None, [*notes, "no impacts: no quantiser is stored"]
    # An explanation has the weights that ``encode`` gives.
    batch = SparseBatch.from_dicts([reading.weights]) if reading else encode_texts(encoder, [text])
    return reading, quantizer.quantize(batch)[0].row(0), notes
