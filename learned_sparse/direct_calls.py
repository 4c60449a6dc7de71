"""What is done with Lucene's index writer, each as one call from Python, composed of Java's method handles.

A call for each document would take and give back Python's lock each time. And an ``OutOfMemoryError`` must not leave
Java: pyjnius asks it for its stack, and the process ends where there is no memory for one either.
"""

from __future__ import annotations

from typing import Any

from learned_sparse.method_handles import Java

OUT_OF_MEMORY = "OutOfMemoryError"
"""What a call gives that ran out of memory; the others give ``None``."""
_NAME, _DOCUMENTS, _TEXT = "org.apache.lucene.index.IndexWriter", "java.util.List", "java.lang.String"
_WRITER, _LIST, _DOCUMENT = "Lorg/apache/lucene/index/IndexWriter;", "Ljava/util/List;", "Ljava/lang/Iterable;"


class WriterCalls:
    """Calls that take ``java.util.Arrays.asList(writer, ...)`` by ``invokeWithArguments``."""

    def __init__(self) -> None:
        java = Java()
        self.add = _guarded(java, _add_each(java))
        self.finish = _guarded(java, _merge_and_close(java))
        self.rollback = _guarded(java, java.method(_NAME, "rollback", "()V"))


def _add_each(java: Java) -> Any:
    """``(writer, documents)``: ``for document in documents: writer.addDocument(document)``.

    Lucene's own ``addDocuments`` would mark them as a block that belongs together.
    """
    add = java.typed(java.method(_NAME, "addDocument", f"({_DOCUMENT})J"), f"({_WRITER}{_DOCUMENT})V")
    get = java.typed(java.method(_DOCUMENTS, "get", "(I)Ljava/lang/Object;"), f"({_LIST}I){_DOCUMENT}")
    # (writer, documents, number) -> (number, writer, documents): the order in which a counted loop hands them over
    body = java.order(java.collect(add, 1, get), f"(I{_WRITER}{_LIST})V", 1, 2, 0)
    return java.repeat(java.without(java.method(_DOCUMENTS, "size", "()I"), 0, _NAME), None, body)


def _merge_and_close(java: Java) -> Any:
    """``(writer)``: one segment, committed."""
    from jnius import autoclass

    merge = java.insert(java.method(_NAME, "forceMerge", "(I)V"), 1, autoclass("java.lang.Integer")(1))
    commit = java.typed(java.method(_NAME, "commit", "()J"), f"({_WRITER})V")
    return java.after(merge, java.after(commit, java.method(_NAME, "close", "()V")))


def _guarded(java: Java, handle: Any) -> Any:
    fine = java.then(handle, java.constant(_TEXT, None))
    spent = java.without(java.constant(_TEXT, OUT_OF_MEMORY), 0, "java.lang.OutOfMemoryError")
    return java.caught(fine, "java.lang.OutOfMemoryError", spent)
