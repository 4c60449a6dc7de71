"""Reading, encoding and writing at the same time: one slice ahead, in order, with the errors of each."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learned_sparse.collections.documents import DocumentReader, read_documents
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.encode import slices as encode_slices
from learned_sparse.encode import writer as encode_writer
from learned_sparse.encode.documents import DocumentEncoding, DocumentPlan
from learned_sparse.encode.quantizers import Calibration
from learned_sparse.encode.slices import one_ahead
from learned_sparse.jsonvector import Manifest
from tests.fake_encoder import FakeEncoder

COUNT = 23
PATIENCE = 20.0


class Halved(FakeEncoder):
    """A fake encoder in two halves, which notes what happens when."""

    uses_expanded = False

    def __init__(self) -> None:
        super().__init__("document")
        self.truncated = self.dropped = 0
        self.log: list[str] = []
        self.sizes: list[int] = []
        self.threads: dict[str, set[int]] = {"prepare": set(), "encode": set()}

    def prepare(self, texts: Sequence[str]) -> list[str]:
        self.threads["prepare"].add(threading.get_ident())
        self.log.append(f"prepare {texts[0].split()[0]}")
        if any("untokenisable" in text for text in texts):
            raise LearnedSparseError("this text cannot be tokenised")
        return list(texts)

    def encode_prepared(self, prepared: list[str]) -> SparseBatch:
        self.threads["encode"].add(threading.get_ident())
        self.sizes.append(len(prepared))
        self.truncated += sum("w3" in text.split() for text in prepared)
        batch = super().encode(prepared)
        self.log.append(f"encoded {prepared[0].split()[0]}")
        return batch

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        raise AssertionError("it has two halves")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write(tmp_path / "corpus.jsonl", [f"n{number} w{number % 5} x y{number % 3}" for number in range(COUNT)])


def write(path: Path, texts: Sequence[str]) -> Path:
    path.write_text("".join(json.dumps({"_id": f"d{n}", "text": text}) + "\n" for n, text in enumerate(texts)))
    return path


class Told:
    def __init__(self) -> None:
        self.done, self.remarks = 0, list[str]()

    def update(self, n: int) -> None:
        self.done += n

    def say(self, remark: str) -> None:
        self.remarks.append(remark)


def run(
    encoder: FakeEncoder,
    reader: DocumentReader,
    out: Path,
    quantizer: Quantizer | Calibration = Quantizer(9.0),  # noqa: B008
    told: Told | None = None,
    **plan: Any,
) -> Manifest:
    def describe(found: Quantizer) -> Manifest:
        return Manifest(
            kind="documents", collection=None, model="m", checkpoint="c", architecture="a", scoring="impact",
            encoder={}, quantizer=found,
        )  # fmt: skip

    told = told or Told()
    where = DocumentPlan(**{"folder": out, "part_size": 5, **plan})
    return DocumentEncoding(where, reader, encoder, quantizer, say=told.say, progress=told).run(describe)


def vectors(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*.json*") if path.name != "manifest.json"}


def test_the_halves_give_what_the_whole_gives(tmp_path: Path, corpus: Path) -> None:
    encoder, told = Halved(), Told()
    manifest = run(encoder, read_documents(corpus), tmp_path / "halves", told=told)
    run(FakeEncoder("document"), read_documents(corpus), tmp_path / "whole")
    assert manifest.counts.truncated == encoder.truncated == 4
    notes = [json.loads(path.read_bytes()) for path in sorted((tmp_path / "halves" / "progress").iterdir())]
    assert [note["counts"]["truncated"] for note in notes] == [1, 1, 1, 1, 0]
    assert vectors(tmp_path / "halves" / "vectors") == vectors(tmp_path / "whole" / "vectors")
    assert told.done == COUNT
    assert encoder.threads["encode"] == {threading.get_ident()}
    assert threading.get_ident() not in encoder.threads["prepare"]


def test_the_next_slice_is_prepared_while_one_is_encoded_and_no_more_are_read(tmp_path: Path, corpus: Path) -> None:
    prepared: list[str] = []
    second = threading.Event()
    reader = read_documents(corpus)
    read: list[int] = []

    class Waiting(Halved):
        def prepare(self, texts: Sequence[str]) -> list[str]:
            prepared.append(texts[0])
            if len(prepared) == 2:
                second.set()
            return super().prepare(texts)

        def encode_prepared(self, batch: list[str]) -> SparseBatch:
            if not read:
                assert second.wait(PATIENCE), "the second slice was not prepared while the first was encoded"
                threading.Event().wait(0.2)  # time enough to read on, if anything did
            read.append(reader.read)
            return super().encode_prepared(batch)

    run(Waiting(), reader, tmp_path / "out")
    assert read[0] == 10  # the window that is encoded and the next one
    assert all(count <= 5 * (place + 2) for place, count in enumerate(read))


@pytest.mark.parametrize("part_size", [2, 5, 30])
def test_an_error_of_the_tokenizer_arrives(tmp_path: Path, part_size: int) -> None:
    corpus = write(tmp_path / "corpus.jsonl", [*(f"w{number}" for number in range(9)), "untokenisable"])
    before = threading.active_count()
    with pytest.raises(LearnedSparseError, match=r"^this text cannot be tokenised$"):
        run(Halved(), read_documents(corpus), tmp_path / "out", part_size=part_size)
    assert not Manifest.load(tmp_path / "out").complete
    assert not list(tmp_path.rglob("*.tmp"))
    assert threading.active_count() == before


def test_one_ahead_gives_all_and_raises_what_is_raised() -> None:
    assert list(one_ahead([])) == []
    assert list(one_ahead([None, 1, 2])) == [None, 1, 2]

    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    items = one_ahead(broken())
    assert next(items) == 1
    with pytest.raises(ValueError, match="no more"):
        next(items)


@pytest.mark.parametrize("more", [{}, {"part_size": 7}, {"part_size": 50}, {"compress": True}])
def test_dense_vectors_go_through_in_slices(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    encoder = Halved()
    run(Halved(), read_documents(corpus), tmp_path / "whole", **more)
    monkeypatch.setattr(encode_slices, "MOST_WEIGHTS", 12)  # three documents of up to four terms: so two
    monkeypatch.setattr(encode_writer, "_MOST_AT_ONCE", 5)
    sliced = run(encoder, read_documents(corpus), tmp_path / "sliced", **more)
    assert vectors(tmp_path / "sliced") == vectors(tmp_path / "whole")
    assert sliced.counts.written == COUNT
    assert encoder.sizes[0] == min(more.get("part_size", 5), 16)  # the documents that are tried
    assert max(encoder.sizes[1:]) == 2
    assert sum(encoder.sizes) == COUNT  # and are not encoded twice


def test_slices_are_calibrated_on_the_first(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_slices, "MOST_WEIGHTS", 12)
    encoder, told = Halved(), Told()
    manifest = run(encoder, read_documents(corpus), tmp_path / "out", Calibration(bits=8, percentile=100.0), told)
    largest = FakeEncoder("document").encode(["n0 w0 x y0", "n1 w1 x y1"]).values.max()
    assert manifest.quantizer.scale == pytest.approx(255 / float(largest))
    assert told.remarks[0].startswith("quantiser calibrated on the first 2 documents")
    assert sum(encoder.sizes[1:]) == COUNT  # what it was calibrated on is not encoded twice


def test_an_error_in_the_middle_of_a_part_leaves_no_part(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_slices, "MOST_WEIGHTS", 12)

    class Nan(Halved):
        def encode_prepared(self, prepared: list[str]) -> SparseBatch:
            batch = super().encode_prepared(prepared)
            if any(text.startswith("n8 ") for text in prepared) and len(prepared) < 16:
                batch.values[:] = np.nan
            return batch

    with pytest.raises(LearnedSparseError, match=r"document 'd[78]'"):
        run(Nan(), read_documents(corpus), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out" / "vectors").iterdir()] == ["part-00000.jsonl"]
    run(Halved(), read_documents(corpus), tmp_path / "out", resume=True)
    run(Halved(), read_documents(corpus), tmp_path / "whole")
    assert vectors(tmp_path / "out") == vectors(tmp_path / "whole")


def test_how_many_documents_fit() -> None:
    class Dense(FakeEncoder):
        def encode(self, texts: Sequence[str]) -> SparseBatch:
            return SparseBatch.from_dicts([dict.fromkeys(map(str, range(1000)), 1.0)] * len(texts))

    def size(encoder: FakeEncoder, part_size: int) -> int:
        return encode_slices.slice_size(encoder, lambda n: np.diff(encoder.encode(["x"] * n).indptr), part_size)

    dense = Dense("document")
    dense.terms = [str(number) for number in range(1000)]
    assert size(dense, 2097) == 2097  # 2 million weights at most, whatever the documents
    assert size(dense, 4096) == 2048  # the power of two below 2**21 / 1000
    dense.description["top_k"] = 100
    assert size(dense, 4096) == 4096
