"""``python -m learned_sparse.jsonvector.prune``: copy encoded documents without the terms that most documents have."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import orjson

from learned_sparse.collections import filed_under
from learned_sparse.core import (
    EMPTY_TERM,
    CommandParser,
    LearnedSparseError,
    encoded_folders,
    new_folder,
    print_next,
    progress_bar,
    vectors_folder,
)
from learned_sparse.jsonvector.manifest import MANIFEST, PRUNING, Counts, Manifest, Part, load_manifests, parts_sha256
from learned_sparse.jsonvector.reader import by_frequency, frequent_terms, numbered_lines, read_vectors
from learned_sparse.jsonvector.writer import open_part

EPILOG = """\
Terms of nearly every document cost the most time and separate documents the least. SpaDE trains without such terms (its
gamma is 0.7); this command removes them from the vectors of any model, without encoding again. No query can match a
removed term: measure again. `python -m eval.profile` shows what each share would remove.

examples:
  python -m learned_sparse.jsonvector.prune --model splade --collection scifact --as splade-70 \\
      --max-document-frequency 0.7
  python -m learned_sparse.jsonvector.prune --vectors VECTORS --output PRUNED --top-dimensions 50
  python -m learned_sparse.jsonvector.prune --vectors SHARD-0 SHARD-1 --output PRUNED --max-document-frequency 0.5
"""
SHOWN_TERMS = 10


def prune(
    sources: Sequence[Path],
    targets: Sequence[Path],
    *,
    max_document_frequency: float | None = None,
    top_dimensions: int | None = None,
    overwrite: bool = False,
) -> list[Manifest]:
    """Copy each of ``sources`` (an encoded collection, or its shards) to the target at the same position.

    Exactly one rule is given: remove the terms in more than a share ``max_document_frequency`` of the documents of all
    sources (above 0, at most 1), or the ``top_dimensions`` most frequent terms (ties by code point). Documents stay,
    with an empty vector if need be; lines that lose no term keep their bytes. Returns the manifests of the targets,
    whose ``options["pruning"]`` records the rule and the removed terms with their document frequencies.
    """
    share, top = max_document_frequency, top_dimensions
    if (share is None) == (top is None):
        raise LearnedSparseError("give one of --max-document-frequency SHARE and --top-dimensions N")
    if share is not None and not 0 < share <= 1:
        raise LearnedSparseError(f"--max-document-frequency {share}: give a share above 0 and at most 1")
    if top is not None and top < 0:
        raise LearnedSparseError(f"--top-dimensions {top}: give 0 or more")
    with contextlib.ExitStack() as stack:  # all targets are written before the first one is replaced
        folders = [stack.enter_context(new_folder(target)) for target in targets]
        for target in targets:
            _check_target(target, sources, overwrite)
        manifests = load_manifests(sources)
        removed, record = _removed(sources, manifests, share, top)
        return [
            _write(source, folder, manifest, removed.keys(), record)
            for source, folder, manifest in zip(sources, folders, manifests, strict=True)
        ]


def _removed(
    sources: Sequence[Path], manifests: Sequence[Manifest], share: float | None, top: int | None
) -> tuple[dict[str, int], dict[str, object]]:
    """The terms to remove with their document frequencies, and the record of the pruning."""
    documents = sum(manifest.counts.written for manifest in manifests)
    vectors = (vector for source in sources for _, vector in read_vectors(source))
    frequencies = Counter(itertools.chain.from_iterable(progress_bar(vectors, "counting", "documents", documents)))
    if share is not None:
        rule: dict[str, float] = {"max_document_frequency": share}
        removed = frequent_terms(frequencies, documents, share)
    else:
        rule = {"top_dimensions": top or 0}
        removed = dict(by_frequency(frequencies)[:top])
    if frequencies and len(removed) == len(frequencies):
        ((name, value),) = rule.items()
        raise LearnedSparseError(f"--{name.replace('_', '-')} {value}: removes every term; no query could match")
    return removed, {"rule": rule, "documents": documents, "removed": removed, "source_sha256": parts_sha256(manifests)}


def _check_target(target: Path, sources: Sequence[Path], overwrite: bool) -> None:
    if any(target.resolve() == source.resolve() for source in sources):
        raise LearnedSparseError(f"{target}: is the input; write to another folder")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not (target / MANIFEST).is_file():
        raise LearnedSparseError(f"{target}: exists and holds no encoded vectors; name another folder")
    if not overwrite:
        raise LearnedSparseError(f"{target}: holds vectors already; replace them with --overwrite")


def _write(
    source: Path, folder: Path, manifest: Manifest, removed: Collection[str], record: Mapping[str, object]
) -> Manifest:
    """Write one target into ``folder``; the record of an earlier pruning is kept under ``before``."""
    before = {"before": manifest.options[PRUNING]} if PRUNING in manifest.options else {}
    options = {**manifest.options, PRUNING: {**record, **before}}
    parts = progress_bar(manifest.parts, f"writing {source.name} again", "files")
    written = [_write_part(source / part.file, folder / part.file, part, removed) for part in parts]
    totals = Counts.total(counts for _, counts in written)
    changed = ("postings", "empty_vectors", "largest_impact", "largest_sum")
    counts = dataclasses.replace(manifest.counts, **{name: getattr(totals, name) for name in changed})
    pruned = dataclasses.replace(manifest, options=options)
    return pruned.finish(folder, [part for part, _ in written], counts)


def _write_part(source: Path, target: Path, part: Part, removed: Collection[str]) -> tuple[Part, Counts]:
    empty = postings = largest_impact = largest_sum = 0
    with (
        contextlib.closing(numbered_lines(source)) as lines,
        open_part(target, compress=source.suffix == ".gz") as out,
    ):
        for _, line in lines:
            content = orjson.loads(line)
            vector = content["vector"]
            kept = {term: impact for term, impact in vector.items() if term not in removed and term != EMPTY_TERM}
            shorter = kept or {EMPTY_TERM: 1}
            if shorter != vector:
                line = orjson.dumps({**content, "vector": shorter}, option=orjson.OPT_APPEND_NEWLINE)
            out.lines.write(line)
            empty += not kept
            postings += len(kept)
            largest_impact = max(largest_impact, *kept.values(), 0)
            largest_sum = max(largest_sum, sum(kept.values()))
    counts = Counts(empty_vectors=empty, postings=postings, largest_impact=largest_impact, largest_sum=largest_sum)
    return dataclasses.replace(part, sha256=out.sha256), counts


def main(argv: list[str] | None = None) -> int:
    """Prune, and print the counts of what was removed and kept."""
    options = _parser().parse_args(argv)
    if not (options.vectors or options.model):
        raise LearnedSparseError("which vectors? give --model NAME or --vectors DIR")
    if not (options.output or options.name):
        raise LearnedSparseError("where to? give --as NAME or --output DIR")
    collection = filed_under(options.collection or "pydoc")
    sources = options.vectors or encoded_folders(collection, options.model, "--vectors", options.collection)
    target, count = options.output or vectors_folder(collection, options.name), len(sources)
    shards = [target.with_name(f"{target.name}-shard-{number}-of-{count}") for number in range(count)]
    targets = [target] if count == 1 else shards
    before = [Manifest.load(source).counts for source in sources]
    manifests = prune(
        sources,
        targets,
        max_document_frequency=options.max_document_frequency,
        top_dimensions=options.top_dimensions,
        overwrite=options.overwrite,
    )
    _report(Counts.total(before), manifests)
    named = f"--model {options.name}" + (f" --collection {options.collection}" if options.collection else "")
    folders = shlex.join(["--input", *map(str, targets), "--index", f"{options.output}-index"])
    print_next(f"learned_sparse.index {folders if options.output else named}")
    return 0


def _report(before: Counts, manifests: Sequence[Manifest]) -> None:
    after = Counts.total(manifest.counts for manifest in manifests)
    removed = manifests[0].options[PRUNING]["removed"]
    share = 1 - after.postings / max(before.postings, 1)
    print(f"{after.written:,} documents, {after.postings:,} of {before.postings:,} postings")
    print(f"{len(removed):,} terms with {share:.1%} of the postings removed; the most frequent:")
    for term, count in by_frequency(removed)[:SHOWN_TERMS]:
        print(f"  {term}: in {count / after.written:.1%} of the documents")
    if after.empty_vectors > before.empty_vectors:
        print(f"  {after.empty_vectors - before.empty_vectors:,} documents have an empty vector now (kept)")


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m learned_sparse.jsonvector.prune",
        description="Copy encoded documents without the terms that most documents have.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", help="name of a model with vectors of --collection in the home folder")
    add("--collection", metavar="NAME|PATH", help="name of the collection (default pydoc)")
    add("--vectors", type=Path, nargs="+", metavar="DIR", help="instead: an encoded folder, or all its shards")
    add("--as", dest="name", metavar="NAME", help="name of the result, beside the model in the home folder")
    add("--output", type=Path, metavar="DIR", help="instead: folder of the result; each shard gets a folder")
    rule = parser.add_mutually_exclusive_group(required=True)
    rule.add_argument(
        "--max-document-frequency", type=float, metavar="SHARE", help="remove terms of more documents (gamma)"
    )
    rule.add_argument("--top-dimensions", type=int, metavar="N", help="remove the N most frequent terms")
    add("--overwrite", action="store_true", help="replace an earlier result")
    return parser


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
