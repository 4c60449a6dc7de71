"""An import-linter contract: packages are used through their public names and modules only."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

ROOT = Path(__file__).resolve().parents[2]


class DoorsContract(Contract):
    """A module of a package below a root package may be imported from outside if ``__all__`` of the package has it.

    ``learned_sparse.lucene.jvm`` may be imported from everywhere, ``learned_sparse.encode.parts`` only inside
    ``learned_sparse.encode``, and ``encoders.training.files`` only inside
    ``encoders.training``.
    """

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find every import of a private module from outside its package."""
        broken = [
            f"{importer} -> {module}"
            for module in sorted(graph.modules)
            for importer in sorted(graph.find_modules_that_directly_import(module))
            if not may_import(importer, module)
        ]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print every import that breaks the contract."""
        for edge in check.metadata["broken"]:
            output.print_error(f"{edge}: private; import a name of the package, or one of its public modules (__all__)")


def may_import(importer: str, module: str) -> bool:
    """Whether ``importer`` may name ``module``: a public one, one at the first level of a package, or a neighbour.

    >>> may_import("eval.costs", "learned_sparse.lucene.jvm")
    True
    >>> may_import("eval.costs", "learned_sparse.encode.parts")
    False
    >>> may_import("learned_sparse.encode.run", "learned_sparse.encode.parts")
    True
    """
    parent, _, name = module.rpartition(".")
    return parent.count(".") == 0 or importer == parent or importer.startswith(f"{parent}.") or name in public(parent)


@functools.cache
def public(package: str) -> tuple[str, ...]:
    """``__all__`` of a package."""
    tree = ast.parse((ROOT / package.replace(".", "/") / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return tuple(ast.literal_eval(node.value))
    return ()
