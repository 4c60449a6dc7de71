"""The web application: the JSON API, described by /openapi.json, and the files of the page.

Explanations are the records of ``learned_sparse.inspect``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException

from learned_sparse import __version__
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.inspect.explanation import Inspection, TextView
from learned_sparse.serve.content import Content, UnknownNameError, timed_search
from learned_sparse.serve.embed import ERROR_TYPES, add_embedding
from learned_sparse.serve.guard import Guard, Name, Text, problem

STATIC = Path(__file__).parent / "static"
RANK_DEPTH = 100
"""Depth to which the rank of a document in another system is looked up."""
SNIPPET = 300
"""Characters of a document in a list of hits."""
MAX_LISTED = 50
"""Judged queries in one answer."""
_log = logging.getLogger(__name__)


QueryText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000)]
Systems = Annotated[list[Name], Field(min_length=1, max_length=4, description="names of systems")]


class _Request(BaseModel):
    """Base of all requests: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class SearchRequest(_Request):
    """A query for one or more systems."""

    query: QueryText
    systems: Systems
    hits: Annotated[int, Field(ge=1, le=100)] = 10
    """Documents of each system."""
    query_id: Name | None = None
    """The judged query of this text, whose grades the hits get."""


class EncodeRequest(_Request):
    """A text for the encoder of a system."""

    text: Annotated[Text, StringConstraints(strip_whitespace=True, min_length=1)]
    system: Name
    side: Side = "document"


class ExplainRequest(_Request):
    """A query and a document of an index."""

    query: QueryText
    system: Name
    document: Name


def create_app(content: Content, *, hosts: Sequence[str] | None = None) -> Guard:
    """The application over ``content``; ``hosts`` as in ``Guard``."""
    app = FastAPI(
        title="learned_sparse.serve",
        version=__version__,
        summary="Search, compare and explain learned sparse indexes",
        docs_url=None,  # FastAPI's pages load scripts from another machine
        redoc_url=None,
    )
    if content.systems:
        _add_routes(app, content)
    add_embedding(app, content.encoders())
    _add_errors(app, content)
    if content.systems:
        app.mount("/", StaticFiles(directory=STATIC, html=True))  # last, because it takes all other paths
    return Guard(app, hosts)


def _add_routes(app: FastAPI, content: Content) -> None:
    @app.get("/systems")
    def systems() -> dict[str, Any]:
        """The systems (name, model, scoring, documents), what is missing (notes), and the collection with the number of
        its judged queries.
        """
        judged = content.judged
        return {
            "systems": [
                {"name": name, "model": of.model, "scoring": of.note.scoring, "documents": of.searcher.documents}
                for name, of in content.systems.items()
            ],
            "notes": content.notes,
            "collection": judged.collection if judged else None,
            "split": judged.split if judged else None,
            "queries": len(judged.queries) if judged else 0,
        }

    @app.get("/queries")
    def queries(contains: str = "") -> dict[str, Any]:
        """The number of judged queries whose text or id contains a text, and the first of them (id, text, number of
        relevant documents).
        """
        judged, part = content.queries(), contains.casefold()
        texts = judged.queries.items()
        ids = [id for id, text in texts if part in text.casefold() or part in id.casefold()]
        shown = [
            {"id": id, "text": judged.queries[id], "relevant": len(judged.relevant(id))} for id in ids[:MAX_LISTED]
        ]
        return {"total": len(ids), "queries": shown}

    @app.post("/search")
    def search(request: SearchRequest) -> dict[str, Any]:
        """Search one or more systems.

        Answers with the ``rankings`` of the systems: times in milliseconds and ``hits``. A hit has the beginning of its
        ``text`` (``cut`` if the text goes on), the ``grade`` of the judged query, and its ``ranks`` in the other
        systems, null if not among the first 100. ``relevant`` are the relevant documents of the judged query.
        """
        id, judged = request.query_id or "", None if request.query_id is None else content.queries()
        grades = judged.grades(id) if judged else {}
        depth = 1 + max(request.hits, RANK_DEPTH)
        results = {}
        for name in request.systems:
            with content.system(name) as system:
                results[name] = timed_search(system, request.query, depth)
        hits = {
            name: [hit for hit in found if not (judged and judged.remove_query and hit[0] == id)]
            for name, (found, _, _) in results.items()
        }
        ranks = {
            name: {document: rank for rank, (document, _) in enumerate(of[:RANK_DEPTH], start=1)}
            for name, of in hits.items()
        }

        def ranks_of(document: str, without: str = "") -> dict[str, int | None]:
            return {name: of.get(document) for name, of in ranks.items() if name != without}

        def hit(system: str, rank: int, document: str, score: float) -> dict[str, Any]:
            text = stored.text if (stored := content.text_of(document)) else None
            return {
                "rank": rank, "id": document, "score": score, "grade": grades.get(document),
                "text": text and text[:SNIPPET], "cut": len(text or "") > SNIPPET, "ranks": ranks_of(document, system),
            }  # fmt: skip

        rankings = [
            {
                "system": name, "encode_ms": encode_ms, "search_ms": search_ms,
                "hits": [hit(name, rank, *pair) for rank, pair in enumerate(hits[name][: request.hits], start=1)],
            }
            for name, (_, encode_ms, search_ms) in results.items()
        ]  # fmt: skip
        relevant = [
            {"id": document, "grade": grade, "ranks": ranks_of(document)}
            for document, grade in (judged.relevant(id) if judged else [])
        ]
        return {"rankings": rankings, "relevant": relevant}

    @app.post("/encode")
    def encode(request: EncodeRequest) -> TextView:
        """Terms and weights of any text, as a system reads queries or documents."""
        with content.system(request.system) as system:
            return system.text(request.text, request.side)

    @app.post("/explain")
    def explain(request: ExplainRequest) -> Inspection:
        """The score of a document for a query, term by term."""
        with content.system(request.system) as system:
            explained = system.pair(request.query, request.document)
        return replace(explained, index=request.system)  # the folder is not for everybody


def _add_errors(app: FastAPI, content: Content) -> None:
    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return problem(422, f"{'.'.join(map(str, first['loc'][1:] or first['loc']))}: {first['msg']}")

    @app.exception_handler(LearnedSparseError)
    def refused(_: Request, error: LearnedSparseError) -> JSONResponse:
        message = str(error)
        for name, system in content.systems.items():  # the name is for everybody, the folder is not
            message = message.replace(f"{system.index}:", f"{name}:")
        return problem(404 if isinstance(error, UnknownNameError) else 400, message)

    @app.exception_handler(HTTPException)
    def failed(_: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, str(error.detail), ERROR_TYPES.get(error.status_code, "Validation"))

    @app.exception_handler(Exception)
    def broken(_: Request, error: Exception) -> JSONResponse:
        _log.error("internal error: %r", error)
        return problem(500, "internal error; the terminal of the server has its description", "Backend")
