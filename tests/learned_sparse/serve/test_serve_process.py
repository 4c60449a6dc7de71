"""The server as a process and over sockets: what it finds by itself, refuses, and closes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from fastapi.testclient import TestClient

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.collections.documents import read_documents
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.index.note import IndexNote
from learned_sparse.serve import __main__ as serve
from learned_sparse.serve import guard
from learned_sparse.serve.api import create_app
from learned_sparse.serve.content import Content
from tests.learned_sparse.encoded_folder import write_folder
from tests.learned_sparse.serve.serving import running
from tests.toy_data import save_collection


@pytest.mark.jvm
def test_a_server_on_a_free_port(tmp_path: Path, tiny_bert: Path) -> None:
    """Indexes with the texts and judged queries of the collection whose folder is recorded; Ctrl-C ends the server.

    The encoder of SpaDE's queries needs no torch, which takes ten seconds to import.
    """
    save_checkpoint(tmp_path / "checkpoint", new_model("spade", {}, str(tiny_bert)))
    toy = save_collection(tmp_path / "toy", ["dev", "test"])
    vectors, index, bm25 = tmp_path / "vectors", tmp_path / "index", tmp_path / "bm25"
    made = ["--model", "m", "--checkpoint", tmp_path / "checkpoint", "--collection", toy, "--output", vectors]
    encode.main([*map(str, made), "--dtype", "fp32", "--device", "cpu"])
    build_index(vectors, index)
    build_bm25_index(read_documents(toy / "corpus.jsonl"), bm25)
    command = [sys.executable, "-m", "learned_sparse.serve", "--index", f"mine={index}", str(bm25), "--split", "dev"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--port", "0"], **pipes) as process:
        assert process.stdout
        assert process.stderr
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), process.stderr.read()
        address = line.split()[0]
        overview = httpx2.get(f"{address}systems").json()
        body = {"query": "python file", "systems": ["bm25"], "query_id": "q0"}
        hits = httpx2.post(f"{address}search", json=body).json()["rankings"][0]["hits"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert "Traceback" not in process.stderr.read()
    assert line.endswith(" shows mine, bm25; press Ctrl-C to stop\n")
    assert overview["systems"][1] == {"name": "bm25", "model": "BM25", "scoring": "bm25-text", "documents": 12}
    assert [overview[key] for key in ("collection", "split", "queries", "notes")] == ["toy", "dev", 12, []]
    assert (hits[0]["id"], hits[0]["grade"], hits[0]["text"]) == ("d0", 1, "python file opens path garbage")


def test_names_of_indexes(tmp_home: Path, tmp_path: Path) -> None:
    """All indexes but training's, impacts first; those of --index are called by their folders or by given names."""
    for name, scoring in (("a", "bm25-text"), ("b", "impact"), ("bm25-of-training", "bm25-text")):
        (tmp_home / "indexes" / "pydoc" / name).mkdir(parents=True)
        IndexNote(scoring, (), {}).save(tmp_home / "indexes" / "pydoc" / name)
    (tmp_path / "k=2").mkdir()

    def names(*arguments: str) -> list[str]:
        return list(serve.find_indexes(serve.parser().parse_args([*arguments])))

    assert (names(), names("--model", "a")) == (["b", "a"], ["a"])
    assert names("--index", "x/index", "second=y/index", "x/index", str(tmp_path / "k=2")) == ["index", "second", "k=2"]


def test_checkpoints_without_an_index(tmp_path: Path, tiny_bert: Path) -> None:
    """Encoders alone, by name; no page, no search."""
    save_checkpoint(tmp_path / "checkpoint", new_model("splade", {}, str(tiny_bert)))
    words = ["--checkpoint", str(tmp_path / "checkpoint"), f"second={tmp_path / 'checkpoint'}"]
    client = TestClient(create_app(serve.open_checkpoints(serve.parser().parse_args(words))))
    rows = client.post("/embed_sparse?system=second", json={"inputs": ["hives", "rash"]}).json()
    assert (len(rows), all(rows)) == (2, True)
    assert (client.get("/info").json()["model_id"], client.get("/").status_code) == ("checkpoint", 404)


@pytest.mark.jvm
def test_what_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        with pytest.raises(LearnedSparseError, match=rf"127\.0\.0\.1:{port}: cannot listen there"):
            serve.main(["--index", str(tmp_path), "--port", port])
    indexes = [str(tmp_path / name) for name in ("one", "two")]
    for name in indexes:
        build_index(write_folder(Path(f"{name}-vectors"), {"d": {"a": 1}}, collection=Path(name).name), name)
    with pytest.raises(LearnedSparseError, match=r"indexes of different collections \(one, two\); show one collection"):
        serve.main(["--index", *indexes, "--port", "0"])


HEAD = b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A server without systems that waits one second for headers and for bodies."""
    monkeypatch.setattr(guard, "HEADER_SECONDS", 1)
    monkeypatch.setattr(guard, "BODY_SECONDS", 1)
    with running(Content(systems={})) as url:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        yield parts.hostname, parts.port


def test_a_chunked_body_is_refused_while_it_is_read(address: tuple[str, int]) -> None:
    chunk = b"%x\r\n%b\r\n" % (2**20, bytes(2**20))
    with socket.create_connection(address) as client:
        client.settimeout(10)
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + 5 * chunk)
        assert client.recv(12) == b"HTTP/1.1 413"


def test_too_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_CONNECTIONS", 1)
    with running(Content(systems={})) as url:
        assert httpx2.get(f"{url}info").status_code == 503


@pytest.mark.parametrize("before", [b"", HEAD + b"Content-Length: 2\r\n\r\n{}"])
def test_half_a_request_is_closed(address: tuple[str, int], before: bytes) -> None:
    """At the start of a connection, and after an answer; bytes that trickle in keep nothing open."""
    with socket.create_connection(address) as client:
        if before:
            client.sendall(before)
            response = HTTPResponse(client)
            response.begin()
            assert json.loads(response.read())  # to its last byte, which may arrive apart from the headers
        client.sendall(HEAD)
        started = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() < started + 10:
                time.sleep(0.2)
                client.sendall(b"X")


@pytest.mark.parametrize(
    ("host", "status"),
    [("[", 400), ("[::1", 400), ("", 403), ("elsewhere.example", 403), ("LocalHost:1", 200), ("[::1]:80", 200)],
)
def test_host_names(host: str, status: int, caplog: pytest.LogCaptureFixture) -> None:
    """Names that the server was not started for are refused: their pages may resolve to this machine."""
    client = TestClient(create_app(Content(systems={}), hosts=["localhost", "::1"]))
    response = client.get("/openapi.json", headers={"Host": host})
    assert response.status_code == status
    assert response.headers["x-content-type-options"] == "nosniff"
    if status != 200:
        assert host in response.json()["error"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *((host, True) for host in ("127.0.0.1", "LOCALHOST", "127.1")),
        pytest.param("[::1]", True, marks=pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")),
        ("", False),
    ],
)
def test_who_can_reach_the_server(host: str, loopback: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Only the addresses of this machine check names; all others warn."""
    listener, hosts = guard.listen(host, 0)
    listener.close()
    assert (hosts is not None, bool(caplog.records)) == (loopback, not loopback)
    assert not loopback or {host.strip("[]").lower(), "localhost", "127.0.0.1"} <= set(hosts or ())
