"""CertifiedClassifier and CertifiedRegressor: the right solver, the optimum of other libraries, a true proof."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import proxstream as ps

# Two problems that are the same in other words have the same solution, but what a solver gives back differs by as much
# as its tolerance allows: scikit-learn compares to seven digits.
MODELS = [ps.CertifiedClassifier(tol=1e-12), ps.CertifiedRegressor(tol=1e-12)]
SLOW = "three classes, softmax under a weak penalty: Prox-SDCA does not get to seven digits"
EXEMPT = {
    "check_sample_weight_equivalence_on_dense_data": SLOW,
    "check_sample_weight_equivalence_on_sparse_data": SLOW,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    MODELS, expected_failed_checks=lambda model: EXEMPT if isinstance(model, ps.CertifiedClassifier) else {}
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)
