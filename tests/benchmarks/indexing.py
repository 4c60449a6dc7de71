"""Documents a second from vector files to a searchable index: directly, and by Anserini's IndexCollection."""

from __future__ import annotations

import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse import lucene
from learned_sparse.core.records import SparseBatch
from learned_sparse.index.direct import index_directly
from learned_sparse.jsonvector import write_part
from tests.benchmarks import harness

SEED = 0
VOCABULARY, TERMS, FILES = 30_522, 120, 2
OPTIONS = ["-impact", "-pretokenized"]
WAYS = ("direct", "anserini")


@dataclass(frozen=True)
class Vectors:
    """Synthetic vectors: how many, and the largest weight, of which the mean weight is a quarter."""

    name: str
    documents: int
    largest: int


REAL = (Vectors("8 bits", 6_000, 255), Vectors("up to 1,000", 6_000, 1_000))
TINY = (Vectors("8 bits", 60, 255),)


def run(toy: bool) -> dict[str, Any]:
    """Every way with one thread and with two; what was faster in the first round is measured."""
    return measure(TINY, (1,), 1) if toy else measure(REAL, (1, 2), 5)


def measure(sets: tuple[Vectors, ...], threads: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """Index all ``sets`` in all ways, in turn, each time in a fresh process."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        one = Vectors("start-up", 1, 1)
        weights = {vectors.name: write(vectors, folder / vectors.name) for vectors in (one, *sets)}
        racing = {
            (vectors.name, way, number): partial(index, way, folder / vectors.name, number)
            for vectors in (one, *sets)
            for way in WAYS
            for number in (threads if vectors is not one else (1,))
        }
        found = {key: {**once(key[1], folder / key[0], key[2]), **size(folder / key[0])} for key in racing}
        _require_same(found)
        best = {min((k for k in racing if k[:2] == key[:2]), key=lambda k: found[k]["first_seconds"]) for key in racing}
        seconds = _interleave({key: racing[key] for key in racing if key in best}, rounds)
    begin = {way: statistics.median(seconds["start-up", way, 1]) for way in WAYS}
    rows = [
        row(vectors, way, number, seconds[vectors.name, way, number], begin[way], found[vectors.name, way, number])
        for vectors in sets
        for way in WAYS
        for number in threads
        if (vectors.name, way, number) in best
    ]
    return {
        "sizes": {
            "documents": {vectors.name: vectors.documents for vectors in sets},
            "weights_per_document": {vectors.name: weights[vectors.name] for vectors in sets},
            "terms": TERMS,
            "vocabulary": VOCABULARY,
            "files": FILES,
            "seed": SEED,
            "rounds": rounds,
        },
        "first_seconds": {" ".join(map(str, key)): facts["first_seconds"] for key, facts in found.items()},
        "start_up_seconds": {way: seconds["start-up", way, 1] for way in WAYS},
        "rows": rows,
        "ratios": {vectors.name: ratios([row for row in rows if row["vectors"] == vectors.name]) for vectors in sets},
    }


def write(vectors: Vectors, folder: Path) -> float:
    """Write JsonVectorCollection files; the mean sum of weights of a document, which Anserini writes as words."""
    drawn = np.random.default_rng(SEED)
    letters = drawn.integers(97, 123, size=(VOCABULARY, 8)).astype(np.uint8)
    lengths = drawn.integers(2, 9, size=VOCABULARY)
    words = [bytes(word[:length]).decode() for word, length in zip(letters, lengths, strict=True)]
    terms = [f"{word}{number}" for number, word in enumerate(words)]
    frequent = np.cumsum(1 / np.arange(10, VOCABULARY + 10))
    total = 0
    for part in range(FILES):
        ids = [f"d{number}" for number in range(part, vectors.documents, FILES)]
        rows = [
            np.unique(np.searchsorted(frequent, drawn.random(int(TERMS * 1.13)) * frequent[-1]))[: 2 * TERMS]
            for _ in ids
        ]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        indices = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int32)
        values = np.ceil(drawn.beta(1, 3, size=len(indices)) * vectors.largest).astype(np.int32).clip(1)
        texts = ["the words of a passage that nobody reads " * 8] * len(ids)
        write_part(folder / f"part-{part}.jsonl", ids, texts, SparseBatch(indptr, indices, values, terms))
        total += int(values.sum())
    return round(total / vectors.documents, 1)


def index(way: str, folder: Path, threads: int) -> dict[str, Any]:
    """One index beside ``folder``, in a fresh process of Java, or of Python with Java in it."""
    place = folder.with_name("index")
    shutil.rmtree(place, ignore_errors=True)
    if way == "anserini":
        lucene.index_collection("JsonVectorCollection", folder, place, OPTIONS, threads=threads)
        return {}
    return harness.child("tests.benchmarks.indexing:direct", folder=str(folder), place=str(place), threads=threads)


def direct(folder: str, place: str, threads: int) -> dict[str, Any]:
    """In the fresh process."""
    Path(place).mkdir()
    counts = index_directly(sorted(Path(folder).iterdir()), Path(place), threads=threads)
    return {"documents": counts.documents}


def stock(folder: str, place: str, threads: int) -> dict[str, Any]:
    """Anserini once more, from a process whose only child it is: its memory."""
    began = time.perf_counter()
    lucene.index_collection("JsonVectorCollection", Path(folder), Path(place), OPTIONS, threads=threads)
    took = round(time.perf_counter() - began, 3)
    java_mb = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6, 1)
    return {"java_mb": java_mb, "first_seconds": took}


def once(way: str, folder: Path, threads: int) -> dict[str, Any]:
    """The warm-up: what memory it takes, and which number of threads is the better one."""
    place = folder.with_name("index")
    shutil.rmtree(place, ignore_errors=True)
    if way == "direct":
        began = time.perf_counter()
        memory = index(way, folder, threads)["peak_mb"]
        return {"peak_mb": memory, "first_seconds": round(time.perf_counter() - began, 3)}
    # The harness overwrites peak_mb with its own process's, so the memory of Java has another name there.
    arguments = {"folder": str(folder), "place": str(place), "threads": threads}
    found = harness.child("tests.benchmarks.indexing:stock", **arguments)
    return {"peak_mb": found["java_mb"], "first_seconds": found["first_seconds"]}


def size(folder: Path) -> dict[str, Any]:
    """What the index beside ``folder`` holds, and its size on disk."""
    place = folder.with_name("index")
    contents = lucene.read_contents(place)
    files = [file.stat().st_size for file in place.iterdir() if file.name != lucene.LOG]
    return {
        "documents": contents.documents,
        "postings": contents.postings,
        "total_impacts": contents.total_impacts,
        "index_mb": round(sum(files) / 1e6, 2),
    }


def _require_same(found: Mapping[tuple[str, str, int], Mapping[str, Any]]) -> None:
    counts = {
        (name, *(facts[key] for key in ("documents", "postings", "total_impacts")))
        for (name, *_), facts in found.items()
    }
    if len(counts) != len({name for name, *_ in found}):
        raise RuntimeError(f"not the same index in all ways: {found}")


def _interleave(
    racing: Mapping[tuple[str, str, int], Callable[[], object]], rounds: int
) -> dict[tuple[str, str, int], list[float]]:
    seconds = harness.interleave({repr(key): racing[key] for key in racing}, rounds, warm=0)
    return {key: [round(took, 3) for took in seconds[repr(key)]] for key in racing}


def row(
    vectors: Vectors, way: str, threads: int, seconds: list[float], begin: float, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """One line of a result; the seconds hold the start of the process, ``net`` is without it."""
    middle = statistics.median(seconds)
    return {
        "vectors": vectors.name,
        "contender": way,
        "threads": threads,
        "seconds": seconds,
        "documents_per_second": round(vectors.documents / middle, 1),
        "net_documents_per_second": round(vectors.documents / max(middle - begin, 1e-3), 1),
        **facts,
    }


def ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """How many times faster: the best number of threads of each, with and without the start of the process."""
    found = {}
    for what, key in (("gross", "documents_per_second"), ("net", "net_documents_per_second")):
        best = {way: max(row[key] for row in rows if row["contender"] == way) for way in WAYS}
        found[what] = round(best["direct"] / best["anserini"], 2)
    return found


def markdown(result: Mapping[str, Any]) -> str:
    """A table of ways and threads."""
    sizes = result["sizes"]
    how = f"{TERMS} terms a document, {sizes['files']} files, {sizes['rounds']} rounds"
    lines = [
        f"{how}; net: without the start of the process, which is measured with one document.",
        "",
        "| weights | sum a document | documents | | threads | documents/s | net | index MB | peak MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        name = row["vectors"]
        lines.append(
            f"| {name} | {sizes['weights_per_document'][name]:,.0f} | {row['documents']:,} | {row['contender']} | "
            f"{row['threads']} | {row['documents_per_second']:,.0f} | {row['net_documents_per_second']:,.0f} | "
            f"{row['index_mb']} | {row['peak_mb']:,.0f} |"
        )
    for name, ratio in result["ratios"].items():
        lines += ["", f"{name}: direct is {ratio['net']} times as fast net, {ratio['gross']} times with the start."]
    return "\n".join(lines)
