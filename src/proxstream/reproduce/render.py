"""From records to what is seen: figures to PNG and SVG in one house style, numbers to text.

Every method has one colour and one marker in all experiments, so that two figures can be compared at a glance. The
colours are those of Okabe and Ito with a few of Paul Tol's, which differ in lightness too and can be distinguished with
any kind of colour vision; the markers distinguish them in print.

matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import matplotlib.figure

    from .experiment import Cell, Figure

DOTS_PER_INCH = 144
COLOURS_OF_A_PNG = 256  # a palette: a third of the bytes, and no difference to be seen


class Look(NamedTuple):
    """How a method is drawn."""

    colour: str
    marker: str


# No two methods of one experiment share a colour.
LOOKS = {
    "optimum": Look("#000000", "*"),
    "SGD": Look("#666666", "s"),
    "TG": Look("#CC79A7", "v"),
    "FOBOS": Look("#56B4E9", "^"),
    "RDA": Look("#0072B2", "o"),
    "RDA enhanced": Look("#009E73", "D"),
    "AdaGrad-RDA": Look("#D55E00", "o"),
    "AdaGrad-FOBOS": Look("#E69F00", "^"),
    "FTRL": Look("#332288", "P"),
    "FTRL-Proximal": Look("#117733", "X"),
    "PA": Look("#882255", "<"),
    "AROW": Look("#999933", ">"),
    "accelerated RDA": Look("#9E4A00", "h"),
    "SDCA": Look("#117733", "D"),
    "FISTA": Look("#9E4A00", "s"),
    "bound": Look("#222222", ""),
}

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


def look(method: str, **more: Any) -> dict[str, Any]:
    """Return matplotlib's arguments for the lines of a method, and `more`.

    >>> look("RDA", linestyle="--")
    {'color': '#0072B2', 'marker': 'o', 'linestyle': '--'}
    """
    colour, marker = LOOKS[method]
    return {"color": colour, "marker": marker or None, **more}


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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    png, svg = io.BytesIO(), io.BytesIO()
    with rc_context(STYLE):
        canvas = Canvas(figsize=figure.size, layout="constrained")
        FigureCanvasAgg(canvas)
        figure.draw(canvas)
        canvas.savefig(png, format="png", dpi=DOTS_PER_INCH)
        canvas.savefig(svg, format="svg", metadata={"Date": None})
    return Drawn(_with_palette(png), svg.getvalue())


def _with_palette(png: io.BytesIO) -> bytes:
    from PIL import Image

    small = io.BytesIO()
    Image.open(png).convert("RGB").quantize(COLOURS_OF_A_PNG).save(small, "png", optimize=True)
    return small.getvalue()


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
