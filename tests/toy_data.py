"""Very small collections in BEIR's layout, and recipes cut down to a random BERT, for tests of whole commands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_TEXT = "python file opens path garbage collector memory skin rash hives weather rain wing lift drag heat flow"
WORDS = _TEXT.split()
TEXTS = [" ".join(WORDS[i : i + 5]) for i in range(12)]


def save_collection(folder: Path, splits: Iterable[str]) -> Path:
    """Twelve documents; the first two words of each are its query, in every one of ``splits``."""
    queries = {f"q{i}": " ".join(text.split()[:2]) for i, text in enumerate(TEXTS)}
    pairs = [(f"q{i}", f"d{i}", 1) for i in range(len(TEXTS))]
    save_beir(folder, {f"d{i}": text for i, text in enumerate(TEXTS)}, queries, dict.fromkeys(splits, pairs))
    return folder


def save_beir(
    folder: Path,
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    splits: Mapping[str, Sequence[tuple[str, str, int]]],
) -> None:
    """Texts by id, and ``(query, document, grade)`` of each split."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        lines = (json.dumps({"_id": id, "title": "", "text": text}) + "\n" for id, text in texts.items())
        (folder / name).write_text("".join(lines), encoding="utf-8")
    for split, judged in splits.items():
        rows = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in judged)
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}", encoding="utf-8")
