"""Size of the reliability tests (small in ``make test``, whole in ``make test-faults``), and the record of the cases.

``RELIABILITY=full`` is the whole size. ``RELIABILITY_RESULTS=FILE`` collects one JSON line for each call of ``record``;
``python -m tests.reliability.report`` writes ``tests/RELIABILITY.md``, or the list of cases, from that file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

FULL = os.environ.get("RELIABILITY") == "full"
INPUTS = 10_000 if FULL else 200
"""Generated inputs of each reader."""
KILLS = 100 if FULL else 1
"""Kills of each command with each signal."""


def record(kind: str, subject: str, tried: int, outcome: str, test: str) -> None:
    """Record that ``tried`` cases of ``kind`` ("kill", "failed write", "corruption", "input", "race") were tried.

    ``subject`` is the command or reader, ``outcome`` says what held, ``test`` is the id of the test.
    """
    results = os.environ.get("RELIABILITY_RESULTS")
    if not results:
        return
    line = json.dumps({"kind": kind, "subject": subject, "tried": tried, "outcome": outcome, "test": test})
    with Path(results).open("a", encoding="utf-8") as file:
        file.write(line + "\n")
