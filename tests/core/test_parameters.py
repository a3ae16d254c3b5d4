"""Odd values for every parameter of every component: refused by name, or taken as they are meant."""

from __future__ import annotations

import math
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import proxstream as ps
from proxstream.core import validation as _checks
from proxstream.learner.learner import Learner
from proxstream.models.codec import REGISTRIES

NEEDED = {"lam": 0.1, "l1": 0.1, "l2": 0.1, "groups": [0, 1], "scale": 0.5, "eta": 0.1, "summands": (ps.L1(0.1),)}
CALLED = {"eta": ("eta", "rate")}  # what errors call a parameter, if not by its name

NEVER: dict[str, Any] = {  # what no parameter takes
    "10^400": 10**400,
    "-10^400": -(10**400),
    "10^9000": 10**9000,
    "longdouble": np.longdouble("1e4000"),
    "bytes": b"1",
    "text": "0.5",
    "complex": 1j,
    "numpy complex": np.complex128(1),
    "fraction": Fraction(1, 2),
    "large fraction": Fraction(10**400, 1),
    "decimal": Decimal("0.5"),
    "nan": math.nan,
    "date": np.datetime64("2020"),
    "object": object(),
    "set": {1, 2},
    "dict": {"a": 1},
    "nothing listed": [],
    "nothing in an array": np.array([]),
    "large listed": [10**400],
    "complex listed": [1j],
    "text listed": ["0.5"],
    "none listed": [None],
    "nan listed": [math.nan],
    "lists": [[0.5], [0.5, 1.0]],
    "masked": np.ma.masked,
    "a type": float,
}
ACCEPTED_TEXT = {
    "update",
    "matrix",
    "schedule",
    "centering",
    "past",
    "projection",
    "penalty_weight",
    "scale",
    "variant",
}
PARAMETERS = [
    (kind, name, field.name)
    for kind, registry in REGISTRIES.items()
    for name, known in registry.items()
    for field in fields(known)
]


def made(kind: str, name: str, parameter: str, value: Any) -> Any:
    known = REGISTRIES[kind][name]
    needed = {field.name: NEEDED[field.name] for field in fields(known) if field.name in NEEDED}
    if name in ("auto_ftrl", "ftrl"):
        needed.pop("scale", None)
    return known(**{**needed, parameter: value})


@pytest.mark.parametrize(("kind", "name", "parameter"), PARAMETERS)
def test_what_no_parameter_takes_is_refused_by_name(kind: str, name: str, parameter: str) -> None:
    for case, value in NEVER.items():
        if case == "a type" and parameter in ("rate", "penalty_weight"):
            continue  # it can be called, as a function of t can
        with pytest.raises((TypeError, ValueError)) as error:
            made(kind, name, parameter, value)
        message = str(error.value)
        assert any(word in message for word in CALLED.get(parameter, (parameter,))), (case, message)
        assert len(message) < 500, case


@pytest.mark.parametrize(("kind", "name", "parameter"), PARAMETERS)
def test_truth_values_are_no_numbers(kind: str, name: str, parameter: str) -> None:
    if parameter in ("implicit", "strongly_convex", "track"):
        assert made(kind, name, parameter, np.bool_(False)) == made(kind, name, parameter, False)
        value: Any = 1
    else:
        value = True
    with pytest.raises((TypeError, ValueError)):
        made(kind, name, parameter, value)


NUMBERS = [
    (kind, name, field.name)
    for kind, registry in REGISTRIES.items()
    for name, known in registry.items()
    for field in fields(known)
    if field.type in ("float", "Strength", "float | None") and field.name not in ("tau", "p", "power", "lo", "hi")
]


@pytest.mark.parametrize(("kind", "name", "parameter"), NUMBERS)
def test_numbers_of_numpy_are_numbers(kind: str, name: str, parameter: str) -> None:
    """With the arithmetic of Python's: that of np.float16 is done in 16 bits."""
    expected = made(kind, name, parameter, 0.5)
    for number in (np.float16, np.float32, np.float64, np.longdouble):
        component = made(kind, name, parameter, number(0.5))
        assert component == expected
        assert repr(component) == repr(expected)
        assert type(getattr(component, parameter)) is float
    assert made(kind, name, parameter, np.uint64(2)) == made(kind, name, parameter, 2.0)
    large = made(kind, name, parameter, 10**300)
    assert getattr(large, parameter) == 1e300
    assert type(getattr(large, parameter)) is float


def test_a_step_of_half_precision_is_taken_in_double() -> None:
    for number in (np.float16, np.float32):
        eta = number(0.1)
        learners = [ps.OnlineLearner(ps.SGD(eta=value), dim=2) for value in (eta, float(eta))]
        for g in ([1.0, 0.3], [0.7, -0.2]):
            for learner in learners:
                learner.update(g)
        np.testing.assert_array_equal(learners[0].point, learners[1].point)


@pytest.mark.parametrize("value", [10**400, 10**5000, -(10**400)], ids=["10^400", "10^5000", "-10^400"])
def test_an_integer_beyond_all_floats_is_shown_by_its_size(value: int) -> None:
    with pytest.raises(ValueError, match=r"lam must be a finite number >= 0, got an integer of \d+ bits"):
        ps.L1(value)
    with pytest.raises(ValueError, match="every must be an integer"):
        ps.TruncatedGradient(every=abs(value))


@pytest.mark.parametrize(
    ("estimator", "parameter"),
    [
        *((ps.StreamClassifier, name) for name in ("passes", "n_threads", "shuffle", "average", "fit_intercept")),
        *((ps.StreamClassifier, name) for name in ("algorithm", "penalty", "loss")),
        *((ps.StreamRanker, name) for name in ("passes", "pairs", "n_threads")),
        *((ps.CertifiedClassifier, name) for name in ("tol", "max_epochs", "n_threads", "penalty", "loss")),
        *((ps.SDCARegressor, name) for name in ("tol", "max_epochs", "option", "sampling", "output", "average_from")),
    ],
)
def test_estimators_refuse_what_no_parameter_takes(estimator: Any, parameter: str) -> None:
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    rank = {"qid": np.zeros(4, int)} if estimator is ps.StreamRanker else {}
    for case in ("10^400", "bytes", "text", "complex", "fraction", "nan", "object", "none listed"):
        with pytest.raises((TypeError, ValueError)):
            estimator(**{parameter: NEVER[case]}).fit(X, y, **rank)


@pytest.mark.parametrize("parameter", ["n_features", "n_outputs", "n_threads", "pairs", "seed", "dtype"])
def test_a_learner_refuses_what_no_parameter_takes(parameter: str) -> None:
    for case in ("bytes", "text", "complex", "fraction", "nan", "object", "none listed"):
        with pytest.raises((TypeError, ValueError)):
            Learner(ps.RDA(), "ranking_hinge", ranking=True, **{parameter: NEVER[case]})


def test_vectors_are_of_real_numbers() -> None:
    for bad in (["1"], [1j], [b"1"], [object()], np.array(["2020"], "M8[Y]")):
        with pytest.raises(TypeError, match="v must be an array of numbers"):
            _checks.vector("v", bad)
    for large in ([10**400], np.array([1e4000], np.longdouble), [Fraction(10**400)]):
        with pytest.raises(ValueError, match="v must be finite"):
            _checks.vector("v", large)
    np.testing.assert_array_equal(_checks.vector("v", [Fraction(1, 2), 1]), [0.5, 1.0])
