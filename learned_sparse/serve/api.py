"""The web application: the JSON API, described by /openapi.json, and the files of the page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException

from learned_sparse import __version__
from learned_sparse.core import Document, LearnedSparseError, did_you_mean
from learned_sparse.serve.embed import ERROR_TYPES, Load, add_embedding
from learned_sparse.serve.guard import Guard, problem
from learned_sparse.serve.judged import Judged
from learned_sparse.serve.schema import (
    EncodeRequest,
    ExplainRequest,
    Explanation,
    Hit,
    JudgedQuery,
    Measured,
    MeasureRequest,
    MeasureResponse,
    Overview,
    Problem,
    QueriesResponse,
    Ranked,
    Relevant,
    SearchRequest,
    SearchResponse,
    WeighedText,
)
from learned_sparse.serve.systems import Ranking, System, UnknownNameError

STATIC = Path(__file__).parent / "static"
FILES = {"/": "index.html", "/serve.css": "serve.css", "/serve.js": "serve.js"}
RANK_DEPTH = 100
"""Depth to which the rank of a document in another system is looked up."""
SNIPPET = 300
"""Characters of a document in a list of hits."""
MAX_LISTED = 50
"""Judged queries in one answer."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Content:
    """What the server serves; without ``systems`` only encoders."""

    systems: Mapping[str, System]
    text_of: Callable[[str], Document | None] = lambda _: None
    judged: Judged | None = None
    notes: Sequence[str] = field(default_factory=tuple)
    """What is missing, and why."""
    checkpoints: Mapping[str, Load] = field(default_factory=dict)
    """Encoders without an index."""

    def encoders(self) -> dict[str, Load]:
        """The encoders of all systems and checkpoints; plain text has none."""
        systems = {name: system.encoder for name, system in self.systems.items() if system.scoring != "bm25-text"}
        return {**systems, **self.checkpoints}

    def system(self, name: str) -> System:
        """The system ``name``; raise if its index was made again."""
        if name not in self.systems:
            raise UnknownNameError(f"no system {name!r}{did_you_mean(name, self.systems)}")
        self.systems[name].check_unchanged()
        return self.systems[name]

    def queries(self) -> Judged:
        """The judged queries; raise if there are none."""
        if self.judged is None:
            raise UnknownNameError("there are no judged queries here; start the server with --collection and --split")
        return self.judged


def create_app(content: Content, *, hosts: Sequence[str] | None = None) -> Guard:
    """The application over ``content``; ``hosts`` as in ``Guard``."""
    app = FastAPI(
        title="learned_sparse.serve",
        version=__version__,
        summary="Search, compare and explain learned sparse indexes",
        docs_url=None,  # FastAPI's pages load scripts from another machine
        redoc_url=None,
        responses={"4XX": {"model": Problem}},
    )
    if content.systems:
        _add_pages(app)
        _add_routes(app, content)
    add_embedding(app, content.encoders())
    _add_errors(app, content)
    return Guard(app, hosts)


def _add_pages(app: FastAPI) -> None:
    for path, name in FILES.items():
        app.add_api_route(path, _sender(STATIC / name), include_in_schema=False)


def _sender(path: Path) -> Callable[[], FileResponse]:
    def send() -> FileResponse:
        return FileResponse(path)

    return send


def _add_routes(app: FastAPI, content: Content) -> None:
    @app.get("/systems")
    def systems() -> Overview:
        """The systems, the collection and what is missing."""
        members: dict[str, Any] = {"systems": list(content.systems.values()), "notes": list(content.notes)}
        if judged := content.judged:
            members |= {"collection": judged.collection, "split": judged.split, "measures": list(judged.measures)}
            members["queries"] = len(judged.queries)
        return Overview.model_validate(members, from_attributes=True)

    @app.get("/queries")
    def queries(contains: str = "") -> QueriesResponse:
        """The first judged queries whose text or id contains a text."""
        judged = content.queries()
        matching = judged.containing(contains)
        return QueriesResponse(
            total=len(matching),
            queries=[
                JudgedQuery(id=query.id, text=query.text, relevant=len(_relevant(judged, query.id)))
                for query in matching[:MAX_LISTED]
            ],
        )

    @app.post("/search")
    def search(request: SearchRequest) -> SearchResponse:
        """Search one or more systems; each hit has its rank in the others."""
        return _search(content, request)

    @app.post("/encode")
    def encode(request: EncodeRequest) -> WeighedText:
        """Terms and weights of any text, as a system reads queries or documents."""
        return WeighedText.of(content.system(request.system).text(request.text, request.side))

    @app.post("/explain")
    def explain(request: ExplainRequest) -> Explanation:
        """The score of a document for a query, term by term."""
        return Explanation.of(content.system(request.system).explain(request.query, request.document))

    measuring = anyio.CapacityLimiter(2)  # measuring all queries is slow: the threads of other requests stay free

    @app.post("/measure")
    async def measure(request: MeasureRequest) -> MeasureResponse:
        """The measures of systems on one judged query, or their means over all."""
        return await anyio.to_thread.run_sync(_measure, content, request, limiter=measuring)


def _measure(content: Content, request: MeasureRequest) -> MeasureResponse:
    judged, id = content.queries(), request.query_id
    chosen = [content.system(name) for name in request.systems]
    values = [dict(judged.measure_all(system) if id is None else judged.measure(system, id)) for system in chosen]
    return MeasureResponse(
        queries=len(judged.queries) if id is None else 1,
        systems=[Measured(system=system.name, values=row) for system, row in zip(chosen, values, strict=True)],
    )


def _search(content: Content, request: SearchRequest) -> SearchResponse:
    systems = [content.system(name) for name in dict.fromkeys(request.systems)]
    judged, id = (content.queries(), request.query_id) if request.query_id is not None else (None, "")
    grades: Mapping[str, int] = {}
    if judged:
        judged.query(id)
        grades = judged.qrels[id]
    rankings = {system.name: system.search(request.query, max(request.hits, RANK_DEPTH) + 1) for system in systems}
    hits = {
        name: [document for document, _ in (judged.without_query(id, ranking.hits) if judged else ranking.hits)]
        for name, ranking in rankings.items()
    }
    ranks = {
        name: {document: rank for rank, document in enumerate(documents[:RANK_DEPTH], start=1)}
        for name, documents in hits.items()
    }
    relevant = [
        Relevant(id=document, grade=grade, ranks={name: of.get(document) for name, of in ranks.items()})
        for document, grade in (_relevant(judged, id) if judged else [])
    ]
    ranked = [
        _ranked(content, name, ranking, hits[name][: request.hits], ranks, grades) for name, ranking in rankings.items()
    ]
    return SearchResponse(rankings=ranked, relevant=relevant)


def _ranked(
    content: Content,
    name: str,
    ranking: Ranking,
    documents: Sequence[str],
    ranks: Mapping[str, Mapping[str, int]],
    grades: Mapping[str, int],
) -> Ranked:
    scores = dict(ranking.hits)
    texts = {document: known.text if (known := content.text_of(document)) else None for document in documents}
    hits = [
        Hit(
            rank=rank,
            id=document,
            score=scores[document],
            text=None if text is None else text[:SNIPPET],
            cut=len(text or "") > SNIPPET,
            grade=grades.get(document),
            ranks={other: of.get(document) for other, of in ranks.items() if other != name},
        )
        for rank, (document, text) in enumerate(texts.items(), start=1)
    ]
    return Ranked(system=name, encode_ms=ranking.encode_ms, search_ms=ranking.search_ms, hits=hits)


def _relevant(judged: Judged, id: str) -> list[tuple[str, int]]:
    """``(document id, grade)`` of the documents with a positive grade, highest first."""
    pairs = [(document, grade) for document, grade in judged.qrels[id].items() if grade > 0]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def _add_errors(app: FastAPI, content: Content) -> None:
    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "json_invalid":
            return problem(422, f"the request is not JSON: {first.get('ctx', {}).get('error', message)}")
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return problem(422, f"{where}: {message}" if where else message)

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
