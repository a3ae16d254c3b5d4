"""The cluster with partitions that are malformed, empty, or have bad rows: named by their number, or passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

import proxstream as ps
from proxstream.cluster import DaskSDCAClassifier, DaskStreamClassifier, DaskStreamRegressor
from proxstream.cluster.partitions import assemble
from proxstream.data.rowblock import as_block

from ..data.malformed_cases import DENSE, LABELS, MALFORMED, D, block_of, cases

FTRL = ps.FTRLProximal(alpha=0.5)


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_partition_is_refused_with_its_number(case: str) -> None:
    with pytest.raises((TypeError, ValueError), match="partition 3: X is malformed: "):
        assemble(3, (MALFORMED[case](), LABELS))


@pytest.mark.parametrize("case", cases("block learn"))
def test_a_malformed_block_is_refused_with_its_number(case: str) -> None:
    with pytest.raises((TypeError, ValueError), match=r"partition 3: .* must "):
        assemble(3, [as_block(DENSE, LABELS), block_of(MALFORMED[case]())])


def partitions(*elements: Any) -> list[Any]:
    return [dask.delayed(element) for element in elements]


def test_a_malformed_partition_does_not_kill_its_worker(client: Any) -> None:
    before = set(client.scheduler_info()["workers"])
    for case in ("index 2^30", "indptr past the end", "csc index"):
        rows = partitions((DENSE, LABELS), (MALFORMED[case](), LABELS))
        for model in (DaskStreamClassifier(FTRL, client=client), DaskSDCAClassifier(client=client)):
            with pytest.raises((TypeError, ValueError), match="partition 1: X is malformed: "):
                model.fit(rows)
            assert not hasattr(model, "coef_")
    assert set(client.scheduler_info()["workers"]) == before


@pytest.mark.exhaustive
def test_empty_partitions_change_nothing(client: Any) -> None:
    empty = np.zeros((0, D)), np.zeros(0, int)
    for make in (
        lambda: DaskStreamClassifier(FTRL, client=client, lanes=1),
        lambda: DaskSDCAClassifier(client=client, penalty=ps.L2(0.1), tol=1e-8, n_blocks=1, random_state=0),
    ):
        whole = make().fit(partitions((DENSE, LABELS)))
        parted = make().fit(partitions(empty, (DENSE, LABELS), empty, empty))
        np.testing.assert_allclose(parted.coef_, whole.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.exhaustive
def test_bad_rows_and_wide_rows_of_files_are_named(client: Any, tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:1\n0 2:1\n")
    (tmp_path / "b.svm").write_text("1 1:1\n0 2147483647:1\n")
    (tmp_path / "c.svm").write_text("")
    with pytest.raises(ValueError, match=r"b\.svm:2:3: found '2147483647:1', expected an index of at most 67108863"):
        DaskStreamClassifier(FTRL, client=client).fit(str(tmp_path / "*.svm"))
    (tmp_path / "b.svm").write_text("1 1:1\n0 2:x\n")
    with pytest.raises(ValueError, match=r"b\.svm:2:5: found 'x', expected a finite number"):
        DaskStreamClassifier(FTRL, client=client).fit(str(tmp_path / "*.svm"))
    (tmp_path / "b.svm").write_text("")
    model = DaskStreamClassifier(FTRL, client=client).fit(str(tmp_path / "*.svm"))
    assert model.t_ == 2


def test_lanes_that_diverge_leave_the_model_as_it_was(client: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    model = DaskStreamRegressor(FTRL, client=client, lanes=2)
    model.fit(partitions((X, X[:, 0]), (X, X[:, 0])))
    before, t = model.coef_.copy(), model.t_
    with pytest.raises(FloatingPointError, match="the model has diverged"):
        model.partial_fit(partitions((X, X[:, 0]), (1e200 * X, X[:, 0])))
    np.testing.assert_array_equal(model.coef_, before)
    assert model.t_ == t
