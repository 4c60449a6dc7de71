"""``python -m learned_sparse.serve``: a local page to search, compare and explain the indexes of a collection."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.collections import load_collection
from learned_sparse.core import TRAINING_INDEX, CommandParser, LearnedSparseError, index_folder, run_main
from learned_sparse.index import INDEX_MANIFEST, IndexNote

if TYPE_CHECKING:
    from learned_sparse.collections import Collection
    from learned_sparse.serve.api import Content
    from learned_sparse.serve.judged import Judged
    from learned_sparse.serve.texts import Texts

_log = logging.getLogger(__name__)
EPILOG = """\
The first two indexes are compared when the page opens; the page can choose others. Texts and judged queries are those
of --collection (default: the one recorded in the indexes, or pydoc).
The page uses a JSON API: POST /search, /encode, /explain and /measure, GET /systems and /queries; /openapi.json
describes it.

examples:
  python -m learned_sparse.serve                              all indexes of make demo
  python -m learned_sparse.serve --model splade bm25 --split dev
  python -m learned_sparse.serve --index INDEX OTHER-INDEX --collection DIR
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    indexes = _indexes(options)
    with _socket(options.host, options.port) as listener, _opened(options, indexes) as content:
        import uvicorn

        from learned_sparse.serve.api import create_app

        host, port = listener.getsockname()[:2]
        hosts = [options.host, "localhost", "127.0.0.1", "::1"] if _is_local(options.host) else None
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{port}/ shows {', '.join(content.systems)}; Ctrl-C ends it", flush=True)
        config = uvicorn.Config(
            create_app(content, hosts=hosts), log_level="warning", access_log=False, timeout_graceful_shutdown=5
        )
        uvicorn.Server(config).run(sockets=[listener])
    return 0


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = CommandParser(
        prog="python -m learned_sparse.serve",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what to show")
    named = what.add_mutually_exclusive_group()
    named.add_argument(
        "--model", nargs="+", metavar="NAME",
        help="models whose indexes of --collection are in the home folder; bm25 is the baseline (default: all indexes)",
    )  # fmt: skip
    named.add_argument("--index", nargs="+", type=Path, metavar="DIR", help="indexes, all of one collection")
    what.add_argument("--collection", metavar="NAME", help="collection: name, folder or ir_datasets:ID")
    what.add_argument("--data", type=Path, metavar="DIR", help="folder with the files of --collection")
    what.add_argument("--split", metavar="NAME", help="split of the judged queries (default test, or the only one)")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default %(default)s: this machine only)"
    )
    how.add_argument("--port", type=_port, default=8000, metavar="N", help="default %(default)s; 0: any free one")
    how.add_argument("--device", help="device to encode on, such as cpu or cuda:0")
    how.add_argument("--heap", metavar="SIZE", help="Java's memory, such as 4g (default $LEARNED_SPARSE_JAVA_HEAP)")
    return parser


def _indexes(options: argparse.Namespace) -> dict[str, Path]:
    """Indexes by the name of their folder, or by their path where two folders have the same name."""
    folders: list[Path] = options.index or []
    if not folders:
        collection = load_collection(options.collection or "pydoc", data=options.data).name
        if options.model:
            folders = [index_folder(collection, name) for name in options.model]
        else:
            parent = index_folder(collection, "bm25").parent
            folders = sorted(path.parent for path in parent.glob(f"*/{INDEX_MANIFEST}"))
            folders = [folder for folder in folders if folder.name != TRAINING_INDEX]
            folders.sort(key=lambda folder: IndexNote.load(folder).scoring != "impact")
            if not folders:
                raise LearnedSparseError(f"{parent}: no index; run make demo, or name indexes with --index DIR")
    folders = list(dict.fromkeys(folders))
    names = [folder.absolute().name for folder in folders]
    return {
        name if names.count(name) == 1 else str(folder): folder for name, folder in zip(names, folders, strict=True)
    }


@contextmanager
def _opened(options: argparse.Namespace, indexes: Mapping[str, Path]) -> Iterator[Content]:
    from learned_sparse.lucene import start_jvm
    from learned_sparse.serve.api import Content
    from learned_sparse.serve.systems import open_systems

    notes: list[str] = []
    collection = _collection(options, indexes)
    with ExitStack() as stack:
        texts = _texts(options, indexes, notes)
        if texts:
            stack.callback(texts.close)
        judged = _judged(options, collection, notes)
        for note in notes:
            _log.warning("%s", note)
        start_jvm(heap=options.heap)
        systems = open_systems(
            indexes,
            texts.get if texts else None,
            device=options.device,
            collection=options.collection,
            data=options.data,
        )
        for system in systems.values():
            stack.callback(system.close)
        yield Content(systems=systems, text_of=texts.get if texts else lambda _: None, judged=judged, notes=notes)


def _collection(options: argparse.Namespace, indexes: Mapping[str, Path]) -> str | None:
    """The collection of the indexes: the given one, that of the home folder, or the only one recorded."""
    if options.collection or not options.index:
        return str(options.collection or "pydoc")
    recorded = {
        manifest.collection: folder
        for folder in indexes.values()
        for manifest in IndexNote.load(folder).manifests[:1]
        if manifest.collection
    }
    if len(recorded) > 1:
        named = ", ".join(f"{folder} of {name}" for name, folder in recorded.items())
        raise LearnedSparseError(f"indexes of different collections ({named}); show one collection at a time")
    return next(iter(recorded), None)


def _texts(options: argparse.Namespace, indexes: Mapping[str, Path], notes: list[str]) -> Texts | None:
    """The documents by id, or None and a note."""
    from tqdm import tqdm

    from learned_sparse.inspect import encoded_documents
    from learned_sparse.serve.texts import Texts

    manifests = [manifest for folder in indexes.values() for manifest in IndexNote.load(folder).manifests[:1]]
    name = options.collection or (None if options.index else "pydoc")
    try:
        documents, source = encoded_documents(manifests[0] if manifests else None, name, options.data)
        return Texts(tqdm(documents, desc=f"texts of {source}", unit=" documents", disable=None, leave=False))
    except LearnedSparseError as error:
        notes.append(f"no texts: {error}")
        return None


def _judged(options: argparse.Namespace, name: str | None, notes: list[str]) -> Judged | None:
    """The judged queries, or None and a note."""
    from learned_sparse.serve.judged import Judged

    try:
        if name is None:
            raise LearnedSparseError("the indexes record no collection; name one with --collection")
        collection: Collection = load_collection(name, data=options.data)
        return Judged(collection, collection.choose_split(options.split))
    except LearnedSparseError as error:
        if options.split:
            raise
        notes.append(f"no judged queries: {error}")
        return None


def _socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise LearnedSparseError(
            f"{host}:{port}: cannot listen there ({error.strerror or error}); choose another --port or --host"
        ) from None


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or (port := int(text)) > 65535:
        raise argparse.ArgumentTypeError(f"{text}: give 0 to 65535")
    return port


if __name__ == "__main__":
    run_main(main)
