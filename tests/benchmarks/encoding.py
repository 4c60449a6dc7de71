"""Documents per second from texts to a JsonVector file, beside every engine that users would take instead."""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from eval.measures import evaluate
from learned_sparse.collections.collection import load_collection
from learned_sparse.search.exact_searcher import ExactSearcher
from tests.benchmarks import engines
from tests.benchmarks.shapes import BASE, MAX_LENGTH, PRECISIONS, PUBLISHED, SEED, SMALL, Shape, passages

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
PEERS = Path(__file__).resolve().parents[2] / ".venv-peers"
"""The environment of ``THERE``, made at the first use."""
QUALITY = (f"{OURS}fp32", f"{OURS}bf16", f"{ST}onnx int8", "openvino int8", "onnxruntime int8")
"""Engines whose nDCG@10 is measured, with the model that is trained: int8 may lose quality."""

Vectors = dict[str, dict[str, int]]


def run(toy: bool) -> dict[str, Any]:
    """An untrained model of 6 layers, splade-tiny, and an untrained model of BERT-base's size."""
    sizes: list[tuple[Shape, int, int, Sequence[str], Sequence[str]]] = [
        (SMALL, 128, 3, HERE + THERE, ()), (PUBLISHED, 512, 3, HERE[:-1] + THERE, QUALITY), (BASE, 48, 3, FASTEST, ()),
    ]  # fmt: skip
    if toy:
        sizes = [(PUBLISHED, 8, 1, (f"{OURS}fp32", f"{ST}torch fp32", "pyserini"), ())]
    rows = [row for size in sizes for row in measure(*size)]
    texts = {shape.name: number for shape, number, *_ in sizes}
    return {"sizes": {"texts": texts, "max_length": MAX_LENGTH, "scale": engines.SCALE, "seed": SEED}, "rows": rows}


def measure(
    shape: Shape, number: int, rounds: int, names: Sequence[str], judged: Sequence[str]
) -> list[dict[str, Any]]:
    """Encode ``number`` passages with a model of ``shape``, one engine after the other, each in its own process.

    Together they would not fit into memory. ``judged``: engines whose quality is measured too.
    """
    texts = passages(number)
    names = [name for name in names if "bf16" in PRECISIONS or not name.endswith("bf16")]
    rows: dict[str, dict[str, Any]] = {name: {"model": shape.name, "contender": name, "seconds": []} for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = shape.save(folder / "model")
        corpus = write_corpus(folder / "corpus.jsonl", {f"d{n}": text for n, text in enumerate(texts)})
        for name in [*names, *(name for name in names if name.startswith(OURS))]:  # ours twice, so that drift shows
            quality = name in judged and "ndcg" not in rows[name]
            pairs = [(corpus, folder / name), *(_pydoc(folder / f"{name} in pydoc") if quality else ())]
            row, measured = rows[name], encode(name, model, rounds, pairs)
            row["seconds"] += measured["seconds"]
            row["documents_per_second"] = round(number / statistics.median(row["seconds"]), 2)
            difference = largest_difference(read_vectors(folder / f"{OURS}fp32"), read_vectors(folder / name))
            if (name.endswith("fp32") or name == "pyserini") and difference > 1:
                raise RuntimeError(f"{name}: gives other vectors, so its speed is not comparable: {row}")
            if quality:
                row["ndcg"] = _ndcg(pairs[1][1], pairs[2][1])
            print(f"{shape.name}, {name}: {row['documents_per_second']:.1f} documents/s", flush=True)
            row["largest_difference"] = difference
            row["versions"] = ", ".join(map(" ".join, measured["versions"].items()))
    return list(rows.values())


def encode(name: str, model: Path, rounds: int, pairs: Sequence[tuple[Path, Path]]) -> dict[str, Any]:
    """Seconds of the first corpus and versions, from an engine that writes each corpus to a folder."""
    python = _peers_python() if name in THERE else Path(sys.executable)
    command = [python, engines.__file__, name, model, MAX_LENGTH, rounds, *itertools.chain(*pairs)]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


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


def _pydoc(folder: Path) -> list[tuple[Path, Path]]:
    """Files of the documents and the queries of the embedded collection pydoc, and folders for their vectors."""
    folder.mkdir()
    collection = load_collection("pydoc")
    queries = {query.id: query.text for query in collection.queries(collection.choose_split("test"))}
    texts = {"documents": {document.id: document.text for document in collection.documents()}, "queries": queries}
    return [(write_corpus(folder / f"{name}.jsonl", of), folder / name) for name, of in texts.items()]


def _ndcg(documents: Path, queries: Path) -> float:
    """nDCG@10 of known-item search in pydoc; one document is relevant to each query."""
    collection = load_collection("pydoc")
    searcher = ExactSearcher.from_vectors(read_vectors(documents).items())
    hits = {query: searcher.search(vector, 10) for query, vector in read_vectors(queries).items()}
    return evaluate(hits, collection.qrels(collection.choose_split("test")), ["nDCG@10"]).mean["nDCG@10"]


def write_corpus(path: Path, texts: Mapping[str, str]) -> Path:
    """Write texts by id as a BEIR corpus."""
    path.write_bytes(b"".join(orjson.dumps({"_id": id, "text": text}) + b"\n" for id, text in texts.items()))
    return path


def read_vectors(folder: Path) -> Vectors:
    """``{id: {term: impact}}`` of the files below ``folder``, without the zeros that Pyserini writes."""
    files = sorted(file for file in folder.rglob("*.jsonl"))
    lines = (orjson.loads(line) for file in files for line in file.read_bytes().splitlines())
    return {line["id"]: {term: value for term, value in line["vector"].items() if value} for line in lines}


def largest_difference(ours: Vectors, theirs: Vectors) -> int:
    """Largest difference of an impact; different documents are an error."""
    pairs = [(ours[name], theirs[name]) for name in ours.keys() | theirs.keys()]
    return max(abs(one.get(term, 0) - other.get(term, 0)) for one, other in pairs for term in one.keys() | other.keys())
