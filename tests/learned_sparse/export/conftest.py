"""Fixtures of the export tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learned_sparse.export.collection import save


@pytest.fixture(scope="package")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of encoded documents and queries."""
    return save(tmp_path_factory.mktemp("encoded"))
