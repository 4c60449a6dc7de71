"""``learned_sparse.serve`` as a command: a real server, what it finds by itself, and what it refuses."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.collections.documents import read_documents
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.index.note import IndexNote
from learned_sparse.serve import __main__ as serve
from learned_sparse.serve.api import create_app
from tests.learned_sparse.encoded_folder import write_folder
from tests.toy_data import save_collection


def refused(*arguments: str | Path) -> str:
    with pytest.raises(LearnedSparseError) as error:
        serve.main([str(argument) for argument in arguments])
    return str(error.value)


@pytest.mark.jvm
def test_a_server_on_a_free_port(tmp_path: Path, tiny_bert: Path) -> None:
    """Indexes with the texts and judged queries of the collection whose folder is recorded; Ctrl-C ends the server.

    The encoder of SpaDE's queries needs no torch, which takes ten seconds to import.
    """
    save_checkpoint(tmp_path / "checkpoint", new_model("spade", {}, str(tiny_bert)))
    toy = save_collection(tmp_path / "toy", ["dev", "test"])
    vectors, index, bm25 = tmp_path / "vectors", tmp_path / "index", tmp_path / "bm25"
    made = ["--model", "m", "--checkpoint", tmp_path / "checkpoint", "--collection", toy, "--output", vectors]
    encode.main([*map(str, made), "--dtype", "fp32", "--device", "cpu"])
    build_index(vectors, index)
    build_bm25_index(read_documents(toy / "corpus.jsonl"), bm25)
    command = [sys.executable, "-m", "learned_sparse.serve", "--index", f"mine={index}", str(bm25), "--split", "dev"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--port", "0"], **pipes) as process:
        assert process.stdout
        assert process.stderr
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), process.stderr.read()
        address = line.split()[0]
        overview = httpx2.get(f"{address}systems").json()
        body = {"query": "python file", "systems": ["bm25"], "query_id": "q0"}
        hits = httpx2.post(f"{address}search", json=body).json()["rankings"][0]["hits"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert "Traceback" not in process.stderr.read()
    assert line.endswith(" shows mine, bm25; press Ctrl-C to stop\n")
    assert [system["name"] for system in overview["systems"]] == ["mine", "bm25"]
    assert overview["systems"][1] == {"name": "bm25", "model": "BM25", "scoring": "bm25-text", "documents": 12}
    assert [overview[key] for key in ("collection", "split", "queries", "notes")] == ["toy", "dev", 12, []]
    assert (hits[0]["id"], hits[0]["grade"], hits[0]["text"]) == ("d0", 1, "python file opens path garbage")


def test_names_of_indexes(tmp_home: Path, tmp_path: Path) -> None:
    """All indexes but training's, impacts first; those of --index are called by their folders or by given names."""
    for name, scoring in (("a", "bm25-text"), ("b", "impact"), ("bm25-of-training", "bm25-text")):
        (tmp_home / "indexes" / "pydoc" / name).mkdir(parents=True)
        IndexNote(scoring, (), {}).save(tmp_home / "indexes" / "pydoc" / name)
    (tmp_path / "k=2").mkdir()

    def names(*arguments: str) -> list[str]:
        return list(serve.find_indexes(serve.parser().parse_args([*arguments])))

    assert (names(), names("--model", "a")) == (["b", "a"], ["a"])
    assert names("--index", "x/index", "second=y/index", "x/index", str(tmp_path / "k=2")) == ["index", "second", "k=2"]


def test_checkpoints_without_an_index(tmp_path: Path, tiny_bert: Path) -> None:
    """Encoders alone, by name; no page, no search."""
    save_checkpoint(tmp_path / "checkpoint", new_model("splade", {}, str(tiny_bert)))
    words = ["--checkpoint", str(tmp_path / "checkpoint"), f"second={tmp_path / 'checkpoint'}"]
    client = TestClient(create_app(serve.open_checkpoints(serve.parser().parse_args(words))))
    rows = client.post("/embed_sparse?system=second", json={"inputs": ["hives", "rash"]}).json()
    assert (len(rows), all(rows)) == (2, True)
    assert (client.get("/info").json()["model_id"], client.get("/").status_code) == ("checkpoint", 404)


@pytest.mark.jvm
def test_what_is_refused(tmp_home: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert f"127.0.0.1:{port}: cannot listen there" in refused("--index", tmp_path, "--port", str(port))
    for name in ("one", "two"):
        build_index(write_folder(tmp_path / f"{name}-vectors", {"d": {"a": 1}}, collection=name), tmp_path / name)
    message = refused("--index", tmp_path / "one", tmp_path / "two", "--port", "0")
    assert message == "indexes of different collections (one, two); show one collection at a time"
