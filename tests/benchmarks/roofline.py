"""Share of the machine's matrix product rate that encoding reaches, both measured in turn."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from tests.benchmarks import contenders, engines, harness
from tests.benchmarks.encoding import token_lengths, unfit, write_corpus
from tests.benchmarks.forward_profile import profiled, shares
from tests.benchmarks.passages import described
from tests.benchmarks.shapes import BASE, SEED, SMALL, TINY, Shape

PRODUCTS = ((2048, 384, 384), (2048, 768, 768), (2048, 768, 3072), (2048, 384, 2048))
"""Rows, inner size and columns of the layers' products and of a vocabulary tile."""
_WORK = 2e10  # floating-point operations per timing: 0.1 s on two cores


def run(toy: bool) -> dict[str, Any]:
    """Both shapes in fp32, and in bf16 if the processor has bf16 instructions."""
    if toy:
        return measure({TINY: 8}, ((64, 32, 32),), 1, 1e7)
    return measure({SMALL: 192, BASE: 64}, PRODUCTS, 7, _WORK)


def measure(
    shapes: Mapping[Shape, int], products: Sequence[tuple[int, int, int]], rounds: int, work: float
) -> dict[str, Any]:
    """Time encoding in each shape, and matrix products of ``work`` operations each, in turn."""
    dtypes = [dtype for dtype in ("fp32", "bf16") if not unfit(dtype)]
    encoded: dict[str, dict[str, Any]] = {}
    multiplied = {f"{'x'.join(map(str, sizes))} {dtype}": (dtype, sizes) for dtype in dtypes for sizes in products}
    calls = {name: _product(*entry, work) for name, entry in multiplied.items()}
    with tempfile.TemporaryDirectory() as temporary:
        for shape, number in shapes.items():
            described_shape, shape_calls = _shape(shape, number, dtypes, Path(temporary) / str(len(encoded)))
            calls |= shape_calls
            encoded |= described_shape
        seconds = harness.interleave(calls, rounds)
        for name, entry in encoded.items():
            entry["profile"] = profiled(entry.pop("model"), entry.pop("texts"), entry["dtype"], engines.SCALE)
            entry["seconds"] = [round(elapsed, 4) for elapsed in seconds[name]]
    operations = {name: _operations(sizes, work)[1] for name, (_, sizes) in multiplied.items()}
    rates = {name: [operations[name] / elapsed / 1e9 for elapsed in seconds[name]] for name in multiplied}
    rows = [_product_row(name, multiplied[name][0], rates[name]) for name in multiplied]
    peaks = {
        dtype: [max(rate) for rate in zip(*(rates[n] for n in multiplied if multiplied[n][0] == dtype), strict=True)]
        for dtype in dtypes
    }
    rows += [_encoding_row(name, entry, peaks[entry["dtype"]]) for name, entry in encoded.items()]
    return {
        "sizes": {"rounds": rounds, "seed": SEED, "operations_of_a_timing": work},
        "rows": rows,
        "ratios": {row["name"]: row["share"] for row in rows if row["kind"] == "encoding"},
        "peak_gflops": {dtype: round(max(peak), 1) for dtype, peak in peaks.items()},
        "missing": {dtype: reason for dtype in ("bf16",) if (reason := unfit(dtype))},
    }


def operations_of(config: Any, lengths: Sequence[int]) -> float:
    """Floating-point operations of all matrix products for texts of these token lengths.

    A multiplication and an addition are two operations; padding is not counted. Includes encoder layers, attention,
    the head's transform and its product with the vocabulary.
    """
    hidden, layers = config.hidden_size, config.num_hidden_layers
    weights = layers * (4 * hidden**2 + 2 * hidden * config.intermediate_size) + hidden**2 + hidden * config.vocab_size
    attention = 2 * layers * hidden * sum(length**2 for length in lengths)  # Q times K, and weights times V
    return float(2 * (weights * sum(lengths) + attention))


def _shape(shape: Shape, number: int, dtypes: Sequence[str], folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts about encoding with a shape, and the contenders, both by name."""
    texts = shape.passages(number)
    model = shape.save(folder / "model", texts[:16])
    corpus = write_corpus(folder / "corpus.jsonl", texts)
    lengths = token_lengths(model, texts, shape.max_length)
    operations = operations_of(AutoConfig.from_pretrained(model), lengths)
    entries, calls = {}, {}
    for dtype in dtypes:
        name = f"{shape.name}, {dtype}"
        entries[name] = {
            "dtype": dtype,
            "operations": operations,
            "about": described(texts, lengths, engines.BATCH),
            "model": model,
            "texts": texts,
        }
        calls[name] = contenders.ours(model, corpus, folder / dtype, dtype=dtype, max_length=shape.max_length)
    return entries, calls


def _operations(sizes: tuple[int, int, int], work: float) -> tuple[int, float]:
    """Number of repetitions of a product, and their total operations."""
    rows, inner, columns = sizes
    per_product = 2.0 * rows * inner * columns
    times = max(round(work / per_product), 1)
    return times, times * per_product


def _product(dtype: str, sizes: tuple[int, int, int], work: float) -> contenders.Contender:
    rows, inner, columns = sizes
    numbers = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    left, right = torch.randn(rows, inner).to(numbers), torch.randn(columns, inner).to(numbers)
    out = torch.empty(rows, columns, dtype=numbers)
    times, _ = _operations(sizes, work)

    def multiply() -> None:
        for _ in range(times):
            torch.mm(left, right.t(), out=out)

    return multiply


def _product_row(name: str, dtype: str, rates: Sequence[float]) -> dict[str, Any]:
    return {
        "kind": "product",
        "name": name,
        "dtype": dtype,
        "gflops": [round(rate, 1) for rate in rates],
        "median_gflops": round(statistics.median(rates), 1),
        "best_gflops": round(max(rates), 1),
    }


def _encoding_row(name: str, entry: Mapping[str, Any], peaks: Sequence[float]) -> dict[str, Any]:
    """``share`` is the median over rounds of the rate divided by the round's best product."""
    rates = [entry["operations"] / elapsed / 1e9 for elapsed in entry["seconds"]]
    texts = entry["about"]["texts"]
    return {
        "kind": "encoding",
        "name": name,
        **entry,
        "gflop_per_document": round(entry["operations"] / texts / 1e9, 3),
        "documents_per_second": round(texts / statistics.median(entry["seconds"]), 2),
        "gflops": round(statistics.median(rates), 1),
        "share": round(statistics.median(rate / peak for rate, peak in zip(rates, peaks, strict=True)), 4),
        "share_of_best": round(statistics.median(rates) / max(peaks), 4),
        "profile_shares": shares(entry["profile"]),
    }


def markdown(result: Mapping[str, Any]) -> str:
    """Tables of products, shares and the profile."""
    products = [row for row in result["rows"] if row["kind"] == "product"]
    encodings = [row for row in result["rows"] if row["kind"] == "encoding"]
    lines = ["| matrix product | GFLOP/s, median | best |", "|---|---:|---:|"]
    lines += [f"| {row['name']} | {row['median_gflops']:.0f} | {row['best_gflops']:.0f} |" for row in products]
    lines += [
        "",
        "| encoding | GFLOP a document | documents/s | GFLOP/s | share of the round's best product | of the best |",
    ]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {row['name']} | {row['gflop_per_document']:.2f} | {row['documents_per_second']:.1f} | {row['gflops']:.0f} "
        f"| {100 * row['share']:.0f} % | {100 * row['share_of_best']:.0f} % |"
        for row in encodings
    ]
    parts = list(dict.fromkeys(part for row in encodings for part in row["profile_shares"]))
    lines += ["", "| part | " + " | ".join(row["name"] for row in encodings) + " |", "|---|" + "---:|" * len(encodings)]
    lines += [
        f"| {part} | " + " | ".join(f"{100 * row['profile_shares'].get(part, 0):.1f} %" for row in encodings) + " |"
        for part in parts
    ]
    lines += [f"\n{name}: not run, {explanation}." for name, explanation in result["missing"].items()]
    return "\n".join(lines)
