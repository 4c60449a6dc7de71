"""Performance targets, and functions that read them from the results of a benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Measurement:
    """Measured values of one target: both contenders as text, and the ratio to compare with the bound."""

    ours: str
    peer: str
    ratio: float


@dataclass(frozen=True, kw_only=True)
class Target:
    """``find`` reads the result of ``benchmark``; it returns the reason as text if there is no measurement."""

    what: str
    benchmark: str
    bound: float
    find: Callable[[Result], Measurement | str]
    is_maximum: bool = False
    """Whether ``bound`` is a maximum; otherwise a minimum."""
    unit: str = "×"
    in_readme: bool = False
    """Whether README.md has the target; ``results/README.md`` has all."""

    def met(self, ratio: float) -> bool:
        """Whether ``ratio`` meets the bound."""
        return ratio <= self.bound if self.is_maximum else ratio >= self.bound


def encoding(model: str, kind: str = "") -> Callable[[Result], Measurement | str]:
    """Documents per second against the fastest other engine, both in ``kind`` (fp32, bf16), or each in its fastest."""

    def find(result: Result) -> Measurement | str:
        rows = [row for row in result["rows"] if row["model"] == model and row["contender"].endswith(kind)]
        sides = [
            [row for row in rows if row["contender"].startswith("learned_sparse") is ours] for ours in (True, False)
        ]
        if not all(sides):
            return "; ".join(f"{name}: {reason}" for name, reason in result["missing"].get(model, {}).items())
        ours, theirs = (max(side, key=lambda row: row["documents_per_second"]) for side in sides)
        ratio = result["ratios"][model][f"{ours['contender']}/{theirs['contender']}"]
        rate = f"{ours['documents_per_second']:.1f} documents/s ({ours['contender'].rpartition(' ')[2]})"
        return Measurement(rate, f"{theirs['documents_per_second']:.1f} ({theirs['contender']})", ratio)

    return find


def head(model: str) -> Callable[[Result], Measurement | str]:
    """Milliseconds a passage of the plain and the screened head, both in fp32."""

    def find(result: Result) -> Measurement | str:
        times = {
            row["head"]: f"{row['ms']:.2f} ms"
            for row in result["rows"]
            if (row["model"], row["dtype"]) == (model, "fp32")
        }
        return Measurement(times["screened"], times["plain"], result["ratios"][model]["fp32"])

    return find


def training(measure: str) -> Callable[[Result], Measurement | str]:
    """``time`` or ``memory`` of a training step with max pooling, as a share of plain PyTorch's."""

    def find(result: Result) -> Measurement | str:
        naive, ours = (row for row in result["rows"] if row["case"] == "max pooling")
        if measure == "memory":
            sides = [f"{row['peak_mb']:.0f} MB" for row in (ours, naive)]
        else:
            sides = [f"{statistics.median(row['seconds']):.2f} s" for row in (ours, naive)]
        return Measurement(sides[0], sides[1], result["ratios"]["max pooling"][measure])

    return find


def memory(result: Result) -> Measurement | str:
    """Megabytes in addition to the model and the libraries: our largest row against theirs."""
    rows = result["rows"]
    ours = max((row for row in rows if row["contender"] == "learned_sparse"), key=lambda row: row["extra_mb"])
    theirs = [row["extra_mb"] for row in rows if row["contender"] != "learned_sparse"]
    description = f"{ours['extra_mb']:.0f} MB ({ours['documents']:,} {ours['texts']})"
    return Measurement(description, f"{theirs[0]:.0f}" if theirs else "", ours["extra_mb"])


def indexing(vectors: str) -> Callable[[Result], Measurement | str]:
    """Documents per second without process start-up, each side with its best number of threads."""

    def find(result: Result) -> Measurement | str:
        rows = [row for row in result["rows"] if row["vectors"] == vectors]
        ours, theirs = (
            max(row["net_documents_per_second"] for row in rows if row["contender"] == contender)
            for contender in ("direct", "anserini")
        )
        return Measurement(f"{ours:,.0f} documents/s", f"{theirs:,.0f}", result["ratios"][vectors]["net"])

    return find


def searching(terms: int, hits: int) -> Callable[[Result], Measurement | str]:
    """Milliseconds per query in a batch on two threads."""

    def find(result: Result) -> Measurement | str:
        rows = [row for row in result["rows"] if (row["terms"], row["hits"]) == (terms, hits)]
        times = {row["contender"]: row["ms_per_query"] for row in rows}
        prefix = f"{terms} terms, {hits} hits: "
        (pair,) = (name for name in result["ratios"] if name.startswith(prefix))
        stock, ours = pair.removeprefix(prefix).split(" / ")
        return Measurement(f"{times[ours]:.1f} ms a query", f"{times[stock]:.1f}", result["ratios"][pair])

    return find


def startup(result: Result) -> Measurement | str:
    """Seconds to the first hits in an index with many terms."""
    stock, ours = (row for row in result["rows"] if row["what"].startswith("a searcher"))
    seconds = [statistics.median(row["seconds"]) for row in (ours, stock)]
    return Measurement(f"{seconds[0]:.2f} s", f"{seconds[1]:.2f}", round(seconds[1] / seconds[0], 2))


SMALL, BASE = "6 layers, 384", "BERT-base, 12 layers, 768"
TINY = "splade-tiny, 2 layers, 128"
TARGETS = (
    Target(what=f"encode, {SMALL}, both fp32: against the fastest other engine", benchmark="encoding", bound=1.5,
           find=encoding(SMALL, "fp32"), in_readme=True),
    Target(what=f"encode, {SMALL}, both bf16: against the fastest other engine", benchmark="encoding", bound=1.25,
           find=encoding(SMALL, "bf16")),
    Target(what=f"encode, {SMALL}: against the fastest other engine, int8 too", benchmark="encoding", bound=1.25,
           find=encoding(SMALL), in_readme=True),
    Target(what=f"encode, {TINY}, both fp32: against the fastest other engine", benchmark="encoding", bound=2.8,
           find=encoding(TINY, "fp32")),
    Target(what=f"encode, {TINY}: against the fastest other engine, int8 too", benchmark="encoding", bound=1.8,
           find=encoding(TINY), in_readme=True),
    Target(what=f"encode, {BASE}, both fp32: against the fastest other engine", benchmark="encoding", bound=1.25,
           find=encoding(BASE, "fp32")),
    Target(what=f"encode, {BASE}, both bf16: against the fastest other engine", benchmark="encoding", bound=1.2,
           find=encoding(BASE, "bf16"), in_readme=True),
    *(Target(what=f"vocabulary head, {model}, fp32: screened against plain", benchmark="head", bound=3.5,
             find=head(model)) for model in (SMALL, TINY)),
    Target(what=f"extra memory while encoding, {SMALL}: beside sentence-transformers", benchmark="memory", bound=200,
           is_maximum=True, unit="MB", find=memory, in_readme=True),
    Target(what="training step, time: share of plain PyTorch's", benchmark="training", bound=0.45, is_maximum=True,
           find=training("time")),
    Target(what="training step, memory: share of plain PyTorch's", benchmark="training", bound=0.4, is_maximum=True,
           find=training("memory")),
    Target(what="index, 8-bit weights: against Anserini", benchmark="indexing", bound=3,
           find=indexing("8 bits"), in_readme=True),
    Target(what="index, weights up to 1,000: against Anserini", benchmark="indexing", bound=10,
           find=indexing("up to 1,000")),
    Target(what="search, 1,000 hits, 20 terms: against Pyserini's batch_search", benchmark="searching", bound=2,
           find=searching(20, 1_000), in_readme=True),
    Target(what="open 500,000 distinct terms: against Pyserini", benchmark="startup", bound=5, find=startup,
           in_readme=True),
)  # fmt: skip
"""All targets, in the order of the summary."""
