"""One collection encoded in several dtypes, searched exactly, and compared with what fp32 gives."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from encoders.backbone import choose_device, cpu_has_bf16
from encoders.encoding import load_encoder
from eval.fidelity import steps
from eval.fidelity.naive import against_naive
from eval.fidelity.page import MEASURES
from eval.fidelity.steps import Place
from eval.fidelity.vectors import agreement, shared_at_the_top
from eval.measures import Scores, evaluate, p_values
from learned_sparse.collections import load_collection
from learned_sparse.core import LearnedSparseError, Side, queries_folder, vectors_folder
from learned_sparse.jsonvector import TOPICS, Manifest, read_topics, read_vectors
from learned_sparse.search import ExactSearcher

REFERENCE = "fp32"
TOP = 10
HITS = 100
PART_SIZE = 512  # documents that are encoded again where a run was interrupted
SAMPLE = 64  # texts of each side for the plain formula, and documents for the speed
SIDES: tuple[Side, ...] = ("document", "query")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A checkpoint, and where it computes."""

    checkpoint: str
    device: str | None
    anew: bool
    """Encode again what is there."""

    def description(self) -> dict[str, Any]:
        """What a reader of the numbers wants to know, as JSON values; a model scored by BM25 is refused."""
        told = dict(load_encoder(self.checkpoint, "document", dtype=REFERENCE, device=self.device).description)
        if told["scoring"] != "impact":
            raise LearnedSparseError(f"{self.checkpoint}: scored by BM25, which counts words in any dtype alike")
        device = choose_device(self.device)
        return {
            "checkpoint": Path(self.checkpoint).name,
            **{key: told[key] for key in ("architecture", "settings", "weights_sha256", "max_length")},
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "threads": torch.get_num_threads(),
            "bf16 instructions": device.type == "cuda" or cpu_has_bf16(),
        }

    def called(self, dtype: str) -> str:
        """In the home folder."""
        return f"{Path(self.checkpoint).name}-{dtype}"


def compare(model: Model, place: Place, dtypes: Sequence[str]) -> dict[str, Any]:
    """fp32 and each of ``dtypes`` on one collection, as JSON values."""
    collection = load_collection(place.collection)
    some = {
        "document": [document.text for document in itertools.islice(collection.documents(), SAMPLE)],
        "query": [query.text for query in collection.queries(place.split)[:SAMPLE]],
    }
    for dtype in (REFERENCE, *dtypes):
        _encode(model, place, dtype)
    stored = {side: _manifest(model, place, side) for side in SIDES}
    runs = {dtype: _search(model, place, dtype) for dtype in (REFERENCE, *dtypes)}
    qrels, remove = collection.qrels(place.split), collection.split(place.split).remove_query
    scores = {dtype: evaluate(run, qrels, MEASURES, remove_query=remove) for dtype, run in runs.items()}
    rows: list[dict[str, Any]] = [
        {"dtype": dtype, "scores": dict(scores[dtype].mean), "documents/s": _speed(model, dtype, some["document"])}
        for dtype in runs
    ]
    for row in rows[1:]:
        row |= _differences(scores[REFERENCE], scores[row["dtype"]])
        row |= {f"overlap of the top {TOP}": shared_at_the_top(runs[REFERENCE], runs[row["dtype"]], TOP)}
        row |= {side: _agreement(model, place, row["dtype"], side) for side in SIDES}
    return {
        "collection": place.name,
        "split": place.split,
        **{f"{side} texts": stored[side].counts.written for side in SIDES},
        "quantizers": {side: stored[side].quantizer.to_json() for side in SIDES},
        "plain formula": {
            side: against_naive(model.checkpoint, side, some[side], stored[side].quantizer, device=model.device)
            for side in SIDES
        },
        "rows": rows,
    }


def _differences(reference: Scores, other: Scores) -> dict[str, Any]:
    pair = {REFERENCE: reference.per_query, "other": other.per_query}
    return {
        "difference": {name: round(other.mean[name] - reference.mean[name], 4) for name in MEASURES},
        "p": {name: round(p, 4) for name, p in p_values(pair, REFERENCE)["other"].items()},
    }


def _encode(model: Model, place: Place, dtype: str) -> None:
    """Both sides; all dtypes have the quantisers that fp32 has, also where those were calibrated."""
    words = ["--checkpoint", model.checkpoint, "--dtype", dtype]
    words += ["--device", model.device] if model.device else []
    of_side = {side: words + ([] if dtype == REFERENCE else _quantizer(model, place, side)) for side in SIDES}
    name = model.called(dtype)
    steps.encode(name, place, anew=model.anew, options=[*of_side["document"], "--part-size", str(PART_SIZE)])
    steps.encode_queries(name, place, anew=model.anew, options=of_side["query"])


def _quantizer(model: Model, place: Place, side: Side) -> list[str]:
    quantizer = _manifest(model, place, side).quantizer
    bits = [] if quantizer.bits is None else ["--bits", str(quantizer.bits)]
    return ["--quantization-factor", repr(quantizer.scale), *bits]


def _manifest(model: Model, place: Place, side: Side) -> Manifest:
    """Of what fp32 gave."""
    return Manifest.load(_folder(model, place, REFERENCE, side))


def _folder(model: Model, place: Place, dtype: str, side: Side) -> Path:
    name = model.called(dtype)
    return vectors_folder(place.name, name) if side == "document" else queries_folder(place.name, place.split, name)


def _search(model: Model, place: Place, dtype: str) -> dict[str, list[tuple[str, int]]]:
    queries = read_topics(_folder(model, place, dtype, "query") / TOPICS)
    return ExactSearcher.load(_folder(model, place, dtype, "document")).search_batch(queries, HITS)


def _agreement(model: Model, place: Place, dtype: str, side: Side) -> dict[str, float]:
    """With what fp32 gave."""
    ours, others = (_vectors(_folder(model, place, name, side), side) for name in (REFERENCE, dtype))
    return asdict(agreement((one, other) for (_, one), (_, other) in zip(ours, others, strict=True)))


def _vectors(folder: Path, side: Side) -> Iterable[tuple[str, Mapping[str, int]]]:
    return read_vectors(folder) if side == "document" else read_topics(folder / TOPICS).items()


def _speed(model: Model, dtype: str, texts: Sequence[str]) -> float:
    """Documents a second of processor time, so that it says something on a busy machine too."""
    encoder = load_encoder(model.checkpoint, "document", dtype=dtype, device=model.device)
    encoder.encode(texts[:4])
    started = time.process_time()
    encoder.encode(texts)
    return round(len(texts) / (time.process_time() - started), 2)
