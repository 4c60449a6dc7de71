"""What is done with Lucene's index writer, each as one call from Python, composed of Java's method handles.

A call for each document would take and give back Python's lock each time. And an ``OutOfMemoryError`` must not leave
Java: pyjnius asks it for its stack, and the process ends where there is no memory for one either.
"""

from __future__ import annotations

from typing import Any

OUT_OF_MEMORY = "OutOfMemoryError"
"""What a call gives that ran out of memory; the others give ``None``."""


class WriterCalls:
    """Calls that take ``java.util.Arrays.asList(writer, ...)`` by ``invokeWithArguments``."""

    def __init__(self) -> None:
        from jnius import autoclass

        self._handles, self._types = (
            autoclass("java.lang.invoke.MethodHandles"),
            autoclass("java.lang.invoke.MethodType"),
        )
        self._lookup, self._class = self._handles.publicLookup(), autoclass("java.lang.Class").forName
        self._writer, self._list = self._class("org.apache.lucene.index.IndexWriter"), self._class("java.util.List")
        self._number, self._nothing = (autoclass(f"java.lang.{name}").TYPE for name in ("Integer", "Void"))
        self._one, self._long = autoclass("java.lang.Integer")(1), autoclass("java.lang.Long").TYPE
        self.add = self._guarded(self._add_each())
        self.finish = self._guarded(self._merge_and_close())
        self.rollback = self._guarded(self._method("rollback", self._nothing))

    def _add_each(self) -> Any:
        """``(writer, documents)``: ``for document in documents: writer.addDocument(document)``.

        Lucene's own ``addDocuments`` would mark them as a block that belongs together.
        """
        document = self._class("java.lang.Iterable")
        add = self._method("addDocument", self._long, document)
        add = add.asType(add.type().changeReturnType(self._nothing))
        item = self._types.methodType(self._class("java.lang.Object"), self._number)
        get = self._lookup.findVirtual(self._list, "get", item)
        get = get.asType(get.type().changeReturnType(document))
        size = self._lookup.findVirtual(self._list, "size", self._types.methodType(self._number))
        # (writer, documents, number) -> (number, writer, documents): the order in which a counted loop hands them over
        order = self._types.methodType(self._nothing, self._number).appendParameterTypes(self._writer, self._list)
        body = self._handles.permuteArguments(self._handles.collectArguments(add, 1, get), order, 1, 2, 0)
        return self._handles.countedLoop(self._handles.dropArguments(size, 0, self._writer), None, body)

    def _merge_and_close(self) -> Any:
        """``(writer)``: one segment, committed."""
        merge = self._handles.insertArguments(self._method("forceMerge", self._nothing, self._number), 1, self._one)
        commit = self._method("commit", self._long)
        commit = commit.asType(commit.type().changeReturnType(self._nothing))
        close = self._method("close", self._nothing)
        return self._handles.foldArguments(self._handles.foldArguments(close, commit), merge)

    def _method(self, name: str, returns: Any, *takes: Any) -> Any:
        return self._lookup.findVirtual(self._writer, name, self._types.methodType(returns, *takes))

    def _guarded(self, handle: Any) -> Any:
        text, error = self._class("java.lang.String"), self._class("java.lang.OutOfMemoryError")
        fine = self._handles.filterReturnValue(handle, self._handles.constant(text, None))
        spent = self._handles.dropArguments(self._handles.constant(text, OUT_OF_MEMORY), 0, error)
        return self._handles.catchException(fine, error, spent)
