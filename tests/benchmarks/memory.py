"""Memory of encoding beyond the model and the libraries, beside sentence-transformers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.engines import load
from tests.benchmarks.run import child, memory_mb
from tests.benchmarks.shapes import MAX_LENGTH, PUBLISHED, SMALL, passages, random_bert

OURS, THEIRS = "learned_sparse fp32", "sentence-transformers torch fp32"
_KERNEL = Path("/proc/self")


def run(toy: bool) -> dict[str, Any]:
    """One process per row."""
    small, large, long = (8, 16, 4) if toy else (256, 2560, 256)
    shape = PUBLISHED if toy else SMALL
    with tempfile.TemporaryDirectory() as folder:
        trained, untrained = shape.save(Path(folder) / "trained"), Path(folder) / "untrained"
        # it activates nearly all terms for every text
        random_bert(untrained, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
        rows, cases = [], [
            (OURS, trained, "passages", small), (OURS, trained, "passages", large),
            (OURS, trained, "long documents", long), (OURS, untrained, "passages, untrained model", small),
            (THEIRS, trained, "passages", small),
        ]  # fmt: skip
        for engine, model, texts, number in cases[::4] if toy else cases:
            joined = 20 if texts == "long documents" else 1
            found = child(encode, engine=engine, model=model, number=number, joined=joined)
            rows.append({"contender": engine.partition(" ")[0], "texts": texts, "documents": number, **found})
    return {"sizes": {"shape": shape.name, "dtype": "fp32"}, "rows": rows}


def encode(engine: str, model: Path, number: int, joined: int) -> dict[str, Any]:
    """Megabytes with the model loaded, and additional megabytes while encoding, in this process."""
    from tests.benchmarks.encoding import write_corpus

    with tempfile.TemporaryDirectory() as temporary:
        pool, folder = passages(number), Path(temporary)
        work = load(engine, model, MAX_LENGTH)
        corpus = write_corpus(folder / "corpus.jsonl", {"d": "A text to warm up."})
        work(corpus, folder / "out")  # first use: libraries allocate their buffers
        texts = {f"d{n}": " ".join(pool[(n + i) % number] for i in range(joined)) for n in range(number)}
        write_corpus(corpus, texts)
        del pool, texts
        loaded = memory_mb("VmRSS")
        (_KERNEL / "clear_refs").write_text("5")  # resets the peak of resident memory
        work(corpus, folder / "out")
        return {"loaded_mb": round(loaded, 1), "extra_mb": round(memory_mb() - loaded, 1)}
