"""A recipe: all settings that decide what a training run computes, frozen and strictly read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from encoders.training.regularizers import REGULARIZERS
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.errors import LearnedSparseError, did_you_mean


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
    systems: tuple[str, ...] = ()  # of examples with negatives by system: those to use; empty: all
    scores: Path | None = None  # a teacher's scores by id, for distillation: TREC run, TSV or Parquet, or a folder
    expanded: Path | None = None  # text that expands the documents of the collection, by id: JSONL or TSV
    run: Path | None = None  # TREC run with the candidates for hard negatives
    weight: float | None = None  # share of the examples drawn; None: in proportion to size
    min_relevance: int = 1  # smallest relevance of a positive


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
    first_rank: int = 1  # from 1; a higher rank skips documents that are likely relevant but not judged
    last_rank: int = 100
    every: int | None = None  # self: steps between searches; None: only at the start
    pool: int | None = None  # self, checkpoint: documents searched, drawn at random, with all positives; None: all
    queries: int | None = None  # self, checkpoint: training queries searched, drawn at random; None: all

    def check(self, where: str) -> None:
        """Raise if the values contradict each other; ``where`` opens the message."""
        if (self.kind == "checkpoint") != (self.checkpoint is not None):
            raise LearnedSparseError(f"{where}: kind: checkpoint and 'checkpoint' go together")
        if not 1 <= self.first_rank <= self.last_rank:
            raise LearnedSparseError(f"{where}: ranks {self.first_rank} to {self.last_rank}; give 1 <= first <= last")
        if self.share <= 0:
            raise LearnedSparseError(f"{where}: share {self.share:g}; give a number above 0")


@dataclass(frozen=True, kw_only=True)
class Negatives(NegativeSource):
    """The hard negatives of a query: from one source, or from several ``sources`` in their shares."""

    per_query: int = 1
    margin: float | None = None  # leave out negatives that the teacher scores above the positive minus this
    short: Literal["random", "drop"] = "random"  # queries with too few: fill up with random documents, or leave out
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
    kl: float = 0.0  # divergence of the student's softmax from the teacher's, times student_temperature squared
    teacher_temperature: float = 1.0  # kl: the teacher's scores are divided by it
    student_temperature: float = 1.0  # kl: so are the student's

    def check(self, where: str, hard_negatives: int) -> None:
        """Raise if nothing can be distilled; ``where`` opens the message."""
        if min(self.margin_mse, self.kl) < 0 or self.margin_mse + self.kl <= 0:
            raise LearnedSparseError(f"{where}: distillation: give 'margin_mse' or 'kl' a weight above 0")
        if min(self.teacher_temperature, self.student_temperature) <= 0:
            raise LearnedSparseError(f"{where}: distillation: temperatures are above 0")
        if hard_negatives == 0:
            raise LearnedSparseError(f"{where}: distillation needs hard negatives; set negatives: per_query")


@dataclass(frozen=True, kw_only=True)
class Gate:
    """SparTerm's Eq. 8; the two weights are the paper's (§4.2)."""

    negative_weight: float = 1e-3  # lambda_1
    positive_weight: float = 1.0  # lambda_2


@dataclass(frozen=True, kw_only=True)
class Regularizer:
    """The sparsity regulariser and its lambdas, which grow quadratically from 0 until ``ramp_steps``.

    Weights from before that step are no candidates for the best ones of the stage. The regulariser is computed over
    the texts of a step on all processes, as in naver/splade's trainer.
    """

    kind: str = "none"  # or one of ``encoders.training.regularizers``
    kind_query: str | None = None  # of queries; None: ``kind``. naver/splade's later trainer: l1, beside flops
    lambda_query: float = 0.0
    lambda_document: float = 0.0
    ramp_steps: int | None = None  # None: a third of the stage's steps
    documents: Literal["concatenated", "averaged"] = "concatenated"  # averaged: naver/splade's code

    def check(self, where: str) -> None:
        """Raise if a regulariser is unknown; ``where`` opens the message."""
        for name, kind, known in (
            ("kind", self.kind, ["none", *REGULARIZERS]),
            ("kind_query", self.kind_query, [None, *REGULARIZERS] if self.kind != "none" else [None]),
        ):
            if kind not in known:
                hint = did_you_mean(str(kind), filter(None, known))
                raise LearnedSparseError(f"{where}: regularizer: {name}: {kind!r} is not a regulariser{hint}")


@dataclass(frozen=True, kw_only=True)
class Pointwise:
    """The query likelihood in SpaDE's Eq. 12: ``-weight * v_q . log softmax(v_d+)``."""

    weight: float = 0.0  # the paper's lambda is 1
    component: str | None = None  # add it only where this component is trained alone; None: always


@dataclass(frozen=True, kw_only=True)
class CoTraining:
    """SpaDE §3.3: examples that are hard for one component train the other one.

    One step of the stage looks at ``select_from`` examples. Each component scores all of them; the ``share`` with its
    largest losses trains the other component, in updates of ``batch_size`` examples (the last one may be smaller).
    """

    components: tuple[str, ...]  # two of them
    select_from: int = 1024  # examples of one step, over all processes; the paper selects from the whole training set
    share: float = 0.3  # tau (§3.3); 1: no selection, both train on everything ("w/o co-training" of Table 6)

    @property
    def selected(self) -> int:
        """The number of selected examples: ``share`` of ``select_from``, rounded down, at least 1.

        >>> CoTraining(components=("a", "b"), select_from=100, share=0.29).selected
        29
        """
        return max(1, int(self.share * self.select_from + 1e-9))  # 0.29 * 100 is just below 29

    def check(self, where: str) -> None:
        """Raise if the values contradict each other; ``where`` opens the message."""
        if len(set(self.components)) != 2 or len(self.components) != 2:
            raise LearnedSparseError(f"{where}: cotraining: 'components' are two different ones")
        if self.select_from < 1 or not 0 < self.share <= 1:
            raise LearnedSparseError(f"{where}: cotraining: 'select_from' is at least 1, 'share' above 0 and at most 1")


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """SpaDE §3.4: terms that have weight in more than ``gamma`` of the documents lose it.

    Documents are counted in windows of the stage, beginning at ``begin``; terms are pruned at the end of each window. A
    smaller gamma restarts the search for the best weights and patience, as in the published code.
    """

    gamma: float = 0.7  # the paper's; in force at the end of ``schedule``
    begin: int = 0  # steps of the stage
    window: int  # steps
    schedule: tuple[float, ...] = ()  # gamma after the first window, the second ... (published code: .90, .85 ...)
    cumulative: bool = False  # published code: pruned terms stay pruned, and no window after ``schedule`` prunes

    def check(self, where: str) -> None:
        """Raise if a value is out of range; ``where`` opens the message."""
        if self.window < 1 or self.begin < 0:
            raise LearnedSparseError(f"{where}: pruning: 'window' is at least 1, 'begin' at least 0")
        if self.cumulative and (not self.schedule or self.schedule[-1] != self.gamma):
            raise LearnedSparseError(f"{where}: pruning: cumulative pruning ends with 'schedule': end it with gamma")
        for gamma in (*self.schedule, self.gamma):
            if not 0 < gamma <= 1:
                raise LearnedSparseError(f"{where}: pruning: {gamma} is not a share of documents; give 0 < gamma <= 1")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of training: what is optimised, how long and how."""

    name: str
    objective: str = "rank"  # or one of the architecture: SparTerm has "gate" (Eq. 8)
    component: str | None = None  # rank: train and search with this component alone; None: the whole model
    joint: bool = False  # rank: train the gate as well, on L_rank + L_exp (SparTerm Eq. 9)
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the architecture, in this stage only: SpaDE's k
    steps: int
    batch_size: int  # queries of one step, over all processes
    micro_batch_size: int | None = None  # at most so many queries in a forward pass: less memory, the same gradient
    optimizer: Literal["adam", "adamw"] = "adam"
    weight_decay: float = 0.0
    learning_rate: float = 2e-5
    learning_rates: Mapping[str, float] = field(default_factory=dict)  # of components with another one
    head_learning_rate: float | None = None  # of parameters that no backbone brought; None: as the others
    warm_up_steps: int = 0
    decay: bool = True  # linear decay to 0; False: constant after the warm-up
    max_gradient_norm: float | None = None
    validate: bool = True  # False: the stage is not validated; its last weights count
    validate_every: int | None = None  # steps; None: ``validation.every``
    dropout: bool = True  # the backbone's own dropout; False: none
    negatives: Negatives | None = None  # None: those of the recipe
    rank: Rank = field(default_factory=Rank)
    distillation: Distillation | None = None
    pointwise: Pointwise = field(default_factory=Pointwise)
    cotraining: CoTraining | None = None
    pruning: Pruning | None = None
    gate: Gate = field(default_factory=Gate)
    regularizer: Regularizer = field(default_factory=Regularizer)

    @property
    def ramp_steps(self) -> int:
        """Steps until the lambdas have their full size."""
        ramp = self.regularizer.ramp_steps
        return self.steps // 3 if ramp is None else ramp

    @property
    def full_lambda_step(self) -> int:
        """The first step whose weights can be the best: that of the full lambdas, or the last one."""
        regularizer = self.regularizer
        used = regularizer.kind != "none" and (regularizer.lambda_query or regularizer.lambda_document)
        return min(self.ramp_steps, self.steps) if used else 0

    def check(self, where: str, hard_negatives: int) -> None:
        """Raise if the stage cannot be computed or cannot learn; ``where`` opens the message."""
        if self.steps < 1 or self.batch_size < 1:
            raise LearnedSparseError(f"{where}: 'steps' and 'batch_size' must be at least 1")
        if self.micro_batch_size is not None and self.micro_batch_size < 1:
            raise LearnedSparseError(f"{where}: micro_batch_size {self.micro_batch_size}; give at least 1")
        self.regularizer.check(where)
        if self.validate_every is not None and not self.validate:
            raise LearnedSparseError(f"{where}: 'validate_every' needs validate: true; leave one of them out")
        if self.objective == "rank":
            self._check_ranking(where, hard_negatives)
        elif self.component or self.cotraining or self.pruning or self.joint or self.distillation:
            raise LearnedSparseError(
                f"{where}: 'component', 'cotraining', 'pruning', 'joint', 'distillation' go with objective: rank"
            )
        if self.cotraining is not None:
            if self.component is not None or self.joint:
                raise LearnedSparseError(f"{where}: 'cotraining' excludes 'component' and 'joint'; leave them out")
            self.cotraining.check(where)
        if self.pruning is not None:
            self.pruning.check(where)

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
    texts: int = 1000


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One model, from backbone to checkpoint."""

    model: str  # its name in commands and file names
    architecture: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # checked by the architecture
    backbone: str = "bert-base-uncased"
    revision: str | None = None  # of a backbone on the Hub
    num_hidden_layers: int | None = None  # None: all layers of the backbone
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
        for stage in self.stages:
            negatives = self.negatives_of(stage)
            negatives.check(f"recipe {self.model}: stage {stage.name}: negatives")
            stage.check(f"recipe {self.model}: stage {stage.name}", negatives.count)
        if self.validation is not None:
            self.validation.check(f"recipe {self.model}: validation")

    def negatives_of(self, stage: Stage) -> Negatives:
        """The hard negatives of a stage."""
        return self.negatives if stage.negatives is None else stage.negatives
