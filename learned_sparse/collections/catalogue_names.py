"""The ir_datasets catalogue: its names, and what each of them has."""

from __future__ import annotations

from typing import Any

from learned_sparse.core import LearnedSparseError, did_you_mean


def dataset(name: str) -> Any:
    """The data set ``name`` itself, an object of ir_datasets; a name it does not have is answered with the nearest."""
    try:
        return _ir_datasets(f"ir_datasets:{name}").load(name)
    except KeyError:
        close = did_you_mean(name, names())
        if "?" not in close:  # a list of hundreds helps nobody
            close = "; python -m learned_sparse.collections --catalogue WORD lists those with WORD"
        raise LearnedSparseError(f"ir_datasets:{name}: no such name{close}") from None


def has(name: str, *kinds: str) -> bool:
    """Whether ``name`` has all of ``kinds``: ``docs``, ``queries``, ``qrels``."""
    found = dataset(name)
    return all(getattr(found, f"has_{kind}")() for kind in kinds)


def count(name: str, kind: str) -> int | None:
    """How many ``docs``, ``queries`` or ``qrels`` the catalogue says that ``name`` has; None where it does not say."""
    found = dataset(name).metadata().get(kind, {}).get("count")
    return None if found is None else int(found)


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


def _ir_datasets(what: str) -> Any:
    try:
        import ir_datasets
    except ImportError:
        raise LearnedSparseError(f"{what}: ir_datasets is not installed; pip install 'learned-sparse[data]'") from None
    return ir_datasets
