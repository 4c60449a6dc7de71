"""The embedded collection: documents, queries, and equal files from equal sources."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from learned_sparse.collections import pydoc
from learned_sparse.collections.collection import Collection, load_collection
from learned_sparse.collections.pydoc import docstrings, source_files
from learned_sparse.core.files import sha256

MODULE = '''
"""A tiny module about frogs, which a test reads."""
import missing_and_never_imported

class Frog:
    """Jump from leaf to leaf."""

    def jump(self):
        """Jump once, as far as the legs allow.

        The distance depends on the frog, the weather and the leaf.
        """
        def inside(): "Has no qualified name."
    async def rest(self): "Sleep."
    def silent(self): pass

if missing_and_never_imported.windows:
    def swim(): "The first one counts."
else:
    def swim(): "The second one does not."
'''


@pytest.fixture
def frogs(tmp_path: Path) -> Path:
    """A library with one module, one package, a broken file, tests and installed packages."""
    folder = tmp_path / "library"
    for file in ("frogs.py", "test/frogs.py", "site-packages/frogs.py", "pond/tests/frogs.py"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(MODULE)
    (folder / "pond" / "__init__.py").write_text(
        '"""Where frogs live: \ud83d\ude00."""'.encode("utf-16", "surrogatepass").decode("utf-16")
    )
    (folder / "broken.py").write_text("def (:")
    return folder


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """The collection of the running Python, built in a temporary home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEARNED_SPARSE_HOME", str(tmp_path_factory.mktemp("home")))
        yield load_collection("pydoc")


def test_every_docstring_has_a_qualified_name(frogs: Path) -> None:
    documents = dict(docstrings(frogs, source_files(frogs)))
    assert [file.relative_to(frogs).as_posix() for file in source_files(frogs)] == [
        "broken.py", "frogs.py", "pond/__init__.py",
    ]  # fmt: skip
    assert list(documents) == ["frogs", "frogs.Frog", "frogs.Frog.jump", "frogs.Frog.rest", "frogs.swim", "pond"]
    assert documents["frogs.swim"] == "The first one counts."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Jump once\nor twice.\n\nAs far as the legs allow.\n", ("Jump once or twice.", "As far as the legs allow.")),
        ("Jump once or twice. As far as the legs allow.", None),
        ("Jump once. Then twice.\n\nAs far as the legs allow.", None),
        ("Jump once.\n\nAs far as the legs allow.", None),
        ("Jump once or twice.\n\nAs far as legs.", None),
        ("Jump once or twice.\n\nTo jump once\nor twice is fun.", None),
    ],
    ids=["separate", "not separate", "two sentences", "query too short", "rest too short", "repeated in the rest"],
)
def test_a_separate_first_sentence_is_a_query(text: str, expected: tuple[str, str] | None) -> None:
    assert pydoc.known_item(text) == expected


def test_the_folder_is_written_once_and_depends_only_on_the_sources(frogs: Path, tmp_path: Path) -> None:
    folder = pydoc.build(frogs, tmp_path / "one")
    assert folder.name.startswith(f"pydoc-{platform.python_version()}-")
    second = pydoc.build(frogs, tmp_path / "two")
    files = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    assert [file.as_posix() for file in files] == [
        "corpus.jsonl", "qrels/dev.tsv", "qrels/test.tsv", "qrels/train.tsv", "queries.jsonl",
    ]  # fmt: skip
    assert [sha256(folder / file) for file in files] == [sha256(second / file) for file in files]
    written = (folder / "corpus.jsonl").stat().st_mtime_ns
    assert pydoc.build(frogs, tmp_path / "one") == folder
    assert (folder / "corpus.jsonl").stat().st_mtime_ns == written
    (frogs / "frogs.py").write_text(MODULE.replace("weather", "wind"))
    assert pydoc.build(frogs, tmp_path / "one") != folder


def test_the_real_collection(real: Collection) -> None:
    texts = {document.id: document.text for document in real.documents()}
    queries = {split: real.queries(split) for split in real.splits}
    assert list(queries) == ["train", "dev", "test"]
    assert 2000 < len(texts) < 4000
    assert len(texts) == sum(map(len, queries.values()))
    assert texts["textwrap.fill"].startswith("textwrap fill Reformat the single paragraph in 'text' to fit in lines")
    assert not any(name.split(".")[0] in {"test", "idlelib", "site-packages"} for name in texts)
    counts = {split: len(split_queries) for split, split_queries in queries.items()}
    assert counts["train"] > 1500
    assert 150 < counts["dev"] < 500
    assert 200 < counts["test"] < 500
