"""Anserini's indexing and English analyzer, Pyserini's commands, and registered topics and judgements."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core import LearnedSparseError, did_you_mean
from learned_sparse.lucene.jvm import anserini_jar, find_java, jvm_options, lucene_calls, start_jvm, use_utf8_paths
from learned_sparse.lucene.reader import newer_lucene

LOG = "anserini.log"
"""Name of the log file in the folder of an index that Anserini has written."""
_ERROR = re.compile(
    r"(\d\S* \d\S* +)?(ERROR|FATAL)\b"  # a log line: date, time, level
    r"|\s*(Exception in thread|Caused by:|([\w$]+\.)+[\w$]*(Exception|Error)(:|\s|$))"  # a line of a stack trace
)
"""Matches the beginning of a line that reports an error; messages may hold such words in the names of files."""


@dataclass(frozen=True)
class IndexedCounts:
    """Counts at the end of Anserini's log; ``empty`` documents are not in the index."""

    documents: int
    empty: int


def index_collection(
    kind: str, source: Path, index: Path, options: Sequence[str], *, threads: int, heap: str | None = None
) -> IndexedCounts:
    """Index the files below ``source``, of Anserini's collection class ``kind``, into the folder ``index``.

    Anserini reads each file on one thread. It runs in a child process, so that this process survives if Java runs out
    of memory. Its log stays in ``index``.
    """
    java = find_java()
    use_utf8_paths()
    index.mkdir(parents=True, exist_ok=True)
    command = [str(java.java), *jvm_options(java, heap), "-cp", str(anserini_jar())]
    command += ["io.anserini.index.IndexCollection", "-collection", kind, "-input", str(source), "-index", str(index)]
    command += ["-threads", str(threads), "-generator", "DefaultLuceneDocumentGenerator", "-optimize", *options]
    log = index / LOG
    with log.open("wb") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    return read_log(log.read_text(encoding="utf-8", errors="replace"), status)


def read_log(text: str, status: int = 0) -> IndexedCounts:
    """The counts in a log of Anserini. ``LearnedSparseError``: it reports an error, or it is not complete.

    When a broken line ends the reading of a file, Anserini exits with 0 and counts no error; only the exception in the
    log reports the loss.
    """
    indexed = re.search(r"Indexing Complete! ([\d,]+) documents? indexed", text)
    empty = re.search(r"\bempty:\s+([\d,]+)", text)
    bad = [line for line in text.splitlines() if _ERROR.match(line)]
    if status or bad or not indexed or not empty:
        last = "\n".join(f"  {line}" for line in (bad or text.splitlines()[-5:])[:5])
        full = "No space left on device" in text or "File too large" in text or not (status or bad)  # a log cut off
        way_out = "; give Java more memory with --heap" if "OutOfMemory" in text or "totalFiles" in text else ""
        way_out = way_out or ("; free disk space" if full else "")
        raise LearnedSparseError(
            f"Anserini could not index everything (exit status {status}){way_out}; its log says:\n{last}"
        )
    return IndexedCounts(*(int(count[1].replace(",", "")) for count in (indexed, empty)))


def analyze(texts: Iterable[str]) -> Iterator[list[str]]:
    """The terms that Anserini's English analyzer makes of each text."""
    start_jvm()
    from pyserini.analysis import Analyzer, get_lucene_analyzer

    analyzer = Analyzer(get_lucene_analyzer())
    return (list(analyzer.analyze(text)) for text in texts)


def allow_clauses(count: int) -> None:
    """Let queries of this process have ``count`` terms; Lucene rejects more than 1,024 by default.

    Our own searchers do this themselves; stock ones need it.
    """
    lucene_calls().allowClauses(count)


def run_stock(module: str, arguments: Sequence[str]) -> int:
    """Run ``python -m pyserini.<module> <arguments>`` in this process, on our JVM; returns its exit status.

    A message given to ``sys.exit`` goes to standard error with status 1, as in Python itself.
    """
    start_jvm()
    from jnius import JavaException

    module = f"pyserini.{module.removeprefix('pyserini.')}"
    if not _runnable(module):
        raise LearnedSparseError(f"Pyserini has no command {module}; for instance search.lucene or index.lucene")
    before = sys.argv
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return int(stop.code or 0)
        print(stop.code, file=sys.stderr)
        return 1
    except JavaException as error:
        if reason := newer_lucene(error):
            raise LearnedSparseError(f"{module}: the index was {reason}") from None
        raise
    finally:
        sys.argv = before
    return 0


def make_encoders_known(encoder_for: Callable[[str], Any | None]) -> None:
    """Let ``--encoder NAME`` of stock commands mean ``encoder_for(NAME)``, or the stock meaning if that is None."""
    start_jvm()
    from pyserini.search.lucene import LuceneImpactSearcher

    stock = LuceneImpactSearcher._init_query_encoder_from_str  # noqa: SLF001  (Pyserini has no hook)

    def ours_or_stock(name: str | None) -> Any:
        encoder = encoder_for(name) if name is not None else None
        return stock(name) if encoder is None else encoder

    LuceneImpactSearcher._init_query_encoder_from_str = staticmethod(ours_or_stock)  # noqa: SLF001


def registered_topics(name: str) -> dict[str, str]:
    """``{query id: title}`` of the topics registered in Pyserini as ``name`` (``dl19-passage``).

    Pyserini downloads them at first use. ``LearnedSparseError``: not registered, or not downloadable.
    """
    start_jvm()
    from pyserini.search import get_topics
    from pyserini.search._base import topics_mapping

    topics = _download(name, "topics", topics_mapping, get_topics)
    return {str(query_id): fields["title"] for query_id, fields in topics.items()}


def registered_qrels_file(name: str) -> Path:
    """The file of the judgements registered in Pyserini as ``name``; downloads and errors as for topics."""
    start_jvm()
    from pyserini.search import get_qrels_file
    from pyserini.search._base import qrels_mapping

    return Path(_download(name, "judgements", qrels_mapping, get_qrels_file))


def _download(name: str, what: str, known: dict[str, object], download: Callable[[str], Any]) -> Any:
    if name not in known:
        close = did_you_mean(name, known)  # if no name is close, it lists hundreds of names
        raise LearnedSparseError(
            f"{what} {name!r}: no file, and not registered in Pyserini{close if '?' in close else ''}"
        )
    try:
        return download(name)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0][:200]  # the other lines are a Java stack trace
        raise LearnedSparseError(
            f"{what} {name!r}: Pyserini cannot download them ({cause}); without a network, use a file"
        ) from error


def _runnable(module: str) -> bool:
    """Whether ``python -m module`` finds a module; imports the packages above it."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            return False
        raise  # a dependency of Pyserini is missing
    is_package = spec is not None and spec.submodule_search_locations is not None
    return _runnable(f"{module}.__main__") if is_package else spec is not None
