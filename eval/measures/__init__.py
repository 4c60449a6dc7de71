"""Room eval.measures.measures."""

from __future__ import annotations

from eval.measures.judged import Judged, add_judged_options, chosen_split, load_judged, read_runs
from eval.measures.measures import Scores, evaluate
from eval.measures.notation import parse_measure
from eval.measures.results import Result, notes, queries_table, result_as_json, results_table
from eval.measures.significance import SIGNIFICANT, Differences, Test, chance, chances, differences, said
from eval.measures.table import Cell, Column, format_table
from eval.measures.trec_eval import write_qrels
from eval.measures.word_pieces import load_pieces, tokenizer_folder
from eval.measures.written import write_texts

__all__ = [
    "SIGNIFICANT",
    "Cell",
    "Column",
    "Differences",
    "Judged",
    "Result",
    "Scores",
    "Test",
    "add_judged_options",
    "chance",
    "chances",
    "chosen_split",
    "differences",
    "evaluate",
    "format_table",
    "load_judged",
    "load_pieces",
    "notes",
    "parse_measure",
    "queries_table",
    "read_runs",
    "result_as_json",
    "results_table",
    "said",
    "tokenizer_folder",
    "write_qrels",
    "write_texts",
]
