"""What is to be encoded, and where it goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.collections import Collection, DocumentReader, load_collection, read_documents, read_queries
from learned_sparse.core import LearnedSparseError, Query, queries_folder, vectors_folder
from learned_sparse.encode.options import EncodeOptions
from learned_sparse.jsonvector import ENCODED, MANIFEST, TOPICS


@dataclass(frozen=True)
class Source:
    """The documents or queries that the options name."""

    options: EncodeOptions
    output: Path
    described: Collection | None
    split: str | None
    _reader: DocumentReader | None

    @property
    def collection(self) -> str | None:
        """The name of the collection; None for ``--input``."""
        return None if self.described is None else self.described.name

    @property
    def name(self) -> str:
        """For messages."""
        return " ".join(filter(None, [self.collection or str(self.options.input), self.split]))

    @property
    def files(self) -> tuple[dict[str, Any], ...]:
        """``{"file", "bytes"}`` of each input file, for the manifest."""
        if self._reader is not None:
            files = self._reader.files
        else:
            files = () if self.options.input is None else (self.options.input,)
        return tuple({"file": str(file), "bytes": file.stat().st_size} for file in files)

    def documents(self) -> DocumentReader:
        """The documents, once."""
        if self._reader is None:
            raise LearnedSparseError("these are queries, not documents")
        return self._reader

    def queries(self) -> list[Query]:
        """The queries."""
        if self.described is not None and self.split is not None:
            return self.described.queries(self.split)
        return read_queries(self.options.input) if self.options.input is not None else []

    def places(self) -> list[str]:
        """Where everything is, one line each."""
        if self.options.queries:
            return [
                f"topics    {self.output / TOPICS}   (--topics, without --encoder)",
                f"encoded   {self.output / ENCODED} (--encoder, beside the original topics)",
                f"manifest  {self.output / MANIFEST}",
            ]
        return [f"vectors   {self.output / 'vectors'}", f"manifest  {self.output / MANIFEST}"]

    def next_command(self) -> str:
        """What to type after this."""
        options = self.options
        named = f"--model {options.model}"
        if options.collection != "pydoc":
            named += f" --collection {options.collection}"
        if options.data is not None:
            named += f" --data {options.data}"
        if options.queries:
            where = f"--topics {options.input}" if self.split is None else f"--split {self.split}"
            return f"python -m learned_sparse.search {named if options.output is None else '--index INDEX'} {where}"
        if options.num_shards > 1:
            return "python -m learned_sparse.index --index DIR --input SHARD... (when all shards are encoded)"
        named = f"--model {options.model} --collection {options.collection}"
        return "python -m learned_sparse.index " + (
            named if options.output is None else f"--input {self.output} --index DIR"
        )


def open_source(options: EncodeOptions) -> Source:
    """Find the collection or the files; nothing but descriptions is read yet."""
    collection = load_collection(options.collection, data=options.data) if options.input is None else None
    split = _split(collection, options.split) if collection is not None and options.queries else None
    reader: DocumentReader | None = None
    if not options.queries:
        if collection is not None:
            reader = collection.documents(options.on_bad_line)
        elif options.input is not None:
            reader = read_documents(options.input, on_bad_line=options.on_bad_line)
    return Source(options, options.output or _default_output(options, collection, split), collection, split, reader)


def _default_output(options: EncodeOptions, collection: Collection | None, split: str | None) -> Path:
    if collection is None:
        raise LearnedSparseError("--input needs --output DIR")
    if split is not None:
        return queries_folder(collection.name, split, options.model)
    folder = vectors_folder(collection.name, options.model)
    if options.num_shards == 1:
        return folder
    return folder.with_name(f"{folder.name}-shard-{options.shard_id}-of-{options.num_shards}")


def _split(collection: Collection, asked: str | None) -> str:
    if asked is not None:
        collection.split(asked)
        return asked
    names = list(collection.splits)
    if "test" in names:
        return "test"
    if len(names) == 1:
        return names[0]
    raise LearnedSparseError(f"collection {collection.name}: which split? give --split {'|'.join(names)}")
