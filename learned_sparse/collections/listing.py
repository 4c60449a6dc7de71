"""Collections as a person reads them: a table of all, and a page about one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby

from learned_sparse.collections.catalogue_cache import cache_folder, installed
from learned_sparse.collections.catalogue_files import Download
from learned_sparse.collections.known import Known, Place
from learned_sparse.collections.made import Made

WIDTH = 100
_SHOWN = 3  # splits in the table


def table(collections: Iterable[Known]) -> str:
    """One line each: documents, queries of the splits, measures, what is here, and the title."""
    heads = ("name", "documents", "queries", "measures", "here", "title")
    rows = [
        (c.collection, _number(c.documents), _splits(c), " ".join(c.measures), _here(c), c.title) for c in collections
    ]
    return _aligned([heads, *rows])


def page(known: Known) -> str:
    """Everything about one collection, and how to get what is not here."""
    lines = [known.title, "", f"documents: {_number(known.documents)}", *_of_place(known.corpus)]
    for name, split in known.splits.items():
        counts = f"{_number(split.queries)} queries, {_number(split.judgements)} judgements"
        lines += ["", f"split {name}: {counts}; {' '.join(split.measures)}"]
        lines += ["  topics", *_of_place(split.topics, "    "), "  judgements", *_of_place(split.qrels, "    ")]
    if not known.splits:
        lines += ["", "no split: no queries with judgements"]
    for head in ("license", "citation", "url", "notes"):
        text = getattr(known, head)
        if text:
            lines += ["", *textwrap.wrap(f"{head}: {text}", WIDTH, break_long_words=False, break_on_hyphens=False)]
    return "\n".join([*lines, "", *_made(known.made), "", *_way(known), *_downloads(known.downloads)])


def _splits(known: Known) -> str:
    found = [f"{name} {split.queries:,}" if split.queries is not None else name for name, split in known.splits.items()]
    if len(found) <= _SHOWN:
        return ", ".join(found)
    return f"{', '.join(found[: _SHOWN - 1])}, ... ({len(found)} splits)"


def _here(known: Known) -> str:
    places = known.places
    there = [what for what, place in places.items() if place.here]
    if all(place.embedded for place in places.values()):
        found = ["made on the spot"]
    elif len(there) == len(places):
        found = ["files"]
    else:
        found = [f"{len(there)} of {len(places)} files"] if there else []
        found += ["in ir_datasets' cache"] if any(place.cached for place in places.values()) else []
    for kind, some in groupby(known.made, lambda thing: thing.kind):
        found.append(f"{kind}: {len(list(some))}")
    return ", ".join(found) or "-"


def _of_place(place: Place, indent: str = "  ") -> list[str]:
    if place.embedded:
        return [f"{indent}made on the spot"]
    size = "" if place.bytes is None else f" ({_size(place.bytes)})"
    lines = [f"{indent}here: {place.here}{size}"] if place.here else [f"{indent}not here: {f}" for f in place.files]
    if place.ir_datasets and not place.here:
        lines.append(f"{indent}ir_datasets:{place.ir_datasets}{' (files are in its cache)' if place.cached else ''}")
    if place.registered and not place.here:
        lines.append(f"{indent}registered in Pyserini as {place.registered}")
    return lines


def _made(things: Sequence[Made]) -> list[str]:
    if not things:
        return ["made of it: nothing yet"]
    rows = [
        (
            f"  {thing.kind}",
            thing.split or "",
            thing.model,
            "" if thing.texts is None else f"{thing.texts:,}",
            thing.path + ("" if thing.complete else " (incomplete: encode again with --resume)"),
        )
        for thing in things
    ]
    return ["made of it:", _aligned(rows)]


def _way(known: Known) -> list[str]:
    """How to get what is not here."""
    missing = {what: place for what, place in known.places.items() if not place.here and not place.embedded}
    if not missing:
        return [f"to use it: --collection {known.collection}"]
    lines = [f"how to get the {'rest' if len(missing) < len(known.places) else 'files'}:"]
    names = dict.fromkeys(place.ir_datasets for place in missing.values() if place.ir_datasets)
    if names:
        how = "fetched" if installed() else "fetched, after pip install 'learned-sparse[data]',"
        lines.append(f"  {how} by ir_datasets at first use, into {cache_folder()}, where there is a network")
        lines += [f"    python -m learned_sparse.collections ir_datasets:{n}" for n in names if not known.downloads]
    if any(place.registered for place in missing.values()):
        lines.append("  or by Pyserini, what is registered there")
    files = dict.fromkeys(place.files[0] for place in missing.values() if place.files)
    if files:
        lines.append("  or by hand, to these places (or another --data, or LEARNED_SPARSE_DATA):")
        lines += [f"    {file}" for file in files]
    return lines


def _downloads(files: Sequence[Download]) -> list[str]:
    lines = []
    for file in files:
        facts = [
            f"with {', '.join(file.kinds)}",
            "" if file.bytes is None else _size(file.bytes),
            "" if file.md5 is None else f"md5 {file.md5}",
        ]
        lines += ["", file.url or "not to be had without more ado:", f"  {', '.join(filter(None, facts))}"]
        if file.path:
            lines.append(f"  {'here' if file.here else 'not here yet'}: {file.path}")
        for text in filter(None, (file.instructions, file.terms)):
            lines += textwrap.wrap(text.strip(), WIDTH, initial_indent="  ", subsequent_indent="  ")
    return lines


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart; the widest decides."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
