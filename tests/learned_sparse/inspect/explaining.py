"""An encoder that explains its weights, without torch, and an index of its vectors."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.encoder import Encoder
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.reading import Reading, Share, Sources, Token
from learned_sparse.core.records import SparseBatch
from learned_sparse.index.build import build_index
from learned_sparse.inspect import __main__ as inspect
from learned_sparse.inspect import inspection
from learned_sparse.search import query_encoder
from tests.learned_sparse.encoded_folder import WordCounts, write_folder

HOSTILE = 'hives <script>alert(1)</script> \x1b[31mred\x1b[0m \u202eevil & "quoted" it\'s'
DOCUMENTS: dict[str, str] = {
    "d1": "hives are a sign of hives",
    "d10": "itch and rash",
    "d2": HOSTILE,
    "ü/3": "rash of the skin",
}
EXPANSION = "##allergy"


class Explaining(WordCounts):
    """Each word has weight 2; the first two words also expand to ``##allergy`` with weights 0.5 and 1."""

    quantizer: Any = Quantizer(2.0)

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        return SparseBatch.from_dicts([self.explain(text).weights for text in texts])

    def explain(self, text: str) -> Reading:
        words = list(re.finditer(r"\S+", text))
        tokens = [Token("[CLS]", 0, 0, None, None)]
        tokens += [Token(word[0], word.start(), word.end(), 0, number) for number, word in enumerate(words)]
        shares = {
            word[0]: [Share(at, 2.0) for at, token in enumerate(tokens) if token.text == word[0]] for word in words
        }
        if len(words) > 1:
            shares[EXPANSION] = [Share(1, 0.5, "expansion"), Share(2, 1.0, "expansion")]
        weights = {term: sum(share.weight for share in of_term) for term, of_term in shares.items()}
        ordered = sorted(weights, key=lambda term: (-weights[term], term))
        gates = {EXPANSION: (Share(1, 0.75), Share(0, 1.25))}
        return Reading(
            tokens=tuple(tokens),
            truncated=False,
            spelled=True,
            weights={term: weights[term] for term in ordered},
            sources={term: Sources(shares=tuple(shares[term]), gate=gates.get(term, ())) for term in ordered},
        )


def impacts(text: str) -> dict[str, int]:
    """Impacts of a text by ``Explaining``."""
    return dict(Explaining.quantizer.quantize(Explaining().encode([text]))[0].row(0))


def vectors() -> dict[str, Mapping[str, int]]:
    """Impacts of ``DOCUMENTS``."""
    return {name: impacts(text) for name, text in DOCUMENTS.items()}


def save_index(folder: Path, **changes: Any) -> Path:
    """An index of ``DOCUMENTS``; their texts are in a file beside it."""
    corpus = folder / "corpus.tsv"
    folder.mkdir(parents=True, exist_ok=True)
    corpus.write_text("".join(f"{name}\t{text}\n" for name, text in DOCUMENTS.items()), encoding="utf-8")
    options: dict[str, Any] = {
        "quantizer": Explaining.quantizer,
        "query_quantizer": Explaining.quantizer,
        "input": ({"file": str(corpus), "bytes": corpus.stat().st_size},),
        **changes,
    }
    build_index(write_folder(folder / "encoded", vectors(), **options), folder / "index")
    return folder / "index"


LOADED: list[dict[str, Any]] = []
"""Arguments of the calls of ``load_explaining``."""


def load_explaining(checkpoint: str, side: str, **options: Any) -> Explaining:
    """``Explaining`` in place of a checkpoint."""
    LOADED.append({"checkpoint": checkpoint, "side": side, **options})
    time.sleep(0.02)  # a second thread comes
    return Explaining(**({"side": "document"} if side == "document" else {}))


def replace_encoders(monkeypatch: pytest.MonkeyPatch, load_encoder: Callable[..., Encoder] = load_explaining) -> None:
    """Replace ``load_encoder`` for documents, texts and queries."""
    LOADED.clear()
    for module in (inspection, query_encoder):
        monkeypatch.setattr(module, "load_encoder", load_encoder)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Output of the command."""
    assert inspect.main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    """JSON output of the command."""
    content: dict[str, Any] = json.loads(shown(capsys, *arguments, "--json"))
    return content
