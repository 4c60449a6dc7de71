"""Eight threads that share an encoder, an index or a tokenizer get the results of one thread, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.collections.documents import Document
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.lucene.searchers import ImpactSearcher
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.query_encoder import QueryEncoder
from tests.reliability.scale import FULL
from tests.tiny_models import TEXTS, WORDS

THREADS, CALLS = 8, 500 if FULL else 40
DRAW = random.Random(5)
DOCUMENTS = [
    Document(f"d{number}", " ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 40)))) for number in range(200)
]  # the longest are truncated
CALLED = [[*DRAW.sample(TEXTS, 2), *(DRAW.choice(DOCUMENTS).text for _ in range(3))] for _ in range(40)]
"""Five texts for each call."""
QUERIES = [{word: DRAW.randint(1, 5) for word in DRAW.sample(WORDS, DRAW.randint(1, 8))} for _ in range(40)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread_each() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of SPLADE whose queries are bags of words, and the documents encoded with it."""
    folder = tmp_path_factory.mktemp("threads")
    model = new_model("splade", {"query": "bag-of-words"}, str(tiny_bert), max_length={"document": 20})
    save_checkpoint(folder / "splade", model)
    write_vectors(folder / "vectors", DOCUMENTS, load_encoder(str(folder / "splade"), "document", dtype="fp32"))
    return folder


Made = tuple[Callable[[Any], Any], list[Any]]
"""What the threads call, and the inputs."""


def encoder(folder: Path) -> Made:
    """Each call counts its own truncated texts too."""
    encoder = load_encoder(str(folder / "splade"), "document", dtype="fp32", max_length=12)

    def encode(call: list[str]) -> Any:
        batch = encoder.encode(call)
        return (
            [array.tobytes() for array in (batch.indptr, batch.indices, batch.values)],
            batch.truncated,
            batch.dropped,
        )

    assert any(encode(call)[1] for call in CALLED)
    return encode, CALLED


def impact_searcher(folder: Path) -> Made:
    build_index(folder / "vectors", folder / "index")
    searcher = ImpactSearcher(folder / "index")
    return lambda query: searcher.search(query, 10), QUERIES


def bm25_searcher(folder: Path) -> Made:
    build_bm25_index(DOCUMENTS, folder / "bm25")
    searcher = ImpactSearcher(folder / "bm25", "bm25")
    return lambda query: searcher.search(" ".join(query), 10), QUERIES


SHARED: dict[str, Callable[[Path], Made]] = {
    "encoder": encoder,
    "QueryEncoder": lambda folder: (QueryEncoder(str(folder / "splade"), dtype="fp32").encode_batch, CALLED),
    "ExactSearcher": lambda folder: (ExactSearcher.load(folder / "vectors").search, QUERIES),
    "ImpactSearcher": impact_searcher,
    "Bm25Searcher": bm25_searcher,
}
JVM = {"ImpactSearcher", "Bm25Searcher"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.jvm] * (name in JVM)) for name in SHARED])
def test_results_of_threads(name: str, folder: Path) -> None:
    call, inputs = SHARED[name](folder)
    expected, chosen = [call(value) for value in inputs], [DRAW.randrange(len(inputs)) for _ in range(CALLS)]
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(lambda number: call(inputs[number]), chosen))
    assert [number for number, result in zip(chosen, results, strict=True) if result != expected[number]] == []


@pytest.mark.jvm
def test_the_jvm_is_started_once(python: Any) -> None:
    program = """
from concurrent.futures import ThreadPoolExecutor
from learned_sparse.lucene.jvm import start_jvm
with ThreadPoolExecutor(8) as pool:
    print(len({id(choice) for choice in pool.map(lambda _: start_jvm(), range(8))}))
"""
    done = python("-c", program)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
