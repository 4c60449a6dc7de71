"""Memory of encoding beyond the model and the libraries, beside sentence-transformers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.engines import load
from tests.benchmarks.run import child, memory_mb
from tests.benchmarks.shapes import SMALL, TINY, passages, random_bert

OURS, THEIRS = "learned_sparse fp32", "sentence-transformers torch fp32"
_KERNEL = Path("/proc/self")


def run(toy: bool) -> dict[str, Any]:
    """One process per row."""
    small, large, long = (8, 16, 4) if toy else (256, 2560, 256)
    shape = TINY if toy else SMALL
    with tempfile.TemporaryDirectory() as temporary:
        trained, untrained = shape.save(Path(temporary) / "trained", shape.passages(16)), Path(temporary) / "untrained"
        if not toy:  # it activates nearly all terms for every text
            random_bert(untrained, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
        rows, cases = [], [
            (OURS, trained, "passages", small), (OURS, trained, "passages", large),
            (OURS, trained, "long documents", long), (OURS, untrained, "passages, untrained model", small),
            (THEIRS, trained, "passages", small),
        ]  # fmt: skip
        for engine, model, texts, number in cases[::4] if toy else cases:
            measured = child(
                "tests.benchmarks.memory:encode", engine=engine, model=str(model), number=number, files=shape.files,
                joined=20 if texts.startswith("long") else 1, max_length=shape.max_length,
            )  # fmt: skip
            rows.append({"contender": engine.partition(" ")[0], "texts": texts, "documents": number, **measured})
    ratios = {"learned_sparse / sentence-transformers": round(rows[0]["extra_mb"] / max(rows[-1]["extra_mb"], 0.1), 3)}
    return {"sizes": {"shape": shape.name, "dtype": "fp32"}, "rows": rows, "ratios": ratios}


def encode(engine: str, model: str, number: int, files: int | None, joined: int, max_length: int) -> dict[str, Any]:
    """Megabytes with the model loaded, and additional megabytes while encoding, in this process."""
    from tests.benchmarks.encoding import write_corpus

    with tempfile.TemporaryDirectory() as temporary:
        pool, folder = passages(number, files=files), Path(temporary)
        corpus, work = (
            write_corpus(folder / "corpus.jsonl", {"d": "A text to warm up."}),
            load(engine, Path(model), max_length),
        )
        work(corpus, folder / "out")  # first use: libraries allocate their buffers
        texts = {f"d{n}": " ".join(pool[(n + i) % number] for i in range(joined)) for n in range(number)}
        write_corpus(corpus, texts)
        del pool, texts
        loaded = memory_mb("VmRSS")
        (_KERNEL / "clear_refs").write_text("5")  # resets the peak of resident memory
        work(corpus, folder / "out")
        return {"loaded_mb": round(loaded, 1), "extra_mb": round(memory_mb() - loaded, 1)}
