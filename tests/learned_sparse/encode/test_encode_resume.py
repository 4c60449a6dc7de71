"""A run resumed after a kill, damage or a full disk has the bytes of an uninterrupted run, or raises an error."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector.manifest import Manifest
from tests.fake_encoder import FakeEncoder, install_loader


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl", 300)


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    install_loader(monkeypatch)


def write_corpus(path: Path, count: int) -> Path:
    draw = random.Random(5)
    lines = (
        json.dumps({"_id": f"d{number}", "text": " ".join(f"w{draw.randrange(90)}" for _ in range(12))})
        for number in range(count)
    )
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def arguments(corpus: Path, folder: Path, *options: str) -> list[str]:
    named = ["--model", "fake", "--checkpoint", "nowhere", "--input", str(corpus), "--output", str(folder)]
    return [*named, "--part-size", "20", *options]


def test_partial_output_is_completed(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(arguments(corpus, tmp_path / "whole"))
    complete = files(tmp_path / "whole")
    written = ["manifest.json", *(name for number in range(15) for name in (
        f"vectors/part-{number:05d}.jsonl", f"progress/part-{number:05d}.json"))]  # fmt: skip
    assert set(written) == set(complete)
    incomplete = {**json.loads(complete["manifest.json"]), "complete": False, "parts": [], "warnings": []}
    incomplete.pop("sha256", None)
    for count in (0, 1, 2, 3, 12, len(written)):
        if count == len(written):
            monkeypatch.setattr(FakeEncoder, "encode", lambda *_: pytest.fail("encoded again"))
        folder = tmp_path / f"out-{count}"
        for name in written[:count]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(complete[name])
        if count:
            (folder / "manifest.json").write_text(json.dumps(incomplete))
        main(arguments(corpus, folder, "--resume"))
        assert files(folder) == complete


@pytest.mark.parametrize("damage", [b"", b"{}\n"])
def test_damaged_parts_are_written_again(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    folder = tmp_path / "out"
    main(arguments(corpus, folder))
    complete = files(folder)
    (folder / "vectors" / "part-00003.jsonl").write_bytes(complete["vectors/part-00003.jsonl"][:100] + damage)
    (folder / "vectors" / "part-00005.jsonl").unlink()
    (folder / "progress" / "part-00007.json").write_bytes(complete["progress/part-00007.json"][:50])
    assert len(list(Manifest.load(folder).problems(folder))) == 2
    main(arguments(corpus, folder, "--resume"))
    assert files(folder) == complete
    messages = caplog.text
    assert "part-00003.jsonl: missing or changed since it was written; writing this part again" in messages
    assert "part-00005.jsonl: missing or changed" in messages
    assert "part-00007.json:" in messages


def test_parts_without_a_manifest_are_refused(tmp_path: Path, corpus: Path) -> None:
    folder = tmp_path / "out"
    main(arguments(corpus, folder))
    complete = files(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(LearnedSparseError, match=r"part files but no manifest.json; encode with --overwrite"):
        main(arguments(corpus, folder, "--resume"))
    main(arguments(corpus, folder, "--overwrite"))
    assert files(folder) == complete


def test_overwriting_keeps_the_old_vectors_until_the_new_input_has_a_document(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, bad = tmp_path / "out", tmp_path / "bad.jsonl"
    main(arguments(corpus, folder))
    whole = files(folder)
    bad.write_text('{"text": "no id"}\n')
    with pytest.raises(LearnedSparseError, match=r"bad\.jsonl:1"):
        main(arguments(bad, folder, "--overwrite"))
    assert files(folder) == whole
    monkeypatch.setattr(FakeEncoder, "encode", fail)
    with pytest.raises(LearnedSparseError, match="unreadable checkpoint"):
        main(arguments(corpus, folder, "--overwrite"))
    assert files(folder) == whole


def fail(*_: object) -> None:
    raise LearnedSparseError("unreadable checkpoint")
