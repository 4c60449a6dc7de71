"""Room learned_sparse.core."""

from __future__ import annotations

from learned_sparse.core.command_line import run_main
from learned_sparse.core.encoder import Encoder, Side, Word, load_encoder
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.explanations import Reading, Share, Sources, Token
from learned_sparse.core.files import atomic_write, folder_beside, new_folder, read_json, sha256, write_json
from learned_sparse.core.home import (
    checkpoint_folder,
    encoded_folders,
    home,
    index_folder,
    queries_folder,
    run_file,
    vectors_folder,
)
from learned_sparse.core.html_page import escape, page
from learned_sparse.core.quantize import MAX_IMPACT, Quantizer, check_weights
from learned_sparse.core.records import EXPANDED, Document, Query, SparseBatch, without_mark
from learned_sparse.core.setting_changes import add_set_option, parse_changes
from learned_sparse.core.settings import parse, read_yaml
from learned_sparse.core.terms import EMPTY_TERM, LONGEST_TERM, NO_TERMS, RESERVED, LuceneTerms, unfit_reason

__all__ = [
    "EMPTY_TERM",
    "EXPANDED",
    "LONGEST_TERM",
    "MAX_IMPACT",
    "NO_TERMS",
    "RESERVED",
    "Document",
    "Encoder",
    "LearnedSparseError",
    "LuceneTerms",
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
    "check_weights",
    "checkpoint_folder",
    "did_you_mean",
    "encoded_folders",
    "escape",
    "folder_beside",
    "home",
    "index_folder",
    "load_encoder",
    "new_folder",
    "page",
    "parse",
    "parse_changes",
    "queries_folder",
    "read_json",
    "read_yaml",
    "run_file",
    "run_main",
    "sha256",
    "unfit_reason",
    "vectors_folder",
    "without_mark",
    "write_json",
]
