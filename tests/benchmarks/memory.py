"""Memory of encoding beyond the model and the libraries, beside sentence-transformers."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM

from encoders.backbone.pretrained import load_tokenizer
from encoders.checkpoints.hub import locate
from tests.benchmarks import harness
from tests.benchmarks.passages import passages
from tests.benchmarks.shapes import SMALL, TINY, Shape
from tests.tiny_models import save_tiny

OURS = "learned_sparse"
THEIRS = "sentence-transformers"
DTYPE = "fp32"
_KERNEL = Path("/proc/self")


def run(toy: bool) -> dict[str, Any]:
    """One process per row."""
    small, large, long = (8, 16, 4) if toy else (256, 2560, 256)
    shape = TINY if toy else SMALL
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        trained = shape.save(folder / "trained", shape.passages(16))
        untrained = _untrained(folder / "untrained", toy)
        rows = [_row(OURS, trained, "passages", small, shape)]
        if not toy:
            rows.append(_row(OURS, trained, "passages", large, shape))
            rows.append(_row(OURS, trained, "long documents", long, shape))
        rows.append(_row(OURS, untrained, "passages, untrained model", small, shape))
        missing = {} if harness.installed(THEIRS) else {THEIRS: "not installed"}
        if not missing:
            rows.append(_row(THEIRS, trained, "passages", small, shape))
    ratios = {} if missing else {f"{OURS} / {THEIRS}": round(rows[0]["extra_mb"] / rows[-1]["extra_mb"], 3)}
    return {"sizes": {"shape": shape.name, "dtype": DTYPE}, "rows": rows, "ratios": ratios, "missing": missing}


def encode(contender: str, model: str, texts: str, number: int, max_length: int, files: int | None) -> dict[str, Any]:
    """Megabytes with the model loaded, and additional megabytes while encoding, in this process."""
    from tests.benchmarks import contenders
    from tests.benchmarks.encoding import write_corpus

    make: Any = contenders.ours if contender == OURS else contenders.sentence_transformers
    options = {"max_length": max_length} | ({"dtype": DTYPE} if contender == OURS else {})
    joined = 20 if texts.startswith("long") else 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pool = passages(number, files=files)
        corpus = write_corpus(folder / "corpus.jsonl", ["A text to warm up."])
        work = make(Path(model), corpus, folder / "out", **options)
        work()  # first use: libraries allocate their buffers
        write_corpus(corpus, [" ".join(pool[(n + i) % number] for i in range(joined)) for n in range(number)])
        del pool
        loaded = resident_mb()
        (_KERNEL / "clear_refs").write_text("5")  # resets the peak of resident memory
        work()
        return {"loaded_mb": round(loaded, 1), "extra_mb": round(harness.peak_mb() - loaded, 1)}


def resident_mb() -> float:
    """Resident memory of this process in megabytes (10**6 bytes)."""
    match = re.search(r"VmRSS:\s+(\d+) kB", (_KERNEL / "status").read_text("ascii"))
    if match is None:
        raise RuntimeError("no VmRSS in /proc/self/status")
    return int(match[1]) * 1024 / 1e6


def _row(contender: str, model: Path, texts: str, number: int, shape: Shape) -> dict[str, Any]:
    measured = harness.child(
        "tests.benchmarks.memory:encode",
        contender=contender,
        model=str(model),
        texts=texts,
        number=number,
        max_length=shape.max_length,
        files=shape.files,
    )
    return {"contender": contender, "texts": texts, "documents": number, **measured}


def _untrained(folder: Path, toy: bool) -> Path:
    """A random model of the same size, which activates nearly all terms for every text."""
    if toy:
        return save_tiny("bert", folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
        model: Any = BertForMaskedLM(config)
    model.save_pretrained(folder)
    load_tokenizer(locate("minilm")).save_pretrained(folder)
    return folder
