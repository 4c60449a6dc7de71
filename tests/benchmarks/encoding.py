"""Documents per second from texts to a JsonVector file, beside every engine that users would take instead."""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from encoders.backbone.device import cpu_has_bf16
from encoders.backbone.pretrained import load_tokenizer
from eval.measures import evaluate
from learned_sparse.collections.collection import load_collection
from learned_sparse.search.exact_searcher import ExactSearcher
from tests.benchmarks import engines, harness
from tests.benchmarks.agreement import agreement, read, require_same, spread
from tests.benchmarks.passages import described
from tests.benchmarks.shapes import BASE, PUBLISHED, SEED, SMALL, TINY, Shape

OURS = "learned_sparse "
ST = "sentence-transformers "
HERE = (f"{OURS}fp32", f"{OURS}bf16", f"{ST}torch fp32", f"{ST}torch bf16", "pyserini")
"""Engines of this environment; the others pin another transformers."""
THERE = (
    f"{ST}onnx fp32", f"{ST}onnx int8", f"{ST}openvino fp32", f"{ST}openvino bf16",
    "openvino fp32", "openvino bf16", "openvino int8", "onnxruntime fp32", "onnxruntime int8",
)  # fmt: skip
FASTEST = (
    f"{OURS}fp32", f"{OURS}bf16", f"{ST}torch bf16", "openvino fp32", "openvino bf16", "openvino int8",
    "onnxruntime fp32",
)  # fmt: skip
"""Engines with BERT-base's size, where the others would take another quarter of an hour."""
PEERS = harness.ROOT / ".venv-peers"
"""The environment of ``THERE``, made at the first use."""
QUALITY = ("learned_sparse fp32", "learned_sparse bf16", f"{ST}onnx int8", "openvino int8", "onnxruntime int8")
"""Engines whose nDCG@10 is measured, with the model that is trained: int8 may lose quality."""


def run(toy: bool) -> dict[str, Any]:
    """An untrained model of 6 layers, splade-tiny, and an untrained model of BERT-base's size."""
    if toy:
        return _together({TINY.name: measure(TINY, 8, 1, (f"{OURS}fp32", f"{ST}torch fp32"))})
    tiny = [name for name in HERE + THERE if name != "pyserini"]
    return _together({
        SMALL.name: measure(SMALL, 128, 3, HERE + THERE),
        PUBLISHED.name: measure(PUBLISHED, 512, 3, tiny, quality=QUALITY),
        BASE.name: measure(BASE, 48, 3, FASTEST),
    })  # fmt: skip


def measure(
    shape: Shape, number: int, rounds: int, names: Sequence[str], quality: Sequence[str] = ()
) -> dict[str, Any]:
    """Encode ``number`` passages with a model of ``shape``, one engine after the other, each in its own process.

    Together they would not fit into memory.
    """
    texts = shape.passages(number)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = shape.save(folder / "model", texts[:16])
        corpus = write_corpus(folder / "corpus.jsonl", texts)
        missing = {name: reason for name in names if (reason := unfit(name.rpartition(" ")[2]))}
        ours = [name for name in names if name.startswith(OURS) and name not in missing]
        others = [name for name in names if name not in missing and name not in ours]
        seconds: dict[str, list[float]] = {name: [] for name in ours + others}
        ndcg, versions = {}, {}
        for name in [*ours, *others, *ours]:  # ours before and after the others, so that drift shows
            with _worker(name, model, shape.max_length) as worker:
                worker.encode(corpus, folder / name)
                seconds[name] += [worker.encode(corpus, folder / name) for _ in range(rounds)]
                versions[name] = worker.versions
                if name in quality and name not in ndcg:
                    ndcg[name] = _ndcg(worker, folder / f"quality {name}")
            print(f"{shape.name}, {name}: {number / statistics.median(seconds[name]):.1f} documents/s", flush=True)
        facts = _check(list(seconds), folder)
        rows = [{"model": shape.name, **row(name, seconds[name], number, facts[name])} for name in seconds]
        for line in rows:
            if line["contender"] in ndcg:
                line["ndcg"] = ndcg[line["contender"]]
        lengths = token_lengths(model, texts, shape.max_length)
    return {
        "sizes": {
            "seed": SEED, "rounds": rounds, "scale": engines.SCALE, "max_length": shape.max_length,
            **described(texts, lengths, engines.BATCH), "neighbours_cosine": facts["spread"], "terms": facts["terms"],
        },
        "rows": rows,
        "ratios": {
            f"{mine}/{peer}": round(harness.median_ratio(seconds[peer], seconds[mine]), 3)
            for mine in ours for peer in others
        },
        "missing": missing,
        "engines": {name: versions[name] for name in others},
    }  # fmt: skip


def _together(models: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    parts = {key: {name: result[key] for name, result in models.items()} for key in ("sizes", "ratios", "missing")}
    found = {name: versions for result in models.values() for name, versions in result["engines"].items()}
    return {**parts, "rows": [line for result in models.values() for line in result["rows"]], "engines": found}


class Worker:
    """An engine in its own process, idle until it is called."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self.versions: dict[str, str] = {}

    def encode(self, corpus: Path, output: Path) -> float:
        """Write the vectors of ``corpus``; returns the seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"corpus": str(corpus), "output": str(output)}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith('{"seconds"'):
                answer = json.loads(line)
                self.versions = answer["versions"]
                return float(answer["seconds"])
        raise RuntimeError(f"an engine ended: {self._log.read_text('utf-8', 'replace')[-3000:]}")


@contextmanager
def _worker(name: str, model: Path, length: int) -> Iterator[Worker]:
    python = _peers_python() if name in THERE else Path(sys.executable)
    log = model.parent / f"{name}.log"
    command = [str(python), str(Path(engines.__file__)), name, str(model), str(length)]
    with log.open("wb") as errors, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=harness.ROOT,
        env=harness.quiet_environment(),
    ) as process:  # fmt: skip
        try:
            yield Worker(process, log)
        finally:
            process.kill()


def _peers_python() -> Path:
    """Python of the environment with sentence-transformers' backends; they pin another transformers."""
    python = PEERS / "bin" / "python"
    if not (PEERS / ".ready").is_file():
        venv.create(PEERS, with_pip=True, clear=True)
        torch = importlib.metadata.version("torch").partition("+")[0]
        packages = [f"torch=={torch}", "sentence-transformers[onnx,openvino]", "nncf"]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        (PEERS / ".ready").touch()
    return python


def _ndcg(worker: Worker, folder: Path) -> float:
    """nDCG@10 of known-item search in the embedded collection pydoc; one document is relevant to each query."""
    folder.mkdir()
    collection = load_collection("pydoc")
    split = collection.choose_split("test")
    documents = [(document.id, document.text) for document in collection.documents()]
    queries = [(query.id, query.text) for query in collection.queries(split)]
    for name, texts in (("documents", documents), ("queries", queries)):
        lines = (orjson.dumps({"_id": number, "text": text}) + b"\n" for number, text in texts)
        (folder / f"{name}.jsonl").write_bytes(b"".join(lines))
        worker.encode(folder / f"{name}.jsonl", folder / name)
    searcher = ExactSearcher.from_vectors(read(folder / "documents").items())
    hits = {query: searcher.search(vector, 10) for query, vector in read(folder / "queries").items()}
    return evaluate(hits, collection.qrels(split), ["nDCG@10"]).mean["nDCG@10"]


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


def unfit(dtype: str) -> str | None:
    """Reason why ``dtype`` is not measured on this machine; None if it is measured."""
    return "no bf16 instructions" if dtype == "bf16" and not cpu_has_bf16() else None


def _check(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Compare the vectors of each engine with ours in fp32; other engines in fp32 must give the same."""
    vectors = {name: read(folder / name) for name in names}
    reference = vectors[f"{OURS}fp32"]
    facts: dict[str, Any] = {name: agreement(reference, compared) for name, compared in vectors.items()}
    for name in names:
        if name.endswith("fp32"):
            require_same(name, facts[name])
    terms = statistics.fmean(map(len, reference.values()))
    return {**facts, "spread": spread(reference), "terms": round(terms, 1)}
