"""Records, the encoder protocol and basic services that all other rooms use.

Read ``records`` first (sparse batches), then ``encoder`` (the interface between models and the plug-in). ``quantize``
and ``lines`` say which impacts, terms and ids Lucene can store. ``files``, ``lines``, ``settings`` and ``errors`` write
files, read lines, check settings and report errors; ``machine`` counts processors and memory.
"""

__all__ = [
    "encoder",
    "errors",
    "files",
    "lazy",
    "lines",
    "machine",
    "quantize",
    "reading",
    "records",
    "settings",
    "yaml_files",
]
"""Public modules."""
