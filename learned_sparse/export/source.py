"""What is exported: encoded documents and queries, read strictly, counted, and compared with their manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from learned_sparse.core import EMPTY_TERM, LearnedSparseError, SparseBatch, progress_bar
from learned_sparse.index import VectorFiles, open_vectors
from learned_sparse.jsonvector import check_queries, load_vectors, parts_sha256, read_topics, read_vectors

Vector = dict[str, int]


@dataclass(frozen=True)
class Contents:
    """Counts of the documents of a source."""

    documents: int
    postings: int
    largest_impact: int
    most_terms: int
    """Maximum number of terms of a document."""
    terms: tuple[str, ...]
    """All terms, ascending by code point."""


@dataclass(frozen=True)
class Loss:
    """Effect of a rescaling of impacts."""

    dropped: int = 0
    """Impacts that became 0."""
    relative_error: float = 0.0
    """Largest relative difference between another impact and its rescaled value, divided by the factor."""


@dataclass(frozen=True)
class Source:
    """Documents, queries, or both. Documents are read from their files at each iteration."""

    vectors: VectorFiles | None
    queries: Mapping[str, Vector]
    """``{query id: {term: impact}}``."""
    factor: float = 1.0
    """Documents are exported with ``round(factor * impact)``."""

    @classmethod
    def open(cls, vectors: Sequence[Path], queries: Path | None) -> Source:
        """Check manifests as ``learned_sparse.index`` does; queries must be of the model of the documents."""
        files = open_vectors(list(vectors)) if vectors else None
        if files and files.scoring != "impact":
            raise LearnedSparseError(f"{vectors[0]}: scored by BM25, not by a sum of impacts; exports are dot products")
        if queries:
            for manifest in files.manifests[:1] if files else ():
                check_queries(queries, manifest)
        return cls(files, read_topics(queries) if queries else {})

    @cached_property
    def contents(self) -> Contents:
        """Counts from one pass over all documents; raises if the manifest records others, or if an id occurs twice."""
        documents = postings = largest = most = empty = 0
        terms: set[str] = set()
        ids: set[str] = set()
        for name, vector in self._read():
            if name in ids:
                raise LearnedSparseError(f"the document id {name!r} occurs in two files; remove one of the two")
            ids.add(name)
            documents += 1
            postings += len(vector)
            empty += not vector
            most = max(most, len(vector))
            largest = max(largest, *vector.values(), 0)
            terms.update(vector)
        recorded = sum(self._files().documents), self._files().postings
        if (documents, postings + empty) != recorded:
            raise LearnedSparseError(
                f"{self._files().files[0].parent}: {recorded[0]:,} documents and {recorded[1]:,} postings recorded, "
                f"{documents:,} and {postings + empty:,} read ({EMPTY_TERM} counts as one); encode again"
            )
        return Contents(documents, postings, largest, most, tuple(sorted(terms)))

    def arrays(self) -> tuple[list[str], SparseBatch]:
        """Ids and impacts of all documents in memory, in the order of the files."""
        return load_vectors(self._files().files)

    def rescaled(self, largest: int) -> Source:
        """The same source with impacts up to ``largest``."""
        return replace(self, factor=largest / self.contents.largest_impact)

    def documents(self) -> Iterator[tuple[str, Vector]]:
        """``(id, {term: impact})`` in the order of the files, rescaled; an empty dict for an empty vector."""
        if self.factor == 1.0:
            yield from self._read()
            return
        for name, vector in self._read():
            scaled = ((term, round(impact * self.factor)) for term, impact in vector.items())
            yield name, {term: impact for term, impact in scaled if impact}

    def loss(self) -> Loss:
        """The loss of ``factor``, from one more pass over the documents."""
        if self.factor == 1.0:
            return Loss()
        impacts = {impact for _, vector in self._read() for impact in vector.values()}
        lost = {impact for impact in impacts if not round(impact * self.factor)}
        errors = (abs(round(impact * self.factor) / self.factor - impact) / impact for impact in impacts - lost)
        dropped = sum(impact in lost for _, vector in self._read() for impact in vector.values()) if lost else 0
        return Loss(dropped, max(errors, default=0.0))

    def record(self) -> dict[str, object]:
        """Provenance of the documents: collection, model and checksums, as far as a manifest records them."""
        manifests = self.vectors.manifests if self.vectors else ()
        if not manifests:
            return {}
        return {
            "collection": manifests[0].collection,
            "model": manifests[0].model,
            "checkpoint": manifests[0].checkpoint,
            "parts_sha256": parts_sha256(manifests),
        }

    def _files(self) -> VectorFiles:
        if self.vectors is None:
            raise LearnedSparseError("no documents: give --vectors DIR")
        return self.vectors

    def _read(self) -> Iterator[tuple[str, Vector]]:
        vectors = (pair for file in self._files().files for pair in read_vectors(file))
        yield from progress_bar(vectors, "vectors", "documents", sum(self._files().documents))


@dataclass(frozen=True)
class Layout:
    """How a format is written."""

    terms: Sequence[str]
    """Term ``n`` is written as the number ``n``, in formats that number terms."""
    max_bytes: int
    """Size of a file that is sent in one request."""


@dataclass(frozen=True)
class Written:
    """What a format wrote, to be compared with the source."""

    vectors: int
    """Documents or queries."""
    postings: int
    unknown_terms: int = 0
    """Terms of queries that are left out, because the layout has no number for them: no document has them."""
    terms: Sequence[str] | None = None
    """Terms in the order of their numbers, if the format numbers them itself."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the record."""


class Parts:
    """Files ``NAME-00000.SUFFIX``, ... of at most ``max_bytes``, unless one record is longer."""

    def __init__(self, folder: Path, name: str, max_bytes: int, *, before: bytes = b"", after: bytes = b"") -> None:
        """``name`` has the suffix; ``before`` and ``after`` open and close each file, with commas between records."""
        self._folder, (self._stem, _, self._suffix) = folder, name.partition(".")
        self._max_bytes, self._before, self._after = max_bytes, before, after
        self._records: list[bytes] = []
        self._size = self._count = 0

    def add(self, record: bytes) -> None:
        """Append one record."""
        if self._records and self._size + len(record) + 1 + len(self._before) + len(self._after) > self._max_bytes:
            self._flush()
        self._records.append(record)
        self._size += len(record) + 1

    def close(self) -> None:
        """Write what is left; without any record, one file without records."""
        if self._records or not self._count:
            self._flush()

    def _flush(self) -> None:
        separator = b"," if self._before else b""
        content = self._before + separator.join(self._records) + self._after
        (self._folder / f"{self._stem}-{self._count:05d}.{self._suffix}").write_bytes(content)
        self._records, self._size, self._count = [], 0, self._count + 1
