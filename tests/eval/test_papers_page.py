"""``eval/PAPERS.md``: every row that it names is in a matrix, and every command runs as printed, on toy data."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from encoders.training.recipe import load_recipe
from eval.reproduce.__main__ import chosen_rows, parser
from eval.reproduce.matrix import known_matrices, load_matrix
from eval.reproduce.plan import plan_cell
from tests.test_readme import run_all
from tests.tiny_models import WORDS, save_classifier, save_tiny

PAGE = (Path(__file__).parents[2] / "eval" / "PAPERS.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
TRAINED = re.compile(r"python -m encoders\.train --recipe (\S+)")
SETTINGS: dict[str, dict[str, Any]] = {
    "sparterm-expansion": {},
    "splade-flops": {},
    "spade": {"k": 10, "alpha": 0.4},
    "uhd-bert": {"dimensions": 64, "k": 4, "layers": [2], "normalize": "token"},
}


def rows_of(cell: str) -> Iterator[tuple[str, str]]:
    """Matrix and name of each row that a cell quotes: a matrix holds for the names behind it too."""
    matrix = ""
    for quoted in re.findall(r"`([^`]+)`", cell):
        first, _, row = quoted.partition(": ")
        matrix, row = (first, row) if first in known_matrices() else (matrix, quoted)
        if matrix and not quoted.startswith(("eval.", "stages.", "pruned_")):
            yield matrix, row


def test_options_of_a_line_choose_its_rows() -> None:
    """Each row exists, and ``eval.reproduce`` with a line's options runs the line's; rehearsals run all on toy data."""
    matrices = {name: load_matrix(name, Path("data")) for name in known_matrices()}
    rows = [row for line in PAGE.splitlines() for cell in line.split(" | ") for row in rows_of(cell)]
    assert len(rows) > 80
    assert [row for matrix, row in rows if row not in matrices[matrix].rows] == []
    lines = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if " | `--" in line and "--set" not in line]
    assert len(lines) == 22
    for _, ours, options, *_ in lines:
        for matrix, row in rows_of(ours):
            words = parser().parse_args(["--matrix", matrix, *shlex.split(options.strip("`"))])
            patterns = [one.replace("[", "[[]") for one in chosen_rows(matrices[matrix], words)]
            assert any(fnmatch.fnmatchcase(row, pattern) for pattern in patterns), (options, row)


@pytest.mark.slow  # 19 commands, 20 seconds
@pytest.mark.jvm
def test_commands_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.reproduce.runner.free_bytes", lambda: 10**12)  # for all of MS MARCO
    recipes = [match[1] for match in map(TRAINED.match, COMMANDS) if match]
    assert recipes == list(SETTINGS)
    backbone = save_tiny("headless", tmp_path / "backbone")
    for name in recipes:
        model = new_model(load_recipe(name).architecture, SETTINGS[name], str(backbone), output_bias=-1.0)
        save_checkpoint(tmp_path / "learned_sparse_home" / "checkpoints" / name, model)
    save_passages(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEARNED_SPARSE_HOME", "")
    monkeypatch.setenv("LEARNED_SPARSE_DATA", str(tmp_path))
    cell = plan_cell("msmarco-passage:SpaDE k=10", "dev")  # as eval.reproduce would have trained it
    model = new_model("spade", SETTINGS["spade"], str(backbone), output_bias=-1.0)
    save_checkpoint(Path(str(cell.run.checkpoint)), model)
    save_classifier(tmp_path / "cross-encoder" / "ms-marco-MiniLM-L6-v2", labels=1)
    pisa = importlib.util.find_spec("pyterrier_pisa") is not None  # an extra
    lines = [line for line in COMMANDS if not TRAINED.match(line) and (pisa or "--backend pisa" not in line)]
    assert len(run_all(lines, tmp_path, LEARNED_SPARSE_DATA=str(tmp_path))) > 15
    for file in ("dimensions/dimensions.md", "dimensions-k40/dimensions.md", "reranked/rerank.json"):
        assert (tmp_path / file).is_file()


def save_passages(folder: Path) -> None:
    """100 passages as MS MARCO's files, a query for each of 20, and docT5query's predicted queries."""
    texts = [" ".join(WORDS[(number + i) % len(WORDS)] for i in range(8)) for number in range(100)]
    queries = "".join(f"{number}\t{' '.join(text.split()[:3])}\n" for number, text in enumerate(texts[:20]))
    files = {
        "msmarco-v1-passage/collection.tsv": "".join(f"{number}\t{text}\n" for number, text in enumerate(texts)),
        "msmarco-v1-passage/queries.dev.small.tsv": queries,
        "msmarco-v1-passage/qrels.dev.small.tsv": "".join(f"{number}\t0\t{number}\t1\n" for number in range(20)),
        "queries.dev.tsv": queries,
    }
    expanded = [{"id": str(i), "predicted_queries": [f"{text.split()[-1]} new"]} for i, text in enumerate(texts)]
    for name in ("docT5query.jsonl", "msmarco-v1-passage/docT5query.jsonl"):
        files[name] = "".join(f"{json.dumps(line)}\n" for line in expanded)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
