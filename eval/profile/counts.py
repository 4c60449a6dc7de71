"""What an index, or an encoded collection, holds of each dimension and each document, as counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eval.costs import count_terms
from learned_sparse.core import EMPTY_TERM, LearnedSparseError
from learned_sparse.index import INDEX_MANIFEST, IndexNote
from learned_sparse.jsonvector import MANIFEST, Manifest, read_vectors


@dataclass(frozen=True, eq=False)
class Counts:
    """All that is kept of an index; a ``Counted`` of ``eval.costs.sparsity``."""

    document_frequency: Mapping[str, int]
    """Term → number of documents that have it."""
    texts: int
    """Documents, empty vectors included."""
    lengths: npt.NDArray[np.int32]
    """Terms of each document, or of each of a sample."""

    @property
    def postings(self) -> int:
        """Pairs of a term and a document."""
        return sum(self.document_frequency.values())


def is_index(place: Path) -> bool:
    """Whether Lucene wrote this folder."""
    return next(place.glob("segments_*"), None) is not None


def read_counts(places: Sequence[Path], sample: int) -> Counts:
    """Of one Lucene index, or of encoded folders or files (several shards together).

    Of an index, the lengths are those of ``sample`` documents: an inverted index would have to be turned round for all.
    """
    if is_index(places[0]):
        return _index_counts(_only(places), sample)
    counts = count_terms(vector for _, vector in chain.from_iterable(map(read_vectors, places)))
    if not counts.texts:
        raise LearnedSparseError(f"{places[0]}: no vectors in it")
    return Counts(counts.document_frequency, counts.texts, counts.lengths)


def read_manifest(place: Path) -> Manifest | None:
    """What says how these vectors were made; None for those of others, and for plain text."""
    if (place / MANIFEST).is_file():
        return Manifest.load(place)
    if not (place / INDEX_MANIFEST).is_file():
        return None
    return next(iter(IndexNote.load(place).manifests), None)


def vectors_of(places: Sequence[Path], ids: Collection[str]) -> dict[str, dict[str, int]]:
    """``{id: {term: impact}}`` of the documents ``ids``, in one pass; an error if one of them is not there."""
    if is_index(places[0]):
        from learned_sparse.lucene import postings_of

        found = postings_of(_only(places), ids)
    else:
        found = {name: vector for place in places for name, vector in read_vectors(place) if name in ids}
    if missing := sorted(set(ids) - found.keys()):
        raise LearnedSparseError(
            f"{places[0]}: {len(missing)} of {len(ids)} documents of the run are not in it (for instance "
            f"{missing[0]!r}); is it the run of this index, and of segments if these are indexed (--rank-segments)?"
        )
    return found


def _index_counts(index: Path, sample: int) -> Counts:
    from learned_sparse.lucene import every_document_frequency, read_contents, sampled_documents

    frequencies = every_document_frequency(index)
    frequencies.pop(EMPTY_TERM, None)
    documents = sampled_documents(index, sample)
    lengths = [len(terms) - (EMPTY_TERM in terms) for terms in documents]
    return Counts(frequencies, read_contents(index).documents, np.array(lengths, np.int32))


def _only(places: Sequence[Path]) -> Path:
    if len(places) > 1:
        raise LearnedSparseError(f"{places[0]}: an index; one is looked at at a time")
    return places[0]
