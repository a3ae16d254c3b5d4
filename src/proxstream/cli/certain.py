"""What `proxstream certify --features` lists: features whose place in every optimum is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .common import facts, table
from .inspect import text_of

if TYPE_CHECKING:
    from ..batch import Certificate
    from ..models.model import Model


def certain_features(model: Model, proof: Certificate) -> dict[str, list[dict[str, Any]]]:
    """Return the features that are zero in no optimum, and in every optimum, the largest weights of the model first.

    A hashed model has room for millions of features: those that neither the rows nor the model have are left out.
    """
    import numpy as np

    coef, _ = model.learner.weights()
    weights, names = coef.reshape(len(coef), -1), model.named()
    largest = weights[np.arange(len(weights)), np.argmax(np.abs(weights), axis=1)] if len(weights) else np.zeros(0)

    def entries(features: Any) -> list[dict[str, Any]]:
        of = [(int(j), float(largest[j]) if j < len(largest) else 0.0) for j in features]
        of.sort(key=lambda pair: (-abs(pair[1]), pair[0]))
        return [{"feature": j, **({"name": names.get(j, [])} if names else {}), "weight": w} for j, w in of]

    known = np.union1d(proof.present, np.flatnonzero(largest))
    return {"never_zero": entries(proof.support), "always_zero": entries(np.intersect1d(proof.zeros, known))}


def feature_lines(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the lists as lines; of the zeros only those with a weight in the model."""
    never, always = found["never_zero"], found["always_zero"]
    wrong = [entry for entry in always if entry["weight"] != 0.0]
    counts = {"never_zero": len(never), "always_zero": len(always), "of_these_not_zero_in_the_model": len(wrong)}
    lines = ["", "# features in every optimum", *facts(counts.items())]
    for heading, entries in (("zero in no optimum", never), ("zero in every optimum, but not in the model", wrong)):
        if entries:
            columns = list(entries[0])
            rows = [[text_of(entry[name]) for name in columns] for entry in entries]
            lines += ["", f"# {heading}", *table(columns, rows, left=len(columns) - 1)]
    return lines
