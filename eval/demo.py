"""``python -m eval.demo``: train small models on the embedded collection, search with Lucene, compare with BM25."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from eval import steps
from eval.latency import encode_milliseconds, search_milliseconds
from eval.measures import evaluate
from eval.sparsity import count_terms, expected_flops, terms_per_text
from eval.table import Cell, Column, format_table
from learned_sparse.collection import load_collection
from learned_sparse.errors import LearnedSparseError, did_you_mean
from learned_sparse.home import home, index_folder, queries_folder, run_file, vectors_folder

MODELS = ("sparterm-literal", "sparterm", "splade")
MORE = ("spade", "uhd")
"""Models that the demo leaves out unless asked, to stay quick."""
PLACE = steps.Place(collection="pydoc", name="pydoc", split="test")
HITS = 1000
_COLUMNS = (
    Column("model"),
    Column("MRR@10", best="highest"),
    Column("R@100", best="highest"),
    Column("FLOPS", 2),
    Column("terms/doc", 1),
    Column("terms/query", 1),
    Column("encode ms/query", 1),
    Column("search ms/query", 1),
)


def main(argv: list[str] | None = None) -> int:
    """Run every step that is not done yet, show the commands, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m eval.demo", description=main.__doc__)
    parser.add_argument(
        "--models",
        nargs="+",
        default=MODELS,
        metavar="MODEL",
        help=f"of {', '.join((*MODELS, *MORE))}; or all (default: {' '.join(MODELS)})",
    )
    models = chosen(parser.parse_args(argv).models)
    started = time.monotonic()
    for model in (steps.BM25, *models):
        anew = model != steps.BM25 and steps.train(model, f"demo-{model}")
        if model != steps.BM25:
            steps.encode(model, PLACE, anew=anew)
            steps.encode_queries(model, PLACE, anew=anew)
        steps.index(model, PLACE, anew=anew)
        steps.search(model, PLACE, HITS)
    rows = [_row(model) for model in (steps.BM25, *models)]
    print(f"\nKnown-item search in {_documents():,} docstrings of this Python, {_queries():,} test queries:\n")
    print(format_table(_COLUMNS, rows))
    print(f"\n{_verdict(rows)}\n")
    print("FLOPS: mean number of terms a query and a document share. Times: medians, one query at a time, one thread.")
    print(
        f"Runs: {run_file(PLACE.name, PLACE.split, '*')}\nEverything is in {home()}; {time.monotonic() - started:.0f} s"
    )
    return 0


def chosen(words: Sequence[str]) -> Sequence[str]:
    """The models that ``--models`` names."""
    known = (*MODELS, *MORE)
    if list(words) == ["all"]:
        return known
    for word in words:
        if word not in known:
            raise LearnedSparseError(f"--models {word}: the demo has no such model{did_you_mean(word, known)}")
    return words


def _row(model: str) -> list[Cell]:
    collection, index = load_collection(PLACE.collection), index_folder(PLACE.name, model)
    queries, split = collection.queries(PLACE.split), collection.split(PLACE.split)
    run = run_file(PLACE.name, PLACE.split, model)
    scores = evaluate(collection.qrels(PLACE.split), run, ["MRR@10", "R@100"], remove_query=split.remove_query).mean
    if model == steps.BM25:
        from learned_sparse.lucene import analyze

        documents = count_terms(analyze(document.text for document in collection.documents()))
        asked = count_terms(analyze(query.text for query in queries))
        encoding = None
    else:
        from eval.encoded_files import count_queries, count_vectors

        documents = count_vectors(vectors_folder(PLACE.name, model))
        asked = count_queries(queries_folder(PLACE.name, PLACE.split, model))
        encoding = encode_milliseconds(index, queries)
    sparsity = [expected_flops(documents, asked), terms_per_text(documents).mean, terms_per_text(asked).mean]
    return [model, *scores.values(), *sparsity, encoding, search_milliseconds(index, queries, HITS)]


def _verdict(rows: Sequence[Sequence[Cell]]) -> str:
    """What the table says of the learned models beside BM25, the first row."""
    baseline, *learned = rows
    sentences = []
    for place in (1, 2):
        above = [str(row[0]) for row in learned if float(str(row[place])) > float(str(baseline[place]))]
        sentences.append(f"{_COLUMNS[place].heading}: above BM25: {', '.join(above) or 'none'}.")
    return " ".join(sentences)


def _documents() -> int:
    return sum(1 for _ in load_collection(PLACE.collection).documents())


def _queries() -> int:
    return len(load_collection(PLACE.collection).queries(PLACE.split))


if __name__ == "__main__":
    from learned_sparse.cli import run_main

    run_main(main)
