"""A recipe: all settings that decide what a training run computes, frozen and strictly read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from encoders.backbone.lora import Lora
from encoders.training.options import StageOptions, read_options
from encoders.training.regularizers import REGULARIZERS
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

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

    def check(self, where: str) -> None:
        """Raise if the values contradict each other; ``where`` opens the message."""
        if (self.kind == "checkpoint") != (self.checkpoint is not None):
            raise LearnedSparseError(f"{where}: kind: checkpoint and 'checkpoint' go together")
        if not 1 <= self.ranks[0] <= self.ranks[1]:
            raise LearnedSparseError(f"{where}: ranks {self.ranks[0]} to {self.ranks[1]}; give 1 <= first <= last")
        if self.share <= 0:
            raise LearnedSparseError(f"{where}: share {self.share:g}; give a number above 0")


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

    def check(self, where: str) -> None:
        """Raise if the values contradict each other; ``where`` opens the message."""
        super().check(where)
        described = {name: getattr(self, name) for name in NegativeSource.__dataclass_fields__}
        if self.sources and described != {name: getattr(NegativeSource(), name) for name in described}:
            raise LearnedSparseError(f"{where}: with 'sources', 'kind' and ranks are theirs; move them there")
        for number, source in enumerate(self.sources):
            source.check(f"{where}: sources[{number}]")
            if source.kind == "none":
                raise LearnedSparseError(f"{where}: sources[{number}]: kind: none is not a source")
        if [source.kind for source in self.sources].count("self") > 1:
            raise LearnedSparseError(f"{where}: one source of kind: self suffices; leave the others out")


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The ranking loss."""

    loss: Literal["pairwise", "in_batch", "hinge"] = "in_batch"
    weight: float = 1.0  # of this loss beside ``distillation``; 0: distillation alone
    margin: float = 1.0  # hinge: the score by which a relevant document should win (UHD-BERT Eq. 8)
    others_hard_negatives: bool = False  # in_batch: score against the hard negatives of other queries as well
    negatives_from: int | None = None  # in_batch, hinge: queries that share their documents as negatives; None: all
    mask_known_positives: bool = True  # in_batch: leave out documents known to be relevant (the papers are silent)
    score_scale: float = 1.0  # factor of dot products in the loss; both papers: 1


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """Losses by a teacher's scores of the own positive and the hard negatives; each number is the weight of its loss.

    Hard negatives that the teacher has not scored are left out of both.
    """

    margin_mse: float = 0.0  # squared error of the margins s+ - s- (Hofstaetter et al. 2020)
    kl: float = 0.0  # divergence of the student's softmax from the teacher's, times the temperature squared
    temperature: float = 1.0  # kl: the scores of both are divided by it; ``rank: score_scale`` scales the student's

    def check(self, where: str, hard_negatives: int) -> None:
        """Raise if nothing can be distilled; ``where`` opens the message."""
        if min(self.margin_mse, self.kl) < 0 or self.margin_mse + self.kl <= 0:
            raise LearnedSparseError(f"{where}: distillation: give 'margin_mse' or 'kl' a weight above 0")
        if self.temperature <= 0:
            raise LearnedSparseError(f"{where}: distillation: the temperature is above 0")
        if hard_negatives == 0:
            raise LearnedSparseError(f"{where}: distillation needs hard negatives; set negatives: per_query")


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

    def side(self, side: Side) -> SideRegularizer:
        """The regulariser of one side."""
        settings: Any = (self.kind, self.ramp_steps, self.threshold)
        kind, ramp, threshold = (value.get(side) if isinstance(value, Mapping) else value for value in settings)
        weight = self.lambda_query if side == "query" else self.lambda_document
        return SideRegularizer(kind if weight and kind else "none", weight, ramp, threshold)

    def check(self, where: str) -> None:
        """Raise if a kind or a side is not known; ``where`` opens the message."""
        for name in ("kind", "ramp_steps", "threshold"):
            value = getattr(self, name)
            for side in value if isinstance(value, Mapping) else ():
                if side not in SIDES:
                    raise LearnedSparseError(f"{where}: {name}: {side!r} is no side{did_you_mean(side, SIDES)}")
        for kind in self.kind.values() if isinstance(self.kind, Mapping) else (self.kind,):
            if kind != "none" and kind not in REGULARIZERS:
                hint = did_you_mean(kind, ["none", *REGULARIZERS])
                raise LearnedSparseError(f"{where}: kind: {kind!r} is not a regulariser{hint}")


class SideRegularizer(NamedTuple):
    """The regulariser of one side; ``kind`` is ``none`` where lambda is 0."""

    kind: str
    weight: float
    ramp_steps: int | None
    threshold: int | None


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of training: what is optimised, how long and how."""

    name: str
    objective: str = "rank"  # or "mlm", masked-LM on documents; or one of the architecture: SparTerm's "gate" (Eq. 8)
    component: str | None = None  # rank: train and search with this component alone; None: the whole model
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the architecture, in this stage only: SpaDE's k
    options: Any = field(default_factory=StageOptions)  # of the architecture: see ``encoders.training.options``
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
        steps = self.regularizer.side(side).ramp_steps
        return self.steps // 3 if steps is None else steps

    @property
    def full_lambda_step(self) -> int:
        """The first step whose weights can be the best: that of the full lambdas, or the last one."""
        used = (self.ramp_steps(side) for side in SIDES if self.regularizer.side(side).kind != "none")
        return min(max(used, default=0), self.steps)

    def check(self, where: str, hard_negatives: int) -> None:
        """Raise if the stage cannot be computed or cannot learn; ``where`` opens the message."""
        if self.steps < 1 or self.batch_size < 1:
            raise LearnedSparseError(f"{where}: 'steps' and 'batch_size' must be at least 1")
        if self.micro_batch_size is not None and self.micro_batch_size < 1:
            raise LearnedSparseError(f"{where}: micro_batch_size {self.micro_batch_size}; give at least 1")
        self.regularizer.check(f"{where}: regularizer")
        if self.objective == "rank":
            self._check_ranking(where, hard_negatives)
        elif self.component or self.distillation:
            raise LearnedSparseError(f"{where}: 'component' and 'distillation' go with objective: rank")
        self.options.check(self, where)

    def _check_ranking(self, where: str, hard_negatives: int) -> None:
        if hard_negatives == 0 and self.rank.loss == "pairwise":
            raise LearnedSparseError(f"{where}: the pairwise loss needs hard negatives; set negatives: per_query")
        if self.distillation is not None:
            self.distillation.check(where, hard_negatives)
        if self.rank.weight < 0 or (self.rank.weight == 0 and self.distillation is None):
            raise LearnedSparseError(f"{where}: rank: weight {self.rank.weight:g}; without distillation it is above 0")
        group = self.rank.negatives_from
        if group is not None and (group < 1 or self.batch_size % group):
            raise LearnedSparseError(f"{where}: rank: negatives_from {group} must divide batch_size {self.batch_size}")
        if (group or self.batch_size) == 1 and (hard_negatives == 0 or self.rank.loss == "hinge"):
            raise LearnedSparseError(
                f"{where}: a batch of one query without hard negatives has nothing to rank against"
            )


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Retrieval for queries that training does not see: exact search in a pool of documents, MRR@10.

    The best weights are kept. Queries are those of a split, or training queries that are held out: ``holdout``.
    """

    collection: str
    split: str | None = None  # None: dev, or the only split of an ir_datasets:ID
    holdout: int | None = None  # instead of a split: so many training queries, drawn by a hash of their ids or texts
    expanded: Path | None = None  # predicted queries; None: with holdout those of the source, if it has any
    every: int  # steps
    queries: int | None = None  # of the split, drawn at random; None: all
    pool: int | None = None  # random documents beside the relevant ones; None: all documents
    bm25: int | None = None  # the pool is BM25's so many documents of each query and the relevant ones
    rerank: bool = False  # each query ranks its own documents of ``bm25`` instead of the pool
    patience: int | None = None  # a stage ends after so many validations in a row without a better score

    def check(self, where: str) -> None:
        """Raise if two settings exclude or need each other; ``where`` opens the message."""
        if self.holdout is not None and (self.split is not None or self.queries is not None):
            raise LearnedSparseError(f"{where}: 'holdout' excludes 'split' and 'queries'; leave them out, or set null")
        if self.holdout is not None and self.holdout < 1:
            raise LearnedSparseError(f"{where}: holdout {self.holdout}; give at least 1")
        if self.pool is not None and self.bm25 is not None:
            raise LearnedSparseError(f"{where}: pool and bm25 are different pools; set one of them to null")
        if self.rerank and self.bm25 is None:
            raise LearnedSparseError(f"{where}: 'rerank' needs 'bm25', the documents to rank")


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """Quantisation of the finished model's weights to impacts.

    By default the factor of the architecture (SPLADE: 100); for a side without one, ``bits`` calibrated on training
    texts (SparTerm and every sum without log).
    """

    factor: float | None = None  # the same for both sides, whatever the architecture says
    bits: int = 8


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One model, from backbone to checkpoint."""

    model: str  # its name in commands and file names
    architecture: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # checked by the architecture
    backbone: str = "bert-base-uncased"
    revision: str | None = None  # of a backbone on the Hub
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
    quantization: Quantization = field(default_factory=Quantization)
    log_every: int = 10
    save_every: int = 1000

    def __post_init__(self) -> None:
        if not self.stages or not self.data:
            raise LearnedSparseError(f"recipe {self.model}: 'stages' and 'data' need at least one entry each")
        self.negatives.check(f"recipe {self.model}: negatives")
        stages = []
        for stage in self.stages:
            options = read_options(self.architecture, stage.options, f"recipe {self.model}: stage {stage.name}")
            stages.append(replace(stage, options=options))
        object.__setattr__(self, "stages", tuple(stages))  # the recipe is frozen, its options are read here
        for stage in stages:
            negatives = self.negatives_of(stage)
            negatives.check(f"recipe {self.model}: stage {stage.name}: negatives")
            stage.check(f"recipe {self.model}: stage {stage.name}", negatives.count)
        if self.validation is not None:
            self.validation.check(f"recipe {self.model}: validation")

    def negatives_of(self, stage: Stage) -> Negatives:
        """The hard negatives of a stage."""
        return self.negatives if stage.negatives is None else stage.negatives
