"""Columns and labels far from zero: the same answers as those of data that were centred beforehand."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import Lasso

import proxstream as ps
from proxstream.batch import Problem, Solution, dispatch as certified
from proxstream.batch.centring import centred, frame_of
from proxstream.batch.lambda_max import no_worse_than_null
from proxstream.core import losses
from proxstream.data.rowblock import as_block

pytestmark = pytest.mark.interpreted

OFFSETS = (*(pytest.param(offset, marks=pytest.mark.exhaustive) for offset in (2e3, 1e4)), 1e8)


def data(n=60, d=3, seed=0):
    """Return features whose sums with the offsets are exact, and a target."""
    rng = np.random.default_rng(seed)
    Z = np.round(rng.normal(size=(n, d)) * 2.0**20) / 2.0**20
    return Z, Z[:, 0] - 0.3 * Z[:, 1] + 0.3 * rng.normal(size=n)


def labels_of(loss, y):
    """Return labels that a loss takes."""
    kind = losses.get(loss).kind
    if kind == "multiclass":
        return np.digitize(y, [-0.5, 0.5])
    if kind == "binary":
        return y > 0.0
    return np.round(np.exp(y)) if losses.get(loss).name == "poisson" else y


def objective(loss, penalty, Z, y, coef, intercept):
    """Return the mean loss plus the penalty, written out for data that are not far from zero."""
    loss = losses.get(loss)
    if loss.kind == "multiclass":
        return float(np.mean(loss.value(Z @ coef.T + intercept, y.astype(int)))) + penalty.value(coef.T)
    signs = 2.0 * y - 1.0 if loss.kind == "binary" else y
    coef = np.ravel(coef)
    return float(np.mean(loss.value(Z @ coef + np.ravel(intercept)[0], signs))) + penalty.value(coef)


def compared(make, loss, penalty, offset, tol=1e-11, near=1e-6):
    """Fit data at an offset and the same data centred: weights, objective and certificate are the same."""
    Z, y = data()
    y = labels_of(loss, y)
    one, other = (make(loss, penalty, tol).fit(X, y) for X in (Z + offset, Z))
    own = one.intercept_ + offset * one.coef_.sum(axis=-1)
    reached = objective(loss, penalty, Z, y, one.coef_, own)
    assert reached == pytest.approx(one.primal_, rel=1e-6)
    assert one.primal_ == pytest.approx(other.primal_, rel=1e-11 + 2.0 * tol)
    assert one.dual_ <= other.primal_ + 1e-12
    np.testing.assert_allclose(one.coef_, other.coef_, atol=near)
    np.testing.assert_allclose(own, other.intercept_, atol=10 * near + 1e-15 * offset)
    proof = ps.certificate(one, Z + offset, y)
    assert proof.primal == pytest.approx(one.primal_, rel=1e-12)
    assert proof.gap <= 1.01 * tol * one.primal_


def certified_model(loss, penalty, tol):
    """Return an estimator that picks its solver."""
    kind = ps.CertifiedRegressor if losses.get(loss).kind == "regression" else ps.CertifiedClassifier
    return kind(loss=loss, penalty=penalty, tol=tol, random_state=0, max_epochs=20_000)


def sdca_model(loss, penalty, tol):
    """Return an estimator of Prox-SDCA."""
    kind = ps.SDCARegressor if losses.get(loss).kind == "regression" else ps.SDCAClassifier
    return kind(loss=loss, penalty=penalty, tol=tol, random_state=0, max_epochs=20_000)


@pytest.mark.default_cases(3)
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("penalty", [ps.L1(0.02), ps.L2(0.1), ps.ElasticNet(0.02, 0.1)], ids=repr)
@pytest.mark.parametrize("loss", ["squared", "huber(0.5)", "logistic", "squared_hinge", "poisson"])
def test_smooth_losses_far_from_zero(loss, penalty, offset):
    compared(certified_model, loss, penalty, offset)


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("loss", ["hinge", "quantile(0.7)", "epsilon_insensitive(0.1)", "absolute", "smoothed_hinge"])
@pytest.mark.parametrize("offset", OFFSETS)
def test_losses_with_kinks_far_from_zero(loss, offset):
    # The intercept's last bit, 1e-8 at an offset of 1e8, costs as much loss at a kink, and the gap reports it.
    tol = 1e-10 if offset < 1e6 else 1e-7
    compared(certified_model, loss, ps.L2(0.1), offset, tol, near=np.sqrt(20.0 * tol))


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_prox_sdca_far_from_zero(loss):
    compared(sdca_model, loss, ps.ElasticNet(0.01, 0.2), 1e8, tol=1e-7, near=1e-3)


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("make", [certified_model, sdca_model])
@pytest.mark.parametrize("loss", ["softmax", "multiclass_hinge"])
def test_several_classes_far_from_zero(make, loss):
    compared(make, loss, ps.L2(0.1), 1e8, tol=1e-7, near=1e-3)


def test_the_lasso_of_scikit_learn_at_an_offset():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(25, 3))
    y = Z[:, 0] + 0.3 * rng.normal(size=25)
    peer = Lasso(alpha=0.02, tol=1e-12).fit(Z, y)
    for offset in (1e4, 1e6):
        found = ps.CertifiedRegressor(penalty=ps.L1(0.02), tol=1e-12).fit(Z + offset, y)
        np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-8)
        np.testing.assert_allclose(found.predict(Z + offset), peer.predict(Z), atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_rows_stay_sparse_and_unchanged(dtype, index):
    """Entries that are missing in a far column are -c; what is given is not written to."""
    rng = np.random.default_rng(1)
    X = np.where(rng.random((400, 30)) < 0.1, rng.normal(size=(400, 30)), 0.0)
    X[:, 4] = 2000.0 + rng.integers(-5, 6, size=400)
    X[:, 7] = 7.0
    X[17, 4] = X[18, 7] = 0.0
    c = np.ones(400)
    c[[3, 5]] = 0.0
    X[3, 4] = 1e9
    X[5, 4] = 0.0
    given = csr_array(X.astype(dtype))
    given.indices, given.indptr = given.indices.astype(index), given.indptr.astype(index)
    before = [array.copy() for array in (given.data, given.indices, given.indptr)]
    frame = frame_of(as_block(given, np.ones(400), c), losses.logistic)
    assert frame.columns.tolist() == [4, 7]
    moved = frame.rows(as_block(given, np.ones(400), c))
    expected = X.astype(dtype).astype(np.float64)
    expected[:, frame.columns] -= frame.centres
    np.testing.assert_array_equal(moved.times(np.eye(30)), expected)
    assert len(moved.data) == np.count_nonzero(expected) < given.nnz
    for array, old in zip((given.data, given.indices, given.indptr), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_nothing_is_copied_where_nothing_is_far():
    rng = np.random.default_rng(2)
    sparse = csr_array(np.where(rng.random((300, 50)) < 0.2, 1000.0, 0.0))
    positive = csr_array(rng.random((300, 4)))
    for X in (sparse, positive):
        problem = Problem(as_block(X, rng.normal(size=300)), X.shape[1], losses.squared, ps.L1(0.1))
        assert centred(problem) == (problem, None)
    far = Problem(as_block(positive + csr_array(np.full((300, 4), 1e3)), np.ones(300)), 4, losses.squared, ps.L1(0.1))
    assert centred(far)[1] is not None
    assert (
        centred(Problem(*[getattr(far, name) for name in ("rows", "n_features", "loss", "penalty")], False))[1] is None
    )


def test_the_intercept_is_rounded_once():
    """Between frames an intercept moves by <c, w> to the last bit, in exact fractions."""
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(50, 6))
    frame = frame_of(as_block(Z + 1e8, Z[:, 0] + 1e5), losses.squared)
    w, b = rng.normal(size=6), 0.3
    exact = (
        Fraction(b) + Fraction(frame.label) - sum(map(Fraction.__mul__, map(Fraction, frame.centres), map(Fraction, w)))
    )
    assert frame.outward(w, b) == float(exact)
    many = frame_of(as_block(Z + 1e8, np.arange(50) % 3), losses.softmax)
    W = rng.normal(size=(6, 3))
    np.testing.assert_array_equal(many.outward(W, np.zeros(3)), [many.outward(column, 0.0) for column in W.T])


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "epsilon_insensitive"])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_constant_columns_have_no_weight(loss, n):
    Z, y = data(n)
    X = np.column_stack([Z[:, 0], np.full(n, 7e5), np.full(n, 1.0)])
    found = ps.CertifiedRegressor(loss=loss, penalty=ps.L2(0.1), tol=1e-6).fit(X, y)
    alone = ps.CertifiedRegressor(loss=loss, penalty=ps.L2(0.1), tol=1e-6).fit(Z[:, :1], y)
    assert found.coef_[1:].tolist() == [0.0, 0.0]
    assert found.primal_ == pytest.approx(alone.primal_, rel=4e-6, abs=1e-12)


def test_a_path_far_from_zero():
    Z, y = data(80, 4)
    options = {
        "penalty": ps.ElasticNet(0.9, 0.1),
        "n_strengths": 8,
        "ratio": 0.01,
        "tol": 1e-12,
        "random_state": 0,
        "cv": 3,
    }
    for loss in ("squared", "logistic"):
        near, far = (ps.regularization_path(X, labels_of(loss, y), loss=loss, **options) for X in (Z, Z + 1e8))
        np.testing.assert_allclose(far.strengths, near.strengths, rtol=1e-9)
        np.testing.assert_allclose(far.coefs.toarray(), near.coefs.toarray(), atol=1e-6)
        np.testing.assert_allclose(far.primal, near.primal, rtol=1e-9)
        np.testing.assert_allclose(far.cv.losses, near.cv.losses, rtol=1e-5)
        assert (far.dual <= near.primal * (1.0 + 1e-12)).all()


def test_one_class_against_the_rest_and_a_warm_start():
    Z, y = data(90)
    y = np.digitize(y, [-0.5, 0.5])
    model = ps.CertifiedClassifier(
        loss="squared_hinge", penalty=ps.L2(0.1), multi_class="one_vs_rest", tol=1e-12, warm_start=True
    )
    near = ps.CertifiedClassifier(loss="squared_hinge", penalty=ps.L2(0.1), multi_class="one_vs_rest", tol=1e-12)
    model.fit(Z + 1e6, y)
    np.testing.assert_allclose(model.coef_, near.fit(Z, y).coef_, atol=1e-6)
    assert model.fit(Z + 1e6, y).n_iter_ <= 1
    assert ps.certificate(model, Z + 1e6, y).gap < 1e-8


def test_a_certificate_of_a_stream_far_from_zero():
    """Blocks drift, as timestamps do, and lack entries of a far column here and there."""
    Z, y = data(90)
    Z[:, 1] += np.arange(90) / 30.0
    X = Z + np.array([1e7, 1e7, 0.0])
    X[40, 0] = 0.0
    model = ps.CertifiedClassifier(penalty=ps.L2(0.1), tol=1e-9).fit(X, y > 0.0)
    blocks = [(csr_array(X[i : i + 30]), y[i : i + 30] > 0.0) for i in (0, 30, 60)]
    streamed, whole = ps.certificate(model, blocks), ps.certificate(model, X, y > 0.0)
    assert streamed.primal == pytest.approx(whole.primal, rel=1e-12)
    assert whole.gap <= 1.01e-9
    assert streamed.gap <= 1e-6


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "quantile(0.3)"])
@pytest.mark.parametrize("size", [1e14, 1e-14])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the last bit of 1e14 may cost 1e-3
def test_labels_of_any_size(loss, size):
    """A dual value is not above the optimum, which is that of labels less their offset."""
    Z, y = data(50)
    own = np.round(64.0 * y) / 64.0  # exact beside 1e14
    model = ps.CertifiedRegressor(loss=loss, penalty=ps.L2(0.1), tol=1e-3).fit(
        Z, own + 1e14 if size > 1.0 else own * size
    )
    if size > 1.0:
        best = ps.CertifiedRegressor(loss=loss, penalty=ps.L2(0.1), tol=1e-9).fit(Z, own).primal_
        assert model.dual_ <= best * (1.0 + 1e-14)
        assert best * (1.0 - 1e-9) <= model.primal_ <= best + 0.02  # the last bit of an intercept of 1e14
    assert 0.0 <= model.duality_gap_ <= 1e-3 * model.primal_ or size > 1.0


def test_an_offset_beyond_64_bits_is_refused():
    Z, y = data()
    model = ps.CertifiedRegressor(penalty=ps.L1(0.02)).fit(Z, y)
    before = model.coef_.copy(), model.primal_
    with pytest.raises(
        ValueError, match=r"column 0 is too far from zero: its entries are about 1e\+12 .* subtract 9999"
    ):
        model.fit(Z + np.array([1e12, 0.0, 0.0]), y)
    np.testing.assert_array_equal(model.coef_, before[0])
    assert model.primal_ == before[1]


# -- the guard -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spoilt", [np.nan, np.inf, 1e10])
def test_no_solution_is_worse_than_no_weights(spoilt):
    Z, y = data()
    problem = Problem(as_block(Z, y), 3, losses.squared, ps.L1(0.1))
    good = certified.solve(problem, tol=1e-9)
    bad = Solution(
        np.full(3, spoilt), 0.0, good.alpha, [good.history[-1]._replace(primal=spoilt, dual=0.1 * good.dual)], False
    )
    found = no_worse_than_null(problem, bad, 1e-4)
    assert not found.coef.any()
    assert found.intercept == pytest.approx(y.mean())
    assert found.primal == pytest.approx(0.5 * y.var())
    assert good.primal * (1.0 - 1e-9) <= found.primal
    assert found.dual <= good.primal
    assert not found.converged


@pytest.mark.compiled
@pytest.mark.parametrize("offset", [1e8, 1e12])
@pytest.mark.parametrize("penalty", [ps.L1(0.02), ps.L2(0.02)], ids=repr)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_an_intercept_the_result_is_finite_and_better_than_none(penalty, offset):
    Z, y = data(25)
    for make, loss, labels in (
        (ps.CertifiedRegressor, "squared", y),
        (ps.CertifiedClassifier, "logistic", y > 0.0),
    ):
        found = make(loss=loss, penalty=penalty, fit_intercept=False, max_epochs=20).fit(Z + offset, labels)
        zero = 0.5 * np.mean(y**2) if loss == "squared" else np.log(2.0)
        assert found.primal_ <= zero * (1.0 + 1e-15)
        assert np.isfinite(found.coef_).all()
        assert found.dual_ <= found.primal_


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_objective_that_is_not_finite_is_refused():
    Z, y = data()
    with pytest.raises(ValueError, match="the objective is not finite"):
        ps.CertifiedRegressor(penalty=ps.L2(0.1)).fit(Z, 1e200 * y)


@pytest.mark.parametrize("penalty", [ps.L1(0.02), ps.L2(0.02)], ids=repr)
def test_columns_whose_squares_are_beyond_32_bits(penalty):
    """All columns of one scale s: weights are those of the scaled penalty, 1/s times."""
    Z, y = data()
    s = 2.0**70
    scaled = ps.L1(0.02 * s) if penalty.strong_convexity == 0.0 else ps.L2(0.02 * s * s)
    near = ps.CertifiedRegressor(penalty=penalty, tol=1e-10).fit(Z, y)
    far = ps.CertifiedRegressor(penalty=scaled, tol=1e-10).fit(Z * s, y)
    np.testing.assert_allclose(far.coef_ * s, near.coef_, atol=1e-5)


@pytest.mark.parametrize(("scale", "tol"), [(1e-12, 1e-5), (1e8, 1e-5), (1e12, 1e-3)])
def test_one_column_of_another_scale(scale, tol):
    """A Hessian whose diagonal spans 24 digits is factorized; the optimum is that of ridge regression, in closed form.

    Rounding of X'alpha is part of what is proved, and grows with the square of the scale: at 1e12 it is 1e-4.
    """
    Z, y = data()
    factors = np.array([1.0, scale, 1.0])
    lam = 0.02 / factors**2  # of the coefficients of Z
    C, t = Z - Z.mean(axis=0), y - y.mean()
    w = np.linalg.solve(C.T @ C / len(y) + np.diag(lam), C.T @ t / len(y))
    best = 0.5 * np.mean((t - C @ w) ** 2) + 0.5 * float(lam @ w**2)
    far = ps.CertifiedRegressor(penalty=ps.L2(0.02), tol=tol, solver="newton").fit(Z * factors, y)
    assert far.primal_ == pytest.approx(best, rel=1e-5)
    np.testing.assert_allclose(far.coef_ * factors, w, atol=2e-2)


@pytest.mark.parametrize("kind", [ps.CertifiedClassifier, ps.SDCAClassifier])
def test_values_whose_squares_overflow_are_refused_by_their_place(kind):
    X = np.eye(4)
    X[2, 1] = -1e200
    with pytest.raises(ValueError, match=r"between -1e\+150 and 1e\+150 .* got -1e\+200 in row 2, column 1; scale"):
        kind().fit(X, [0, 1, 0, 1])
