"""An import-linter contract: packages are used through their public names, never through inner modules."""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class DoorsContract(Contract):
    """A module of a package below a root package may be imported only from inside the package that holds it.

    ``learned_sparse.lucene`` may be imported from everywhere, ``learned_sparse.lucene.java`` only inside
    ``learned_sparse.lucene``, and ``encoders.training.data`` only inside ``encoders.training``.
    """

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find every import of an inner module from outside its package."""
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
            output.print_error(f"{edge}: import the name from the package instead")


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
