"""Names in the home folder: one folder on any system, another one for another spelling."""

from __future__ import annotations

from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.names import check_name, folder_name, spelling_of
from learned_sparse.core.errors import LearnedSparseError

SPELLINGS = st.text(st.sampled_from("a.--_:/\\ <|%é→*"), min_size=1, max_size=8)


@given(SPELLINGS)
def test_a_spelling_becomes_one_folder(spelling: str) -> None:
    name = folder_name(f"ir_datasets:{spelling}")
    assert check_name(name, "here") == name
    assert PureWindowsPath(name).parts == (name,)


@given(SPELLINGS, SPELLINGS)
def test_other_spellings_have_other_folders(first: str, second: str) -> None:
    """``:`` and ``/`` are the one exception: no name in the catalogue has a ``:``."""
    same = first.replace(":", "/") == second.replace(":", "/")
    assert (folder_name(first) == folder_name(second)) is same


@given(SPELLINGS)
def test_a_spelling_comes_back_from_its_name(spelling: str) -> None:
    spelling = "ir_datasets:" + spelling.replace(":", "/")
    assert spelling_of(folder_name(spelling)) == spelling


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "c:", "nul", "Com1.txt", "a.", "a ", "what?", "a\nb"])
def test_a_described_name_that_is_no_folder_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: {name!r}\ntitle: T\ncorpus: {{files: [a.tsv]}}\nsplits: {{}}\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"mine\.yaml: the name .* cannot be a folder"):
        load_collection(file)
