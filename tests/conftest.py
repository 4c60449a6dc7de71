"""Fixtures for every test, and the rule that a skipped Java test is a failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# No deadline, because machines differ in speed; CI uses the same examples every time.
hypothesis.settings.register_profile("house", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("house")
if "PYTEST_XDIST_WORKER" in os.environ:  # waiting threads must not spin: other processes need the cores
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("LEARNED_SPARSE_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # a faster start
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # `HF_HUB_OFFLINE=0 pytest -m published` downloads
# Commands that are printed begin with "python" if that is this Python, as in an activated environment.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a script's `make test &`; the commands under test inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Test collections beside the checkout; tests that need missing ones are skipped."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside this checkout")
    return folder


@pytest.fixture
def tmp_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty ``LEARNED_SPARSE_HOME``."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(folder))
    return folder


Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def python() -> Python:
    """Run this Python in a new process: ``python("-m", "learned_sparse", "--check", cwd=...)``."""

    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        settings: dict[str, object] = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 300, **options}
        return subprocess.run([sys.executable, *map(str, arguments)], check=False, **settings)  # type: ignore[call-overload, no-any-return]

    return run


IN_BF16 = ("tests/encoders/encoding/", "tests/encoders/head/test_attribution.py", "tests/learned_sparse/inspect/")
"""Tests that load encoders; ``make test ALL=yes`` runs them in bf16, which every processor computes, some slowly."""


@pytest.fixture(autouse=True, scope="module")
def _data_type(request: pytest.FixtureRequest) -> Generator[None]:
    """The default data type of the tests that load encoders is ``TEST_DTYPE``."""
    with pytest.MonkeyPatch.context() as patch:
        if "TEST_DTYPE" in os.environ and request.node.nodeid.startswith(IN_BF16):
            patch.setenv("LEARNED_SPARSE_DTYPE", os.environ["TEST_DTYPE"])
        yield


SLOW = (
    "test_ray.py", "test_rehearsal.py", "test_kills.py", "test_second_device.py", "test_processes.py", "test_demo.py",
    "test_same_bytes.py", "test_benchmarks.py",
)  # fmt: skip
"""Files with tests that only ``make test ALL=yes`` and CI run, as those of ``tests/reliability``; the longest first."""
FAULTS = ("test_faults.py",)
"""Files that only ``make test-faults`` runs."""
ORDER = (*SLOW, "test_contract.py", "test_readme.py", "test_commands.py", "test_reproduce.py", "test_launcher.py")
"""Files that start first, so that none of them runs alone at the end (``--dist loadfile``)."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and faults; put the tests of ``ORDER`` first."""
    for item in items:
        if item.path.name in FAULTS:
            item.add_marker("faults")
        elif "reliability" in item.path.parts or (item.path.name in SLOW and item.path.name != "test_rehearsal.py"):
            item.add_marker("slow")
    places = {name: place for place, name in enumerate(ORDER)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked gpu if there is no GPU, and none is simulated (``tests/encoders/test_second_device.py``)."""
    if item.get_closest_marker("gpu") and "TEST_DEVICE" not in os.environ:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no GPU")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a skipped jvm test as failed (with ``NO_SKIPS`` any skipped test), unless data or a GPU is missing."""
    report = yield
    may_be_skipped = "shared_data" in getattr(item, "fixturenames", ()) or item.get_closest_marker("gpu")
    must_run = item.get_closest_marker("jvm") or os.environ.get("NO_SKIPS")
    if report.skipped and must_run and not may_be_skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: must not be skipped ({reason})"
    return report


def _tiny(kind: str) -> Any:
    """A fixture: a random masked-LM of a few kilobytes, with tokenizer."""

    @pytest.fixture(scope="session", name=f"tiny_{kind}")
    def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
        from tests.tiny_models import save_tiny

        return save_tiny(kind, tmp_path_factory.mktemp("tiny") / kind)

    return saved


tiny_bert, tiny_distilbert, tiny_headless = map(_tiny, ("bert", "distilbert", "headless"))
"""``tiny_headless``: a BERT without masked-LM head."""
