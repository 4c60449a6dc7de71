"""Speed and memory of the encoding pipeline for growing collections and texts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM

from encoders.backbone import load_tokenizer
from encoders.checkpoints import locate
from tests.benchmarks import harness
from tests.benchmarks.memory import resident_mb
from tests.benchmarks.passages import passages
from tests.benchmarks.shapes import SMALL, TINY, Shape
from tests.tiny_models import save_tiny

LENGTHS = (32, 64, 128, 256, 512)
_POOL = 2000  # different passages; larger collections repeat them


def run(toy: bool) -> dict[str, Any]:
    """Both kinds of growth, each size in its own process (toy size: all in this process)."""
    row = _row_here if toy else _row
    sizes = (20, 40) if toy else (1_000, 10_000, 100_000)
    lengths, tokens = ((16, 64), 256) if toy else (LENGTHS, 8192)
    shape = TINY if toy else SMALL
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        narrow = save_tiny("bert", folder / "narrow") if toy else narrow_model(folder / "narrow")
        model = shape.save(folder / "model", passages(16))
        collections = [row(narrow, documents=number, words=8, max_length=24) for number in sizes]
        texts = [row(model, documents=tokens // length, words=length, max_length=length) for length in lengths]
    return {
        "sizes": {"shape": shape.name, "narrow": "1 layer, 64", "tokens": tokens},
        "rows": [{"growing": "documents", **measured} for measured in collections]
        + [{"growing": "tokens", **measured} for measured in texts],
        "ratios": {
            "documents/s of the largest to the smallest": _ratio(collections, "documents_per_second"),
            "tokens/s of the longest to the shortest": _ratio(texts, "tokens_per_second"),
        },
    }


def encode(model: str, documents: int, words: int, max_length: int) -> dict[str, Any]:
    """Encode texts of ``words`` words, truncated at ``max_length`` tokens, in this process."""
    from tests.benchmarks import contenders
    from tests.benchmarks.encoding import write_corpus

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pool = [_text(passage, words) for passage in passages(min(documents, _POOL))]
        lengths = [
            len(ids) for ids in load_tokenizer(Path(model))(pool, truncation=True, max_length=max_length).input_ids
        ]
        corpus = write_corpus(folder / "corpus.jsonl", pool[:1])
        work = contenders.ours(Path(model), corpus, folder / "out", dtype="fp32", max_length=max_length)
        work()
        with corpus.open("w", encoding="utf-8") as file:
            for number in range(documents):
                file.write(f'{{"_id": "d{number}", "text": "{pool[number % len(pool)]}"}}\n')
        loaded = resident_mb()
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak of resident memory
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        mean = sum(lengths) / len(lengths)
        return {
            "documents": documents,
            "tokens": round(mean, 1),
            "seconds": [round(seconds, 3)],
            "documents_per_second": round(documents / seconds, 1),
            "tokens_per_second": round(documents * mean / seconds),
            "extra_mb": round(harness.peak_mb() - loaded, 1),
        }


def _text(passage: str, words: int) -> str:
    """``words`` words without characters that JSON escapes; a short passage is repeated."""
    plain = "".join(letter if letter.isalnum() else " " for letter in passage).split()
    return " ".join((plain * (words // len(plain) + 1))[:words])


def _row(model: Path, *, documents: int, words: int, max_length: int) -> dict[str, Any]:
    return harness.child(
        "tests.benchmarks.growth:encode", model=str(model), documents=documents, words=words, max_length=max_length
    )


def _row_here(model: Path, *, documents: int, words: int, max_length: int) -> dict[str, Any]:
    return encode(str(model), documents, words, max_length)


def _ratio(rows: list[dict[str, Any]], key: str) -> float:
    return round(float(rows[-1][key]) / float(rows[0][key]), 3)


def narrow_model(folder: Path) -> Path:
    """A one-layer model with the whole vocabulary and 60 terms per text, so that the pipeline dominates."""
    tokenizer: Any = load_tokenizer(locate("minilm"))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128
        )
        model: Any = BertForMaskedLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Shape(name="1 layer, 64", make=lambda _: None, active=60, max_length=24).save(folder, passages(16))


def markdown(result: Mapping[str, Any]) -> str:
    """Two tables: more documents, longer documents."""
    sizes = result["sizes"]
    lines = [f"More documents ({sizes['narrow']}):", "", "| documents | documents/s | extra, MB |", "|---:|---:|---:|"]
    lines += [
        f"| {row['documents']:,} | {row['documents_per_second']:,.0f} | {row['extra_mb']:.0f} |"
        for row in result["rows"]
        if row["growing"] == "documents"
    ]
    lines += ["", f"Longer documents ({sizes['shape']}):", ""]
    lines += ["| tokens each | documents | tokens/s | extra, MB |", "|---:|---:|---:|---:|"]
    for row in result["rows"]:
        if row["growing"] == "tokens":
            numbers = f"{row['documents']:,} | {row['tokens_per_second']:,} | {row['extra_mb']:.0f}"
            lines.append(f"| {row['tokens']:.0f} | {numbers} |")
    return "\n".join(lines)
