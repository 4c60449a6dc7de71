"""What is done with Lucene's index writer, each as one call from Python, composed of Java's method handles.

A call for each document would take and give back Python's lock each time. And an ``OutOfMemoryError`` must not leave
Java: pyjnius asks it for its stack, and the process ends where there is no memory for one either. What pyjnius
allocates itself, such as strings, cannot be guarded like this: for it some memory is held in reserve.
"""

from __future__ import annotations

from typing import Any

from learned_sparse.lucene.method_handles import Java

OUT_OF_MEMORY = "OutOfMemoryError"
"""What a call gives that ran out of memory."""
RESERVE = 2**22
"""Bytes of Java's memory that are given up only when there is no other: room for one more batch, and for Java to say
that it has none."""
_NAME, _DOCUMENTS, _TEXT = "org.apache.lucene.index.IndexWriter", "java.util.List", "java.lang.String"
_WRITER, _LIST, _DOCUMENT = "Lorg/apache/lucene/index/IndexWriter;", "Ljava/util/List;", "Ljava/lang/Iterable;"
_OBJECT = "Ljava/lang/Object;"


class WriterCalls:
    """Calls by ``invokeWithArguments``, which give ``OUT_OF_MEMORY``, or what they make, or ``None``.

    All take ``java.util.Arrays.asList(writer, ...)``; ``reserve`` makes a soft reference to ``RESERVE`` bytes.
    """

    def __init__(self) -> None:
        java = Java()
        self.add = _guarded(java, _add_each(java))
        self.finish = _guarded(java, _merge_and_close(java))
        self.rollback = _guarded(java, java.method(_NAME, "rollback", "()V"))
        self.reserve = _guarded(java, _held_softly(java, RESERVE))


def _add_each(java: Java) -> Any:
    """``(writer, documents)``: ``for document in documents: writer.addDocument(document)``.

    Lucene's own ``addDocuments`` would mark them as a block that belongs together.
    """
    add = java.typed(java.method(_NAME, "addDocument", f"({_DOCUMENT})J"), f"({_WRITER}{_DOCUMENT})V")
    get = java.typed(java.method(_DOCUMENTS, "get", f"(I){_OBJECT}"), f"({_LIST}I){_DOCUMENT}")
    # (writer, documents, number) -> (number, writer, documents): the order in which a counted loop hands them over
    body = java.order(java.collect(add, 1, get), f"(I{_WRITER}{_LIST})V", 1, 2, 0)
    return java.repeat(java.without(java.method(_DOCUMENTS, "size", "()I"), 0, _NAME), None, body)


def _merge_and_close(java: Java) -> Any:
    """``(writer)``: one segment, committed."""
    from jnius import autoclass

    merge = java.insert(java.method(_NAME, "forceMerge", "(I)V"), 1, autoclass("java.lang.Integer")(1))
    commit = java.typed(java.method(_NAME, "commit", "()J"), f"({_WRITER})V")
    return java.after(merge, java.after(commit, java.method(_NAME, "close", "()V")))


def _held_softly(java: Java, size: int) -> Any:
    """``(writer)``: a soft reference to ``size`` bytes, which Java clears before it raises an ``OutOfMemoryError``."""
    from jnius import autoclass

    allocate = java.static("java.nio.ByteBuffer", "allocate", "(I)Ljava/nio/ByteBuffer;")
    allocated = java.insert(java.typed(allocate, f"(I){_OBJECT}"), 0, autoclass("java.lang.Integer")(size))
    held = java.then(allocated, java.new("java.lang.ref.SoftReference", f"({_OBJECT})V"))
    return java.without(held, 0, _NAME)


def _guarded(java: Java, handle: Any) -> Any:
    spent = java.without(java.constant(_TEXT, OUT_OF_MEMORY), 0, "java.lang.OutOfMemoryError")
    return java.caught(java.boxed(handle), "java.lang.OutOfMemoryError", java.boxed(spent))
