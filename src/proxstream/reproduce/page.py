"""Pages: one self-contained HTML page an experiment, and the index of a folder of them.

No script, no font and no picture comes from elsewhere; figures are in the page as data. The page is read in light and
in dark, wide and narrow: tables scroll in their own frame, the page does not. A verdict is shown by a word and a sign,
never by colour alone.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from .outcome import tally, verdict
from .render import text

if TYPE_CHECKING:
    from .experiment import Claim, Table
    from .outcome import Outcome, Picture
    from .render import Drawn

SIGNS = {"agrees": "✓", "partly": "≈", "differs": "✗"}
WORDS = {"agrees": "agrees", "partly": "partly", "differs": "differs"}
_INDEX = r"(?<=\b[A-Za-z])_(?:\{([^}]+)\}|\(([^)]+)\)|(\w)\b)"
_MARKS = rf"`([^`]+)`|{_INDEX}|(?<=[\w)])\^(-?\d+(?:\.\d+)?|[A-Za-z]\b)"
SVG_WORTH = 1.5  # an SVG may be so much larger than the PNG and still be the one that the page shows

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --ground: #fbfbfa; --card: #ffffff; --line: #dfe2e6;
  --link: #0b5cad; --agrees: #0a6b4f; --agrees-ground: #e3f4ed; --partly: #7a5200; --partly-ground: #fdf1d8;
  --differs: #a3341c; --differs-ground: #fdeae4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a2abb5; --ground: #14171b; --card: #1c2026;
  --line: #333a43; --link: #7fb8f5; --agrees: #6fd6b0; --agrees-ground: #12352b; --partly: #f0c063;
  --partly-ground: #3a2e12; --differs: #f5977f; --differs-ground: #43201a; } }
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
.badge { display: inline-block; padding: .1rem .6rem; border-radius: 1rem; font-size: .85rem; font-weight: 600;
  white-space: nowrap; }
.badges { display: flex; flex-wrap: wrap; gap: .35rem; margin: .6rem 0; }
.agrees { color: var(--agrees); background: var(--agrees-ground); }
.partly { color: var(--partly); background: var(--partly-ground); }
.differs { color: var(--differs); background: var(--differs-ground); }
.quick { border: 1px solid var(--partly); color: var(--partly); border-radius: .5rem; padding: .5rem .9rem;
  font-size: .92rem; margin: 1rem 0; max-width: none; }
ol.claims { list-style: none; margin: 0; padding: 0; display: grid; gap: .8rem; }
ol.claims > li { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .85rem 1rem;
  display: grid; grid-template-columns: 6.2rem 1fr; gap: .25rem 1rem; }
ol.claims .badge { justify-self: start; align-self: start; margin-top: .1rem; }
ol.claims dl { margin: 0; min-width: 0; }
ol.claims dt { color: var(--soft); font-size: .8rem; }
ol.claims dd { margin: 0 0 .4rem; }
ol.claims dd:last-child { margin-bottom: 0; }
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
.cards { margin-top: 1.75rem; display: grid; gap: 1.1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 17.5rem), 1fr)); }
.cards article { background: var(--card); border: 1px solid var(--line); border-radius: .7rem; overflow: hidden;
  display: flex; flex-direction: column; }
.cards img { width: 100%; aspect-ratio: 16 / 9; object-fit: contain; background: #fff; display: block; padding: .5rem; }
.cards div { padding: .8rem 1rem 1rem; display: flex; flex-direction: column; gap: .35rem; }
.cards h2 a { text-decoration: none; } .cards h2 a:hover { text-decoration: underline; }
.cards h2 { font-size: 1.02rem; margin: 0; border: 0; padding: 0; line-height: 1.3; }
.cards p { margin: 0; }
sub, sup { line-height: 0; font-size: .75em; }
@media (max-width: 34rem) { ol.claims > li { grid-template-columns: 1fr; }
  .facts tr { display: block; padding: .35rem 0; } .facts th, .facts td { display: block; width: auto; border: 0;
  padding: 0 .8rem; } .facts tr:not(:last-child) { border-bottom: 1px solid var(--line); } }
@media print { :root { --ground: #fff; } main { max-width: none; } figure, ol.claims > li { break-inside: avoid; } }
"""


def experiment(outcome: Outcome, pictures: Mapping[str, Drawn]) -> str:
    """Return the page of one run; `pictures` are its figures by name."""
    parts = [
        f'<p class="kicker"><a href="index.html">Reproductions</a> · {_words(outcome.paper)}</p>',
        f"<h1>{_words(outcome.title)}</h1>",
        _badges(outcome.claims),
        f"<p>{_words(outcome.about)}</p>",
        _quick(outcome),
    ]
    if outcome.claims:
        parts += ["<h2>What the paper says, and what was seen</h2>", _claims(outcome.claims)]
    if outcome.figures:
        parts += ["<h2>Figures</h2>", *(_figure(figure, pictures[figure.name]) for figure in outcome.figures)]
    if outcome.tables:
        parts += ["<h2>Tables</h2>", *(_table(table) for table in outcome.tables)]
    parts += ["<h2>How it was made</h2>", f"<p>{_words(outcome.data)}</p>", _facts(outcome)]
    return _page(outcome.title, parts)


def index(outcomes: Sequence[Outcome]) -> str:
    """Return the index of several runs, with links to their pages and figures."""
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    parts = [
        '<p class="kicker">proxstream</p>',
        "<h1>The papers’ experiments, run again</h1>",
        _badges(claims),
        "<p>Each page has the paper’s claims beside what was seen here, the figures, the tables with the paper’s own "
        "numbers where it prints them, and all settings. A claim that does not hold here is reported, with the reason "
        "as far as it was found.</p>",
        f'<div class="cards">{"".join(map(_card, outcomes))}</div>',
    ]
    return _page("The papers’ experiments, run again", parts)


def _page(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'  # else browsers ask for /favicon.ico
        f"<title>{escape(title)} - proxstream</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _words(text: str) -> str:
    """Return prose as HTML: `code`, a letter's index after _ and an exponent after ^ are set as such.

    >>> _words("a < b in `x_1`, x_1 and x_(t+1)")
    'a &lt; b in <code>x_1</code>, x<sub>1</sub> and x<sub>t+1</sub>'
    >>> _words("(R B)^2 at 10^-4")
    '(R B)<sup>2</sup> at 10<sup>-4</sup>'
    """

    def marked(found: re.Match[str]) -> str:
        code, *index, power = found.groups()
        if code:
            return f"<code>{code}</code>"
        return f"<sup>{power}</sup>" if power else f"<sub>{next(filter(None, index))}</sub>"

    return re.sub(_MARKS, marked, escape(text, quote=False))


def _badge(word: str, count: int | None = None) -> str:
    number = "" if count is None else f"{count} "
    plural = {"agrees": "agree", "differs": "differ"}.get(word, word)
    shown = WORDS[word] if count in (None, 1) else plural
    return f'<span class="badge {word}">{SIGNS[word]} {number}{shown}</span>'


def _badges(claims: Sequence[Claim]) -> str:
    return f'<p class="badges">{"".join(_badge(word, count) for word, count in tally(claims).items())}</p>'


def _quick(outcome: Outcome) -> str:
    if not outcome.quick:
        return ""
    return (
        '<p class="quick">A quick run: small, on embedded or generated data. It shows the command at work; '
        "the verdicts below are on this small version, not on the paper’s settings.</p>"
    )


def _claims(claims: Sequence[Claim]) -> str:
    items = []
    for claim in claims:
        parts = [("The paper", claim.claim), ("Here", claim.ours)] + [("Why", claim.why)] * bool(claim.why)
        entries = "".join(f"<dt>{name}</dt><dd>{_words(words)}</dd>" for name, words in parts)
        items.append(f"<li>{_badge(verdict(claim))}<dl>{entries}</dl></li>")
    return f'<ol class="claims">{"".join(items)}</ol>'


def _figure(figure: Picture, picture: Drawn) -> str:
    if len(picture.svg) <= SVG_WORTH * len(picture.png):
        kind, content = "svg+xml", picture.svg
    else:
        kind, content = "png", picture.png
    width, height = (round(96 * inches) for inches in figure.size)
    return (
        f'<figure id="{escape(figure.name)}"><h3>{_words(figure.title)}</h3>'
        f'<img alt="{escape(figure.title)}" width="{width}" height="{height}" '
        f'src="data:image/{kind};base64,{b64encode(content).decode()}">'
        f"<figcaption>{_words(figure.caption)}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    def numeric(column: int) -> bool:
        cells = [row[column] for row in table.rows if row[column] is not None]
        return bool(cells) and not any(isinstance(cell, str) and not re.match(r"[-+±<>≤≥~\d]", cell) for cell in cells)

    kinds = [' class="number"' if numeric(i) else "" for i in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col"{kind}>{_words(name)}</th>' for name, kind in zip(table.columns, kinds, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{_words(text(cell))}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{_words(table.note)}</p>' if table.note else ""
    return (
        f'<section class="table"><h3>{_words(table.title)}</h3>'
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}</section>"
    )


def _facts(outcome: Outcome) -> str:
    facts = {
        **outcome.settings,
        **({"data folder": outcome.needs} if outcome.needs else {}),
        "run": f"{'quick' if outcome.quick else 'in full'}, seed {outcome.seed}, {outcome.jobs} processes",
        "seconds": f"{outcome.seconds:,.1f}",
        "date": outcome.date,
        "machine": outcome.machine,
        "versions": ", ".join(f"{name} {number}" for name, number in outcome.versions.items()),
    }
    rows = "".join(
        f'<tr><th scope="row">{_words(name)}</th><td>{_words(value)}</td></tr>' for name, value in facts.items()
    )
    shown = f"<pre><code>{escape(command(outcome))}</code></pre>"
    return f'{shown}<div class="scroll"><table class="facts">{rows}</table></div>'


def command(outcome: Outcome) -> str:
    """Return the command that makes the page again."""
    how = " --quick" if outcome.quick else " --data DIR" if outcome.needs else ""
    return f"proxstream reproduce {outcome.name}{how} --seed {outcome.seed}"


def _card(outcome: Outcome) -> str:
    picture = ""
    if outcome.figures:
        first = outcome.figures[0]
        picture = (
            f'<a href="{outcome.name}.html"><img loading="lazy" alt="{escape(first.title)}" '
            f'src="{outcome.name}-{first.name}.png"></a>'
        )
    return (
        f'<article>{picture}<div><p class="kicker">{_words(outcome.paper)}</p>'
        f'<h2><a href="{outcome.name}.html">{_words(outcome.title)}</a></h2>'
        f"{_badges(outcome.claims)}"
        f'<p class="soft">{"quick, " * outcome.quick}{outcome.seconds:,.0f} s, {outcome.date[:10]}</p></div></article>'
    )
