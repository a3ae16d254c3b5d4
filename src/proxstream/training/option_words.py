"""Settings as the words of a command line."""

from __future__ import annotations

import shlex
from typing import Any

# Settings that are on unless an option turns them off.
OFF = {"--intercept": "--no-intercept", "--zero-based": "--one-based", "--standardize": "--no-standardize"}


def option_words(name: str, value: Any) -> list[str]:
    """Return a setting as the words of its option.

    >>> option_words("--drop", ["a", "b"]), option_words("--text", [["review", "words"]])
    (['--drop', 'a', '--drop', 'b'], ['--text', 'review=words'])
    """
    if name == "--classes":
        value = ",".join(map(label_text, value))
    elif name == "--l1" and isinstance(value, list):
        value = ",".join(map(_word, value))
    if isinstance(value, bool):
        return [name if value else OFF.get(name, f"{name}=false")]
    if name == "--bits" and value is None:
        value = 0
    several = value if isinstance(value, (list, tuple)) else [value]
    texts = ["=".join(map(_word, one)) if isinstance(one, (list, tuple)) else _word(one) for one in several]
    return [word for text in texts for word in (name, shlex.quote(text))]


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


def label_text(label: Any) -> str:
    """Return a label as typed on a command line."""
    return label if isinstance(label, str) else f"{label:g}"
