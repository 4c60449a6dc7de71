"""An import-linter contract: a package is used through its own names, never through its inner modules."""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class DoorsContract(Contract):
    """A module of a package below a root package may be imported only from inside the package that holds it.

    ``learned_sparse.lucene`` may be imported from everywhere, ``learned_sparse.lucene.java`` only inside
    ``learned_sparse.lucene``, and ``encoders.training.data`` only inside ``encoders.training``.
    """

    ignore_imports = fields.SetField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find every import of an inner module from outside its package."""
        ignored: set[str] = set(self.ignore_imports or ())  # type: ignore[call-overload]
        broken = [
            f"{importer} -> {module}"
            for module in sorted(graph.modules)
            for importer in sorted(graph.find_modules_that_directly_import(module))
            if not may_import(importer, module)
        ]
        unused = sorted(ignored - set(broken))
        illegal = [edge for edge in broken if edge not in ignored]
        return ContractCheck(kept=not illegal and not unused, metadata={"illegal": illegal, "unused": unused})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print every import that breaks the contract."""
        metadata: dict[str, Any] = check.metadata
        for edge in metadata["illegal"]:
            output.print_error(f"{edge}: import the name from the package instead")
        for edge in metadata["unused"]:
            output.print_error(f"{edge}: listed under ignore_imports, but no such import exists")


def may_import(importer: str, module: str) -> bool:
    """Whether ``importer`` may name ``module``: it is outside our packages, at their first level, or a neighbour.

    >>> may_import("eval.costs.latency", "learned_sparse.lucene")
    True
    >>> may_import("eval.costs.latency", "learned_sparse.lucene.java")
    False
    >>> may_import("learned_sparse.lucene.searchers", "learned_sparse.lucene.java")
    True
    """
    parent, _, _ = module.rpartition(".")
    return parent.count(".") == 0 or importer == parent or importer.startswith(f"{parent}.")
