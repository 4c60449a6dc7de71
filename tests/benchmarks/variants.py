"""Encoding speed of each output layer: literal-only, lexical-only, full head, SpaDE, UHD-BERT."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import contenders, engines, harness
from tests.benchmarks.encoding import row, token_lengths, write_corpus
from tests.benchmarks.passages import described
from tests.benchmarks.shapes import SEED, SMALL, TINY, Shape, save_architecture

FULL = "SPLADE without log, full head"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A model, and the layers that encode each document."""

    architecture: str
    settings: Mapping[str, Any]
    passes: str
    scale: float = engines.SCALE
    """Impact per unit of weight."""


VARIANTS = {
    FULL: Variant(architecture="splade", settings={"saturation": "none"}, passes="one encoder, one head"),
    "SPLADE's ST lexical-only": Variant(
        architecture="splade",
        settings={"saturation": "none", "expansion": "lexical"},
        passes="one encoder, the text's own terms",
    ),
    "SparTerm literal-only": Variant(
        architecture="sparterm", settings={"mode": "literal-only"}, passes="one encoder, the text's own terms"
    ),
    "SparTerm expansion-enhanced": Variant(architecture="sparterm", settings={}, passes="two encoders, two heads"),
    "SpaDE, 10 terms a position": Variant(
        architecture="spade", settings={}, passes="two encoders, one head with top-k of each position"
    ),
    "UHD-BERT, 3 buckets of 81,920": Variant(
        architecture="uhd",
        settings={"layers": [2, 4, 6]},
        passes="three encoders of 2, 4 and 6 layers, winner-take-all",
        scale=1000.0,  # each bucket is a vector of length 1
    ),
}
_TOY_UHD = {"layers": [1, 2], "dimensions": 128, "k": 4}


def run(toy: bool) -> dict[str, Any]:
    """All variants on one backbone, in fp32."""
    return measure(TINY, 8, 1, {"uhd": _TOY_UHD}) if toy else measure(SMALL, 64, 5, {})


def measure(shape: Shape, number: int, rounds: int, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Encode ``number`` passages with each variant of ``shape``; ``changes`` override settings by architecture."""
    texts = shape.passages(number)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        backbone = shape.save(folder / "backbone", texts[:16])
        corpus = write_corpus(folder / "corpus.jsonl", texts)
        calls = {}
        for place_number, (name, variant) in enumerate(VARIANTS.items()):
            settings = {**variant.settings, **changes.get(variant.architecture, {})}
            model = save_architecture(folder / f"model{place_number}", variant.architecture, settings, backbone)
            output = folder / f"output{place_number}"
            calls[name] = contenders.ours(
                model, corpus, output, dtype="fp32", max_length=shape.max_length, scale=variant.scale
            )
        seconds = harness.interleave(calls, rounds)
        lengths = token_lengths(backbone, texts, shape.max_length)
    return {
        "sizes": {
            "shape": shape.name,
            "seed": SEED,
            "rounds": rounds,
            "dtype": "fp32",
            **described(texts, lengths, engines.BATCH),
        },
        "rows": [{**row(name, seconds[name], number), "passes": VARIANTS[name].passes} for name in calls],
        "ratios": {name: round(harness.median_ratio(seconds[FULL], seconds[name]), 3) for name in calls},
        "missing": {},
    }


def markdown(result: Mapping[str, Any]) -> str:
    """One line per variant."""
    sizes = result["sizes"]
    lines = [
        f"{sizes['shape']}, fp32: {sizes['texts']} passages of {sizes['words']} words, {sizes['rounds']} rounds.",
        "",
        "| | each document passes | documents/s | against the full head |",
        "|---|---|---:|---:|",
    ]
    lines += [
        f"| {line['contender']} | {line['passes']} | {line['documents_per_second']:.1f} | "
        f"{result['ratios'][line['contender']]:.2f} × |"
        for line in result["rows"]
    ]
    return "\n".join(lines)
