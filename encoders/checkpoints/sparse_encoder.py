"""What sentence-transformers recorded about a masked-LM folder: its pooling, or why it cannot be read as SPLADE."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from learned_sparse.core import LearnedSparseError, is_name, read_json

MODULES = "modules.json"
_INFERENCE_FREE = ("idf.json", "router_config.json")
_TASK = "fill-mask"


def recorded_settings(folder: Path) -> dict[str, Any]:
    """The settings of SPLADE for a masked-LM folder; raise if SPLADE cannot give the vectors of that model exactly.

    A folder without ``modules.json`` records nothing: it is read with max pooling, as the published ``naver/splade``
    checkpoints are made. ``--set pooling=sum`` corrects that.
    """
    for name in _INFERENCE_FREE:
        if (folder / name).exists():
            _refuse(folder / name, "queries have an encoder of their own (fixed weights of words)")
    if not (folder / MODULES).exists():
        return {"pooling": "max"}
    pooling = _pooling(folder)
    settings = _mapping(folder / "config_sentence_transformers.json", optional=True)
    if any(_mapping_in(settings, "prompts").values()):
        _refuse(folder / "config_sentence_transformers.json", "texts are preceded by prompts")
    if settings.get("similarity_fn_name") not in {None, "dot"}:
        _refuse(folder / "config_sentence_transformers.json", "scores are no dot products")
    return {"pooling": pooling}


def _pooling(folder: Path) -> str:
    path = folder / MODULES
    modules = read_json(path)
    entries = modules if isinstance(modules, list) else []
    rows = [entry for entry in entries if isinstance(entry, Mapping)]
    names = [str(row.get("type")).rpartition(".")[2] for row in rows]
    if len(rows) != len(entries) or names not in (
        ["MLMTransformer", "SpladePooling"],
        ["Transformer", "SpladePooling"],
    ):
        _refuse(path, f"its modules are {', '.join(names) or 'not listed'}, not a masked-LM and SpladePooling")
    below = rows[1].get("path")
    if rows[0].get("path") != "" or not (isinstance(below, str) and is_name(below)):
        _refuse(path, "its masked-LM is not in this folder, or its SpladePooling not in a folder below")
    task = _mapping(folder / "sentence_bert_config.json", optional=True).get("transformer_task", _TASK)
    if names[0] == "Transformer" and task != _TASK:
        _refuse(folder / "sentence_bert_config.json", f"its transformer_task is {task!r}, not {_TASK!r}")
    config = _mapping(folder / below / "config.json")
    pooling, activation = config.get("pooling_strategy", "max"), config.get("activation_function", "relu")
    if pooling not in ("max", "sum") or activation != "relu":
        _refuse(folder / below / "config.json", f"pooling_strategy {pooling!r} with activation_function {activation!r}")
    return str(pooling)


def _mapping(path: Path, *, optional: bool = False) -> Mapping[str, Any]:
    if optional and not path.exists():
        return {}
    content = read_json(path)
    if not isinstance(content, Mapping):
        raise LearnedSparseError(f"{path}: expected an object, got {type(content).__name__}")
    return content


def _mapping_in(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key)
    return value if isinstance(value, Mapping) else {}


def _refuse(path: Path, reason: str) -> NoReturn:
    raise LearnedSparseError(
        f"{path}: {reason}; SPLADE here would give other vectors. It reads max or sum pooling of log(1 + ReLU), "
        "the same for queries and documents, without prompts"
    )
