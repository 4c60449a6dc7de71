"""Direct indexing: rejected lines with file and line, limits, memory, and cleaning up after an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.index import build
from learned_sparse.index.build import build_index, delimited, index_directly
from learned_sparse.lucene.searchers import postings_of, read_contents
from tests.learned_sparse.encoded_folder import write_folder

LARGEST = 2**31 - 1
MARKS = st.text(st.sampled_from('":,{}\\x'), min_size=1)
WORDS = st.text(st.characters(exclude_characters=" \x01", exclude_categories=["Cs"]), min_size=1)
GOOD = '{"id": "d1", "vector": {"a": 3, "b": 1}}'


def indexed(folder: Path, *lines: str, threads: int = 1) -> int:
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return index_directly([folder / "in.jsonl"], folder / "index", threads=threads)


@example({":": 1})
@example({",": 1, ":a": 2})
@given(st.dictionaries(MARKS | WORDS, st.integers(1, LARGEST), min_size=1))
def test_a_vector_is_written_term_by_term(vector: dict[str, int]) -> None:
    assert delimited(vector) == " ".join(f"{term}\x01{impact}" for term, impact in vector.items())


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ('{"id": "x", "vector": {}}', "empty"),
        ('{"id": "x", "vector": {"a": 1, "b": 0}}', "'b' has the impact 0"),
        ('{"id": "x", "vector": {"a\\u0001": 2}}', "holds the character .* rename"),
        (f'{{"id": "x", "vector": {{"a": {LARGEST}, "b": 1}}}}', "of 'x' add up to 2,147,483,648, .* Lucene holds"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=rf"in\.jsonl:3: .*{message}"):
        indexed(tmp_path, GOOD, "", line, GOOD)


@pytest.mark.jvm
def test_the_largest_impacts(tmp_path: Path) -> None:
    largest, empty = f'{{"id": 7, "vector": {{"a": {LARGEST}}}}}', f'{{"id": "e", "vector": {{"{EMPTY_TERM}": 1}}}}'
    assert indexed(tmp_path, GOOD, largest, empty, largest.replace("7", "8", 1)) == 2 * LARGEST + 5
    assert list(read_contents(tmp_path / "index").values()) == [4, 4, 5, 2 * LARGEST + 5]
    assert postings_of(tmp_path / "index", ["7", "e"]) == {"7": {"a": LARGEST}, "e": {EMPTY_TERM: 1}}


@pytest.mark.jvm
def test_an_error_stops_all_threads_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "in", {f"d{n}": {"a": 1} for n in range(900)}, parts=3)
    processed = []

    def interrupted(vector: dict[str, int]) -> str:
        processed.append(vector)
        if len(processed) == 150:
            raise KeyboardInterrupt
        return delimited(vector)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(build, "delimited", interrupted)
        build_index(folder, tmp_path / "index", threads=2)
    assert len(processed) < 500
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    assert build_index(folder, tmp_path / "index").facts["documents"] == 900
