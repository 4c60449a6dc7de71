"""A Ray cluster of two nodes on this machine, each with processes of its own."""

from __future__ import annotations

import os
from typing import Any

import pytest

from learned_sparse.ray import Engine

MEMORY = 80 * 2**20
SYSTEM = {
    "health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 8,
}  # fmt: skip
"""A node that is dead for four seconds is noticed; Ray's default is ten and more."""


class Nodes:
    """Two nodes with two processors each; the second one may be killed."""

    def __init__(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        cluster_utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
        head = {"num_cpus": 2, "object_store_memory": MEMORY, "include_dashboard": False, "_system_config": SYSTEM}
        self._cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        self._second: Any = None
        self.restore()

    @property
    def engine(self) -> Engine:
        """A worker on each node."""
        return Engine(address=self.address, workers=2)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def kill(self) -> None:
        """Kill the second node with its processes."""
        self._cluster.remove_node(self._second, allow_graceful=False)
        self._second = None

    def restore(self) -> None:
        """Start the second node if it was killed."""
        if self._second is None:
            self._second = self._cluster.add_node(num_cpus=2, object_store_memory=MEMORY)

    def shutdown(self) -> None:
        self._cluster.shutdown()
