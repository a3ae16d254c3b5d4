"""How methods are drawn: every method has one colour and one marker in all experiments.

So two figures can be compared at a glance. The colours are those of Okabe and Ito with a few of Paul Tol's, which
differ in lightness too and can be distinguished with any kind of colour vision; the markers distinguish them in print.
"""

from __future__ import annotations

from typing import Any, NamedTuple


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


def look(method: str, **more: Any) -> dict[str, Any]:
    """Return matplotlib's arguments for the lines of a method, and `more`.

    >>> look("RDA", linestyle="--")
    {'color': '#0072B2', 'marker': 'o', 'linestyle': '--'}
    """
    colour, marker = LOOKS[method]
    return {"color": colour, "marker": marker or None, **more}
