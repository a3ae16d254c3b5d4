"""The experiments of Duchi, Hazan and Singer: features, searches and measures against naive code, and quick runs."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_matrix
from sklearn.metrics import average_precision_score

import proxstream as ps
from proxstream.core.penalties import L1
from proxstream.data.rowblock import as_block
from proxstream.report.drawing import drawn
from proxstream.reproduce import (
    EXPERIMENTS,
    Run,
    adagrad_census as census,
    adagrad_mnist as mnist,
    adagrad_ranking as ranking,
    adagrad_text as text,
    experiment,
)
from proxstream.reproduce.contest import METHODS, Contest, fewest, nonzero, strength_for, wrong
from proxstream.reproduce.products import Products, binning
from proxstream.reproduce.texts import bigrams, generated

from ..examples import examples

pytestmark = pytest.mark.interpreted

OURS = ("adagrad-text", "adagrad-ranking", "adagrad-mnist", "adagrad-census")


# ---- contests


def few_rows(n: int = 120, width: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = (random.random((n, width)) < 0.3).astype(np.float32)
    return X, np.where(X[:, 0] + X[:, 1] - X[:, 2] + random.normal(size=n) > 0.5, 1.0, -1.0)


@pytest.mark.default_cases(1)
@pytest.mark.parametrize("method", METHODS)
def test_mistakes_are_those_of_the_algorithm_as_the_papers_write_it(method: str) -> None:
    X, y = few_rows()
    penalty = L1(0.01) if METHODS[method].penalized else None
    naive = ps.OnlineLearner(METHODS[method].make(0.3), penalty, dim=X.shape[1])
    missed = 0
    for z, label in zip(X.astype(np.float64), y, strict=True):
        missed += bool(label * (z @ naive.point) <= 1e-9)  # 0 up to rounding is no answer
        naive.learn(z, label, "hinge")
    contest = Contest(X.shape[1])
    assert contest.mistakes(method, 0.3, as_block(X, y=y), penalty) == missed / len(y)
    outcome = contest.play(method, 0.3, as_block(X, y=y), as_block(X, y=y), penalty)
    assert outcome.online == missed / len(y)
    assert outcome.nonzero == np.mean(naive.point != 0.0)
    assert outcome.error == np.mean(y * (X @ naive.point) <= 1e-9)


def test_a_method_without_a_penalty_ignores_it() -> None:
    assert Contest(3).learner("PA", 0.1, L1(1.0)).penalty != L1(1.0)
    assert Contest(3).learner("RDA", 0.1, L1(1.0)).penalty == L1(1.0)


def test_a_run_that_diverges_makes_only_mistakes() -> None:
    X = np.array([[1e30], [1e30], [-1e30]], np.float32)
    assert Contest(1).mistakes("RDA", 1e30, as_block(X, y=[1.0, -1.0, 1.0])) == 1.0


@given(st.floats(-6.0, 6.0), st.integers(2, 7))
def test_the_best_rate_is_found_beyond_the_grid(best: float, n: int) -> None:
    rates = [10.0 ** (i / 2) for i in range(n)]
    found = fewest(lambda rate: abs(math.log10(rate) - best), rates, further=20)
    assert abs(math.log10(found) - best) <= 0.25 + 1e-9


def test_a_level_stretch_is_not_followed() -> None:
    asked = []
    assert fewest(lambda rate: asked.append(rate) or 0.5, [1.0, 2.0, 4.0]) == 1.0
    assert sorted(asked) == [0.5, 1.0, 2.0, 4.0]


@given(st.lists(st.floats(1e-4, 1e-1), min_size=5, max_size=40), st.floats(0.05, 0.95))
def test_the_strength_found_is_as_near_as_any_in_a_fine_grid(thresholds: list[float], target: float) -> None:
    def share(strength: float) -> float:
        return sum(threshold > strength for threshold in thresholds) / len(thresholds)

    def distance(strength: float) -> float:
        return abs(math.log(max(share(strength), 1e-12) / target))

    found = strength_for(share, target, 1e-5, 1.0, steps=50)
    # Any share that some strength has lies on one of the two sides of the step that the target falls into.
    assert distance(found) <= min(distance(s) for s in np.geomspace(1e-5, 1.0, 2000)) + 1e-9


@pytest.mark.compiled
def test_the_strength_keeps_the_share_asked_for() -> None:
    X, y = few_rows(800, 200)
    rows = as_block(X, y=y)
    contest = Contest(200)
    strength, rate = contest.strength("RDA", 0.1, rows)
    learner = contest.learner("RDA", rate, L1(strength))
    learner.learn(rows)
    assert nonzero(learner) == pytest.approx(0.1, rel=0.3)


def test_wrong_answers_of_classes() -> None:
    scores = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]])
    assert wrong(scores, np.array([1.0, 1.0, 0.0])).tolist() == [False, True, False]


# ---- text


@given(st.lists(st.lists(st.sampled_from(["red", "Blue", "green", "I", "x9"]), max_size=8), min_size=2, max_size=8))
@examples(50)
def test_bigrams_are_words_and_neighbours_of_two_texts_at_least(words: list[list[str]]) -> None:
    texts = [" ".join(row) for row in [["red"], ["red"], *words]]
    naive = []
    for row in texts:
        kept = [word for word in re.findall(r"\w+", row.lower()) if len(word) > 1]
        naive.append(set(kept) | {f"{a} {b}" for a, b in itertools.pairwise(kept)})
    counts = Counter(feature for row in naive for feature in row)
    names = sorted(feature for feature, count in counts.items() if count > 1)
    assert (bigrams(texts).toarray() == [[name in row for name in names] for row in naive]).all()


def test_a_split_holds_a_quarter_out_and_uses_every_row_once() -> None:
    corpus = generated(np.random.default_rng(0), 200)
    order = np.random.default_rng(1).permutation(200)
    train, test = text.split(text.Trial(corpus, 1, order))
    assert (train.n_rows, test.n_rows) == (150, 50)
    assert np.concatenate((train.y, test.y)).tolist() == np.where(corpus.y == 1, 1.0, -1.0)[order].tolist()
    assert len(train.data) + len(test.data) == corpus.X.nnz


def test_categories_of_a_svmlight_file(tmp_path) -> None:
    lines = [f"{label} {i % 7}:0.5 9:2" for label in (1, 2, 3) for i in range(40 if label < 3 else 5)]
    (tmp_path / "rcv1_train.svm").write_text("\n".join(lines) + "\n")
    corpus = text.corpus(Run(data=tmp_path))
    assert corpus.names == ["1", "2"]  # 5 rows are too few for a category, and stay as others
    assert corpus.y.tolist() == [0] * 40 + [1] * 40 + [-1] * 5
    assert set(corpus.X.data) == {1.0}
    (tmp_path / "rcv1_train.svm").write_text("-1 0:1\n+1 1:1\n")
    assert text.corpus(Run(data=tmp_path)).names == ["1"]
    (tmp_path / "rcv1_train.svm").write_text("+1 0:1\n+1 1:1\n")
    with pytest.raises(ValueError, match=r"rcv1_train.svm: two categories are needed, got the label 1 alone"):
        text.corpus(Run(data=tmp_path))


# ---- census


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0, 7.0, 8.0, 9.0, 11.0]), min_size=1, max_size=60), st.integers(2, 6))
def test_bins(values: list[float], n_bins: int) -> None:
    numbers = np.array(values)
    made = binning(numbers, n_bins)
    codes = made.codes(numbers)
    assert made.size <= n_bins
    assert set(codes) == set(range(made.size))  # no bin is empty
    counts = Counter(values)
    heavy = {value for value, count in counts.items() if count > len(values) / n_bins}
    for value in heavy:
        assert set(numbers[codes == codes[numbers == value][0]]) == {value}  # alone in its bin
    light = [(value, code) for value, code in zip(values, codes, strict=True) if value not in heavy]
    for (a, i), (b, j) in itertools.combinations(light, 2):
        assert (a < b) <= (i <= j)  # bins are stretches


def test_bins_of_different_numbers_have_equally_many_rows() -> None:
    random = np.random.default_rng(0)
    numbers = random.normal(size=1003)
    assert sorted(np.bincount(binning(numbers).codes(numbers))) == [200, 200, 201, 201, 201]
    assert binning(numbers).codes(np.array([-1e9, 1e9])).tolist() == [0, 4]


def table(n: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    columns = {name: random.choice(list("abcd"), size=n).astype(object) for name in ("one", "two", "three")}
    columns["four"] = np.where(columns["one"] == "a", "x", "y").astype(object)  # tells nothing new
    columns["age"] = random.exponential(size=n).round(1)
    return columns


@pytest.mark.parametrize("n_features", [10, 40, 1000])
def test_products_are_the_most_frequent_ones(n_features: int) -> None:
    columns = table(300, 0)
    products = Products(columns, n_features)
    made = products.rows(products.codes(columns)).toarray()
    ages = binning(columns["age"]).codes(columns["age"])
    values = [[(name, columns[name][i]) for name in list(columns)[:4]] + [("age", ages[i])] for i in range(300)]
    alone = Counter(value for row in values for value in row)
    together = Counter(pair for row in values for pair in itertools.combinations(row, 2))
    new = {pair: count for pair, count in together.items() if count < min(alone[pair[0]], alone[pair[1]])}
    room = max(min(n_features - len(alone) - 1, len(new)), 0)
    assert products.n_features == len(alone) + room + 1 == made.shape[1]
    assert set(np.unique(made)) <= {0.0, 1.0}
    assert made[:, -1].all()
    assert (made[:, : len(alone)].sum(axis=1) == 5).all()
    # Each column of a product is the product of two columns of values, and no other product has more rows.
    for place, (a, b) in enumerate(products.pairs):
        assert (made[:, len(alone) + place] == made[:, a] * made[:, b]).all()
    chosen = made[:, len(alone) : -1].sum(axis=0)
    assert sorted(chosen, reverse=True) == sorted(new.values(), reverse=True)[:room]


def test_a_category_that_was_not_known_has_no_features() -> None:
    columns = table(300, 0)
    products = Products(columns, 60)
    row = {name: column[:1].copy() for name, column in columns.items()}
    before = products.rows(products.codes(row)).toarray()[0]
    row["two"] = np.array(["never seen"], dtype=object)
    after = products.rows(products.codes(row)).toarray()[0]
    value = int(products.codes({name: column[:1] for name, column in columns.items()})[0, 1])
    theirs = [value, *(products.n_values + i for i, pair in enumerate(products.pairs) if value in pair)]
    expected = before.copy()
    expected[theirs] = 0.0
    assert before[theirs].sum() > 1
    assert after.tolist() == expected.tolist()


def test_one_half_of_the_census_is_cut_in_two_and_both_are_taken_as_they_are(tmp_path) -> None:
    random = np.random.default_rng(0)
    kinds = {0: 90, 5: 2, 16: 2, 17: 2, 18: 2, 24: 1000, 30: 7, 39: 53}  # columns of numbers, and below which

    def written(n: int) -> str:
        cells = [[str(random.integers(kinds.get(j, 3))) for j in range(41)] for _ in range(n)]
        return "".join(
            ", ".join(row) + (", 50000+.\n" if i % 4 == 0 else ", - 50000.\n") for i, row in enumerate(cells)
        )

    (tmp_path / "census-income.test").write_text(written(60))
    people = census.census(Run(data=tmp_path))
    assert (len(people.train), len(people.test)) == (40, 20)
    assert np.sum(people.train_y > 0) + np.sum(people.test_y > 0) == 15
    assert "cut at random into 40 to learn" in people.description
    (tmp_path / "census-income.data").write_text(written(80))
    people = census.census(Run(data=tmp_path))
    assert (len(people.train), len(people.test)) == (80, 60)


# ---- digits


def test_kernels() -> None:
    random = np.random.default_rng(0)
    images, support = random.random((7, 20)).astype(np.float32), random.random((5, 20)).astype(np.float32)
    naive = [
        [math.exp(-sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / (2.0 * 1.5**2)) for b in support.tolist()]
        for a in images.tolist()
    ]
    made = mnist.kernels(images, support, 1.5)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, naive, rtol=1e-5)
    np.testing.assert_allclose(np.diag(mnist.kernels(images, images, 1.5)), 1.0, rtol=1e-5)
    rows = mnist.block(made, np.arange(7))
    assert rows.check() == 5
    assert (csr_matrix((rows.data, rows.indices, rows.indptr)).toarray() == made).all()


@pytest.mark.exhaustive
def test_images_in_blocks_are_learned_as_the_paper_tells() -> None:
    random = np.random.default_rng(0)
    y = random.integers(10, size=1200)
    images = (random.random((10, 12))[y] + 0.3 * random.random((1200, 12))).astype(np.float32)
    digits = mnist.Digits(images, y, images[:50], y[:50], images[:8], "")
    variant = mnist.Variant("AdaGrad-RDA", "l1/l2", 1e-3)
    course = mnist.run_variant(mnist.Task(variant, 0.3, digits, 1.0))
    Z = mnist.kernels(images, images[:8], 1.0).astype(np.float64)
    naive = ps.OnlineLearner(METHODS["AdaGrad-RDA"].make(course.rate), ps.GroupL2(1e-3), dim=(8, 10))
    missed = []
    for z, label in zip(Z, y, strict=True):
        missed.append(np.argmax(z @ naive.point) != label)
        naive.learn(z, label, "multiclass_hinge")
    assert course.mistakes[0] == 0
    np.testing.assert_allclose(
        course.mistakes[1:], [sum(missed[:1000]), sum(missed)], atol=3
    )  # float32 may break a tie
    assert course.nonzero == np.mean((naive.point != 0.0).any(axis=1))
    assert abs(course.error - np.mean(np.argmax(Z[:50] @ naive.point, axis=1) != y[:50])) <= 0.02


# ---- ranking


@given(st.lists(st.booleans(), min_size=1, max_size=30).filter(any), st.randoms(use_true_random=False))
def test_average_precision_and_precision_at(belongs: list[bool], random) -> None:
    scores = np.array(random.sample(range(1000), len(belongs)), np.float64)  # no two alike
    true = np.array(belongs)
    assert ranking.average_precision(scores, true) == pytest.approx(average_precision_score(true, scores))
    listed = [b for _, b in sorted(zip(-scores, belongs, strict=True))]
    places = [place for place, b in enumerate(listed, 1) if b]
    assert ranking.average_precision(scores, true) == pytest.approx(
        sum(i / place for i, place in enumerate(places, 1)) / len(places)
    )
    for k in (1, 3):
        if len(listed) >= k:
            assert ranking.precision_at(k, scores, true) == pytest.approx(sum(listed[:k]) / k)


def test_a_ranker_learns_differences_of_pairs_that_differ() -> None:
    X, y = few_rows(60, 12)
    belongs = y > 0
    pairs, relevance = ranking.drawn_pairs(csr_matrix(X), belongs, 200, np.random.default_rng(0))
    assert (relevance[::2] == 1.0).all()
    assert 0.0 < np.mean(relevance[1::2]) < 1.0
    naive = ps.OnlineLearner(METHODS["AdaGrad-RDA"].make(0.1), L1(1e-3), dim=12)
    Z = pairs.toarray().astype(np.float64)
    for first, second, same in zip(Z[::2], Z[1::2], relevance[1::2], strict=True):
        if not same:
            naive.learn(first - second, 1.0, "ranking_hinge")
    ranker = ranking.learned("AdaGrad-RDA", 0.1, 1e-3, (pairs, relevance))
    np.testing.assert_allclose(ranker.coef_, naive.point, rtol=1e-4, atol=1e-5)
    assert ranker.t_ == np.sum(relevance[1::2] == 0.0)


def test_test_rows_are_all_that_belong_and_ten_times_as_many() -> None:
    true = np.arange(500) < 20
    chosen = ranking._test_rows(true, np.random.default_rng(0))
    assert len(chosen) == len(set(chosen)) == 220
    assert true[chosen].sum() == 20
    assert len(ranking._test_rows(np.arange(50) < 20, np.random.default_rng(0))) == 50


# ---- all


@pytest.mark.parametrize("name", OURS)
@pytest.mark.exhaustive
def test_quick_runs(name: str) -> None:
    assert name in EXPERIMENTS
    one = experiment(name)
    assert one.name == name
    report = one.perform(Run(quick=True, jobs=1))
    assert min(len(report.tables), len(report.figures), len(report.claims), len(report.data)) > 0
    for shown in report.tables:
        assert "paper" in str(shown)
    for claim in report.claims:
        assert "nan" not in claim.ours
    for figure in report.figures:
        assert len(drawn(figure).png) > 2000
    if name == "adagrad-text":
        share = {row[0]: row[5] for row in report.tables[1].rows}
        assert 0.05 < share["RDA"] < 0.2
        assert share["RDA"] < share["FOBOS"] < share["PA"]
    if name == "adagrad-census":
        errors = {row[0]: float(row[-2]) for row in report.tables[0].rows}
        assert max(errors.values()) < float(report.settings["error of always saying no"])
    if name == "adagrad-mnist":
        assert all(row[1] < 0.3 for row in report.tables[0].rows)
    if name == "adagrad-ranking":
        assert all(float(row[1]) > 0.5 for row in report.tables[0].rows[::2])  # at random: 0.1


@pytest.mark.exhaustive
def test_one_seed_is_one_result() -> None:
    first, second = (text.perform(Run(quick=True, jobs=1, seed=3)).tables for _ in range(2))
    assert first == second
