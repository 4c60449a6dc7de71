"""Documents per second from texts to a JsonVector file, beside every engine that users would take instead."""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import torch

from encoders.backbone.device import has_bf16
from encoders.backbone.towers import load_tokenizer
from eval.measures import evaluate
from learned_sparse.collections.collection import load_collection
from learned_sparse.search.exact_searcher import ExactSearcher
from tests.benchmarks import engines
from tests.benchmarks.run import ROOT, median_ratio, process
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
PEERS = ROOT / ".venv-peers"
"""The environment of ``THERE``, made at the first use."""
QUALITY = (f"{OURS}fp32", f"{OURS}bf16", f"{ST}onnx int8", "openvino int8", "onnxruntime int8")
"""Engines whose nDCG@10 is measured, with the model that is trained: int8 may lose quality."""

Vectors = dict[str, dict[str, int]]
MIN_COSINE = 0.999
"""Minimum cosine of every text for two float32 results to count as equal."""


def run(toy: bool) -> dict[str, Any]:
    """An untrained model of 6 layers, splade-tiny, and an untrained model of BERT-base's size."""
    tiny = [name for name in HERE + THERE if name != "pyserini"]
    sizes: list[tuple[Shape, int, int, Sequence[str]]] = [
        (SMALL, 128, 3, HERE + THERE), (PUBLISHED, 512, 3, tiny), (BASE, 48, 3, FASTEST),
    ]  # fmt: skip
    if toy:
        sizes = [(TINY, 8, 1, (f"{OURS}fp32", f"{ST}torch fp32", "pyserini"))]
    results = {shape.name: measure(shape, number, rounds, names) for shape, number, rounds, names in sizes}
    parts = {key: {name: result[key] for name, result in results.items()} for key in ("sizes", "ratios", "missing")}
    versions = {name: found for result in results.values() for name, found in result["engines"].items()}
    return {**parts, "rows": [row for result in results.values() for row in result["rows"]], "engines": versions}


def measure(shape: Shape, number: int, rounds: int, names: Sequence[str]) -> dict[str, Any]:
    """Encode ``number`` passages with a model of ``shape``, one engine after the other, each in its own process.

    Together they would not fit into memory.
    """
    texts = shape.passages(number)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = shape.save(folder / "model", texts[:16])
        corpus = write_corpus(folder / "corpus.jsonl", {f"d{n}": text for n, text in enumerate(texts)})
        missing = {name: reason for name in names if (reason := unfit(name.rpartition(" ")[2]))}
        ours = [name for name in names if name.startswith(OURS) and name not in missing]
        others = [name for name in names if name not in missing and name not in ours]
        seconds: dict[str, list[float]] = {name: [] for name in ours + others}
        ndcg, versions = {}, {}
        for name in [*ours, *others, *ours]:  # ours before and after the others, so that drift shows
            quality = shape is PUBLISHED and name in QUALITY and name not in ndcg
            pairs = [(corpus, folder / name), *(_pydoc(folder / f"{name} in pydoc") if quality else ())]
            measured = encode(name, model, shape.max_length, rounds, pairs)
            seconds[name] += measured["seconds"]
            versions[name] = measured["versions"]
            if quality:
                ndcg[name] = _ndcg(pairs[1][1], pairs[2][1])
            print(f"{shape.name}, {name}: {number / statistics.median(seconds[name]):.1f} documents/s", flush=True)
        vectors = {name: read_vectors(folder / name) for name in seconds}
        tokens = load_tokenizer(model)(texts, truncation=True, max_length=shape.max_length)["input_ids"]
    reference = vectors[f"{OURS}fp32"]
    facts = {name: agreement(reference, compared) for name, compared in vectors.items()}
    for name in facts:
        if name.endswith("fp32") or name == "pyserini":
            require_same(name, facts[name])
    return {
        "sizes": {
            "seed": SEED, "rounds": rounds, "scale": engines.SCALE, "max_length": shape.max_length, "texts": number,
            "tokens": round(statistics.fmean(map(len, tokens)), 1),
            "terms": round(statistics.fmean(map(len, reference.values())), 1),
            "sha256": hashlib.sha256("\n".join(texts).encode("utf-8")).hexdigest(),
        },
        "rows": [
            {
                "model": shape.name, "contender": name, "seconds": [round(elapsed, 4) for elapsed in seconds[name]],
                "documents_per_second": round(number / statistics.median(seconds[name]), 2),
                "agreement": facts[name],
                **({"ndcg": ndcg[name]} if name in ndcg else {}),
            }
            for name in seconds
        ],
        "ratios": {
            f"{mine}/{peer}": round(median_ratio(seconds[peer], seconds[mine]), 3)
            for mine in ours for peer in others
        },
        "missing": missing,
        "engines": {name: versions[name] for name in others},
    }  # fmt: skip


def encode(name: str, model: Path, length: int, rounds: int, pairs: Sequence[tuple[Path, Path]]) -> dict[str, Any]:
    """Seconds of the first corpus and versions, from an engine that writes each corpus to a folder."""
    python = _peers_python() if name in THERE else Path(sys.executable)
    paths = [path for pair in pairs for path in pair]
    return process([python, engines.__file__, name, model, length, rounds, *paths])


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


def unfit(dtype: str) -> str | None:
    """Reason why ``dtype`` is not measured on this machine; None if it is measured."""
    return "no bf16 instructions" if dtype == "bf16" and not has_bf16(torch.device("cpu")) else None


def read_vectors(folder: Path) -> Vectors:
    """``{id: {term: impact}}`` of the files below ``folder``, without the zeros that Pyserini writes."""
    files = sorted(file for file in folder.rglob("*.jsonl"))
    lines = (orjson.loads(line) for file in files for line in file.read_bytes().splitlines())
    return {line["id"]: {term: value for term, value in line["vector"].items() if value} for line in lines}


def agreement(ours: Vectors, theirs: Vectors) -> dict[str, Any]:
    """Cosines, largest difference of an impact, and share of equal impacts.

    Different documents in the two files are an error.
    """
    if ours.keys() != theirs.keys():
        raise RuntimeError(f"{len(ours)} documents against {len(theirs)}, or different ids: nothing to compare")
    differences = [
        abs(ours[name].get(term, 0) - theirs[name].get(term, 0))
        for name in ours
        for term in ours[name].keys() | theirs[name].keys()
    ]
    return {
        "documents": len(ours),
        "cosine_least": round(min(cosine(ours[name], theirs[name]) for name in ours), 6),
        "largest_difference": max(differences, default=0),
        "equal_impacts": round(differences.count(0) / max(len(differences), 1), 5),
    }


def require_same(name: str, facts: dict[str, Any]) -> None:
    """Raise if float32 contenders differ by more than rounding."""
    if facts["cosine_least"] < MIN_COSINE or facts["largest_difference"] > 1:
        raise RuntimeError(f"{name}: gives other vectors, so its speed is not comparable: {facts}")


def cosine(first: dict[str, int], second: dict[str, int]) -> float:
    """Cosine of two vectors; 1 for two empty ones."""
    product = sum(value * second.get(term, 0) for term, value in first.items())
    lengths = math.hypot(*first.values()) * math.hypot(*second.values())
    return product / lengths if lengths else float(not first and not second)
