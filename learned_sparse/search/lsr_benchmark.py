"""``python -m learned_sparse.search.lsr_benchmark``: search embeddings of lsr-benchmark, as a system of its step 3.

It reads a folder of embeddings (``learned_sparse.export --format lsr-benchmark`` writes one) without a network and
without lsr-benchmark, and writes what lsr-benchmark evaluates: run.txt.gz, and index-metadata.yml and
retrieval-metadata.yml with the time of each phase.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse.core import LearnedSparseError, Quantizer, SparseBatch, atomic_write, positive, run_main
from learned_sparse.search.engines import BACKENDS, add_backend_options, seismic_settings
from learned_sparse.search.searching import BatchSearch, open_searcher

RUN, INDEX_METADATA, RETRIEVAL_METADATA = "run.txt.gz", "index-metadata.yml", "retrieval-metadata.yml"
HITS = 10
"""Default of lsr-benchmark."""
EPILOG = """\
The options without default are those that lsr-benchmark gives its systems. Weights that are integers, as in exports of
this package, are searched as they are; floats become impacts with --quantization-factor, on both sides. Only the time
is measured: lsr-benchmark evaluate -m nDCG@10 -m runtime_wallclock OUTPUT; its default measures need energy too.

example:
  python -m learned_sparse.search.lsr_benchmark --dataset DATASET --embedding EXPORT --output OUTPUT --backend seismic
"""


def main(argv: list[str] | None = None) -> int:
    """Index the documents, search the queries, and write the run and the metadata of both phases."""
    options = _parser().parse_args(argv)
    settings, output = seismic_settings(options), options.output
    if output.is_file() or (output.is_dir() and any(output.iterdir()) and not options.overwrite):
        raise LearnedSparseError(f"{output}: exists and holds files; give --overwrite, or name another folder")
    from learned_sparse.collections import write_run
    from learned_sparse.export import read_embeddings

    factor = options.quantization_factor
    document_ids, documents = read_embeddings(options.embedding, "doc")
    documents = _impacts(documents, factor, options.embedding)
    query_ids, rows = read_embeddings(options.embedding, "query")
    rows = _impacts(rows, factor, options.embedding)
    queries = {name: rows.row(row) for row, name in enumerate(query_ids)}
    tag = f"learned-sparse-{options.backend}-{options.k}"
    output.mkdir(parents=True, exist_ok=True)
    if options.backend == "lucene":
        from learned_sparse.lucene import start_jvm

        start_jvm()  # before the clock starts
    started = time.perf_counter()
    with _searcher(options.backend, document_ids, documents, settings) as search:
        indexed = time.perf_counter()
        hits = search(queries, options.k, options.threads)
        searched = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="learned-sparse-run-") as folder:
        write_run(Path(folder, "run.txt"), hits, tag)
        run = Path(folder, "run.txt").read_bytes()
    for name, seconds in ((INDEX_METADATA, indexed - started), (RETRIEVAL_METADATA, searched - indexed)):
        _write_metadata(output / name, tag, options, seconds)
    with atomic_write(output / RUN) as file:
        file.write(gzip.compress(run, mtime=0))
    found = sum(map(len, hits.values()))
    print(f"{output / RUN}: {len(queries):,} queries, {len(document_ids):,} documents, {found:,} hits")
    return 0


def _impacts(weights: SparseBatch, factor: float | None, folder: Path) -> SparseBatch:
    """Integers as they are, or ``weights`` times ``factor``, rounded."""
    if factor is None and not np.array_equal(weights.values, np.rint(weights.values)):
        raise LearnedSparseError(
            f"{folder}: its weights are no integers; give --quantization-factor X, for instance 100"
        )
    impacts, _ = Quantizer(factor or 1.0).quantize(weights)
    return impacts


@contextlib.contextmanager
def _searcher(
    backend: str, ids: list[str], documents: SparseBatch, settings: Mapping[str, Any]
) -> Iterator[BatchSearch]:
    """The searcher of ``backend`` over ``documents``; that of Lucene has its index in a temporary folder."""
    if backend != "lucene":
        yield BACKENDS[backend](ids, documents, **settings).search_batch
        return
    from learned_sparse.index import build_index
    from learned_sparse.jsonvector import write_part

    with tempfile.TemporaryDirectory(prefix="learned-sparse-index-") as folder:
        write_part(Path(folder, "vectors.jsonl"), ids, [""] * len(ids), documents)
        build_index(Path(folder, "vectors.jsonl"), Path(folder, "index"))
        with open_searcher(Path(folder, "index"), "impact") as search:
            yield search


def _write_metadata(path: Path, tag: str, options: argparse.Namespace, seconds: float) -> None:
    """A file of ir_metadata with the fields that lsr-benchmark reads."""
    import yaml

    dataset = Path(options.dataset)
    content = {
        "schema version": 0.2,
        "tag": tag,
        "actor": {"team": options.team},
        "data": {
            "test collection": {"name": str(dataset.resolve()) if dataset.is_dir() else options.dataset},
            "embedding model": {"name": options.embedding.resolve().name},
        },
        "method": {"retrieval": {"name": f"learned-sparse {options.backend}", "threads": options.threads}},
        "resources": {"runtime": {"wallclock": f"{seconds * 1000:.0f} ms"}},
    }
    with atomic_write(path) as file:
        file.write(yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.search.lsr_benchmark",
        description="Search embeddings of lsr-benchmark, as a system of its step 3.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--dataset", required=True, metavar="NAME|DIR", help="data set of the embedding, which the metadata name")
    add("--embedding", type=Path, required=True, metavar="DIR", help="folder with doc and query embeddings")
    add("--output", type=Path, required=True, metavar="DIR", help="folder of the run")
    add("--k", type=positive, default=HITS, metavar="K", help="documents per query (default %(default)s)")
    add("--threads", type=positive, default=1, metavar="N", help="threads that search (default %(default)s)")
    add("--quantization-factor", type=float, metavar="X", help="impact of weight 1, for weights that are no integers")
    add("--team", default="learned-sparse", metavar="NAME", help="actor in the metadata (default %(default)s)")
    add_backend_options(add)
    add("--overwrite", action="store_true", help="write into a folder that holds files")
    return parser


if __name__ == "__main__":
    run_main(main)
