"""Encoded folders into one Lucene index, which is then compared with the files."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from learned_sparse.core import EMPTY_TERM, LearnedSparseError
from learned_sparse.index.direct_index import index_directly
from learned_sparse.index.note import IndexNote, new_index
from learned_sparse.jsonvector import (
    MANIFEST,
    PRUNING,
    LineReader,
    Manifest,
    differences,
    numbered_lines,
    read_vectors,
    vector_files,
)
from learned_sparse.lucene import (
    IndexContents,
    IndexedCounts,
    anserini_jar,
    index_collection,
    read_contents,
    read_impacts,
)

STORE = ("Docvectors", "Positions", "Raw", "Contents")
"""What Anserini can store beside the impacts (``-storeDocvectors``, ...)."""
SAMPLE = 100
"""Documents whose impacts are read back from the index, all of them."""


@dataclass(frozen=True)
class VectorFiles:
    """Files of vectors, and what an index of them must hold."""

    files: tuple[Path, ...]
    documents: tuple[int, ...]
    """In each file."""
    postings: int
    """An empty vector, written as one reserved term, counts one."""
    manifests: tuple[Manifest, ...] = ()
    scoring: str = "impact"


def encoded_files(folders: Sequence[Path]) -> VectorFiles:
    """The files of folders that learned_sparse.encode wrote (one, or the shards of one collection), all as recorded."""
    manifests = [Manifest.load(folder) for folder in folders]
    for folder, manifest in zip(folders, manifests, strict=True):
        if manifest.kind != "documents":
            raise LearnedSparseError(f"{folder}: encoded {manifest.kind}, not documents; only documents can be indexed")
        for problem in manifest.problems(folder):
            raise LearnedSparseError(f"{problem}; encode anew, or index plain vectors with --no-manifest")
    for (before, first), (folder, second) in pairwise(zip(folders, manifests, strict=True)):
        if lines := differences(_identity(first), _identity(second)):
            raise LearnedSparseError(f"{folder / MANIFEST}: not encoded as {before} was: {'; '.join(lines)}")
    parts = [
        (folder / part.file, part.documents) for folder, m in zip(folders, manifests, strict=True) for part in m.parts
    ]
    return VectorFiles(
        files=tuple(path for path, _ in parts),
        documents=tuple(count for _, count in parts),
        postings=sum(m.counts.postings + m.counts.empty_vectors for m in manifests),
        manifests=tuple(manifests),
        scoring=manifests[0].scoring,
    )


def plain_files(folders: Sequence[Path]) -> VectorFiles:
    """Files of vectors that somebody else made; each line is checked, since nothing tells what they should hold."""
    files = [file for folder in folders for file in vector_files(folder)]
    counts = [[len(vector) or 1 for _, vector in read_vectors(file)] for file in files]
    return VectorFiles(tuple(files), tuple(map(len, counts)), sum(map(sum, counts)))


def build_index(
    vectors: VectorFiles,
    index: Path,
    *,
    threads: int | None = None,
    store: Sequence[str] = (),
    overwrite: bool = False,
    heap: str | None = None,
    direct: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> IndexNote:
    """Index ``vectors`` into ``index`` and verify it; the folder appears only when everything is as it should be.

    ``direct``: each impact as one number; else Anserini's own indexing, which repeats each term that often.
    """
    if not sum(vectors.documents):
        raise LearnedSparseError("no documents to index; encode a collection first")
    options = [
        "-pretokenized",
        *(["-impact"] if vectors.scoring == "impact" else []),
        *(f"-store{name}" for name in store),
    ]
    with new_index(index, overwrite=overwrite) as folder:
        say(f"indexing {sum(vectors.documents):,} documents of {len(vectors.files):,} files")
        if direct:
            impact = vectors.scoring == "impact"
            read = index_directly(vectors.files, folder, impact=impact, store=store, threads=threads, heap=heap)
            contents, sampled = verify(vectors, folder)
            _compare(index, "sum of impacts", read.total_impacts, contents.total_impacts)
        else:
            counts = _with_anserini(vectors.files, folder, options, threads, heap)
            contents, sampled = verify(vectors, folder, counts)
        facts = {
            "anserini": anserini_jar().name,
            "indexer": "direct" if direct else "IndexCollection",
            "documents": contents.documents,
            "postings": contents.postings,
            "total_impacts": contents.total_impacts,
            "options": options,
            "verified_documents": sampled,
        }
        note = IndexNote(vectors.scoring, vectors.manifests, facts)
        note.save(folder)
    return note


def verify(
    vectors: VectorFiles, index: Path, counts: IndexedCounts | None = None, sample: int = SAMPLE
) -> tuple[IndexContents, int]:
    """Compare the index with the files: documents, distinct ids, postings, and every impact of sampled documents.

    Anserini's own counters say nothing of what a broken line made it leave out. Gives the contents and how many
    documents were sampled (drawn from all files, the same ones each time).
    """
    contents = read_contents(index)
    documents = sum(vectors.documents)
    _compare(index, "documents", documents, contents.documents)
    if counts is not None:
        _compare(index, "documents by Anserini's log", documents, counts.documents)
    _compare(index, "distinct ids", documents, contents.distinct_ids)
    _compare(index, "postings", vectors.postings, contents.postings)
    expected = sampled_vectors(vectors, sample)
    found = read_impacts(index, expected.items())
    for name, impacts in expected.items():
        lines = differences(impacts, found.get(name, {}))
        if lines:
            what = ", ".join(
                line.replace(" before", " in the file").replace(" now", " in the index") for line in lines[:3]
            )
            raise LearnedSparseError(f"{index}: document {name!r} is not as in the files: {what}; index anew")
    return contents, len(expected)


def sampled_vectors(vectors: VectorFiles, sample: int) -> dict[str, dict[str, int]]:
    """The vectors of ``sample`` documents, at most all, as an index must hold them."""
    total = sum(vectors.documents)
    chosen = set(random.Random(0).sample(range(total), min(sample, total)))  # noqa: S311  (the same documents each time)
    found: dict[str, dict[str, int]] = {}
    first = 0
    for file, count in zip(vectors.files, vectors.documents, strict=True):
        here = {number - first for number in chosen if first <= number < first + count}
        first += count
        found.update(_vectors_at(file, here))
    return found


def _vectors_at(file: Path, places: set[int]) -> dict[str, dict[str, int]]:
    if not places:
        return {}
    reader, last = LineReader(), max(places)
    found: dict[str, dict[str, int]] = {}
    for place, (number, line) in enumerate(numbered_lines(file)):
        if place in places:
            try:
                name, vector = reader.parse(line)
            except ValueError as error:
                raise LearnedSparseError(f"{file}:{number}: {error}") from None
            found[name] = vector or {EMPTY_TERM: 1}
        if place == last:
            break
    return found


def _with_anserini(
    files: Sequence[Path], folder: Path, options: Sequence[str], threads: int | None, heap: str | None
) -> IndexedCounts:
    """Anserini reads one folder, each file on one thread."""
    threads = max(1, min(threads or os.cpu_count() or 1, len(files)))
    source = folder / "source"
    _link(files, source)
    counts = index_collection("JsonVectorCollection", source, folder, options, threads=threads, heap=heap)
    for link in source.iterdir():
        link.unlink()
    source.rmdir()
    return counts


def _link(files: Sequence[Path], folder: Path) -> None:
    """A folder of links, named so that no two are alike."""
    folder.mkdir()
    for number, file in enumerate(files):
        (folder / f"{number:05d}-{file.name}").symlink_to(file.resolve())


def _identity(manifest: Manifest) -> dict[str, object]:
    content = manifest.to_json()
    keys = ("architecture", "scoring", "encoder", "query_encoder", "quantizer", "query_quantizer")
    pruned = sorted(manifest.options.get(PRUNING, {}).get("removed", []))
    return {key: content[key] for key in keys} | {"pruned dimensions": pruned or None}


def _compare(index: Path, what: str, expected: int, found: int) -> None:
    if expected != found:
        raise LearnedSparseError(f"{index}: {what}: {expected:,} in the files, {found:,} in the index")
