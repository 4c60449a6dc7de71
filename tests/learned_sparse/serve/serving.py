"""Systems over the same four documents, of impacts and of BM25, without torch; texts, names and queries are hostile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.documents import read_documents
from learned_sparse.index.build import build_bm25_index
from learned_sparse.inspect import inspection
from learned_sparse.serve.api import create_app
from learned_sparse.serve.content import Content, Judged, Texts, open_systems
from learned_sparse.serve.guard import configured
from tests.learned_sparse.inspect.explaining import DOCUMENTS, load_explaining, save_index
from tests.toy_data import save_beir

SCRIPT = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
QUERIES = {"q1": "hives and rash", "q2<svg/onload=alert(1)>": f"rash {SCRIPT}"}
GRADES = [("q1", "d10", 1), ("q1", "d1", 2), ("q1", "d2", 0), ("q2<svg/onload=alert(1)>", "ü/3", 1)]
AGAIN = "<b>again</b>"


@contextmanager
def toy_content(folder: Path) -> Generator[Content]:
    """Systems ``words``, ``AGAIN`` (the same index) and ``bm25`` with judged queries."""
    save_beir(folder / "toy", DOCUMENTS, QUERIES, {"test": GRADES})
    index = save_index(folder)
    build_bm25_index(read_documents(folder / "toy" / "corpus.jsonl"), folder / "bm25")
    collection = load_collection(folder / "toy")
    texts = Texts(collection.documents())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection, "load_encoder", load_explaining)
        opened = open_systems({"words": index, AGAIN: index, "bm25": folder / "bm25"}, texts.get)
        yield Content(systems=opened, text_of=texts.get, judged=Judged(collection, "test"), notes=[f"note {SCRIPT}"])
        for system in opened.values():
            system.searcher.close()


@contextmanager
def running(content: Content) -> Generator[str]:
    """The address of a real server in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(configured(create_app(content)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()
