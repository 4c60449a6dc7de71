"""The tables of exact search."""

from __future__ import annotations

import statistics
from typing import Any


def markdown(result: dict[str, Any]) -> str:
    """Milliseconds a query; growth; loading and memory."""
    sizes = result["sizes"]
    head = (
        f"{sizes['documents']:,} documents of {sizes['postings'] / sizes['documents']:.0f} terms, batches of "
        f"{sizes['queries']} queries; milliseconds a query, median of {sizes['rounds']} (recall where it is below 1):"
    )
    lines = [
        head,
        "",
        *_queries(result["rows"]),
        "",
        f"One thread, queries of {result['growth'][0]['query_terms']} terms, milliseconds a query:",
        "",
        *_growth(result["growth"]),
        "",
        *_loading(result["loading"], result["memory"]),
    ]
    if result["missing"]:
        lines += ["", f"Not installed, and left out: {', '.join(result['missing'])}."]
    return "\n".join(lines)


def _queries(rows: list[dict[str, Any]]) -> list[str]:
    cells = {(row["contender"], row["threads"], row["query_terms"], row["k"]): row for row in rows}
    columns = list(dict.fromkeys((terms, k) for _, _, terms, k in cells))
    heads = [f"{terms} terms, k={k:,}" for terms, k in columns]
    lines = [f"| | threads | {' | '.join(heads)} |", "|---|---:|" + "---:|" * len(heads)]
    for name, threads in dict.fromkeys((name, threads) for name, threads, _, _ in cells):
        found = [_cell(cells[name, threads, terms, k]) for terms, k in columns]
        lines.append(f"| {name} | {threads} | {' | '.join(found)} |")
    return lines


def _cell(row: dict[str, Any]) -> str:
    return f"{row['ms']:.2f}" + (f" ({row['recall']:.3f})" if row["recall"] < 1 else "")


def _growth(rows: list[dict[str, Any]]) -> list[str]:
    cells = {(row["contender"], row["k"], row["documents"]): row["ms"] for row in rows}
    sizes = sorted({documents for _, _, documents in cells})
    heads = " | ".join(f"{documents:,} documents" for documents in sizes)
    lines = [f"| | k | {heads} |", "|---|---:|" + "---:|" * len(sizes)]
    for k, name in dict.fromkeys((k, name) for name, k, _ in cells):
        found = " | ".join(f"{cells[name, k, documents]:.2f}" for documents in sizes)
        lines.append(f"| {name} | {k:,} | {found} |")
    return lines


def _loading(rows: list[dict[str, Any]], memory: dict[str, Any]) -> list[str]:
    rates = [f"{row['contender']} {row['documents'] / statistics.median(row['seconds']):,.0f}" for row in rows]
    mb = {name: f"{size:,.0f} MB" for name, size in memory.items() if name.endswith("_mb")}
    text = (
        f"Loading, documents a second: {', '.join(rates)}. {mb['files_mb']} of files become {mb['postings_mb']} of "
        f"postings ({memory['bytes_per_posting']:.2f} bytes each); with ids, terms and what loading takes, at most "
        f"{mb['peak_beyond_libraries_mb']} beyond the {mb['libraries_mb']} of libraries."
    )
    return [text]
