"""``python -m tests.checks.layout``: the largest files and folders of the three packages, as information."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("learned_sparse", "encoders", "eval")


def main() -> None:
    """Print the five longest files and fullest folders."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in files}
    entries = {folder: sum(path.parent == folder for path in files) for folder in {path.parent for path in files}}
    for kind, sizes in (("lines", lines), ("modules", entries)):
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
        print(f"most {kind}:", ", ".join(f"{path.relative_to(ROOT)} {size}" for path, size in largest))


if __name__ == "__main__":
    main()
