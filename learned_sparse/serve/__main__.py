"""``python -m learned_sparse.serve``: a local page to search, compare and explain the indexes of a collection."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.collections.collection import load_collection
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import TRAINING_INDEX, index_folder
from learned_sparse.core.settings import CommandParser
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote

if TYPE_CHECKING:
    from learned_sparse.jsonvector.manifest import Manifest
    from learned_sparse.serve.content import Content

_log = logging.getLogger(__name__)
EPILOG = """\
The page uses a JSON API, which /openapi.json describes. POST /embed_sparse and GET /info are those of Hugging Face's
text-embeddings-inference, for its clients: they read texts as documents, and ADDRESS/query/embed_sparse as queries;
?system=NAME chooses one of several encoders.

examples:
  python -m learned_sparse.serve                              all indexes of make demo
  python -m learned_sparse.serve --model splade bm25 --split dev
  python -m learned_sparse.serve --index INDEX second=OTHER-INDEX --collection DIR
  python -m learned_sparse.serve --checkpoint FOLDER-or-Hub-id                  only encoders, no page and no Java
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    indexes = {} if options.checkpoint else find_indexes(options)
    import uvicorn

    from learned_sparse.serve.api import create_app
    from learned_sparse.serve.guard import configured, listen

    listener, hosts = listen(options.host, options.port)
    with listener:
        content = open_checkpoints(options) if options.checkpoint else _open_indexes(options, indexes)
        host, port = listener.getsockname()[:2]
        address = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        names = ", ".join(content.systems or content.checkpoints)
        print(f"{address} {'shows' if content.systems else 'encodes with'} {names}; press Ctrl-C to stop", flush=True)
        uvicorn.Server(configured(create_app(content, hosts=hosts))).run(sockets=[listener])
    return 0


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = CommandParser(prog="python -m learned_sparse.serve", description=__doc__, epilog=EPILOG)
    what = parser.add_argument_group("what to show")
    named = what.add_mutually_exclusive_group()
    named.add_argument(
        "--model", nargs="+", metavar="NAME",
        help="models whose indexes of --collection are in the home folder; bm25 is the baseline (default: all indexes)",
    )  # fmt: skip
    named.add_argument("--index", nargs="+", metavar="[NAME=]DIR", help="indexes, all of one collection")
    named.add_argument("--checkpoint", nargs="+", metavar="[NAME=]PATH", help="only encoders: folders or Hub ids")
    what.add_argument(
        "--collection", metavar="NAME",
        help="name, folder or ir_datasets:ID of the texts and judged queries (default: the one of --index, or pydoc)",
    )  # fmt: skip
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


def find_indexes(options: argparse.Namespace) -> dict[str, Path]:
    """Indexes by name: those of ``--index``, those of ``--model``, or all of the collection, impacts first."""
    if options.index:
        return {name: Path(folder) for name, folder in _by_name(options.index).items()}
    collection = load_collection(options.collection or "pydoc", data=options.data).name
    if options.model:
        return {name: index_folder(collection, name) for name in options.model}
    parent = index_folder(collection, "bm25").parent
    folders = [path.parent for path in sorted(parent.glob(f"*/{INDEX_MANIFEST}")) if path.parent.name != TRAINING_INDEX]
    if not folders:
        raise LearnedSparseError(f"{parent}: no index; run make demo, or name indexes with --index DIR")
    folders.sort(key=lambda folder: IndexNote.load(folder).scoring != "impact")
    return {folder.name: folder for folder in folders}


def _by_name(options: Sequence[str]) -> dict[str, str]:
    """Paths of ``[NAME=]PATH`` by name, which is by default the last part of the path."""
    paths: dict[str, str] = {}
    for option in options:
        name, named, path = option.partition("=")
        if not named or "/" in name or Path(option).exists():  # a path, which may have a "="
            name, path = Path(option).absolute().name, option
        if paths.setdefault(name, path) != path:
            raise LearnedSparseError(f"two are called {name!r}; give each a name of its own with NAME=PATH")
    return paths


def open_checkpoints(options: argparse.Namespace) -> Content:
    """Encoders without an index; each is tried."""
    from learned_sparse.inspect.inspection import encoder_cache
    from learned_sparse.serve.content import Content

    load = encoder_cache()
    loaders = {
        name: partial(load, path, model=name, device=options.device)
        for name, path in _by_name(options.checkpoint).items()
    }
    for loader in loaders.values():
        loader("document")
    return Content(systems={}, checkpoints=loaders)


def _open_indexes(options: argparse.Namespace, indexes: Mapping[str, Path]) -> Content:
    """Indexes with the texts and the judged queries of their collection; notes say what is missing."""
    from tqdm import tqdm

    from learned_sparse.inspect.inspection import encoded_documents
    from learned_sparse.lucene.jvm import start_jvm
    from learned_sparse.serve.content import Content, Judged, Texts, open_systems

    manifests = [manifest for folder in indexes.values() for manifest in IndexNote.load(folder).manifests[:1]]
    # Predicted queries are read by some models only, so an index with them has the texts for all.
    manifests.sort(key=lambda manifest: not manifest.options.get("expanded"))
    default = None if options.index else "pydoc"
    name, data = _collection(manifests, options.collection or default, options.data)
    texts, judged, notes = None, None, list[str]()
    try:
        source = (manifests[0] if manifests else None, options.collection or default, options.data)
        documents, shown = encoded_documents(*source)
        texts = Texts(tqdm(documents, desc=f"texts of {shown}", unit=" documents", disable=None, leave=False))
    except LearnedSparseError as error:
        notes.append(f"no texts: {error}")
    try:
        if name is None:
            raise LearnedSparseError("the indexes record no collection; name one with --collection")
        collection = load_collection(name, data=data)
        judged = Judged(collection, collection.choose_split(options.split))
    except LearnedSparseError as error:
        if options.split:
            raise
        notes.append(f"no judged queries: {error}")
    for note in notes:
        _log.warning("%s", note)
    start_jvm(heap=options.heap)
    text_of = texts.get if texts else lambda _: None
    systems = open_systems(indexes, text_of, options.device)
    return Content(systems=systems, text_of=text_of, judged=judged, notes=notes)


def _collection(manifests: Sequence[Manifest], name: str | None, data: Path | None) -> tuple[str | None, Path | None]:
    """Name and folder of the collection: ``name`` and ``data``, else what the indexes record."""
    recorded = {manifest.collection: manifest for manifest in manifests if manifest.collection}
    if name or not recorded:
        return name, data
    if len(recorded) > 1:
        raise LearnedSparseError(
            f"indexes of different collections ({', '.join(recorded)}); show one collection at a time"
        )
    ((name, manifest),) = recorded.items()
    entry = next((entry for entry in manifest.input if "collection" in entry), {})
    return entry.get("collection", name), data or (Path(entry["data"]) if "data" in entry else None)


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or (port := int(text)) > 65535:
        raise argparse.ArgumentTypeError(f"{text}: give 0 to 65535")
    return port


if __name__ == "__main__":
    run_main(main)
