"""``python -m eval.fidelity``: what a model loses when it computes in a smaller data type than fp32."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.measures import (
    Cell,
    Scores,
    confidence_interval,
    differences,
    evaluate,
    format_table,
    p_value,
    write_texts,
)
from learned_sparse.collections import Collection, add_bad_line_option, load_collection
from learned_sparse.core import (
    CommandParser,
    LearnedSparseError,
    Quantizer,
    load_encoder,
    run_main,
    vectors_folder,
    write_json,
)
from learned_sparse.encode import write_vectors
from learned_sparse.jsonvector import read_vectors, versions
from learned_sparse.search import ExactSearcher, QueryEncoder

SPLIT = "test"
REFERENCE = "fp32"
MEASURE = "nDCG@10"
MAX_LOSS = 0.002
"""A data type may be a default if it loses at most this much nDCG@10 with 95 % confidence."""
TOP = 10
_HITS = 100
EPILOG = """\
Documents and queries of each collection are encoded in fp32 and in each other data type, with the quantisers of fp32.
The search is exact and in memory, the measure is trec_eval's nDCG@10, and the interval of its difference is 95 %
(Student's t). Encoded documents are kept in the home folder, so an interrupted run continues.
Reduce a large collection first with `python -m eval.reproduce.prepare pool`.

example:
  python -m eval.fidelity --checkpoint DIR --data DIR --dtypes bf16 --collections scifact
"""

Vector = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A collection encoded in one data type, and its search results."""

    documents: Path
    queries: Mapping[str, Vector]
    quantizers: Mapping[str, Quantizer]
    """``{"document": ..., "query": ...}``"""
    run: Mapping[str, Sequence[tuple[str, float]]]
    scores: Scores


def main(argv: list[str] | None = None) -> int:
    """Encode, search, compare and print; write Markdown and JSON if --output is given."""
    options = _parser().parse_args(argv)
    _check(options)
    model = _description(options)
    collections = [
        load_collection(str(options.data / name), on_bad_line=options.on_bad_line) for name in options.collections
    ]
    compared = [_compare(options, collection) for collection in collections]
    content = {**model, "versions": versions(), "collections": compared}
    page = format_page(content)
    print(page)
    if options.output:
        write_json(options.output.with_suffix(".json"), content)
        write_texts(options.output.parent, {f"{options.output.stem}.md": page})
    return 0


def agreement(pairs: Iterable[tuple[Vector, Vector]]) -> dict[str, float]:
    """Agreement of the two vectors of each text (at least one text); a missing term has the impact 0.

    ``cosine``: mean over texts. ``equal impacts``: share of all impacts that are equal.

    >>> agreement([({"hives": 3, "itch": 4}, {"hives": 3}), ({}, {})])
    {'cosine': 0.8, 'equal impacts': 0.5}
    """
    texts = impacts = equal = 0
    cosine = 0.0
    for first, second in pairs:
        terms = first.keys() | second.keys()
        texts += 1
        impacts += len(terms)
        equal += sum(first.get(term) == second.get(term) for term in terms)
        cosine += _cosine(first, second)
    return {"cosine": cosine / texts, "equal impacts": equal / impacts if impacts else 1.0}


def top_overlap(
    run: Mapping[str, Sequence[tuple[str, float]]], second_run: Mapping[str, Sequence[tuple[str, float]]], k: int
) -> float:
    """Mean over the queries of ``run``: documents in both top ``k``, divided by the size of the larger top ``k``.

    >>> top_overlap({"q": [("d1", 2), ("d2", 1)]}, {"q": [("d2", 3)]}, 10)
    0.5
    """
    shares = []
    for query, hits in run.items():
        top, other_top = ({document for document, _ in part[:k]} for part in (hits, second_run[query]))
        size = max(len(top), len(other_top))
        shares.append(len(top & other_top) / size if size else 1.0)
    return sum(shares) / len(shares)


def format_page(content: Mapping[str, Any]) -> str:
    """The results as Markdown."""
    parts = [
        "# Data types compared with fp32",
        f"Checkpoint: {content['checkpoint']}. Device: {content['device']}, threads: {content['threads']}.",
    ]
    for compared in content["collections"]:
        parts += [f"## {compared['collection']}", _table(compared["rows"])]
    return "\n\n".join(parts)


def _compare(options: argparse.Namespace, collection: Collection) -> dict[str, Any]:
    """All data types on one collection, as JSON values."""
    reference = _encode(options, collection, REFERENCE, {})
    rows: list[dict[str, Any]] = [{"dtype": REFERENCE, MEASURE: reference.scores.mean[MEASURE]}]
    for dtype in options.dtypes:
        encoded = _encode(options, collection, dtype, reference.quantizers)
        values = differences(encoded.scores.per_query[MEASURE], reference.scores.per_query[MEASURE])
        low, high = confidence_interval(values)
        documents = zip(read_vectors(reference.documents), read_vectors(encoded.documents), strict=True)
        queries = zip(reference.queries.values(), encoded.queries.values(), strict=True)
        rows.append(
            {
                "dtype": dtype,
                MEASURE: encoded.scores.mean[MEASURE],
                "difference": round(float(values.mean()), 6),
                "confidence interval": [round(low, 6), round(high, 6)],
                "p": round(p_value(values), 6),
                "may be a default": low >= -MAX_LOSS,
                "overlap": round(top_overlap(reference.run, encoded.run, TOP), 6),
                "document": agreement((reference_vector, vector) for (_, reference_vector), (_, vector) in documents),
                "query": agreement(queries),
            }
        )
    quantizers = {side: quantizer.to_json() for side, quantizer in reference.quantizers.items()}
    return {"collection": collection.name, "split": SPLIT, "quantizers": quantizers, "rows": rows}


def _encode(
    options: argparse.Namespace, collection: Collection, dtype: str, quantizers: Mapping[str, Quantizer]
) -> Encoded:
    """Encode and search; ``quantizers`` of fp32 replace those of the model, so that only the data type differs."""
    from tqdm import tqdm

    encoder_options = {"dtype": dtype, "device": options.device}
    encoder = load_encoder(options.checkpoint, "document", **encoder_options)
    folder = vectors_folder(collection.name, f"{Path(options.checkpoint).name}-{dtype}")
    with tqdm(desc=f"{collection.name} {dtype}", unit=" documents", disable=None) as progress:
        manifest = write_vectors(
            folder,
            collection.documents(),
            encoder,
            quantizer=quantizers.get("document"),
            resume=not options.overwrite,
            overwrite=options.overwrite,
            progress=progress.update,
        )
    query_encoder = QueryEncoder(options.checkpoint, quantizers.get("query"), **encoder_options)
    queries = collection.queries(SPLIT)
    impacts = query_encoder.encode_batch([query.text for query in queries])
    encoded = {query.id: vector for query, vector in zip(queries, impacts, strict=True)}
    run = ExactSearcher.load(folder).search_batch(encoded, _HITS)
    remove_query = collection.split(SPLIT).remove_query
    return Encoded(
        documents=folder,
        queries=encoded,
        quantizers={"document": manifest.quantizer, "query": query_encoder.quantizer},
        run=run,
        scores=evaluate(run, collection.qrels(SPLIT), [MEASURE], remove_query=remove_query),
    )


def _description(options: argparse.Namespace) -> dict[str, Any]:
    """The model and the device, as JSON values."""
    import torch

    from encoders.backbone import choose_device

    description = load_encoder(options.checkpoint, "document", dtype=REFERENCE, device=options.device).description
    if description.get("scoring", "impact") != "impact":
        raise LearnedSparseError(f"{options.checkpoint}: scored by BM25, which counts words in any data type alike")
    device = choose_device(options.device)
    return {
        "checkpoint": Path(options.checkpoint).name,
        **{key: description.get(key) for key in ("architecture", "settings", "weights_sha256", "max_length")},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
    }


def _check(options: argparse.Namespace) -> None:
    for name in options.collections:
        corpus = options.data / name / "corpus.jsonl"
        if not corpus.is_file():
            raise LearnedSparseError(f"{corpus}: no such file; give the folder of the collections: --data DIR")
    if REFERENCE in options.dtypes:
        raise LearnedSparseError(f"--dtypes {REFERENCE}: the others are compared with it; omit it")


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row per data type; cosines and shares of equal impacts compare its vectors with those of fp32."""
    columns = ["dtype", MEASURE, "difference", "95 % interval", "p", "may be a default", f"overlap of the top {TOP}"]
    agreements = [(side, name) for side in ("document", "query") for name in ("cosine", "equal impacts")]
    columns += [f"{name}, {side}" for side, name in agreements]
    reference, *others = rows
    cells: list[list[Cell]] = [[REFERENCE, reference[MEASURE], *[None] * (len(columns) - 2)]]
    for row in others:
        interval = "{:+.4f} to {:+.4f}".format(*row["confidence interval"])
        may_be_default = "yes" if row["may be a default"] else "no"
        scores = [row["dtype"], row[MEASURE], row["difference"], interval, row["p"], may_be_default, row["overlap"]]
        cells.append([*scores, *(row[side][name] for side, name in agreements)])
    return format_table(columns, cells, markdown=True)


def _cosine(first: Vector, second: Vector) -> float:
    """Cosine of two vectors: 1 if both are empty, 0 if one is."""
    norms = math.hypot(*first.values()) * math.hypot(*second.values())
    if not norms:
        return float(not first and not second)
    return sum(value * second.get(term, 0) for term, value in first.items()) / norms


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.fidelity",
        description="Compare the vectors and the nDCG@10 of a model in several data types with those in fp32.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="DIR|HUB_ID", help="a trained model")
    add("--data", type=Path, required=True, metavar="DIR", help="folder of the collections, in BEIR's layout")
    add("--dtypes", nargs="+", default=["bf16"], metavar="DTYPE", help="compared with fp32 (default: bf16)")
    add("--collections", nargs="+", default=["scifact"], metavar="NAME", help="folders below --data (default: scifact)")
    add("--device", help="cpu, cuda, ... (default: a GPU if there is one)")
    add_bad_line_option(add)
    add("--overwrite", action="store_true", help="encode again what an earlier run left in the home folder")
    add("--output", type=Path, metavar="FILE", help="write FILE.md and FILE.json")
    return parser


if __name__ == "__main__":
    run_main(main)
