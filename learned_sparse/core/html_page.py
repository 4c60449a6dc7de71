"""One HTML page in one file: it opens from disk, asks for nothing from outside, runs only what it was written with."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path

_BASE = Path(__file__).with_name("static") / "html_page.css"
_SURROGATE = re.compile("[\ud800-\udfff]")
_CLOSING = re.compile("</(style|script)|<!--", re.IGNORECASE)


def page(title: str, body: str, *, style: str = "", script: str = "", data: object = None) -> str:
    """A whole page: ``body`` is HTML, ``title`` plain text, ``style`` comes after the CSS that all pages share.

    ``data`` (JSON values) can be read by ``script`` with ``JSON.parse(document.getElementById("data").textContent)``.
    The Content-Security-Policy lets this style and this script pass, and nothing else: no attribute ``style="..."`` in
    ``body`` (classes do, and ``element.style`` in a script), no ``onclick="..."``, no image but ``data:``.
    """
    style = f"{_BASE.read_text(encoding='utf-8')}{style}"
    for name, text in (("style", style), ("script", script)):
        if _CLOSING.search(text):
            raise ValueError(f"{name}: holds </style, </script or <!--, which would end or comment it")
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        body,
    ]
    if data is not None:
        parts.append(f'<script type="application/json" id="data">{json_for_html(data)}</script>')
    if script:
        parts.append(f"<script>{script}</script>")
    return "\n".join([*parts, "</body>", "</html>", ""])


def escape(text: str) -> str:
    """``text`` as HTML, inside an element or a quoted attribute; half a surrogate pair becomes U+FFFD.

    >>> escape('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(_SURROGATE.sub("\ufffd", text))


def json_for_html(data: object) -> str:
    r"""JSON that may stand inside ``<script>``: keys sorted, ASCII only, and no ``<``, ``>`` or ``&``.

    >>> json_for_html({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, sort_keys=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(style: str, script: str) -> str:
    allowed = f"script-src {_hash(script)}; " if script else ""
    return f"default-src 'none'; style-src {_hash(style)}; {allowed}img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
