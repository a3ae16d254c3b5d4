"""AdaGrad for ranking: Table 2 of Duchi, Hazan and Singer, in kind.

The paper learns 15,000 rankers of images, one a noun, from 2 million images. Here a ranker is learned for each of the
20 newsgroups from 0/1 features of the 10,000 words that most posts have: as many features as the paper's images.

A step takes a random post z1 of the group and a random post z2 of all, and learns that z1 ranks above z2 from the loss
[1 - <x, z1 - z2>]_+ ; a z2 of the same group teaches nothing. To be judged, all test posts of the group are ranked
together with ten times as many others, drawn at random. With p(i) the place of the i-th post of the group,

    average precision = (1/m) sum_i i / p(i)        P@k = the share of the group's posts among the first k

and means over the groups are reported. Rates are those with the highest average precision on a tenth of the posts to
learn, held out. The l1 strength is such that AdaGrad-RDA keeps about as many weights as in the paper; RDA has the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.penalties import L1
from ..core.validation import Array
from ..datasets import load_newsgroups
from ..estimators import StreamRanker
from .contest import DELTA, METHODS, fewest, strength_for
from .experiment import Claim, Experiment, Figure, Report, Table
from .looks import look
from .run import Run
from .texts import body

if TYPE_CHECKING:
    import matplotlib.figure

COMPARED = ("AdaGrad-RDA", "AROW", "PA", "RDA")
PLACES = (1, 3, 5, 10)
WORDS = 10_000
PAPER_STEPS = 100_000  # over some 180 times the rows
STEPS, STEPS_TO_CHOOSE = 20_000, 5_000
SETS, DRAWS = 4, 12
NEGATIVES = 10  # test rows that do not belong, for each that does
KEPT = 0.7267  # of the weights, by AdaGrad-RDA
HELD_OUT = 0.1

# Table 2: average precision, P@1, P@3, P@5, P@10, share of non-zeros.
PAPER = {
    "AdaGrad-RDA": (0.6022, 0.8502, 0.8307, 0.8130, 0.7811, 0.7267),
    "AROW": (0.5813, 0.8597, 0.8369, 0.8165, 0.7816, 1.0000),
    "PA": (0.5581, 0.8455, 0.8184, 0.7957, 0.7576, 1.0000),
    "RDA": (0.5042, 0.7496, 0.7185, 0.6950, 0.6545, 0.8996),
}


class Collection(NamedTuple):
    """Rows in classes, to learn and to test, and a sentence."""

    train: Any
    train_y: Array
    test: Any
    test_y: Array
    n_classes: int
    description: str


class Size(NamedTuple):
    """Steps of a ranker and of one to choose a rate by; sets of rankers; draws of test rows."""

    steps: int
    to_choose: int
    sets: int
    draws: int


class Task(NamedTuple):
    """A class to be ranked, and where its random numbers begin."""

    rows: Collection
    target: int
    size: Size
    seed: int


class Judged(NamedTuple):
    """Average precision, precision at each of PLACES, share of non-zeros, and the rate."""

    average: float
    at: tuple[float, ...]
    nonzero: float
    rate: float


def average_precision(scores: Array, belongs: Array) -> float:
    """Return (1/m) sum_i i / p(i), p(i) being the place of the i-th row that belongs; equal scores keep their order.

    >>> average_precision(np.array([3.0, 2.0, 1.0]), np.array([True, False, True]))      # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    places = np.flatnonzero(belongs[np.argsort(-scores, kind="stable")]) + 1
    return float(np.mean(np.arange(1, len(places) + 1) / places))


def precision_at(k: int, scores: Array, belongs: Array) -> float:
    """Return the share of rows that belong among the k with the highest scores; equal scores keep their order."""
    return float(np.mean(belongs[np.argsort(-scores, kind="stable")[:k]]))


def learned(method: str, rate: float, strength: float, pairs: tuple[Any, Array]) -> StreamRanker:
    """Return a ranker that has learned pairs: rows in pairs, with their relevance."""
    how = METHODS[method]
    X, relevance = pairs
    ranker = StreamRanker(how.make(rate), "ranking_hinge", L1(strength) if how.penalized and strength else None)
    return ranker.fit(X, relevance, qid=np.repeat(np.arange(len(relevance) // 2), 2))


def drawn_pairs(X: Any, belongs: Array, steps: int, random: np.random.Generator) -> tuple[Any, Array]:
    """Return a row of the class and a row of all, `steps` times, with 1 for rows of the class and 0 for others."""
    chosen = np.empty(2 * steps, np.int64)
    chosen[::2] = random.choice(np.flatnonzero(belongs), steps)
    chosen[1::2] = random.integers(len(belongs), size=steps)
    return X[chosen], belongs[chosen].astype(np.float64)


def rank_class(task: Task) -> dict[str, Judged]:
    """Choose rates and the strength for a class, then learn and judge its rankers."""
    random = np.random.default_rng([task.seed, task.target])
    rows, size = task.rows, task.size
    belongs = rows.train_y == task.target
    order = random.permutation(len(belongs))
    held, rest = np.split(order, [round(HELD_OUT * len(order))])
    few = drawn_pairs(rows.train[rest], belongs[rest], size.to_choose, random)

    def loss(method: str, strength: float, rate: float) -> float:
        scores = learned(method, rate, strength, few).predict(rows.train[held])
        return 1.0 - average_precision(scores, belongs[held])

    def best_rate(method: str, strength: float) -> float:
        return fewest(lambda rate: loss(method, strength, rate), METHODS[method].rates)

    pairs = drawn_pairs(rows.train, belongs, size.steps, random)
    free = best_rate("AdaGrad-RDA", 0.0)

    def kept(strength: float) -> float:
        return float(np.mean(learned("AdaGrad-RDA", free, strength, pairs).coef_ != 0.0))

    strength = strength_for(kept, KEPT, 1e-7, 1e-2, steps=7)
    rates = {method: best_rate(method, strength) for method in COMPARED}
    found: dict[str, list[tuple[float, ...]]] = {method: [] for method in COMPARED}
    true = rows.test_y == task.target
    for _ in range(size.sets):
        pairs = drawn_pairs(rows.train, belongs, size.steps, random)
        draws = [_test_rows(true, random) for _ in range(size.draws)]
        for method in COMPARED:
            ranker = learned(method, rates[method], strength, pairs)
            scores, share = ranker.predict(rows.test), float(np.mean(ranker.coef_ != 0.0))
            for chosen in draws:
                s, b = scores[chosen], true[chosen]
                found[method].append((average_precision(s, b), *(precision_at(k, s, b) for k in PLACES), share))
    judged = {}
    for method in COMPARED:
        average, *at, share = np.mean(found[method], axis=0).tolist()
        judged[method] = Judged(average, tuple(at), share, rates[method])
    return judged


def _test_rows(true: Array, random: np.random.Generator) -> Array:
    """Return all rows that belong and ten times as many others, as far as there are, in random order."""
    positive, negative = np.flatnonzero(true), np.flatnonzero(~true)
    others = random.choice(negative, min(NEGATIVES * len(positive), len(negative)), replace=False)
    return random.permutation(np.concatenate((positive, others)))


def newsgroups(folder: Path) -> Collection:
    """Return the posts, without their heads, by the words that most of those to learn have."""
    from sklearn.feature_extraction.text import CountVectorizer

    posts = load_newsgroups(folder)
    words = CountVectorizer(binary=True, max_features=WORDS, dtype=np.float32)
    train = words.fit_transform([body(text) for text in posts.train.texts])
    test = words.transform([body(text) for text in posts.test.texts])
    n = len(posts.train.names)
    description = (
        f"20 Newsgroups, cut by date: {train.shape[0]:,} posts to learn and {test.shape[0]:,} to test, in {n} groups"
    )
    return Collection(train, posts.train.y, test, posts.test.y, n, description)


def small(run: Run) -> Collection:
    """Return scikit-learn's digits: three of its classes are ranked, by which of 64 pixels are dark."""
    from scipy.sparse import csr_matrix
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = run.generator(0).permutation(len(y))
    X, y, cut = csr_matrix((X[order] > 8).astype(np.float32)), y[order], 1000
    description = (
        f"scikit-learn's digits, 64 dark or light pixels: {cut:,} to learn, {len(y) - cut} to test; three classes"
    )
    return Collection(X[:cut], y[:cut], X[cut:], y[cut:], 3, description)


def perform(run: Run) -> Report:
    """Rank every class."""
    if run.quick:
        rows, size = small(run), Size(2000, 500, 1, 2)
    else:
        rows, size = newsgroups(run.folder("20newsgroups_bydate")), Size(STEPS, STEPS_TO_CHOOSE, SETS, DRAWS)
    tasks = [Task(rows, target, size, run.seed) for target in range(rows.n_classes)]
    results = run.map(rank_class, tasks, "classes")
    settings = {
        "features": f"0/1, {rows.train.shape[1]:,}",
        "loss": "ranking hinge",
        "steps": f"{size.steps:,} pairs a ranker (the paper: {PAPER_STEPS:,}), {size.sets} sets of rankers, "
        f"{size.draws} draws of test rows each",
        "rates": f"two per decade, the highest average precision on {HELD_OUT:.0%} held out of the rows to learn after "
        f"{size.to_choose:,} pairs; medians over the classes: "
        + ", ".join(f"{m} {np.median([found[m].rate for found in results]):.2g}" for m in COMPARED),
        "l1": f"for each class such that AdaGrad-RDA keeps about {KEPT:.0%}; RDA has the same",
        "AdaGrad's delta": f"{DELTA:g}",
    }
    return Report([table(results)], [figure(results)], claims(results), settings, rows.description)


Results = Sequence[Mapping[str, Judged]]


def means(results: Results, method: str) -> tuple[float, ...]:
    """Return the means over the classes, in the order of the paper's columns."""
    each = [(found[method].average, *found[method].at, found[method].nonzero) for found in results]
    return tuple(np.mean(each, axis=0).tolist())


def table(results: Results) -> Table:
    """Return Table 2, the paper's rows below ours."""
    rows = []
    for method in COMPARED:
        rows.append((method, *(f"{value:.4f}" for value in means(results, method))))
        rows.append((f"{method} (paper)", *(f"{value:.4f}" for value in PAPER[method])))
    return Table(
        "Precision on test rows, in the mean over the classes",
        ("method", "average precision", *(f"P@{k}" for k in PLACES), "non-zero"),
        rows,
        "The paper's rows are of images: 15,000 classes, 2 million rows to learn. To be compared in kind.",
    )


def figure(results: Results) -> Figure:
    """Return each class's average precisions."""

    def draw(canvas: matplotlib.figure.Figure) -> None:
        axes = canvas.subplots()
        order = np.argsort([found["AdaGrad-RDA"].average for found in results])
        for method in COMPARED:
            y = [results[i][method].average for i in order]
            axes.plot(np.arange(1, len(y) + 1), y, linestyle="", label=method, **look(method))
        axes.set_xlabel("classes, in the order of AdaGrad-RDA's precision")
        axes.set_xticks(range(1, len(order) + 1))
        axes.set_ylabel("average precision")
        axes.legend()

    return Figure(
        "precision",
        "Average precision of each class",
        "One column per class; means over the rankers and draws.",
        draw,
    )


def claims(results: Results) -> list[Claim]:
    """Return what section 7.2 says, beside what was seen."""
    ours = {method: means(results, method) for method in COMPARED}

    def wins(a: str, b: str) -> int:
        return sum(found[a].average > found[b].average for found in results)

    n = len(results)
    others = ("AROW", "PA", "RDA")
    top = ours["AdaGrad-RDA"]
    arow = [k for k, a, d in zip(PLACES, ours["AROW"][1:], top[1:], strict=False) if a > d]
    lead = [a - d for a, d in zip(ours["AROW"][1:-1], top[1:-1], strict=True)]
    return [
        Claim(
            "AdaGrad-RDA has the highest average precision (Table 2).",
            f"{', '.join(f'{m} {ours[m][0]:.4f}' for m in COMPARED)}; it is above "
            + ", ".join(f"{other} in {wins('AdaGrad-RDA', other)}" for other in others)
            + f" of {n} classes.",
            bool(all(top[0] > ours[other][0] for other in others)),
        ),
        Claim(
            "AROW is ahead of AdaGrad-RDA in precision at k <= 10, by less as k grows.",
            f"AROW is ahead at k = {', '.join(map(str, arow)) or 'none of them'}; AROW less AdaGrad-RDA at k = "
            + ", ".join(f"{k}: {d:+.4f}" for k, d in zip(PLACES, lead, strict=True))
            + ".",
            True if len(arow) == len(PLACES) and lead[-1] < lead[0] else (None if arow else False),
        ),
        Claim(
            "At the same strength AdaGrad-RDA keeps fewer weights than RDA, and RDA's precision is by far the lowest.",
            f"AdaGrad-RDA keeps {top[-1]:.3f}, RDA {ours['RDA'][-1]:.3f}; RDA's average precision is "
            f"{ours['RDA'][0]:.4f}, PA's {ours['PA'][0]:.4f}.",
            _both(
                top[-1] < ours["RDA"][-1],
                ours["RDA"][0] < 0.98 * min(ours[method][0] for method in ("AdaGrad-RDA", "AROW", "PA")),
            ),
        ),
    ]


def _both(first: bool, second: bool) -> bool | None:
    return True if first and second else (None if first or second else False)


EXPERIMENT = Experiment(
    "adagrad-ranking",
    "Adaptive subgradients for ranking",
    "Duchi, Hazan and Singer 2010, section 7.2, Table 2",
    "A ranker for each class learns from random pairs, one row of the class and one of all, under the ranking hinge. "
    "Which method puts the rows of the class first? The paper ranks images of 15,000 nouns; here posts of 20 "
    "newsgroups are ranked.",
    "20 Newsgroups (20news-bydate.tar.gz or its folders)",
    perform,
)
