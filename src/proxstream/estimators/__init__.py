"""Estimators: the learners as scikit-learn knows models.

Thin faces of `proxstream.Learner`. They check what comes in, turn it into row blocks, and read the model back;
what is learned, and how, is the learner's.

| estimator          | learns                                  | losses                                     |
|--------------------|-----------------------------------------|--------------------------------------------|
| `StreamClassifier` | two classes or many                     | binary and multiclass                      |
| `StreamRegressor`  | numbers and counts                      | regression                                 |
| `StreamRanker`     | the order of each query's rows          | ranking and binary, on pairs of rows       |

`StreamPathClassifier` and `StreamPathRegressor` learn many strengths of a penalty in one pass, of which one is chosen.

`CertifiedClassifier`, `CertifiedRegressor`, `SDCAClassifier` and `SDCARegressor` are faces of `proxstream.batch`: they
solve a problem and prove it. Names are loaded on demand: a `StreamClassifier` needs no batch solver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.on_demand import load_on_demand

if TYPE_CHECKING:
    from .certified import CertifiedClassifier, CertifiedRegressor
    from .classifier import StreamClassifier
    from .path import StreamPathClassifier, StreamPathRegressor
    from .ranker import StreamRanker
    from .regressor import StreamRegressor
    from .sdca import SDCAClassifier, SDCARegressor

__all__ = [
    "CertifiedClassifier",
    "CertifiedRegressor",
    "SDCAClassifier",
    "SDCARegressor",
    "StreamClassifier",
    "StreamPathClassifier",
    "StreamPathRegressor",
    "StreamRanker",
    "StreamRegressor",
]

__getattr__ = load_on_demand(
    __name__,
    {
        ".certified": ["CertifiedClassifier", "CertifiedRegressor"],
        ".classifier": ["StreamClassifier"],
        ".path": ["StreamPathClassifier", "StreamPathRegressor"],
        ".ranker": ["StreamRanker"],
        ".regressor": ["StreamRegressor"],
        ".sdca": ["SDCAClassifier", "SDCARegressor"],
    },
)
