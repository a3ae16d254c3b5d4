"""scikit-learn's own checks of its conventions, for each estimator.

Exempt are two checks that ask for what no online learner can give: that a row of weight 2 is two rows, and that rows
may be reordered. A weight of 2 makes one step with twice the gradient at one point; two copies make two steps, the
second from where the first has led. A weight of 0 does leave the model untouched: `test_estimators.py` shows it.
"""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import proxstream as ps

TWO_COPIES = "online, two copies of a row are two steps and a row of weight 2 is one: see the head of this file"
EXEMPT = {
    "check_sample_weight_equivalence_on_dense_data": TWO_COPIES,
    "check_sample_weight_equivalence_on_sparse_data": TWO_COPIES,
}
MODELS = [ps.StreamClassifier(), ps.StreamRegressor(), ps.StreamRanker()]


@pytest.mark.interpreted
@pytest.mark.default_cases(60)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS, expected_failed_checks=lambda estimator: EXEMPT)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)
