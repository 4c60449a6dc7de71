"""Options of commands that do not fit together, and values out of range, are refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.reader import vector_files
from learned_sparse.ray import command_of
from tests.fake_encoder import install_loader
from tests.learned_sparse.encoded_folder import save_queries, write_folder
from tests.toy_data import save_collection

ENCODE = "encode --checkpoint fake --collection toy --output out"
EXPORT = "export --queries queries --output out --format"
PRUNE = "jsonvector prune --output out --vectors"
CASES = [
    (f"{ENCODE} --workers 2", "--workers 2: belongs to --engine ray"),
    (f"{ENCODE} --engine ray --queries", "--engine ray: for documents, not --queries"),
    (f"{ENCODE} --engine ray --num-shards 2", "with --engine ray, give --workers"),
    (f"{ENCODE} --num-shards 2 --shard-id 2", "--shard-id 2: with --num-shards 2 give 0 to 1"),
    (f"{ENCODE} --part-size 0", "--part-size: 0: give at least 1"),
    (f"{ENCODE} --split test", "--split: only with --queries"),
    (f"{ENCODE} --bits 40", "40 bits: give 1 to 31"),
    (f"{ENCODE} --segment-length 3 --segment-overlap 3", "--segment-overlap 3: give 0 to 2"),
    (f"{ENCODE} --segment-overlap 1", "need --segment-length"),
    (f"{ENCODE} --segment-length 3 --queries", "for documents"),
    (f"{ENCODE} --with bm25 --segment-length 9", "omit --segment-length"),
    (f"{ENCODE} --with vectors", "documents are encoded --with bm25"),
    (f"{ENCODE} --with toy --queries", "toy: "),
    ("encode --model sparterm", "--matrix demo --row sparterm)"),
    ("encode --model my-model", "give --input FILE or --collection NAME to say what to encode"),
    ("encode --model splade --checkpoint naver/splade-v3", "give --input FILE or --collection NAME to say what to"),
    (f"{EXPORT} pisa", "give --vocabulary fwd.terms of their documents"),
    (f"{EXPORT} opensearch --vocabulary x", "writes the terms of its documents itself"),
    (f"{EXPORT} parquet --vocabulary missing", "missing: no such file"),
    (f"{EXPORT} ciff --vectors vectors --collection c", "are for the vectors and queries of"),
    ("index --model nix", "learned_sparse.encode --model nix --collection pydoc"),
    ("index --input x --index i --bits 8", "need --quantize DIR"),
    ("inspect --model m --text a --query b", "--query is only for --document"),
    ("inspect --model m --document a --set k=1", "--set is for --text and for queries; documents are encoded already"),
    ("inspect --document a", "no model is named: give --model NAME or --index DIR"),
    (f"{PRUNE} vectors --max-document-frequency 1.5", "above 0 and at most 1"),
    (f"{PRUNE} vectors --keep-postings 0", "above 0 and at most 1"),
    (f"{PRUNE} vectors --top-dimensions -1", "give 0"),
    (f"{PRUNE} vectors --top-dimensions 9", "--top-dimensions 9: removes every term"),
    (f"{PRUNE} vectors --top-dimensions 1 --output vectors", "is the input"),
    (f"{PRUNE} vectors --top-dimensions 1 --output hybrid --overwrite", "written by learned_sparse.encode"),
    (f"{PRUNE} changed --top-dimensions 1", "not the bytes"),
    (f"{PRUNE} hybrid --idf 0.5", "have BM25"),
    ("search --index x --topics y --output out --collection pydoc", "not both"),
    ("search --backend exact --vectors x --topics y --output out --k1 1", "k1 and b are parameters of BM25"),
    ("search --backend exact --index x", "reads vectors, not an index"),
    ("search --backend exact --model gone", "no vectors yet; run"),
    ("search --index x --query-vectors q --output out --alpha 0", "--alpha: --query-vectors are"),
    ("serve", "no index; run make demo, or name indexes with --index DIR"),
    ("serve --index x/index y/index", "two are called 'index'; give each a name"),
    ("search --index index --topics toy/queries.jsonl --output out --alpha 0.5", "index holds no BM25 to weigh"),
]


@pytest.fixture
def folder(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with inputs; the encoder of every checkpoint is the fake one."""
    install_loader(monkeypatch)
    monkeypatch.setattr("encoders.checkpoints.hub.resolve_checkpoint", lambda name: name)
    monkeypatch.chdir(tmp_path)
    save_collection(tmp_path / "toy", ["dev", "test"])
    changed = vector_files(write_folder(tmp_path / "changed", {"d1": {"a": 1}}))[0]
    changed.write_bytes(changed.read_bytes() + b"\n")
    write_folder(tmp_path / "hybrid", {"d1": {"a": 1}}, encoder={"hybrid": {}})
    vectors = write_folder(tmp_path / "vectors", {"d1": {"a": 3, "b": 2}, "d2": {"a": 1}})
    for name in ("queries", "index"):
        (tmp_path / name).mkdir()
    save_queries(tmp_path / "queries", {"q1": {"a": 1}})
    IndexNote("impact", (Manifest.load(vectors),), {}).save(tmp_path / "index")
    return tmp_path


@pytest.mark.parametrize(("command", "message"), CASES, ids=[command for command, _ in CASES])
def test_wrong_usage(command: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, *words = command.split()
    before = sorted(folder.rglob("*"))
    with pytest.raises((LearnedSparseError, SystemExit)) as error:
        command_of(f"learned_sparse.{module}")(words)
    assert message in f"{error.value} {capsys.readouterr().err}"
    assert sorted(folder.rglob("*")) == before
