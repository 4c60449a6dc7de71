"""CIFF files read back by protobuf, and PISA folders equal to those of pyterrier-pisa."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.export.exporting import export_vectors
from learned_sparse.export.inverted import _postings
from tests.learned_sparse.encoded_folder import Vectors
from tests.learned_sparse.export.collection import KNOWN, VECTORS, lines

CIFF = {
    "Header": "version:i num_postings_lists:i num_docs:i total_postings_lists:i total_docs:i "
    "total_terms_in_collection:l average_doclength:d description:s",
    "Posting": "docid:i tf:i",
    "PostingsList": "term:s df:l cf:l postings:Posting",
    "DocRecord": "docid:i collection_docid:s doclength:i",
}
"""Messages and fields of CommonIndexFileFormat.proto, in the order of their numbers; i: int32, l: int64."""


@functools.cache
def messages() -> dict[str, Any]:
    """A class of protobuf for each message of CIFF."""
    proto = descriptor_pb2.FileDescriptorProto(name="ciff.proto", syntax="proto3")
    types = {"i": 5, "l": 3, "d": 1, "s": 9}
    for name, fields in CIFF.items():
        message = proto.message_type.add(name=name)
        for number, field in enumerate(fields.split(), start=1):
            key, kind = field.split(":")
            repeated = {} if kind in types else {"type_name": f".{kind}"}
            message.field.add(
                name=key, number=number, type=types.get(kind, 11), label=3 if repeated else 1, **repeated
            )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in CIFF}


def read_ciff(path: Path) -> tuple[Any, list[Any], list[Any]]:
    """Header, postings lists and document records."""
    classes, content, position = messages(), path.read_bytes(), 0

    def read(name: str) -> Any:
        nonlocal position
        size, start = _DecodeVarint32(content, position)
        position = start + size
        return classes[name].FromString(content[start:position])

    header = read("Header")
    lists = [read("PostingsList") for _ in range(header.num_postings_lists)]
    records = [read("DocRecord") for _ in range(header.num_docs)]
    assert position == len(content)
    return header, lists, records


def vectors_of(lists: list[Any], records: list[Any]) -> Vectors:
    """Vectors from postings lists, whose document numbers are gaps."""
    assert [record.docid for record in records] == list(range(len(records)))
    rows: list[dict[str, int]] = [{} for _ in records]
    for postings in lists:
        document = 0
        for posting in postings.postings:
            document += posting.docid
            rows[document][postings.term] = posting.tf
    return {record.collection_docid: row for record, row in zip(records, rows, strict=True)}


def test_ciff_holds_all_impacts(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    export_vectors("ciff", tmp_path / "ciff", vectors=[encoded[0]], queries=encoded[1])
    header, lists, records = read_ciff(tmp_path / "ciff/documents.ciff")
    assert vectors_of(lists, records) == VECTORS
    total = sum(sum(vector.values()) for vector in VECTORS.values())
    assert (header.version, header.num_docs, header.total_docs) == (1, 200, 200)
    assert (header.total_terms_in_collection, header.average_doclength) == (total, total / 200)
    terms = [postings.term for postings in lists]
    assert terms == sorted(terms)
    assert lines(tmp_path / "ciff/vocabulary.txt") == terms
    assert all(postings.df == len(postings.postings) for postings in lists)
    assert all(postings.cf == sum(posting.tf for posting in postings.postings) for postings in lists)
    assert [record.doclength for record in records] == [sum(vector.values()) for vector in VECTORS.values()]
    assert read_queries(tmp_path / "ciff/queries.txt", terms) == KNOWN


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), min_size=1, max_size=50))
def test_postings_are_those_of_protobuf(pairs: list[tuple[int, int]]) -> None:
    gaps, impacts = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    read = messages()["PostingsList"].FromString(_postings(gaps, impacts))
    assert [(posting.docid, posting.tf) for posting in read.postings] == pairs


def read_queries(path: Path, terms: list[str]) -> dict[str, dict[str, int]]:
    pairs = (line.split(":") for line in lines(path))
    return {name: dict(Counter(terms[int(number)] for number in numbers.split())) for name, numbers in pairs}


def test_a_pisa_folder_is_the_one_that_pyterrier_writes(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """``test_engines.py`` of the searchers searches such folders in PISA."""
    pisa: Any = pytest.importorskip("pyterrier_pisa", reason="pyterrier-pisa is not installed (the extra pisa)")
    record = export_vectors("pisa", tmp_path / "pisa", vectors=[encoded[0]], queries=encoded[1])
    assert record["terms_with_capitals"] == 1  # [CLS]
    theirs = pisa.PisaIndex(str(tmp_path / "theirs"), stemmer="none")
    theirs.toks_indexer(scale=1.0).index({"docno": name, "toks": dict(toks)} for name, toks in VECTORS.items())
    names = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert len(names) == 8
    for name in names:
        assert (tmp_path / "pisa" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes(), name
    assert read_queries(tmp_path / "pisa/queries.txt", lines(tmp_path / "pisa/fwd.terms")) == KNOWN
