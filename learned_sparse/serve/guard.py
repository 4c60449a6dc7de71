"""What stands between the network and the application: limits of time and size, host names, headers of all answers."""

from __future__ import annotations

import ipaddress
import logging
import socket
from asyncio import Transport
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlsplit

import anyio
import uvicorn
from pydantic import Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from learned_sparse.core.errors import LearnedSparseError

HEADERS = {
    # No script or style but the page's own two files, and no request to any other machine.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
MAX_TEXT, MAX_NAME = 200_000, 1_000
"""Characters of a text, and of the name of a system, a query or a document."""
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Name = Annotated[str, Field(max_length=MAX_NAME)]
MAX_BODY = 4_000_000
"""Bytes of a request."""
MAX_CONNECTIONS = 1_000
"""Connections at a time; others are answered with 503. Together with ``MAX_BODY``, it bounds the memory of requests."""
HEADER_SECONDS, BODY_SECONDS = 10, 60
"""Time for the headers of a request, since the connection was opened or the last answer sent, and for its body."""
_log = logging.getLogger(__name__)


def listen(host: str, port: int) -> tuple[socket.socket, list[str] | None]:
    """A listening socket, and the host names that requests may have.

    The names are None, with a warning, if other machines can reach the socket.
    """
    host = host.strip("[]").lower()
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise LearnedSparseError(
            f"{host}:{port}: cannot listen there ({error.strerror or error}); choose another --port or --host"
        ) from None
    # Connections inherit it. Answers are several writes, and asyncio sets it only if the socket names its protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    address = listener.getsockname()[0]
    if ipaddress.ip_address(address).is_loopback:
        return listener, [host, address, "localhost", "127.0.0.1", "::1"]
    _log.warning("%s: everybody who can reach this port can search, encode and read the documents", address)
    return listener, None


def configured(app: ASGIApp) -> uvicorn.Config:
    """Settings of the server of ``app``."""
    return uvicorn.Config(
        app, http=TimedProtocol, timeout_keep_alive=HEADER_SECONDS, limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=5, log_level="warning", access_log=False,
    )  # fmt: skip


class TimedProtocol(H11Protocol):
    """Uvicorn's HTTP protocol, which waits forever for the rest of a request once its first byte is there.

    This one closes the connection: its timer between two requests starts with the connection, too, and only a complete
    request stops it.
    """

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the timer."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        """Read ``data`` without stopping the timer."""
        self.conn.receive_data(data)
        self.handle_events()


class Guard:
    """The application ``app`` behind checks of each request, whose body is read before ``app`` is called.

    With ``hosts``, requests to other host names are refused: pages elsewhere whose name resolves to this machine (DNS
    rebinding).
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None = None) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, as ASGI defines it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        body = self._wrong_host(scope) or await _read_body(receive)
        if isinstance(body, JSONResponse):
            return await body(scope, receive, send_with_headers)
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive_again() -> Message:
            return next(messages, None) or await receive()

        return await self._app(scope, receive_again, send_with_headers)

    def _wrong_host(self, scope: Scope) -> JSONResponse | None:
        host = Headers(scope=scope).get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return problem(400, f"the Host header {host!r} is not a host name")
        if self._hosts is None or name in self._hosts:
            return None
        return problem(403, f"requests to the host {host!r} are refused; use {self._hosts[0]}")


async def _read_body(receive: Receive) -> bytes | JSONResponse:
    body, more = bytearray(), True
    try:
        with anyio.fail_after(BODY_SECONDS):
            while more:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > MAX_BODY:
                    return problem(413, f"the request is larger than {MAX_BODY:,} bytes")
                more = message.get("more_body", False)
    except TimeoutError:
        return problem(408, f"the body of the request did not arrive within {BODY_SECONDS} seconds")
    return bytes(body)


def problem(status: int, message: str, error_type: str = "Validation") -> JSONResponse:
    """An answer that says in one line why a request was refused."""
    return JSONResponse({"error": " ".join(message.split()), "error_type": error_type}, status)
