"""Long documents split into segments: ids, texts, counts and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from learned_sparse.collections.segments import Segmentation
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.reader import read_vectors
from tests.fake_encoder import WordEncoder, install_loader
from tests.learned_sparse.encode.commands import encode_file

FACTOR = ["--quantization-factor", "100"]
DOCUMENTS = {"d1": "w1 w2  w3 w4 w5", "d2": "w1", "d3": "w6 w7 w8 w9"}


@pytest.fixture(autouse=True)
def worded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word is a token, and an encoder reads twelve."""
    install_loader(monkeypatch, lambda _, side, **__: WordEncoder(side, max_length=12))


def encode(folder: Path, *options: str, output: str = "out") -> Manifest:
    corpus = folder / "corpus.jsonl"
    lines = (json.dumps({"id": name, "text": text, "expanded": "more"}) for name, text in DOCUMENTS.items())
    corpus.write_text("".join(f"{line}\n" for line in lines))
    return encode_file(corpus, folder / output, *options)


def contents(folder: Path) -> dict[str, str]:
    files = sorted((folder / "vectors").glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {row["id"]: row["contents"] for row in rows}


def test_all_segments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = encode(tmp_path, "--segment-length", "2", "--part-size", "3")
    assert contents(tmp_path / "out") == {
        "d1#0": "w1 w2", "d1#1": "w3 w4", "d1#2": "w5", "d2#0": "w1", "d3#0": "w6 w7", "d3#1": "w8 w9",
    }  # fmt: skip
    assert (manifest.counts.segmented, manifest.counts.read, manifest.counts.written) == (3, 6, 6)
    assert manifest.counts.largest_segments == 3
    assert Segmentation.recorded(manifest.options) == Segmentation(length=2)
    assert "6 segments of 3 documents" in capsys.readouterr().out
    assert list(manifest.problems(tmp_path / "out")) == []


@pytest.mark.parametrize("which", ["sum", "decay"])
def test_segments_add_up_to_the_vector_of_their_document(which: str, tmp_path: Path) -> None:
    manifest = encode(tmp_path, "--segment-length", "2", "--segments", which, "--part-size", "2", *FACTOR)
    impacts = dict(read_vectors(tmp_path / "out"))
    assert contents(tmp_path / "out") == DOCUMENTS
    cut = {"d1": ["w1 w2", "w3 w4", "w5"], "d2": ["w1"], "d3": ["w6 w7", "w8 w9"]}
    encoder = WordEncoder("document")
    for name, texts in cut.items():
        total: dict[str, float] = {}
        for number, text in enumerate(texts):
            for term, weight in encoder.encode([text]).row(0).items():
                total[term] = total.get(term, 0.0) + weight / (number + 1 if which == "decay" else 1)
        assert impacts[name] == {term: round(100 * weight) for term, weight in total.items()}
    assert (manifest.counts.segmented, manifest.counts.written) == (0, 3)
    assert list(manifest.problems(tmp_path / "out")) == []
    shards = ["--num-shards", "2", "--part-size", "2", "--segment-length", "2", "--segments", which, *FACTOR]
    for shard in range(2):
        encode(tmp_path, *shards, "--shard-id", str(shard), output=f"s{shard}")
    assert dict(read_vectors(tmp_path / "s0")) | dict(read_vectors(tmp_path / "s1")) == impacts


def test_segments_above_the_maximum_length_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="give at most 10, or a larger --max-length"):
        encode(tmp_path, "--segment-length", "11")
    assert encode(tmp_path, "--segment-length", "10").counts.written == 3


def test_a_segment_is_not_cut_for_its_expansion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 12 tokens, [CLS] and two [SEP], half are left for a segment, and half for the expansion."""
    monkeypatch.setattr(WordEncoder, "uses_expanded", True)
    for which in ("all", "sum"):
        with pytest.raises(LearnedSparseError, match=r"document 'd1' has expanded text.*give at most 4"):
            encode(tmp_path, "--segment-length", "5", "--segments", which, output=f"{which}-5")
        assert encode(tmp_path, "--segment-length", "4", "--segments", which, output=which).counts.expanded >= 3


def test_spans_of_words() -> None:
    """Long words are segments; an overlap has at most the given number of tokens: one word of two, not two words."""
    words = [(0, 1, 9), (2, 3, 1), (4, 5, 2), (6, 7, 9)]
    assert Segmentation(length=3, overlap=2).spans(words) == [(0, 1), (2, 5), (6, 7)]
    assert Segmentation(length=3).spans([]) == []
    for tokens, overlap, spans in ((1, 2, [(0, 4), (2, 6)]), (2, 3, [(0, 2), (1, 3), (2, 4), (3, 5), (4, 6)])):
        words = [(start, start + 1, tokens) for start in range(6)]
        assert Segmentation(length=4, overlap=overlap).spans(words) == spans


def test_skipped_lines_are_counted_with_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DOCUMENTS, "d4", "")
    monkeypatch.setitem(DOCUMENTS, "d 5", "white space in its id")
    counts = encode(tmp_path, "--segment-length", "2", "--on-bad-line", "skip").counts
    assert counts.skipped == {"unusable id": 1}
    assert (counts.read, counts.written, counts.segmented, counts.empty_texts) == (8, 7, 4, 1)
