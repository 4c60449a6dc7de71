"""What folders of other tools say, read without torch.

Layouts: sentence-transformers 5 and 6 (``modules.json``; a ``Router`` has a module list for each side), OpenSearch
doc-only (``idf.json``), Pyserini's uniCOIL (a masked-LM's encoder and ``tok_proj``), and plain masked-LMs such as
``naver/splade*``, which say nothing about pooling or queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from encoders.checkpoints.hub import MODULES, read_config, read_object, tensor_names
from encoders.checkpoints.tokenizer import TOKENIZER, read_tokenizer, tokenizer_sha256
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import is_name, read_json
from learned_sparse.core.quantize import Quantizer

SIDES = ("query", "document")
TABLE = "weights.safetensors"
"""Weights of terms in ``towers/NAME``, for a bag of words that has a table."""
IDF = "idf.json"
STATIC_WEIGHT = "weight"
"""Tensor of a ``SparseStaticEmbedding``."""
UNICOIL_HEAD = "tok_proj."
"""Prefix of the tensors of Pyserini's uniCOIL head."""
_DEEP_IMPACT_HEAD = "impact_score_encoder."
ROUTER = "router_config.json"
_POSITIONS = 512
_UNLIMITED = 100_000
"""Transformers writes 10^30 for a tokenizer without a limit."""
SATURATION = {"relu": "log", "log1p_relu": "log-log"}
"""``activation_function`` of SpladePooling: log(1 + ReLU(x)), or log(1 + log(1 + ReLU(x)))."""
_UNRECORDED = (
    "pooling", "saturation", "expansion", "query", "query_weighting", "bow_special_tokens", "block_special_terms",
)  # fmt: skip


def fields_of(folder: Path) -> dict[str, Any]:
    """The fields of ``CheckpointNotes`` for a folder of another tool.

    Raises if its vectors cannot be computed exactly.
    """
    if (folder / MODULES).exists():
        return _sentence_transformers(folder)
    if (folder / ROUTER).exists():
        _refuse(folder / ROUTER, f"a Router without {MODULES}")
    size, positions, stated = _masked_lm(folder)
    if (folder / IDF).exists():
        # the code in the model cards of opensearch-project/opensearch-neural-sparse-encoding-doc-*
        settings = {"pooling": "max", "query": "bag-of-words", "query_weighting": "idf"}
        return _foreign(
            {**settings, "block_special_terms": "special"}, size, dict.fromkeys(SIDES, stated or positions),
            towers={"document": "", "query_weights": ""}, unrecorded=("saturation", "block_special_terms"),
        )  # fmt: skip
    tensors = tensor_names(folder) if any(folder.glob("*.safetensors")) else []
    if any(name.startswith(_DEEP_IMPACT_HEAD) for name in tensors):
        _refuse(folder, "DeepImpact weighs whole words, which are no tokens of its vocabulary")
    if any(name.startswith(UNICOIL_HEAD) for name in tensors):
        # as Pyserini's UniCoilEncoder: every token but [CLS] is a term; impacts are round(w / 5 * 256)
        lengths = {"query": min(128, positions), "document": min(512, positions)}
        unicoil: dict[str, Any] = {"bow_special_tokens": "separators", "expanded": False}
        return _foreign(unicoil, size, lengths, architecture="unicoil", scale=51.2)
    lengths = dict.fromkeys(SIDES, stated or min(256, positions))  # as naver/splade
    return _foreign({"pooling": "max"}, size, lengths, unrecorded=_UNRECORDED, assumed_length=stated is None)


def _foreign(
    settings: dict[str, Any], size: int, lengths: dict[str, int], *, scale: float = 100.0, **others: Any
) -> dict[str, Any]:
    """A SPLADE of another tool, unless ``others`` say otherwise."""
    return {
        "architecture": "splade",
        "towers": {"document": ""},
        "settings": settings,
        "vocabulary_size": size,
        "max_length": lengths,
        "quantizers": dict.fromkeys(SIDES, Quantizer(scale)),
        **others,
    }


def _sentence_transformers(folder: Path) -> dict[str, Any]:
    """One list of modules for both sides, or a ``Router`` with a list for each side.

    Queries have the masked-LM of documents, another one, or static weights.
    """
    path = folder / MODULES
    content = read_json(path)
    rows = content if isinstance(content, list) and all(isinstance(row, Mapping) for row in content) else []
    recorded = read_object(folder / "config_sentence_transformers.json", optional=True)
    if recorded.get("similarity_fn_name") not in {None, "dot"}:
        _refuse(folder / "config_sentence_transformers.json", "scores are no dot products")
    paths = [str(row.get("path", "/")) for row in rows]
    types: Mapping[str, Any] = {path: row.get("type") for path, row in zip(paths, rows, strict=True)}
    routes: Mapping[str, Any] = dict.fromkeys(SIDES, paths)
    if [_class(row.get("type")) for row in rows] == ["Router"]:
        if paths != [""]:
            _refuse(path, "its Router is not in this folder")
        path = folder / (ROUTER if (folder / ROUTER).exists() else "config.json")
        types, routes = (_mapping_in(read_object(path), key) for key in ("types", "structure"))
        if set(routes) != set(SIDES) or not all(isinstance(route, list) for route in routes.values()):
            listed = ", ".join(map(str, routes)) or "not listed"
            _refuse(path, f"its routes are {listed}, not lists for query and document")
    else:
        for name in (IDF, ROUTER):
            if (folder / name).exists():
                _refuse(folder / name, f"queries have an encoder of their own, which {MODULES} does not name")
    for name in (name for route in routes.values() for name in route):
        if not (name == "" or (isinstance(name, str) and is_name(name))) or name not in types:
            _refuse(path, f"the module {name!r} has no type, or is not in a folder below")
    settings, size, length = _splade(folder, path, routes["document"], types)
    towers, lengths = {"document": routes["document"][0]}, dict.fromkeys(SIDES, length)
    document, query = (folder / next(iter(routes[side]), "") for side in ("document", "query"))
    if [_class(types[name]) for name in routes["query"]] == ["SparseStaticEmbedding"]:
        towers["query_weights"] = routes["query"][0]
        settings |= {"query": "bag-of-words", "query_weighting": "learned"}
        length = read_object(query / "tokenizer_config.json", optional=True).get("model_max_length", _UNLIMITED)
        limit = length if isinstance(length, int | float) else _UNLIMITED
        # no special tokens are added there; ours counts them
        lengths["query"] = int(min(limit, _UNLIMITED)) + int(read_tokenizer(query).num_special_tokens_to_add(False))
    elif routes["query"] != routes["document"]:
        pooling, _, lengths["query"] = _splade(folder, path, routes["query"], types)
        if pooling != settings:
            _refuse(path, "queries and documents are pooled differently")
        towers["query"] = routes["query"][0]
        settings |= {"query": "separate"}
    if query != document and len({tokenizer_sha256(read_tokenizer(each)) for each in (document, query)}) > 1:
        _refuse(query / TOKENIZER, f"tokenizes otherwise than {document / TOKENIZER}")
    # those that encode_query and encode_document of sentence-transformers 6 use
    prompts = _mapping_in(recorded, "prompts")
    prompts = {side: prompt for side in SIDES if isinstance(prompt := prompts.get(side), str) and prompt}
    return _foreign(settings, size, lengths, towers=towers, prompts=prompts)


def _splade(
    folder: Path, path: Path, route: Sequence[str], types: Mapping[str, Any]
) -> tuple[dict[str, Any], int, int]:
    """Settings of SPLADE for a masked-LM and its SpladePooling, number of its token ids, and maximum length.

    ``path`` is the file that lists the modules of ``route``.
    """
    kinds = [_class(types[name]) for name in route]
    if kinds not in (["MLMTransformer", "SpladePooling"], ["Transformer", "SpladePooling"]):
        _refuse(path, f"its modules are {', '.join(kinds) or 'not listed'}, not a masked-LM and SpladePooling")
    transformer = folder / route[0] / "sentence_bert_config.json"
    content = read_object(transformer, optional=True)
    if (task := content.get("transformer_task", "fill-mask")) != "fill-mask":
        _refuse(transformer, f"its transformer_task is {task!r}, not 'fill-mask'")
    if content.get("do_lower_case"):
        _refuse(transformer, "texts are lower-cased before the tokenizer reads them")
    pooling = folder / route[1] / "config.json"
    content = read_object(pooling)
    kind = content.get("pooling_strategy", "max"), content.get("activation_function", "relu")
    if kind not in (("max", "relu"), ("sum", "relu"), ("max", "log1p_relu")):
        _refuse(pooling, f"pooling_strategy {kind[0]!r} with activation_function {kind[1]!r}")
    settings = {"pooling": kind[0]} | ({} if kind[1] == "relu" else {"saturation": SATURATION[kind[1]]})
    size, positions, stated = _masked_lm(folder / route[0])
    return settings, size, stated or positions


def _masked_lm(folder: Path) -> tuple[int, int, int | None]:
    """Token ids of a masked-LM, the tokens that it can read, and the limit that its folder states.

    That limit is ``max_seq_length`` of sentence-transformers, else the one of the tokenizer.
    """
    config = read_config(folder)
    if not isinstance(size := getattr(config, "vocab_size", None), int):
        raise LearnedSparseError(f"{folder}: {config.model_type} has no vocabulary; use a masked-LM such as BERT")
    positions = int(getattr(config, "max_position_embeddings", None) or _POSITIONS)
    recorded = read_object(folder / "sentence_bert_config.json", optional=True).get("max_seq_length")
    length = recorded or read_object(folder / "tokenizer_config.json", optional=True).get("model_max_length")
    if not isinstance(length, int | float) or length >= _UNLIMITED:
        return size, positions, None
    return size, positions, int(min(length, positions))


def read_table(folder: Path, size: int | None = None) -> npt.NDArray[np.float32]:
    """Weights of terms ``(vocabulary,)``: of a checkpoint, of OpenSearch's ``idf.json``, or a SparseStaticEmbedding."""
    path, key = folder / TABLE, "weights"
    if (folder / IDF).exists():
        path, vocabulary = folder / IDF, read_tokenizer(folder).get_vocab()
        weights = np.zeros(_masked_lm(folder)[0], np.float32)
        for term, weight in read_object(path).items():
            if not isinstance(weight, int | float) or vocabulary.get(term, len(weights)) >= len(weights):
                raise LearnedSparseError(f"{path}: {term!r} is no token of the model, or {weight!r} no number")
            weights[vocabulary[term]] = weight
    else:
        if not path.exists() and (folder / "model.safetensors").exists():
            path, key = folder / "model.safetensors", STATIC_WEIGHT
            if "path" in read_object(folder / "config.json", optional=True):
                _refuse(folder / "config.json", "its weights are in another file or repository")
        try:
            weights = np.asarray(load_file(path)[key], np.float32)
        except (OSError, KeyError, SafetensorError) as error:
            raise LearnedSparseError(f"{path}: no table of weights ({error}); copy the checkpoint again") from error
    if weights.shape != (size or len(weights),) or not np.isfinite(weights).all() or (weights < 0).any():
        raise LearnedSparseError(
            f"{path}: not {size or len(weights):,} weights of terms, finite and 0 or above; copy the checkpoint again"
        )
    return weights


def _class(name: Any) -> str:
    return str(name).rpartition(".")[2]


def _mapping_in(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key)
    return value if isinstance(value, Mapping) else {}


def _refuse(path: Path, reason: str) -> NoReturn:
    raise LearnedSparseError(
        f"{path}: {reason}; SPLADE here would give other vectors. It reads max pooling of log(1 + ReLU) or of "
        "log(1 + log(1 + ReLU)), sum pooling of log(1 + ReLU), and static weights of queries"
    )
