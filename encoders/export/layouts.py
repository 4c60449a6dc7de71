"""The files of each tool, written into an empty folder. Each writer returns notes for the user: what the tool changes.

sentence-transformers: the class names of 5.0, which 5 and 6 read; a ``Router`` where the two sides differ. Pyserini:
the folder of a masked-LM for its ``SpladeQueryEncoder`` and ``SpladeDocumentEncoder`` (max pooling, impacts
round(w / 5 * 256)). OpenSearch: a masked-LM, its tokenizer, and ``idf.json`` with weights of terms in queries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from encoders.encoding.model import LoadedModel
from encoders.export.form import Form, with_blocked_terms
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, write_json

_MODELS = "sentence_transformers.sparse_encoder.models"
_MASKED_LM, _POOLING, _STATIC = (
    f"{_MODELS}.MLMTransformer",
    f"{_MODELS}.SpladePooling",
    f"{_MODELS}.SparseStaticEmbedding",
)
BIN_COMMAND = (
    "python -c "
    "\"import torch, safetensors.torch as s; torch.save(s.load_file('model.safetensors'), 'pytorch_model.bin')\""
)
PYSERINI_NOTES = (
    "impacts are round(w / 5 * 256): encode documents with --quantization-factor 51.2 and queries likewise",
    "Pyserini 2.3 reads weights from pytorch_model.bin only; in the folder, make it with " + BIN_COMMAND,
)
_ROUTER = "sentence_transformers.models.Router"


def write_sentence_transformers(folder: Path, model: LoadedModel, form: Form) -> list[str]:
    """A SparseEncoder. Static queries are boolean there, so term frequencies are refused."""
    if form.counts:
        raise LearnedSparseError("query_weighting: tf: static queries of sentence-transformers count a term once")
    write_json(
        folder / "config_sentence_transformers.json",
        {
            "model_type": "SparseEncoder",
            "prompts": model.prompts,
            "default_prompt_name": None,
            "similarity_fn_name": "dot",
            "__version__": {"sentence_transformers": "5.0.0"},
        },
    )
    lengths = model.max_length
    if form.symmetric:
        length = max(lengths.values())
        _masked_lm(folder, model, form, form.document, length)
        _pooling(folder / "1_SpladePooling", form)
        _modules(folder, {"": _MASKED_LM, "1_SpladePooling": _POOLING})
        shorter = [side for side, tokens in lengths.items() if tokens < length]
        return [
            f"texts of both sides are truncated at {length} tokens; here the {side} at {lengths[side]}"
            for side in shorter
        ]
    _masked_lm(folder, model, form, form.document, lengths["document"])
    _pooling(folder / "document_1_SpladePooling", form)
    types = {"": _MASKED_LM, "document_1_SpladePooling": _POOLING}
    if form.table is not None:
        query = ["query_0_SparseStaticEmbedding"]
        types[query[0]] = _STATIC
        _static(folder / query[0], model, form.table)
    else:
        query = ["query_0_MLMTransformer", "query_1_SpladePooling"]
        types |= dict(zip(query, (_MASKED_LM, _POOLING), strict=True))
        _masked_lm(folder / query[0], model, form, form.query, lengths["query"])
        _pooling(folder / query[1], form)
    structure = {"query": query, "document": ["", "document_1_SpladePooling"]}
    parameters = {"default_route": "document", "allow_empty_key": True}
    write_json(folder / "router_config.json", {"types": types, "structure": structure, "parameters": parameters})
    _modules(folder, {"": _ROUTER})
    return []


def write_pyserini(folder: Path, model: LoadedModel, form: Form) -> list[str]:
    """One masked-LM, or ``document`` and ``query`` if they differ."""
    _refuse_prompts(model)
    if (form.pooling, form.activation) != ("max", "relu"):
        raise LearnedSparseError("Pyserini's SPLADE encoders know max pooling of log(1 + ReLU) only")
    notes = list(PYSERINI_NOTES)
    if form.symmetric:
        _masked_lm(folder, model, form, form.document, max(model.max_length.values()))
        return notes
    _masked_lm(folder / "document", model, form, form.document, model.max_length["document"])
    if form.query is not None:
        _masked_lm(folder / "query", model, form, form.query, model.max_length["query"])
        return notes
    if form.counts:
        write_tokenizer(folder / "query", model, model.max_length["query"])
        return [*notes, "queries: TokFreqQueryEncoder, which counts terms and truncates nothing"]
    return [
        *notes,
        "queries: Pyserini has no encoder with these weights; learned_sparse.encode --queries writes them as topics",
    ]


def write_opensearch(folder: Path, model: LoadedModel, form: Form) -> list[str]:
    """A doc-only model: documents by the masked-LM, queries by ``tokenizer.json`` and ``idf.json``."""
    _refuse_prompts(model)
    if form.table is None or form.counts or form.pooling != "max":
        raise LearnedSparseError(
            "OpenSearch's doc-only form is max pooling for documents, and one weight for each term in queries "
            "(query: bag-of-words with query_weighting: binary, idf or learned)"
        )
    _masked_lm(folder, model, form, form.document, model.max_length["document"])
    special = set(model.tokenizer.all_special_ids)
    terms = model.tokenizer.convert_ids_to_tokens(range(len(form.table)))
    weights = {
        term: weight
        for number, (term, weight) in enumerate(zip(terms, form.table.tolist(), strict=True))
        if weight and term is not None and number not in special
    }
    write_json(folder / "idf.json", weights)
    notes = ["OpenSearch's own code sets the weights of special terms such as [UNK] to 0; idf.json leaves them out"]
    if form.activation != "relu":
        notes.append("idf.json does not say that documents take log(1 + log(1 + ReLU)): here, --set saturation=log-log")
    return notes


def _refuse_prompts(model: LoadedModel) -> None:
    if model.prompts:
        raise LearnedSparseError("prompts: this tool has none; sentence-transformers has")


def _masked_lm(folder: Path, model: LoadedModel, form: Form, tower: Any, length: int) -> None:
    with with_blocked_terms(tower, form.blocked):
        tower.save(folder)
    write_tokenizer(folder, model, length)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})


def write_tokenizer(folder: Path, model: LoadedModel, length: int) -> None:
    """The tokenizer of ``model``, which truncates texts at ``length`` tokens."""
    tokenizer, before = model.tokenizer, model.tokenizer.model_max_length
    tokenizer.model_max_length = length
    try:
        tokenizer.save_pretrained(folder)
    finally:
        tokenizer.model_max_length = before


def _pooling(folder: Path, form: Form) -> None:
    folder.mkdir()
    content = {
        "pooling_strategy": form.pooling,
        "activation_function": form.activation,
        "word_embedding_dimension": form.document.vocabulary_size,
    }
    write_json(folder / "config.json", content)


def _static(folder: Path, model: LoadedModel, table: Tensor) -> None:
    """Weights of terms; the tokenizer adds no special tokens there, so that its limit leaves room for ours."""
    special = model.tokenizer.num_special_tokens_to_add()
    write_tokenizer(folder, model, model.max_length["query"] - special)
    write_json(folder / "config.json", {"frozen": True})
    with atomic_write(folder / "model.safetensors") as file:
        file.write(save({"weight": table.contiguous()}))


def _modules(folder: Path, types: Mapping[str, str]) -> None:
    rows = [
        {"idx": number, "name": str(number), "path": path, "type": name}
        for number, (path, name) in enumerate(types.items())
    ]
    with atomic_write(folder / "modules.json") as file:
        file.write(json.dumps(rows, indent=2).encode())
