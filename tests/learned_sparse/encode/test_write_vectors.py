"""``write_vectors`` with a user-defined encoder gives the same folder as the command, accepted by every reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.encoder import Encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import Document, SparseBatch
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.jsonvector.__main__ import main as check
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.reader import load_vectors, read_vectors
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.query_encoder import QueryEncoder
from tests.fake_encoder import FakeEncoder, install_loader
from tests.learned_sparse.encode.commands import encode_file, write_texts

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
    ids, batch = load_vectors([tmp_path / "out"])
    assert {name: batch.row(row) for row, name in enumerate(ids)} == vectors
    assert batch.to_scipy().sum() == 5
    assert check(["check", str(tmp_path / "out")]) == 0
    assert Manifest.load(tmp_path / "out") == manifest
    assert (manifest.complete, manifest.architecture, manifest.scoring) == (True, "WordCounts", "impact")
    assert (manifest.counts.written, manifest.counts.empty_vectors, len(manifest.parts)) == (3, 1, 2)
    assert manifest.query_encoder is None
    assert manifest.environment == {}


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
    with pytest.raises(TypeError, match=r"abstract method '?encode"):
        type("Forgetful", (Encoder,), {})()


def test_the_environment_of_an_encoder_is_recorded_and_is_no_setting(tmp_path: Path) -> None:
    encoder = WordCounts()
    encoder.environment = {"screened": {"tower": True}}
    options: dict[str, Any] = {"quantizer": Quantizer(1.0), "part_size": 2}
    write_vectors(tmp_path / "out", DOCUMENTS[:1], encoder, **options)
    assert Manifest.load(tmp_path / "out").environment == {"screened": {"tower": True}}
    encoder.environment = {"screened": {"tower": False}}
    write_vectors(tmp_path / "out", DOCUMENTS, encoder, **options, resume=True)
    assert Manifest.load(tmp_path / "out").environment == {"screened": {"tower": False}}


def test_write_vectors_gives_the_folder_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_loader(monkeypatch)
    corpus = write_texts(tmp_path / "corpus.jsonl", [f"w{number} v" for number in range(9)])
    command = encode_file(corpus, tmp_path / "command", "--part-size", "4")
    documents = (Document(f"d{number}", f"w{number} v") for number in range(9))
    encoders = FakeEncoder("document"), FakeEncoder("query")
    write_vectors(tmp_path / "api", documents, encoders[0], query_encoder=encoders[1], model="fake", part_size=4)
    api = Manifest.load(tmp_path / "api")
    assert command.parts == api.parts  # names, documents, SHA-256
    for field in ("model", "architecture", "encoder", "query_encoder", "quantizer", "query_quantizer", "counts"):
        assert getattr(command, field) == getattr(api, field)


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="duplicate id"):
        write_vectors(tmp_path / "out", [*DOCUMENTS, DOCUMENTS[0]], WordCounts())
    with pytest.raises(LearnedSparseError, match="no documents"):
        write_vectors(tmp_path / "none", [], WordCounts())
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "letter.txt").touch()
    with pytest.raises(LearnedSparseError, match=r"not empty; .*resume=True or overwrite=True"):
        write_vectors(tmp_path / "used", DOCUMENTS, WordCounts())

    class OtherTerms(WordCounts):
        def encode(self, texts: Sequence[str]) -> SparseBatch:
            return SparseBatch.from_dicts([{"hives": 1.0}] * len(texts))

    with pytest.raises(RuntimeError, match=r"terms other than Encoder\.terms"):
        write_vectors(tmp_path / "terms", DOCUMENTS, OtherTerms())
