"""``python -m eval.ablations``: SpaDE's and UHD-BERT's ablations on small real collections, and what they show."""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval import steps
from eval.ablation_rows import CLAIMS, ROWS, TRAINED, Row, Trained
from eval.ablation_table import page
from eval.budgets import budget
from eval.claims import Claim, Verdict, judge, judge_cost, spelled
from eval.encoded_files import sparsity_of_files
from eval.latency import search_milliseconds
from eval.measures import Scores, evaluate
from eval.pools import pooled
from eval.row_chart import row_chart
from eval.small_real import TRAINING, negatives
from eval.steps import BM25, Place
from eval.written import write_texts
from learned_sparse.collection import load_collection
from learned_sparse.errors import LearnedSparseError
from learned_sparse.home import checkpoint_folder, index_folder, queries_folder, run_file, vectors_folder
from learned_sparse.manifest import versions
from learned_sparse.setting_changes import parse_changes

TESTS = (("msmarco-mini", "test"),)
DEPTH = 10  # of BM25's documents for each test query that the collections searched are made of
MEASURES = ("MRR@10", "nDCG@10", "R@100")
COSTS = ("FLOPS", "terms/document", "terms/query", "ms/query", "index MB")
HITS = 100
VERIFIED = 200  # documents of each index whose postings are compared with what was encoded
_RESULTS = Path(__file__).parent / "results"
_SETTINGS = ("--dtype", "fp32")


def main(argv: list[str] | None = None) -> int:
    """Train, encode, index and search what is not done yet; write all numbers and a verdict on each claim."""
    parser = argparse.ArgumentParser(prog="python -m eval.ablations", description=main.__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="with msmarco-mini and squad-sent")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help=f"only these steps, no report: {', '.join(ROWS)}")
    parser.add_argument("--output", type=Path, default=_RESULTS, metavar="DIR", help="where to (default: %(default)s)")
    options = parser.parse_args(argv)
    steps.check_data(options.data, TRAINING)
    places = [_pool(options.data, name, split) for name, split in TESTS]
    for name in options.rows or ROWS:
        if name not in ROWS:
            raise LearnedSparseError(f"--rows {name}: no such row; there are {', '.join(ROWS)}")
        _run(name, ROWS[name], places, options.data)
    if options.rows is None:
        _write(options.output, places)
    return 0


def _pool(data: Path, name: str, split: str) -> Place:
    """The collection cut down to what makes the test hard, with BM25's run on it."""
    whole = Place(collection=str(data / name), name=name, split=split)
    folder = pooled(whole.collection, name, split, steps.bm25_run(whole, HITS), DEPTH)
    pool = Place(collection=str(folder), name=folder.name, split=split)
    steps.index(BM25, pool, anew=False)
    steps.search(BM25, pool, HITS)
    return pool


def slug(row: str) -> str:
    """A row's name in folders: ``UHD separate, tuned`` to ``uhd-separate-tuned``."""
    return re.sub(r"[^a-z0-9]+", "-", row.lower()).strip("-")


def _run(name: str, row: Row, places: Sequence[Place], data: Path) -> None:
    anew = steps.train(row.model, TRAINED[row.model].recipe, _training(TRAINED[row.model], data))
    of_checkpoint = ("--checkpoint", str(checkpoint_folder(row.model)), *_SETTINGS)
    seen: set[str] = set()
    for place in places:
        if row.index_of is None and place.name not in seen:
            steps.encode(slug(name), place, anew=anew, options=(*of_checkpoint, *_changes(row.encode)))
            steps.index(slug(name), place, anew=anew)
            steps.verify(slug(name), place, VERIFIED)
        seen.add(place.name)
        steps.encode_queries(
            slug(name), place, anew=anew, options=(*of_checkpoint, *_changes((*row.encode, *row.search)))
        )
        steps.search(slug(name), place, HITS, index_of=slug(row.index_of or name), options=_changes(row.search))


def _training(trained: Trained, data: Path) -> list[str]:
    """Options of encoders.train: where the data are, and what is changed in the recipe."""
    from encoders.training.recipe_file import load_recipe

    changes = list(trained.changes)
    if validation := load_recipe(trained.recipe).validation:
        changes.append(f"validation.collection={data / validation.collection}")
    return [*negatives(data), *_changes(changes)]


def _changes(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def _write(folder: Path, places: Sequence[Place]) -> None:
    scores = {(place.name, place.split): _scores(place) for place in places}
    rows = [
        {"collection": place.name, "split": place.split, "row": name}
        | {"scores": dict(scores[place.name, place.split][name].mean)}
        | ({} if name == BM25 else _costs(name, place))
        for place in places
        for name in (BM25, *ROWS)
    ]
    claims = [_judged(claim, place, rows, scores[place.name, place.split]) for claim in CLAIMS for place in places]
    found = {
        "command": "python -m eval.ablations --data DIR",
        "python": platform.python_version(),
        "versions": versions(),
        "training": {model: budget(model) for model in TRAINED},
        "rows": {name: _described(row) for name, row in ROWS.items()},
        "verified documents of each index": VERIFIED,
        "results": rows,
        "claims": claims,
    }
    drawn = {row["row"]: row["scores"]["MRR@10"] for row in rows if row["split"] == TESTS[0][1]}
    files = {
        "ablations.json": json.dumps(found, indent=2),
        "ablations.md": page(found),
        "ablations.svg": row_chart("MRR@10, msmarco-mini (documents that BM25 ranks first)", drawn),
    }
    write_texts(folder, files)
    print(f"\n{page(found)}\n\nwritten: {folder / 'ablations.md'}, ablations.json")


def _scores(place: Place) -> dict[str, Scores]:
    collection = load_collection(place.collection)
    qrels, remove = collection.qrels(place.split), collection.split(place.split).remove_query
    names = {BM25: BM25} | {name: slug(name) for name in ROWS}
    return {
        name: evaluate(qrels, run_file(place.name, place.split, model), MEASURES, remove_query=remove)
        for name, model in names.items()
    }


def _costs(name: str, place: Place) -> dict[str, Any]:
    row = ROWS[name]
    of = slug(row.index_of or name)
    index, queries = index_folder(place.name, of), load_collection(place.collection).queries(place.split)
    found = sparsity_of_files(vectors_folder(place.name, of), queries_folder(place.name, place.split, slug(name)))
    return {
        "FLOPS": round(found.flops, 4),
        "terms/document": round(found.documents.mean, 2),
        "terms/query": round(found.queries.mean, 2),
        "ms/query": round(search_milliseconds(index, queries, HITS, parse_changes(row.search)), 3),
        "index MB": round(sum(file.stat().st_size for file in index.glob("**/*") if file.is_file()) / 1e6, 2),
    }


def _judged(claim: Claim, place: Place, rows: Sequence[dict[str, Any]], scores: dict[str, Scores]) -> dict[str, Any]:
    verdict: Verdict
    if claim.kind == "less":
        here = {row["row"]: row for row in rows if (row["collection"], row["split"]) == (place.name, place.split)}
        verdict = judge_cost(claim, here[claim.better][claim.quantity], here[claim.worse][claim.quantity])
    else:
        better, worse = (scores[name].per_query[claim.quantity] for name in (claim.better, claim.worse))
        verdict = judge(claim, better, worse)
    return {
        "source": claim.source,
        "claim": spelled(claim),
        "collection": place.name,
        "split": place.split,
        "difference": round(verdict.difference, 4),
        "p": None if verdict.p is None else round(verdict.p, 4),
        "verdict": verdict.holds,
    }


def _described(row: Row) -> dict[str, Any]:
    trained = TRAINED[row.model]
    return {
        "recipe": trained.recipe,
        "changes": trained.changes,
        "encoded with": row.encode,
        "searched with": row.search,
        "index of": row.index_of,
    }


if __name__ == "__main__":
    from learned_sparse.cli import run_main

    run_main(main)
