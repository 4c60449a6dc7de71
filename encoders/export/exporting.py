"""A checkpoint into the folder of another tool, whole or not at all.

sentence-transformers: the class names of 5.0, which 5 and 6 read; a ``Router`` where the two sides differ. Pyserini:
the folder of a masked-LM for its ``SpladeQueryEncoder`` and ``SpladeDocumentEncoder`` (max pooling, impacts
round(w / 5 * 256)), or of its uniCOIL encoders. OpenSearch: a masked-LM, its tokenizer, and ``idf.json`` with weights
of terms in queries.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

import torch
import yaml
from torch import Tensor

from encoders.backbone.towers import LanguageModel, write_tensors
from encoders.checkpoints.foreign import IDF, ROUTER, SATURATION, UNICOIL_HEAD
from encoders.checkpoints.hub import MODULES
from encoders.checkpoints.notes import as_json
from encoders.encoding.model import LoadedModel, save_checkpoint
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_folder, write_json

RECORD = "learned_sparse_export.json"
"""What was exported; a folder that has it may be replaced."""
BIN_COMMAND = (
    "python -c "
    "\"import torch, safetensors.torch as s; torch.save(s.load_file('model.safetensors'), 'pytorch_model.bin')\""
)
_PYSERINI_NOTES = (
    "impacts are round(w / 5 * 256): encode documents with --quantization-factor 51.2 and queries likewise",
    "Pyserini 2.3 reads weights from pytorch_model.bin only; in the folder, make it with " + BIN_COMMAND,
)
_PYSERINI_QUERY_TOKENS = 128
"""Tokens of a query of uniCOIL, fixed in Pyserini's code."""
_USES = {
    "sentence-transformers": 'sentence_transformers.SparseEncoder("NAME").encode_query("what are hives")',
    "pyserini": 'pyserini.encode.ENCODER("NAME").encode("what are hives")',
    "opensearch": "documents by max pooling of the masked-LM, queries by the weights of their tokens in idf.json",
    "learned-sparse": "python -m learned_sparse.encode --checkpoint NAME --input corpus.jsonl --output vectors",
}
_MODELS = "sentence_transformers.sparse_encoder.models"
_ACTIVATIONS = {saturation: activation for activation, saturation in SATURATION.items()}
_NEVER_POSITIVE = -1e4
"""Output bias of a blocked term; fp16 can hold it."""


def export_model(
    model: LoadedModel,
    output: Path,
    target: str,
    *,
    licence: str | None = None,
    overwrite: bool = False,
) -> list[str]:
    """Write ``model`` into the folder ``output`` for ``target``, with a model card.

    Returns notes on what the tool does differently. A model without such a form raises an error with the reason, and
    nothing is written.
    """
    with new_folder(output) as folder:
        if output.exists() and any(output.iterdir()) and not (overwrite and (output / RECORD).is_file()):
            way_out = "replace it with --overwrite" if (output / RECORD).is_file() else "name another folder"
            raise LearnedSparseError(f"{output}: exists and holds files; {way_out}")
        notes: list[str] = []
        if target == "learned-sparse":
            save_checkpoint(folder, model)
        elif target == "pyserini" and model.architecture == "unicoil":
            notes = _unicoil(folder, model)
        else:
            _check_splade(model, target)
            notes = {
                "sentence-transformers": _sentence_transformers,
                "pyserini": _pyserini,
                "opensearch": _opensearch,
            }[target](folder, model)
        (folder / "README.md").write_text(_card(model, output.name, target, licence), encoding="utf-8")
        write_json(
            folder / RECORD,
            {"target": target, "architecture": model.architecture, "settings": as_json(model.settings), "notes": notes},
            record=True,
        )
    return notes


def _check_splade(model: LoadedModel, target: str) -> None:
    """Raise with the reason unless other tools know the model as SPLADE."""
    settings = model.settings
    if model.architecture != "splade":
        _refuse(
            f"{model.architecture}: other tools have no such model; they know SPLADE, with or without a network for "
            "queries, and Pyserini knows uniCOIL. Export its vectors instead"
        )
    for name, value in (("expansion", "full"), ("pool_special_tokens", True)):
        if getattr(settings, name) != value:
            _refuse(f"{name}: {getattr(settings, name)}: other tools know {value} only")
    if settings.saturation not in _ACTIVATIONS:
        _refuse(f"saturation: {settings.saturation}: other tools take the logarithm of all weights")
    for tower in (tower for tower in model.towers.values() if isinstance(tower, LanguageModel)):
        if tower.has_added_bias:
            _refuse("idf_bias gave this backbone an output bias, which other tools do not read")
        if tower.causal:
            _refuse("a decoder LM: other tools compute SPLADE with masked-LMs only")
    if model.prompts and target != "sentence-transformers":
        _refuse("prompts: this tool has none; sentence-transformers has")


def _sentence_transformers(folder: Path, model: LoadedModel) -> list[str]:
    """A SparseEncoder. Static queries are boolean there, so term frequencies are refused."""
    settings, lengths = model.settings, model.max_length
    bag = settings.query == "bag-of-words"
    if bag and settings.query_weighting == "tf":
        _refuse("query_weighting: tf: static queries of sentence-transformers count a term once")
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
    masked_lm, pooling, static = (
        f"{_MODELS}.{name}" for name in ("MLMTransformer", "SpladePooling", "SparseStaticEmbedding")
    )
    if settings.query == "same":
        length = max(lengths.values())
        _masked_lm(folder, model, length, pooling="1_SpladePooling")
        types, notes = (
            {"": masked_lm, "1_SpladePooling": pooling},
            [
                f"texts of both sides are truncated at {length} tokens; here the {side} at {tokens}"
                for side, tokens in lengths.items()
                if tokens < length
            ],
        )
    else:
        _masked_lm(folder, model, lengths["document"], pooling="document_1_SpladePooling")
        document = {"": masked_lm, "document_1_SpladePooling": pooling}
        if bag:
            query = {"query_0_SparseStaticEmbedding": static}
            # the tokenizer adds no special tokens there, so that its limit leaves room for ours
            below, special = folder / "query_0_SparseStaticEmbedding", model.tokenizer.num_special_tokens_to_add()
            _tokenizer(below, model, lengths["query"] - special)
            write_json(below / "config.json", {"frozen": True})
            write_tensors(below / "model.safetensors", {"weight": _table(model)})
        else:
            query = {"query_0_MLMTransformer": masked_lm, "query_1_SpladePooling": pooling}
            below = folder / "query_0_MLMTransformer"
            _masked_lm(below, model, lengths["query"], "query", pooling="../query_1_SpladePooling")
        structure = {"query": list(query), "document": list(document)}
        parameters = {"default_route": "document", "allow_empty_key": True}
        write_json(folder / ROUTER, {"types": document | query, "structure": structure, "parameters": parameters})
        types, notes = {"": "sentence_transformers.models.Router"}, []
    rows = [
        {"idx": number, "name": str(number), "path": path, "type": name}
        for number, (path, name) in enumerate(types.items())
    ]
    write_json(folder / MODULES, rows)
    return notes


def _pyserini(folder: Path, model: LoadedModel) -> list[str]:
    """One masked-LM, or ``document`` and ``query`` if they differ."""
    settings, lengths, notes = model.settings, model.max_length, list(_PYSERINI_NOTES)
    if (settings.pooling, settings.saturation) != ("max", "log"):
        _refuse("Pyserini's SPLADE encoders know max pooling of log(1 + ReLU) only")
    if settings.query == "same":
        _masked_lm(folder, model, max(lengths.values()))
        return notes
    _masked_lm(folder / "document", model, lengths["document"])
    if settings.query == "separate":
        _masked_lm(folder / "query", model, lengths["query"], "query")
        return notes
    if settings.query_weighting == "tf":
        _tokenizer(folder / "query", model, lengths["query"])
        return [*notes, "queries: TokFreqQueryEncoder, which counts terms and truncates nothing"]
    return [
        *notes,
        "queries: Pyserini has no encoder with these weights; learned_sparse.encode --queries writes them as topics",
    ]


def _opensearch(folder: Path, model: LoadedModel) -> list[str]:
    """A doc-only model: documents by the masked-LM, queries by ``tokenizer.json`` and ``idf.json``."""
    settings = model.settings
    if settings.query != "bag-of-words" or settings.query_weighting == "tf" or settings.pooling != "max":
        _refuse(
            "OpenSearch's doc-only form is max pooling for documents, and one weight for each term in queries "
            "(query: bag-of-words with query_weighting: binary, idf or learned)"
        )
    _masked_lm(folder, model, model.max_length["document"])
    special, table = set(model.tokenizer.all_special_ids), _table(model).tolist()
    terms = model.tokenizer.convert_ids_to_tokens(range(len(table)))
    weights = {
        term: weight
        for number, (term, weight) in enumerate(zip(terms, table, strict=True))
        if weight and term is not None and number not in special
    }
    write_json(folder / IDF, weights)
    notes = ["OpenSearch's own code sets the weights of special terms such as [UNK] to 0; idf.json leaves them out"]
    if settings.saturation != "log":
        notes.append("idf.json does not say that documents take log(1 + log(1 + ReLU)): here, --set saturation=log-log")
    return notes


def _unicoil(folder: Path, model: LoadedModel) -> list[str]:
    """One encoder with its head for Pyserini's ``UniCoilQueryEncoder``, or ``document`` and ``query`` if they differ.

    Raises if Pyserini's classes would compute other weights than ``model``.
    """
    settings, notes = model.settings, list(_PYSERINI_NOTES)
    for name, value in (("head", "linear"), ("repeats", "max"), ("query_repeats", "sum")):
        if (given := getattr(settings, name)) != value:
            _refuse(f"{name}: {given}: Pyserini's uniCOIL knows {value} only")
    if settings.query == "bag-of-words":
        _refuse("query: bag-of-words: Pyserini's uniCOIL has a network for queries")
    for side, tower in model.towers.items():
        if (kind := tower.model.config.model_type) != "bert":
            _refuse(
                f"a backbone of type {kind}: Pyserini's uniCOIL is a BERT; train one, or search with "
                "python -m learned_sparse.pyserini, which knows all encoders of this package"
            )
        below = folder if settings.query == "same" else folder / side
        tensors = {f"bert.{name}": tensor for name, tensor in tower.model.state_dict().items()}
        tensors |= {f"{UNICOIL_HEAD}{name}": tensor for name, tensor in tower.head.state_dict().items()}
        _tokenizer(below, model, max(model.max_length.values()))
        write_tensors(below / "model.safetensors", tensors, {"format": "pt"})
        write_json(below / "config.json", {**tower.model.config.to_dict(), "architectures": ["UniCoilEncoder"]})
    if settings.bow_special_tokens not in ("separators", "all"):
        notes.append("Pyserini weighs [SEP] too; that term of a query matches nothing in documents encoded here")
    if (length := model.max_length["query"]) != _PYSERINI_QUERY_TOKENS:
        notes.append(f"Pyserini truncates queries at {_PYSERINI_QUERY_TOKENS} tokens; here at {length}")
    if settings.expanded:
        notes.append("encode documents with expansions here: Pyserini puts only new tokens of them into the text")
    return notes


def _masked_lm(folder: Path, model: LoadedModel, length: int, side: str = "document", pooling: str = "") -> None:
    """A tower with its tokenizer; blocked terms have an output bias that keeps their weights at 0 in any tool.

    ``pooling``: the folder of its SpladePooling.
    """
    tower, unblocked = model.towers[side], cast("Tensor | None", model.weighers.document.unblocked)
    blocked: Any = [] if unblocked is None else (~unblocked).nonzero().flatten()
    bias: Tensor | None = tower.decoder.bias
    if bias is None and len(blocked):
        _refuse("block_special_terms: this backbone has no output bias that could block a term")
    before = None if bias is None else bias.detach().clone()
    with torch.no_grad():
        try:
            if bias is not None:
                bias[blocked] = _NEVER_POSITIVE
            tower.save(folder)
        finally:
            if bias is not None and before is not None:
                bias.copy_(before)
    _tokenizer(folder, model, length)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    if pooling:
        (folder / pooling).mkdir()
        content = {
            "pooling_strategy": model.settings.pooling,
            "activation_function": _ACTIVATIONS[model.settings.saturation],
            "word_embedding_dimension": tower.vocabulary_size,
        }
        write_json(folder / pooling / "config.json", content)


def _tokenizer(folder: Path, model: LoadedModel, length: int) -> None:
    """The tokenizer of ``model``, which truncates texts at ``length`` tokens."""
    tokenizer = copy.copy(model.tokenizer)
    tokenizer.model_max_length = length
    tokenizer.save_pretrained(folder)


def _table(model: LoadedModel) -> Tensor:
    """Weight of each term ``(vocabulary,)`` of queries without a network, 0 for terms that are never in the bag."""
    bag: Any = model.weighers.query
    weights = torch.ones(model.towers["document"].vocabulary_size) if bag.table is None else bag.table()
    return weights.detach().float().index_fill(0, torch.tensor(bag.excluded, dtype=torch.long), 0.0)


def _card(model: LoadedModel, name: str, target: str, licence: str | None) -> str:
    """``README.md`` of the Hub, the model card: metadata in YAML, score, licence, use and recipe of the model."""
    recipe: dict[str, Any] = _public(model.recipe or {})
    backbone = str(recipe.get("backbone", ""))
    metadata = {
        **({"license": licence} if licence else {}),
        "library_name": "sentence-transformers" if target == "sentence-transformers" else "learned-sparse",
        "pipeline_tag": "feature-extraction",
        "tags": ["sparse-encoder", "sparse", "learned-sparse-retrieval", model.architecture],
        **({"base_model": backbone} if "/" in backbone or backbone.startswith("bert-") else {}),
    }
    validated = (model.training or {}).get("MRR@10")
    score = "Not measured" if validated is None else f"MRR@10 {validated:.4f} on the validation queries of the training"
    encoder = "UniCoilQueryEncoder" if model.architecture == "unicoil" else "SpladeQueryEncoder"
    front, content = (yaml.safe_dump(part, sort_keys=False, allow_unicode=True) for part in (metadata, recipe))
    return f"""\
---
{front}---

# {name}

Learned sparse retrieval ({model.architecture}): weights of terms of the tokenizer's vocabulary. {score}.
Licence: {licence or "not stated; those of the backbone and of the training data apply"}.

    {_USES[target].replace("ENCODER", encoder).replace("NAME", name)}

## Recipe

```yaml
{content}```
"""


def _public(value: Any) -> Any:
    """``value`` with the last part of each absolute path: a card names files, not folders of a machine."""
    if isinstance(value, Mapping):
        return {key: _public(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_public(item) for item in value]
    return Path(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value


def _refuse(reason: str) -> NoReturn:
    raise LearnedSparseError(reason)
