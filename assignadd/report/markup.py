"""Text as HTML: whatever comes in stays text."""

from __future__ import annotations

from html import escape


def marked(text: str) -> str:
    """Escaped text in which `back-quoted` words are code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))


def tag(name: str, content: str, **attributes: str | bool | None) -> str:
    """An element around HTML; attributes are escaped, None and False leave one out, a trailing or inner _ stands for -."""
    given = {
        key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value not in (None, False)
    }
    written = "".join(f" {key}" if value is True else f' {key}="{escape(str(value))}"' for key, value in given.items())
    return f"<{name}{written}>{content}</{name}>"
