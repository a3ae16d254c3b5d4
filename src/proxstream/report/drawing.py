"""Figures in one house style: PNG and SVG on white for files, and an SVG that follows the light or dark page it is in.

matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import matplotlib.figure

    from .records import Figure

DOTS_PER_INCH = 144
COLOURS_OF_A_PNG = 256  # a palette: a third of the bytes, and no difference to be seen

STYLE: dict[Any, Any] = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "font.size": 10.0,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10.0,
    "axes.edgecolor": "#444444",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "image.cmap": "cividis",
    "svg.fonttype": "path",
    "svg.hashsalt": "proxstream",  # the same figure is the same file
}


class Shade(NamedTuple):
    """A colour on light and on dark ground."""

    light: str
    dark: str


# The series are those of Okabe and Ito, which can be distinguished with any kind of colour vision, lighter on dark.
SHADES = {
    "ink": Shade("#1b1f24", "#e6e8eb"),
    "soft": Shade("#57606a", "#a2abb5"),
    "grid": Shade("#e4e6e9", "#333a43"),
    "ground": Shade("#ffffff", "#1c2026"),
    "blue": Shade("#0072b2", "#5bb5ea"),
    "orange": Shade("#d55e00", "#ff9d5c"),
    "green": Shade("#009e73", "#4fd1a5"),
}
INK, SOFT, GRID, GROUND, BLUE, ORANGE, GREEN = (shade.light for shade in SHADES.values())

# What differs from the house style where a figure takes the colours of its page, at half the size.
THEMED: dict[Any, Any] = {
    **STYLE,
    "savefig.transparent": True,
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "grid.color": GRID,
    "legend.fontsize": 8.5,
    "legend.handlelength": 1.4,
    "lines.linewidth": 1.6,
    "hatch.linewidth": 0.6,
}


def legend(canvas: matplotlib.figure.Figure, columns: int = 4) -> None:
    """Put one legend below all panels of a figure: each label once, over no curve."""
    entries: dict[Any, Any] = {}
    for axes in canvas.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    canvas.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)


class Drawn(NamedTuple):
    """A figure as it is stored."""

    png: bytes
    svg: bytes


def drawn(figure: Figure) -> Drawn:
    """Draw a figure once and return it as PNG and SVG."""
    from matplotlib import rc_context

    png, svg = io.BytesIO(), io.BytesIO()
    with rc_context(STYLE):
        canvas = _canvas(figure)
        canvas.savefig(png, format="png", dpi=DOTS_PER_INCH)
        canvas.savefig(svg, format="svg", metadata={"Date": None})
    return Drawn(_with_palette(png), svg.getvalue())


def themed(figure: Figure) -> bytes:
    """Return a figure as an SVG whose colours are those of `SHADES`, light or dark as the reader prefers."""
    from matplotlib import rc_context

    svg = io.BytesIO()
    with rc_context(THEMED):
        _canvas(figure).savefig(svg, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return with_shades(svg.getvalue().decode()).encode()


def with_shades(svg: str) -> str:
    """Replace the light colours of an SVG by variables that a style sheet sets for light and for dark.

    >>> with_shades('<svg><path style="fill: #1b1f24; stroke: #123456"/></svg>').partition("</style>")[2]
    '<path style="fill: var(--ink); stroke: #123456"/></svg>'
    """
    names = {shade.light: name for name, shade in SHADES.items()}

    def variable(found: re.Match[str]) -> str:
        name = names.get(found[2].lower())
        return found[1] + (f"var(--{name})" if name else found[2])

    shaded = re.sub(r"((?:fill|stroke): )(#[0-9a-fA-F]{6})", variable, svg[svg.index("<svg") :])
    light, dark = ("".join(f"--{name}:{shade[i]};" for name, shade in SHADES.items()) for i in (0, 1))
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}</style>"
    end = shaded.index(">") + 1
    return shaded[:end] + style + shaded[end:]


def _canvas(figure: Figure) -> matplotlib.figure.Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=figure.size, layout="constrained")
    FigureCanvasAgg(canvas)
    figure.draw(canvas)
    return canvas


def _with_palette(png: io.BytesIO) -> bytes:
    from PIL import Image

    small = io.BytesIO()
    Image.open(png).convert("RGB").quantize(COLOURS_OF_A_PNG).save(small, "png", optimize=True)
    return small.getvalue()
