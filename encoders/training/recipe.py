"""A recipe: all settings that decide what a training run computes, frozen and strictly read.

Every class checks its own values; ``parse`` says where they come from. Torch is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from encoders.backbone.lora import Lora
from encoders.training.regularizers import REGULARIZERS
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.settings import parse

SIDES = get_args(Side)


@dataclass(frozen=True, kw_only=True)
class MaxLength:
    """Maximum length of texts in word pieces, [CLS] and [SEP] included."""

    query: int = 256
    document: int = 256


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source of training examples, in one of four forms.

    * ``collection`` (+ ``split``): a name of collections/, a YAML file, a BEIR or MS MARCO folder, ``ir_datasets:ID``
      (which needs no ``split`` where ID names one)
    * ``collection`` + ``topics`` + ``qrels``: the documents of the collection with Pyserini-style topics and judgements
    * ``triples``: MS MARCO TSV, ``query TAB positive TAB negative`` as texts; as ids if ``collection`` is given too.
      Two columns before these are a teacher's scores of positive and negative.
    * ``examples``: JSON lines of BGE or Tevatron, with texts; or with ``collection`` those of sentence-transformers,
      ``qid``, ``pos`` and ``neg`` by system, with ids
    """

    collection: str | None = None
    split: str = "train"
    topics: Path | None = None
    qrels: Path | None = None
    triples: Path | None = None
    examples: Path | None = None
    scores: Path | None = None  # a teacher's scores by id, for distillation: TREC run, TSV or Parquet, or a folder
    expanded: Path | None = None  # text that expands the documents of the collection, by id: JSONL or TSV
    run: Path | None = None  # TREC run with the candidates for hard negatives


@dataclass(frozen=True, kw_only=True)
class NegativeSource:
    """Where hard negatives come from.

    ``given``: the file of examples, or the ``run`` of each source. ``bm25``: Lucene searches the training queries
    first. ``self``: the model being trained searches them, at the start of the stage and every ``every`` steps.
    ``checkpoint``: another model searches them, at the start of the stage. ``random``: documents of the collection.
    """

    kind: Literal["given", "bm25", "self", "checkpoint", "random", "none"] = "given"
    share: float = 1.0  # of the negatives of a query, beside the other sources
    checkpoint: str | None = None  # folder or name on the Hub
    # first and last, from 1; a higher first rank skips documents that are likely relevant but not judged
    ranks: tuple[int, int] = (1, 100)
    every: int | None = None  # self: steps between searches; None: only at the start
    pool: int | None = None  # self, checkpoint: documents searched, drawn at random, with all positives; None: all
    queries: int | None = None  # self, checkpoint: training queries searched, drawn at random; None: all

    def __post_init__(self) -> None:
        if (self.kind == "checkpoint") != (self.checkpoint is not None):
            raise LearnedSparseError("kind: checkpoint and 'checkpoint' go together")
        if not 1 <= self.ranks[0] <= self.ranks[1]:
            raise LearnedSparseError(f"ranks {self.ranks[0]} to {self.ranks[1]}; give 1 <= first <= last")
        if self.share <= 0:
            raise LearnedSparseError(f"share {self.share:g}; give a number above 0")


@dataclass(frozen=True, kw_only=True)
class Negatives(NegativeSource):
    """The hard negatives of a query: from one source, or from several ``sources`` in their shares."""

    per_query: int = 1  # a query with fewer candidates is filled up with random documents
    margin: float | None = None  # leave out negatives that the teacher scores above the positive minus this
    sources: tuple[NegativeSource, ...] = ()

    @property
    def count(self) -> int:
        """Hard negatives of a query."""
        return 0 if self.kind == "none" else self.per_query

    @property
    def parts(self) -> tuple[NegativeSource, ...]:
        """``sources``, or the single source that the other fields describe."""
        return self.sources or (self,)

    def __post_init__(self) -> None:
        super().__post_init__()
        plain, names = NegativeSource(), NegativeSource.__dataclass_fields__
        if self.sources and any(getattr(self, name) != getattr(plain, name) for name in names):
            raise LearnedSparseError("with 'sources', 'kind' and ranks are theirs; move them there")
        kinds = [source.kind for source in self.sources]
        if "none" in kinds or kinds.count("self") > 1:
            raise LearnedSparseError("sources: kind: none is not a source, and one source of kind: self suffices")


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The ranking loss."""

    loss: Literal["pairwise", "in_batch", "hinge"] = "in_batch"
    weight: float = 1.0  # of this loss beside ``distillation``; 0: distillation alone
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

    kind: str | Mapping[str, str] = "none"  # or one of ``encoders.training.regularizers``
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

    def side(self, side: Side) -> tuple[str, float, int | None, int | None]:
        """Kind, lambda, ``ramp_steps`` and ``threshold`` of one side; the kind is ``none`` where lambda is 0."""
        settings: Any = (self.kind, self.ramp_steps, self.threshold)
        kind, ramp, threshold = (value.get(side) if isinstance(value, Mapping) else value for value in settings)
        weight = self.lambda_query if side == "query" else self.lambda_document
        return kind if weight and kind else "none", weight, ramp, threshold


@dataclass(frozen=True, kw_only=True)
class StageOptions:
    """Options that one architecture gives its stages; an architecture that is not in ``STAGE_OPTIONS`` has none."""


@dataclass(frozen=True, kw_only=True)
class SparTermOptions(StageOptions):
    """SparTerm's joint training."""

    joint: bool = False  # objective: rank: train the gate as well, on L_rank + L_exp (Eq. 9)


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

    gamma: float = 0.7  # the paper's; in force at the end of ``schedule``
    window: int  # steps
    schedule: tuple[float, ...] = ()  # gamma after the first window, the second ... (published code: .90, .85 ...)
    cumulative: bool = False  # a pruned term stays pruned, as in the published code

    def __post_init__(self) -> None:
        if self.window < 1 or not all(0 < gamma <= 1 for gamma in (*self.schedule, self.gamma)):
            raise LearnedSparseError("'window' is at least 1, gamma a share of documents: 0 < gamma <= 1")


@dataclass(frozen=True, kw_only=True)
class SpaDEOptions(StageOptions):
    """SpaDE's pointwise loss, co-training and corpus-level pruning."""

    pointwise: float = 0.0  # lambda of Eq. 12, added where the expansion is trained; the paper's is 1
    cotraining: CoTraining | None = None
    pruning: Pruning | None = None


STAGE_OPTIONS: Mapping[str, type[StageOptions]] = {"spade": SpaDEOptions, "sparterm": SparTermOptions}
"""Architecture to the options of its stages."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of training: what is optimised, how long and how."""

    name: str
    objective: str = "rank"  # or "mlm", masked-LM on documents; or one of the architecture: SparTerm's "gate" (Eq. 8)
    component: str | None = None  # rank: train and search with this component alone; None: the whole model
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the architecture, in this stage only: SpaDE's k
    options: Mapping[str, Any] | StageOptions = field(default_factory=StageOptions)  # of ``STAGE_OPTIONS``
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

    def ramp_steps(self, side: Side) -> int:
        """Steps until the regulariser of ``side`` has its full lambda."""
        steps = self.regularizer.side(side)[2]
        return self.steps // 3 if steps is None else steps

    @property
    def full_lambda_step(self) -> int:
        """The first step whose weights can be the best: that of the full lambdas, or the last one."""
        used = (self.ramp_steps(side) for side in SIDES if self.regularizer.side(side)[0] != "none")
        return min(max(used, default=0), self.steps)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "micro_batch_size"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise LearnedSparseError(f"{name} {value}; give at least 1")
        if self.objective != "rank" and (self.component or self.distillation):
            raise LearnedSparseError("'component' and 'distillation' go with objective: rank")

    def problem(self, hard_negatives: int) -> str | None:
        """Why the stage cannot be computed or cannot learn, if it cannot."""
        rank, group = self.rank, self.rank.negatives_from
        if isinstance(self.options, SparTermOptions) and self.options.joint and self.objective != "rank":
            return "'joint' goes with objective: rank"
        if isinstance(self.options, SpaDEOptions) and (self.options.cotraining or self.options.pruning):
            if self.objective != "rank":
                return "'cotraining' and 'pruning' go with objective: rank"
            if self.options.cotraining and self.component is not None:
                return "'cotraining' excludes 'component'; leave it out"
        if self.objective != "rank":
            return None
        if hard_negatives == 0 and (rank.loss == "pairwise" or self.distillation):
            return "the pairwise loss and distillation need hard negatives; set negatives: per_query"
        if rank.weight < 0 or (rank.weight == 0 and self.distillation is None):
            return f"rank: weight {rank.weight:g}; without distillation it is above 0"
        if group is not None and (group < 1 or self.batch_size % group):
            return f"rank: negatives_from {group} must divide batch_size {self.batch_size}"
        if (group or self.batch_size) == 1 and (hard_negatives == 0 or rank.loss == "hinge"):
            return "a batch of one query without hard negatives has nothing to rank against"
        return None


def spade_options(stage: Stage) -> SpaDEOptions:
    """The options of a stage of SpaDE; the stages of other architectures neither co-train nor prune."""
    return stage.options if isinstance(stage.options, SpaDEOptions) else SpaDEOptions()


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Retrieval for queries that training does not see: exact search in a pool of documents, MRR@10.

    The best weights are kept. Queries are those of a split, or training queries that are held out: ``holdout``.
    """

    collection: str
    split: str | None = None  # None: dev, or the only split of an ir_datasets:ID
    holdout: int | None = None  # instead of a split: so many training queries, drawn by a hash of their ids or texts
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
        kind, stages = STAGE_OPTIONS.get(self.architecture, StageOptions), []
        for stage in self.stages:
            where = f"recipe {self.model}: stage {stage.name}"
            options = {} if type(stage.options) is StageOptions else stage.options
            if isinstance(options, Mapping):
                if options and kind is StageOptions:
                    raise LearnedSparseError(f"{where}: architecture {self.architecture} has no options of stages")
                options = parse(kind, options, f"{where}: options")
            stages.append(replace(stage, options=options))
            if problem := stages[-1].problem(self.negatives_of(stage).count):
                raise LearnedSparseError(f"{where}: {problem}")
        object.__setattr__(self, "stages", tuple(stages))  # the recipe is frozen, its options are read here

    def negatives_of(self, stage: Stage) -> Negatives:
        """The hard negatives of a stage."""
        return self.negatives if stage.negatives is None else stage.negatives
