"""The cluster of the tests, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.learned_sparse.distribute.nodes import Nodes


@pytest.fixture(scope="session")
def nodes_of_session() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.shutdown()


@pytest.fixture
def nodes(nodes_of_session: Nodes) -> Nodes:
    """Both nodes, alive."""
    nodes_of_session.restore()
    return nodes_of_session
