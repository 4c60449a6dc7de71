"""Lets ir_datasets go on with a large file where a process that was stopped has left off.

ir_datasets fetches files with progress and goes on after a lost connection. But what a process has of a file when it is
stopped is lost: that would be gigabytes of MS MARCO. So its addresses are put into ``Resumed``, which keeps what came.
"""

from __future__ import annotations

import contextlib
import http.client
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from learned_sparse import __version__
from learned_sparse.collections.catalogue_cache import cache_folder
from learned_sparse.collections.catalogue_files import inside

LARGE = 5_000_000
"""Bytes; a smaller file is fetched at once."""
TRIES = 5
"""Connections in a row that may be lost without a single byte."""
PAUSE = 1.0
"""Seconds before the second try, twice that before the third, and so on."""
_CHUNK = 2**20
_SECONDS = 30  # without a byte, after which a connection is lost


def resume_downloads(handler: Any) -> None:
    """Put the addresses of the large files that ``handler`` reads into ``Resumed``; nothing is fetched yet."""
    import ir_datasets

    for download in inside(handler):
        large = (download._size_hint or 0) >= LARGE  # noqa: SLF001 -- nothing public tells
        for place, mirror in enumerate(download.mirrors):
            plain = isinstance(mirror, ir_datasets.util.RequestsDownload) and not (mirror.auth or mirror.cookies)
            if large and plain and download.expected_md5:
                part = cache_folder() / "downloads" / f"{download.expected_md5}.part"
                download.mirrors[place] = Resumed(mirror, part)


class Resumed:
    """In place of one of the ``mirrors`` of an ir_datasets ``Download``, which checks the sum of what it gets."""

    def __init__(self, mirror: Any, part: Path) -> None:
        """``mirror`` is tried where this cannot fetch; ``part`` keeps what came until all of it did."""
        self.url: str = mirror.url
        self.headers: dict[str, str] = mirror.headers or {}
        self.auth = None
        self.part = part
        self._mirror = mirror

    @contextlib.contextmanager
    def stream(self) -> Iterator[BinaryIO]:
        """All of the file, once all has come. What has come stays if the reader is interrupted or its disk is full."""
        from ir_datasets.util import HashVerificationError

        self.part.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._whole() as file:
                yield file
        except HashVerificationError:  # what came is broken
            self.part.unlink(missing_ok=True)
            raise
        self.part.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[BinaryIO]:
        with self.part.open("a+b") as file:
            _wait_for_others(file)
            try:
                self._complete(file)
            except (OSError, http.client.HTTPException) as error:
                print(f"{self.url}: {error}; ir_datasets tries without resuming", file=sys.stderr)
            else:
                file.seek(0)
                yield file
                return
        with self._mirror.stream() as stream:
            yield stream

    def _complete(self, file: BinaryIO) -> None:
        """Append to ``file`` what it lacks, over as many connections as it takes.

        ``OSError`` if the server is not there or says no, or after ``TRIES`` lost connections that brought nothing.
        """
        from tqdm import tqdm

        lost = 0
        with tqdm(desc=self.url.rpartition("/")[2], initial=file.tell(), unit="B", unit_scale=True) as bar:
            while True:
                before = file.tell()
                try:
                    if self._receive(file, bar):
                        return
                    reason = "it ended early"
                except urllib.error.HTTPError as error:
                    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and before:
                        return  # there is nothing after what we have
                    raise
                except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
                    reason = str(error) or type(error).__name__
                lost = 0 if file.tell() > before else lost + 1
                if lost == TRIES:
                    raise ConnectionError(f"{TRIES} connections in a row brought nothing; the last: {reason}")
                time.sleep(lost * PAUSE)

    def _receive(self, file: BinaryIO, bar: Any) -> bool:
        """Append what one connection brings; whether that was the rest. A server that cannot go on starts anew."""
        headers = {"User-Agent": f"learned_sparse/{__version__}", "Accept-Encoding": "identity", **self.headers}
        if file.tell():
            headers["Range"] = f"bytes={file.tell()}-"
        asked = urllib.request.Request(self.url, headers=headers)  # noqa: S310 -- as the catalogue has it
        with urllib.request.urlopen(asked, timeout=_SECONDS) as response:  # noqa: S310
            if response.status != http.client.PARTIAL_CONTENT and file.tell():
                file.truncate(0)
                file.seek(0)
                bar.reset()
            length = response.headers.get("Content-Length")
            bar.total = None if length is None else file.tell() + int(length)
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
            return bar.total is None or file.tell() == bar.total


def _wait_for_others(file: BinaryIO) -> None:
    """Wait until no other process of this machine writes ``file``, up to its end: closing it lets go."""
    try:
        import fcntl
    except ImportError:  # Windows: nobody waits
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    file.seek(0, 2)
