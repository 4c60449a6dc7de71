"""Generated files of training examples and of a teacher's scores: read right, or refused with file and line."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from encoders.training import Negatives
from encoders.training.data.files import ExampleFile
from encoders.training.data.scores import TeacherScores
from learned_sparse.core.errors import LearnedSparseError
from tests.reliability.scale import INPUTS, record
from tests.reliability.slow_readings import slow_lines
from tests.reliability.test_text_readers import IDS, NUMBERS, RAW, SCORES, STRINGS, columns

TEXTS = st.one_of(st.lists(STRINGS, min_size=1, max_size=3), st.lists(STRINGS, max_size=2), STRINGS, st.none())
NUMBERS_OF_TEXTS = st.one_of(st.lists(st.one_of(NUMBERS, STRINGS), max_size=3), st.none())
PASSAGES = st.lists(
    st.fixed_dictionaries({"text": STRINGS}, optional={"title": STRINGS, "docid": IDS}), min_size=1, max_size=3
)
FORMS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "BGE": st.fixed_dictionaries(
        {"query": STRINGS, "pos": TEXTS, "neg": TEXTS},
        optional={"pos_scores": NUMBERS_OF_TEXTS, "neg_scores": NUMBERS_OF_TEXTS, "prompt": STRINGS},
    ),
    "Tevatron": st.fixed_dictionaries(
        {"query": STRINGS, "positive_passages": PASSAGES, "negative_passages": PASSAGES}, optional={"query_id": IDS}
    ),
}


def slow_example(form: str, line: bytes) -> tuple[str, list[str], list[str]] | None:
    """Query, positives and negatives that are no empty texts; None for a line that must be refused."""
    try:
        value = json.loads(line.decode("utf-8").removeprefix("\ufeff"))
    except ValueError:
        return None
    keys = ("pos", "neg") if form == "BGE" else ("positive_passages", "negative_passages")
    if not isinstance(value, dict) or not isinstance(value.get("query"), str):
        return None
    texts = []
    for key in keys:
        if not isinstance(value.get(key), list):
            return None
        listed = value[key]
        if form == "Tevatron":
            if not all(isinstance(each, dict) and isinstance(each.get("text"), str) for each in listed):
                return None
            listed = [f"{each.get('title') or ''} {each['text'].strip()}" for each in listed]
        if not all(isinstance(text, str) for text in listed):
            return None
        texts.append([text.strip() for text in listed if text.strip()])
    return value["query"].strip(), texts[0], texts[1]


def contents(line: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Files of lines with ends of several kinds; half of them without bytes that are no line at all."""
    ends = st.sampled_from([b"\n", b"\r\n", b"\n\n", b" \n"])
    lines = st.one_of(st.lists(line, min_size=1, max_size=2), st.lists(st.one_of(line, line, RAW), max_size=4))
    return st.builds(lambda lines, end: end.join(lines) + end, lines, ends)


def assert_located(error: LearnedSparseError, path: Path) -> None:
    """The message begins with file and line, or says what is wrong with the whole file."""
    whole = "no (triples|scores)|query .* two scores|gzip data, but not named .gz; rename the file"
    assert re.match(rf"{re.escape(str(path))}:(\d+: | ({whole}))", str(error)), error


def json_bytes(value: object) -> bytes:
    """JSON in ASCII: half surrogate pairs are escaped."""
    return json.dumps(value).encode()


@pytest.mark.parametrize("form", FORMS)
def test_examples_in_are_examples_out_and_refused(form: str, tmp_path: Path) -> None:
    path = tmp_path / "examples.jsonl"
    outcomes: Counter[str] = Counter()
    lines = FORMS[form].map(json_bytes)

    @settings(max_examples=INPUTS, suppress_health_check=list(HealthCheck))
    @given(contents(lines))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        try:
            examples = ExampleFile(path, Negatives(per_query=0))
        except LearnedSparseError as error:
            outcomes["refused"] += 1
            assert_located(error, path)
            return
        outcomes["read"] += 1
        expected = [slow_example(form, line) for _, line in slow_lines(content, marks=False)]
        assert None not in expected, f"a line was accepted: {content!r}"
        usable = [each for each in expected if each and each[0] and each[1]]
        assert examples.empty == len(expected) - len(usable)
        assert len(examples) == len(usable)
        for number, (query, positives, _) in enumerate(usable):
            example = examples.get(number, np.random.default_rng(0))
            assert example.query == query
            assert example.positive in positives

    check()
    assert min(outcomes["read"], outcomes["refused"]) > INPUTS // 100  # both happen
    test = "tests/reliability/test_training_readers.py::test_examples_in_are_examples_out_and_refused"
    record("input", f"training examples of {form}", INPUTS, "read as by a slow reading, or refused with its file", test)


def finite_score(text: str) -> float:
    """NaN where the text is no finite number of fp32 in ASCII digits."""
    try:
        score = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan
    return score if abs(score) < 3.4028235e38 else math.nan


def test_scores_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.tsv"
    outcomes: Counter[str] = Counter()
    line = st.one_of(columns(IDS, IDS, SCORES), columns(IDS, IDS, SCORES, between=" "))
    read: Callable[[Path], TeacherScores] = TeacherScores

    @settings(max_examples=INPUTS, suppress_health_check=list(HealthCheck))
    @given(contents(line))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        pairs: dict[tuple[str, str], float] = {}
        try:
            scores = read(path)
        except LearnedSparseError as error:
            outcomes["refused"] += 1
            assert_located(error, path)
            return
        outcomes["read"] += 1
        for _, raw in slow_lines(content, marks=False):
            words = raw.decode("utf-8").removeprefix("\ufeff").split()
            assert len(words) in (3, 6), raw
            query, document = words[0], words[1 if len(words) == 3 else 2]
            score = finite_score(words[2 if len(words) == 3 else 4])
            assert math.isfinite(score), raw
            assert np.float32(pairs.setdefault((query, document), score)) == np.float32(score)
        for (query, document), score in pairs.items():
            assert np.float32(scores.of(query, [document])[0]) == np.float32(score)

    check()
    assert min(outcomes["read"], outcomes["refused"]) > INPUTS // 100  # both happen
    test = "tests/reliability/test_training_readers.py::test_scores_are_read_or_refused"
    record("input", "scores of a teacher", INPUTS, "read as by a slow reading, or refused with its file", test)
