"""The files that a name of the ir_datasets catalogue is made of: their addresses, sizes and places."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.collections.catalogue_names import dataset, has

KINDS = ("docs", "queries", "qrels")


@dataclass(frozen=True, kw_only=True)
class Download:
    """One file, as ir_datasets fetches it."""

    kinds: tuple[str, ...]
    """What is in it, of ``KINDS``."""
    url: str | None
    """None where it is not to be had without a licence: ``instructions`` say how."""
    instructions: str | None
    bytes: int | None
    md5: str | None
    path: str | None
    """Where ir_datasets looks for it before it fetches it, and keeps it; None for a small one that is not kept."""
    here: bool
    terms: str | None
    """What its publisher asks of those who use it."""


def downloads(name: str) -> list[Download]:
    """The files of ``name``, each once, documents first; few names do not tell before they are used."""
    found: dict[tuple[str | None, str | None], Download] = {}
    for kind in (kind for kind in KINDS if has(name, kind)):
        for one in (_described(download, kind) for download in inside(getattr(dataset(name), f"{kind}_handler")())):
            before = found.get((one.url, one.path))
            both = before.kinds if before else ()
            found[one.url, one.path] = dataclasses.replace(one, kinds=tuple(dict.fromkeys((*both, kind))))
    return list(found.values())


def inside(handler: Any) -> Iterator[Any]:
    """The ``Download`` objects that ``handler`` reads from, however they are wrapped (unzipped, filtered, cached)."""
    import ir_datasets

    waiting, seen = [handler], set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, ir_datasets.util.Download):
            yield thing
        elif isinstance(thing, list | tuple):
            waiting += reversed(thing)
        elif type(thing).__module__.startswith("ir_datasets") and hasattr(thing, "__dict__"):
            waiting += reversed(vars(thing).values())


def _described(download: Any, kind: str) -> Download:
    remote = next((mirror for mirror in download.mirrors if getattr(mirror, "url", None)), None)
    local = next((mirror for mirror in download.mirrors if remote is None and hasattr(mirror, "path")), None)
    path = download._cache_path  # noqa: SLF001 -- .path() would fetch a file that is not kept
    return Download(
        kinds=(kind,),
        url=None if remote is None else remote.url,
        instructions=None if local is None else local._message,  # noqa: SLF001
        bytes=download._size_hint,  # noqa: SLF001
        md5=download.expected_md5,
        path=None if path is None else str(path),
        here=path is not None and Path(path).exists(),
        terms=download.dua,
    )
