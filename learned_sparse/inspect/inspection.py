"""Inspect a text, a document of an index, or the score of a document of an index for a query."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from learned_sparse.collections import Expansions, Segmentation, load_collection, read_documents
from learned_sparse.core import (
    RESERVED,
    Document,
    Encoder,
    LearnedSparseError,
    Quantizer,
    Query,
    Reading,
    Side,
    encode_texts,
    load_encoder,
    without_mark,
)
from learned_sparse.index import IndexNote
from learned_sparse.inspect.explanation import Inspection, TextView, explain_score, make_view
from learned_sparse.jsonvector import Manifest, differences
from learned_sparse.search import MaxP, QueryEncoder, find_checkpoint

ENCODER_OPTIONS = ("max_length", "dtype", "top_k", "settings")
"""Keys of an encoder's description that are options of ``load_encoder`` too."""


def inspect_text(text: str, side: Side, model: str, checkpoint: str, **options: Any) -> Inspection:
    """``text`` as one side (``query`` or ``document``) of a checkpoint encodes it, with options of ``load_encoder``."""
    encoder = load_encoder(checkpoint, side, model=model, **options)
    view = _view(side, without_mark(text), encoder, encoder.quantizer)
    return Inspection(model=model, query=view) if side == "query" else Inspection(model=model, document=view)


class IndexInspector:
    """Inspects documents of one impact index, and their scores for queries."""

    def __init__(
        self,
        index: Path,
        *,
        checkpoint: str | None = None,
        device: str | None = None,
        collection: str | None = None,
        data: Path | None = None,
    ) -> None:
        """``checkpoint``, ``collection`` and ``data`` replace the locations that the index records."""
        self._index, self._checkpoint, self._device = index, checkpoint, device
        self._collection, self._data = collection, data
        self._note = IndexNote.load(index)
        if self._note.scoring == "bm25-text":
            raise LearnedSparseError(f"{index}: an index of plain text, without impacts; name one of encoded documents")
        self._model = self._note.manifests[0].model if self._note.manifests else "unknown"

    def document(self, name: str, *, sources: bool = True) -> Inspection:
        """The terms of the document ``name``; with ``sources``, its text is looked up and encoded again."""
        impacts = self._impacts(name)
        if name not in impacts:
            segments = ", ".join(impacts)
            raise LearnedSparseError(f"{self._index}: {name!r} is cut into segments; name one of them: {segments}")
        view = self._document(name, impacts[name], [], sources=sources)
        return Inspection(model=self._model, index=str(self._index), document=view)

    def pair(self, query: Query, name: str, settings: Mapping[str, Any], *, sources: bool = True) -> Inspection:
        """The score of the document ``name``, or of the best of its segments, for a query, term by term."""
        from learned_sparse.lucene import score_of

        if self._note.scoring != "impact":
            raise LearnedSparseError(f"{self._index}: scored by BM25, so a score is not a sum of products of impacts")
        query_view = self._query(query, settings)
        weights = {term.term: term.impact for term in query_view.terms if term.impact}
        impacts = self._impacts(name)
        scores = {id: sum(weights.get(term, 0) * impact for term, impact in row.items()) for id, row in impacts.items()}
        best = name if name in impacts else min(scores, key=lambda id: (-scores[id], id))
        notes = [] if best == name else [f"the best of the {len(impacts)} segments of {name}"]
        document_view = self._document(best, impacts[best], notes, sources=sources)
        score = explain_score(query_view, document_view, score_of(self._index, weights, best))
        score.check(f"{self._index}: {best!r}")
        return Inspection(
            model=self._model, index=str(self._index), query=query_view, document=document_view, score=score
        )

    def _manifest(self) -> Manifest:
        """Manifest of the first shard; all shards are encoded alike."""
        if not self._note.manifests:
            raise LearnedSparseError(f"{self._index}: does not record what it was made from, so no text can be read")
        return self._note.manifests[0]

    def _impacts(self, name: str) -> dict[str, dict[str, int]]:
        """``{id: {term: impact}}`` of the document, or of all its segments; raise if there is neither."""
        from learned_sparse.lucene import ids_near, postings_of

        maxp = MaxP.from_note(self._note)
        segments = [f"{name}{maxp.delimiter}{number}" for number in range(maxp.max_segments)] if maxp else []
        names = [name, *segments]
        postings = postings_of(self._index, names)
        if not postings:
            near = ", ".join(map(repr, ids_near(self._index, name)))
            raise LearnedSparseError(
                f"{self._index}: no document {name!r}"
                + (f"; next ids: {near}" if near else "; it would come after all ids of the index")
            )
        return {id: postings[id] for id in names if id in postings}

    def _query(self, query: Query, settings: Mapping[str, Any]) -> TextView:
        device = {"device": self._device} if self._device else {}
        encoder = QueryEncoder.from_index(self._index, self._checkpoint, note=self._note, settings=settings, **device)
        return _view("query", without_mark(query.text), encoder.encoder, encoder.quantizer, query.id or None)

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
        manifest = self._manifest()
        document = self._find_document(manifest, name)
        encoder = self._document_encoder(manifest)
        if segmentation := Segmentation.recorded(manifest.options):
            if segmentation.adds_up:
                raise LearnedSparseError("its weights are added up over segments, which have sources of their own")
            spans = segmentation.spans(encoder.word_spans([document.text])[0]) or [(0, len(document.text))]
            start, end = spans[int(name.rpartition(segmentation.delimiter)[2])]
            document = Document(name, document.text[start:end], document.expanded)
        text = document.with_expanded if encoder.uses_expanded else document.text
        reading, notes = _explain(encoder, text)
        current = manifest.quantizer.quantize(encode_texts(encoder, [text]))[0].row(0)
        changed = sum(current.get(term) != impacts.get(term) for term in current.keys() | impacts.keys())
        if changed:
            notes.append(f"{changed} of {len(impacts)} impacts of the index differ from those the encoder gives now")
        return text, reading, notes

    def _document_encoder(self, manifest: Manifest) -> Encoder:
        """The encoder that encoded the documents; raise if the checkpoint gives another one."""
        recorded = manifest.encoder
        options = {key: recorded[key] for key in ENCODER_OPTIONS if recorded.get(key) is not None}
        options |= {"revision": manifest.options.get("revision"), "device": self._device}
        checkpoint = self._checkpoint or find_checkpoint(manifest, self._index)
        encoder = load_encoder(checkpoint, "document", model=manifest.model, **options)
        if lines := differences(recorded, dict(encoder.description)):
            raise LearnedSparseError(
                f"{checkpoint}: not the encoder of these vectors: {'; '.join(lines)}; name that one with --checkpoint"
            )
        return encoder

    def _find_document(self, manifest: Manifest, name: str) -> Document:
        """The document ``name``, or the whole document that the segment ``name`` was cut from.

        Documents come from the encoded files if these still exist and no collection is named, else from the collection.
        """
        segmentation = Segmentation.recorded(manifest.options)
        wanted = name.rpartition(segmentation.delimiter)[0] if segmentation and not segmentation.adds_up else name
        files = [Path(entry["file"]) for entry in manifest.input if "file" in entry]
        expanded = manifest.options.get("expanded")
        source = ", ".join(map(str, files)) or "its input"
        if files and self._collection is None and self._data is None and all(file.is_file() for file in files):
            documents = chain.from_iterable(read_documents(file, on_bad_line="skip") for file in files)
        elif collection := self._collection or manifest.collection:
            source = collection
            documents = chain(load_collection(collection, data=self._data).documents("skip"))
        else:
            raise LearnedSparseError(f"{source}: the encoded documents are not there; name them with --collection")
        for document in documents:
            if document.id == wanted:
                return Expansions(Path(expanded)).joined(document, source) if expanded else document
        raise LearnedSparseError(
            f"document {wanted!r} is not in {source}; name the collection that was encoded with --collection, --data"
        )


def _view(side: Side, text: str, encoder: Encoder, quantizer: Quantizer | None, name: str | None = None) -> TextView:
    reading, notes = _explain(encoder, text)
    if quantizer is None:
        return make_view(side, text, reading, None, id=name, notes=[*notes, "no impacts: no quantiser is stored"])
    impacts = quantizer.quantize(encode_texts(encoder, [text]))[0].row(0)
    return make_view(side, text, reading, impacts, id=name, notes=notes)


def _explain(encoder: Encoder, text: str) -> tuple[Reading | None, list[str]]:
    """Explanation of ``text`` and no note, or None and a note if there is none."""
    if not text.strip():
        return None, ["the text is empty"]
    try:
        return encoder.explain(text), []
    except LearnedSparseError as error:
        return None, [f"no sources: {error}"]
