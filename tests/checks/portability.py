"""``python -m tests.checks.portability``: names that some systems lack, and text whose bytes depend on the machine."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from tests.checks.layout import PACKAGES, ROOT

ONLY_SOME_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
ONLY_SOME_ATTRIBUTES = {
    "os.O_DIRECT", "os.O_DIRECTORY", "os.O_NOFOLLOW", "os.chown", "os.copy_file_range", "os.fchmod", "os.fchown",
    "os.fork", "os.forkpty", "os.getegid", "os.geteuid", "os.getgid", "os.getloadavg", "os.getpgid", "os.getuid",
    "os.kill", "os.killpg", "os.link", "os.memfd_create", "os.mkfifo", "os.nice", "os.posix_fadvise",
    "os.posix_fallocate", "os.process_cpu_count", "os.sched_getaffinity", "os.sched_setaffinity", "os.sendfile",
    "os.setsid", "os.splice", "os.statvfs", "os.symlink", "os.sync", "os.sysconf", "os.uname", "os.wait4",
    "signal.SIGALRM", "signal.SIGHUP", "signal.SIGKILL", "signal.SIGPIPE", "signal.SIGQUIT", "signal.SIGUSR1",
    "signal.SIGUSR2", "signal.SIGXFSZ", "signal.alarm", "signal.pthread_sigmask", "signal.setitimer", "time.tzset",
}  # fmt: skip
"""What macOS or Windows lacks or refuses."""
ONLY_SOME_METHODS = {"hardlink_to", "preexec_fn", "symlink_to"}
"""Methods of paths and arguments of subprocess that Windows lacks or refuses."""
LINUX_PATHS = re.compile(r"/(proc|run|sys)/")
UNIX_PATHS = re.compile(r"/dev/(fd|null|shm|std)|/(tmp|var)\b")
GUARDS = ("os.name", "sys.platform", "hasattr(os", "hasattr(signal")
HANDLERS = {"AttributeError", "ImportError", "ModuleNotFoundError", "NotImplementedError", "OSError"}


def problems(source: str) -> Iterator[tuple[int, str]]:
    """``(line, problem)`` for each use without a fallback.

    A fallback is a ``try`` that catches the missing name, or a comparison of ``os.name`` or ``sys.platform`` in the
    same function.

    >>> list(problems("import os; os.fork()"))
    [(1, 'os.fork: some systems lack it; give a fallback')]
    >>> list(problems("path.write_text(text, encoding='utf-8', newline='')"))
    []
    """
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr | ast.stmt | ast.keyword):
            continue
        if (name := special_name(node)) and not has_fallback(node, parents):
            yield node.lineno, f"{name}: some systems lack it; give a fallback"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and UNIX_PATHS.match(node.value):
            yield node.lineno, f"{node.value}: not on every system; use os.devnull or tempfile"
        if isinstance(node, ast.Call):
            yield from ((node.lineno, problem) for problem in text_problems(node))


def special_name(node: ast.AST) -> str | None:
    """The name that some systems lack, if ``node`` uses one."""
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=attribute) if (
            f"{module}.{attribute}" in ONLY_SOME_ATTRIBUTES
        ):
            return f"{module}.{attribute}"
        case ast.Attribute(attr=name) | ast.keyword(arg=name) if name in ONLY_SOME_METHODS:
            return name
        case ast.Import(names=names):
            return next((alias.name for alias in names if alias.name in ONLY_SOME_MODULES), None)
        case ast.ImportFrom(module=name) if name in ONLY_SOME_MODULES:
            return name
        case ast.Constant(value=str(path)) if LINUX_PATHS.match(path):
            return path
    return None


def has_fallback(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether the code around ``node`` provides for systems that lack its name."""
    while node in parents:
        child, node = node, parents[node]
        if isinstance(node, ast.Try) and child in node.body:
            caught = {part.id for handler in node.handlers for part in ast.walk(handler) if isinstance(part, ast.Name)}
            if caught & HANDLERS:
                return True
        if isinstance(node, ast.With) and "suppress(ImportError" in ast.unparse(node.items[0]):
            return True
        if isinstance(node, ast.If | ast.IfExp | ast.FunctionDef):
            text = ast.unparse(node if isinstance(node, ast.FunctionDef) else node.test)
            if any(guard in text for guard in GUARDS):
                return True
    return False


def text_problems(call: ast.Call) -> Iterator[str]:
    """Text without an encoding, written text without a newline, and paths of the system as text."""
    name, keywords = called(call), {keyword.arg for keyword in call.keywords}
    mode = text_mode(call, name)
    if (mode or (name in {"run", "Popen", "check_output"} and "text" in keywords)) and "encoding" not in keywords:
        yield f"{name}: text without encoding= depends on the locale"
    if mode and set(mode) & set("wax") and "newline" not in keywords:
        yield f"{name}: text written without newline= has other bytes on Windows"
    if name == "str" and isinstance(call.args[0], ast.Call) and called(call.args[0]) == "relative_to":
        yield "str of relative_to: backslashes on Windows; use as_posix()"


def text_mode(call: ast.Call, name: str) -> str | None:
    """Mode of a call that opens, reads or writes text; None for other calls."""
    if name in {"read_text", "write_text"}:
        return name[0]
    if name != "open":
        return None
    values = [*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    modes = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    mode = next((mode for mode in modes if re.fullmatch("[rwaxbt+]{1,3}", mode)), None if call.args else "r")
    return None if mode is None or "b" in mode else mode


def called(call: ast.Call) -> str:
    """Last part of the name of the function that is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def main() -> int:
    """Print the problems; the exit status is 1 if there are any."""
    files = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    found = [
        f"{file.relative_to(ROOT).as_posix()}:{line}: {problem}"
        for file in files
        for line, problem in sorted(problems(file.read_text(encoding="utf-8")))
    ]
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"Checked that {len(files)} Python files run on other systems: {len(found)} problems.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
