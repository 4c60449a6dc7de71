"""Records, the encoder protocol and basic services that all other rooms use.

Read ``records`` first (documents, queries, sparse batches), then ``encoder`` (the interface between models and the
plug-in). ``quantize`` and ``terms`` say which impacts and terms Lucene can store. ``files``, ``lines``,
``settings`` and ``errors`` write files, read lines, check settings and report errors; ``machine`` counts processors
and memory.
"""

__all__ = [
    "commands",
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
    "terms",
    "yaml_files",
]
"""Public modules."""
