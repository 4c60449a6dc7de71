"""What commands write does not depend on time zone, locale, hash seed or the working directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from tests.toy_data import save_beir

PROGRAM = """if True:
    import contextlib, importlib
    from pathlib import Path

    def run(command, words, output=None):
        with contextlib.ExitStack() as stack:
            if output:
                file = stack.enter_context(Path(output).open("w", encoding="utf-8"))
                stack.enter_context(contextlib.redirect_stdout(file))
            module = importlib.import_module(command)
            if hasattr(module, "__path__"):
                module = importlib.import_module(f"{command}.__main__")
            assert module.main(words.split()) == 0, command

    encode = "--model m --checkpoint checkpoint --collection tiny --dtype fp32 --device cpu"
    judged = "--collection tiny --run run.txt exact.txt"
    run("learned_sparse.encode", f"{encode} --output vectors --part-size 3 --bits 8")
    run("learned_sparse.encode", f"{encode} --output queries --queries --bits 8")
    run("learned_sparse.index", "--input vectors --index índice")
    run("learned_sparse.search", "--index índice --topics tiny/queries.jsonl --output run.txt")
    exact = "--backend exact --vectors vectors --query-vectors queries/queries.tsv"
    run("learned_sparse.search", f"{exact} --output exact.txt")
    run("learned_sparse.jsonvector", "prune --vectors vectors --output pruned --top-dimensions 2")
    run("learned_sparse.inspect", "--document d\\u00e9j\\u00e0 --index índice --collection tiny --json", "text.json")
    run("eval.evaluate", f"{judged} --per-query --output scores.json")
    run("eval.evaluate", f"{judged} --overlap checkpoint --json", "overlap.json")
    run("eval.dimensions", "vectors --queries queries --texts --at-least 1 --output dimensions")
    run("eval.reproduce.prepare", "sample --collection tiny --split test --queries 2 --output sampled")
"""
SETTINGS = [
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "2", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
]


@pytest.mark.jvm
def test_outputs_are_equal_on_different_machines(root: Path, tmp_path: Path, tiny_bert: Path) -> None:
    texts = {
        "d\u00e9j\u00e0": "rash and hives \u2603 caf\u00e9",
        "\u0645": "heat flow",
        "d3": "wind tunnel, heat and rain",
    }
    texts |= {f"d{i}": text for i, text in enumerate(("rain in april", "the file opens", "wing", "rash"), start=4)}
    queries = {"q1": "rash \u2603", "fr\u00e5ga": "heat flow", "q3": "rain"}
    judged = [("q1", "d\u00e9j\u00e0", 2), ("fr\u00e5ga", "\u0645", 1), ("q3", "d3", 1), ("q3", "d4", 1)]
    save_beir(tmp_path / "tiny", texts, queries, {"test": judged})
    save_checkpoint(tmp_path / "checkpoint", new_model("splade", {}, str(tiny_bert)))
    outputs = []
    for number, settings in enumerate(SETTINGS):
        folder = tmp_path / f"machine-{number}"
        for name in ("tiny", "checkpoint"):
            shutil.copytree(tmp_path / name, folder / name)
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", **settings}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=folder, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        outputs.append(
            {
                path.relative_to(folder).as_posix(): path.read_bytes()
                for path in folder.rglob("*")
                if path.is_file() and (path.parent.name != "índice" or path.name == "learned_sparse.json")
            }
        )
    first, second = outputs
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []
    assert len(first) > 20
    assert "d\u00e9j\u00e0".encode() in first["run.txt"]
