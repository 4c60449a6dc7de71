"""Measures of runs, tests of their differences, and tables of results.

Read ``scores`` first: the notation of measures, trec_eval. ``significance`` compares runs, ``bootstrap`` systems
with several trainings. ``runs`` loads what commands name: runs, splits of collections, tokenizers. ``tables`` formats
results.
"""

from __future__ import annotations

from eval.measures.bootstrap import Estimate, Values, estimate_difference, query_weights
from eval.measures.runs import (
    Judged,
    add_collection_options,
    add_expanded_option,
    add_judged_options,
    check_expanded,
    load_judged,
    load_pieces,
    load_split,
    named_runs,
    read_runs,
    share,
    tokenizer_folder,
)
from eval.measures.scores import (
    Measure,
    Qrels,
    Scores,
    evaluate,
    parse_measure,
    write_qrels,
)
from eval.measures.significance import (
    SIGNIFICANT,
    Comparison,
    Differences,
    Test,
    compare,
    comparisons,
    confidence_interval,
    differences,
    format_comparison,
    holm,
    p_value,
    p_values,
    values_of,
)
from eval.measures.tables import Cell, Column, format_table, write_texts

__all__ = [
    "SIGNIFICANT",
    "Cell",
    "Column",
    "Comparison",
    "Differences",
    "Estimate",
    "Judged",
    "Measure",
    "Qrels",
    "Scores",
    "Test",
    "Values",
    "add_collection_options",
    "add_expanded_option",
    "add_judged_options",
    "check_expanded",
    "compare",
    "comparisons",
    "confidence_interval",
    "differences",
    "estimate_difference",
    "evaluate",
    "format_comparison",
    "format_table",
    "holm",
    "load_judged",
    "load_pieces",
    "load_split",
    "named_runs",
    "p_value",
    "p_values",
    "parse_measure",
    "query_weights",
    "read_runs",
    "share",
    "tokenizer_folder",
    "values_of",
    "write_qrels",
    "write_texts",
]
