"""The rows of SpaDE's and UHD-BERT's ablations: which model, with which settings, and what the papers claim of them."""

from __future__ import annotations

from dataclasses import dataclass

from eval.claims import Claim


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A model to train: a recipe, and what is changed in it."""

    recipe: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: a trained model, with settings changed when its texts are encoded or only when it is searched."""

    model: str
    """A key of ``TRAINED``."""
    encode: tuple[str, ...] = ()
    """``KEY=VALUE`` for documents and queries."""
    index_of: str | None = None
    """The row whose index is searched, where only queries differ."""
    search: tuple[str, ...] = ()
    """``KEY=VALUE`` for queries only."""


TRAINED: dict[str, Trained] = {
    "spade": Trained(recipe="small-spade"),
    "spade-no-cotraining": Trained(
        recipe="small-spade",
        changes=(  # as many updates of each encoder
            "stages.2.steps=12",
            "stages.2.cotraining={components: [weighting, expansion], select_from: 16, share: 1.0}",
            "stages.2.pruning.window=2",
        ),
    ),
    "spade-no-pruning": Trained(recipe="small-spade", changes=("stages.2.pruning=null",)),
    "spade-joint": Trained(recipe="small-spade-joint"),
    "spade-weighting": Trained(recipe="small-spade-weighting"),
    "spade-expansion": Trained(recipe="small-spade-expansion"),
    "uhd-one": Trained(recipe="small-uhd-one"),
    "uhd-separate": Trained(recipe="small-uhd"),
    "uhd-joint": Trained(recipe="small-uhd-joint"),
}

_EQUAL = "bucket_weights=[1, 1, 1]"

ROWS: dict[str, Row] = {
    "SpaDE k=10": Row(model="spade", encode=("k=10",)),
    "SpaDE k=5": Row(model="spade", encode=("k=5",)),
    "SpaDE k=2": Row(model="spade", encode=("k=2",)),
    "SpaDE weighting only": Row(model="spade-weighting"),
    "SpaDE expansion only": Row(model="spade-expansion"),
    "SpaDE joint": Row(model="spade-joint"),
    "SpaDE no co-training": Row(model="spade-no-cotraining"),
    "SpaDE no pruning": Row(model="spade-no-pruning"),
    "UHD one bucket": Row(model="uhd-one"),
    "UHD separate, tuned": Row(model="uhd-separate"),
    "UHD separate": Row(model="uhd-separate", index_of="UHD separate, tuned", search=(_EQUAL,)),
    "UHD joint": Row(model="uhd-joint"),
    "UHD binarised": Row(model="uhd-separate", encode=("binarize=true",)),
    "UHD query k=100": Row(model="uhd-separate", index_of="UHD separate, tuned", search=("query_k=100",)),
    "UHD query k=50": Row(model="uhd-separate", index_of="UHD separate, tuned", search=("query_k=50",)),
}
"""``UHD separate, tuned`` is also the row of all query dimensions."""

CLAIMS = (
    Claim(source="SpaDE, Table 2: recall grows with k", better="SpaDE k=10", worse="SpaDE k=2", quantity="R@100"),
    *(
        Claim(source="SpaDE, Table 6", better="SpaDE k=10", worse=f"SpaDE {worse}", quantity="MRR@10")
        for worse in ("weighting only", "expansion only", "joint", "no co-training")
    ),
    Claim(
        source="SpaDE, Table 6: pruning costs nothing",
        better="SpaDE k=10",
        worse="SpaDE no pruning",
        quantity="MRR@10",
        kind="not lower",
    ),
    Claim(
        source="SpaDE, Table 6: pruning saves work",
        better="SpaDE k=10",
        worse="SpaDE no pruning",
        quantity="FLOPS",
        kind="less",
    ),
    Claim(source="UHD-BERT, Table 6", better="UHD separate", worse="UHD one bucket", quantity="MRR@10"),
    Claim(source="UHD-BERT, Table 6", better="UHD one bucket", worse="UHD joint", quantity="MRR@10"),
    Claim(source="UHD-BERT, Table 6", better="UHD separate", worse="UHD joint", quantity="MRR@10"),
    Claim(source="UHD-BERT, Table 6", better="UHD separate, tuned", worse="UHD separate", quantity="MRR@10"),
    Claim(
        source="UHD-BERT, section 4.3: binarising costs nothing",
        better="UHD binarised",
        worse="UHD separate, tuned",
        quantity="MRR@10",
        kind="not lower",
    ),
    Claim(source="UHD-BERT, Table 4", better="UHD query k=100", worse="UHD query k=50", quantity="MRR@10"),
    Claim(source="UHD-BERT, Table 4", better="UHD query k=100", worse="UHD separate, tuned", quantity="MRR@10"),
)
