"""`proxstream inspect`: the contents of a model file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from click import Option

from .command import command
from .common import facts, print_json, show, table
from .options import AS_JSON, MODEL, Integer
from .path_table import path_table

if TYPE_CHECKING:
    from ..models.model import Model

# First columns of the history; others follow by name.
FIRST = ("pass", "epoch", "rows", "mean_loss", "since_last", "held_out_loss", "label", "prediction", "features")
# Entries of the summary for the machine only.
HIDDEN = ("end_of_input", "path")

EPILOG = """\b
Examples:
  proxstream inspect model.psm
  proxstream inspect model.psm --top 50
  proxstream inspect model.psm --json
"""


@command(
    EPILOG,
    [MODEL],
    [
        Option(["--top"], type=Integer(0), default=20, metavar="N", help="Number of largest weights to show."),
        AS_JSON,
    ],
)
def inspect(model: str, top: int, json: bool) -> None:
    """Show the settings of a model, its sparsity, its largest weights and its training history.

    Features have names if the model stores them; a hashed feature has all names that fell into its bucket.
    """
    from ..models.file import load_model

    fitted = load_model(model)
    shown, sparsity, weights = settings(fitted), _sparsity(fitted), largest(fitted, top)
    shown["file_bytes"] = os.path.getsize(model)
    if json:
        result = {"settings": shown, "sparsity": sparsity, "weights": weights, "features": fitted.features}
        print_json(result | {"history": fitted.history, "summary": fitted.summary})
        return
    show(["# settings", *facts(shown.items()), "", "# sparsity", *facts(sparsity.items())])
    if weights:
        columns = list(weights[0])
        rows = [[text_of(entry[name]) for name in columns] for entry in weights]
        show(["", "# largest weights", *table(columns, rows, left=len(columns) - 1)])
    if fitted.history:
        columns = sorted({name for line in fitted.history for name in line}, key=_place)
        show(["", "# history", *table(columns, [[line.get(name) for name in columns] for line in fitted.history])])
    if fitted.summary.get("path"):
        stored = "all models are in the file" if fitted.path else "the chosen model is in the file"
        show(["", f"# path: {stored}", *path_table(fitted.summary["path"], fitted.summary["strength"])])
    if fitted.summary:
        summary = fitted.summary.items()
        show(["", "# summary", *facts((name, value) for name, value in summary if name not in HIDDEN)])


def settings(model: Model) -> dict[str, Any]:
    """Return the settings of the model."""
    learner = model.learner
    frozen = type(learner.engine).__name__ == "FrozenEngine"
    found: dict[str, Any] = {"algorithm": repr(learner.algorithm) if learner.algorithm else "a batch solver"}
    if hasattr(learner.engine, "scale"):
        found["scale"] = learner.engine.scale  # of AutoFTRL(scale="auto"): the one ahead, or kept
    found |= {"loss": str(learner.loss), "penalty": repr(learner.penalty), "intercept": learner.fit_intercept}
    if model.classes:
        found["classes"] = ", ".join(label if isinstance(label, str) else f"{label:g}" for label in model.classes)
    found |= {"average": learner.average, "precision": str(learner.dtype)}
    found["can_learn"] = not frozen
    if learner.algorithm is not None:
        found |= {"pairs_learned" if learner.ranking else "rows_learned": learner.t}
        found["progressive_loss"] = learner.progressive_loss
    return found


def _sparsity(model: Model) -> dict[str, Any]:
    """Return the number of weights and of non-zero ones."""
    import numpy as np

    coef, intercept = model.weights()
    nonzeros = int(np.count_nonzero(coef))
    found: dict[str, Any] = {"features": len(coef), "non_zeros": nonzeros}
    found["share"] = nonzeros / coef.size if coef.size else 0.0
    found |= {"sum_of_magnitudes": float(np.sum(np.abs(coef), dtype=np.float64))}
    found |= {"largest_magnitude": float(np.max(np.abs(coef), initial=0.0))}
    found["intercept"] = float(intercept) if np.ndim(intercept) == 0 else [float(b) for b in intercept]
    return found


def largest(model: Model, top: int) -> list[dict[str, Any]]:
    """Return the largest non-zero weights with the names of their features and classes."""
    import numpy as np

    coef, _ = model.weights()
    flat = coef.ravel()
    places = np.flatnonzero(flat)
    places = places[np.argsort(-np.abs(flat[places]), kind="stable")][:top]
    names, found = model.named(), []
    for place in places.tolist():
        feature, output = divmod(place, coef.shape[1]) if coef.ndim == 2 else (place, 0)
        entry: dict[str, Any] = {"feature": feature}
        if names:
            entry["name"] = names.get(feature, [])
        if coef.ndim == 2:
            entry["class"] = model.classes[output]
        found.append(entry | {"weight": float(flat[place])})
    return found


def _place(column: str) -> tuple[int, str]:
    """Return the sort key of a column of the history."""
    return (FIRST.index(column) if column in FIRST else len(FIRST)), column


def text_of(value: Any) -> Any:
    """Return a cell's value for a table."""
    if isinstance(value, list):  # names: control characters are escaped
        return " | ".join("".join(c if c.isprintable() else repr(c)[1:-1] for c in name) for name in value)
    return str(value) if isinstance(value, int) else value
