"""Room learned_sparse.collections."""

from __future__ import annotations

from learned_sparse.collections.collection import Collection, filed_under, load_collection, named_split
from learned_sparse.collections.description_files import data_root
from learned_sparse.collections.descriptions import Source
from learned_sparse.collections.documents import DocumentReader, read_documents
from learned_sparse.collections.named_in_catalogue import CATALOGUE
from learned_sparse.collections.registered import registered_qrels
from learned_sparse.collections.segments import Segmentation, SegmentReader, Which, segments_for
from learned_sparse.collections.sources import local_file
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import Hits, Qrels, Run, RunFormat, ranked, read_qrels, read_run, write_run

__all__ = [
    "CATALOGUE",
    "Collection",
    "DocumentReader",
    "Hits",
    "Qrels",
    "Run",
    "RunFormat",
    "SegmentReader",
    "Segmentation",
    "Source",
    "Which",
    "data_root",
    "filed_under",
    "load_collection",
    "local_file",
    "named_split",
    "ranked",
    "read_documents",
    "read_qrels",
    "read_queries",
    "read_run",
    "registered_qrels",
    "segments_for",
    "write_run",
]
