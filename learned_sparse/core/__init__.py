"""Records, the encoder protocol and basic services that all other rooms use.

Read ``records`` first (documents, queries, sparse batches), then ``encoder`` (the interface between models and the
plug-in). ``quantize`` and ``terms`` say which impacts and terms Lucene can store. ``files``, ``lines``,
``settings`` and ``errors`` write files, read lines, check settings and report errors; ``machine`` counts processors
and memory.
"""

from __future__ import annotations

from learned_sparse.core.encoder import Encoder, Side, Word, encode_texts, load_encoder, without_empty_texts
from learned_sparse.core.errors import (
    LearnedSparseError,
    did_you_mean,
    folder_kind,
    interrupts_later,
    not_found,
    progress_bar,
    run_main,
    wrong_path,
)
from learned_sparse.core.files import (
    atomic_write,
    check_name,
    checkpoint_folder,
    default_checkpoint,
    encoded_folders,
    home,
    index_folder,
    is_name,
    new_file,
    new_folder,
    queries_folder,
    read_json,
    read_record,
    replace_folder,
    restore_folder,
    run_file,
    sha256,
    vectors_folder,
    write_json,
    write_record,
)
from learned_sparse.core.lazy import lazy_names
from learned_sparse.core.lines import raw_lines
from learned_sparse.core.locks import lock_descriptors, locked
from learned_sparse.core.machine import memory, processors
from learned_sparse.core.quantize import MAX_IMPACT, QuantizationStatistics, Quantizer, check_weights
from learned_sparse.core.records import (
    EXPANDED,
    Document,
    Query,
    Reading,
    Share,
    Sources,
    SparseBatch,
    Token,
    without_mark,
)
from learned_sparse.core.settings import (
    CommandParser,
    add_set_option,
    parse,
    parse_changes,
    positive,
    read_yaml,
    read_yaml_text,
)
from learned_sparse.core.terms import EMPTY_TERM, NO_TERMS, RESERVED, LuceneTerms, unfit_id_reason, unfit_reason

__all__ = [
    "EMPTY_TERM",
    "EXPANDED",
    "MAX_IMPACT",
    "NO_TERMS",
    "RESERVED",
    "CommandParser",
    "Document",
    "Encoder",
    "LearnedSparseError",
    "LuceneTerms",
    "QuantizationStatistics",
    "Quantizer",
    "Query",
    "Reading",
    "Share",
    "Side",
    "Sources",
    "SparseBatch",
    "Token",
    "Word",
    "add_set_option",
    "atomic_write",
    "check_name",
    "check_weights",
    "checkpoint_folder",
    "default_checkpoint",
    "did_you_mean",
    "encode_texts",
    "encoded_folders",
    "folder_kind",
    "home",
    "index_folder",
    "interrupts_later",
    "is_name",
    "lazy_names",
    "load_encoder",
    "lock_descriptors",
    "locked",
    "memory",
    "new_file",
    "new_folder",
    "not_found",
    "parse",
    "parse_changes",
    "positive",
    "processors",
    "progress_bar",
    "queries_folder",
    "raw_lines",
    "read_json",
    "read_record",
    "read_yaml",
    "read_yaml_text",
    "replace_folder",
    "restore_folder",
    "run_file",
    "run_main",
    "sha256",
    "unfit_id_reason",
    "unfit_reason",
    "vectors_folder",
    "without_empty_texts",
    "without_mark",
    "write_json",
    "write_record",
    "wrong_path",
]
