"""Pages and terminals show a text as it is, whatever it holds."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.learned_sparse.explaining import EXPANSION, HOSTILE, as_json, explain_everything, save_index, shown


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_index(tmp_path_factory.mktemp("inspect"))


@pytest.fixture(autouse=True)
def _encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    explain_everything(monkeypatch)


class _Reader(HTMLParser):
    """What a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.classes: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.classes += [value or "" for name, value in attributes if name == "class"]
        assert not {name for name, _ in attributes} & {"style", "onclick", "onload", "src"}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.jvm
def test_a_page_of_a_hostile_document(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "page.html"
    pair = ("--index", index, "--query", "hives & evil", "--document", "d2")
    assert shown(capsys, *pair, "--html", file) == f"{file}\n"
    first = file.read_bytes()
    seen = _Reader(first.decode())
    assert "script" not in seen.tags
    assert HOSTILE in seen.text
    assert '<span class="shade5 met" title="4">hives</span> ' in first.decode()
    assert '<span class="shade5" title="4">&lt;script&gt;' in first.decode()
    assert seen.tags.count("html") == 1
    assert not re.search(r"https?://|url\(|@import", first.decode())
    assert as_json(capsys, *pair, "--html", file)["document"]["text"] == HOSTILE
    assert file.read_bytes() == first


@pytest.mark.jvm
def test_a_hostile_document_cannot_steer_the_terminal(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--index", index, "--query", HOSTILE, "--document", "d2")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31mred\\x1b[0m" in text


def test_colour(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    asked = ("--checkpoint", "here", "--text", f"hives \x1b[31m hives {EXPANSION}")
    colours = shown(capsys, *asked)
    assert "\x1b[38;5;16;48;5;203mhives\x1b[0m" in colours  # the heaviest
    assert "\x1b[31m" not in colours
    plain = shown(capsys, *asked, "--no-color")
    assert "\x1b" not in plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(capsys, *asked) == plain
