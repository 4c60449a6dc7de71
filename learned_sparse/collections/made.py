"""What was made of a collection and is in the home folder: vectors, encoded queries, indexes, runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core import LearnedSparseError, home, read_json
from learned_sparse.index import INDEX_MANIFEST
from learned_sparse.jsonvector import MANIFEST

KINDS = ("vectors", "indexes", "queries", "runs")


@dataclass(frozen=True, kw_only=True)
class Made:
    """One thing made of a collection."""

    kind: str
    """One of ``KINDS``."""
    model: str
    split: str | None
    """Of queries and runs."""
    path: str
    texts: int | None
    """Documents or queries in it; None for a run, and where its note does not say."""
    complete: bool


def made(name: str) -> list[Made]:
    """Everything in the home folder that was made of the collection filed under ``name``."""
    found = []
    for kind in KINDS:
        folder = home() / kind / name
        notes = {"indexes": INDEX_MANIFEST, "runs": "*.txt"}.get(kind, MANIFEST)
        found += [_made(kind, folder, note) for note in sorted(folder.glob(f"**/{notes}")) if _whole(note, folder)]
    return found


def names() -> list[str]:
    """Under which names anything is filed."""
    places = (place for kind in KINDS for place in _entries(home() / kind))
    return sorted({place.name for place in places if place.is_dir() and made(place.name)})


def _entries(folder: Path) -> Iterable[Path]:
    return folder.iterdir() if folder.is_dir() else ()


def _whole(note: Path, folder: Path) -> bool:
    """Names with a dot in front are of folders that are being written."""
    return not any(part.startswith(".") for part in note.relative_to(folder).parts)


def _made(kind: str, folder: Path, note: Path) -> Made:
    split = note.relative_to(folder).parts[0] if kind in {"queries", "runs"} else None
    place = note if kind == "runs" else note.parent
    model = place.relative_to(folder if split is None else folder / split)
    facts = {} if kind == "runs" else _facts(note)
    return Made(
        kind=kind,
        model=model.with_suffix("").as_posix() if kind == "runs" else model.as_posix(),
        split=split,
        path=str(place),
        texts=facts.get("texts"),
        complete=bool(facts.get("complete", True)),
    )


def _facts(note: Path) -> dict[str, Any]:
    """What the note of an encoding or an index says; nothing where it cannot be read."""
    try:
        content = read_json(note)
    except LearnedSparseError:
        return {"complete": False}
    if not isinstance(content, dict):
        return {"complete": False}
    if note.name == INDEX_MANIFEST:
        return {"texts": (content.get("index") or {}).get("documents")}
    return {"texts": (content.get("counts") or {}).get("written"), "complete": content.get("complete")}
