"""Names under which vectors, indexes and runs of a collection are filed: one folder name on any system."""

from __future__ import annotations

import re
from urllib.parse import unquote

from learned_sparse.core import LearnedSparseError

_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_QUOTED = re.compile(r"--|-(?=[:/])|(?<=[:/])-|[^\w.:/-]|\.$")  # what would be read as another "--", and the rest
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # of Windows


def folder_name(spelling: str) -> str:
    """``spelling`` as a folder name; another spelling has another name.

    ``:`` and ``/`` become ``--``, which no name in the catalogue has; whatever else a system refuses becomes ``%`` and
    the code of each byte.

    >>> folder_name("ir_datasets:beir/scifact")
    'ir_datasets--beir--scifact'
    """
    quoted = _QUOTED.sub(lambda match: "".join(f"%{byte:02x}" for byte in match[0].encode()), spelling)
    return quoted.replace(":", "--").replace("/", "--")


def spelling_of(name: str) -> str:
    """What ``folder_name`` was given, if that had one ``:``, before any ``/``, as names of the catalogue have it.

    >>> spelling_of("ir_datasets--beir--scifact")
    'ir_datasets:beir/scifact'
    """
    return unquote(name.replace("--", ":", 1).replace("--", "/"))


def check_name(name: str, where: str) -> str:
    """``name`` if it is one folder name on any system; ``where`` opens the error message."""
    plain = name.strip(" ").rstrip(".") == name
    if not name or not plain or _FORBIDDEN.search(name) or _RESERVED.fullmatch(name):
        raise LearnedSparseError(
            f"{where}: the name {name!r} cannot be a folder on every system; use letters, digits, '-', '_' and '.'"
        )
    return name
