"""What a checkpoint folder says besides weights and tokenizer, read without torch.

That is the file ``learned_sparse.json``, or what folders of other tools say, described alike. Layouts of other tools:
sentence-transformers 5 and 6 (``modules.json``; a ``Router`` has a module list for each side), OpenSearch doc-only
(``idf.json``), Pyserini's uniCOIL (a masked-LM's encoder and ``tok_proj``), and plain masked-LMs such as
``naver/splade*``, which say nothing about pooling or queries.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from encoders.checkpoints.hub import locate, published, read_config, read_object, tensor_names
from encoders.checkpoints.tokenizer import TOKENIZER, read_tokenizer, tokenizer_sha256
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, folder_kind, wrong_path
from learned_sparse.core.files import is_name, read_json, read_record, sha256, write_record
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.settings import parse

NOTES = "learned_sparse.json"
FORMAT = 1
TABLE = "weights.safetensors"
"""Weights of terms in ``towers/NAME``, for a bag of words that has a table."""
SIDES = ("query", "document")
Weighting = Literal["binary", "tf", "idf", "learned"]
"""Weights of queries without a network: 1 for each token; its count; a table of inverse document frequencies, or of
weights that training found."""
TABLE_WEIGHTINGS = ("idf", "learned")
MAX_LENGTH = 256
"""Default maximum length in tokens, of queries and documents (both papers)."""
_MAX_VOCABULARY = 10_000_000
_NOT_STORED = {"towers", "unrecorded", "assumed_length"}
_WEIGHTS = ("*.safetensors", "idf.json", "pytorch_model.bin")
IDF = "idf.json"
STATIC_WEIGHT = "weight"
"""Tensor of a ``SparseStaticEmbedding``."""
UNICOIL_HEAD = "tok_proj."
"""Prefix of the tensors of Pyserini's uniCOIL head."""
_DEEP_IMPACT_HEAD = "impact_score_encoder."
MODULES = "modules.json"
"""File of sentence-transformers that lists the modules of a model."""
ROUTER = "router_config.json"
_POSITIONS = 512
_UNLIMITED = 100_000
"""Transformers writes 10^30 for a tokenizer without a limit."""
SATURATION = {"relu": "log", "log1p_relu": "log-log"}
"""``activation_function`` of SpladePooling: log(1 + ReLU(x)), or log(1 + log(1 + ReLU(x)))."""
_UNRECORDED = (
    "pooling", "saturation", "expansion", "query", "query_weighting", "bow_special_tokens", "block_special_terms",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BagNotes:
    """A side that is a bag of words: everything its vectors depend on besides the tokenizer."""

    weighting: Literal["binary", "tf", "table"]
    excluded: tuple[int, ...]
    """Token ids that are never in the bag."""
    scoring: Literal["impact", "bm25"]
    scale: float | None
    """Factor from weights to impacts after settings are changed; ``None``: calibrate."""
    changeable: tuple[str, ...] = ()
    """Settings of the model that may be changed; none of them changes the bag."""
    query_only_settings: tuple[str, ...] = ()
    """Those of ``changeable`` that leave the stored quantizer valid."""
    table: str | None = None
    """Tower with the weights of terms, for ``weighting: table``."""


@dataclass(frozen=True, kw_only=True)
class CheckpointNotes:
    """The content of ``learned_sparse.json``."""

    format: int
    architecture: str
    settings: dict[str, Any]
    vocabulary_size: int
    max_length: dict[str, int]
    """Tokens per side, special tokens included: ``{"query": 256, "document": 256}``."""
    quantizers: dict[str, Quantizer | None]
    """``{"query": {"scale": 100.0, "bits": null}, "document": ...}``; null: to be calibrated."""
    recipe: Any = None
    training: Any = None
    bags: dict[str, BagNotes] = field(default_factory=dict)
    """Sides that learn nothing; they are encoded without torch and transformers."""
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files of tokenizer and towers, by path; empty in checkpoints of earlier versions."""
    prompts: dict[str, str] = field(default_factory=dict)
    """Text before each text of a side, such as ``{"query": "query: "}``."""
    # of folders of other tools only; never stored
    towers: dict[str, str] = field(default_factory=dict)
    """Folders of the towers below that of the model."""
    unrecorded: tuple[str, ...] = ()
    """Settings that the folder does not say, so that they may be changed."""
    assumed_length: bool = False
    """Whether ``max_length`` is assumed because the folder does not say it."""

    def check(self, where: str) -> None:
        """Raise if a value is out of range; ``where`` opens the message."""
        if not 0 < self.vocabulary_size <= _MAX_VOCABULARY:
            raise LearnedSparseError(f"{where}: vocabulary_size {self.vocabulary_size}; give 1 to {_MAX_VOCABULARY:,}")
        for key in ("max_length", "quantizers"):
            if set(getattr(self, key)) != set(SIDES):
                raise LearnedSparseError(f"{where}: {key}: expected one for each of {' and '.join(SIDES)}")
        for side, bag in self.bags.items():
            if (bag.weighting == "table") != (bag.table is not None):
                raise LearnedSparseError(f"{where}: bags: {side}: 'weighting: table' and 'table' go together")
            if side not in SIDES or not all(0 <= token < self.vocabulary_size for token in bag.excluded):
                raise LearnedSparseError(f"{where}: bags: {side}: no side, or it excludes tokens beyond the vocabulary")

    def check_files(self, folder: Path, towers: Iterable[str]) -> None:
        """Raise if a file of the tokenizer, or of one of ``towers``, is not the one that was saved."""
        folders = {"", *(f"towers/{tower}" for tower in towers)}
        for name, recorded in self.files.items():
            path = folder / name
            if name.rpartition("/")[0] in folders and not (path.is_file() and sha256(path) == recorded):
                raise LearnedSparseError(
                    f"{path}: missing, or not the file that was saved (its SHA-256 is not that of {NOTES}); "
                    "copy the checkpoint again"
                )

    def tower_folder(self, folder: Path, tower: str) -> Path:
        """The folder of a tower's weights; raise if another tool has none."""
        if not self.towers:
            return folder / "towers" / tower
        if tower not in self.towers:
            raise LearnedSparseError(
                f"{folder}: has no weights of its own for the tower {tower!r}; join two folders with "
                "encoders.export --to learned-sparse --query-checkpoint"
            )
        return folder / self.towers[tower]

    def description(
        self, folder: Path, side: str, settings: Mapping[str, Any], towers: Iterable[str], tokenizer: Any
    ) -> dict[str, Any]:
        """What the description of vectors says of the checkpoint; ``towers`` are those that the vectors depend on.

        For files that ``check_files`` checked, the SHA-256 is the recorded one.
        """
        weights: dict[str, dict[str, str]] = {}
        for tower in towers:
            files = [path for pattern in _WEIGHTS for path in self.tower_folder(folder, tower).glob(pattern)]
            weights[tower] = {
                path.name: self.files.get(path.relative_to(folder).as_posix()) or sha256(path) for path in sorted(files)
            }
        return {
            "architecture": self.architecture,
            "settings": dict(settings),
            "side": side,
            "weights_sha256": weights,
            "tokenizer_sha256": tokenizer_sha256(tokenizer),
        } | ({"prompt": self.prompts[side]} if side in self.prompts else {})


def read_notes(folder: Path) -> CheckpointNotes:
    """The notes of a checkpoint folder, or a description of a folder of another tool.

    Raises if vectors of the other tool cannot be computed exactly.
    """
    path = folder / NOTES
    if path.exists():
        if folder_kind(folder) == "a Lucene index":
            raise wrong_path(folder, "a checkpoint", "name the folder of its model")
        content = read_record(path)
        if content.get("format") != FORMAT:
            raise LearnedSparseError(
                f"{path}: format {content.get('format')!r}, this version reads {FORMAT}; upgrade learned_sparse"
            )
        if unknown := _NOT_STORED & content.keys():
            raise LearnedSparseError(f"{path}: unknown key {min(unknown)!r}")
        notes = parse(CheckpointNotes, content, str(path))
        notes.check(str(path))
        return notes
    if (folder / "config.json").exists() or (folder / MODULES).exists():
        return _of_other_tool(folder)
    raise wrong_path(
        folder, f"a checkpoint (neither {NOTES} nor the config.json of a masked-LM)", "name another folder"
    )


def is_sparse_encoder(name: str) -> bool:
    """Whether a backbone is known as a sparse encoder: by the catalogue, or by the notes or modules of its folder."""
    if "queries" in published(name):
        return True
    folder = locate(name)
    modules = folder / MODULES
    return (folder / NOTES).exists() or (modules.exists() and "SpladePooling" in modules.read_text(encoding="utf-8"))


def write_notes(folder: Path, notes: CheckpointNotes) -> None:
    """Write ``learned_sparse.json`` atomically, without empty ``bags``, ``files`` and ``prompts``."""
    content = dataclasses.asdict(notes)
    left_out = {*_NOT_STORED, *(key for key in ("bags", "files", "prompts") if not content[key])}
    write_record(folder / NOTES, {key: value for key, value in content.items() if key not in left_out})


def as_json(settings: Any) -> dict[str, Any]:
    """A settings dataclass with JSON values: tuples become lists, paths strings."""
    content: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(settings), default=str))
    return content


def check_sizes(name: str, max_length: int, top_k: int | None, limit: int | None = None) -> None:
    """Raise if ``max_length`` or ``top_k`` is out of range; ``limit`` is the length of the position embeddings."""
    if not 3 <= max_length <= (limit or 2**31 - 1):
        raise LearnedSparseError(f"{name}: max length {max_length}; give 3 to {limit or 2**31 - 1} tokens")
    if top_k is not None and top_k < 1:
        raise LearnedSparseError(f"{name}: top k {top_k}; give at least 1, or omit it to keep all terms")


def changed_keys(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], changeable: Iterable[str]
) -> frozenset[str]:
    """The settings that differ. A difference outside ``changeable`` is an error that lists what may be changed."""
    changed = frozenset(key for key in after if key not in before or after[key] != before[key])
    for key in sorted(changed - set(changeable)):
        if key not in before:
            raise LearnedSparseError(f"{name}: unknown setting {key!r}{did_you_mean(key, before)}")
        allowed = ", ".join(sorted(changeable)) or "nothing"
        raise LearnedSparseError(
            f"{name}: {key!r} belongs to how the model was trained and cannot be changed; changeable: {allowed}"
        )
    return changed


def _foreign(settings: dict[str, Any], size: int, lengths: dict[str, int], **others: Any) -> CheckpointNotes:
    """A SPLADE of another tool, unless ``others`` say otherwise."""
    scale = others.pop("scale", 100.0)
    values: dict[str, Any] = {"architecture": "splade", "towers": {"document": ""}, **others}
    return CheckpointNotes(
        format=FORMAT, settings=settings, vocabulary_size=size, max_length=lengths,
        quantizers=dict.fromkeys(SIDES, Quantizer(scale)), **values,
    )  # fmt: skip


def _of_other_tool(folder: Path) -> CheckpointNotes:
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


def _sentence_transformers(folder: Path) -> CheckpointNotes:
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
