"""A recipe: everything that decides what a training run computes, as frozen and strictly read settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from encoders.training.stage_checks import check_stage
from learned_sparse.core import LearnedSparseError

RECIPES = Path(__file__).parent.parent / "recipes"


@dataclass(frozen=True, kw_only=True)
class MaxLength:
    """Where texts are cut, in word pieces with [CLS] and [SEP]."""

    query: int = 256
    document: int = 256


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where training examples come from; one of three forms.

    * ``collection`` (+ ``split``): a name of collections/, a YAML file, a BEIR or MS MARCO folder, ``ir_datasets:ID``
      (which needs no ``split`` where ID names one)
    * ``collection`` + ``topics`` + ``qrels``: the documents of the collection with Pyserini-style topics and judgements
    * ``triples``: MS MARCO TSV, ``query TAB positive TAB negative`` as texts; as ids when ``collection`` is given too
    """

    collection: str | None = None
    split: str = "train"
    topics: Path | None = None
    qrels: Path | None = None
    triples: Path | None = None
    run: Path | None = None  # TREC run to take hard negatives from
    weight: float | None = None  # share of the examples drawn; None: in proportion to size
    min_relevance: int = 1  # judged this or higher counts as positive


@dataclass(frozen=True, kw_only=True)
class Negatives:
    """Where hard negatives come from.

    ``given``: the triples, or the ``run`` of each source. ``bm25``: Lucene searches the training queries first.
    ``self``: the model being trained searches them, at the start of the stage and every ``every`` steps.
    """

    kind: Literal["given", "bm25", "self", "none"] = "given"
    per_query: int = 1
    first_rank: int = 1  # counted from 1; higher skips likely unjudged positives
    last_rank: int = 100
    every: int | None = None  # self: steps between searches; None: only at the start
    pool: int | None = None  # self: documents searched, drawn at random (positives always); None: all
    queries: int | None = None  # self: training queries searched, drawn at random; None: all
    short: Literal["random", "drop"] = "random"  # a query with too few: random documents instead, or leave it out


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The ranking loss."""

    loss: Literal["pairwise", "in_batch", "hinge"] = "in_batch"
    margin: float = 1.0  # hinge: by how much a relevant document is to win (UHD-BERT Eq. 8)
    others_hard_negatives: bool = False  # in_batch: score against the hard negatives of other queries as well
    mask_known_positives: bool = True  # in_batch: leave out documents known to be relevant (the papers are silent)
    score_scale: float = 1.0  # dot products are multiplied by it in the loss; both papers: 1


@dataclass(frozen=True, kw_only=True)
class Gate:
    """SparTerm's Eq. 8; the two weights are the paper's (§4.2)."""

    negative_weight: float = 1e-3  # lambda_1
    positive_weight: float = 1.0  # lambda_2


@dataclass(frozen=True, kw_only=True)
class Regularizer:
    """The sparsity regulariser and its lambdas, which grow quadratically from 0 until ``ramp_steps``."""

    kind: Literal["none", "flops", "l1"] = "none"
    lambda_query: float = 0.0
    lambda_document: float = 0.0
    ramp_steps: int = 50_000
    documents: Literal["concatenated", "averaged"] = "concatenated"  # averaged: naver/splade's code


@dataclass(frozen=True, kw_only=True)
class Pointwise:
    """The query likelihood in SpaDE's Eq. 12: ``-weight * v_q . log softmax(v_d+)``."""

    weight: float = 0.0  # the paper's lambda is 1
    component: str | None = None  # added only where this component is trained on its own; None: wherever


@dataclass(frozen=True, kw_only=True)
class CoTraining:
    """SpaDE §3.3: what is hard for one component trains the other.

    One step of the stage looks at ``select_from`` examples. Each component scores all of them; the ``share`` of them on
    which it loses most trains the other one, in updates of ``batch_size`` examples (the last of what is left).
    """

    components: tuple[str, ...]  # two of them
    select_from: int = 1024  # examples of one step, over all processes; the paper selects from the whole training set
    share: float = 0.3  # tau (§3.3); 1: nothing is selected, both train on everything ("w/o co-training" of Table 6)
    loss: Literal["stage", "pairwise"] = "stage"  # what "lose" means: the trained loss, or Eq. 7 (published code)


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """SpaDE §3.4: terms that more than ``gamma`` of the documents hold lose all their weight.

    Documents are counted in windows of the stage; at the end of each, its counts decide. Counting begins at ``begin``.
    """

    gamma: float = 0.7  # of the paper; in force when ``schedule`` is at its end
    begin: int = 0  # steps of the stage
    window: int  # steps
    schedule: tuple[float, ...] = ()  # gamma after the first window, the second ... (published code: .90, .85 ...)
    counted: str = "document"  # terms with weight in any component; or the component whose terms are counted
    restart: bool = True  # a smaller gamma begins the search for the best weights anew, and patience (published code)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of training: what is optimised, for how long and how."""

    name: str
    objective: Literal["rank", "gate"] = "rank"
    component: str | None = None  # rank: train and search with this component alone; None: with the whole model
    joint: bool = False  # rank: train the gate as well, on L_rank + L_exp (SparTerm Eq. 9)
    steps: int
    batch_size: int  # queries of one step, over all processes
    micro_batch_size: int | None = None  # queries of one forward pass; None: batch_size / processes
    scope: Literal["micro_batch", "batch"] = "micro_batch"  # the texts in-batch negatives and FLOPS are computed over
    optimizer: Literal["adam", "adamw"] = "adam"
    weight_decay: float = 0.0
    learning_rate: float = 2e-5
    learning_rates: Mapping[str, float] = field(default_factory=dict)  # of components that have another
    head_learning_rate: float | None = None  # of parameters that no backbone brought; None: as the others
    warm_up_steps: int = 0
    decay: bool = True  # linear decay to 0; False: constant after the warm-up
    max_gradient_norm: float | None = None
    validate_every: int | None = None  # steps; None: as ``validation`` says
    dropout: bool = True  # the backbone's own dropout; False trains without
    rank: Rank = field(default_factory=Rank)
    pointwise: Pointwise = field(default_factory=Pointwise)
    cotraining: CoTraining | None = None
    pruning: Pruning | None = None
    gate: Gate = field(default_factory=Gate)
    regularizer: Regularizer = field(default_factory=Regularizer)


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Retrieval on a held-out split: exact search in a pool of documents, MRR@10, the best weights kept."""

    collection: str
    split: str = "dev"
    every: int  # steps
    queries: int | None = 500  # drawn at random; None: all
    pool: int | None = None  # random documents beside the relevant ones; None: all documents
    candidates: Path | None = None  # TREC run: the pool is what it retrieved (and the relevant documents) instead
    depth: int = 10
    at_start: bool = False
    patience: int | None = None  # a stage ends after so many validations in a row without a better score


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """How the finished model's weights become impacts.

    By default what the architecture says (SPLADE: factor 100), and for a side on which it is silent ``bits`` calibrated
    on training texts (SparTerm and every sum without log).
    """

    factor: float | None = None  # the same for both sides, whatever the architecture says
    bits: int = 8
    percentile: float = 100.0
    texts: int = 1000


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One model, from backbone to checkpoint."""

    model: str  # its name in commands and file names
    architecture: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # checked by the architecture
    backbone: str = "bert-base-uncased"
    revision: str | None = None  # of a backbone on the Hub
    num_hidden_layers: int | None = None  # None: all the backbone has
    output_bias: float | None = (
        None  # where the backbone has no masked-LM head; None: that of encoders.backbone.load_backbone
    )
    idf_bias: float = 0.0  # this times ln((N + 1) / (df + 1)) is added to each term's output bias before training
    seed: int = 0
    max_length: MaxLength = field(default_factory=MaxLength)
    precision: Literal["fp32", "bf16"] = "fp32"  # bf16: autocast, weights stay fp32
    data: tuple[Source, ...]
    negatives: Negatives = field(default_factory=Negatives)
    stages: tuple[Stage, ...]
    validation: Validation | None = None
    mix: bool = True  # with validation: weigh components by what validates best, where the architecture has mixtures
    quantization: Quantization = field(default_factory=Quantization)
    log_every: int = 10
    save_every: int = 1000

    def __post_init__(self) -> None:
        if not self.stages or not self.data:
            raise LearnedSparseError(f"recipe {self.model}: 'stages' and 'data' need at least one entry each")
        for stage in self.stages:
            check_stage(f"recipe {self.model}: stage {stage.name}", stage, self.negatives)
