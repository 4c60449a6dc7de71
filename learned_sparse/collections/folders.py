"""Folders that no YAML describes: BEIR's and MS MARCO's, recognised by the names of their files."""

from __future__ import annotations

import re
from pathlib import Path

from learned_sparse.collections.descriptions import Description, Source, Split
from learned_sparse.core import LearnedSparseError

MEASURES = ("nDCG@10", "MRR@10", "R@100", "R@1000")
MSMARCO_MEASURES = ("MRR@10", "R@1000")
DEEP_LEARNING_MEASURES = ("nDCG@10", "MAP(rel=2)", "R(rel=2)@1000")

_MSMARCO_PAIRS = (
    (r"qrels\.(?P<split>.+)\.tsv", "queries.{}.tsv"),
    (r"msmarco-doc(?P<split>.+)-qrels\.tsv", "msmarco-doc{}-queries.tsv"),
)
_DEEP_LEARNING = re.compile(r"20(?P<year>19|20)qrels-(?:pass|docs)\.txt")
_CORPORA = ("collection.tsv", "msmarco-docs.tsv")


def describe_folder(folder: Path) -> Description:
    """A BEIR or an MS MARCO folder, recognised by its file names."""
    if _there(folder, "corpus.jsonl"):
        return _beir(folder)
    corpus = next((name for name in _CORPORA if _there(folder, name)), None)
    if corpus is None:
        inside = ", ".join(str(place) for place in known_folders(folder)[:3])
        way_out = f"give one inside it: {inside}" if inside else "describe it in a .yaml, or encode it with --input"
        raise LearnedSparseError(
            f"{folder}: neither a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv) nor an MS MARCO folder "
            f"({' or '.join(_CORPORA)}, queries.*.tsv, qrels.*.tsv); {way_out}"
        )
    return _msmarco(folder, corpus)


def known_folders(above: Path) -> list[Path]:
    """The BEIR and MS MARCO folders directly below ``above``, sorted; none where there is no such folder."""
    inside = sorted(above.iterdir()) if above.is_dir() else []
    return [place for place in inside if any(_there(place, name) for name in ("corpus.jsonl", *_CORPORA))]


def _beir(folder: Path) -> Description:
    """``remove_query`` is off: outside BEIR's own sets, equal ids of a query and a document are a coincidence."""
    topics = Source(files=("queries.jsonl",))
    found = (re.fullmatch(r"([^.].*)\.tsv(\.gz)?", file.name) for file in folder.glob("qrels/*"))
    names = sorted({match[1] for match in found if match})
    splits = {
        name: Split(topics=topics, qrels=Source(files=(f"qrels/{name}.tsv",)), measures=MEASURES) for name in names
    }
    return _description(folder, "corpus.jsonl", splits)


def _msmarco(folder: Path, corpus: str) -> Description:
    splits = {}
    for file in sorted(file.name.removesuffix(".gz") for file in folder.iterdir()):
        for pattern, topics in _MSMARCO_PAIRS:
            match = re.fullmatch(pattern, file)
            if match and _there(folder, topics.format(match["split"])):
                splits[match["split"]] = _pair(topics.format(match["split"]), file, MSMARCO_MEASURES)
        match = _DEEP_LEARNING.fullmatch(file)
        if match:
            topics = f"msmarco-test20{match['year']}-queries.tsv"
            splits[f"dl{match['year']}"] = _pair(topics, file, DEEP_LEARNING_MEASURES)
    return _description(folder, corpus, splits)


def _pair(topics: str, qrels: str, measures: tuple[str, ...]) -> Split:
    return Split(topics=Source(files=(topics,)), qrels=Source(files=(qrels,)), measures=measures)


def _description(folder: Path, corpus: str, splits: dict[str, Split]) -> Description:
    name = folder.resolve().name
    return Description(name=name, title=str(folder), corpus=Source(files=(corpus,)), splits=splits)


def _there(folder: Path, name: str) -> bool:
    return (folder / name).exists() or (folder / f"{name}.gz").exists()
