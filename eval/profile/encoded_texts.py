"""What ``learned_sparse.encode`` wrote of each text: its words, its length in tokens, its active dimensions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from encoders.checkpoints import locate
from encoders.encoding import read_tokenizer
from learned_sparse.core import LearnedSparseError
from learned_sparse.jsonvector import ENCODED, BadLineError, LineReader, Manifest, numbered_lines, vector_files


class TokenCounter:
    """Texts to their numbers of tokens, special ones included and truncated as the encoder does it; no torch."""

    def __init__(self, manifest: Manifest, checkpoint: str | None = None) -> None:
        """With the tokenizer of ``checkpoint``, or of the one the vectors in ``manifest`` were made with."""
        self._tokenizer = read_tokenizer(locate(checkpoint or manifest.checkpoint))
        self._tokenizer.enable_truncation(int(manifest.encoder["max_length"]))
        self._tokenizer.no_padding()

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Of each of ``texts``."""
        return [len(encoding) for encoding in self._tokenizer.encode_batch(list(texts))]


def read_encoded_documents(folder: Path) -> Iterator[tuple[str, dict[str, int]]]:
    """Text and ``{dimension: impact}`` of each encoded document; the lines are checked."""
    reader = LineReader()
    for file in vector_files(folder):
        with contextlib.closing(numbered_lines(file)) as lines:
            for number, line in lines:
                try:
                    _, vector = reader.parse(line)
                except BadLineError as error:
                    raise LearnedSparseError(f"{file}:{number}: {error}") from None
                yield str(orjson.loads(line).get("contents", "")), vector


def read_encoded_queries(folder: Path) -> list[tuple[str, dict[str, int]]]:
    """Text and ``{dimension: impact}`` of each encoded query; equal texts occur once."""
    path = folder / ENCODED
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file; learned_sparse.encode --queries writes it")
    found = []
    for number, line in numbered_lines(path):
        try:
            content = orjson.loads(line)
            found.append((str(content["contents"]), dict(content["vector"])))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise LearnedSparseError(
                f"{path}:{number}: not an encoded query ({error}); encode the queries anew"
            ) from None
    return found
