"""Losses of everyday use are one type in learners: a code in place of the loss, with the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from proxstream import losses
from proxstream.core.losses import _kernels as kernels


@pytest.mark.parametrize("loss", [losses.logistic, losses.squared, losses.hinge])
def test_a_code_stands_for_the_loss_bit_for_bit(loss: losses.Loss) -> None:
    rng = np.random.default_rng(0)
    p, y, c = 5.0 * rng.normal(size=200), np.where(rng.random(200) < 0.5, 1.0, -1.0), rng.random(200)
    ours, own = np.zeros(2), np.zeros(2)
    kernels.add_losses(kernels.for_streams(loss), p, y, c, ours)
    kernels.add_losses(kernels.as_tuple(loss), p, y, c, own)
    assert ours.tolist() == own.tolist()
    for a, b in zip(p.tolist(), y.tolist(), strict=True):
        assert kernels.slope(kernels.for_streams(loss), a, b) == kernels.slope(kernels.as_tuple(loss), a, b)


def test_common_losses_share_a_type_and_others_keep_theirs() -> None:
    common = losses.logistic, losses.squared, losses.hinge
    assert {type(kernels.for_streams(loss)) for loss in common} == {kernels.Common}
    assert kernels.for_streams(losses.huber(0.5)) == kernels.as_tuple(losses.huber(0.5))
