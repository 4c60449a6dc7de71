"""Eight threads that share an encoder, an index or a tokenizer get the results of one thread, bit for bit."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from encoders.checkpoints.tokenizer import tokenize_texts
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core.records import Document, SparseBatch
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.lucene.searchers import Bm25Searcher, ImpactSearcher
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.query_encoder import QueryEncoder
from tests.reliability.scale import FULL, record
from tests.tiny_models import TEXTS, WORDS, tokenizer

THREADS, CALLS = 8, 1000 if FULL else 120
DRAW = random.Random(5)
DOCUMENTS = [
    Document(f"d{number}", " ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 40)))) for number in range(200)
]  # the longest are truncated

Input = TypeVar("Input")
Result = TypeVar("Result")


@pytest.fixture(autouse=True, scope="module")
def _one_thread_each() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def check(subject: str, call: Callable[[Input], Result], inputs: Sequence[Input]) -> None:
    """``call`` on ``CALLS`` of ``inputs`` from eight threads equals the same calls from one."""
    expected = [call(value) for value in inputs]
    chosen = [DRAW.randrange(len(inputs)) for _ in range(CALLS)]
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(lambda number: call(inputs[number]), chosen))
    assert [number for number, result in zip(chosen, results, strict=True) if result != expected[number]] == []
    test = os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]
    record("race", f"{subject}, {THREADS} threads", CALLS, "the results of one thread, bit for bit", test)


def texts() -> list[list[str]]:
    """Up to five texts for one call."""
    return [[*DRAW.sample(TEXTS, 2), *(DRAW.choice(DOCUMENTS).text for _ in range(3))] for _ in range(40)]


def content(batch: SparseBatch) -> tuple[bytes, bytes, bytes]:
    return batch.indptr.tobytes(), batch.indices.tobytes(), batch.values.tobytes()


@pytest.fixture(scope="module")
def checkpoint(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """SPLADE, whose queries are bags of words."""
    folder = tmp_path_factory.mktemp("threads") / "splade"
    save_checkpoint(folder, new_model("splade", {"query": "bag-of-words"}, str(tiny_bert), max_length={"document": 20}))
    return str(folder)


@pytest.mark.parametrize("side", ["document", "query"])
def test_encoders(side: Any, checkpoint: str) -> None:
    """Each call counts its own truncated texts too."""
    encoder = load_encoder(checkpoint, side, dtype="fp32", max_length=12)

    def encode(call: list[str]) -> Any:
        before = encoder.truncated, encoder.dropped
        batch = encoder.encode(call)
        return content(batch), encoder.truncated - before[0], encoder.dropped - before[1]

    assert any(encode(call)[1] for call in texts())
    check(f"encode, {type(encoder).__name__}", encode, texts())


def test_explanations_beside_encoding(checkpoint: str) -> None:
    encoder = load_encoder(checkpoint, "document", dtype="fp32", max_length=12)
    check("explain", lambda call: (encoder.explain(call[2]).weights, content(encoder.encode(call))), texts())


def test_query_encoder(checkpoint: str) -> None:
    check("QueryEncoder", QueryEncoder(checkpoint, dtype="fp32").encode_batch, texts())


def test_one_tokenizer_with_several_lengths() -> None:
    """As when training tokenizes documents while a validation tokenizes queries."""
    shared = tokenizer()
    calls = [(call, DRAW.choice([4, 8, 16]), DRAW.choice([True, False])) for call in texts()]

    def tokenize(call: tuple[list[str], int, bool]) -> Any:
        chosen, length, padding = call
        return tokenize_texts(shared, chosen, truncation=True, max_length=length, padding=padding)["input_ids"]

    check("tokenizer of transformers", tokenize, calls)


def test_loading(checkpoint: str) -> None:
    """Eight encoders at the same time."""
    call = texts()[0]
    expected = content(load_encoder(checkpoint, "document", dtype="fp32").encode(call))
    with ThreadPoolExecutor(THREADS) as pool:
        encoders = pool.map(lambda _: load_encoder(checkpoint, "document", dtype="fp32"), range(THREADS))
        assert {content(encoder.encode(call)) for encoder in encoders} == {expected}


@pytest.mark.jvm
def test_the_jvm_is_started_once(python: Any) -> None:
    program = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from learned_sparse.lucene.jvm import start_jvm
barrier = Barrier(8)
def start(_):
    barrier.wait()
    return start_jvm()
with ThreadPoolExecutor(8) as pool:
    print(len({id(choice) for choice in pool.map(start, range(8))}))
"""
    done = python("-c", program)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


@pytest.fixture(scope="module")
def vectors(checkpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents, encoded."""
    folder = tmp_path_factory.mktemp("vectors") / "splade"
    write_vectors(folder, DOCUMENTS, load_encoder(checkpoint, "document", dtype="fp32"))
    return folder


def queries() -> list[dict[str, int]]:
    return [{word: DRAW.randint(1, 5) for word in DRAW.sample(WORDS, DRAW.randint(1, 8))} for _ in range(40)]


def test_exact_searcher(vectors: Path) -> None:
    searcher = ExactSearcher.load(vectors)
    check("ExactSearcher", lambda query: searcher.search(query, 10), queries())


@pytest.mark.jvm
def test_impact_searcher(vectors: Path, tmp_path: Path) -> None:
    build_index(vectors, tmp_path / "index")
    with ImpactSearcher(tmp_path / "index") as searcher:
        check("ImpactSearcher", lambda query: searcher.search(query, 10), queries())


@pytest.mark.jvm
def test_bm25_searcher(tmp_path: Path) -> None:
    build_bm25_index(DOCUMENTS, tmp_path / "index")
    with Bm25Searcher(tmp_path / "index") as searcher:
        words = [" ".join(query) for query in queries()]
        check("Bm25Searcher", lambda query: searcher.search(query, 10), words)
