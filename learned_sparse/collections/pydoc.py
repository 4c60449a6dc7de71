"""The embedded collection ``pydoc``: the standard library's docstrings, and their first sentences as queries."""

from __future__ import annotations

import hashlib
import platform
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.collections import docstrings
from learned_sparse.core import LearnedSparseError, atomic_write, home

SPLITS = ("train", "dev", "test")
FEWEST_QUERY_WORDS = 3
FEWEST_DOCUMENT_WORDS = 5
_NEXT_SENTENCE = re.compile(r"[.!?]\s+[A-Z]")


def build(library: Path | None = None, into: Path | None = None) -> Path:
    """The collection as a BEIR folder, made at the first call (some seconds) and found again by the next.

    It lies in ``home()/collections/pydoc-<Python's version>-<hash of the sources>``: another Python, or another way to
    make the collection, is another folder. Equal sources give equal files, byte for byte.
    """
    library = library or docstrings.library()
    files = docstrings.source_files(library)
    if not files:
        raise LearnedSparseError(
            f"{library}: no sources of the standard library, so there is no collection pydoc; "
            "use a Python installed with its .py files, or another --collection"
        )
    parent = into or home() / "collections"
    state = tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    folder = parent / f"pydoc-{platform.python_version()}-{_fingerprint(library, state)}"
    if not folder.exists():
        _write_whole(folder, dict(docstrings.docstrings(library, files)))
    return folder


def known_item(text: str) -> tuple[str, str] | None:
    r"""A docstring's first sentence and the rest, or None where it does not stand apart, or comes again.

    >>> known_item("Return the lower case.\n\nOnly letters change: digits stay as they are.")
    ('Return the lower case.', 'Only letters change: digits stay as they are.')
    """
    first, _, rest = text.strip().partition("\n\n")
    query, rest = " ".join(first.split()), rest.strip()
    if _NEXT_SENTENCE.search(query) or len(query.split()) < FEWEST_QUERY_WORDS:
        return None
    repeated = query.rstrip(".").casefold() in " ".join(rest.split()).casefold()
    return (query, rest) if len(rest.split()) >= FEWEST_DOCUMENT_WORDS and not repeated else None


def known_items(texts: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """``{name: (query, rest)}``; a sentence that opens several docstrings is nobody's query."""
    items = {name: item for name, text in texts.items() if (item := known_item(text))}
    counts = Counter(query.casefold() for query, _ in items.values())
    return {name: item for name, item in items.items() if counts[item[0].casefold()] == 1}


def split_of(name: str) -> str:
    """``test`` and ``dev`` for a tenth of the names each, by a hash; ``train`` for the others."""
    tenth = int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "big") % 10
    return {0: "test", 1: "dev"}.get(tenth, "train")


def _write_whole(folder: Path, texts: Mapping[str, str]) -> None:
    items = known_items(texts)
    building = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.tmp")
    try:
        _write(building / "corpus.jsonl", _corpus(texts, items))
        _write(building / "queries.jsonl", (_json({"_id": name, "text": query}) for name, (query, _) in items.items()))
        for split in SPLITS:
            judged = (f"{name}\t{name}\t1\n".encode() for name in items if split_of(name) == split)
            _write(building / "qrels" / f"{split}.tsv", (b"query-id\tcorpus-id\tscore\n", *judged))
        building.rename(folder)
    except OSError:
        if not folder.exists():  # else another process was faster, with the same bytes
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _corpus(texts: Mapping[str, str], items: Mapping[str, tuple[str, str]]) -> Iterator[bytes]:
    for name, text in texts.items():
        title = re.sub(r"[._]+", " ", name).strip()  # Lucene takes "json.decoder" for one word
        yield _json({"_id": name, "title": title, "text": items[name][1] if name in items else text})


def _json(record: dict[str, Any]) -> bytes:
    return orjson.dumps(record) + b"\n"


def _write(path: Path, lines: Iterable[bytes]) -> None:
    with atomic_write(path) as file:
        file.writelines(lines)


@cache  # reading every source takes most of a second, and each split asks
def _fingerprint(library: Path, state: tuple[tuple[Path, int, int], ...]) -> str:
    total = hashlib.sha256()
    for module in (__file__, docstrings.__file__):
        total.update(hashlib.sha256(Path(module).read_bytes()).digest())
    for file, _, _ in state:
        total.update(file.relative_to(library).as_posix().encode("utf-8") + b"\0")
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:12]
