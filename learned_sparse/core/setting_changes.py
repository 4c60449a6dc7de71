"""``--set KEY=VALUE`` of the command line: changes to the settings of a checkpoint."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import yaml

from learned_sparse.core.errors import LearnedSparseError


def add_set_option(parser: argparse.ArgumentParser | argparse._ArgumentGroup, help_text: str) -> None:
    """``--set``, which may be given again and again; its words are for ``parse_changes``."""
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=help_text)


def parse_changes(words: Sequence[str]) -> dict[str, Any]:
    """``{key: value}`` of words ``key=value``, each value read as YAML.

    >>> parse_changes(["alpha=0.3", "layers=[2, 12]", "query_k=null", "components=both"])
    {'alpha': 0.3, 'layers': [2, 12], 'query_k': None, 'components': 'both'}
    """
    changes: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not (key and equals and text):
            raise LearnedSparseError(f"--set {word}: expected KEY=VALUE, for instance alpha=0.3")
        if key in changes:
            raise LearnedSparseError(f"--set {word}: {key} was set before; keep one of them")
        changes[key] = _value(text, word)
    return changes


def _value(text: str, word: str) -> Any:
    try:
        value = yaml.safe_load(text)
        json.dumps(value, allow_nan=False)  # it goes into a manifest; YAML has dates, sets and .nan too
    except (yaml.YAMLError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise LearnedSparseError(f"--set {word}: not a number, a word or a list of them ({reason})") from None
    return value
