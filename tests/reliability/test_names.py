"""A name that becomes a path stays in its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.collection import load_collection
from learned_sparse.core import files
from learned_sparse.core.errors import LearnedSparseError
from tests.reliability.scale import generated

BAD = ["", "..", "../x", "a/b", "C:\\x", "a\\b", "a\0b", "-x", ".x", "x" * 300, "é" * 100, "x.", "x ", "a\nb", "\ud800"]
PATHS: dict[str, Callable[[str], Path]] = {
    "checkpoint": files.checkpoint_folder,
    "vectors, model": lambda name: files.vectors_folder("scifact", name),
    "vectors, collection": lambda name: files.vectors_folder(name, "splade"),
    "queries, split": lambda name: files.queries_folder("scifact", name, "splade"),
    "index": lambda name: files.index_folder("scifact", name),
    "run, split": lambda name: files.run_file("scifact", name, "splade"),
    "run, model": lambda name: files.run_file("scifact", "test", name),
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_of_the_home_folder(path: str) -> None:
    for name in BAD:
        with pytest.raises(LearnedSparseError, match="cannot be a folder; use at most 150") as error:
            PATHS[path](name)
        assert "\n" not in str(error.value)


def test_an_accepted_name_is_one_entry_of_its_folder() -> None:
    letters = st.sampled_from("aB1.-_ /\\:*\0\n~$%é→\u202e\ud800")

    @generated
    @given(st.text(letters, max_size=12) | st.text(max_size=40))
    def check(name: str) -> None:
        try:
            path = files.run_file("scifact", "test", name)
        except LearnedSparseError:
            assert not files.is_name(name)
            return
        assert path.parent == files.home() / "runs" / "scifact" / "test"
        assert len(path.name.encode()) <= 200

    check()


def test_splits_of_a_collection(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    split = {"topics": {"files": ["q.tsv"]}, "qrels": {"files": ["r.tsv"]}, "measures": ["MRR@10"]}
    content = {"name": "mine", "title": "T", "corpus": {"files": ["a.tsv"]}, "splits": {"../../x": split}}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"mine\.yaml: splits: the name '\.\./\.\./x' cannot be a folder"):
        load_collection(path)
