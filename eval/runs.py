"""Runs, splits and tokenizers as commands name them, and queries by the word pieces that relevant documents share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.measures import Qrels
from learned_sparse.core.errors import LearnedSparseError, wrong_path

if TYPE_CHECKING:
    from learned_sparse.collections.collection import Collection

_BATCH = 10_000  # texts tokenised at a time
CLASSES = ("Match <= 1", "Match > 1", "Match all")
Pieces = Callable[[Sequence[str]], list[frozenset[str]]]
"""Function from texts to their distinct word pieces; see ``load_pieces``."""


def add_collection_options(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add ``--collection``, ``--data`` and ``--split``."""
    add = parser.add_argument
    names = "a collection by name, folder, YAML file, or ir_datasets:ID"
    add("--collection", required=required, metavar="NAME|PATH", help=names)
    add("--data", type=Path, metavar="DIR", help="folder with the files of --collection")
    add("--split", help="split of the queries (default: the only one, or test)")


def load_split(options: argparse.Namespace) -> tuple[Collection, str]:
    """The collection of ``--collection`` and ``--data``, and ``--split`` or its default."""
    from learned_sparse.collections.collection import load_collection

    collection = load_collection(options.collection, data=options.data)
    return collection, collection.choose_split(options.split)


def named_runs(arguments: Sequence[str]) -> dict[str, Path]:
    """``{name: file}`` of arguments ``NAME=FILE`` or ``FILE``; the default name is the file's without its suffix."""
    runs: dict[str, Path] = {}
    for argument in arguments:
        name, equals, file = argument.partition("=")
        path = Path(file)
        if not equals or Path(argument).is_file():  # the file name itself may contain "="
            path = Path(argument)
            name = path.stem
        if name in runs:
            raise LearnedSparseError(f"--run {argument}: another run is named {name}; write NAME={path}")
        if not path.is_file():
            raise wrong_path(path, "a run", "name a file that learned_sparse.search wrote", "run")
        runs[name] = path
    return runs


def load_pieces(name: str) -> Pieces:
    """Function from texts to their distinct word pieces, untruncated and without special tokens.

    ``name`` is a folder or Hub id with a ``tokenizer.json``, or the name of a published model such as ``minilm``.
    """
    from encoders.checkpoints.tokenizer import read_tokenizer, untruncated

    tokenizer = untruncated(read_tokenizer(tokenizer_folder(name)))

    def pieces(texts: Sequence[str]) -> list[frozenset[str]]:
        of_texts: list[frozenset[str]] = []
        for start in range(0, len(texts), _BATCH):
            encodings = tokenizer.encode_batch(list(texts[start : start + _BATCH]), add_special_tokens=False)
            of_texts += [frozenset(encoding.tokens) for encoding in encodings]
        return of_texts

    return pieces


def tokenizer_folder(name: str) -> Path:
    """Folder with the ``tokenizer.json`` of a folder, a Hub id or a published model such as ``minilm``."""
    from encoders.checkpoints.hub import locate
    from encoders.checkpoints.tokenizer import TOKENIZER

    return locate(name, None, [TOKENIZER])


def class_of(query: Set[Any], relevant: Iterable[Set[Any]]) -> str:
    """Class of SpaDE's Table 4 from the pieces of a query and those of its relevant documents (at least one).

    ``Match all`` if the relevant document has all pieces of the query, otherwise ``Match <= 1`` if it has none or one
    of them, otherwise ``Match > 1`` (SpaDE, section 5.1). Where the paper is silent: pieces are distinct; those of stop
    words and punctuation count; of several relevant documents, the one that shares most pieces decides.

    >>> class_of({1, 2, 3}, [{1, 9}, {2, 3, 9}]), class_of({1}, [{1, 2}]), class_of({1, 2, 3}, [{3}])
    ('Match > 1', 'Match all', 'Match <= 1')
    """
    matched = max(len(query & document) for document in relevant)
    if query and matched == len(query):
        return "Match all"
    return "Match <= 1" if matched <= 1 else "Match > 1"


def by_class(collection: Collection, split: str, qrels: Qrels, pieces: Pieces) -> dict[str, list[str]]:
    """The queries of each class that have a relevant document, in their order; one pass over the documents."""
    queries, relevant = {query.id: query.text for query in collection.queries(split)}, dict[str, list[str]]()
    for query in queries:
        if graded := [document for document, grade in qrels.get(query, {}).items() if grade > 0]:
            relevant[query] = graded
    if not relevant:
        raise LearnedSparseError("no query has a relevant document")
    documents = collection.documents_by_id({document for ids in relevant.values() for document in ids})
    of_document = dict(zip(documents, pieces([document.text for document in documents.values()]), strict=True))
    of_query = zip(relevant, pieces([queries[query] for query in relevant]), strict=True)
    classes: dict[str, list[str]] = {name: [] for name in CLASSES}
    for query, own in of_query:
        classes[class_of(own, map(of_document.__getitem__, relevant[query]))].append(query)
    return classes
