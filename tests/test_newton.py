"""Newton's method under L2: each piece against what it stands for, whole solutions against scipy and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proxstream import losses
from proxstream.kernels.losses import as_tuple
from proxstream.kernels.taylor import taylor

CURVED = ["logistic", "squared", "squared_hinge", "smoothed_hinge(0.5)", "huber(0.7)", "poisson"]


def second_order(loss: Any, p: Any, y: Any) -> Any:
    body = taylor.bodies[type(as_tuple(loss))]
    return np.array([body(as_tuple(loss), float(a), float(b)) for a, b in zip(p, y, strict=True)]).T


@pytest.mark.parametrize("name", CURVED)
def test_second_order_is_value_slope_and_the_slopes_own_slope(name: str) -> None:
    loss = losses.get(name)
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.normal(0.0, 2.0, 200), [-40.0, -1.0, 0.0, 1.0, 40.0]])
    y = rng.choice([-1.0, 1.0], len(p)) if loss.kind == "binary" else rng.poisson(2.0, len(p)).astype(float)
    value, slope, curvature = second_order(loss, p, y)
    np.testing.assert_allclose(value, loss.value(p, y), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(slope, loss.slope(p, y), rtol=1e-13, atol=1e-15)
    h = 1e-6
    left, right = (loss.slope(p + side, y) - loss.slope(p + side - h, y) for side in (0.0, h))
    low, high = np.minimum(left, right) / h, np.maximum(left, right) / h  # equal but where the slope has a kink
    slack = 1e-4 * (1.0 + np.abs(curvature))
    assert (curvature >= low - slack).all()
    assert (curvature <= high + slack).all()


def test_no_exponential_of_poisson_overflows() -> None:
    assert np.isposinf(second_order(losses.poisson, [1e3], [1.0])).all()
