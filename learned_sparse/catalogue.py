"""Documents, queries and judgements by their name in the ir_datasets catalogue (the extra ``data``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from learned_sparse.document_formats import check_id, check_text
from learned_sparse.documents import DocumentReader, Line, OnBadLine
from learned_sparse.errors import LearnedSparseError, did_you_mean
from learned_sparse.records import Document, Query, without_mark
from learned_sparse.trec import Qrels


def documents(name: str, on_bad_line: OnBadLine = "error") -> DocumentReader:
    """The documents of ``name``; a title, where there is one, is part of the text (ir_datasets' ``default_text``).

    The first one is fetched here, so that what cannot be fetched is known at once.
    """
    source = f"ir_datasets:{name}"
    records = _fetched(_load(name, "docs").docs_iter, source)
    records = chain(list(islice(records, 1)), records)
    lines: Iterator[Line] = ((f"{source}, document {i}", _document, doc) for i, doc in enumerate(records, start=1))
    return DocumentReader(lines, source=source, files=(), on_bad_line=on_bad_line)


def queries(name: str) -> list[Query]:
    """The queries of ``name``."""
    found = _fetched(_load(name, "queries").queries_iter, f"ir_datasets:{name}")
    return [Query(query.query_id, without_mark(query.default_text()).strip()) for query in found]


def qrels(name: str) -> Qrels:
    """The judgements of ``name``."""
    judged: Qrels = {}
    for judgement in _fetched(_load(name, "qrels").qrels_iter, f"ir_datasets:{name}"):
        judged.setdefault(judgement.query_id, {})[judgement.doc_id] = judgement.relevance
    return judged


def has(name: str, *kinds: str) -> bool:
    """Whether ``name`` has all of ``kinds``: ``docs``, ``queries``, ``qrels``."""
    dataset = _dataset(name)
    return all(getattr(dataset, f"has_{kind}")() for kind in kinds)


def count(name: str, kind: str) -> int | None:
    """How many ``docs``, ``queries`` or ``qrels`` the catalogue says that ``name`` has; None where it does not say."""
    found = _dataset(name).metadata().get(kind, {}).get("count")
    return None if found is None else int(found)


def handler(name: str, kind: str) -> Any:
    """What reads the ``docs``, ``queries`` or ``qrels`` of ``name`` in ir_datasets."""
    return getattr(_dataset(name), f"{kind}_handler")()


def whole(name: str) -> str:
    """The name above ``name`` that has the very same documents: ``beir/scifact`` of ``beir/scifact/test``."""
    if not has(name, "docs"):
        return name
    import ir_datasets

    return str(ir_datasets.docs_parent_id(name))


def judged_parts(name: str) -> list[str]:
    """The names below ``name`` with its documents and with queries and judgements of their own."""
    below = [part for part in names() if part.startswith(f"{name}/")]
    return [part for part in below if has(part, "docs", "queries", "qrels") and whole(part) == name]


def names() -> list[str]:
    """Every name of the catalogue, in its order."""
    return [name for name in _ir_datasets("the catalogue").registry if name]


def _load(name: str, kind: str) -> Any:
    if not has(name, kind):
        parts = [part for part in names() if part.startswith(f"{name}/") and has(part, kind)]
        way_out = f"name one of its parts: {', '.join(parts[:5])}" if parts else "another name, or a file, has them"
        raise LearnedSparseError(f"ir_datasets:{name}: has no {kind}; {way_out}")
    return _dataset(name)


def _dataset(name: str) -> Any:
    try:
        return _ir_datasets(f"ir_datasets:{name}").load(name)
    except KeyError:
        close = did_you_mean(name, names())
        way_out = (
            close if "?" in close else "; python -m learned_sparse.collections --catalogue WORD lists those with WORD"
        )
        raise LearnedSparseError(f"ir_datasets:{name}: no such name{way_out}") from None


def _ir_datasets(what: str) -> Any:
    try:
        import ir_datasets
    except ImportError:
        raise LearnedSparseError(f"{what}: ir_datasets is not installed; pip install 'learned-sparse[data]'") from None
    return ir_datasets


def _fetched(fetch: Callable[[], Iterable[Any]], source: str) -> Iterator[Any]:
    """The records; whatever keeps ir_datasets from fetching them (network, disk, a missing reader) is our error."""
    try:
        yield from fetch()
    except Exception as error:
        raise LearnedSparseError(
            f"{source}: cannot be fetched ({first_line(error)}); it needs a network at first use, "
            "and some names need a licence or another package"
        ) from error


def first_line(error: Exception) -> str:
    """What a foreign error says, on one line: a Java stack trace or a nested list of causes helps nobody."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _document(record: Any) -> Document:
    return check_text(Document(check_id(record.doc_id), record.default_text().strip()))
