"""Test collections and their files: documents, topics, judgements, runs, segments of long documents.

Read ``collection.py`` first: ``load_collection`` gives a ``Collection``, described by a YAML file or a folder's layout
(``descriptions.py``), by a name of ir_datasets (``catalogue.py``), or generated (``pydoc.py``). ``documents.py``,
``topics.py`` and ``trec.py`` read and write the files. ``python -m learned_sparse.collections`` lists what is known.
"""

from __future__ import annotations

from learned_sparse.collections.catalogue import CATALOGUE
from learned_sparse.collections.collection import (
    Collection,
    count_documents,
    data_root,
    filed_under,
    load_collection,
    local_file,
    registered_qrels,
    split_names,
    with_progress,
)
from learned_sparse.collections.descriptions import DESCRIPTION, Source, Split
from learned_sparse.collections.documents import (
    DocumentReader,
    OnBadLine,
    add_bad_line_option,
    predicted_queries,
    read_documents,
)
from learned_sparse.collections.lines import BadLineError, json_object
from learned_sparse.collections.segments import Segmentation, SegmentReader, Which, check_segment_length, segments_for
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import Run, ranked, read_qrels, read_run, write_run

__all__ = [
    "CATALOGUE",
    "DESCRIPTION",
    "BadLineError",
    "Collection",
    "DocumentReader",
    "OnBadLine",
    "Run",
    "SegmentReader",
    "Segmentation",
    "Source",
    "Split",
    "Which",
    "add_bad_line_option",
    "check_segment_length",
    "count_documents",
    "data_root",
    "filed_under",
    "json_object",
    "load_collection",
    "local_file",
    "predicted_queries",
    "ranked",
    "read_documents",
    "read_qrels",
    "read_queries",
    "read_run",
    "registered_qrels",
    "segments_for",
    "split_names",
    "with_progress",
    "write_run",
]
