"""Files for the readers of collections, and ids that they may hold."""

from __future__ import annotations

import gzip
from pathlib import Path

from hypothesis import strategies as st

IDS = st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name.split() == [name]
)


def write(path: Path, *lines: str | bytes) -> Path:
    """Write lines, without a line end after the last one; a file named ``*.gz`` is compressed."""
    content = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
