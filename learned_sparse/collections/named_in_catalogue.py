"""A name in the ir_datasets catalogue as a collection: documents of the whole, queries of its parts."""

from __future__ import annotations

import dataclasses
import re

from learned_sparse.collections import catalogue_names
from learned_sparse.collections.description_files import descriptions, read_description
from learned_sparse.collections.descriptions import Description, Source, Split
from learned_sparse.collections.folders import MEASURES
from learned_sparse.collections.names import folder_name

CATALOGUE = "ir_datasets:"


def catalogue_entry(name: str) -> Description:
    """What ``ir_datasets:NAME`` has: its documents, and one split where it has judgements, else those of its parts.

    It is filed under the highest name with the same documents: ``beir/scifact/test`` and ``beir/scifact/train`` share
    vectors and indexes. A split is called by what its name adds to that one: ``test``, ``trec-dl-2019-judged``.
    """
    whole = catalogue_names.whole(name)
    judged = [name] if catalogue_names.has(name, "queries", "qrels") else catalogue_names.judged_parts(name)
    return Description(
        name=folder_name(CATALOGUE + whole),
        title=f"ir_datasets {name}",
        corpus=Source(ir_datasets=whole),
        documents=catalogue_names.count(whole, "docs"),
        splits={_split_name(part, whole): _split(part) for part in judged},
    )


def _split_name(part: str, whole: str) -> str:
    below = part.removeprefix(f"{whole}/") if part != whole else part.rsplit("/", 1)[-1]
    return folder_name(below.replace("/", "-"))


def _split(name: str) -> Split:
    """Measured as the description that comes with the package and has the same judgements says, where one has."""
    everything = Source(ir_datasets=name)
    known = _described(name)
    if known is not None:
        return dataclasses.replace(known, topics=everything, qrels=everything)
    return Split(topics=everything, qrels=everything, measures=MEASURES, remove_query=name.startswith("beir/"))


def _described(name: str) -> Split | None:
    alike = {name, f"{name}/judged"}  # only queries with judgements are read anyway
    mentioned = re.compile(rf"ir_datasets: {re.escape(name)}(/judged)?$", re.MULTILINE)
    for file in descriptions().values():
        if mentioned.search(file.read_text(encoding="utf-8")):  # most files need not be parsed
            found = (split for split in read_description(file).splits.values() if split.qrels.ir_datasets in alike)
            return next(found, None)
    return None
