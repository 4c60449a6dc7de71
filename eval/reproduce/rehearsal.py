"""Rehearsal of a leaderboard: every step for real, on made-up collections with random models, two steps a stage.

``rehearsal`` turns a matrix into its rehearsal: each collection becomes a few hundred made-up documents that keep its
splits and measures, each recipe keeps its stages and settings and loses its length, each backbone has random weights. A
row that cannot run fails here in minutes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from encoders.training.recipe import data_source, load_recipe, to_mapping
from eval.reproduce.matrix import Column, Matrix, Row, Training, slug
from eval.reproduce.prepare import write_description, write_lines
from eval.reproduce.steps import json_digest
from learned_sparse.collections.collection import load_collection, split_parts
from learned_sparse.collections.descriptions import DESCRIPTION
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import home

DOCUMENTS = 240
TRAINING_QUERIES, QUERIES = 80, 12
"""Queries of a split whose name has "train" in it, and of any other split."""
LIMITS = {
    "steps": 2, "batch_size": 4, "micro_batch_size": 2, "ramp_steps": 2, "warm_up_steps": 1, "validate_every": 1,
    "negatives_from": 4, "select_from": 8, "window": 1, "per_query": 2, "pool": 30, "queries": 5, "holdout": 5,
    "bm25": 20, "every": 1,
}  # fmt: skip
"""Largest numbers of a recipe: of stages, validation and mined negatives."""
_DIMENSIONS = 512
"""Largest number of latent dimensions; UHD-BERT's real buckets have up to 81,920."""
_OUTPUT_BIAS = -0.5
"""For a random backbone without head, whose logits are small: with MiniLM's, no term would have weight."""
_EXPANDED = "expanded.jsonl"
_LONG_DOCUMENT = 700
"""Words of every tenth document, so that documents are cut into segments and truncated."""
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
_WORDS = [first + second for first in _SYLLABLES[:30] for second in _SYLLABLES[30:45]]
_OTHER_WORDS = ["vexwox", "wixzov", "xyzzyx", "zovvix", "woxxyz"]
"""Words of queries that no document has."""


@dataclass(frozen=True)
class MadeUp:
    """Made-up files below ``folder`` in place of collections, backbones and training data."""

    folder: Path
    splits: frozenset[str]
    """Splits of every collection, besides those that it has itself."""

    def collection(self, name: str) -> str:
        """Folder of a made-up collection with the splits and measures of collection ``name``."""
        try:
            loaded = load_collection(name)
            known, described = loaded.name, loaded.description
        except LearnedSparseError:  # a folder of --data that is not here
            known, described = Path(name).name, None
        folder = self.folder / "collections" / known
        if (folder / DESCRIPTION).is_file():
            return str(folder)
        splits = sorted({*self.splits, *(described.splits if described else ())})
        documents, queries = _texts(known, splits)
        write_lines(folder / "corpus.jsonl", map(json.dumps, documents))
        predicted = (
            {"id": one["_id"], "predicted_queries": [one["text"][:20], _OTHER_WORDS[number % len(_OTHER_WORDS)]]}
            for number, one in enumerate(documents)
        )
        write_lines(folder / _EXPANDED, map(json.dumps, predicted))
        described_splits = {}
        for split, part in queries.items():
            run = [f"{id} Q0 d{(number + rank) % DOCUMENTS} {rank + 1} {200 - rank} made-up"
                   for number, (id, _, _) in enumerate(part) for rank in range(100)]  # fmt: skip
            write_lines(folder / "runs" / f"{split}.txt", run)
            own = described.splits.get(split) if described else None
            facts = {
                "measures": list(own.measures) if own else ["MRR@10", "nDCG@10", "R@100"],
                "remove_query": own.remove_query if own else False,
            }
            described_splits[split] = {id: grades for id, _, grades in part}, facts
        topics = [(id, text) for part in queries.values() for id, text, _ in part]
        write_description(folder, known, topics, described_splits)
        return str(folder)

    def triples(self, *, ids: bool) -> str:
        """Training triples of ids, or of texts."""
        path = self.folder / f"triples.{'ids' if ids else 'texts'}.tsv"
        documents, queries = _texts("msmarco-v1-passage", ["train"])
        texts = {one["_id"]: one["text"] for one in documents}
        lines = []
        for number, (id, text, grades) in enumerate(queries["train"]):
            pair = next(iter(grades)), f"d{(number * 7 + 5) % DOCUMENTS}"
            lines.append("\t".join([id, *pair] if ids else [text, *map(texts.__getitem__, pair)]))
        write_lines(path, lines)
        return str(path)

    def scored_examples(self) -> dict[str, str]:
        """Hard negatives by system for the training queries of MS MARCO, and a teacher's scores of all documents."""
        _, queries = _texts("msmarco-v1-passage", ["train"])
        lines, scores = [], []
        for number, (id, _, grades) in enumerate(queries["train"]):
            negatives = [f"d{(number * 7 + step) % DOCUMENTS}" for step in range(5, 14)]
            lines.append(json.dumps({"qid": id, "pos": [next(iter(grades))], "neg": {"bm25": negatives}}))
            documents = dict.fromkeys([next(iter(grades)), *negatives])
            scores += [f"{id}\t{document}\t{9 - rank}" for rank, document in enumerate(documents)]
        write_lines(self.folder / "examples.jsonl", lines)
        write_lines(self.folder / "scores.tsv", scores)
        return {"examples": str(self.folder / "examples.jsonl"), "scores": str(self.folder / "scores.tsv")}

    def backbone(self, kind: str, layers: int = 2) -> str:
        """A BERT of random weights: ``masked-lm``, ``headless``, or a ``classifier`` of text pairs."""
        folder = self.folder / "backbones" / f"{kind}-{layers}"
        if not (folder / "config.json").is_file():
            from encoders.backbone.towers import save_random_bert  # imports torch

            save_random_bert(folder, [*_WORDS, *_OTHER_WORDS], kind, layers)
        return str(folder)

    def recipe(self, row: Row) -> str:
        """File of the cut recipe of a row, with its changes."""
        values = to_mapping(load_recipe(row.recipe, changes=row.changes))
        name = slug(" ".join([Path(row.recipe).stem, *row.changes]))[:60]
        path = self.folder / "recipes" / f"{name}-{json_digest(values)[:8]}.yaml"
        write_lines(path, [yaml.safe_dump(cut(values, self), sort_keys=False)])
        return str(path)


@contextmanager
def rehearsal(matrix: Matrix, name: str) -> Iterator[tuple[Matrix, Path, Path]]:
    """The rehearsal of ``matrix``, its made-up files and the folder of its results, in a home folder of its own."""
    before, folder = str(home()), home() / "rehearsals" / name
    named = [column.split_of() for column in matrix.columns.values()]
    named += [data_source(one).get("split", "train") for one in (matrix.training.data_of() if matrix.training else ())]
    splits = {"train", "dev", "test"}.union(*(split_parts(split)[0] for split in named))
    made_up = MadeUp(folder / "made-up", frozenset(splits))
    small = dataclasses.replace(
        matrix,
        columns={key: _column(column, made_up) for key, column in matrix.columns.items()},
        rows={key: _row(row, made_up) for key, row in matrix.rows.items()},
        training=matrix.training and _training(matrix.training, made_up),
    )
    os.environ["LEARNED_SPARSE_HOME"] = str(folder)
    try:
        yield small, made_up.folder, folder / "results"
    finally:
        os.environ["LEARNED_SPARSE_HOME"] = before


def cut(values: dict[str, Any], made_up: MadeUp) -> dict[str, Any]:
    """The values of a recipe with two steps a stage on made-up data; what it computes stays as it is."""
    layers = values["settings"].get("layers") or [2]
    kind = "headless" if values["output_bias"] is not None else "masked-lm"
    values |= {"backbone": made_up.backbone(kind, max(2, *layers)), "num_hidden_layers": None}
    values |= {"save_every": 1, "log_every": 1, "output_bias": values["output_bias"] and _OUTPUT_BIAS}
    values["seed"] += 1  # with seed 0 no token has a positive weight by the random head of uniCOIL
    if (dimensions := values["settings"].get("dimensions")) and dimensions > _DIMENSIONS:
        values["settings"]["dimensions"] = _DIMENSIONS
        values["settings"]["k"] = min(values["settings"]["k"], _DIMENSIONS)
    values["data"] = [_cut_source(source, made_up) for source in values["data"]]
    if values["validation"]:
        values["validation"]["collection"] = made_up.collection(values["validation"]["collection"])
    return {key: _limited(key, value) for key, value in values.items()}


def _limited(key: str, value: Any) -> Any:
    """``value`` with each number in it reduced to the limit of its key; settings of the model stay."""
    if isinstance(value, dict) and key != "settings":
        return {name: _limited(key if key in LIMITS else name, part) for name, part in value.items()}
    if isinstance(value, list):
        return [_limited(key, part) for part in value]
    return min(value, LIMITS[key]) if key in LIMITS and isinstance(value, int) else value


def _cut_source(source: dict[str, Any], made_up: MadeUp) -> dict[str, Any]:
    if (source["examples"] or "").endswith(".tsv"):
        source["examples"] = made_up.triples(ids=source["collection"] is not None)
    elif source["examples"]:
        source |= made_up.scored_examples()
    if source["collection"]:
        folder = Path(made_up.collection(source["collection"]))
        split = source["split"]
        if source["topics"]:
            source |= {"topics": str(folder / "queries.jsonl"), "qrels": str(folder / "qrels" / f"{split}.tsv")}
        source["run"] = source["run"] and str(folder / "runs" / f"{split}.txt")
        source["expanded"] = source["expanded"] and str(folder / _EXPANDED)
        source["collection"] = str(folder)
    return source


def _column(column: Column, made_up: MadeUp) -> Column:
    """A column on a made-up collection; a sample has fewer queries and documents, of which its pool is a part."""
    collection = made_up.collection(column.collection)
    topics = column.flops_queries and str(Path(collection) / "queries.jsonl")
    changed: dict[str, Any] = {"collection": collection, "flops_queries": topics}
    if column.sample is not None:
        sizes = {"queries": QUERIES // 3, "documents": DOCUMENTS // 2, "pool": QUERIES}
        given = {key: size for key, size in sizes.items() if getattr(column.sample, key)}
        changed["sample"] = dataclasses.replace(column.sample, **given)
    return dataclasses.replace(column, **changed)


def _row(row: Row, made_up: MadeUp) -> Row:
    """A row on made-up files, without the scores that the real one is compared with."""
    files = made_up.folder / "collections" / "{collection}"
    changed: dict[str, Any] = {"expected": {}}
    if row.recipe:
        changed |= {"recipe": made_up.recipe(row), "changes": ()}
    if row.checkpoint:
        changed["checkpoint"] = made_up.backbone("masked-lm")
    if row.cross_encoder:
        changed["cross_encoder"] = made_up.backbone("classifier")
    if row.run:
        changed["run"] = str(files / "runs" / "{split}.txt")
    if row.segments:
        changed["segments"] = made_up.collection(row.segments)
    if row.expanded:
        changed["expanded"] = str(files / _EXPANDED)
    return dataclasses.replace(row, **changed)


def _training(training: Training, made_up: MadeUp) -> Training:
    data = [
        f"{made_up.collection(part['collection'])}:{part.get('split', 'train')}"
        if "collection" in part
        else made_up.triples(ids=False)
        for part in map(data_source, training.data)
    ]
    validation = training.validation and made_up.collection(training.validation)
    return dataclasses.replace(training, data=tuple(data), validation=validation)


def _texts(
    name: str, splits: Iterable[str]
) -> tuple[list[dict[str, str]], dict[str, list[tuple[str, str, dict[str, int]]]]]:
    """Documents, and for each split the ids, texts and judgements of its queries.

    Of three queries, one has three words of the relevant document, one two, and one none (SpaDE's Table 4).
    """
    rng = random.Random(name)  # noqa: S311  (no cryptography)

    def text(length: int) -> str:
        return " ".join(_WORDS[int(len(_WORDS) * rng.random() ** 2)] for _ in range(length))

    lengths = (_LONG_DOCUMENT if number % 10 == 9 else 24 for number in range(DOCUMENTS))
    documents = [{"_id": f"d{number}", "title": "", "text": text(length)} for number, length in enumerate(lengths)]
    queries: dict[str, list[tuple[str, str, dict[str, int]]]] = {}
    for split in splits:
        queries[split] = []
        for number in range(TRAINING_QUERIES if "train" in split else QUERIES):
            relevant = rng.randrange(DOCUMENTS)
            known = rng.sample(documents[relevant]["text"].split(), 3 - number % 3 - (number % 3 == 2))
            words = " ".join([*known, *rng.sample(_OTHER_WORDS, 3 - len(known))])
            grades = {f"d{relevant}": 3, f"d{(relevant + 1) % DOCUMENTS}": 1}
            queries[split].append((f"{split}-{number}", words, grades))
    return documents, queries
