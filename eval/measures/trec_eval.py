"""The trec_eval that Pyserini carries in its jar, called as ``pyserini.eval.measures.trec_eval`` calls it.

The program is the same and so are its numbers (a test compares the output). Pyserini's Python function around it is
left out because it reads run and judgements once more with pandas (8 s and 0.7 GB per million lines, where trec_eval
itself takes 1.4 s) and returns only the last of several measures.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from learned_sparse.core import LearnedSparseError
from learned_sparse.lucene import anserini_jar, java_environment

#: Query id → document id → grade.
Qrels = Mapping[str, Mapping[str, int]]
#: Query id → (document id, score) pairs; trec_eval orders them itself.
Run = Mapping[str, Sequence[tuple[str, float]]]

Values = dict[str, dict[str, float]]
MEAN = "all"

_WORD = re.compile(r"[^ \t\n\v\f\r\0]+")


def trec_eval(arguments: Sequence[str], qrels: Path, run: Path) -> Values:
    """``{measure: {query id: value}}`` as trec_eval prints them, to four decimals; the mean is under ``"all"``."""
    environment = java_environment()
    java = shutil.which("java", path=environment["PATH"])
    if java is None:
        raise LearnedSparseError(f"no java in {environment['JAVA_HOME']}; run python -m learned_sparse.doctor")
    program = [java, "-XX:TieredStopAtLevel=1", "-cp", str(anserini_jar()), "trec_eval"]
    command = [*program, *arguments, str(qrels), str(run)]
    answer = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False)
    values: Values = {}
    for line in answer.stdout.splitlines():
        measure, query, value = (part.strip() for part in line.split("\t"))
        values.setdefault(measure, {})[query] = float(value)
    if answer.returncode or not values:  # its status is 0 even when it gave up
        raise LearnedSparseError(f"trec_eval {' '.join(arguments)} gave no result: {answer.stderr.strip()}")
    return values


def write_qrels(path: Path, qrels: Qrels) -> None:
    """A judgements file as trec_eval reads it.

    A negative grade is written as 0, which is the same to every measure we know; trec_eval would give up
    on a query that has no others.
    """
    rows = ((query, document, max(grade, 0)) for query, grades in qrels.items() for document, grade in grades.items())
    _write(path, (f"{query} 0 {_word(document)} {grade}\n" for query, document, grade in rows))


def write_run(path: Path, run: Run) -> None:
    """A run file that keeps every digit of the scores (trec_eval ignores the ranks, and orders ties by document id)."""
    rows = ((query, document, score) for query, hits in run.items() for document, score in hits)
    _write(path, (f"{query} Q0 {_word(document)} 0 {_finite(score)!r} -\n" for query, document, score in rows))


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)


def _word(document: str) -> str:
    if _WORD.fullmatch(document) is None:
        raise LearnedSparseError(f"document id {document!r} is empty or has white space, which no TREC file can hold")
    return document


def _finite(score: float) -> float:
    if not math.isfinite(score):
        raise LearnedSparseError(f"a run with the score {score} cannot be ranked; scores must be finite")
    return float(score)
