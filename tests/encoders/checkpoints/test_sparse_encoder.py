"""What sentence-transformers records beside a masked-LM is read, or the reason why it cannot be is given."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SparseEncoder

from encoders.checkpoints.notes import read_notes
from encoders.encoding.loading import load_encoder
from encoders.models import SIDES
from learned_sparse.core.errors import LearnedSparseError

OLD = "sentence_transformers.sparse_encoder.models."
NEW = "sentence_transformers.sparse_encoder.modules.splade_pooling."


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bert, tmp_path / "splade"))


def modules(folder: Path, *types: str, paths: tuple[str, ...] = ("", "1_SpladePooling"), **pooling: Any) -> None:
    """Write ``modules.json`` and the settings of the pooling."""
    rows = [
        {"idx": number, "name": str(number), "path": path, "type": name}
        for number, (name, path) in enumerate(zip(types, paths, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "1_SpladePooling").mkdir(exist_ok=True)
    (folder / "1_SpladePooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": None, **pooling}))


def test_prompts_come_before_texts_as_in_sentence_transformers(folder: Path) -> None:
    modules(folder, f"{OLD}MLMTransformer", f"{OLD}SpladePooling", pooling_strategy="max")
    settings = {"model_type": "SparseEncoder", "similarity_fn_name": "dot"}
    prompts: dict[str, Any] = {
        "prompts": {"query": "signs of ", "document": "wind tunnel ", "passage": "new "},
        "default_prompt_name": None,
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps({**settings, **prompts}))
    theirs, texts = SparseEncoder(str(folder), device="cpu"), ["hives", "rain in new york"]
    expected = {"query": theirs.encode_query(texts), "document": theirs.encode_document(texts)}
    for side in SIDES:
        encoder = load_encoder(str(folder), side, dtype="fp32")
        np.testing.assert_allclose(encoder.encode(texts).to_scipy().toarray(), expected[side].to_dense(), atol=1e-4)
        assert encoder.description["prompt"] == prompts["prompts"][side]
    reading = load_encoder(str(folder), "query", dtype="fp32").explain("hives")
    assert [(token.start, token.end) for token in reading.tokens if token.text == "hives"] == [(0, 5)]


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        (
            "1_SpladePooling/config.json",
            {"pooling_strategy": "sum", "activation_function": "log1p_relu"},
            "pooling_strategy 'sum' with activation_function 'log1p_relu'",
        ),
        ("1_SpladePooling/config.json", {"pooling_strategy": ["max"]}, r"pooling_strategy \['max'\]"),
        ("1_SpladePooling/config.json", [], "expected an object, got list"),
        ("idf.json", {"wing": 3.2}, "queries have an encoder of their own"),
        ("router_config.json", {"types": {}}, "queries have an encoder of their own"),
        ("config_sentence_transformers.json", {"similarity_fn_name": "cosine"}, "scores are no dot products"),
        ("sentence_bert_config.json", {"transformer_task": "feature-extraction"}, "its transformer_task is"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "texts are lower-cased"),
        ("modules.json", [{"type": "a.Router", "path": "0_Router"}], "its Router is not in this folder"),
        (
            "modules.json",
            [{"type": "a.Transformer", "path": ""}, {"type": "a.SparseAutoEncoder", "path": "1"}],
            "SparseA",
        ),
        ("modules.json", [], "its modules are not listed"),
        ("modules.json", [3, 4], "its modules are not listed"),
    ],
    ids=str,
)
def test_what_splade_cannot_compute_is_refused(folder: Path, file: str, content: Any, reason: str) -> None:
    modules(folder, "x.Transformer", f"{NEW}SpladePooling")
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(LearnedSparseError, match=rf"{file}: .*{reason}") as error:
        read_notes(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("paths", [("", ""), ("", "../x"), ("/etc", "1_SpladePooling")])
def test_modules_in_other_folders_are_refused(folder: Path, paths: tuple[str, ...]) -> None:
    modules(folder, f"{OLD}MLMTransformer", f"{OLD}SpladePooling", paths=paths)
    with pytest.raises(LearnedSparseError, match=r"is not in a folder below|SpladePooling, SpladePooling, not a"):
        read_notes(folder)
