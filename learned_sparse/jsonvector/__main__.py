"""``python -m learned_sparse.jsonvector``: check vectors for what Anserini would change, or prune them."""

from __future__ import annotations

import argparse
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from learned_sparse.collections.collection import filed_under
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import encoded_folders, vectors_folder
from learned_sparse.core.lines import BadLineError
from learned_sparse.core.settings import CommandParser, command_line
from learned_sparse.jsonvector.manifest import MANIFEST, PRUNING, UNVERIFIED, Counts, Manifest
from learned_sparse.jsonvector.pruning import prune
from learned_sparse.jsonvector.reader import LineReader, by_frequency, numbered_lines, vector_files

PRUNE = """\
Terms of nearly every document cost the most time and separate documents the least. SpaDE trains without such terms (its
gamma is 0.7); this command removes them from the vectors of any model, without encoding again. No query can match a
removed term: measure again. `python -m eval.dimensions --stop-share X` shows what it would remove.
--keep-postings removes the smallest impacts instead, except those of BM25 (learned_sparse.encode --with bm25).
--idf 0.5 multiplies each impact by the square root of the term's idf in these documents. Try it with a published model
that was not trained on them.

examples:
  python -m learned_sparse.jsonvector prune --model splade --collection scifact --as splade-70 \\
      --max-document-frequency 0.7
  python -m learned_sparse.jsonvector prune --vectors VECTORS --output PRUNED --top-dimensions 50
  python -m learned_sparse.jsonvector prune --vectors VECTORS --output PRUNED --keep-postings 0.5
  python -m learned_sparse.jsonvector prune --vectors SHARD-0 SHARD-1 --output PRUNED --max-document-frequency 0.5
"""
SHOWN_TERMS = 10


def find_problems(path: Path, counts: Counter[str], *, weights: bool = False) -> Iterator[str]:
    """One ``FILE:LINE: problem`` for each bad line, then differences from the manifest, if there is one.

    ``weights``: lines may hold what ``learned_sparse.index --quantize`` takes (floats, zeros, empty vectors). Adds the
    valid documents to ``counts["documents"]``, and those with an empty vector also to ``counts["empty"]``.
    """
    first_lines: dict[str, str] = {}
    reader = LineReader(weights=weights)
    for file in vector_files(path):
        try:
            for number, line in numbered_lines(file):
                try:
                    name, vector = reader.parse(line)
                    json.loads(line, object_pairs_hook=_without_repeats)
                except BadLineError as error:
                    yield f"{file}:{number}: {error}"
                    continue
                if name in first_lines:
                    yield f"{file}:{number}: the id {name!r} is also at {first_lines[name]}; Anserini would keep both"
                    continue
                first_lines[name] = f"{file.name}:{number}"
                counts.update({"documents": 1, "empty": int(not vector)})
        except LearnedSparseError as error:  # a broken gzip file
            yield str(error)
    if (path / MANIFEST).is_file():
        yield from Manifest.load(path).problems(path)


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise BadLineError(f"the key {key!r} is given twice; Anserini would keep the last value only")
    return content


def main(argv: list[str] | None = None) -> int:
    """Check JsonVectorCollection files (exit status 1 if there are problems), or prune frequent terms or impacts."""
    parser = CommandParser(prog="python -m learned_sparse.jsonvector", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="check every line, and compare with the manifest if there is one")
    check.add_argument("path", type=Path, metavar="DIR", help="folder (or one file) of .jsonl, .json or .gz files")
    check.add_argument(
        "--quantize", action="store_true", help="accept weights that learned_sparse.index --quantize turns into impacts"
    )
    check.add_argument("--show", type=int, default=20, help="maximum number of problems to print (default: 20)")
    check.set_defaults(run=_check)
    pruning = commands.add_parser(
        "prune",
        help="copy encoded documents without the terms that most documents have, or without the smallest impacts",
        epilog=PRUNE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source, target, rule = (pruning.add_mutually_exclusive_group(required=True).add_argument for _ in range(3))
    source("--model", help="name of a model with vectors of --collection in the home folder")
    source("--vectors", type=Path, nargs="+", metavar="DIR", help="instead: an encoded folder, or all its shards")
    pruning.add_argument("--collection", metavar="NAME|PATH", help="name of the collection (default pydoc)")
    target("--as", dest="name", metavar="NAME", help="name of the result, beside the model in the home folder")
    target("--output", type=Path, metavar="DIR", help="instead: folder of the result; each shard gets a folder")
    rule("--max-document-frequency", type=float, metavar="SHARE", help="remove terms of more documents (gamma)")
    rule("--top-dimensions", type=int, metavar="N", help="remove the N most frequent terms")
    rule("--keep-postings", type=float, metavar="SHARE", help="keep the largest impacts, and all those of BM25")
    rule("--idf", type=float, metavar="POWER", help="multiply impacts by a power of the term's idf in these documents")
    pruning.add_argument("--overwrite", action="store_true", help="replace an earlier result")
    pruning.set_defaults(run=_prune)
    options = parser.parse_args(argv)
    status: int = options.run(options)
    return status


def _check(options: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    count = 0
    for count, problem in enumerate(find_problems(options.path, counts, weights=options.quantize), start=1):
        if count <= options.show:
            print(problem)
    if not (options.path / MANIFEST).is_file():
        print(f"{options.path}: {UNVERIFIED}")
    print(f"{options.path}: {counts['documents']} documents ({counts['empty']} with an empty vector), {count} problems")
    return 1 if count else 0


def _prune(options: argparse.Namespace) -> int:
    collection = filed_under(options.collection or "pydoc")
    sources = options.vectors or encoded_folders(collection, options.model, "--vectors", options.collection)
    target, count = options.output or vectors_folder(collection, options.name), len(sources)
    shards = [target.with_name(f"{target.name}-shard-{number}-of-{count}") for number in range(count)]
    targets = [target] if count == 1 else shards
    before = Counts.total(Manifest.load(source).counts for source in sources)
    manifests = prune(
        sources,
        targets,
        max_document_frequency=options.max_document_frequency,
        top_dimensions=options.top_dimensions,
        keep_postings=options.keep_postings,
        idf=options.idf,
        overwrite=options.overwrite,
    )
    after = Counts.total(manifest.counts for manifest in manifests)
    record = manifests[0].options[PRUNING]
    removed = record["removed"]
    share = 1 - after.postings / max(before.postings, 1)
    print(f"{after.written:,} documents, {after.postings:,} of {before.postings:,} postings")
    if options.idf is not None:
        print(f"impacts times idf ** {options.idf}: {share:.1%} of the postings round to 0")
    elif "min_impact" in record:
        print(f"{share:.1%} of the postings removed: impacts below {record['min_impact']}")
    else:
        print(f"{len(removed):,} terms with {share:.1%} of the postings removed; the most frequent:")
    for term, frequency in by_frequency(removed)[:SHOWN_TERMS]:
        print(f"  {term}: in {frequency / after.written:.1%} of the documents")
    if after.empty_vectors > before.empty_vectors:
        print(f"  {after.empty_vectors - before.empty_vectors:,} documents have an empty vector now (kept)")
    named = f"--model {options.name}" + (f" --collection {options.collection}" if options.collection else "")
    folders = shlex.join(["--input", *map(str, targets), "--index", f"{options.output}-index"])
    print("next:", command_line(f"learned_sparse.index {folders if options.output else named}"))
    return 0


if __name__ == "__main__":
    from learned_sparse.core.errors import run_main

    run_main(main)
