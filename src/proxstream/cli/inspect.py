"""`proxstream inspect`: what a model file holds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import AsJSON, ModelFile, facts, print_json, show, table

if TYPE_CHECKING:
    from ..model import Model

# Columns of the history, in their order; others follow by name.
FIRST = ("pass", "epoch", "rows", "mean_loss", "since_last", "held_out_loss", "label", "prediction", "features")
# What a run finds its place by: of no use to a reader.
ASIDE = ("end_of_input",)

EPILOG = """\b
Examples:
  proxstream inspect model.psm
  proxstream inspect model.psm --top 50
  proxstream inspect model.psm --json
"""


def inspect(
    model: ModelFile,
    top: Annotated[int, typer.Option(min=0, metavar="N", help="Largest weights to show.")] = 20,
    json: AsJSON = False,
) -> None:
    """Show the settings of a model, its sparsity, its largest weights and how it learned.

    Features have names where the model has kept them; of a hashed one all names that fell into its bucket are shown.
    """
    from ..modelfile import load_model

    made = load_model(model)
    settings, sparsity, weights = _settings(made), _sparsity(made), largest(made, top)
    settings["file_bytes"] = os.path.getsize(model)
    if json:
        told = {"settings": settings, "sparsity": sparsity, "weights": weights, "features": made.features}
        print_json(told | {"history": made.history, "summary": made.summary})
        return
    show(["# settings", *facts(settings.items()), "", "# sparsity", *facts(sparsity.items())])
    if weights:
        columns = list(weights[0])
        rows = [[_text(entry[name]) for name in columns] for entry in weights]
        show(["", "# largest weights", *table(columns, rows, left=len(columns) - 1)])
    if made.history:
        columns = sorted({name for line in made.history for name in line}, key=_place)
        show(["", "# history", *table(columns, [[line.get(name) for name in columns] for line in made.history])])
    if made.summary:
        summary = made.summary.items()
        show(["", "# summary", *facts((name, value) for name, value in summary if name not in ASIDE)])


def _settings(model: Model) -> dict[str, Any]:
    """Return what the model was made with."""
    learner = model.learner
    frozen = type(learner.engine).__name__ == "FrozenEngine"
    told: dict[str, Any] = {"algorithm": repr(learner.algorithm) if learner.algorithm else "a batch solver"}
    told |= {"loss": str(learner.loss), "penalty": repr(learner.penalty), "intercept": learner.fit_intercept}
    if model.classes:
        told["classes"] = ", ".join(label if isinstance(label, str) else f"{label:g}" for label in model.classes)
    told |= {"average": learner.average, "precision": str(learner.dtype)}
    told["learns_on"] = not frozen
    if learner.algorithm is not None:
        told |= {"pairs_learned" if learner.ranking else "rows_learned": learner.t}
        told["progressive_loss"] = learner.progressive_loss
    return told


def _sparsity(model: Model) -> dict[str, Any]:
    """Return how many weights there are, and how many are not zero."""
    import numpy as np

    coef, intercept = model.learner.weights()
    nonzeros = int(np.count_nonzero(coef))
    told: dict[str, Any] = {"features": len(coef), "non_zeros": nonzeros}
    told["share"] = nonzeros / coef.size if coef.size else 0.0
    told |= {"sum_of_magnitudes": float(np.sum(np.abs(coef), dtype=np.float64))}
    told |= {"largest_magnitude": float(np.max(np.abs(coef), initial=0.0))}
    told["intercept"] = float(intercept) if np.ndim(intercept) == 0 else [float(b) for b in intercept]
    return told


def largest(model: Model, top: int) -> list[dict[str, Any]]:
    """Return the largest weights that are not zero, with the names of their features and of their classes."""
    import numpy as np

    coef, _ = model.learner.weights()
    flat = coef.ravel()
    places = np.flatnonzero(flat)
    # By magnitude; of equal ones the first feature comes first.
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
    """Return where a column of the history stands."""
    return (FIRST.index(column) if column in FIRST else len(FIRST)), column


def _text(value: Any) -> Any:
    if isinstance(value, list):  # names: what a terminal would take for a command is shown as its code
        return " | ".join("".join(c if c.isprintable() else repr(c)[1:-1] for c in name) for name in value)
    return str(value) if isinstance(value, int) else value
