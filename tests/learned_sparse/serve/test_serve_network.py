"""What arrives over a socket: long and slow bodies, half requests, host names; and how soon an answer leaves."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from urllib.parse import urlsplit

import httpx2
import pytest

from learned_sparse.serve import guard
from learned_sparse.serve.api import create_app
from learned_sparse.serve.content import Content
from tests.learned_sparse.serve.serving import running

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


def answer(client: socket.socket, sent: bytes) -> bytes:
    """The first bytes of the answer to ``sent``; empty if the server closes the connection."""
    client.settimeout(10)
    client.sendall(sent)
    return client.recv(65_536)


def test_a_chunked_body_is_refused_while_it_is_read(address: tuple[str, int]) -> None:
    chunk = b"%x\r\n%b\r\n" % (2**20, bytes(2**20))
    with socket.create_connection(address) as client:
        status = answer(client, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + 5 * chunk).split(b"\r\n")[0]
    assert b" 413 " in status


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
    from fastapi.testclient import TestClient

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
