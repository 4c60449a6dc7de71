"""Inspect a text, a document of an index, or the score of a document of an index for a query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from learned_sparse.collections import Segmentation
from learned_sparse.core import (
    RESERVED,
    Document,
    Encoder,
    LearnedSparseError,
    Quantizer,
    Query,
    Reading,
    Side,
    SparseBatch,
    encode_texts,
    without_mark,
)
from learned_sparse.encode import AnalyzedText, load_encoder
from learned_sparse.index import IndexNote
from learned_sparse.inspect.explanation import Inspection, TextView, explain_score, make_view
from learned_sparse.inspect.sources import document_of_segment, find_document, with_predicted_queries
from learned_sparse.jsonvector import Manifest, differences
from learned_sparse.search import MaxP, QueryEncoder, find_checkpoint

if TYPE_CHECKING:
    from learned_sparse.lucene import Bm25Searcher, ImpactSearcher

ENCODER_OPTIONS = ("max_length", "dtype", "top_k", "settings", "hybrid")
"""Keys of an encoder's description that are options of ``load_encoder`` too."""
_instance_calls = threading.Lock()  # of Java: pyjnius keeps the receiver of a call in an object that all threads share


def inspect_text(text: str, side: Side, model: str, checkpoint: str, **options: Any) -> Inspection:
    """``text`` as one side (``query`` or ``document``) of a checkpoint encodes it, with options of ``load_encoder``."""
    encoder = load_encoder(checkpoint, side, model=model, **options)
    view = _view(side, without_mark(text), encoder, encoder.quantizer)
    return Inspection(model=model, query=view) if side == "query" else Inspection(model=model, document=view)


class IndexInspector:
    """Inspects texts as the encoders of one index read them, its documents, and their scores for queries.

    Encoders are loaded, and the index is opened, at first use, and kept. Several threads may use an inspector.
    """

    def __init__(
        self,
        index: Path,
        *,
        checkpoint: str | None = None,
        device: str | None = None,
        collection: str | None = None,
        data: Path | None = None,
        documents: Callable[[str], Document | None] | None = None,
        load: Callable[..., Encoder] | None = None,
    ) -> None:
        """``checkpoint``, ``collection`` and ``data`` replace the locations that the index records.

        ``documents`` returns the document of an id, or None; by default every look-up reads the collection. ``load``
        replaces ``load_encoder``, for encoders that several indexes share.
        """
        self._index, self._checkpoint, self._device = index, checkpoint, device
        self._collection, self._data = collection, data
        self._documents, self._load = documents, load
        self._lock = threading.RLock()
        self.note = IndexNote.load(index)
        self.manifest: Manifest | None = self.note.manifests[0] if self.note.manifests else None
        """Manifest of the first shard; all shards are encoded alike."""
        text = self.note.scoring == "bm25-text"
        self.model = "BM25" if text else self.manifest.model if self.manifest else "unknown"

    @cached_property
    def searcher(self) -> ImpactSearcher | Bm25Searcher:
        """Searcher of the index."""
        from learned_sparse.lucene import searcher_of

        return searcher_of(self._index, self.note.scoring)

    def query_encoder(self, settings: Mapping[str, Any] | None = None) -> QueryEncoder:
        """Encoder of queries; ``settings`` change what documents do not depend on."""
        with self._lock:
            return self._with_settings(settings) if settings else self._query_encoder

    def encoder(self, side: Side) -> Encoder:
        """The encoder of queries or of documents."""
        return self._document_encoder if side == "document" else self.query_encoder().encoder

    def text(self, text: str, side: Side) -> TextView:
        """Any text as the index's encoder of queries or of documents reads it."""
        text = without_mark(text)
        if side == "document":
            return _view(side, text, self._document_encoder, self._document_quantizer)
        return self.query(Query("", text))

    def query(self, query: Query, settings: Mapping[str, Any] | None = None) -> TextView:
        """A query as it is searched."""
        encoder = self.query_encoder(settings)
        return _view("query", without_mark(query.text), encoder.encoder, encoder.quantizer, query.id or None)

    def document(self, name: str, *, sources: bool = True) -> Inspection:
        """The terms of the document ``name``; with ``sources``, its text is looked up and encoded again."""
        impacts = self._impacts(name)
        if name not in impacts:
            segments = ", ".join(impacts)
            raise LearnedSparseError(f"{self._index}: {name!r} is cut into segments; name one of them: {segments}")
        view = self._document(name, impacts[name], [], sources=sources)
        return Inspection(model=self.model, index=str(self._index), document=view)

    def pair(self, query: Query, name: str, settings: Mapping[str, Any], *, sources: bool = True) -> Inspection:
        """The score of the document ``name``, or of the best of its segments, for a query, term by term."""
        query_view = self.query(query, settings)
        weights = {term.term: term.impact for term in query_view.terms if term.impact}
        impacts = self._impacts(name)
        scores = {id: self.searcher.score(weights, id) for id in impacts}
        best = name if name in impacts else min(scores, key=lambda id: (-scores[id], id))
        notes = [] if best == name else [f"the best of the {len(impacts)} segments of {name}"]
        document_view = self._document(best, impacts[best], notes, sources=sources)
        shared = weights.keys() & impacts[best].keys()
        parts = {term: self.searcher.score({term: weights[term]}, best) for term in shared}
        score = explain_score(query_view, document_view, scores[best], None if self.note.scoring == "impact" else parts)
        score.check(f"{self._index}: {best!r}")
        return Inspection(
            model=self.model, index=str(self._index), query=query_view, document=document_view, score=score
        )

    def _impacts(self, name: str) -> dict[str, dict[str, int]]:
        """``{id: {term: impact}}`` of the document, or of all its segments; raise if there is neither."""
        from learned_sparse.lucene import ids_near

        maxp = MaxP.from_note(self.note)
        segments = [f"{name}{maxp.delimiter}{number}" for number in range(maxp.max_segments)] if maxp else []
        names = [name, *segments]
        postings = self.searcher.postings(names)
        if not postings:
            with _instance_calls:
                near = ", ".join(map(repr, ids_near(self._index, name)))
            raise LearnedSparseError(
                f"{self._index}: no document {name!r}"
                + (f"; next ids: {near}" if near else "; it would come after all ids of the index")
            )
        return {id: postings[id] for id in names if id in postings}

    @cached_property
    def _query_encoder(self) -> QueryEncoder:
        return self._with_settings({})

    def _with_settings(self, settings: Mapping[str, Any]) -> QueryEncoder:
        if self.note.scoring == "bm25-text":
            if settings:
                raise LearnedSparseError(f"--set: {self._index} holds plain text, which is searched without an encoder")
            return QueryEncoder(self._analyzer)
        device = {"device": self._device} if self._device else {}
        return QueryEncoder.from_index(
            self._index, self._checkpoint, note=self.note, settings=settings, load=self._load, **device
        )

    @cached_property
    def _analyzer(self) -> AnalyzedText:
        return AnalyzedText()

    def _document(self, name: str, row: Mapping[str, int], notes: list[str], *, sources: bool) -> TextView:
        """View of an indexed document; if its text cannot be encoded again, a note says why."""
        impacts = {term: impact for term, impact in row.items() if term not in RESERVED}
        text, reading = None, None
        if not impacts:
            notes.append("an empty vector: no query matches it")
        if sources:
            try:
                text, reading, more = self._encode_again(name, impacts)
                notes += more
            except LearnedSparseError as error:
                notes.append(f"only what the index holds, without text and sources: {error}")
        return make_view("document", text, reading, impacts, id=name, indexed=True, notes=notes)

    def _encode_again(self, name: str, impacts: Mapping[str, int]) -> tuple[str, Reading | None, list[str]]:
        """Text, explanation and notes of an indexed document, by the encoder that encoded it."""
        document = self._find_document(name)
        encoder = self._document_encoder
        segmentation = Segmentation.recorded(self.manifest.options) if self.manifest else None
        if segmentation:
            if segmentation.adds_up:
                raise LearnedSparseError("its weights are added up over segments, which have sources of their own")
            spans = segmentation.spans(encoder.word_spans([document.text])[0]) or [(0, len(document.text))]
            start, end = spans[int(name.rpartition(segmentation.delimiter)[2])]
            document = Document(name, document.text[start:end], document.expanded)
        text = document.with_expanded if encoder.uses_expanded else document.text
        reading, notes = _explain(encoder, text)
        current = _impacts(encoder, self._document_quantizer, text, reading)
        changed = sum(current.get(term) != impacts.get(term) for term in current.keys() | impacts.keys())
        if changed:
            notes.append(f"{changed} of {len(impacts)} impacts of the index differ from those the encoder gives now")
        return text, reading, notes

    @property
    def _document_quantizer(self) -> Quantizer:
        return self.manifest.quantizer if self.manifest else AnalyzedText.quantizer

    @cached_property
    def _document_encoder(self) -> Encoder:
        """The encoder that encoded the documents; raise if the checkpoint gives another one."""
        if self.note.scoring == "bm25-text":
            return self._analyzer
        manifest = self._recorded()
        recorded = manifest.encoder
        options = {key: recorded[key] for key in ENCODER_OPTIONS if recorded.get(key) is not None}
        options |= {"revision": manifest.options.get("revision"), "device": self._device}
        if "hybrid" in options:
            options["statistics"] = str(self._index)
        checkpoint = self._checkpoint or find_checkpoint(manifest, self._index)
        encoder = (self._load or load_encoder)(checkpoint, "document", model=manifest.model, **options)
        if lines := differences(recorded, dict(encoder.description)):
            raise LearnedSparseError(
                f"{checkpoint}: not the encoder of these vectors: {'; '.join(lines)}; name that one with --checkpoint"
            )
        return encoder

    def _recorded(self) -> Manifest:
        if self.manifest is None:
            raise LearnedSparseError(f"{self._index}: does not record what it was made from, so no text can be read")
        return self.manifest

    def _find_document(self, name: str) -> Document:
        """The document ``name``, or the whole document that the segment ``name`` was cut from."""
        if self.note.scoring != "bm25-text":
            name = document_of_segment(self._recorded(), name)
        if self._documents is None:
            document = find_document(self.manifest, name, self._collection, self._data)
        elif (known := self._documents(name)) is None:
            raise LearnedSparseError(f"the text of document {name!r} is not there")
        else:
            document = known
        return with_predicted_queries(self.manifest, document) if self.manifest else document


def _view(side: Side, text: str, encoder: Encoder, quantizer: Quantizer | None, name: str | None = None) -> TextView:
    reading, notes = _explain(encoder, text)
    if quantizer is None:
        return make_view(side, text, reading, None, id=name, notes=[*notes, "no impacts: no quantiser is stored"])
    impacts = _impacts(encoder, quantizer, text, reading)
    return make_view(side, text, reading, impacts, id=name, notes=notes)


def _impacts(encoder: Encoder, quantizer: Quantizer, text: str, reading: Reading | None) -> dict[str, int]:
    """Impacts of ``text``: of the weights in ``reading``, which are those that ``encode`` gives, if there is one."""
    batch = SparseBatch.from_dicts([reading.weights]) if reading else encode_texts(encoder, [text])
    return quantizer.quantize(batch)[0].row(0)


def _explain(encoder: Encoder, text: str) -> tuple[Reading | None, list[str]]:
    """Explanation of ``text`` and no note, or None and a note if there is none."""
    if not text.strip():
        return None, ["the text is empty"]
    try:
        return encoder.explain(text), []
    except LearnedSparseError as error:
        return None, [f"no sources: {error}"]
