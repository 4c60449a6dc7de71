"""``python -m learned_sparse.serve``: a local page to search, compare and explain the indexes of a collection."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.collections import load_collection
from learned_sparse.core import TRAINING_INDEX, CommandParser, LearnedSparseError, index_folder, run_main
from learned_sparse.index import INDEX_MANIFEST, IndexNote

if TYPE_CHECKING:
    from learned_sparse.serve.api import Content
    from learned_sparse.serve.embed import Load
    from learned_sparse.serve.judged import Judged
    from learned_sparse.serve.texts import Texts

_log = logging.getLogger(__name__)
EPILOG = """\
The first two indexes are compared when the page opens; the page can choose others. Texts and judged queries are those
of --collection (default: the one recorded in the indexes, or pydoc).
The page uses a JSON API: POST /search, /encode, /explain and /measure, GET /systems and /queries; /openapi.json
describes it.
POST /embed_sparse and GET /info are those of Hugging Face's text-embeddings-inference, for its clients. They read texts
as documents; ADDRESS/query/embed_sparse, or ?side=query, reads them as queries. ?system=NAME chooses one of several.

examples:
  python -m learned_sparse.serve                              all indexes of make demo
  python -m learned_sparse.serve --model splade bm25 --split dev
  python -m learned_sparse.serve --index INDEX second=OTHER-INDEX --collection DIR
  python -m learned_sparse.serve --checkpoint FOLDER-or-Hub-id                  only encoders, no page and no Java
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    indexes = {} if options.checkpoint else _indexes(options)
    with _socket(options.host, options.port) as listener, _opened(options, indexes) as content:
        import uvicorn

        from learned_sparse.serve.api import create_app
        from learned_sparse.serve.guard import configured

        app = create_app(content, hosts=_hosts(options.host, listener))
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        names = ", ".join(content.systems or content.checkpoints)
        verb = "shows" if content.systems else "encodes by"
        print(f"http://{shown}:{port}/ {verb} {names}; Ctrl-C ends it", flush=True)
        uvicorn.Server(configured(app)).run(sockets=[listener])
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
    named.add_argument("--index", nargs="+", metavar="[NAME=]DIR", help="indexes, all of one collection")
    named.add_argument("--checkpoint", nargs="+", metavar="[NAME=]PATH", help="only encoders: folders or Hub ids")
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
    if options.index:
        return {name: Path(folder) for name, folder in _by_name(options.index).items()}
    collection = load_collection(options.collection or "pydoc", data=options.data).name
    if options.model:
        return {name: index_folder(collection, name) for name in options.model}
    parent = index_folder(collection, "bm25").parent
    folders = sorted(path.parent for path in parent.glob(f"*/{INDEX_MANIFEST}"))
    folders = [folder for folder in folders if folder.name != TRAINING_INDEX]
    folders.sort(key=lambda folder: IndexNote.load(folder).scoring != "impact")
    if not folders:
        raise LearnedSparseError(f"{parent}: no index; run make demo, or name indexes with --index DIR")
    return {folder.name: folder for folder in folders}


def _by_name(options: Sequence[str]) -> dict[str, str]:
    """Paths of ``[NAME=]PATH`` by name: by default the last part, or the path where two would have one name."""
    given = [option.partition("=")[::2] if _has_name(option) else ("", option) for option in dict.fromkeys(options)]
    names = [name or Path(path).absolute().name for name, path in given]
    paths: dict[str, str] = {}
    for (own, path), name in zip(given, names, strict=True):
        if paths.setdefault(name if own or names.count(name) == 1 else path, path) != path:
            raise LearnedSparseError(f"two are called {name!r}; give each a name of its own with NAME=PATH")
    return paths


def _has_name(option: str) -> bool:
    """Whether ``option`` is ``NAME=PATH``, not a path with a ``=``."""
    return "=" in option and "/" not in option.partition("=")[0] and not Path(option).exists()


@contextmanager
def _opened(options: argparse.Namespace, indexes: Mapping[str, Path]) -> Iterator[Content]:
    from learned_sparse.serve.api import Content

    if options.checkpoint:
        yield Content(systems={}, checkpoints=_checkpoints(options))
        return
    from learned_sparse.lucene import start_jvm
    from learned_sparse.serve.systems import open_systems

    notes: list[str] = []
    collection, data = _collection(options, indexes)
    with ExitStack() as stack:
        texts = _texts(options, indexes, notes)
        if texts:
            stack.callback(texts.close)
        judged = _judged(options.split, collection, data, notes)
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


def _checkpoints(options: argparse.Namespace) -> dict[str, Load]:
    """Loaders of the encoders of ``--checkpoint``; each is tried."""
    from learned_sparse.serve.systems import Encoders

    encoders = Encoders()
    loaders: dict[str, Load] = {
        name: partial(encoders.load, checkpoint, model=name, device=options.device)
        for name, checkpoint in _by_name(options.checkpoint).items()
    }
    for load in loaders.values():
        load("document")
    return loaders


def _collection(options: argparse.Namespace, indexes: Mapping[str, Path]) -> tuple[str | None, Path | None]:
    """Collection of the indexes and its --data: the given ones, those of the home folder, or the only ones recorded."""
    if options.collection or not options.index:
        return options.collection or "pydoc", options.data
    recorded = {
        manifest.collection: (folder, manifest)
        for folder in indexes.values()
        for manifest in IndexNote.load(folder).manifests[:1]
        if manifest.collection
    }
    if len(recorded) > 1:
        named = ", ".join(f"{folder} of {name}" for name, (folder, _) in recorded.items())
        raise LearnedSparseError(f"indexes of different collections ({named}); show one collection at a time")
    for name, (_, manifest) in recorded.items():
        given = next((entry for entry in manifest.input if "collection" in entry), {})
        return given.get("collection", name), options.data or (Path(given["data"]) if "data" in given else None)
    return None, None


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


def _judged(split: str | None, name: str | None, data: Path | None, notes: list[str]) -> Judged | None:
    """The judged queries, or None and a note."""
    from learned_sparse.serve.judged import Judged

    try:
        if name is None:
            raise LearnedSparseError("the indexes record no collection; name one with --collection")
        collection = load_collection(name, data=data)
        return Judged(collection, collection.choose_split(split))
    except LearnedSparseError as error:
        if split:
            raise
        notes.append(f"no judged queries: {error}")
        return None


def _socket(host: str, port: int) -> socket.socket:
    host = host.strip("[]")
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise LearnedSparseError(
            f"{host}:{port}: cannot listen there ({error.strerror or error}); choose another --port or --host"
        ) from None
    # Connections inherit it. Answers are several writes, and asyncio sets it only if the socket names its protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _hosts(host: str, listener: socket.socket) -> list[str] | None:
    """Names that requests may use for this machine; None, and a warning, if other machines can reach ``listener``."""
    address = listener.getsockname()[0]
    if ipaddress.ip_address(address).is_loopback:
        return [host.strip("[]").lower(), address, "localhost", "127.0.0.1", "::1"]
    _log.warning(
        "%s: everybody who can reach this port can search and encode, and read the documents; without --host the "
        "server is for this machine only", address,
    )  # fmt: skip
    return None


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or (port := int(text)) > 65535:
        raise argparse.ArgumentTypeError(f"{text}: give 0 to 65535")
    return port


if __name__ == "__main__":
    run_main(main)
