"""YAML as people write it: recipes, matrices, descriptions of collections, the values of ``--set``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from learned_sparse.core.errors import LearnedSparseError, not_found


def read_yaml(path: Path) -> Mapping[str, Any]:
    """Mapping in a YAML file (see ``read_yaml_text``); an error names the file and the line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise not_found(path) from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or NUL in the name
        raise LearnedSparseError(f"{path}: cannot be read ({error})") from error
    values = read_yaml_text(text, str(path))
    if not isinstance(values, Mapping):
        raise LearnedSparseError(f"{path}: expected a mapping of settings, got {repr(values)[:80]}")
    return values


def read_yaml_text(text: str, where: str) -> Any:
    """The value of a YAML text; errors begin with ``where``, and name the line.

    Plain values are those of JSON and YAML 1.2, so that dates, ``010``, ``12:30`` and ``no`` are text. A key given
    twice is an error.

    >>> read_yaml_text("{alpha: 3e-1, layers: [2, 12], date: 2026-01-01, last: null}", "example")
    {'alpha': 0.3, 'layers': [2, 12], 'date': '2026-01-01', 'last': None}
    """
    seen = set[int]()
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        nodes = [] if root is None else [root]
        for node in nodes:  # all of them, each once, before ``<<`` adds the keys of another mapping
            if isinstance(node, yaml.SequenceNode) and id(node) not in seen:
                nodes += node.value
            elif isinstance(node, yaml.MappingNode) and id(node) not in seen:
                keys = set[str]()
                for key, value in node.value:
                    nodes += (key, value)
                    if isinstance(key, yaml.ScalarNode):
                        if key.value in keys:
                            problem = f"the key {key.value!r} is given twice; keep one"
                            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                        keys.add(key.value)
                        if key.value != "<<":
                            key.tag = "tag:yaml.org,2002:str"
            seen.add(id(node))
        return None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark and "\n" in text.strip() else ""
        raise LearnedSparseError(f"{where}{line}: not readable as YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise LearnedSparseError(f"{where}: not readable as YAML: {' '.join(str(error).split())}") from error
    except (ValueError, LookupError, AttributeError) as error:
        raise LearnedSparseError(f"{where}: not readable as YAML: a value that does not fit its tag (!!int)") from error


class _Loader(yaml.SafeLoader):
    """Loader for the plain values of JSON and YAML 1.2; keys are text, and a key given twice is an error."""

    yaml_implicit_resolvers = {}  # noqa: RUF012


for _tag, _pattern in {
    "null": r"null|~|",
    "bool": r"true|false",
    "int": r"[-+]?(0|[1-9][0-9_]*)",
    "float": r"[-+]?(\.[0-9]+|(0|[1-9][0-9_]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
    "merge": r"<<",
}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), None)
