"""HTML: one self-contained page of headings, tables, facts and figures.

No script, no font and no picture comes from elsewhere; figures are in the page as data. The page is read in light and
in dark, wide and narrow: tables scroll in their own frame, the page does not.

Functions return HTML. What is given as prose may have marks (`words`); what comes from a user, such as a file name or
the name of a feature, goes through `verbatim`.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .records import Cell, Table

_INDEX = r"(?<=\b[A-Za-z])_(?:\{([^}]+)\}|\(([^)]+)\)|(\w)\b)"
_MARKS = rf"`([^`]+)`|{_INDEX}|(?<=[\w)])\^(-?\d+(?:\.\d+)?|[A-Za-z]\b)"

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --ground: #fbfbfa; --card: #ffffff; --line: #dfe2e6;
  --link: #0b5cad; --agrees: #0a6b4f; --agrees-ground: #e3f4ed; --partly: #7a5200; --partly-ground: #fdf1d8;
  --differs: #a3341c; --differs-ground: #fdeae4; --blue: #0072b2; --orange: #d55e00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a2abb5; --ground: #14171b; --card: #1c2026;
  --line: #333a43; --link: #7fb8f5; --agrees: #6fd6b0; --agrees-ground: #12352b; --partly: #f0c063;
  --partly-ground: #3a2e12; --differs: #f5977f; --differs-ground: #43201a; --blue: #5bb5ea; --orange: #ff9d5c; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink); overflow-wrap: break-word;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px; }
h1 { font-size: clamp(1.5rem, 4vw, 2.1rem); line-height: 1.2; margin: .25rem 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 1rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; }
.kicker { color: var(--soft); font-size: .9rem; margin: 0; }
.soft, figcaption, .note { color: var(--soft); font-size: .92rem; }
code, kbd { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { margin: .75rem 0; padding: .7rem .9rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .5rem; overflow-x: auto; }
figure { margin: 0 0 2rem; }
figure img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: .6rem; padding: .6rem; }
figcaption { margin-top: .55rem; max-width: 46rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .6rem; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .8rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
thead th { font-weight: 600; white-space: nowrap; border-bottom: 2px solid var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
.number { text-align: right; white-space: nowrap; }
.table { margin: 0 0 2rem; }
.table td:first-child { white-space: nowrap; }
.facts th { font-weight: 500; color: var(--soft); width: 13rem; }
sub, sup { line-height: 0; font-size: .75em; }
@media (max-width: 34rem) {
  .facts tr { display: block; padding: .35rem 0; } .facts th, .facts td { display: block; width: auto; border: 0;
  padding: 0 .8rem; } .facts tr:not(:last-child) { border-bottom: 1px solid var(--line); } }
@media print { :root { --ground: #fff; } main { max-width: none; } figure { break-inside: avoid; } }
"""


class Captioned(Protocol):
    """A figure as far as words go."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def title(self) -> str: ...  # noqa: D102

    @property
    def caption(self) -> str: ...  # noqa: D102

    @property
    def size(self) -> tuple[float, float]: ...  # noqa: D102


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """Return a page: its title as plain text, its parts as HTML, and what its style sheet has besides `STYLE`."""
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'  # else browsers ask for /favicon.ico
        f"<title>{escape(title)} - proxstream</title>\n<style>{STYLE}{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def words(text: str) -> str:
    """Return prose as HTML: `code`, a letter's index after _ and an exponent after ^ are set as such.

    >>> words("a < b in `x_1`, x_1 and x_(t+1)")
    'a &lt; b in <code>x_1</code>, x<sub>1</sub> and x<sub>t+1</sub>'
    >>> words("(R B)^2 at 10^-4")
    '(R B)<sup>2</sup> at 10<sup>-4</sup>'
    """

    def marked(found: re.Match[str]) -> str:
        code, *index, power = found.groups()
        if code:
            return f"<code>{code}</code>"
        return f"<sup>{power}</sup>" if power else f"<sub>{next(filter(None, index))}</sub>"

    return re.sub(_MARKS, marked, escape(text, quote=False))


def verbatim(text: str) -> str:
    r"""Return a text of a user as HTML: nothing in it is a mark, and what cannot be printed is shown by its code.

    >>> verbatim("x_1 <b>\n")
    'x_1 &lt;b&gt;\\n'
    """
    return escape("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))


def image(figure: Captioned, kind: str, content: bytes) -> str:
    """Return a figure with its title and caption; `kind` is svg+xml or png."""
    width, height = (round(96 * inches) for inches in figure.size)
    return (
        f'<figure id="{escape(figure.name)}"><h3>{words(figure.title)}</h3>'
        f'<img alt="{escape(figure.title)}" width="{width}" height="{height}" '
        f'src="data:image/{kind};base64,{b64encode(content).decode()}">'
        f"<figcaption>{words(figure.caption)}</figcaption></figure>"
    )


def table(shown: Table, as_html: Callable[[str], str] = words) -> str:
    """Return a table whose texts are prose, or what `as_html` says."""

    def numeric(column: int) -> bool:
        cells = [row[column] for row in shown.rows if row[column] is not None]
        return bool(cells) and not any(isinstance(cell, str) and not re.match(r"[-+±<>≤≥~\d]", cell) for cell in cells)

    kinds = [' class="number"' if numeric(i) else "" for i in range(len(shown.columns))]
    heads = "".join(
        f'<th scope="col"{kind}>{as_html(name)}</th>' for name, kind in zip(shown.columns, kinds, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{as_html(text(cell))}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in shown.rows
    )
    note = f'<p class="note">{words(shown.note)}</p>' if shown.note else ""
    return (
        f'<section class="table"><h3>{words(shown.title)}</h3>'
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}</section>"
    )


def facts(named: Mapping[str, str]) -> str:
    """Return names, which are prose, and values, which are HTML, as a table of two columns."""
    rows = "".join(f'<tr><th scope="row">{words(name)}</th><td>{value}</td></tr>' for name, value in named.items())
    return f'<div class="scroll"><table class="facts">{rows}</table></div>'


def text(cell: Cell) -> str:
    """Return a cell of a table as it is read: four digits, thousands apart, nothing for None.

    >>> text(12345), text(0.123456), text(1234.56), text(1e-9), text(None), text("RDA"), text(float("inf"))
    ('12,345', '0.1235', '1,235', '1e-09', '', 'RDA', 'infinite')
    """
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or hasattr(cell, "__index__"):
        return f"{int(cell):,}"
    value = float(cell)
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"
