"""Pages: one self-contained HTML page per experiment, and the index of a folder of them.

A verdict is shown by a word and a sign, never by colour alone. What all pages have is in `report.page`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from ..report.page import facts, image, page, table, words
from .outcome import tally, verdict

if TYPE_CHECKING:
    from ..report.drawing import Drawn
    from .experiment import Claim
    from .outcome import Outcome, Picture

SIGNS = {"agrees": "✓", "partly": "≈", "differs": "✗"}
WORDS = {"agrees": "agrees", "partly": "partly", "differs": "differs"}
SVG_WORTH = 1.5  # an SVG may be so much larger than the PNG and still be the one that the page shows

STYLE = """
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
.cards { margin-top: 1.75rem; display: grid; gap: 1.1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 17.5rem), 1fr)); }
.cards article { background: var(--card); border: 1px solid var(--line); border-radius: .7rem; overflow: hidden;
  display: flex; flex-direction: column; }
.cards img { width: 100%; aspect-ratio: 16 / 9; object-fit: contain; background: #fff; display: block; padding: .5rem; }
.cards div { padding: .8rem 1rem 1rem; display: flex; flex-direction: column; gap: .35rem; }
.cards h2 a { text-decoration: none; } .cards h2 a:hover { text-decoration: underline; }
.cards h2 { font-size: 1.02rem; margin: 0; border: 0; padding: 0; line-height: 1.3; }
.cards p { margin: 0; }
@media (max-width: 34rem) { ol.claims > li { grid-template-columns: 1fr; } }
@media print { ol.claims > li { break-inside: avoid; } }
"""


def experiment(outcome: Outcome, pictures: Mapping[str, Drawn]) -> str:
    """Return the page of one run; `pictures` are its figures by name."""
    parts = [
        f'<p class="kicker"><a href="index.html">Reproductions</a> · {words(outcome.paper)}</p>',
        f"<h1>{words(outcome.title)}</h1>",
        _badges(outcome.claims),
        f"<p>{words(outcome.about)}</p>",
        _quick(outcome),
    ]
    if outcome.claims:
        parts += ["<h2>What the paper says, and what was seen</h2>", _claims(outcome.claims)]
    if outcome.figures:
        parts += ["<h2>Figures</h2>", *(_figure(figure, pictures[figure.name]) for figure in outcome.figures)]
    if outcome.tables:
        parts += ["<h2>Tables</h2>", *(table(one) for one in outcome.tables)]
    parts += ["<h2>How it was made</h2>", f"<p>{words(outcome.data)}</p>", _facts(outcome)]
    return page(outcome.title, parts, STYLE)


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
    return page("The papers’ experiments, run again", parts, STYLE)


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
        entries = "".join(f"<dt>{name}</dt><dd>{words(said)}</dd>" for name, said in parts)
        items.append(f"<li>{_badge(verdict(claim))}<dl>{entries}</dl></li>")
    return f'<ol class="claims">{"".join(items)}</ol>'


def _figure(figure: Picture, picture: Drawn) -> str:
    if len(picture.svg) <= SVG_WORTH * len(picture.png):
        return image(figure, "svg+xml", picture.svg)
    return image(figure, "png", picture.png)


def _facts(outcome: Outcome) -> str:
    known = {
        **outcome.settings,
        **({"data folder": outcome.needs} if outcome.needs else {}),
        "run": f"{'quick' if outcome.quick else 'in full'}, seed {outcome.seed}, {outcome.jobs} processes",
        "seconds": f"{outcome.seconds:,.1f}",
        "date": outcome.date,
        "machine": outcome.machine,
        "versions": ", ".join(f"{name} {number}" for name, number in outcome.versions.items()),
    }
    shown = f"<pre><code>{escape(command(outcome))}</code></pre>"
    return shown + facts({name: words(value) for name, value in known.items()})


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
        f'<article>{picture}<div><p class="kicker">{words(outcome.paper)}</p>'
        f'<h2><a href="{outcome.name}.html">{words(outcome.title)}</a></h2>'
        f"{_badges(outcome.claims)}"
        f'<p class="soft">{"quick, " * outcome.quick}{outcome.seconds:,.0f} s, {outcome.date[:10]}</p></div></article>'
    )
