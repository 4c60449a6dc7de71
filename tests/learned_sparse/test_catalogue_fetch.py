"""Large files over a network: lost connections, stopped processes, and what ir_datasets does by itself."""

from __future__ import annotations

import hashlib
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from learned_sparse.collections import catalogue_fetch
from learned_sparse.collections.catalogue_fetch import Resumed, resume_downloads
from learned_sparse.collections.catalogue_files import inside
from learned_sparse.collections.collection import load_collection
from learned_sparse.core.errors import LearnedSparseError
from tests.conftest import ROOT

ir_datasets = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")

NUMBER = 3_000
DOCUMENTS = "".join(f"d{i}\t{'word ' * 200}{i}\n" for i in range(NUMBER)).encode()
HALF = len(DOCUMENTS) // 2

FETCH = """
import sys
from tests.learned_sparse.test_catalogue_fetch import register
from learned_sparse.collections.collection import load_collection
register("learned-sparse-test/far", sys.argv[1], sys.argv[2])
print(sum(1 for _ in load_collection("ir_datasets:learned-sparse-test/far").documents()))
"""


class Server(http.server.ThreadingHTTPServer):
    """Serves ``DOCUMENTS`` under any path; ``cuts`` says after how many bytes the next connections are lost."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cuts: list[int] = []
        self.stall = threading.Event()
        """Set: wait, where a connection would be cut."""
        self.ranges = True
        self.content = DOCUMENTS
        self.asked: list[str] = []
        """The Range of each request."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/documents.tsv"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked, content = self.headers.get("Range", ""), self.server.content
        self.server.asked.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-") or 0) if self.server.ranges else 0
        if self.path == "/nowhere" or start >= len(content):
            self.send_error(404 if self.path == "/nowhere" else 416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if self.server.ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        end = self.server.cuts.pop(0) if self.server.cuts else len(content)
        self.wfile.write(content[start:end])
        self.wfile.flush()
        while end < len(content) and self.server.stall.is_set():
            time.sleep(0.01)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.stall.clear()
        server.shutdown()


def register(name: str, url: str, folder: str | Path, content: bytes = DOCUMENTS, size: int = 10**7) -> Any:
    """A data set in the real catalogue whose documents come from ``url`` into ``folder``; its one download."""
    util = ir_datasets.util
    download = util.Download(
        [util.RequestsDownload(url)],
        cache_path=str(Path(folder) / "documents.tsv"),
        expected_md5=hashlib.md5(content, usedforsecurity=False).hexdigest(),
        size_hint=size,
    )
    documents = ir_datasets.formats.TsvDocs(download)
    ir_datasets.registry.register(name, ir_datasets.datasets.base.Dataset(documents))
    return download


@pytest.fixture
def far(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a data set on ``server``; nothing of it is here."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(catalogue_fetch, "PAUSE", 0)
    name = "learned-sparse-test/far"
    register(name, server.url, tmp_path)
    yield name
    del ir_datasets.registry._registered[name]


def count(name: str) -> int:
    return sum(1 for _ in load_collection(f"ir_datasets:{name}").documents())


def part(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "downloads" / f"{hashlib.md5(DOCUMENTS, usedforsecurity=False).hexdigest()}.part"


def test_ir_datasets_itself_goes_on_after_a_lost_connection(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With progress; a file that is whole stays, and is not fetched again."""
    server.cuts = [HALF]
    mirrors = [ir_datasets.util.RequestsDownload(server.url)]
    for _ in range(2):
        path = ir_datasets.util.Download(mirrors, cache_path=str(tmp_path / "documents.tsv")).path()
        assert Path(path).read_bytes() == DOCUMENTS
    first, second = server.asked
    assert first == ""
    assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) <= HALF
    assert "documents.tsv" in capfd.readouterr().err


def test_lost_connections(far: str, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server.cuts = [HALF, HALF, HALF + 10]
    assert count(far) == NUMBER
    assert server.asked == ["", f"bytes={HALF}-", f"bytes={HALF}-", f"bytes={HALF + 10}-"]
    assert (tmp_path / "documents.tsv").read_bytes() == DOCUMENTS
    assert not part(tmp_path).exists()
    assert "documents.tsv: " in capfd.readouterr().err
    assert count(far) == NUMBER
    assert len(server.asked) == 4


def test_a_process_that_was_killed(far: str, server: Server, tmp_path: Path) -> None:
    server.cuts = [HALF]
    server.stall.set()
    child = subprocess.Popen([sys.executable, "-c", FETCH, server.url, str(tmp_path)], cwd=ROOT, env=dict(os.environ))
    while not part(tmp_path).exists() or part(tmp_path).stat().st_size < HALF // 2**20 * 2**20:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    server.stall.clear()
    kept = part(tmp_path).stat().st_size
    assert kept > 0
    assert count(far) == NUMBER
    assert server.asked == ["", f"bytes={kept}-"]


def test_who_comes_second_waits_and_fetches_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_fetch, "PAUSE", 0)
    server.cuts = [HALF]
    server.stall.set()
    waiting, found = threading.Semaphore(0), []
    wait_for_others = catalogue_fetch._wait_for_others

    def wait(file: BinaryIO) -> None:
        waiting.release()
        wait_for_others(file)

    def read() -> None:
        with Resumed(ir_datasets.util.RequestsDownload(server.url), part(tmp_path)).stream() as stream:
            found.append(stream.read())

    monkeypatch.setattr(catalogue_fetch, "_wait_for_others", wait)
    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
        assert waiting.acquire(timeout=60)
        while not server.asked:
            time.sleep(0.01)
    server.stall.clear()
    for thread in threads:
        thread.join()
    assert found == [DOCUMENTS] * 2
    assert server.asked == ["", f"bytes={HALF}-", f"bytes={len(DOCUMENTS)}-"]
    assert not part(tmp_path).exists()


def test_all_had_come_when_the_process_was_killed(far: str, server: Server, tmp_path: Path) -> None:
    part(tmp_path).parent.mkdir(parents=True)
    part(tmp_path).write_bytes(DOCUMENTS)
    assert count(far) == NUMBER
    assert server.asked == [f"bytes={len(DOCUMENTS)}-"]


def test_a_server_that_cannot_go_on(far: str, server: Server, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [HALF]
    assert count(far) == NUMBER
    assert server.asked == ["", f"bytes={HALF}-"]


def test_a_broken_file_is_not_kept(far: str, server: Server, tmp_path: Path) -> None:
    part(tmp_path).parent.mkdir(parents=True)
    part(tmp_path).write_bytes(b"something else")
    with pytest.raises(LearnedSparseError, match="cannot be fetched"):
        count(far)
    assert not part(tmp_path).exists()
    assert count(far) == NUMBER


def test_what_cannot_be_resumed_is_left_to_ir_datasets(
    far: str, server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.cuts = [HALF] * (1 + catalogue_fetch.TRIES)
    assert count(far) == NUMBER
    assert (
        "5 connections in a row brought nothing; the last: it ended early; ir_datasets tries" in capfd.readouterr().err
    )
    assert server.asked[-1] == ""


def test_a_file_that_is_not_there(server: Server, tmp_path: Path) -> None:
    name = "learned-sparse-test/nowhere"
    register(name, server.url.replace("documents.tsv", "nowhere"), tmp_path)
    with pytest.raises(LearnedSparseError, match=r"nowhere: cannot be fetched .*it needs a network"):
        count(name)
    del ir_datasets.registry._registered[name]


def test_only_large_files_are_resumed(far: str, tmp_path: Path) -> None:
    def mirrors(name: str) -> list[Any]:
        handler = ir_datasets.load(name).docs_handler()
        resume_downloads(handler)
        resume_downloads(handler)  # once is enough
        return [mirror for download in inside(handler) for mirror in download.mirrors]

    (mirror,) = mirrors(far)
    assert isinstance(mirror, Resumed)
    assert not isinstance(mirror._mirror, Resumed)
    register("learned-sparse-test/small", "http://127.0.0.1:9/", tmp_path, size=100)
    assert not isinstance(mirrors("learned-sparse-test/small")[0], Resumed)
    del ir_datasets.registry._registered["learned-sparse-test/small"]
