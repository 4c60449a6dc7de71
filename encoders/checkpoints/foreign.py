"""Checkpoints of other tools, described as ours: what their folders say, and refusals of what cannot be read right.

Layouts: sentence-transformers 5 and 6 (``modules.json``; a ``Router`` has a module list for each side), OpenSearch
doc-only (``idf.json``), Pyserini's uniCOIL (a masked-LM's encoder and ``tok_proj``), and plain masked-LMs such as
``naver/splade*``, which say nothing about pooling or queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from encoders.checkpoints.hub import read_config, require_safetensors
from encoders.checkpoints.tokenizer import TOKENIZER, read_tokenizer, tokenizer_sha256
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import is_name, read_json

IDF = "idf.json"
STATIC_WEIGHT = "weight"
"""Tensor of a ``SparseStaticEmbedding``."""
UNICOIL_HEAD = "tok_proj."
"""Prefix of the tensors of Pyserini's uniCOIL head."""
_DEEP_IMPACT_HEAD = "impact_score_encoder."
MODULES = "modules.json"
"""File of sentence-transformers that lists the modules of a model."""
_ROUTER = "router_config.json"
_TASK = "fill-mask"
_POSITIONS = 512
_UNLIMITED = 100_000
"""Transformers writes 10^30 for a tokenizer without a limit."""
_SATURATION = {"relu": "log", "log1p_relu": "log-log"}
"""``activation_function`` of SpladePooling: log(1 + ReLU(x)), or log(1 + log(1 + ReLU(x)))."""
_UNRECORDED = (
    "pooling", "saturation", "expansion", "query", "query_weighting", "bow_special_tokens", "block_special_terms",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A folder of another tool."""

    architecture: str = "splade"
    settings: dict[str, Any]
    vocabulary_size: int
    max_length: dict[str, int]
    scale: float = 100.0
    towers: dict[str, str] = field(default_factory=lambda: {"document": ""})
    """Folders of the towers below that of the model."""
    unrecorded: tuple[str, ...] = ()
    """Settings that the folder does not say; ``--set`` may change them."""
    assumed_length: bool = False
    """Whether the folder does not say ``max_length`` either."""


def read_foreign(folder: Path) -> Foreign:
    """The description of ``folder``; raise if its vectors cannot be computed exactly."""
    if (folder / MODULES).exists():
        return _sentence_transformers(folder)
    if (folder / _ROUTER).exists():
        _refuse(folder / _ROUTER, f"a Router without {MODULES}")
    size = _vocabulary_size(folder)
    if (
        folder / IDF
    ).exists():  # the code in the model cards of opensearch-project/opensearch-neural-sparse-encoding-doc-*
        return Foreign(
            settings={
                "pooling": "max",
                "query": "bag-of-words",
                "query_weighting": "idf",
                "block_special_terms": "special",
            },
            vocabulary_size=size,
            max_length=dict.fromkeys(("query", "document"), _length(folder)),
            towers={"document": "", "query_weights": ""},
            unrecorded=("saturation", "block_special_terms"),
        )
    tensors = require_safetensors(folder, folder) if any(folder.glob("*.safetensors")) else []
    if any(name.startswith(_DEEP_IMPACT_HEAD) for name in tensors):
        _refuse(folder, "DeepImpact weighs whole words, which are no tokens of its vocabulary")
    if any(name.startswith(UNICOIL_HEAD) for name in tensors):
        return _unicoil(folder, size)
    stated = _stated_length(folder)
    return Foreign(
        settings={"pooling": "max"},
        vocabulary_size=size,
        max_length=dict.fromkeys(("query", "document"), stated or min(256, _positions(folder))),  # as naver/splade
        unrecorded=_UNRECORDED,
        assumed_length=stated is None,
    )


def _unicoil(folder: Path, size: int) -> Foreign:
    """As Pyserini's UniCoilEncoder: every token but [CLS] is a term; impacts are round(w / 5 * 256)."""
    return Foreign(
        architecture="unicoil",
        settings={"bow_special_tokens": "separators", "expanded": False},
        vocabulary_size=size,
        max_length={"query": min(128, _positions(folder)), "document": min(512, _positions(folder))},
        scale=51.2,
    )


def _sentence_transformers(folder: Path) -> Foreign:
    path = folder / MODULES
    content = read_json(path)
    modules = content if isinstance(content, list) else []
    rows = [entry for entry in modules if isinstance(entry, Mapping)]
    names = [_class(row.get("type")) for row in rows]
    settings = _mapping(folder / "config_sentence_transformers.json", optional=True)
    if any(_mapping_in(settings, "prompts").values()):
        _refuse(folder / "config_sentence_transformers.json", "texts are preceded by prompts")
    if settings.get("similarity_fn_name") not in {None, "dot"}:
        _refuse(folder / "config_sentence_transformers.json", "scores are no dot products")
    if names == ["Router"] and len(rows) == len(modules):
        if rows[0].get("path") != "":
            _refuse(path, "its Router is not in this folder")
        return _router(folder)
    if len(rows) != len(modules) or names not in (
        ["MLMTransformer", "SpladePooling"],
        ["Transformer", "SpladePooling"],
    ):
        _refuse(path, f"its modules are {', '.join(names) or 'not listed'}, not a masked-LM and SpladePooling")
    for name in (IDF, _ROUTER):
        if (folder / name).exists():
            _refuse(folder / name, f"queries have an encoder of their own, which {MODULES} does not name")
    below = rows[1].get("path")
    if rows[0].get("path") != "" or not (isinstance(below, str) and is_name(below)):
        _refuse(path, "its masked-LM is not in this folder, or its SpladePooling not in a folder below")
    _check_transformer(folder)
    return Foreign(
        settings=_pooling(folder / below),
        vocabulary_size=_vocabulary_size(folder),
        max_length=dict.fromkeys(("query", "document"), _length(folder)),
    )


def _router(folder: Path) -> Foreign:
    """A module list for each side: the same masked-LM, another one, or static weights of queries."""
    path = next((path for name in (_ROUTER, "config.json") if (path := folder / name).exists()), folder / _ROUTER)
    content = _mapping(path)
    types, routes = _mapping_in(content, "types"), _mapping_in(content, "structure")
    if set(routes) != {"query", "document"} or not all(isinstance(route, list) for route in routes.values()):
        _refuse(path, f"its routes are {', '.join(map(str, routes)) or 'not listed'}, not lists for query and document")
    for name in (name for route in routes.values() for name in route):
        if not (name == "" or (isinstance(name, str) and is_name(name))) or name not in types:
            _refuse(path, f"the module {name!r} has no type, or is not in a folder below")
    kinds = {side: [_class(types[name]) for name in route] for side, route in routes.items()}
    document = _splade_route(folder, path, "document", routes["document"], kinds["document"])
    settings, lengths = _pooling(folder / routes["document"][1]), {"document": _length(document)}
    towers = {"document": routes["document"][0]}
    if routes["query"] == routes["document"]:
        lengths["query"] = lengths["document"]
    elif kinds["query"] == ["SparseStaticEmbedding"]:
        query = folder / routes["query"][0]
        _check_tokenizers(document, query)
        towers["query_weights"] = routes["query"][0]
        settings |= {"query": "bag-of-words", "query_weighting": "learned"}
        lengths["query"] = _static_length(query)
    else:
        query = _splade_route(folder, path, "query", routes["query"], kinds["query"])
        _check_tokenizers(document, query)
        if _pooling(folder / routes["query"][1]) != settings:
            _refuse(path, "queries and documents are pooled differently")
        towers["query"] = routes["query"][0]
        settings |= {"query": "separate"}
        lengths["query"] = _length(query)
    return Foreign(settings=settings, vocabulary_size=_vocabulary_size(document), max_length=lengths, towers=towers)


def _splade_route(folder: Path, path: Path, side: str, route: Sequence[str], kinds: Sequence[str]) -> Path:
    """The folder of the masked-LM of a route."""
    if len(kinds) != 2 or kinds[0] not in {"MLMTransformer", "Transformer"} or kinds[1] != "SpladePooling":
        listed = ", ".join(kinds) or "not listed"
        _refuse(path, f"the modules of the side {side} are {listed}, not a masked-LM and SpladePooling")
    _check_transformer(folder / route[0])
    return folder / route[0]


def _check_transformer(folder: Path) -> None:
    path = folder / "sentence_bert_config.json"
    content = _mapping(path, optional=True)
    if (task := content.get("transformer_task", _TASK)) != _TASK:
        _refuse(path, f"its transformer_task is {task!r}, not {_TASK!r}")
    if content.get("do_lower_case"):
        _refuse(path, "texts are lower-cased before the tokenizer reads them")


def _pooling(folder: Path) -> dict[str, Any]:
    """Settings of SPLADE for a SpladePooling."""
    path = folder / "config.json"
    content = _mapping(path)
    pooling, activation = content.get("pooling_strategy", "max"), content.get("activation_function", "relu")
    known = pooling in ("max", "sum") and activation in ("relu", "log1p_relu")
    if not known or (pooling == "sum" and activation != "relu"):
        _refuse(path, f"pooling_strategy {pooling!r} with activation_function {activation!r}")
    return {"pooling": pooling} | ({} if activation == "relu" else {"saturation": _SATURATION[activation]})


def _check_tokenizers(document: Path, query: Path) -> None:
    if tokenizer_sha256(read_tokenizer(document)) != tokenizer_sha256(read_tokenizer(query)):
        _refuse(query / TOKENIZER, f"tokenizes otherwise than {document / TOKENIZER}")


def _length(folder: Path) -> int:
    """Tokens of a masked-LM: as the folder says, else as many as the model can read."""
    return _stated_length(folder) or _positions(folder)


def _stated_length(folder: Path) -> int | None:
    """Tokens of a masked-LM as sentence-transformers read it: ``max_seq_length``, else the limit of the tokenizer."""
    recorded = _mapping(folder / "sentence_bert_config.json", optional=True).get("max_seq_length")
    length = recorded or _mapping(folder / "tokenizer_config.json", optional=True).get("model_max_length")
    if not isinstance(length, int | float) or length >= _UNLIMITED:
        return None
    return int(min(length, _positions(folder)))


def _static_length(folder: Path) -> int:
    """Tokens of a SparseStaticEmbedding, which adds no special tokens; ours counts them."""
    length = _mapping(folder / "tokenizer_config.json", optional=True).get("model_max_length", _UNLIMITED)
    limit = length if isinstance(length, int | float) else _UNLIMITED
    return int(min(limit, _UNLIMITED)) + int(read_tokenizer(folder).num_special_tokens_to_add(False))


def _positions(folder: Path) -> int:
    return int(getattr(read_config(folder, folder), "max_position_embeddings", None) or _POSITIONS)


def _vocabulary_size(folder: Path) -> int:
    config = read_config(folder, folder)
    if not isinstance(size := getattr(config, "vocab_size", None), int):
        raise LearnedSparseError(f"{folder}: {config.model_type} has no vocabulary; use a masked-LM such as BERT")
    return size


def read_table(folder: Path) -> npt.NDArray[np.float32]:
    """Weights of terms ``(vocabulary,)`` of OpenSearch's ``idf.json``, or of a SparseStaticEmbedding."""
    if (folder / IDF).exists():
        path, weights = folder / IDF, _idf(folder)
    else:
        path, weights = folder / "model.safetensors", _static_weight(folder)
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any():
        raise LearnedSparseError(f"{path}: a weight is negative or not finite, which an index cannot hold")
    return weights


def _idf(folder: Path) -> npt.NDArray[np.float32]:
    content, vocabulary = _mapping(folder / IDF), read_tokenizer(folder).get_vocab()
    weights = np.zeros(_vocabulary_size(folder), np.float32)
    for term, weight in content.items():
        if not isinstance(weight, int | float) or vocabulary.get(term, len(weights)) >= len(weights):
            raise LearnedSparseError(f"{folder / IDF}: {term!r} is no token of the model, or {weight!r} no number")
        weights[vocabulary[term]] = weight
    return weights


def _static_weight(folder: Path) -> npt.NDArray[np.float32]:
    path = folder / "model.safetensors"
    if "path" in _mapping(folder / "config.json", optional=True):
        _refuse(folder / "config.json", "its weights are in another file or repository")
    try:
        return np.asarray(load_file(path)[STATIC_WEIGHT], np.float32)
    except (OSError, KeyError, SafetensorError) as error:
        raise LearnedSparseError(f"{path}: no weights of terms ({error}); copy or download the model again") from error


def _class(name: Any) -> str:
    return str(name).rpartition(".")[2]


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
        f"{path}: {reason}; SPLADE here would give other vectors. It reads max pooling of log(1 + ReLU) or of "
        "log(1 + log(1 + ReLU)), sum pooling of log(1 + ReLU), and static weights of queries, all without prompts"
    )
