"""Descriptions of collections: YAML files, and folders in the layouts of BEIR and MS MARCO."""

from __future__ import annotations

import json
import os
import re
import sysconfig
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from learned_sparse.collections.documents import CORPORA
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, folder_kind, wrong_path
from learned_sparse.core.files import check_name
from learned_sparse.core.settings import parse
from learned_sparse.core.yaml_files import read_yaml, read_yaml_text

DESCRIPTION = "collection.yaml"
"""File of a folder with the description of the collection in the folder."""
MEASURES = ("nDCG@10", "MRR@10", "R@100", "R@1000")
MSMARCO_MEASURES = ("MRR@10", "R@1000")
DEEP_LEARNING_MEASURES = ("nDCG@10", "MAP(rel=2)", "R(rel=2)@1000")

_SHARED = Path("share", "learned_sparse", "collections")
_EACH = "for_each"
_MSMARCO_PAIRS = (
    (r"qrels\.(?P<split>.+)\.tsv", "queries.{}.tsv"),
    (r"msmarco-doc(?P<split>.+)-qrels\.tsv", "msmarco-doc{}-queries.tsv"),
)
_LOCK = threading.Lock()
"""Python 3.11's ``sysconfig`` is not thread-safe: a second thread may see half of its variables."""
_DEEP_LEARNING = re.compile(r"20(?P<year>19|20)qrels-(?:pass|docs)\.txt")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where documents, topics or judgements come from; the first available source is used, in this order."""

    files: tuple[str, ...] = ()
    """Files below the data folder, each also with ``.gz``, or absolute paths."""
    embedded: str | None = None
    """A file of a collection that is generated (``learned_sparse.collections.pydoc``)."""
    ir_datasets: str | None = None
    """A name in the ir_datasets catalogue."""
    registered: str | None = None
    """Topics or judgements registered under this name in Pyserini."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Published scores of one system."""

    system: str
    source: str
    """Where the scores are published."""
    scores: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Queries with judgements, and their measures."""

    topics: Source
    qrels: Source
    measures: tuple[str, ...]
    """In ir_measures' notation: ``MRR@10``, ``R(rel=2)@1000``. The first one is the main measure."""
    remove_query: bool = False
    """Ignore a result with the same id as the query (BEIR)."""
    queries: int | None = None
    """Number of queries with judgements."""
    judgements: int | None = None
    """Number of judgements."""
    contains_queries_of: tuple[str, ...] = ()
    """Splits of other collections that some of the queries are taken from: ``msmarco-v1-passage:dev``."""
    expected: tuple[Expected, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Description:
    """One collection."""

    name: str
    title: str
    corpus: Source
    documents: int | None = None
    """Number of documents."""
    splits: Mapping[str, Split]
    license: str | None = None
    citation: str | None = None
    url: str | None = None
    notes: str | None = None
    """What to know before comparing scores."""


def descriptions() -> dict[str, Path]:
    """``{name: YAML file}`` of the collections that ship with the package, sorted by name.

    A file with ``for_each`` describes one collection for each key: ``cqadupstack.yaml`` has ``cqadupstack-android``.
    """
    return dict(sorted((name, file) for file in _shipped_folder().glob("*.yaml") for name in _names(file)))


def _shipped_folder() -> Path:
    """The folder of shipped descriptions: beside the package in a checkout, else where pip installs data files."""
    above = Path(__file__).resolve().parent.parent.parent
    with _LOCK:
        # of the environment, and of ``pip install --user``; that of ``pip install --target`` is ``above``
        installed = [sysconfig.get_path("data"), sysconfig.get_path("data", f"{os.name}_user"), str(above)]
    for folder in (above / "collections", *(Path(parent, _SHARED) for parent in installed)):
        if any(folder.glob("*.yaml")):
            return folder
    places = f"{above / 'collections'} or {installed[0]}/{_SHARED}"
    raise LearnedSparseError(f"no collections in {places}; install the package again")


@cache  # files of the package do not change
def shipped_description(name: str) -> Description:
    """The description of a collection that ships with the package."""
    file = _shipped_folder() / f"{name}.yaml"
    if Path(name).name == name and file.is_file() and _EACH not in (content := read_yaml(file)):
        return parse(Description, content, str(file))
    files = descriptions()
    if name not in files:
        kinds = "a name that comes with the package, a BEIR or MS MARCO folder, a .yaml file, or ir_datasets:ID"
        if Path(name).name != name or Path(name).suffix:
            way_out = f"a collection is {kinds}; --input takes files of documents"
            raise wrong_path(Path(name), "a collection", way_out, "file, folder or name")
        close = did_you_mean(name, files)
        if "?" not in close:  # without a near miss it lists all names
            close = "; python -m learned_sparse.collections lists the names"
        raise LearnedSparseError(f"collection {name!r}: no such file, folder or name{close}; a collection is {kinds}")
    file = files[name]
    key = name.removeprefix(f"{file.stem}-")
    columns = {column: json.dumps(value) for column, value in read_yaml(file)[_EACH][key].items()}
    text = Template(file.read_text(encoding="utf-8")).substitute(columns, key=key)
    content = {key: value for key, value in read_yaml_text(text, str(file)).items() if key != _EACH}
    return parse(Description, content, str(file))


def read_description(path: Path) -> Description:
    """The description in a user's YAML file."""
    description = parse(Description, read_yaml(path), str(path))
    check_name(description.name, f"{path}: name")
    for split in description.splits:
        check_name(split, f"{path}: splits")
    return description


@cache
def described_split(name: str) -> tuple[str, str, Split] | None:
    """Collection, name and split of the shipped split whose judgements are ``name`` in ir_datasets.

    ``name/judged`` is the same: queries without judgements are not read anyway.
    """
    same = {name, f"{name}/judged"}
    shipped = (shipped_description(collection) for collection in descriptions())
    splits = ((known.name, split, known.splits[split]) for known in shipped for split in known.splits)
    return next((entry for entry in splits if entry[2].qrels.ir_datasets in same), None)


def describe_folder(folder: Path) -> Description:
    """The description in ``collection.yaml``, or of a BEIR or MS MARCO folder, recognised by its file names."""
    if (folder / DESCRIPTION).is_file():
        return read_description(folder / DESCRIPTION)
    corpus = next((name for name in CORPORA if _exists(folder, name)), None)
    if corpus is None:
        inside = ", ".join(str(path) for path in collection_folders(folder)[:3])
        way_out = f"use one inside it: {inside}" if inside else "describe it in a .yaml, or encode it with --input"
        kind = folder_kind(folder)
        raise LearnedSparseError(
            f"{folder}: {kind}{', ' if kind else ''}neither a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv) "
            f"nor an MS MARCO folder ({' or '.join(CORPORA[1:])}, queries.*.tsv, qrels.*.tsv); {way_out}"
        )
    splits = _beir(folder) if corpus == CORPORA[0] else _msmarco(folder)
    name = folder.resolve().name
    return Description(name=name, title=str(folder), corpus=Source(files=(corpus,)), splits=splits)


def collection_folders(parent: Path) -> list[Path]:
    """The BEIR and MS MARCO folders directly in ``parent``, sorted; empty if ``parent`` does not exist."""
    inside = sorted(parent.iterdir()) if parent.is_dir() else []
    return [path for path in inside if any(_exists(path, name) for name in CORPORA)]


@cache
def _names(file: Path) -> tuple[str, ...]:
    if f"{_EACH}:" not in file.read_text(encoding="utf-8"):  # parsing every file would take half a second
        return (file.stem,)
    return tuple(f"{file.stem}-{key}" for key in read_yaml(file)[_EACH])


def _beir(folder: Path) -> dict[str, Split]:
    """Splits of a BEIR folder. One named as a data set of BEIR that ships with the package has its ``remove_query``.

    It is off elsewhere: outside BEIR's own data sets, equal ids of a query and a document are a coincidence.
    """
    path = folder.resolve()
    shipped = {path.name, f"{path.parent.name}-{path.name}"} & descriptions().keys()  # cqadupstack/android
    known = {name: split for one in shipped for name, split in shipped_description(one).splits.items()}
    matches = (re.fullmatch(r"([^.].*)\.tsv(\.gz)?", file.name) for file in folder.glob("qrels/*"))
    splits = {}
    for name in sorted({match[1] for match in matches if match}):
        remove_query = name in known and known[name].remove_query
        splits[name] = _split("queries.jsonl", f"qrels/{name}.tsv", MEASURES, remove_query=remove_query)
    return splits


def _msmarco(folder: Path) -> dict[str, Split]:
    splits = {}
    for file in sorted(file.name.removesuffix(".gz") for file in folder.iterdir()):
        for pattern, topics in _MSMARCO_PAIRS:
            match = re.fullmatch(pattern, file)
            if match and _exists(folder, topics.format(match["split"])):
                splits[match["split"]] = _split(topics.format(match["split"]), file, MSMARCO_MEASURES)
        match = _DEEP_LEARNING.fullmatch(file)
        if match:
            topics = f"msmarco-test20{match['year']}-queries.tsv"
            splits[f"dl{match['year']}"] = _split(topics, file, DEEP_LEARNING_MEASURES)
    return splits


def _split(topics: str, qrels: str, measures: tuple[str, ...], *, remove_query: bool = False) -> Split:
    sources = Source(files=(topics,)), Source(files=(qrels,))
    return Split(topics=sources[0], qrels=sources[1], measures=measures, remove_query=remove_query)


def _exists(folder: Path, name: str) -> bool:
    return (folder / name).exists() or (folder / f"{name}.gz").exists()
