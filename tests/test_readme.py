"""The commands of the README and of its pages run as written, with tiny checkpoints instead of trained ones."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from encoders.training.recipe import load_recipe
from tests.benchmarks import report
from tests.in_process import at_place, run_command
from tests.tiny_models import save_tiny
from tests.toy_data import save_collection, save_library

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("", "collections/", "encoders/", "eval/", "learned_sparse/")
PAGES = {f"{folder}README.md": (ROOT / folder / "README.md").read_text(encoding="utf-8") for folder in FOLDERS}


def section(heading: str) -> str:
    """The text below a heading, which is in one of the pages."""
    found = [re.search(rf"^## {heading}.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL) for page in PAGES.values()]
    (match,) = filter(None, found)
    return match[0]


def blocks(heading: str, language: str) -> list[str]:
    """The blocks of a language below a heading."""
    return re.findall(rf"```{language}\n(.*?)```", section(heading), re.DOTALL)


def commands(heading: str) -> list[str]:
    """Lines of the bash blocks below a heading."""
    return [line for block in blocks(heading, "bash") for line in block.splitlines() if line]


def run_all(lines: list[str], folder: Path, **environment: str) -> dict[str, str]:
    """Output of each command."""
    outputs = {}
    for line in lines:
        _, flag, module, *arguments = shlex.split(line)
        assert flag == "-m"
        if module == "learned_sparse.pyserini":  # for Java, whose current folder is that of its start
            arguments = [str(folder / word) if (folder / word).exists() else word for word in arguments]
        status, outputs[line] = run_command(module, arguments, folder, LEARNED_SPARSE_HOME="", **environment)
        assert status == 0, outputs[line]
    return outputs


def run_program(program: str, folder: Path) -> None:
    """Run a Python program in this process."""
    with at_place(folder, LEARNED_SPARSE_HOME=""):
        exec(program, {})  # noqa: S102


def checkpoint(folder: Path, model: str, backbone: Path) -> None:
    """Make a tiny checkpoint of ``model``, and the part of the standard library that is encoded with it."""
    from encoders.encoding.model import new_model, save_checkpoint
    from learned_sparse.core.quantize import Quantizer

    by_model: dict[str, dict[str, Any]] = {
        "splade": {"pooling": "max"},
        "sparterm": {"gate_pool": "raw_max"},
        "spade": {"k": 10, "alpha": 0.4},
        "uhd": {"dimensions": 64, "k": 4, "layers": [1, 2], "normalize": "token", "binarize": True},
    }
    new_checkpoint = new_model(model, by_model[model], str(backbone), output_bias=-1.0)
    for side, quantizer in new_checkpoint.quantizers.items():
        new_checkpoint.quantizers[side] = quantizer or Quantizer(10.0, 8)
    save_checkpoint(folder / "learned_sparse_home" / "checkpoints" / model, new_checkpoint)
    save_library(folder / "library")


def test_the_tables_of_benchmarks_are_those_of_the_results() -> None:
    for path, text in report.texts().items():
        assert path.read_text(encoding="utf-8") == text, "run python -m tests.benchmarks.report"


@pytest.mark.parametrize("name", PAGES)
def test_links_of_the_pages_lead_to_files(name: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", PAGES[name]):
        assert link.startswith("http") or ((ROOT / name).parent / link).exists(), link


@pytest.mark.slow
@pytest.mark.jvm
def test_leaderboards_as_written(tmp_path: Path) -> None:
    run_all(commands("Leaderboards in batch"), tmp_path)
    names = {path.name for path in (tmp_path / "demo-results").iterdir()}
    assert {"results.json", "values.csv.gz", "README.md", "cells.csv", "tradeoff.svg"} <= names


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("system", "model"),
    [
        ("SPLADE", "splade"),
        *(pytest.param(*of, marks=pytest.mark.slow)
          for of in (("SparTerm", "sparterm"), ("SpaDE", "spade"), ("UHD-BERT", "uhd"))),
    ],
)  # fmt: skip
def test_a_system_as_written(system: str, model: str, tmp_path: Path) -> None:
    checkpoint(tmp_path, model, save_tiny("headless", tmp_path / "backbone"))
    save_texts(tmp_path)
    heading = f"{system}, step by step"
    run_all(trained(heading), tmp_path)
    for name in re.findall(r"--recipe (\S+)", "\n".join(commands(heading))):
        load_recipe(name)


def save_texts(folder: Path) -> None:
    """Documents, queries and judgements in the files that the pages name."""
    texts = ["Opens a file and returns an object.", "Lift and drag of a wing in a wind tunnel."]
    lines = [f'{{"_id": "d{number}", "text": "{text}"}}\n' for number, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "queries.tsv").write_text("q1\tread a file\nq2\thow do planes fly\n", encoding="utf-8")
    (folder / "qrels.txt").write_text("q1 0 d0 1\nq2 0 d1 1\n", encoding="utf-8")


@pytest.mark.jvm
def test_the_readme_as_written(tmp_path: Path) -> None:
    """With the weights of splade-tiny, so that the printed hits are those of the page."""
    save_texts(tmp_path)
    *_, output = run_all(commands("Your own documents"), tmp_path).values()
    assert re.search(r"^run +1\.0000 +1\.0000", output, re.MULTILINE), output
    (printed,) = re.findall(r"prints `(.*?)`", section("In Python"))
    run_program(blocks("In Python", "python")[0] + PYSERINI.format(printed=printed), tmp_path)


@pytest.mark.slow
@pytest.mark.jvm
def test_your_own_collection_as_written(tmp_path: Path) -> None:
    checkpoint(tmp_path, "splade", save_tiny("headless", tmp_path / "backbone"))
    folder = tmp_path / "my-collection"
    (folder / "qrels").mkdir(parents=True)
    rows = ["id,title,text", "d0,Files,how to read a file", 'd1,,"Lift, and drag"', "d2,Wings,a wing in a wind tunnel"]
    (folder / "corpus.csv").write_text("\n".join(rows), encoding="utf-8")
    run_program(blocks("1. Documents", "python")[0], folder)
    queries = [{"_id": f"q{number}", "text": text} for number, text in enumerate(["read a file", "wing", "drag"])]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")
    for split, pairs in {"train": ["q0\td0\t1", "q1\td2\t1"], "test": ["q0\td0\t1", "q2\td1\t1"]}.items():
        lines = ["query-id\tcorpus-id\tscore", *pairs]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    *_, compared = run_all(commands("2. A baseline first") + trained("3. A model"), tmp_path).values()
    trainings = [line for line in commands("3. A model") if "encoders.train" in line]
    assert len(run_all([f"{line} --set stages.0.steps=1 --device cpu --quiet" for line in trainings], tmp_path)) == 2
    assert re.search(r"^bm25 +\d\.\d{4}", compared, re.MULTILINE), compared
    assert re.search(r"^splade +\d\.\d{4}", compared, re.MULTILINE), compared


@pytest.mark.jvm
def test_a_model_with_bm25_as_written(tmp_path: Path) -> None:
    checkpoint(tmp_path, "splade", save_tiny("headless", tmp_path / "backbone"))
    save_collection(tmp_path / "my-collection", ["test"])
    run_all(commands("A model and BM25 in one index"), tmp_path)
    runs = tmp_path / "learned_sparse_home" / "runs" / "my-collection" / "test"
    assert (runs / "splade+bm25.txt").read_text() != (tmp_path / "alpha-0.3.txt").read_text()


PYSERINI = """
from pathlib import Path
from learned_sparse import LuceneImpactSearcher
stock = LuceneImpactSearcher(str(Path("my-index").absolute()), queries, min_idf=-1).search("how do planes fly", 10)
hits = [(hit.docid, hit.score) for hit in stock]
shown = {printed}
assert [name for name, _ in hits] == [name for name, _ in shown]
assert all(abs(score - printed) < 0.02 * printed for (_, score), (_, printed) in zip(hits, shown, strict=True)), hits
"""
"""The README's statement about Pyserini's searcher, as code appended to its Python example."""


def trained(heading: str) -> list[str]:
    """Commands below a heading, without training, which the test of the demo covers."""
    return [command for command in commands(heading) if "encoders.train" not in command]
