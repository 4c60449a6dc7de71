"""What is to be shown: a text, a document of an index, or a query and a document with their score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core import RESERVED, LearnedSparseError, Quantizer, Query, Reading, without_mark
from learned_sparse.encode import EncodeOptions
from learned_sparse.index import IndexNote
from learned_sparse.inspect.score import Score, explain_score
from learned_sparse.inspect.texts import Places, document_encoder, find_document, text_of
from learned_sparse.inspect.view import TextView, make_view
from learned_sparse.jsonvector import Manifest
from learned_sparse.search import MaxP


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """All that was asked for."""

    model: str
    index: str | None
    query: TextView | None = None
    document: TextView | None = None
    score: Score | None = None


def inspect_text(
    text: str, side: str, model: str, checkpoint: str, changes: Mapping[str, Any], device: str | None
) -> Inspection:
    """``text`` as one side of ``checkpoint`` reads it."""
    from learned_sparse.encode import load_side

    options = EncodeOptions(model=model, queries=side == "query", device=device, changes=changes)
    return _of_text(model, None, _encoded(side, without_mark(text), load_side(options, checkpoint)))


def inspect_text_for_index(text: str, side: str, index: Path, changes: Mapping[str, Any], places: Places) -> Inspection:
    """``text`` as the encoder of an index reads it."""
    note = _impact_note(index)
    if side == "query":
        view = _query(Query("", text), index, note, changes, places)
    else:
        if changes:
            raise LearnedSparseError("--set: what an index holds was encoded without it; give --checkpoint instead")
        encoder = document_encoder(_manifest(note, index), places)
        view = _encoded(side, without_mark(text), encoder, note.manifests[0].quantizer)
    return _of_text(_model(note), str(index), view)


def inspect_document(name: str, index: Path, places: Places, *, sources: bool = True) -> Inspection:
    """What ``index`` holds of the document ``name``; with ``sources``, its text is found and read once more."""
    note = _impact_note(index)
    found = _held(index, note, name)
    if name not in found:
        raise LearnedSparseError(f"{index}: {name!r} is cut into segments; name one of them: {', '.join(found)}")
    return Inspection(
        model=_model(note),
        index=str(index),
        document=_document(name, found[name], note, index, places, sources=sources),
    )


def inspect_pair(
    query: Query, name: str, index: Path, changes: Mapping[str, Any], places: Places, *, sources: bool = True
) -> Inspection:
    """A query, the document ``name`` of ``index`` (or the best of its segments), and the score term by term."""
    from learned_sparse.lucene import score_of

    note = _impact_note(index)
    if note.scoring != "impact":
        raise LearnedSparseError(
            f"{index}: its terms are scored by BM25, not by impacts, so no product explains a score"
        )
    asked = _query(query, index, note, changes, places)
    impacts = {term.term: term.impact for term in asked.terms if term.impact}
    found = _held(index, note, name)
    best = min(found, key=lambda id: (-sum(impacts.get(term, 0) * held for term, held in found[id].items()), id))
    chosen = name if name in found else best
    remarks = [] if name in found else [f"the best of the {len(found)} segments of {name}"]
    document = _document(chosen, found[chosen], note, index, places, sources=sources, remarks=remarks)
    score = explain_score(asked, document, score_of(index, impacts, chosen))
    score.check(f"{index}: {chosen!r}")
    return Inspection(model=_model(note), index=str(index), query=asked, document=document, score=score)


def _of_text(model: str, index: str | None, view: TextView) -> Inspection:
    if view.kind == "query":
        return Inspection(model=model, index=index, query=view)
    return Inspection(model=model, index=index, document=view)


def _manifest(note: IndexNote, index: Path) -> Manifest:
    """Of the first shard: all are by one encoder."""
    if not note.manifests:
        raise LearnedSparseError(f"{index}: does not say what it was made of, so its texts cannot be read again")
    return note.manifests[0]


def _impact_note(index: Path) -> IndexNote:
    note = IndexNote.load(index)
    if note.scoring == "bm25-text":
        raise LearnedSparseError(
            f"{index}: an index of plain text, which has no impacts; name one of encoded documents"
        )
    return note


def _model(note: IndexNote) -> str:
    return note.manifests[0].model if note.manifests else "unknown"


def _held(index: Path, note: IndexNote, name: str) -> dict[str, dict[str, int]]:
    """``{id: {term: impact}}`` of the document, or of all its segments; neither is an error."""
    from learned_sparse.lucene import ids_near, postings_of

    passages = MaxP.from_note(note)
    names = [f"{name}{passages.delimiter}{number}" for number in range(passages.max_segments)] if passages else []
    found = postings_of(index, [name, *names])
    if not found:
        near = ", ".join(map(repr, ids_near(index, name)))
        raise LearnedSparseError(
            f"{index}: no document {name!r}" + (f"; ids after it: {near}" if near else "; it comes after all ids there")
        )
    return {id: found[id] for id in [name, *names] if id in found}


def _query(query: Query, index: Path, note: IndexNote, changes: Mapping[str, Any], places: Places) -> TextView:
    from learned_sparse.search import QueryEncoder

    chosen = {"device": places.device} if places.device else {}
    made = QueryEncoder.from_note(note, index, places.checkpoint, settings=changes, **chosen)
    return _encoded("query", without_mark(query.text), made.encoder, made.quantizer, query.id or None)


def _document(
    name: str,
    impacts: Mapping[str, int],
    note: IndexNote,
    index: Path,
    places: Places,
    *,
    sources: bool,
    remarks: list[str] | None = None,
) -> TextView:
    """Without its text and sources where these cannot be had; a remark says why."""
    text, reading, remarks = None, None, list(remarks or [])
    held = {term: impact for term, impact in impacts.items() if term not in RESERVED}
    if not held:
        remarks.append("an empty vector: no query finds it")
    if sources:
        try:
            text, reading, more = _reread(name, held, _manifest(note, index), places)
            remarks += more
        except LearnedSparseError as error:
            remarks.append(f"only what the index holds, without text and sources: {error}")
    return make_view("document", text, reading, held, id=name, indexed=True, notes=remarks)


def _reread(
    name: str, held: Mapping[str, int], shard: Manifest, places: Places
) -> tuple[str, Reading | None, list[str]]:
    document = find_document(shard, name, places)
    encoder = document_encoder(shard, places)
    text = text_of(shard, name, document, encoder)
    reading, remarks = _read(encoder, text)
    now = shard.quantizer.quantize(encoder.encode([text]))[0].row(0)
    other = sum(now.get(term) != held.get(term) for term in now.keys() | held.keys())
    if other:
        remarks.append(f"{other} of {len(held)} impacts are not what the encoder gives now; the index's are shown")
    return text, reading, remarks


def _encoded(side: str, text: str, encoder: Any, quantizer: Quantizer | None = None, id: str | None = None) -> TextView:
    reading, remarks = _read(encoder, text)
    weights = encoder.encode([text])
    quantizer = quantizer or encoder.quantizer
    impacts = quantizer.quantize(weights)[0].row(0) if quantizer else None
    if not quantizer:
        remarks.append("no impacts: the checkpoint does not say how to quantise its weights")
    if reading is None and impacts is None:
        raise LearnedSparseError("this encoder can neither quantise its weights nor say where they come from")
    return make_view(side, text, reading, impacts, id=id, notes=remarks)


def _read(encoder: Any, text: str) -> tuple[Reading | None, list[str]]:
    if not hasattr(encoder, "explain"):
        return None, ["this encoder cannot say which tokens its weights come from"]
    return encoder.explain(text), []
