"""Java's method handles in short words: what is composed of them runs as one call from Python."""

from __future__ import annotations

from typing import Any


class Java:
    """``java.lang.invoke`` in short words; types are spelled as the JVM spells them: ``(I)Ljava/lang/String;``."""

    def __init__(self) -> None:
        from jnius import autoclass

        self._handles, self._types = (
            autoclass("java.lang.invoke.MethodHandles"),
            autoclass("java.lang.invoke.MethodType"),
        )
        self._lookup, self._class = self._handles.publicLookup(), autoclass("java.lang.Class").forName
        self._float = autoclass("java.lang.Float").TYPE
        self._loader = self._class("org.apache.lucene.search.IndexSearcher").getClassLoader()
        self.insert, self.collect = self._handles.insertArguments, self._handles.collectArguments
        self.then = self._handles.filterReturnValue

    def new(self, name: str, kind: str) -> Any:
        return self._lookup.findConstructor(self._class(name), self._type(kind))

    def method(self, name: str, method: str, kind: str) -> Any:
        return self._lookup.findVirtual(self._class(name), method, self._type(kind))

    def static(self, name: str, method: str, kind: str) -> Any:
        return self._lookup.findStatic(self._class(name), method, self._type(kind))

    def field(self, name: str, field: str, array: str) -> Any:
        return self._lookup.findGetter(self._class(name), field, self._array(array))

    def number(self, name: str, field: str) -> Any:
        """A field of type ``float``."""
        return self._lookup.findGetter(self._class(name), field, self._float)

    def element(self, array: str) -> Any:
        """``(array, place) -> element``."""
        return self._handles.arrayElementGetter(self._array(array))

    def typed(self, handle: Any, kind: str) -> Any:
        return handle.asType(self._type(kind))

    def boxed(self, handle: Any) -> Any:
        """``handle`` with the return type ``Object``: ``None`` if it returns nothing."""
        return handle.asType(handle.type().changeReturnType(self._class("java.lang.Object")))

    def order(self, handle: Any, kind: str, *places: int) -> Any:
        """A handle of type ``kind`` whose arguments number ``places`` are those of ``handle``, in their order."""
        return self._handles.permuteArguments(handle, self._type(kind), *places)

    def loop(self, array: str, begin: Any, body: Any) -> Any:
        """``value = begin(); for place in range(len(array)): value = body(value, place, array, ...)``."""
        return self.repeat(self._handles.arrayLength(self._array(array)), begin, body)

    def repeat(self, count: Any, begin: Any, body: Any) -> Any:
        """``value = begin(...); for i in range(count(...)): value = body(value, i, ...)``; ``None`` begins nothing."""
        return self._handles.countedLoop(count, begin, body)

    def without(self, handle: Any, place: int, name: str) -> Any:
        """``handle`` with one more argument at ``place``, of class ``name``, which it leaves unread."""
        return self._handles.dropArguments(handle, place, self._class(name))

    def after(self, first: Any, last: Any) -> Any:
        """``first(...); return last(...)`` with the same arguments; ``first`` returns nothing."""
        return self._handles.foldArguments(last, first)

    def constant(self, name: str, value: Any) -> Any:
        """``() -> value``, of class ``name``."""
        return self._handles.constant(self._class(name), value)

    def caught(self, handle: Any, name: str, otherwise: Any) -> Any:
        """``handle``, or what ``otherwise`` makes of an error of class ``name``."""
        return self._handles.catchException(handle, self._class(name), otherwise)

    def _type(self, kind: str) -> Any:
        return self._types.fromMethodDescriptorString(kind, self._loader)

    def _array(self, kind: str) -> Any:
        return self._class(kind.replace("/", "."))
