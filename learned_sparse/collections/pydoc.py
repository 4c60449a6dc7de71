"""The embedded collection ``pydoc``: docstrings of the standard library; their first sentences are the queries."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import orjson

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import home, new_folder

SPLITS = ("train", "dev", "test")
MIN_QUERY_WORDS = 3
MIN_DOCUMENT_WORDS = 5

_NEXT_SENTENCE = re.compile(r"[.!?]\s+[A-Z]")
_EXCLUDED = {
    *("site-packages", "dist-packages", "lib-dynload", "__pycache__"),
    *("test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "__hello__", "__phello__"),
}
_BLOCKS = ("body", "handlers", "orelse", "finalbody")
_NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LIBRARY = Path(sysconfig.get_path("stdlib"))
"""The folder of the running Python's standard library."""


def build(library: Path | None = None, into: Path | None = None) -> Path:
    """The collection as a BEIR folder; the first call writes it (some seconds), later calls return it.

    The folder is ``home()/collections/pydoc-<version of Python>-<hash of the library's and this file's source>``. Equal
    sources give equal files, byte for byte. ``library`` and ``into`` replace the running Python's standard library and
    ``home()/collections``. ``LearnedSparseError`` for a Python without source files.
    """
    library = library or LIBRARY
    files = source_files(library)
    if not files:
        raise LearnedSparseError(
            f"{library}: no sources of the standard library, so there is no collection pydoc; "
            "use a Python installed with its .py files, or another --collection"
        )
    parent = into or home() / "collections"
    state = tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    folder = parent / f"pydoc-{platform.python_version()}-{_fingerprint(library, state)}"
    if not folder.exists():
        _write_folder(folder, dict(docstrings(library, files)))
    return folder


def source_files(folder: Path) -> list[Path]:
    """The ``.py`` files of a library, sorted by path, without tests, examples and installed packages."""
    paths = []
    for parent, folders, files in os.walk(folder):
        top = Path(parent) == folder
        folders[:] = [name for name in folders if name not in _EXCLUDED and not (top and name.startswith("config-"))]
        paths += [Path(parent, name) for name in files if name.endswith(".py") and name[:-3] not in _EXCLUDED]
    return sorted(paths, key=lambda file: file.relative_to(folder).parts)


def docstrings(folder: Path, files: list[Path]) -> Iterator[tuple[str, str]]:
    """``(qualified name, docstring)`` of every module, class, function and method that has a docstring.

    Files are parsed, never imported. A name that is defined twice (for two operating systems, say) has its first
    docstring. A file that this Python cannot parse is left out.
    """
    names: set[str] = set()
    for file in files:
        parts = file.relative_to(folder).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for name, text in _definitions(_parse(file), module):
            if name not in names:
                names.add(name)
                yield name, text.encode("utf-8", "replace").decode("utf-8")  # a literal may hold a lone surrogate


def known_item(text: str) -> tuple[str, str] | None:
    r"""A docstring's first sentence and the rest; None if it has no separate first sentence, or the rest repeats it.

    >>> known_item("Return the lower case.\n\nOnly letters change: digits stay as they are.")
    ('Return the lower case.', 'Only letters change: digits stay as they are.')
    """
    first, _, rest = text.strip().partition("\n\n")
    query, rest = " ".join(first.split()), rest.strip()
    if _NEXT_SENTENCE.search(query) or len(query.split()) < MIN_QUERY_WORDS:
        return None
    repeated = query.rstrip(".").casefold() in " ".join(rest.split()).casefold()
    return (query, rest) if len(rest.split()) >= MIN_DOCUMENT_WORDS and not repeated else None


def known_items(texts: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """``{name: (query, rest)}``, without sentences that begin several docstrings."""
    items = {name: item for name, text in texts.items() if (item := known_item(text))}
    counts = Counter(query.casefold() for query, _ in items.values())
    return {name: item for name, item in items.items() if counts[item[0].casefold()] == 1}


def split_of(name: str) -> str:
    """``test`` and ``dev`` for a tenth of the names each, by a hash; ``train`` for the others."""
    tenth = int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "big") % 10
    return {0: "test", 1: "dev"}.get(tenth, "train")


def _parse(file: Path) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in the library's own strings
            return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _definitions(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, (ast.Module, *_NAMED)):
        text = ast.get_docstring(node)
        if text and text.strip():
            yield name, text
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return  # definitions inside a function have no qualified name
    for block in _BLOCKS:
        for child in getattr(node, block, []):
            yield from _definitions(child, f"{name}.{child.name}" if isinstance(child, _NAMED) else name)


def _write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    items = known_items(texts)
    with new_folder(folder, wait=True) as temporary:  # the folder of another process has the same bytes
        (temporary / "qrels").mkdir()
        (temporary / "corpus.jsonl").write_bytes(b"".join(_corpus(items)))
        queries = (orjson.dumps({"_id": name, "text": query}) + b"\n" for name, (query, _) in items.items())
        (temporary / "queries.jsonl").write_bytes(b"".join(queries))
        for split in SPLITS:
            judgements = (f"{name}\t{name}\t1\n" for name in items if split_of(name) == split)
            text = "".join(["query-id\tcorpus-id\tscore\n", *judgements])
            (temporary / "qrels" / f"{split}.tsv").write_bytes(text.encode())


def _corpus(items: Mapping[str, tuple[str, str]]) -> Iterator[bytes]:
    for name, (_, rest) in items.items():
        title = re.sub(r"[._]+", " ", name).strip()  # Lucene's analyzer takes "json.decoder" for one word
        yield orjson.dumps({"_id": name, "title": title, "text": rest}) + b"\n"


@cache  # hashing every source takes most of a second, and each split needs the hash
def _fingerprint(library: Path, state: tuple[tuple[Path, int, int], ...]) -> str:
    total = hashlib.sha256(Path(__file__).read_bytes())
    for file, _, _ in state:
        total.update(file.relative_to(library).as_posix().encode("utf-8") + b"\0")
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:12]
