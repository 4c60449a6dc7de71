"""``write_vectors``: encoders of users, the folder of the command; texts are read, encoded and written concurrently."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learned_sparse.collections.documents import Document, read_documents
from learned_sparse.core.encoder import Encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.encode import pipeline
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.reader import read_vectors
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.query_encoder import QueryEncoder
from tests.fake_encoder import FakeEncoder
from tests.learned_sparse.input_files import files, parts, write_texts

TEXTS = {"d1": "hives itch itch", "d2": "", "d3": "wing itch"}
DOCUMENTS = [Document(name, text) for name, text in TEXTS.items()]


class WordCounts(Encoder):
    """An encoder with the three required members and an empty ``description``."""

    terms = ("hives", "itch", "wing")
    description: Mapping[str, Any] = {}

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        rows = [{term: text.split().count(term) for term in self.terms if term in text.split()} for text in texts]
        return SparseBatch.from_dicts(rows, terms=self.terms)


def test_an_encoder_with_the_required_members_only(tmp_path: Path) -> None:
    manifest = write_vectors(tmp_path / "out", DOCUMENTS, WordCounts(), quantizer=Quantizer(1.0), part_size=2)
    vectors = {"d1": {"hives": 1, "itch": 2}, "d2": {}, "d3": {"itch": 1, "wing": 1}}
    assert dict(read_vectors(tmp_path / "out")) == vectors
    assert Manifest.load(tmp_path / "out") == manifest
    assert (manifest.complete, manifest.architecture, manifest.scoring) == (True, "WordCounts", "impact")
    assert (manifest.counts.written, manifest.counts.empty_vectors, len(manifest.parts)) == (3, 1, 2)
    assert (manifest.query_encoder, manifest.environment) == (None, {})


class Foreign:
    """An encoder of another package: the three required members."""

    terms = WordCounts.terms
    description: Mapping[str, Any] = {"scoring": "impact"}

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        return replace(WordCounts().encode(texts), truncated=len(texts))


def test_a_class_that_inherits_from_nothing_encodes_indexes_and_searches(tmp_path: Path) -> None:
    encoder: Any = Foreign()
    manifest = write_vectors(tmp_path / "out", DOCUMENTS, encoder, query_encoder=encoder, quantizer=Quantizer(1.0))
    assert (manifest.architecture, manifest.counts.written, manifest.counts.truncated) == ("Foreign", 3, 3)
    queries = QueryEncoder(encoder, Quantizer(1.0))
    assert ExactSearcher.load(tmp_path / "out").search(queries.encode("itch"), 10) == [("d1", 2), ("d3", 1)]
    with pytest.raises(LearnedSparseError, match="list: not an encoder: it has no 'terms'"):
        write_vectors(tmp_path / "none", DOCUMENTS, [])  # type: ignore[arg-type]


def test_the_environment_of_an_encoder_is_recorded_and_is_no_setting(tmp_path: Path) -> None:
    encoder = WordCounts()
    encoder.environment = {"screened": {"tower": True}}
    options: dict[str, Any] = {"quantizer": Quantizer(1.0), "part_size": 2}
    write_vectors(tmp_path / "out", DOCUMENTS[:1], encoder, **options)
    assert Manifest.load(tmp_path / "out").environment == {"screened": {"tower": True}}
    encoder.environment = {"screened": {"tower": False}}
    write_vectors(tmp_path / "out", DOCUMENTS, encoder, **options, resume=True)
    assert Manifest.load(tmp_path / "out").environment == {"screened": {"tower": False}}


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="duplicate id"):
        write_vectors(tmp_path / "out", [*DOCUMENTS, DOCUMENTS[0]], WordCounts())
    with pytest.raises(LearnedSparseError, match="no documents"):
        write_vectors(tmp_path / "none", [], WordCounts())

    class OtherTerms(WordCounts):
        def encode(self, texts: Sequence[str]) -> SparseBatch:
            return SparseBatch.from_dicts([{"hives": 1.0}] * len(texts))

    with pytest.raises(RuntimeError, match=r"terms other than Encoder\.terms"):
        write_vectors(tmp_path / "terms", DOCUMENTS, OtherTerms())


COUNT = 23


class TwoHalves(FakeEncoder):
    """A fake encoder with ``prepare`` and ``encode_prepared``, which records calls and threads."""

    def __init__(self) -> None:
        super().__init__("document", Quantizer(9.0))
        self.sizes: list[int] = []
        self.threads: dict[str, set[int]] = {"prepare": set(), "encode": set()}

    def prepare(self, texts: Sequence[str]) -> list[str]:
        self.threads["prepare"].add(threading.get_ident())
        if any("untokenisable" in text for text in texts):
            raise LearnedSparseError("this text cannot be tokenised")
        return list(texts)

    def encode_prepared(self, prepared: list[str]) -> SparseBatch:
        self.threads["encode"].add(threading.get_ident())
        self.sizes.append(len(prepared))
        return replace(super().encode(prepared), truncated=sum("w3" in text.split() for text in prepared))

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        raise AssertionError("the pipeline calls the two halves")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = [f"n{number} w{number % 5} x y{number % 3}" for number in range(COUNT)]
    return write_texts(tmp_path / "corpus.jsonl", texts)


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of 2 documents, written one by one."""
    monkeypatch.setattr(pipeline, "SLICE_SIZE", 2)
    monkeypatch.setattr(pipeline, "WRITE_ROWS", 1)


def run(encoder: FakeEncoder, corpus: Path, folder: Path, **options: Any) -> Manifest:
    return write_vectors(folder, read_documents(corpus), encoder, **{"model": "m", "part_size": 5, **options})


def test_prepare_and_encode_prepared_give_the_result_of_encode(tmp_path: Path, corpus: Path) -> None:
    encoder, progress = TwoHalves(), list[int]()
    manifest = run(encoder, corpus, tmp_path / "halves", progress=progress.append)
    run(FakeEncoder("document"), corpus, tmp_path / "whole", quantizer=Quantizer(9.0))
    assert manifest.counts.truncated == 4
    records = [json.loads(path.read_bytes()) for path in sorted((tmp_path / "halves" / "progress").iterdir())]
    assert [record["counts"]["truncated"] for record in records] == [1, 1, 1, 1, 0]
    assert files(tmp_path / "halves" / "vectors") == files(tmp_path / "whole" / "vectors")
    assert sum(progress) == COUNT
    assert encoder.threads["encode"] == {threading.get_ident()}
    assert threading.get_ident() not in encoder.threads["prepare"]


def test_exactly_one_slice_is_prepared_ahead(tmp_path: Path, corpus: Path) -> None:
    prepared: list[str] = []
    second = threading.Event()
    reader = read_documents(corpus)
    documents_read: list[int] = []

    class Waiting(TwoHalves):
        def prepare(self, texts: Sequence[str]) -> list[str]:
            prepared.append(texts[0])
            if len(prepared) == 2:
                second.set()
            return super().prepare(texts)

        def encode_prepared(self, batch: list[str]) -> SparseBatch:
            if not documents_read:
                assert second.wait(20), "the second slice was not prepared while the first was encoded"
                threading.Event().wait(0.2)  # time in which the reader could read more
            documents_read.append(reader.read)
            return super().encode_prepared(batch)

    write_vectors(tmp_path / "out", reader, Waiting(), part_size=5)
    assert documents_read[0] == 10  # the window in progress and the next one
    assert all(count <= 5 * (number + 2) for number, count in enumerate(documents_read))


@pytest.mark.parametrize("part_size", [2, 5, 30])
def test_an_error_of_the_tokenizer_is_raised(tmp_path: Path, part_size: int) -> None:
    corpus = write_texts(tmp_path / "corpus.jsonl", [*(f"w{number}" for number in range(9)), "untokenisable"])
    threads = threading.active_count()
    with pytest.raises(LearnedSparseError, match=r"^this text cannot be tokenised$"):
        run(TwoHalves(), corpus, tmp_path / "out", part_size=part_size)
    assert not (tmp_path / "out").exists() or not Manifest.load(tmp_path / "out").complete
    assert not list(tmp_path.rglob("*.tmp"))
    assert threading.active_count() == threads


@pytest.mark.parametrize("options", [{}, {"part_size": 7}, {"part_size": 50}, {"compress": True}])
def test_the_slice_size_does_not_change_the_output(
    tmp_path: Path, corpus: Path, options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    run(TwoHalves(), corpus, tmp_path / "whole", **options)
    request.getfixturevalue("small_slices")
    encoder = TwoHalves()
    manifest = run(encoder, corpus, tmp_path / "sliced", **options)
    assert parts(tmp_path / "sliced") == parts(tmp_path / "whole")
    assert manifest.counts.written == sum(encoder.sizes) == COUNT
    assert max(encoder.sizes) == 2


@pytest.mark.usefixtures("small_slices")
def test_the_quantiser_is_calibrated_on_the_first_slice(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    encoder = TwoHalves()
    encoder.quantizer = None
    manifest = run(encoder, corpus, tmp_path / "out")
    largest = FakeEncoder("document").encode(["n0 w0 x y0", "n1 w1 x y1"]).values.max()
    assert manifest.quantizer.scale == pytest.approx(255 / float(largest))
    assert caplog.messages[0].startswith("quantiser calibrated on the first 2 texts")
    assert sum(encoder.sizes) == COUNT  # the first slice is encoded once


@pytest.mark.usefixtures("small_slices")
def test_an_error_inside_a_part_leaves_no_part(tmp_path: Path, corpus: Path) -> None:
    class Nan(TwoHalves):
        def encode_prepared(self, prepared: list[str]) -> SparseBatch:
            batch = super().encode_prepared(prepared)
            if any(text.startswith("n8 ") for text in prepared):
                batch.values[:] = np.nan
            return batch

    with pytest.raises(LearnedSparseError, match=r"document 'd[78]'"):
        run(Nan(), corpus, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out" / "vectors").iterdir()] == ["part-00000.jsonl"]
    run(TwoHalves(), corpus, tmp_path / "out", resume=True)
    run(TwoHalves(), corpus, tmp_path / "whole")
    assert parts(tmp_path / "out") == parts(tmp_path / "whole")


def test_models_with_many_terms_get_smaller_slices() -> None:
    encoder = FakeEncoder("document")
    assert pipeline.slice_size(encoder) == 1024
    encoder.terms = range(2**19)  # type: ignore[assignment]  # only the length counts
    assert pipeline.slice_size(encoder) == 64  # 2**25 weights at most
    encoder.description["top_k"] = 1000
    assert pipeline.slice_size(encoder) == 1024
