"""Documents per second from texts to a JsonVector file with 6 layers of 384, beside other toolkits."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from encoders.backbone import cpu_has_bf16, load_tokenizer
from tests.benchmarks import contenders, harness
from tests.benchmarks.agreement import agreement, read, require_same, spread
from tests.benchmarks.passages import described
from tests.benchmarks.shapes import SEED, SMALL, TINY, Shape

OURS = "learned_sparse "
PEERS = {
    "pyserini": contenders.pyserini,
    "pyserini, 32 texts a batch": contenders.pyserini_smaller,
    "sentence-transformers": contenders.sentence_transformers,
    "sentence-transformers, bf16": contenders.sentence_transformers_bf16,
    "plain loop": contenders.plain_loop,
}


def run(toy: bool) -> dict[str, Any]:
    """All contenders."""
    return measure(TINY, 8, 1, PEERS) if toy else measure(SMALL, 256, 5, PEERS)


def measure(shape: Shape, number: int, rounds: int, peers: Mapping[str, Any]) -> dict[str, Any]:
    """Encode ``number`` passages with a model of ``shape``, all contenders in turn."""
    texts = shape.passages(number)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = shape.save(folder / "model", texts[:16])
        corpus = write_corpus(folder / "corpus.jsonl", texts)
        makers, missing = _makers(peers)
        calls = {name: make(model, corpus, folder / name, max_length=shape.max_length) for name, make in makers.items()}
        facts = _check(calls, folder)
        seconds = harness.interleave(calls, rounds, warm=0)  # the check was the warm-up
        lengths = token_lengths(model, texts, shape.max_length)
    rows = [row(name, seconds[name], number, facts[name]) for name in calls]
    return {
        "sizes": {
            "shape": shape.name,
            "seed": SEED,
            "rounds": rounds,
            "scale": contenders.SCALE,
            "max_length": shape.max_length,
            **described(texts, lengths, contenders.BATCH),
            "neighbours_cosine": facts["spread"],
            "terms": facts["terms"],
        },
        "rows": rows,
        "ratios": {
            f"{mine}/{peer}": round(harness.median_ratio(seconds[peer], seconds[mine]), 3)
            for mine in calls
            if mine.startswith(OURS)
            for peer in calls
            if not peer.startswith(OURS)
        },
        "missing": missing,
    }


def row(name: str, seconds: list[float], number: int, match: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One row of the result."""
    middle = statistics.median(seconds)
    return {
        "contender": name,
        "seconds": [round(elapsed, 4) for elapsed in seconds],
        "documents_per_second": round(number / middle, 2),
        "best_documents_per_second": round(number / min(seconds), 2),
        "agreement": dict(match or {}),
    }


def write_corpus(path: Path, texts: list[str]) -> Path:
    """Write the texts as a BEIR corpus."""
    path.write_bytes(b"".join(orjson.dumps({"_id": f"d{n}", "text": text}) + b"\n" for n, text in enumerate(texts)))
    return path


def token_lengths(model: Path, texts: list[str], max_length: int) -> list[int]:
    """Tokens of each text, special ones included, after truncation."""
    return [len(ids) for ids in load_tokenizer(model)(texts, truncation=True, max_length=max_length)["input_ids"]]


def _makers(peers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Contenders that can run here, and reasons for missing ones."""
    makers: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, make in peers.items():
        if name.endswith("bf16") and (reason := unfit("bf16")):
            missing[name] = reason
        elif name == "plain loop" or harness.installed(name.partition(",")[0]):
            makers[name] = make
        else:
            missing[name] = "not installed"
    for dtype in ("fp32", "bf16"):
        if reason := unfit(dtype):
            missing[OURS + dtype] = reason
        else:
            makers[OURS + dtype] = _with_dtype(dtype)
    return makers, missing


def unfit(dtype: str) -> str | None:
    """Reason why ``dtype`` is not measured on this machine; None if it is measured."""
    return "no bf16 instructions" if dtype == "bf16" and not cpu_has_bf16() else None


def _with_dtype(dtype: str) -> Any:
    return lambda *paths, **sizes: contenders.ours(*paths, dtype=dtype, **sizes)


def _check(calls: Mapping[str, contenders.Contender], folder: Path) -> dict[str, Any]:
    """Run each contender once and compare its vectors with ours in fp32; other toolkits in fp32 must give the same."""
    for encode in calls.values():
        encode()
    vectors = {name: read(folder / name) for name in calls}
    reference = vectors[OURS + "fp32"]
    facts: dict[str, Any] = {name: agreement(reference, compared) for name, compared in vectors.items()}
    for name in calls:
        if not name.startswith(OURS) and not name.endswith("bf16"):
            require_same(name, facts[name])
    terms = statistics.fmean(map(len, reference.values()))
    return {**facts, "spread": spread(reference), "terms": round(terms, 1)}


def markdown(result: Mapping[str, Any]) -> str:
    """Table of contenders with speeds, ratios and agreement."""
    sizes, ratios = result["sizes"], result["ratios"]
    peers = [row["contender"] for row in result["rows"] if not row["contender"].startswith(OURS)]
    texts = f"{sizes['texts']} passages of {sizes['words']} words, {sizes['tokens']} tokens, {sizes['terms']} terms"
    padding = (
        f"padding factor {sizes['padding']} in batches of {contenders.BATCH}, the default of all but Pyserini "
        f"({contenders.PYSERINI_BATCH})"
    )
    lines = [
        f"{sizes['shape']}: {texts}; {padding}; {sizes['rounds']} rounds.",
        "",
        "| " + " | ".join(["", "documents/s", "best", *(f"against {name}" for name in peers), "cosine", "±1"]) + " |",
        "|---|" + "---:|" * (len(peers) + 4),
    ]
    for line in result["rows"]:
        name, match = line["contender"], line["agreement"]
        against = [f"{ratios[f'{name}/{peer}']:.2f} ×" if f"{name}/{peer}" in ratios else "" for peer in peers]
        lines.append(
            "| " + " | ".join([
                name, f"{line['documents_per_second']:.1f}", f"{line['best_documents_per_second']:.1f}", *against,
                f"{match['cosine_mean']:.5f}", f"{100 * match['within_one']:.2f} %",
            ]) + " |"
        )  # fmt: skip
    lines += [f"| {name} | not run: {reason} |" + " |" * (len(peers) + 3) for name, reason in result["missing"].items()]
    return "\n".join(lines)
