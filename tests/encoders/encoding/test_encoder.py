"""A checkpoint as an encoder of text, also with changed settings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoders.backbone import device, towers
from encoders.backbone.towers import LanguageModel
from encoders.checkpoints.tokenizer import keep_top_k, tokenizer_sha256
from encoders.encoding import encoder as encoder_module
from encoders.encoding.encoder import CheckpointEncoder, to_sparse
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import load_checkpoint, new_model, save_checkpoint
from encoders.models import SIDES
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.search.query_encoder import QueryEncoder
from tests.encoders.models.cases import SMALLEST
from tests.tiny_models import MANY_TEXTS, TEXTS, VOCABULARY

TOWERS = {("sparterm", "query"): ["query_importance", "gate"], ("tf", "query"): []}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> dict[str, str]:
    """Checkpoint folders."""
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "splade": ("splade", {}),
        "sparterm": ("sparterm", {"query": "asymmetric"}),
        "tf": ("sparterm", {"query": "tf"}),
    }
    folders = {}
    for name, (architecture, settings) in cases.items():
        folder = tmp_path_factory.mktemp("checkpoints") / name
        save_checkpoint(folder, new_model(architecture, settings, str(tiny_bert)))
        folders[name] = str(folder)
    return folders


def assert_equal(first: SparseBatch, second: SparseBatch) -> None:
    assert first.terms == second.terms
    np.testing.assert_array_equal(first.indptr, second.indptr)
    np.testing.assert_array_equal(first.indices, second.indices)
    np.testing.assert_allclose(first.values, second.values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", ["splade", "sparterm", "tf"])
@pytest.mark.parametrize("batch_size", ["64t", 1, "5"])
def test_rows_are_in_the_order_of_texts(saved: dict[str, str], name: str, side: Side, batch_size: str | int) -> None:
    encoder = load_encoder(saved[name], side, batch_size=batch_size, dtype="fp32")
    batch = encoder.encode(MANY_TEXTS)
    assert len(batch) == len(MANY_TEXTS)
    assert_equal(batch, SparseBatch.concatenate([encoder.encode([text]) for text in MANY_TEXTS]))
    repeated = encoder.encode(MANY_TEXTS)
    assert batch.values.tobytes() == repeated.values.tobytes()  # identical in every run


def test_prepare_uses_no_weights(saved: dict[str, str]) -> None:
    encoder = load_encoder(saved["splade"], "document", max_length=5, dtype="fp32")
    assert isinstance(encoder, CheckpointEncoder)
    weigher, encoder.weigher = encoder.weigher, torch.nn.Identity()
    first, second, none = (encoder.prepare(texts) for texts in (MANY_TEXTS[:7], ["wing lift drag flow heat"], []))
    assert [len(lengths) for _, lengths, _ in (first, second, none)] == [7, 1, 0]
    assert second[2] == 1
    encoder.weigher = weigher
    one_by_one = encoder.encode_prepared(first)
    assert encoder.encode_prepared(second).truncated == 1
    assert_equal(encoder.encode_prepared(second), encoder.encode(["wing lift drag"]))
    assert len(encoder.encode_prepared(none)) == 0
    assert_equal(one_by_one, encoder.encode(MANY_TEXTS[:7]))


rows_of_values = st.lists(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0, 2.5]), min_size=6, max_size=6), max_size=5)


@given(rows_of_values, st.integers(1, 7))
def test_top_k_breaks_ties_by_term_id(rows: list[list[float]], count: int) -> None:
    dense = torch.tensor(rows).reshape(len(rows), 6)
    kept = keep_top_k(to_sparse(dense, list("abcdef")), count)
    for number, row in enumerate(rows):
        ranked = sorted((-value, "abcdef"[j]) for j, value in enumerate(row) if value)
        assert kept.row(number) == {term: -value for value, term in ranked[:count]}
        columns = kept.indices[kept.indptr[number] : kept.indptr[number + 1]]
        assert (np.diff(columns) > 0).all()


def test_the_description_depends_on_weights_and_options_only(saved: dict[str, str], tmp_path: Path) -> None:
    first = load_encoder(saved["splade"], "document", dtype="fp32").description
    moved = shutil.copytree(saved["splade"], tmp_path / "elsewhere")
    assert load_encoder(str(moved), "document", model="another-name", dtype="fp32").description == first
    changes: list[dict[str, Any]] = [{"max_length": 9}, {"top_k": 3}, {"dtype": "bf16"}]
    for options in changes:
        assert load_encoder(str(moved), "document", **({"dtype": "fp32"} | options)).description != first
    assert load_encoder(str(moved), "query").description["weights_sha256"] == first["weights_sha256"]
    model = load_checkpoint(moved)
    model.towers["document"].decoder.bias.data[7] += 1e-3
    save_checkpoint(tmp_path / "other", model)
    other = load_encoder(str(tmp_path / "other"), "document", dtype="fp32").description
    assert {key for key in first if first[key] != other[key]} == {"weights_sha256"}


def test_the_tokenizer_hash(saved: dict[str, str], tiny_bert: Path) -> None:
    tokenizer: Any = load_encoder(saved["splade"], "document").tokenizer
    before = tokenizer_sha256(tokenizer)
    tokenizer(["wing lift drag"], truncation=True, max_length=4, padding="max_length")
    assert tokenizer_sha256(tokenizer) == before
    assert tokenizer_sha256(load_encoder(str(tiny_bert), "document").tokenizer) == before
    tokenizer.add_tokens(["zeppelin"])
    assert tokenizer_sha256(tokenizer) != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 2}, "give at least 3 tokens"),
        ({"max_length": 65}, "give 3 to 64 tokens"),
        ({"top_k": 0}, "give at least 1"),
        ({"dtype": "int8"}, "known: auto, bf16, fp16, fp32$"),
        ({"device": "cuda:7" if not torch.cuda.is_available() else "tpu"}, "omit --device"),
        ({"batch_size": "many"}, "4096t"),
    ],
)
def test_invalid_options(saved: dict[str, str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        load_encoder(saved["splade"], "document", **options)


def test_impacts_of_a_query_do_not_depend_on_its_batch(saved: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where documents are encoded in bf16 by default, whose rounding depends on the size of the batch."""
    monkeypatch.delenv(device.DTYPE_VARIABLE, raising=False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"bf16": True})
    queries = QueryEncoder(saved["splade"], device="cpu")
    assert queries.encode_batch(MANY_TEXTS) == [queries.encode(text) for text in MANY_TEXTS]
    assert queries.encoder.description["dtype"] == "fp32"
    assert load_encoder(saved["splade"], "document", device="cpu").description["dtype"] == "bf16"
    assert QueryEncoder(saved["splade"], device="cpu", dtype="bf16").encoder.description["dtype"] == "bf16"


@pytest.mark.parametrize(
    ("name", "has_bf16", "expected"),
    [("cpu", 1, "bf16"), ("cpu", 0, "fp32"), ("mps", 1, "fp32"), ("cuda", 1, "bf16"), ("cuda:1", 0, "fp16")],
)
def test_default_dtype(name: str, has_bf16: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(device.DTYPE_VARIABLE, raising=False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"bf16": bool(has_bf16)})
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: bool(has_bf16))
    for auto in (None, "auto"):
        assert device.choose_dtype(auto, torch.device(name)) == expected
    monkeypatch.setenv(device.DTYPE_VARIABLE, "bf16")
    assert device.choose_dtype(None, torch.device(name), "fp32") == "bf16"
    assert device.choose_dtype("fp16", torch.device(name)) == "fp16"
    monkeypatch.setenv(device.DTYPE_VARIABLE, "int8")
    with pytest.raises(LearnedSparseError, match="LEARNED_SPARSE_DTYPE 'int8'; known: auto, bf16, fp16, fp32"):
        device.choose_dtype("auto", torch.device(name))


def test_the_head_that_was_faster_is_in_the_environment(saved: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(towers, "MIN_TERMS", 1)
    encoder = load_encoder(saved["splade"], "document", dtype="fp32", batch_size=1)
    assert "screened" not in encoder.environment
    before, after = encoder.encode(TEXTS), encoder.encode(TEXTS)
    assert_equal(before, after)
    assert {type(used) for used in encoder.environment["screened"].values()} == {bool}
    assert list(encoder.environment["screened"]) == ["tower"]


def test_widths_of_batches_on_a_cpu(tiny_bert: Path) -> None:
    """Multiples of 8 tokens, but never more than the model may read."""
    widths: list[int] = []
    encoder: Any = load_encoder(str(tiny_bert), "document", max_length=20, batch_size=1)
    encoder.weigher.register_forward_pre_hook(lambda _, inputs: widths.append(inputs[0].shape[1]))
    encoder.encode(["a b", "a " * 9, "a " * 99])
    assert widths == [20, 16, 8]


def test_sizes_of_batches(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default depends on the device; batches of short texts with half a million dimensions would take gigabytes."""
    monkeypatch.setitem(encoder_module._BATCH_SIZES, "cpu", "20t")

    def sizes(batch_size: str | None) -> list[int]:
        sizes: list[int] = []
        encoder: Any = load_encoder(str(tiny_bert), "document", batch_size=batch_size)
        encoder.weigher.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
        encoder.encode(["wing lift drag"] * 8)  # five tokens each
        return sizes

    assert sizes(None) == [4, 4]
    assert sizes("40t") == [8]
    monkeypatch.setattr(encoder_module, "_MAX_WEIGHTS", 3 * len(VOCABULARY))
    assert sizes("40t") == [3, 3, 2]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", ["splade", "sparterm", "tf"])
def test_the_towers_of_a_side_are_loaded_or_none_to_describe_it(
    saved: dict[str, str], name: str, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, towers = LanguageModel.load, list[str]()

    def record(folder: Path) -> LanguageModel:
        towers.append(folder.name)
        return load(folder)

    monkeypatch.setattr(LanguageModel, "load", record)
    loaded = load_encoder(saved[name], side)
    assert towers == list(loaded.description["weights_sha256"]) == TOWERS.get((name, side), towers)
    described = load_encoder(saved[name], side, weights=False)
    assert len(towers) == len(loaded.description["weights_sha256"])
    assert (described.description, described.quantizer) == (loaded.description, loaded.quantizer)


def test_all_options_are_passed_on(saved: dict[str, str]) -> None:
    expected = {"dtype": "fp32", "max_length": 7, "top_k": 3}
    cases: tuple[tuple[Side, str], ...] = (("document", "fp32"), ("query", "bf16"))  # a bag of words ignores the latter
    for side, dtype in cases:
        encoder = load_encoder(saved["tf"], side, device="cpu", dtype=dtype, max_length=7, top_k=3, batch_size=2)
        assert {key: encoder.description[key] for key in expected} == expected
        assert np.diff(encoder.encode(TEXTS).indptr).max() == 3


def test_errors_name_the_model(saved: dict[str, str]) -> None:
    for side in SIDES:
        with pytest.raises(LearnedSparseError, match=rf"^mine \({side}\): max length 1;"):
            load_encoder(saved["tf"], side, model="mine", max_length=1)
    with pytest.raises(LearnedSparseError, match="no such folder"):
        load_encoder("./nowhere", "query")


@pytest.fixture(scope="module")
def uhd(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint with a calibrated quantizer per side."""
    model = new_model("uhd", SMALLEST["uhd"], str(tiny_bert))
    model.quantizers = dict.fromkeys(SIDES, Quantizer(7.0, 8))
    folder = tmp_path_factory.mktemp("settings")
    save_checkpoint(folder, model)
    return str(folder)


def test_changes_are_described_as_json_and_read_back(uhd: str) -> None:
    description = load_encoder(uhd, "document", settings={"k": 2, "layers": [2]}).description
    assert json.loads(json.dumps(description)) == description  # layers are a tuple in memory
    assert (description["settings"]["k"], description["settings"]["layers"]) == (2, [2])
    assert load_encoder(uhd, "document", settings=description["settings"]).description == description


def test_query_only_settings_do_not_change_the_weights_hash(uhd: str) -> None:
    """A query without the first bucket reads one tower; its description names those of both."""
    both, one = (load_encoder(uhd, "query", settings={"bucket_weights": weights}) for weights in ([1, 2], [0, 1]))
    assert both.description["weights_sha256"].keys() == {"bucket-1", "bucket-2"}
    assert one.description["weights_sha256"] == both.description["weights_sha256"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Quantizer(7.0, 8)),
        ({"k": 4, "dimensions": 48}, Quantizer(7.0, 8)),  # unchanged values
        ({"query_k": 3}, Quantizer(7.0, 8)),
        ({"k": 3}, None),
        ({"binarize": True, "query_k": 3}, Quantizer(1.0)),
    ],
)
def test_changes_to_documents_discard_the_stored_quantizer(
    uhd: str, changes: dict[str, Any], expected: Quantizer | None
) -> None:
    for side in SIDES:
        assert load_encoder(uhd, side, settings=changes).quantizer == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"dimensions": 9},
            r"'dimensions' belongs to how the model was trained.*changeable: binarize, bucket_weights, ",
        ),
        ({"query_k": "many"}, "query_k: expected .*, got 'many'"),
    ],
)
def test_invalid_changes(uhd: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        load_encoder(uhd, "document", settings=changes)
