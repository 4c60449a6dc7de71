"""YAML of recipes, matrices and collections: read right, or refused in one line with file, place and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from encoders.training.recipe import RECIPES, load_recipe
from eval.reproduce.matrix import MATRICES, load_matrix
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.descriptions import descriptions
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse_changes
from learned_sparse.core.yaml_files import read_yaml
from tests.reliability.scale import INPUTS, damaged, generated, refusal, replaced

READERS: dict[str, tuple[Callable[[Path], Any], list[Path]]] = {
    "recipe": (load_recipe, sorted(RECIPES.glob("[!_]*.yaml"))),
    "matrix": (load_matrix, [path for path in sorted(MATRICES.glob("*.yaml")) if path.stat().st_size < 8_000]),
    "collection": (load_collection, sorted({path for path in descriptions().values() if path.stem != "cqadupstack"})),
}
ODD: list[Any] = [
    None, True, False, 0, -1, 2**40, 2**64, 10**30, 0.5, -0.0, float("nan"), float("inf"), "", " ", "x", "7",
    "1e-3", "nan", "no", "..", "../x", "/etc/passwd", "C:\\x", "a\nb", "\u2028", "é" * 300, "-x", "*", "{data}", "$x",
    [], {}, [[]], ["x"], {"x": 1}, [None], {"kind": "none"},
]  # fmt: skip
TEXTS = st.sampled_from(
    ["[", "]", "{", "}", ":", "- ", "? ", "&a ", "*a", "<<: *a", "!!python/object:os.system ", "!!int ", "!x ", "\t",
     "\n", "\r", "\x00", "\x07", "\ufeff", "---\n", "...\n", "#", "|\n", ">-\n", "'", '"', "%YAML 9.9\n", "\\",
     "\ud83d", "%"]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, files: list[Path]) -> bytes:
    """A YAML file of the repository with one value or piece of text changed."""
    text = draw(st.sampled_from(files)).read_text(encoding="utf-8")
    if draw(st.booleans()):
        whole = draw(replaced(yaml.safe_load(text), ODD))
        return yaml.safe_dump(whole, sort_keys=False, allow_unicode=draw(st.booleans())).encode(
            "utf-8", "surrogatepass"
        )
    at, cut = draw(st.integers(0, len(text))), draw(st.integers(0, 12))
    content = (text[:at] + draw(TEXTS) + text[at + cut :]).encode("utf-8", "surrogatepass")
    return draw(st.just(content) | damaged(content))


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_are_read_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    read, files = READERS[name]
    assert len(files) > 2
    path, outcomes = tmp_path / "mutated.yaml", Counter[bool]()

    @generated
    @given(mutated(files))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        outcomes[bool(refusal(read, path))] += 1

    check()
    assert min(outcomes[True], outcomes[False]) > INPUTS // 50


NASTY = {
    b"a: 1\na: 2\n": "2: not readable as YAML: the key 'a' is given twice; keep one",
    b"x: 1\n? [a]\n: 2\n": "2: .*unhashable key",
    b"x: 1\ny: !!python/object/apply:os.system ['touch ran']\n": "2: .*could not determine a constructor",
    b"x: 1\ny: " + b"[" * 100_000: "recursion",
    **dict.fromkeys((b"x: !!int z", b"x: !!int ''", b"x: !!bool z", b"x: !!timestamp z"), "does not fit its tag"),
}  # fmt: skip


@pytest.mark.parametrize("content", NASTY, ids=lambda content: repr(content[:40]))
def test_nasty_files(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "nasty.yaml"
    path.write_bytes(content)
    with pytest.raises(LearnedSparseError, match=rf"nasty\.yaml:.*{NASTY[content]}") as error:
        read_yaml(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
    assert [file.name for file in tmp_path.iterdir()] == ["nasty.yaml"]  # nothing ran


def test_values_that_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(
        "\ufeffdate: 2026-01-01\r\nyes_or_no: [no, on, true]\r\nnumbers: [010, 12:30, 0x10, .nan]\r\n".encode()
        + b"2020: a\r\nhalf: [5.0e-1, 5e-1, .5]\r\nnothing: [null, ~]\r\nshared: &s {a: 1}\r\nagain: {<<: *s, a: 2}\r\n"
    )
    assert read_yaml(path) == {
        "date": "2026-01-01", "yes_or_no": ["no", "on", True], "numbers": ["010", "12:30", "0x10", ".nan"],
        "2020": "a", "half": [0.5] * 3, "nothing": [None, None], "shared": {"a": 1}, "again": {"a": 2},
    }  # fmt: skip


def test_changes_on_the_command_line_are_as_strict() -> None:
    assert parse_changes(["since=2026-01-01", "k=07"]) == {"since": "2026-01-01", "k": "07"}
    for word in ("k=x: [", "k={a: 1, a: 2}", "k=!!python/name:os.system", "k=*x"):
        with pytest.raises(LearnedSparseError, match=r"^--set k=.*: not readable as YAML"):
            parse_changes([word])
