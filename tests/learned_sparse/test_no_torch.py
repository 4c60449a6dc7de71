"""Searching a SpaDE index needs no torch, because SpaDE's queries are bags of words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.encode.__main__ import main as encode
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Manifest

ENCODE_QUERIES = """
import json, sys
from pathlib import Path
from learned_sparse.search.query_encoder import QueryEncoder
impacts = QueryEncoder.from_index(sys.argv[1]).encode_batch(["Hives, hives!", ""])
print(json.dumps([impacts, sorted({"torch", "transformers", "jnius", "pyserini"} & set(sys.modules))]))
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """The ``IndexNote`` of an index of documents encoded by SpaDE."""
    from encoders.encoding.model import new_model, save_checkpoint

    folder = tmp_path_factory.mktemp("spade")
    save_checkpoint(folder / "checkpoint", new_model("spade", {}, str(tiny_bert)))
    (folder / "corpus.tsv").write_text("d\thives are a rash of the skin\n")
    named = ["--model", "spade", "--checkpoint", str(folder / "checkpoint"), "--device", "cpu"]
    files = ["--input", str(folder / "corpus.tsv"), "--output", str(folder / "out")]
    assert encode([*named, *files, "--set", "alpha=0.3"]) == 0
    (folder / "index").mkdir()
    IndexNote("impact", (Manifest.load(folder / "out"),), {}).save(folder / "index")
    return folder / "index"


def test_queries_are_encoded_without_torch(index: Path, python: Any) -> None:
    done = python("-c", ENCODE_QUERIES, str(index))
    assert done.returncode == 0, done.stderr
    impacts, loaded = json.loads(done.stdout)
    assert impacts[0].keys() == {"hives", ",", "!"}
    assert set(impacts[0].values()) == {1}
    assert impacts[1] == {}
    assert loaded == []
