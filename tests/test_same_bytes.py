"""What commands write does not depend on time zone, locale, hash seed or the working directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from tests.toy_data import save_beir

PROGRAM = """
import shlex, sys
from learned_sparse.ray import command_of
for command in sys.stdin.read().splitlines():
    module, *words = shlex.split(command)
    assert command_of(module)(words) == 0, command
"""
ENCODE = "learned_sparse.encode --model m --checkpoint checkpoint --collection tiny --dtype fp32 --device cpu"
COMMANDS = f"""\
{ENCODE} --output vectors --part-size 3 --bits 8
{ENCODE} --output queries --queries --bits 8
learned_sparse.index --input vectors --index índice
learned_sparse.search --index índice --topics tiny/queries.jsonl --output run.txt
learned_sparse.search --backend exact --vectors vectors --query-vectors queries/queries.tsv --output exact.txt
learned_sparse.jsonvector prune --vectors vectors --output pruned --top-dimensions 2
learned_sparse.inspect --document d\u00e9j\u00e0 --index índice --collection tiny --json
eval.evaluate --collection tiny --run run.txt exact.txt --per-query --output scores.json
eval.evaluate --collection tiny --run run.txt exact.txt --overlap checkpoint --json
eval.dimensions vectors --queries queries --texts --at-least 1 --output dimensions
eval.reproduce.prepare sample --collection tiny --split test --queries 2 --output sampled
"""
SETTINGS = (
    {"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
)  # fmt: skip


@pytest.mark.jvm
def test_outputs_are_equal_on_different_machines(root: Path, tmp_path: Path, tiny_bert: Path, python: Any) -> None:
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
        folder = tmp_path / str(number)
        for name in ("tiny", "checkpoint"):
            shutil.copytree(tmp_path / name, folder / name)
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", **settings}
        done = python("-c", PROGRAM, input=COMMANDS, cwd=folder, env=environment, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        (folder / "printed").write_text(done.stdout.partition("{")[2], encoding="utf-8")
        files = [path for path in folder.rglob("*") if path.is_file()]
        files = [path for path in files if path.parent.name != "índice" or path.name == "learned_sparse.json"]
        outputs.append({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})
    first, second = outputs
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []
    assert len(first) > 20
    assert "d\u00e9j\u00e0".encode() in first["run.txt"]
