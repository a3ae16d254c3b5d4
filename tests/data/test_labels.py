"""The label encoder: every kind of label, unknown ones, and signs of one class against the rest."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from proxstream.data.labels import LabelEncoder, class_weighted, one_vs_rest

KINDS = {
    "text": ["ham", "spam", "a much longer text"],
    "bool": [False, True],
    "int": [-1, 0, 7],
    "unsigned": np.array([3, 200], np.uint8),
    "float": [-0.5, 0.25, 1e9],
    "object": np.array(["x", "y"], object),
}


@pytest.mark.parametrize("classes", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_labels_come_back_from_their_numbers(classes: Any, reverse: bool) -> None:
    classes = np.asarray(classes)[::-1] if reverse else np.asarray(classes)
    encoder = LabelEncoder(classes)
    y = classes[np.random.default_rng(0).integers(len(classes), size=30)]
    numbers = encoder.encode(y)
    assert [classes[i] for i in numbers] == y.tolist()
    np.testing.assert_array_equal(encoder.decode(numbers), y)
    assert encoder.decode(numbers).dtype == classes.dtype


def test_lists_and_objects_are_labels_as_arrays_are() -> None:
    encoder = LabelEncoder(["no", "yes"])
    for y in (["yes", "no"], np.array(["yes", "no"], object), np.array(["yes", "no"])):
        assert encoder.encode(y).tolist() == [1, 0]
    assert encoder.encode([]).tolist() == []


@pytest.mark.parametrize(
    ("classes", "y", "label"),
    [
        (["a", "b"], ["a", "c"], "'c'"),
        (["a", "b"], ["b", "abc"], "'abc'"),
        ([0, 1], [1, 2], "2"),
        ([0.0, 1.0], [0.0, np.nan], "nan"),
        ([0, 1], [0, -1], "-1"),
    ],
)
def test_the_first_unknown_label_is_named(classes: list[Any], y: list[Any], label: str) -> None:
    with pytest.raises(ValueError, match=f"y has the label {label} at index 1, which is none of the classes .*; hint"):
        LabelEncoder(classes).encode(y, "; hint")
    assert LabelEncoder(classes).find(y)[1].tolist() == [True, False]


def test_targets_are_signs_of_two_classes_and_numbers_of_more() -> None:
    encoder = LabelEncoder([5.0, 3.0])
    numbers = encoder.encode([3.0, 5.0])
    assert encoder.targets(numbers).tolist() == [1.0, -1.0]
    assert encoder.targets(numbers, 2).tolist() == [1.0, 0.0]
    assert encoder.targets(numbers, 2).dtype == np.float64


def test_signs_are_plus_one_for_the_class_alone() -> None:
    y = np.array([2.0, 0.0, 1.0])
    assert one_vs_rest(y, range(3)).tolist() == [[-1, -1, 1], [1, -1, -1], [-1, 1, -1]]
    assert one_vs_rest(y, 0).tolist() == [-1, 1, -1]


def test_weights_of_classes_multiply_those_of_rows() -> None:
    numbers, factors, c = np.array([0, 1, 1]), np.array([2.0, 3.0]), np.array([1.0, 0.5, 0.0])
    assert class_weighted(c, numbers, factors).tolist() == [2.0, 1.5, 0.0]
    assert class_weighted(np.empty(0), numbers, factors).tolist() == [2.0, 3.0, 3.0]
    assert class_weighted(c, numbers, None) is c


def test_scikit_learn_is_not_imported() -> None:
    code = "import sys, proxstream.data.labels; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
