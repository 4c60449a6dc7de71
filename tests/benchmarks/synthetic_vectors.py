"""Random vectors and queries with Zipf-distributed terms."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import numpy.typing as npt

from learned_sparse.core.records import SparseBatch
from tests.learned_sparse.encoded_folder import write_part

VOCABULARY = 30_000
FLAT = 30.0
"""Term ``r`` has a probability proportional to ``1 / (r + FLAT)``; the most frequent is in 4 of 10 documents."""
LARGEST = 255
MEAN = 40.0  # mean impact before clipping at LARGEST
TEXT = "As many words of text as a passage has, so that the files are as large as they would be. " * 4
_AT_ONCE = 4096


def synthetic_impacts(documents: int, terms: int, seed: int = 0) -> SparseBatch:
    """Impacts from 1 to 255 in about ``terms`` terms a document, drawn independently: the worst case for clusters."""
    random = np.random.default_rng(seed)
    draws = _draws(terms)
    cumulative = np.cumsum(_probabilities())
    lengths, indices = [np.zeros(1, np.int64)], []
    for start in range(0, documents, _AT_ONCE):
        count = min(_AT_ONCE, documents - start)
        drawn = np.searchsorted(cumulative, random.random((count, draws))).clip(max=VOCABULARY - 1)
        entries = np.unique(drawn + np.arange(count)[:, None] * VOCABULARY)
        lengths.append(np.bincount(entries // VOCABULARY, minlength=count))
        indices.append((entries % VOCABULARY).astype(np.int32))
    columns = np.concatenate(indices)
    values = np.minimum(LARGEST, 1 + random.exponential(MEAN, len(columns))).astype(np.int32)
    names = [f"term{number}" for number in range(VOCABULARY)]
    return SparseBatch(np.cumsum(np.concatenate(lengths)), columns, values, names)


def synthetic_queries(count: int, terms: int, seed: int = 1) -> dict[str, dict[str, int]]:
    """``count`` queries of exactly ``terms`` terms from the documents' distribution, impacts from 1."""
    random = np.random.default_rng([seed, terms])
    queries = {}
    for number in range(count):
        chosen = random.choice(VOCABULARY, terms, replace=False, p=_probabilities()).tolist()
        impacts = (1 + random.exponential(MEAN, terms)).astype(int).tolist()
        queries[f"q{number}"] = {f"term{term}": impact for term, impact in zip(chosen, impacts, strict=True)}
    return queries


def document_ids(count: int) -> list[str]:
    """Ids ``0`` to ``count - 1`` as strings, so their order differs from the string order."""
    return [str(number) for number in range(count)]


def write_vectors(folder: Path, impacts: SparseBatch, parts: int = 4) -> dict[Path, int]:
    """Write ``impacts`` as JsonVectorCollection files; return the number of documents per file."""
    names = document_ids(len(impacts))
    bounds = np.linspace(0, len(impacts), parts + 1).astype(int).tolist()
    written = {}
    for part, (start, end) in enumerate(itertools.pairwise(bounds)):
        path, rows = folder / f"part-{part:05d}.jsonl", impacts.take(np.arange(start, end))
        write_part(path, names[start:end], [TEXT] * (end - start), rows)
        written[path] = end - start
    return written


def _probabilities() -> npt.NDArray[np.float64]:
    shares = 1 / (np.arange(VOCABULARY) + FLAT)
    probabilities: npt.NDArray[np.float64] = shares / shares.sum()
    return probabilities


def _draws(terms: int) -> int:
    """Number of draws with replacement whose expected number of distinct terms is ``terms``."""
    shares = _probabilities()
    draws = terms
    while (1 - (1 - shares) ** draws).sum() < terms:
        draws += 1
    return draws
