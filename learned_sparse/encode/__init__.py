"""Documents and queries through an encoder into vector files, from Python or from the command line.

``write_vectors`` encodes an iterable of documents. ``python -m learned_sparse.encode`` does the same for collections,
files and queries. Read ``documents`` first (the pipeline), then ``parts`` (files, resuming), ``quantizers``, and
``options`` and ``run`` (the command).
"""

from __future__ import annotations

from learned_sparse.encode.documents import PART_SIZE, slice_size, write_vectors
from learned_sparse.encode.options import EncodeOptions
from learned_sparse.encode.parts import windows
from learned_sparse.encode.quantizers import QUERY_QUANTIZER, WORD_COUNTS, Calibration, choose_quantizer
from learned_sparse.encode.run import WINDOW, encode_source, load_side, open_source, query_side

__all__ = [
    "PART_SIZE",
    "QUERY_QUANTIZER",
    "WINDOW",
    "WORD_COUNTS",
    "Calibration",
    "EncodeOptions",
    "choose_quantizer",
    "encode_source",
    "load_side",
    "open_source",
    "query_side",
    "slice_size",
    "windows",
    "write_vectors",
]
