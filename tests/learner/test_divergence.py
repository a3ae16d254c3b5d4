"""Models never leave the finite numbers: the row that would take them there is refused, and leaves no trace."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import proxstream as ps
from proxstream.cli import main
from proxstream.data import batches
from proxstream.data.rowblock import RowBlock, as_block
from proxstream.learner.divergence import DivergedError
from proxstream.learner.learner import Learner

D = 6
LEARNERS: dict[str, Any] = {
    "scalar": lambda **k: Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(0.01), n_features=D, **k),
    "sgd": lambda **k: Learner(ps.SGD(10.0, "constant"), "squared", n_features=D, **k),
    "means": lambda **k: Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(0.01), n_features=D, average=True, **k),
    "classes": lambda **k: Learner(ps.RDA(), "softmax", n_features=D, n_outputs=3, **k),
    "auto": lambda **k: Learner(ps.AutoFTRL(scale="feature"), "logistic", n_features=D, **k),
    "auto, classes": lambda **k: Learner(ps.AutoFTRL(scale="feature"), "softmax", n_features=D, n_outputs=3, **k),
    "auto, trial": lambda **k: Learner(ps.AutoFTRL(), "logistic", n_features=D, **k),
    "dense": lambda **k: Learner(ps.RDA(), "logistic", ps.L1Ball(0.5), n_features=D, **k),
    "threads": lambda **k: Learner(ps.FTRLProximal(0.3), "logistic", ps.L1(0.01), n_features=D, n_threads=2, **k),
    "ranking": lambda **k: Learner(
        ps.FTRLProximal(0.3), "logistic", ps.L1(0.01), n_features=D, ranking=True, pairs=2, seed=3, **k
    ),
}


def good(learner: Learner, n: int = 20, seed: int = 0, n_features: int = D) -> RowBlock:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.7)
    y = rng.integers(0, 3, n) if learner.n_outputs > 1 or learner.ranking else rng.choice([-1.0, 1.0], n)
    return as_block(X, y.astype(float), np.ones(n))


def with_bad_row(learner: Learner, rows: RowBlock, row: int) -> RowBlock:
    """Give a row values and a weight that are numbers, and whose product is not, and the label that it has least."""
    data, c, y = rows.data.copy(), rows.c.copy(), rows.y.copy()
    data[rows.indptr[row] : rows.indptr[row + 1]] *= 1e300
    c[row] = 1e300
    if not learner.ranking:
        trial = pickle.loads(pickle.dumps(learner))
        learn(trial, rows.slice(0, row))
        engine = trial.engine
        score = engine.predict(rows.slice(row, row + 1))[0] - engine.weights()[1]  # beside which intercepts are nothing
        y[row] = np.argmin(score) if learner.n_outputs > 1 else -np.sign(score)
    return rows._replace(data=data, c=c, y=y)


def learn(learner: Learner, rows: RowBlock, **settings: Any) -> Any:
    return learner.learn(rows, np.zeros(rows.n_rows, np.int64) if learner.ranking else None, **settings)


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.interpreted
@pytest.mark.default_cases(3)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_block_that_diverges_leaves_no_trace(name: str) -> None:
    """In its last row, where no later score would show it, and in any other; the stream goes on as if without it."""
    learner, twin = LEARNERS[name](growing=name != "dense"), LEARNERS[name](growing=name != "dense")
    wide = D if name == "dense" else D + 2
    learn(learner, good(learner)), learn(twin, good(twin))
    before = learner.state_dict()
    for row in (19, 4):
        bad = with_bad_row(learner, good(learner, seed=1, n_features=wide), row)
        with pytest.raises(DivergedError, match=f"the model has diverged in row {row} of the block") as caught:
            learn(learner, bad)
        assert caught.value.row == row
        assert same(learner.state_dict(), before)
        assert learner.n_features == D
    if name != "threads":
        assert np.array_equal(learn(learner, good(learner, seed=2)), learn(twin, good(twin, seed=2)))
        assert same(learner.state_dict(), twin.state_dict())


def test_features_settled_in_a_block_that_diverges_are_put_back() -> None:
    """P falls to 1e-100 and below in 3000 rows, which brings all features up to date: those without rows, too."""
    learner = Learner(ps.MirrorDescent(0.03, "constant"), "smoothed_hinge", ps.ElasticNet(1e-4, 3.0), n_features=D)
    learn(learner, good(learner))
    before = learner.state_dict()
    rows = with_bad_row(learner, good(learner, 3000, seed=1), 2999)
    with pytest.raises(DivergedError, match="row 2999"):
        learn(learner, rows)
    assert same(learner.state_dict(), before)


@pytest.mark.interpreted
def test_what_a_small_step_brings_to_light_is_found() -> None:
    """The weight w of 1.5e308 is a number and h w, of which the next step is made, is not, however small that step."""
    learner = Learner(ps.MirrorDescent(1.0, "sqrt"), "squared", n_features=1, fit_intercept=False)
    first, second = as_block(np.array([[1.0]]), [1.5e308]), as_block(np.array([[1e-308]]), [4.0])
    learner.learn(first)
    for same_learner in (learner, pickle.loads(pickle.dumps(learner))):
        with pytest.raises(DivergedError, match="row 0 of the block"):
            same_learner.learn(second)
    restored = Learner(ps.MirrorDescent(1.0, "sqrt"), "squared", n_features=1, fit_intercept=False)
    restored.load_state_dict(learner.state_dict())
    with pytest.raises(DivergedError, match="row 0 of the block"):
        restored.learn(second)
    assert learner.weights()[0] == restored.weights()[0] == 1.5e308


@pytest.mark.interpreted
def test_estimators_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they learn with: one block or several, more columns than before, and a fit that replaces a model."""
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.ones(40)
    model = ps.StreamRegressor(ps.SGD(10.0, "constant"))
    with pytest.raises(DivergedError):
        model.fit(X * 1e200, y)
    assert not hasattr(model, "coef_")
    model = ps.StreamRegressor(ps.SGD(0.01)).fit(X, y)
    coef, before = model.coef_, model._learner.state_dict()
    wild = X.copy()
    wild[39] = 1e308
    wide = np.hstack((wild, np.zeros((40, 2))))
    for piece in (1 << 19, 12):
        monkeypatch.setattr(batches, "PIECE", piece)  # entries of a block
        for refused in (
            lambda: model.partial_fit(wild, y),
            lambda: model.fit_stream([(csr_array(wide), y)], reset=False),
            lambda: model.fit_stream([(wide, y)], reset=False),
            lambda: model.fit(wild, y),
        ):
            with pytest.raises(DivergedError, match="the model has diverged in row"):
                refused()
            assert same(model._learner.state_dict(), before)
            assert np.array_equal(model.coef_, coef)
            assert (model.n_features_in_, model.t_) == (3, 40)
    with pytest.raises(DivergedError):
        model.fit_stream([(X, y), (wild, y)], reset=False)
    assert model.t_ == 80


# ---- the command line

LINES = ["1 1:1", "2 1:1", "1 1:3e38 2:3e38"]
SGD = ("--loss", "squared", "--algorithm", "sgd", "--eta", "1", "--quiet")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def train(*args: str, capsys: Any) -> tuple[int, str]:
    code = main(["train", *args])
    return code, capsys.readouterr().err


@pytest.mark.interpreted
def test_train_names_the_line_and_leaves_all_files_as_they_were(files: Path, capsys: Any) -> None:
    Path("plain.svm").write_text("\n".join(LINES) + "\n")
    Path("notes.svm").write_text("# of notes\n\n1 1:1\n\n2 1:1 # a note\n# another\n1 1:3e38 2:3e38\n1 1:1\n")
    Path("packed.svm.gz").write_bytes(gzip.compress(Path("notes.svm").read_bytes()))
    Path("bad.svm").write_text("1 1:1\n1 1:x\n2 1:1\nnan 1:1\n1 1:3e38 2:3e38\n")
    Path("fine.svm").write_text("1 1:1\n2 1:1\n")
    Path("plain.vw").write_text("1 | a:1\n\n2 | a:1\n1 | a:3e38 b:3e38\n")
    Path("plain.csv").write_text('label,a,t\n1,1,"two\nlines"\n2,1,x\n1,3e38,y\n')
    Path("plain.jsonl").write_text('{"label":1,"a":1}\n{"label":2,"a":1}\n\n{"label":1,"a":3e38,"b":3e38}\n')
    Path("model.psm").write_text("an earlier model")
    for data, place in (
        (["plain.svm"], "plain.svm:3"),
        (["notes.svm"], "notes.svm:7"),
        (["packed.svm.gz"], "packed.svm.gz:7"),
        (["bad.svm", "--on-error", "skip"], "bad.svm:5"),
        (["fine.svm", "notes.svm"], "notes.svm:7"),
        (["plain.vw"], "plain.vw:4"),
        (["plain.csv", "--drop", "t", "--no-standardize"], "plain.csv:5"),
        (["plain.jsonl", "--no-standardize"], "plain.jsonl:4"),
        (["plain.svm", "--passes", "2", "--holdout-share", "0.5"], "plain.svm:3"),
    ):
        code, err = train(*data, "-o", "model.psm", *SGD, capsys=capsys)
        assert (code, err.partition(": ")[0]) == (1, place), err
        assert err.startswith(f"{place}: the model has diverged: a score or a weight is not a finite number; use ")
        assert Path("model.psm").read_text() == "an earlier model"
    assert sorted(path.name for path in files.iterdir() if path.name.startswith((".", "model"))) == ["model.psm"]


@pytest.mark.exhaustive
def test_a_weight_that_is_too_large_for_its_precision_is_refused() -> None:
    """The sums are numbers, their quotient is not."""
    learner = Learner(ps.RDA(gamma=1e-30), "absolute", n_features=1, dtype=np.float32, fit_intercept=False)
    with pytest.raises(DivergedError, match="row 0 of the block"):
        learner.learn(as_block(np.array([[1e10]], np.float32), [1.0]))
    assert np.array_equal(learner.weights()[0], [0.0])


RULES: dict[str, Any] = {
    "rda": (ps.RDA(), None, "squared"),
    "adagrad": (ps.AdaGrad(), ps.L1(0.01), "squared"),
    "ftrl": (ps.FTRLProximal(), ps.L2(0.01), "squared"),
    "sgd": (ps.SGD(0.1), ps.L2(0.01), "squared"),
    "mirror": (ps.MirrorDescent(0.1), ps.ElasticNet(0.01, 0.01), "squared"),
    "adagrad mirror": (ps.AdaGrad(update="mirror"), ps.L1(0.01), "squared"),
    "truncated": (ps.TruncatedGradient(0.1, every=2), ps.L1(0.01), "squared"),
    "passive-aggressive": (ps.PassiveAggressive(), None, "epsilon_insensitive"),
    "arow": (ps.AROW(), None, "hinge"),
    "auto": (ps.AutoFTRL(scale="feature"), None, "squared"),
    "auto, trial": (ps.AutoFTRL(), None, "squared"),
    "auto, global": (ps.AutoFTRL(scale="global"), None, "squared"),
}


def search(name: str, seeds: range) -> None:
    """Learn rows of numbers of any size in 32 bits: what is accepted is finite, what is refused is large in 64 bits."""
    algorithm, penalty, loss = RULES[name]
    refused = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        spread = rng.uniform() ** 2
        X = 10.0 ** (spread * rng.uniform(-38.0, 38.4, (12, 4))) * rng.choice([-1.0, 0.0, 1.0], (12, 4))
        y, c = rng.choice([-1.0, 1.0], 12), 10.0 ** (spread * rng.uniform(-3.0, 38.4, 12))
        if loss != "hinge":
            y *= 10.0 ** (spread * rng.uniform(-38.0, 38.4, 12))
        learner, wide = (Learner(algorithm, loss, penalty, n_features=4, dtype=t) for t in (np.float32, np.float64))
        for i in range(12):
            row = as_block(X[i : i + 1].astype(np.float32), y[i : i + 1], c[i : i + 1])
            before = learner.state_dict()
            try:
                scores = learner.learn(row)
            except DivergedError:
                refused += 1
                assert same(learner.state_dict(), before)
                assert largest(wide, row) > 1e12, (seed, i)  # what is below has a cube that is finite in 32 bits
                break
            assert np.isfinite(scores).all()
            assert all(np.isfinite(array).all() for array in learner.state_dict().values()), (seed, i)
            assert all(np.isfinite(values).all() for values in learner.weights()), (seed, i)
            largest(wide, row)
    assert refused


def largest(learner: Learner, row: RowBlock) -> float:
    """Learn a row; return the largest number of it, of its score, gradients and of the model after it."""
    try:
        scores = learner.learn(row._replace(data=row.data.astype(np.float64)))
    except DivergedError:
        return np.inf
    steep = np.abs(learner.loss.slope(scores, row.y)) * row.c * max(1.0, np.abs(row.data).max(initial=0.0))
    values = [*row[2:], scores, steep, *learner.state_dict().values(), *learner.weights()]
    return max(float(np.max(np.abs(array), initial=0.0)) for array in values)


@pytest.mark.interpreted
@pytest.mark.default_cases(1)
@pytest.mark.parametrize("name", ["adagrad", "sgd", "auto"])
def test_numbers_of_any_size(name: str) -> None:
    search(name, range(60))


@pytest.mark.search
@pytest.mark.parametrize("name", RULES)
def test_numbers_of_any_size_in_every_rule(name: str) -> None:
    search(name, range(2000))


def test_ordinary_rows_are_not_looked_at_closely() -> None:
    """Every row of ordinary data is quiet: looking at each would take time."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 40)) * (rng.random((300, 40)) < 0.5), rng.choice([-1.0, 1.0], 300)
    for name in ("scalar", "auto"):
        learner = LEARNERS[name](growing=True)
        learner.learn(as_block(X, y))
        assert not learner.engine._careful
