"""A page in one file: what is in it stays text, and only its own style and script pass."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.core.html_page import escape, json_for_html, page

HOSTILE = "</script></title><script>alert(1)</script> \u2028 \" ' & \ud800"


class Reader(HTMLParser):
    """Start tags, and the text of each kind of element."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.tags[-1][0] if self.tags else "", []).append(data)


def test_a_hostile_title_and_hostile_data_stay_text() -> None:
    found = Reader(page(HOSTILE, "<p>x</p>", script="1;", data={HOSTILE: HOSTILE}))
    assert "".join(found.texts["title"]).strip() == HOSTILE.replace("\ud800", "\ufffd")
    assert [tag for tag, _ in found.tags].count("script") == 2
    data, script = (text for text in found.texts["script"] if text.strip())
    assert json.loads(data) == {HOSTILE: HOSTILE}
    assert script.strip() == "1;"


def test_the_policy_holds_the_hashes_of_style_and_script() -> None:
    content = page("t", "", style="p { margin: 0; }", script='document.title = "ü";')
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", content, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in content
    assert "default-src 'none'" in content
    assert "unsafe" not in content


def test_without_a_script_none_passes() -> None:
    assert "script" not in page("t", "<p>x</p>")


def test_nothing_is_asked_for() -> None:
    content = page("t", "<p>x</p>", script="1;", data=[1])
    assert not re.search(r"https?:|//[a-z]|url\(|@import|src=", content)
    assert content.count("href=") == content.count('href="data:,"') == 1


@pytest.mark.parametrize("text", ["</SCRIPT>", "</style >", "<!-- x"])
def test_a_text_that_ends_its_element_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="script: holds"):
        page("t", "", script=text)
    with pytest.raises(ValueError, match="style: holds"):
        page("t", "", style=text)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_for_html([float("nan")])


@given(st.text())
def test_data_comes_back(text: str) -> None:
    assert json.loads(json_for_html([text])) == [text]
    assert not re.search("[<>&\u2028\u2029]", json_for_html([text]))


@given(st.text())
def test_escaped_text_has_no_markup(text: str) -> None:
    assert not re.search("[<>\"']", escape(text))
    escape(text).encode()
