"""Estimators: the learners as scikit-learn knows models.

Thin faces of `proxstream.learner.Learner`. They check what comes in, turn it into row blocks, and read the model back;
what is learned, and how, is the learner's.

| estimator          | learns                                  | losses                                     |
|--------------------|-----------------------------------------|--------------------------------------------|
| `StreamClassifier` | two classes or many                     | binary and multiclass                      |
| `StreamRegressor`  | numbers and counts                      | regression                                 |
| `StreamRanker`     | the order of each query's rows          | ranking and binary, on pairs of rows       |
"""

from __future__ import annotations

from .classifier import StreamClassifier
from .ranker import StreamRanker
from .regressor import StreamRegressor

__all__ = ["StreamClassifier", "StreamRanker", "StreamRegressor"]
