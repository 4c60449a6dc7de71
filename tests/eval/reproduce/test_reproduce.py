"""A small leaderboard: run once, run again, and with a broken row.

``tests/reliability/test_kills.py`` kills such a run.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.in_process import run_command
from tests.toy_data import save_collection, save_recipes


class Toy:
    """A matrix with two kinds of rows, its data, and a home folder."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder, self.data, self.home, self.results = folder, data, folder / "home", folder / "results"
        self.matrix = folder / "toy.yaml"

    def change(self, **rows: Any) -> None:
        """Change keys of rows, or add rows."""
        values = yaml.safe_load(self.matrix.read_text(encoding="utf-8"))
        for name, row in rows.items():
            values["rows"].setdefault(name, {}).update(row)
        self.matrix.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")

    def run(self, *options: str, status: int = 0) -> list[str]:
        """Run the matrix in one process; returns the lines that are printed."""
        where = ["--matrix", str(self.matrix), "--data", str(self.data), "--output", str(self.results)]
        return self.start("eval.reproduce", *where, "--threads", "1", "--in-process", *options, status=status)

    def start(self, module: str, *arguments: str, status: int = 0) -> list[str]:
        """Run ``python -m module arguments`` to its end; returns the lines that it prints."""
        ended, output = run_command(module, arguments, self.folder, LEARNED_SPARSE_HOME=str(self.home))
        assert ended == status, f"{module} {shlex.join(arguments)}\n{output}"
        return output.splitlines()

    def results_json(self) -> dict[str, Any]:
        """``results.json``."""
        content: dict[str, Any] = json.loads((self.results / "results.json").read_text(encoding="utf-8"))
        return content

    def times(self) -> dict[str, int]:
        """Time of the last change of each output file."""
        return {
            str(file.relative_to(self.home)): file.stat().st_mtime_ns
            for file in sorted(self.home.rglob("*"))
            if file.is_file() and "reproduce" not in file.relative_to(self.home).parts
        }

    def copy(self, folder: Path) -> Toy:
        """A copy of everything but the data, with unchanged file times."""
        shutil.copytree(self.folder, folder)
        return Toy(folder, self.data)


@pytest.fixture(scope="module")
def new_leaderboard(tmp_path_factory: pytest.TempPathFactory, tiny_headless: Path) -> Toy:
    """A leaderboard without any finished step."""
    folder = tmp_path_factory.mktemp("reproduce") / "toy"
    folder.mkdir()
    data = folder.with_name("data")
    save_collection(data / "toy", ("train", "test"))
    recipes = save_recipes(folder.with_name("recipes"), ["small-splade"], tiny_headless, -0.5)
    values = {
        "title": "Toy",
        "hits": 100,
        "baseline": "BM25",
        "columns": {"toy": {"collection": "{data}/toy", "split": "test", "measures": ["MRR@10", "R@100"]}},
        "training": {"data": ["{data}/toy:train"], "negatives": 5},
        "rows": {
            "BM25": {"bm25": "text", "expected": {"toy": {"R@100": 1.0}}},
            "tiny": {"recipe": str(recipes / "small-splade.yaml")},
        },
    }
    toy = Toy(folder, data)
    toy.matrix.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return toy


@pytest.fixture(scope="module")
def done(new_leaderboard: Toy) -> Toy:
    """The finished leaderboard; tests that change it use a copy."""
    toy = new_leaderboard.copy(new_leaderboard.folder.with_name("done"))
    lines = toy.run()
    assert "0 done" in lines[0]
    assert not [line for line in lines if "FAILED" in line]
    return toy


@pytest.fixture
def copied(done: Toy, tmp_path: Path) -> Toy:
    """A copy of the finished leaderboard."""
    return done.copy(tmp_path / "copy")


@pytest.mark.jvm
def test_the_matrix_of_the_guide(tmp_path: Path, tiny_bert: Path, root: Path) -> None:
    """The YAML of eval/README.md, with a small collection and a random model in place of those that it names."""
    (text,) = re.findall(r"```yaml\n(title: .*?)```", (root / "eval" / "README.md").read_text("utf-8"), re.DOTALL)
    save_collection(tmp_path / "my-collection", ("test",))
    for name in ("splade-tiny", "learned_sparse_home/checkpoints/my-splade"):
        assert name in text
        shutil.copytree(tiny_bert, tmp_path / name)
    toy = Toy(tmp_path, tmp_path)
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    toy.start("eval.reproduce", "--matrix", "mine.yaml", "--output", "results", "--in-process")
    cells = toy.results_json()["cells"]
    assert [cell["row"] for cell in cells] == ["BM25", "published", "mine", "mine, 8 bits"]
    assert all(cell["status"] == "done" and set(cell["scores"]) == {"nDCG@10", "R@100"} for cell in cells)


def records(toy: Toy) -> list[Path]:
    """Records of the finished steps."""
    return list((toy.home / "reproduce" / "steps").rglob("*.json"))


@pytest.mark.jvm
def test_every_cell_is_measured(done: Toy) -> None:
    results = done.results_json()
    cells = {cell["row"]: cell for cell in results["cells"]}
    assert {name: cell["status"] for name, cell in cells.items()} == dict.fromkeys(("BM25", "tiny"), "done")
    assert cells["BM25"]["scores"]["R@100"] == 1.0
    assert cells["BM25"]["verdicts"] == {"R@100": "equal"}
    assert str(done.folder) not in json.dumps(results["cells"] + results["columns"])
    assert (done.results / "README.md").is_file()
    logs = list((done.home / "reproduce" / "logs").rglob("*.log"))
    assert len(logs) == len(records(done)) > 10


@pytest.mark.jvm
def test_a_second_run_does_nothing(done: Toy) -> None:
    before, results = done.times(), (done.results / "results.json").read_bytes()
    lines = done.run()
    assert re.search(r"2 cells, (\d+) steps, \1 done; about 0 MB of ", lines[0])
    assert done.times() == before
    assert (done.results / "results.json").read_bytes() == results
    listed = done.run("--dry-run")
    assert all(line.startswith("done ") for line in listed[:-1:2])
    assert all(line.lstrip().startswith("python -m ") for line in listed[1::2])


@pytest.mark.jvm
def test_results_without_records_are_kept(done: Toy) -> None:
    before = done.times()
    shutil.rmtree(done.home / "reproduce")
    lines = done.run()
    assert not [line for line in lines if "FAILED" in line]
    after = done.times()
    assert after.keys() == before.keys()
    kept = [path for path in before if path.startswith(("checkpoints/small-splade", "vectors", "indexes"))]
    assert len(kept) > 20
    for path in kept:
        if not path.endswith("manifest.json"):  # confirmed steps write their manifest again
            assert after[path] == before[path]


@pytest.mark.jvm
def test_a_changed_setting_makes_new_files_and_changes_none(copied: Toy) -> None:
    before = copied.times()
    copied.change(tiny={"options": ["--bits", "4"]})
    copied.run()
    after = copied.times()
    assert {path: after[path] for path in before} == before
    assert {path.split("/")[0] for path in after.keys() - before} == {
        "vectors", "indexes", "runs", "evaluations", "costs",
    }  # fmt: skip


@pytest.mark.jvm
def test_a_broken_row_does_not_affect_other_rows(copied: Toy) -> None:
    broken = copied.folder / "broken"
    broken.mkdir()
    (broken / "learned_sparse.json").write_text("{", encoding="utf-8")
    copied.change(broken={"checkpoint": str(broken)}, worse={"model": "tiny", "expected": {"toy": {"R@100": 2.0}}})
    assert copied.run("--row", "tiny") != []  # another row's failure is not that of a row that is named
    lines = copied.run(status=1)
    failed = [line for line in lines if "FAILED" in line]
    assert len(failed) == 2  # documents, queries
    assert any("learned_sparse.json:1: not readable as JSON" in line for line in lines)
    cells = {cell["row"]: cell for cell in copied.results_json()["cells"]}
    assert cells["broken"]["status"] == "failed"
    assert "not readable as JSON" in cells["broken"]["error"]
    assert cells["worse"]["verdicts"] == {"R@100": "worse"}
    assert cells["tiny"]["status"] == "done"


@pytest.mark.jvm
def test_results_are_never_replaced_by_fewer(copied: Toy) -> None:
    """Cells that a run does not measure are kept, here on another machine, unless their settings have changed."""
    before = copied.results_json()
    shutil.rmtree(copied.home)
    lines = copied.run("--row", "BM25")
    assert lines[0].startswith("Toy: 1 cells, ")
    after = copied.results_json()
    assert [cell for cell in after["cells"] if cell["row"] == "tiny"] == [
        cell for cell in before["cells"] if cell["row"] == "tiny"
    ]
    assert [row["training"] for row in after["rows"]] == [row["training"] for row in before["rows"]]
    stored = (copied.results / "results.json").read_bytes()
    text = copied.matrix.read_text()
    copied.change(tiny={"encode": {"k": 3}})
    for changed in (copied.matrix.read_text(), text.replace("  tiny:", "  renamed:")):
        copied.matrix.write_text(changed)
        (line,) = copied.run("--row", "BM25", status=2)
        assert line.startswith(f"error: {copied.results}: measured cells that are neither chosen, nor done in ")
        assert ": 1 (the first: tiny, toy); name another folder with --output" in line
        assert (copied.results / "results.json").read_bytes() == stored
    another = copied.matrix.rename(copied.folder / "another.yaml")
    where = ["--matrix", str(another), "--data", str(copied.data), "--output", str(copied.results)]
    (line,) = copied.start("eval.reproduce", *where, status=2)
    assert line == f"error: {copied.results}: has the results of the matrix 'toy'; name another folder with --output"
    copied.matrix.write_text(text)
    copied.run("--row", "BM25", "--drop")
    assert [cell["status"] for cell in copied.results_json()["cells"]] == ["done", "absent"]


@pytest.mark.parametrize("files", [["README.md"], [".git/config", "notes.txt"]])
def test_a_folder_of_somebody_else_is_refused(new_leaderboard: Toy, tmp_path: Path, files: list[str]) -> None:
    toy = new_leaderboard.copy(tmp_path / "copy")
    for name in files:
        (toy.results / name).parent.mkdir(parents=True, exist_ok=True)
        (toy.results / name).write_text("mine")
    (line,) = toy.run(status=2)
    assert line.startswith(f"error: {toy.results}: neither empty nor the results of a leaderboard")
    assert [(toy.results / name).read_text() for name in files] == ["mine"] * len(files)
