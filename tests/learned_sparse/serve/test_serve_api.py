"""The JSON API of the page: numbers equal to the exact searcher's, refusals in one line, text that stays text."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from learned_sparse.core.encoder import Side
from learned_sparse.inspect.explanation import Inspection, TextView
from learned_sparse.inspect.inspection import IndexInspector
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.serve.api import STATIC, create_app
from learned_sparse.serve.content import Content
from tests.learned_sparse.inspect.explaining import DOCUMENTS, LOADED, impacts, load_explaining, vectors
from tests.learned_sparse.serve.serving import AGAIN, GRADES, SCRIPT, toy_content

pytestmark = pytest.mark.jvm
QUERY = "hives and rash"
SEARCH = {"query": "a", "systems": ["words"]}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Content]:
    with toy_content(tmp_path_factory.mktemp("serve")) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(content: Content) -> TestClient:
    return TestClient(create_app(content), raise_server_exceptions=False)


def ask(client: TestClient, path: str, **body: Any) -> Any:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def exact_hits(text: str) -> list[tuple[str, int]]:
    return ExactSearcher.from_vectors(vectors().items()).search(impacts(text))


def test_hits_are_those_of_the_searchers(client: TestClient, content: Content) -> None:
    answer = ask(client, "/search", query=QUERY, systems=["words", "bm25"])
    words, bm25 = answer["rankings"]
    assert [(hit["id"], hit["score"]) for hit in words["hits"]] == exact_hits(QUERY)
    assert [hit["text"] for hit in words["hits"]] == [DOCUMENTS[hit["id"]] for hit in words["hits"]]
    expected = content.systems["bm25"].searcher.search_batch({"": QUERY}, 10)[""]
    assert [(hit["id"], hit["score"]) for hit in bm25["hits"]] == expected
    ranks = {hit["id"]: hit["rank"] for hit in bm25["hits"]}
    assert list(ranks.values()) == list(range(1, len(ranks) + 1))
    assert [hit["ranks"]["bm25"] for hit in words["hits"]] == [ranks.get(hit["id"]) for hit in words["hits"]]
    assert min(words["encode_ms"], words["search_ms"], bm25["search_ms"]) > 0
    assert (bm25["encode_ms"], answer["relevant"]) == (None, [])
    (first,) = ask(client, "/search", query=QUERY, systems=["words"], hits=1)["rankings"][0]["hits"]
    assert first == words["hits"][0] | {"ranks": {}}


def test_explanations_are_those_of_inspect(client: TestClient, content: Content) -> None:
    """One format of JSON; the folder of the index stays unknown."""
    for name in ("words", "bm25"):
        index = content.systems[name].index
        inspector = IndexInspector(index, documents=content.text_of, load=load_explaining)
        for document in ("d1", "d2", "d10"):
            expected = replace(inspector.pair(QUERY, document), index=name)
            assert ask(client, "/explain", query=QUERY, system=name, document=document) == as_json(expected)
        sides: tuple[Side, ...] = ("query", "document")
        for side in sides:
            answer = ask(client, "/encode", text="hives are", system=name, side=side)
            assert answer == as_json(inspector.text("hives are", side))


def as_json(record: Inspection | TextView) -> Any:
    return json.loads(json.dumps(asdict(record)))


def test_judged_queries(client: TestClient) -> None:
    listed = client.get("/queries", params={"contains": "HIVES"}).json()
    assert listed == {"total": 1, "queries": [{"id": "q1", "text": QUERY, "relevant": 2}]}
    assert client.get("/queries").json()["total"] == 2
    answer = ask(client, "/search", query=QUERY, systems=["words"], query_id="q1")
    hits = [hit["id"] for hit in answer["rankings"][0]["hits"]]
    grades = {document: grade for query, document, grade in GRADES if query == "q1"}
    assert [hit["grade"] for hit in answer["rankings"][0]["hits"]] == [grades.get(document) for document in hits]
    assert answer["relevant"] == [
        {"id": document, "grade": grades[document], "ranks": {"words": hits.index(document) + 1}}
        for document in ("d1", "d10")
    ]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/search", SEARCH | {"query": " "}, 422, "query: String should have at least 1 character"),
        ("/search", SEARCH | {"k": 3}, 422, "k: Extra inputs are not permitted"),
        ("/search", SEARCH | {"systems": ["word"]}, 404, "no system 'word'; did you mean 'words'?"),
        ("/explain", {"query": "a", "system": "w" * 1_001, "document": "d"}, 422, "system: String should have at most"),
        ("/explain", {"query": "a", "system": "words", "document": "d11"}, 400, "words: no document 'd11'; name"),
        ("/search", SEARCH | {"query_id": "q\n9"}, 404, "no query 'q\\n9'"),
        ("/search", b'{"query": "\\ud800", "systems": ["words"]}', 422, "unable to parse raw data as a unicode string"),
    ],
)  # fmt: skip
def test_bad_requests(client: TestClient, path: str, body: Any, status: int, message: str) -> None:
    """One line without the folder of an index."""
    content = body if isinstance(body, bytes) else json.dumps(body)
    response = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert (response.status_code, list(response.json())) == (status, ["error", "error_type"])
    assert message in response.json()["error"]
    assert not re.search(r"\n|/tmp|/serve", response.json()["error"])


def test_hostile_text_is_json(client: TestClient) -> None:
    """Names, notes and texts come as JSON only, so that no browser reads them as a page."""
    for response in (client.get("/systems"), client.post("/search", json={"query": SCRIPT, "systems": [SCRIPT]})):
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "<script>" in response.text


def test_the_page_is_three_files_of_the_package(client: TestClient) -> None:
    names = {"/": "index.html", "/serve.css": "serve.css", "/serve.js": "serve.js"}
    assert {file.name for file in STATIC.iterdir()} == set(names.values())
    page, style, script = ((STATIC / name).read_text("utf-8") for name in names.values())
    for path, text in zip(names, (page, style, script), strict=True):
        response = client.get(path)
        assert response.text == text
        policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
        assert response.headers["content-security-policy"].startswith(policy)
    assert [client.get(path).status_code for path in ("/api.py", "/../api.py", "/%2e%2e/api.py")] == [404] * 3
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", page)
    assert not re.search(r"https?:|//\w|url\(|@import", page + style)
    assert not re.search(r"https?:|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
    assert set(re.findall(r'byId\("([\w-]+)"\)', script)) <= set(re.findall(r'\bid="([\w-]+)"', page))


def test_an_index_that_is_made_again_and_what_is_kept(tmp_path: Path) -> None:
    """One encoder for each side of a checkpoint is loaded, whichever systems ask at once, and no words of BM25 are
    kept. The open index would still be searched when its folder holds another one, so the server says so.
    """
    LOADED.clear()
    with toy_content(tmp_path) as content:
        client = TestClient(create_app(content))
        requests = itertools.product(("words", AGAIN, "bm25"), ("document", "query"))
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda pair: ask(client, "/encode", text="a", system=pair[0], side=pair[1]), requests))
        assert sorted(call["side"] for call in LOADED) == ["document", "query"]
        assert list(content.systems["bm25"].encoder("query").terms) == []
        shutil.copytree(content.systems["words"].index, tmp_path / "other")
        shutil.rmtree(content.systems["words"].index)
        (tmp_path / "other").rename(content.systems["words"].index)
        refused = client.post("/search", json=SEARCH)
        assert (refused.status_code, "words: changed" in refused.json()["error"]) == (400, True)


def test_without_judged_queries_and_texts(content: Content) -> None:
    client = TestClient(create_app(Content(systems=content.systems, notes=["no texts: x"])))
    overview = client.get("/systems").json()
    assert (overview["collection"], overview["notes"]) == (None, ["no texts: x"])
    hits = ask(client, "/search", query="rash", systems=["words"])["rankings"][0]["hits"]
    assert [hit["text"] for hit in hits] == [None, None]
    assert client.get("/queries").status_code == 404


def test_an_internal_error_shows_no_details(
    client: TestClient, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content.systems["words"].searcher, "search_batch", lambda *_: 1 / 0)
    response = client.post("/search", json=SEARCH)
    assert (response.status_code, "ZeroDivisionError" in response.text) == (500, False)
    assert "internal error" in response.json()["error"]
    assert "content-security-policy" in response.headers
