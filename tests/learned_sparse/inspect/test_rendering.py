"""The terminal and the HTML page show any text as text."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learned_sparse.core import EXPANDED
from learned_sparse.inspect.explanation import Inspection, make_view
from learned_sparse.inspect.rendering import to_html, to_text, visible
from tests.learned_sparse.inspect.explaining import (
    EXPANSION,
    HOSTILE,
    Explaining,
    as_json,
    explain_everything,
    save_index,
    shown,
)


@pytest.mark.jvm
def test_a_page_of_a_hostile_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    explain_everything(monkeypatch)
    file = tmp_path / "new" / "page.html"
    pair = ("--index", save_index(tmp_path), "--query", "hives & evil", "--document", "d2")
    assert shown(capsys, *pair, "--html", file) == f"{file}\n"
    first = file.read_bytes()
    assert set(re.findall(r"<(\w+)", first.decode())) == {
        *["html", "head", "meta", "title", "style", "body", "pre", "code", "span"]
    }
    assert visible(HOSTILE) in html.unescape(re.sub("<[^>]+>", "", first.decode()))
    (matched, *_), (unmatched, *_) = (
        re.findall(f'<span class="(r\\d+)">{word}</span>', first.decode()) for word in ("hives", "&quot;quoted&quot;")
    )
    styles = dict(re.findall(r"\.(r\d+) {(.*)}", first.decode()))
    assert "underline" in styles[matched]
    assert "underline" not in styles[unmatched]
    assert "background-color: #ef7d2b" in styles[matched]
    assert not re.search(r"https?://|url\(|@import", first.decode())
    assert "<title>query, document d2: " in first.decode()
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'" in first.decode()
    assert as_json(capsys, *pair, "--html", file)["document"]["text"] == HOSTILE
    assert file.read_bytes() == first
    text = shown(capsys, *pair)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31mred\\x1b[0m" in text


def test_colour(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    explain_everything(monkeypatch)
    arguments = ("--checkpoint", "here", "--text", f"hives \x1b[31m hives {EXPANSION}")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    plain = shown(capsys, *arguments)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    colours = shown(capsys, *arguments)
    assert "\x1b[38;5;234;48;5;208mhives\x1b[0m" in colours  # the heaviest word
    assert "\x1b[31m" not in colours
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(capsys, *arguments) == plain
    assert "hives[8]" in plain
    assert "\x1b" not in plain


@given(st.text())
@settings(max_examples=40)
def test_any_text_is_shown_without_control_characters(text: str) -> None:
    assert all(character.isprintable() or character in "\n\u200c\u200d" for character in visible(text))
    view = make_view("document", text, Explaining().explain(text), None)
    plain = to_text(Inspection(model="m", document=view), terms=5)
    assert "\x1b" not in plain
    words = text.partition(EXPANDED)[0].split()
    assert "".join(piece for piece, _ in view.pieces(0)) == text.partition(EXPANDED)[0] or not words


def test_a_page_escapes_every_part() -> None:
    view = make_view("document", f"{HOSTILE}{EXPANDED}<b>", None, {"<i>": 1, "[red]{x}": 2}, id="<u>{0}", notes=["<s>"])
    page = to_html(Inspection(model="<em>", index="<q>", document=view), terms=5)
    assert not re.search("<(script|b|i|u|s|em|q)>", page)
    assert "<title>document &lt;u&gt;{0}: &lt;em&gt;</title>" in page
    for text in ("&lt;em&gt;, &lt;q&gt;", "&lt;u&gt;{0}", "[red]{x}", "note: &lt;s&gt;"):
        assert text in page
