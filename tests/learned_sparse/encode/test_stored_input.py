"""The places of the parts in the input are stored, and built again if the input or a file of them has changed."""

from __future__ import annotations

import gzip
import json
from argparse import Namespace
from pathlib import Path

import pytest

from learned_sparse.collections import DocumentReader, InputParts, input_parts
from learned_sparse.encode import distributed
from learned_sparse.encode.options import parse_arguments
from learned_sparse.encode.run import open_source


def write(path: Path, count: int) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": f"d{n}", "text": f"text {n}"}) + "\n" for n in range(count))
    return path


@pytest.fixture
def options(tmp_path: Path) -> Namespace:
    pytest.importorskip("indexed_gzip", reason="indexed_gzip is not installed (the extra ray)")
    corpus = write(tmp_path / "corpus.jsonl.gz", 25)
    return parse_arguments(["--model", "m", "--input", str(corpus), "--output", str(tmp_path / "out")])


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[InputParts]:
    """The tables that were built."""
    tables: list[InputParts] = []

    def counted(reader: DocumentReader, part_size: int) -> InputParts:
        tables.append(input_parts(reader, part_size))
        return tables[-1]

    monkeypatch.setattr(distributed, "input_parts", counted)
    return tables


def places(options: Namespace) -> InputParts:
    source = open_source(options)
    assert source.reader is not None
    table, _ = distributed.input_of(source, source.reader, 10)
    return table


def test_the_table_is_built_once(options: Namespace, built: list[InputParts]) -> None:
    assert [places(options), places(options)] == [built[0], built[0]]
    assert len(built) == 1


@pytest.mark.parametrize("damaged", ["corpus.jsonl.gz", "out/progress/input.json", "out/progress/input-0.seek"])
def test_it_is_built_again(damaged: str, options: Namespace, built: list[InputParts], tmp_path: Path) -> None:
    places(options)
    if damaged == "corpus.jsonl.gz":
        write(tmp_path / damaged, 26)
    else:
        content = bytearray((tmp_path / damaged).read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / damaged).write_bytes(content)
    assert places(options).documents == (26 if damaged == "corpus.jsonl.gz" else 25)
    assert len(built) == 2
