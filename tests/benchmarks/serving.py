"""Milliseconds of an answer of ``learned_sparse.serve`` while many clients ask at once; an error ends the benchmark."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from learned_sparse.encode.__main__ import main as encode
from learned_sparse.index.__main__ import main as index
from tests.benchmarks import harness
from tests.benchmarks.shapes import SEED, SMALL, TINY, Shape

WORDS = 6
"""Words per query: the first words of a passage."""
KINDS = ("search", "explain", "encode")
Seconds = dict[str, list[float]]


def run(toy: bool) -> dict[str, Any]:
    """An untrained SPLADE and BM25 over passages, both searched by each request."""
    shape, documents, clients, seconds = (TINY, 50, 4, 1) if toy else (SMALL, 2_000, 32, 60)
    texts = shape.passages(documents)
    with tempfile.TemporaryDirectory() as temporary, _server(Path(temporary), shape, texts) as address:
        measured = load(address, [" ".join(text.split()[:WORDS]) for text in texts], clients, seconds)
    times = {kind: [round(1000 * value, 1) for value in measured[kind]] for kind in KINDS}
    return {
        "sizes": {
            "shape": shape.name, "seed": SEED, "documents": documents, "words": WORDS,
            "clients": clients, "seconds": seconds,
        },
        "rows": [{"request": kind, "milliseconds": values} for kind, values in times.items()],
        "ratios": {
            f"{kind}: p99 / p50": round(quantile(values, 0.99) / quantile(values, 0.5), 2)
            for kind, values in times.items()
        },
    }  # fmt: skip


def load(address: str, queries: Sequence[str], clients: int, seconds: float) -> Seconds:
    """Seconds of each answer by kind; ``clients`` threads ask for ``seconds``, at least once for each kind.

    A client searches both systems, explains its first hit, weighs its query, and takes the next query.
    """
    systems = [system["name"] for system in httpx2.get(f"{address}systems").raise_for_status().json()["systems"]][:2]
    measured: Seconds = {kind: [] for kind in KINDS}
    numbers, end = count(), time.perf_counter() + seconds

    def ask(client: httpx2.Client, kind: str, **body: Any) -> Any:
        start = time.perf_counter()
        answer = client.post(f"{address}{kind}", json=body).raise_for_status().json()
        measured[kind].append(time.perf_counter() - start)
        return answer

    def work() -> None:
        with httpx2.Client(timeout=60) as client:
            while True:
                query = queries[next(numbers) % len(queries)]
                rankings = ask(client, "search", query=query, systems=systems)["rankings"]
                for hit in rankings[0]["hits"][:1]:
                    ask(client, "explain", query=query, system=systems[0], document=hit["id"])
                ask(client, "encode", text=query, system=systems[0], side="query")
                if time.perf_counter() > end:
                    return

    with ThreadPoolExecutor(clients) as pool:
        for client in [pool.submit(work) for _ in range(clients)]:
            client.result()
    return measured


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of ``values`` do not exceed.

    >>> quantile([3.0, 1.0, 2.0, 4.0], 0.5), quantile([3.0, 1.0], 0.99)
    (2.0, 3.0)
    """
    return sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]


def markdown(result: Mapping[str, Any]) -> str:
    """One line per kind of request."""
    lines = ["| request | answers | p50, ms | mean, ms | p99, ms |", "|---|---:|---:|---:|---:|"]
    for row in result["rows"]:
        values = row["milliseconds"]
        numbers = [quantile(values, 0.5), statistics.fmean(values), quantile(values, 0.99)]
        lines.append(f"| {row['request']} | {len(values):,} | {' | '.join(f'{number:,.0f}' for number in numbers)} |")
    sizes = result["sizes"]
    rate = sum(len(row["milliseconds"]) for row in result["rows"]) / sizes["seconds"]
    lines.append(f"\n{sizes['clients']} clients at once for {sizes['seconds']} s, {rate:.1f} answers/s, no error.")
    return "\n".join(lines)


@contextmanager
def _server(folder: Path, shape: Shape, texts: Sequence[str]) -> Iterator[str]:
    """The address of a server over an index of an untrained SPLADE, and one of plain text."""
    corpus = folder / "corpus.jsonl"
    lines = (json.dumps({"id": str(number), "contents": text}) for number, text in enumerate(texts))
    corpus.write_text("\n".join(lines), encoding="utf-8")
    model = shape.save(folder / "model", texts[:16])
    documents = ["--input", str(corpus), "--output", str(folder / "vectors")]
    encode(["--model", "splade", "--checkpoint", str(model), *documents])
    index(["--input", str(folder / "vectors"), "--index", str(folder / "splade")])
    index(["--bm25", "--input", str(corpus), "--index", str(folder / "bm25")])
    command = [
        sys.executable,
        "-m",
        "learned_sparse.serve",
        "--port",
        "0",
        "--index",
        folder / "splade",
        folder / "bm25",
    ]
    with subprocess.Popen(list(map(str, command)), cwd=harness.ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().split()[0]
        finally:
            process.terminate()
