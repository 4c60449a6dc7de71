"""Read files of Anserini's JsonVectorCollection strictly: line by line, as dicts, or as arrays."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from learned_sparse.core.errors import LearnedSparseError, folder_kind, not_found, progress_bar, wrong_path
from learned_sparse.core.lines import EMPTY_TERM, BadLineError, check_id, read_lines, unfit_reason
from learned_sparse.core.quantize import MAX_IMPACT
from learned_sparse.core.records import SparseBatch
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest, anserini_files, load_manifests


class LineReader:
    """Parses lines strictly, and checks each distinct term only once.

    ``BadLineError``: Anserini would drop or change the line; the caller adds the file and the line number.
    """

    def __init__(self, *, weights: bool = False) -> None:
        """With ``weights``, values may also be floats and 0, and vectors may be empty."""
        self._weights = weights
        self._fit: set[str] = set()

    def parse(self, line: bytes) -> tuple[str, dict[str, Any]]:
        """``(id, {term: impact})`` of a line; a ``BadLineError`` says what Anserini would do with a bad line.

        With ``weights``, the values are above 0: terms of weight 0 are left out.
        """
        name, vector, _ = self.parse_object(line)
        return name, vector

    def parse_object(self, line: bytes) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Like ``parse``, with the whole object of the line, whose ``"vector"`` is unchanged."""
        try:
            content = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadLineError(f"not JSON ({error}); Anserini would stop reading the file here") from None
        if not isinstance(content, dict):
            raise BadLineError(f"expected an object, got {type(content).__name__}")
        if content.get("vector") is None and any(key in content for key in ("text", "contents")):
            raise BadLineError('text and no "vector"; encode it with learned_sparse.encode, or index it with --bm25')
        for key in ("id", "vector"):
            if content.get(key) is None:
                raise BadLineError(f'no "{key}"; Anserini would stop reading the file here, or drop the document')
        name, vector = check_id(content["id"]), content["vector"]
        if not isinstance(vector, dict):
            raise BadLineError(f'"vector" is a {type(vector).__name__}, not an object {{term: impact}}')
        return name, self._above_zero(vector) if self._weights else self._impacts(vector), content

    def _above_zero(self, vector: dict[str, Any]) -> dict[str, float]:
        for term, weight in vector.items():
            if type(weight) not in (int, float) or not 0 <= weight < math.inf:
                raise BadLineError(f"{term!r} has the weight {weight!r}, not a number of 0 or more")
        if vector.keys() == {EMPTY_TERM}:
            return {}
        self._check_terms(vector)
        return {term: weight for term, weight in vector.items() if weight}

    def _impacts(self, vector: dict[str, Any]) -> dict[str, int]:
        if not vector:
            raise BadLineError(f'the vector is empty and Anserini would drop the document; write {{"{EMPTY_TERM}": 1}}')
        if vector == {EMPTY_TERM: 1} and type(vector[EMPTY_TERM]) is int:
            return {}
        impacts = vector.values()
        if set(map(type, impacts)) != {int} or min(impacts) < 1 or max(impacts) > MAX_IMPACT:
            term, value = next((t, v) for t, v in vector.items() if type(v) is not int or not 1 <= v <= MAX_IMPACT)
            way_out = "; learned_sparse.index --quantize turns weights into impacts" if type(value) is float else ""
            raise BadLineError(
                f"{term!r} has the impact {value!r}, not an integer from 1 to {MAX_IMPACT}; Anserini would cut or drop "
                f"it{way_out}"
            )
        self._check_terms(vector)
        return vector

    def _check_terms(self, vector: Mapping[str, Any]) -> None:
        if self._fit.issuperset(vector):
            return
        for term in vector.keys() - self._fit:
            if reason := unfit_reason(term):
                raise BadLineError(f"Lucene cannot hold the term {term!r}: {reason}")
            self._fit.add(term)


def read_vectors(*paths: str | Path) -> Iterator[tuple[str, dict[str, int]]]:
    """``(id, {term: impact})`` of each document below ``paths``; an empty dict for an empty vector.

    A path is a file, a folder of files, or a folder that ``learned_sparse.encode`` wrote, which must be complete and
    hold the files of its manifest. Lines that Anserini would drop or change, and repeated ids, raise an error with file
    and line. In memory are one document and a hash of each id, as in ``DocumentReader``.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        files += vector_files(path)
        if (path / MANIFEST).is_file():
            Manifest.load(path).check(path, hashes=False)
    return ((name, vector) for name, vector, _ in read_objects(files))


def read_objects(
    files: Iterable[Path], *, weights: bool = False, seen: set[int] | None = None
) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """``LineReader.parse_object`` of each line of ``files``.

    A repeated id, or one whose hash is in ``seen``, raises an error with file and line; hashes are added to ``seen``.
    """
    seen = set() if seen is None else seen
    reader = LineReader(weights=weights)
    for file in files:
        for number, line in numbered_lines(file):
            try:
                name, vector, content = reader.parse_object(line)
            except BadLineError as error:
                raise LearnedSparseError(f"{file}:{number}: {error}") from None
            if hash(name) in seen:
                raise LearnedSparseError(f"{file}:{number}: the id {name!r} occurs twice; remove one of the two")
            seen.add(hash(name))
            yield name, vector, content


def load_vectors(paths: Sequence[str | Path]) -> tuple[list[str], SparseBatch]:
    """Ids and impacts of all documents below ``paths`` (files or folders), in the order of the files.

    Lines are checked as in ``read_vectors``, and folders with a manifest as by ``load_manifests``. Impacts take 1, 2 or
    4 bytes each, as the largest one needs.
    """
    folders = list(map(Path, paths))
    encoded = [folder for folder in folders if (folder / MANIFEST).is_file()]
    manifests = load_manifests(encoded)
    if any(manifest.scoring != "impact" for manifest in manifests):
        raise LearnedSparseError(
            f"{encoded[0]}: scored by BM25, not by a sum of impacts; index it, and search the index"
        )
    files = [file for folder in folders for file in vector_files(folder)]
    ids: list[str] = []
    numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))
    indices, impacts, bounds = array("i"), array("i"), array("q", [0])
    for name, vector, _ in read_objects(progress_bar(files, f"reading {folders[0].name}", "files")):
        ids.append(name)
        indices.fromlist([numbers[term] for term in vector])
        impacts.fromlist(list(vector.values()))
        bounds.append(len(impacts))
    values = np.frombuffer(impacts, np.int32)
    values = values.astype(np.min_scalar_type(values.max(initial=0)))
    return ids, SparseBatch(np.array(bounds), np.array(indices), values, list(numbers))


def vector_files(path: Path) -> list[Path]:
    """Files below ``path`` that Anserini would read, sorted by name; ``path`` itself if it is a file."""
    if not path.exists():
        raise not_found(path, "file or folder", "learned_sparse.encode writes such folders")
    if not path.is_dir():
        return [path]
    if folder_kind(path) in {"a Lucene index", "a checkpoint", "a test collection", "encoded queries"}:
        raise wrong_path(path, "encoded documents", "name a folder that learned_sparse.encode wrote")
    folder = path / "vectors" if (path / "vectors").is_dir() else path
    files = anserini_files(folder)
    if not files and folder == path:
        raise LearnedSparseError(f"{path}: no .jsonl, .json or .gz file here; learned_sparse.encode writes such files")
    return files


def numbered_lines(file: Path) -> Generator[tuple[int, bytes], None, None]:
    """The lines of a file that are not blank, as they are."""
    yield from ((number, line) for number, line in read_lines(file, raw=True) if not line.isspace())


def frequent_terms(frequencies: Mapping[str, int], documents: int, share: float) -> dict[str, int]:
    """Terms in more than ``share`` of ``documents``, with their document frequencies, most frequent first.

    This is corpus-level pruning (SpaDE, section 3.4), with document frequencies of the encoded documents.

    >>> frequent_terms({"hives": 2, "the": 10, "of": 7}, documents=10, share=0.6)
    {'the': 10, 'of': 7}
    >>> frequent_terms({"a": 29, "b": 30}, documents=100, share=0.29)
    {'b': 30}
    """
    # count / documents is the float nearest to the quotient, as is 0.29 in the source; 0.29 * 100 is below 29.
    return {term: count for term, count in by_frequency(frequencies) if count / documents > share}


def by_frequency(frequencies: Mapping[str, int]) -> list[tuple[str, int]]:
    """Terms with their document frequencies, most frequent first, ties by code point."""
    return sorted(frequencies.items(), key=lambda item: (-item[1], item[0]))
