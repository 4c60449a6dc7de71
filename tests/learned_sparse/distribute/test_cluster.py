"""Commands on a cluster of two nodes give the bytes of one process, whichever process is killed."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import gzip
import json
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from eval.costs.__main__ import index_bytes
from eval.profile.frequencies import read_counts
from eval.reproduce.runner import OnCluster, Runner
from eval.reproduce.steps import Step, is_done, log_of
from learned_sparse.core import LearnedSparseError, locked
from learned_sparse.distribute import Commands, Engine, Resources, Workers
from learned_sparse.distribute import workers as pool
from learned_sparse.encode import __main__ as encode
from learned_sparse.encode.distributed import encode_with_ray
from learned_sparse.encode.options import parse_arguments
from learned_sparse.encode.run import open_source
from learned_sparse.index import INDEX_MANIFEST
from learned_sparse.index import __main__ as index
from learned_sparse.jsonvector import Manifest
from learned_sparse.lucene import start_jvm
from learned_sparse.search import __main__ as search
from tests.fake_encoder import WordEncoder, install_loader, load_fake_side
from tests.learned_sparse.distribute.nodes import Nodes

COUNT, ROOT = 400, Path(__file__).resolve().parents[3]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """400 documents on the lines of a file, the 230th with a word that may kill its worker."""
    texts = [f"n{number} w{number % 5} y{number % 3}" + " deadly" * (number == 229) for number in range(COUNT)]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": f"d{n}", "text": text}) + "\n" for n, text in enumerate(texts)))
    return path


def options_of(corpus: Path, output: Path, *more: str) -> Namespace:
    words = ["--model", "fake", "--checkpoint", "fake", "--input", str(corpus), "--output", str(output)]
    return parse_arguments([*words, "--part-size", "10", "--bits", "8", *more])


def encode_on(engine: Engine, corpus: Path, output: Path, *more: str, progress: Any = None, **fake: Any) -> Manifest:
    options = options_of(corpus, output, "--engine", "ray", *more)
    load = functools.partial(load_fake_side, **fake)
    with locked(output):
        return encode_with_ray(options, "fake", open_source(options), engine, progress=progress, load=load)


def in_one_process(corpus: Path, output: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> Path:
    install_loader(monkeypatch, lambda _, side, **settings: WordEncoder(side, **settings))
    words = ["--model", "fake", "--checkpoint", "fake", "--input", str(corpus), "--output", str(output)]
    assert encode.main([*words, "--part-size", "10", "--bits", "8", *more]) == 0
    return output


def files_of(folder: Path) -> dict[str, bytes]:
    """All files, hidden ones too, except the table of the input, which one process does not need."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in files.items() if not name.startswith("progress/input")}


DRIVER = """
import sys
from pathlib import Path
from learned_sparse.distribute import Commands, Engine, Resources, Workers
from learned_sparse.distribute import workers as pool
from tests.learned_sparse.distribute.test_cluster import encode_on
encode_on(Engine(address=sys.argv[1], workers=2), Path(sys.argv[2]), Path(sys.argv[3]), pause=0.1)
"""


def test_a_killed_command_and_a_worker_without_memory(
    nodes: Nodes, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, records = tmp_path / "ray", tmp_path / "ray" / "progress"
    command = [sys.executable, "-c", DRIVER, nodes.address, str(corpus), str(output)]
    with subprocess.Popen(command, cwd=ROOT) as driver:
        while len(list(records.glob("part-*.json"))) < 3:
            assert driver.poll() is None
            time.sleep(0.05)
        driver.kill()
    assert len(list(records.glob("part-*.json"))) < COUNT // 20
    encode_on(nodes.engine, corpus, output, "--resume", deadly=tmp_path / "deaths")
    assert (tmp_path / "deaths").stat().st_size == 1
    assert files_of(output) == files_of(in_one_process(corpus, tmp_path / "one", monkeypatch))


def test_where_ray_would_wait_without_an_end(
    nodes: Nodes, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LearnedSparseError, match="no Ray answers there"):
        encode_on(Engine(address="127.0.0.1:9"), corpus, tmp_path / "ray")
    with pytest.raises(LearnedSparseError, match="5 workers with 1 processor and 0 GPUs each do not fit"):
        encode_on(Engine(address=nodes.address, workers=5), corpus, tmp_path / "ray")
    monkeypatch.setattr(pool, "MAX_DEATHS", 2)
    with pytest.raises(LearnedSparseError, match=r"2 workers died with the same task.*give fewer --workers"):
        encode_on(Engine(address=nodes.address, workers=1), corpus, tmp_path / "ray", deadly=tmp_path / "n", times=99)
    assert not Manifest.load(tmp_path / "ray").complete
    handler = signal.getsignal(signal.SIGTERM)
    with Workers(nodes.engine, list) as others:
        assert signal.getsignal(signal.SIGTERM) is handler
        others.call("copy")
        with pytest.raises(IndexError, match="pop from empty list"):
            others.call("pop")
        waiting = Workers(dataclasses.replace(nodes.engine, start_seconds=2), list)
        with waiting, pytest.raises(LearnedSparseError, match=r"no worker could start in [234] s: each needs 2 proc"):
            waiting.call("copy")


@pytest.mark.jvm
def test_indexes_of_several_workers_are_searched_as_one(
    nodes: Nodes, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = in_one_process(corpus, tmp_path / "vectors", monkeypatch)
    topics = tmp_path / "topics.tsv"
    topics.write_text("".join(f"q{n}\tw{n % 5} n{n} y{n % 3}\n" for n in range(12)))
    on_nodes = ["--engine", "ray", "--address", nodes.address, "--workers", "2"]
    indexes: dict[str, list[str]] = {"one": [], "merged": on_nodes, "set": [*on_nodes, "--keep-shards"]}
    for name, more in indexes.items():
        assert index.main(["--input", str(vectors), "--index", str(tmp_path / name), *more]) == 0
    assert [path.name for path in sorted((tmp_path / "set").glob("*"))] == [
        INDEX_MANIFEST, "shard-00000-of-00002", "shard-00001-of-00002",
    ]  # fmt: skip
    runs = {}
    three_workers = [*on_nodes[:-1], "3"]  # two shards: the queries are divided too
    for name, more in (("one", []), ("merged", []), ("set", []), ("set", three_workers)):
        run = tmp_path / f"{name}-{len(more)}.txt"
        words = ["--checkpoint", "fake", "--topics", str(topics), "--hits", "30", "--output", str(run)]
        assert search.main(["--index", str(tmp_path / name), *words, *more]) == 0
        runs[run.name] = run.read_text()
    assert len(runs["one-0.txt"].splitlines()) == 12 * 30
    assert set(runs.values()) == {runs["one-0.txt"]}
    of_one, of_set = (read_counts([tmp_path / name], 10) for name in ("one", "set"))
    assert of_set.document_frequency == of_one.document_frequency
    assert index_bytes(tmp_path / "set") > index_bytes(tmp_path / "one") / 2
    shutil.rmtree(tmp_path / "set" / "shard-00001-of-00002")
    with pytest.raises(LearnedSparseError, match="shard-00001-of-00002: missing"):
        search.main(["--index", str(tmp_path / "set"), *words])


def test_steps_of_a_leaderboard(
    nodes: Nodes, corpus: Path, tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = in_one_process(corpus, tmp_path / "vectors", monkeypatch)

    def step(name: str, source: Path, *needs: Step, kind: Any = "prepare") -> Step:
        words = ("--vectors", str(source), "--output", str(tmp_home / name), "--top-dimensions", "1")
        return Step(
            name=name, title=name, kind=kind, module="learned_sparse.jsonvector.prune", arguments=words, needs=needs,
            writes=(tmp_home / name,),
        )  # fmt: skip

    first = step("first", vectors)
    steps = [
        first,
        step("second", tmp_home / "first", first),
        step("broken", tmp_path),
        step("large", vectors, kind="train"),
    ]
    with Commands(nodes.engine) as commands:
        runner = Runner(steps, OnCluster(commands, {"train": Resources(memory_gb=10**6)}))
        runner.run(jobs=4)
    assert [is_done(one) for one in steps] == [True, True, False, False]
    assert Manifest.load(tmp_home / "second").complete
    broken, large = (runner.failed[one] for one in steps[2:])
    assert "exit status 2" in broken
    assert "(manifest.json is missing); name what learned_sparse.encode wrote" in broken
    assert "no node of the cluster has what steps of kind train need" in large
    assert log_of(first).read_text().startswith("$ python -m learned_sparse.jsonvector.prune")


def test_a_node_killed_in_the_middle(
    nodes: Nodes, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, done = corpus.with_suffix(".jsonl.gz"), []
    packed.write_bytes(gzip.compress(corpus.read_bytes()))

    def progress(count: int) -> None:
        done.append(count)
        if len(done) == 10:
            nodes.kill()

    segments = ["--segment-length", "2", "--segment-overlap", "1"]  # of documents with three or four words
    encode_on(nodes.engine, packed, tmp_path / "ray", *segments, progress=progress, pause=0.03)
    assert sum(done) == 2 * COUNT + 1
    assert files_of(tmp_path / "ray") == files_of(in_one_process(packed, tmp_path / "one", monkeypatch, *segments))


@pytest.mark.jvm
def test_java_keeps_its_handlers_of_faults(nodes: Nodes) -> None:
    def handler() -> bytes:
        action = ctypes.create_string_buffer(256)
        ctypes.CDLL(None).sigaction(signal.SIGSEGV, None, action)
        return action.raw[:16]

    start_jvm()
    before = handler()
    with Engine(address=nodes.address).connected():
        assert handler() == before
    assert handler() == before
