"""A recipe: all settings that decide what a training run computes, frozen and strictly read.

Every class checks its own values; ``parse`` says where they come from. ``load_recipe`` finds a recipe by name or file,
completes it from its base, and changes single values. Torch is not imported.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from encoders.checkpoints.notes import as_json
from encoders.models import SIDES
from learned_sparse.collections.collection import load_collection, split_names
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, wrong_path
from learned_sparse.core.lazy import Register
from learned_sparse.core.settings import parse, parse_changes
from learned_sparse.core.yaml_files import read_yaml

if TYPE_CHECKING:
    from torch import Tensor

RECIPES = Path(__file__).parent.parent / "recipes"
to_mapping = as_json
"""The recipe in JSON values, every default spelled out; ``parse`` reads it back."""
Changes = Sequence[str] | Mapping[str, Any]
"""``["stages.0.steps=100"]``, values in YAML, or ``{"stages.0.steps": 100}``."""
REGULARIZERS: Register[Callable[[Tensor], Tensor]] = Register(
    "learned_sparse.regularizers",
    {name: f"encoders.training.objective:{name}" for name in ("flops", "l1", "df_flops")},
)
"""Sparsity regularisers by name, functions of the weights of a step's texts; those of installed packages are entry
points of the group."""


@dataclass(frozen=True, kw_only=True)
class MaxLength:
    """Maximum length of texts in word pieces, [CLS] and [SEP] included."""

    query: int = 256
    document: int = 256


@dataclass(frozen=True, kw_only=True)
class Lora:
    """Low-rank adapters; defaults are those of peft for every linear layer of a network."""

    rank: int = 8
    alpha: int = 8  # the product of the two low-rank matrices is multiplied by alpha / rank
    dropout: float = 0.0
    targets: tuple[str, ...] | None = None  # names of linear layers, such as q_proj; None: all but the decoder


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source of training examples, in one of four forms.

    * ``collection`` (+ ``split``): a name of collections/, a YAML file, a BEIR or MS MARCO folder, ``ir_datasets:ID``
      (which needs no ``split`` where ID names one)
    * ``collection`` + ``topics`` + ``qrels``: the documents of the collection with Pyserini-style topics and judgements
    * ``examples: FILE.tsv``: MS MARCO's triples, ``query TAB positive TAB negative`` as texts; as ids if ``collection``
      is given too. Two columns before these are a teacher's scores of positive and negative.
    * ``examples: FILE.jsonl``: JSON lines of BGE or Tevatron, with texts; or with ``collection`` those of
      sentence-transformers, ``qid``, ``pos`` and ``neg`` by system, with ids
    """

    collection: str | None = None
    split: str = "train"
    topics: Path | None = None
    qrels: Path | None = None
    examples: Path | None = None
    scores: Path | None = None  # a teacher's scores by id, for distillation: TREC run, TSV or Parquet, or a folder
    expanded: Path | None = None  # text that expands the documents of the collection, by id: JSONL or TSV
    run: Path | None = None  # TREC run with the candidates for hard negatives

    def __post_init__(self) -> None:
        if self.collection is None and self.examples is None:
            raise LearnedSparseError("a source needs 'collection' or 'examples'")
        if self.collection is None and (self.expanded or self.scores):
            raise LearnedSparseError("texts have no ids to join 'expanded' or 'scores' by; train on triples of ids")
        if self.examples is None and (self.topics is None) != (self.qrels is None):
            raise LearnedSparseError("'topics' and 'qrels' go together")


@dataclass(frozen=True, kw_only=True)
class Negatives:
    """The hard negatives of a query, and where they come from.

    ``given``: the file of examples, or the ``run`` of each source. ``bm25``: Lucene searches the training queries
    first. ``self``: the model being trained searches them, at the start of the stage and every ``every`` steps.
    ``checkpoint``: another model searches them, at the start of the stage. ``random``: documents of the collection.
    """

    kind: Literal["given", "bm25", "self", "checkpoint", "random"] = "given"
    checkpoint: str | None = None  # folder or name on the Hub
    # first and last, from 1; a higher first rank skips documents that are likely relevant but not judged
    ranks: tuple[int, int] = (1, 100)
    every: int | None = None  # self: steps between searches; None: only at the start
    per_query: int = 1  # a query with fewer candidates is filled up with random documents; 0: no hard negatives
    margin: float | None = None  # leave out negatives that the teacher scores above the positive minus this

    def __post_init__(self) -> None:
        if (self.kind == "checkpoint") != (self.checkpoint is not None):
            raise LearnedSparseError("kind: checkpoint and 'checkpoint' go together")
        if not 1 <= self.ranks[0] <= self.ranks[1]:
            raise LearnedSparseError(f"ranks {self.ranks[0]} to {self.ranks[1]}; give 1 <= first <= last")


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The ranking loss."""

    loss: Literal["pairwise", "in_batch", "hinge", "none"] = "in_batch"  # none: ``distillation`` alone
    others_hard_negatives: bool = False  # in_batch: score against the hard negatives of other queries as well
    negatives_from: int | None = None  # in_batch, hinge: queries that share their documents as negatives; None: all
    score_scale: float = 1.0  # factor of dot products in the loss; both papers: 1


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """Losses by a teacher's scores of the own positive and the hard negatives; each number is the weight of its loss.

    Hard negatives that the teacher has not scored are left out of both.
    """

    margin_mse: float = 0.0  # squared error of the margins s+ - s- (Hofstaetter et al. 2020)
    kl: float = 0.0  # divergence of the student's softmax from the teacher's; ``score_scale`` scales the student's

    def __post_init__(self) -> None:
        if min(self.margin_mse, self.kl) < 0 or self.margin_mse + self.kl <= 0:
            raise LearnedSparseError("give 'margin_mse' or 'kl' a weight above 0")


@dataclass(frozen=True, kw_only=True)
class Regularizer:
    """The sparsity regularisers of queries and documents, and their lambdas, which grow quadratically from 0.

    ``kind``, ``ramp_steps`` and ``threshold`` are one value for both sides, or a mapping with ``query`` and
    ``document``. Weights from before the end of both ramps are no candidates for the best ones of the stage. A
    regulariser is computed over the texts of a step on all processes, as in naver/splade's trainer.
    """

    kind: str | Mapping[str, str] = "none"  # or one of ``REGULARIZERS``
    lambda_query: float = 0.0
    lambda_document: float = 0.0
    ramp_steps: int | Mapping[str, int] | None = None  # steps until the full lambda; None: a third of the stage's
    threshold: int | Mapping[str, int] | None = None  # only texts with more terms than this are regularised

    def __post_init__(self) -> None:
        for name in ("kind", "ramp_steps", "threshold"):
            value = getattr(self, name)
            for side in value if isinstance(value, Mapping) else ():
                if side not in SIDES:
                    raise LearnedSparseError(f"{name}: {side!r} is no side{did_you_mean(side, SIDES)}")
        for kind in self.kind.values() if isinstance(self.kind, Mapping) else (self.kind,):
            if kind != "none" and kind not in REGULARIZERS:
                hint = did_you_mean(kind, ["none", *REGULARIZERS])
                raise LearnedSparseError(f"kind: {kind!r} is not a regulariser{hint}")


@dataclass(frozen=True, kw_only=True)
class CoTraining:
    """SpaDE §3.3: examples that are hard for one component train the other one.

    One step of the stage looks at ``select_from`` examples. Each component scores all of them; the ``share`` with its
    largest losses trains the other component, in updates of ``batch_size`` examples (the last one may be smaller).
    """

    select_from: int = 1024  # examples of one step, over all processes; the paper selects from the whole training set
    share: float = 0.3  # tau (§3.3); 1: no selection, both train on everything ("w/o co-training" of Table 6)

    def __post_init__(self) -> None:
        if self.select_from < 1 or not 0 < self.share <= 1:
            raise LearnedSparseError("'select_from' is at least 1, 'share' above 0 and at most 1")

    @property
    def selected(self) -> int:
        """The number of selected examples: ``share`` of ``select_from``, rounded down, at least 1.

        >>> CoTraining(select_from=100, share=0.29).selected
        29
        """
        return max(1, int(self.share * self.select_from + 1e-9))  # 0.29 * 100 is just below 29


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """SpaDE §3.4: terms that have weight in more than ``gamma`` of the documents lose it.

    Documents are counted in windows of the stage; terms are pruned at the end of each window. A smaller gamma restarts
    the search for the best weights and patience, as in the published code.
    """

    gamma: tuple[float, ...] = (0.7,)  # after the first window, the second ...; the last one stays (the paper's: 0.7)
    window: int  # steps
    cumulative: bool = False  # a pruned term stays pruned, as in the published code

    def __post_init__(self) -> None:
        if self.window < 1 or not self.gamma or not all(0 < gamma <= 1 for gamma in self.gamma):
            raise LearnedSparseError("'window' is at least 1, each gamma a share of documents: 0 < gamma <= 1")


@dataclass(frozen=True, kw_only=True)
class StageOptions:
    """Options that only one architecture has (``ARCHITECTURE_OF_OPTION``)."""

    joint: bool = False  # train the gate as well, on L_rank + L_exp (SparTerm Eq. 9)
    pointwise: float = 0.0  # lambda of SpaDE's Eq. 12, added where the expansion is trained; the paper's is 1
    cotraining: CoTraining | None = None
    pruning: Pruning | None = None


ARCHITECTURE_OF_OPTION = {"joint": "sparterm", "pointwise": "spade", "cotraining": "spade", "pruning": "spade"}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of training: what is optimised, how long and how."""

    name: str
    objective: str = "rank"  # or "mlm", masked-LM on documents; or one of the architecture: SparTerm's "gate" (Eq. 8)
    component: str | None = None  # rank: train and search with this component alone; None: the whole model
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the architecture, in this stage only: SpaDE's k
    options: StageOptions = field(default_factory=StageOptions)
    steps: int
    batch_size: int  # queries of one step, over all processes
    micro_batch_size: int | None = None  # at most so many queries in a forward pass: less memory, the same gradient
    optimizer: Literal["adam", "adamw"] = "adam"
    weight_decay: float = 0.0
    learning_rate: float = 2e-5
    # of components with another one, and of ``head``: the parameters that no backbone brought; null: as the others
    learning_rates: Mapping[str, float | None] = field(default_factory=dict)
    warm_up_steps: int = 0
    decay: bool = True  # linear decay to 0; False: constant after the warm-up
    max_gradient_norm: float | None = None
    validate_every: int | None = None  # steps; None: ``validation.every``; 0: never, the last weights count
    dropout: bool = True  # the backbone's own dropout; False: none
    negatives: Negatives | None = None  # None: those of the recipe
    rank: Rank = field(default_factory=Rank)
    distillation: Distillation | None = None
    regularizer: Regularizer = field(default_factory=Regularizer)

    def regularizer_of(self, side: Side) -> tuple[str, float, int, int | None]:
        """Kind, lambda, ``ramp_steps`` and ``threshold`` of one side; the kind is ``none`` where lambda is 0."""
        its = self.regularizer
        settings: Any = (its.kind, its.ramp_steps, its.threshold)
        kind, ramp, threshold = (value.get(side) if isinstance(value, Mapping) else value for value in settings)
        weight = its.lambda_query if side == "query" else its.lambda_document
        return kind if weight and kind else "none", weight, self.steps // 3 if ramp is None else ramp, threshold

    def problem(self, architecture: str, hard_negatives: int) -> str | None:
        """Why the stage cannot be computed or cannot learn, if it cannot."""
        rank, group = self.rank, self.rank.negatives_from
        for name in ("steps", "batch_size", "micro_batch_size"):
            if (value := getattr(self, name)) is not None and value < 1:
                return f"{name} {value}; give at least 1"
        for name, its in ARCHITECTURE_OF_OPTION.items():
            if getattr(self.options, name) and its != architecture:
                return f"options: {name!r} is an option of {its}, not of {architecture!r}"
        if self.objective != "rank":
            if self.component or self.distillation:
                return "'component' and 'distillation' go with objective: rank"
            return None if self.options == StageOptions() else "'options' go with objective: rank"
        if self.options.cotraining and self.component is not None:
            return "'cotraining' excludes 'component'; leave it out"
        if hard_negatives == 0 and (rank.loss == "pairwise" or self.distillation):
            return "the pairwise loss and distillation need hard negatives; set negatives: per_query"
        if rank.loss == "none" and self.distillation is None:
            return "rank: 'loss: none' needs distillation"
        if group is not None and (group < 1 or self.batch_size % group):
            return f"rank: negatives_from {group} must divide batch_size {self.batch_size}"
        if (group or self.batch_size) == 1 and (hard_negatives == 0 or rank.loss == "hinge"):
            return "a batch of one query without hard negatives has nothing to rank against"
        return None


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Retrieval for queries that training does not see: exact search in a pool of documents, MRR@10.

    The best weights are kept. Queries are those of a split, or training queries that are held out: ``holdout``.
    """

    collection: str
    split: str | None = None  # None: dev, or the only split of an ir_datasets:ID
    holdout: int | None = None  # instead of a split: so many training queries, drawn by a hash of their texts
    every: int  # steps
    queries: int | None = None  # of the split, drawn at random; None: all
    pool: int | None = None  # random documents beside the relevant ones; None: all documents
    bm25: int | None = None  # the pool is BM25's so many documents of each query and the relevant ones
    rerank: bool = False  # each query ranks its own documents of ``bm25`` instead of the pool
    patience: int | None = None  # a stage ends after so many validations in a row without a better score

    def __post_init__(self) -> None:
        if self.holdout is not None and (self.holdout < 1 or self.split is not None or self.queries is not None):
            raise LearnedSparseError("'holdout' is at least 1 and excludes 'split' and 'queries'; set them to null")
        if self.pool is not None and self.bm25 is not None:
            raise LearnedSparseError("pool and bm25 are different pools; set one of them to null")
        if self.rerank and self.bm25 is None:
            raise LearnedSparseError("'rerank' needs 'bm25', the documents to rank")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One model, from backbone to checkpoint."""

    model: str  # its name in commands and file names
    architecture: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # checked by the architecture
    backbone: str = "bert-base-uncased"
    num_hidden_layers: int | None = None  # None: all layers of the backbone
    attention: Literal["bidirectional", "echo", "causal"] = "bidirectional"  # of a decoder LM
    lora: Lora | None = None  # train adapters in place of the backbone; null: all weights
    output_bias: float | None = None  # for a backbone without masked-LM head; None: the default of encoders.backbone
    idf_bias: float = 0.0  # this times ln((N + 1) / (df + 1)) is added to the output bias of each term before training
    seed: int = 0
    max_length: MaxLength = field(default_factory=MaxLength)
    # products; weights are always fp32. fp32: TF32 on NVIDIA GPUs; fp32-strict: fp32 everywhere; bf16: autocast;
    # auto: bf16 where the hardware computes it, else fp32
    precision: Literal["fp32", "fp32-strict", "bf16", "auto"] = "auto"
    gradient_checkpointing: bool = False  # compute layers again in the backward pass: less memory, a third more time
    data: tuple[Source, ...]
    on_bad_line: OnBadLine = "error"  # malformed lines of documents: stop, or leave out and count (skip)
    negatives: Negatives = field(default_factory=Negatives)
    stages: tuple[Stage, ...]
    validation: Validation | None = None
    mix: bool = True  # with validation: take the mixture of components that validates best, if there are mixtures
    bits: int = 8  # of impacts, where the architecture has no factor from weights to impacts (SPLADE: 100)
    log_every: int = 10
    save_every: int = 1000

    def __post_init__(self) -> None:
        if not self.stages or not self.data:
            raise LearnedSparseError(f"recipe {self.model}: 'stages' and 'data' need at least one entry each")
        for stage in self.stages:
            if problem := stage.problem(self.architecture, (stage.negatives or self.negatives).per_query):
                raise LearnedSparseError(f"recipe {self.model}: stage {stage.name}: {problem}")


def recipe_names() -> list[str]:
    """The recipes of the package; files that begin with ``_`` are only bases of others."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml") if not path.name.startswith("_"))


def load_recipe(name: str | Path, *, changes: Changes = (), data: Sequence[str] = ()) -> Recipe:
    """The recipe of ``recipe_values``."""
    return parse(Recipe, recipe_values(name, changes=changes, data=data), str(name))


def recipe_values(name: str | Path, *, changes: Changes = (), data: Sequence[str] = ()) -> dict[str, Any]:
    """The values of a recipe, one of ``recipe_names()`` or a YAML file, unchecked: a cross-encoder has other fields.

    * ``base:`` names another recipe, or a YAML file beside this one. The recipe is merged into its base: mappings key
      by key, at every level; any other value, a list too, replaces that of the base.
    * ``stage:`` holds what all stages share. Each entry of ``stages`` is merged into it the same way.
    * ``data`` replaces the recipe's data: collections ``NAME[:SPLIT][,run=FILE]`` or text triples ``FILE.tsv``.
    * ``changes`` then set single values, with dots between levels and numbers for list entries.
    """
    values = _with_base(str(name), Path(), ())
    shared = values.pop("stage", {})
    if not isinstance(shared, Mapping):
        raise LearnedSparseError(f"{name}: stage: expected a mapping of what all stages share, got {shared!r:.80}")
    if isinstance(values.get("stages"), list):
        values["stages"] = [_merged(shared, stage) for stage in values["stages"]]
    if data:
        values["data"] = [data_source(spelling) for spelling in data]
    for key, value in (changes if isinstance(changes, Mapping) else parse_changes(changes)).items():
        parts: list[str] = key.split(".")
        inner: Any = values
        for number, part in enumerate(parts):
            if not isinstance(inner, dict | list):
                raise LearnedSparseError(f"--set {key}: {parts[number - 1]!r} holds {inner!r}, nothing to set inside")
            if isinstance(inner, list) and part not in map(str, range(len(inner))):
                raise LearnedSparseError(f"--set {key}: {part!r} is not an index of a list of {len(inner)} (from 0)")
            place: Any = int(part) if isinstance(inner, list) else part
            if number == len(parts) - 1:
                inner[place] = value
            else:
                inner = inner[place] if isinstance(inner, list) else inner.setdefault(part, {})
    return values


def _with_base(name: str, folder: Path, users: tuple[Path, ...]) -> dict[str, Any]:
    """The values of a recipe, merged into those of its base; files are relative to ``folder``."""
    if name.endswith((".yaml", ".yml")):
        path = folder / name
    elif name in {path.stem for path in RECIPES.glob("*.yaml")}:
        path = RECIPES / f"{name}.yaml"
    elif Path(name).name != name or os.path.lexists(name):
        raise wrong_path(Path(name), "a recipe", "name a recipe of the package, or a .yaml file", "recipe")
    else:
        where = f"{users[-1]}: base: " if users else ""
        raise LearnedSparseError(f"{where}no recipe {name!r}{did_you_mean(name, recipe_names())} (files end in .yaml)")
    if path.resolve() in [user.resolve() for user in users]:
        raise LearnedSparseError(f"{path}: is its own base, through {' and '.join(map(str, users))}")
    values = dict(read_yaml(path))
    base = values.pop("base", None)
    if not isinstance(base, str | None):
        raise LearnedSparseError(f"{path}: base: expected the name of a recipe or a YAML file, got {base!r:.80}")
    if base is not None:
        values = _merged(_with_base(base, path.parent, (*users, path)), values)
    return values


def _merged(base: Any, values: Any) -> Any:
    """``values`` merged into ``base``; neither is changed, nor shared with the result."""
    if isinstance(values, Mapping):
        known = base if isinstance(base, Mapping) else {}
        return {key: _merged(known.get(key), values.get(key, known.get(key))) for key in {**known, **values}}
    return [_merged(None, item) for item in values] if isinstance(values, list) else values


def data_source(spelling: str) -> dict[str, Any]:
    """One ``--data``: ``FILE.tsv`` and ``FILE.jsonl`` are examples with texts, anything else ``COLLECTION[:SPLIT]``.

    A collection may be followed by ``,run=FILE``, the run that hard negatives come from.

    >>> data_source("pydoc"), data_source("scifact:train"), data_source("triples.train.small.tsv")
    ({'collection': 'pydoc'}, {'collection': 'scifact', 'split': 'train'}, {'examples': 'triples.train.small.tsv'})
    >>> data_source("scifact:train,run=bm25.txt")
    {'collection': 'scifact', 'split': 'train', 'run': 'bm25.txt'}
    """
    named, with_run, run = spelling.rpartition(",run=")
    if with_run:
        return {**data_source(named), "run": run}
    if spelling.endswith((".tsv", ".tsv.gz", ".jsonl")):
        return {"examples": spelling}
    name, colon, split = spelling.rpartition(":")
    if not colon or name == "ir_datasets" or "/" in split:
        return {"collection": spelling}
    return {"collection": name, "split": split}


def recipe_splits(recipe: Recipe) -> dict[str, dict[str, tuple[str, ...]]]:
    """The splits that a recipe learns from: ``trained``, and ``selected``, those that choose its weights and settings.

    Each maps ``COLLECTION:SPLIT`` to the splits that some of its queries are taken from (``split_names``). Triples
    without a collection go by their file name. Only descriptions are read: the data need not exist. A masked-LM stage
    reads documents, and no queries.
    """
    ranks = any(stage.objective != "mlm" for stage in recipe.stages)
    trained = dict(_source_split(source) for source in recipe.data if ranks)
    validation = recipe.validation
    if validation is None:
        return {"trained": trained, "selected": {}}
    if validation.holdout is not None:
        return {"trained": trained, "selected": trained}
    name, *parents = split_names(validation.collection, validation.split or "dev")
    return {"trained": trained, "selected": {name: tuple(parents)}}


def _source_split(source: Source) -> tuple[str, tuple[str, ...]]:
    """The split of ``source`` and those that its queries are taken from; topics and qrels are known by file name."""
    if source.collection is None:
        return str(source.examples and source.examples.name), ()
    split, file = source.split, source.qrels or source.topics
    if file is not None:
        try:
            splits = load_collection(source.collection).splits
        except LearnedSparseError:  # a folder that is elsewhere
            splits = {}
        files = {name: (its.topics if source.qrels is None else its.qrels).files for name, its in splits.items()}
        matching = [name for name, paths in files.items() if file.name in {Path(path).name for path in paths}]
        split = matching[0] if len(matching) == 1 else split
    name, *parents = split_names(source.collection, split)
    return name, tuple(parents)


def stated(settings: Any) -> Any:
    """The values of a settings dataclass that differ from its defaults, in JSON values; ``parse`` reads them back.

    A new field with a default changes nothing here, so that two versions compare recipes by their meaning.
    """
    if isinstance(settings, Mapping):
        return {key: stated(value) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [stated(value) for value in settings]
    if not dataclasses.is_dataclass(settings):
        return str(settings) if isinstance(settings, Path) else settings
    values: dict[str, Any] = {}
    for each in dataclasses.fields(settings):
        value = getattr(settings, each.name)
        default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
        if value != default:
            values[each.name] = stated(value)
    return values
