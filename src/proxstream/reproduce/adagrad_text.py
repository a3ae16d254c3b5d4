"""AdaGrad on text: Table 1 of Duchi, Hazan and Singer, in kind.

Posts are rows of words and of pairs of neighbouring words, 1 where they occur. For each category a binary predictor
tells its posts from all others. Four times a quarter of the posts is held out and one pass goes over the rest:

    1. the strength of the l1 penalty at which RDA, at its best rate, keeps a tenth of the weights;
    2. the rate of each method with this strength, by the fewest mistakes while learning; PA and AROW take no penalty;
    3. the error on the held-out posts, and the share of weights that are not zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._checks import Array
from ..blocks import RowBlock, as_block
from ..datasets import load_newsgroups, load_text
from ..penalties import L1
from .contest import DELTA, METHODS, Contest, Outcome
from .experiment import Claim, Experiment, Figure, Report, Table
from .render import look
from .run import Run

if TYPE_CHECKING:
    import matplotlib.figure

KEPT = 0.1  # of the weights, by RDA
HELD_OUT = 0.25
REPETITIONS = 4
LEAST_ROWS = 30  # that a category of a file needs, so that a quarter of them tells something
EMPTY_LINE = re.compile(r"(\r?\n|\t)\1")
ADAPTIVE, PLAIN = ("AdaGrad-RDA", "AdaGrad-FOBOS", "AROW"), ("RDA", "FOBOS", "PA")

# Table 1: error, and share of non-zeros where there is a penalty.
PAPER: dict[str, dict[str, tuple[float, float | None]]] = {
    "ECAT": {
        "RDA": (0.051, 0.099),
        "FOBOS": (0.058, 0.194),
        "AdaGrad-RDA": (0.044, 0.086),
        "AdaGrad-FOBOS": (0.044, 0.238),
        "PA": (0.059, None),
        "AROW": (0.049, None),
    },
    "CCAT": {
        "RDA": (0.064, 0.123),
        "FOBOS": (0.111, 0.226),
        "AdaGrad-RDA": (0.053, 0.105),
        "AdaGrad-FOBOS": (0.053, 0.276),
        "PA": (0.107, None),
        "AROW": (0.061, None),
    },
    "GCAT": {
        "RDA": (0.046, 0.092),
        "FOBOS": (0.056, 0.183),
        "AdaGrad-RDA": (0.040, 0.080),
        "AdaGrad-FOBOS": (0.040, 0.225),
        "PA": (0.066, None),
        "AROW": (0.044, None),
    },
    "MCAT": {
        "RDA": (0.037, 0.074),
        "FOBOS": (0.056, 0.146),
        "AdaGrad-RDA": (0.035, 0.063),
        "AdaGrad-FOBOS": (0.034, 0.176),
        "PA": (0.053, None),
        "AROW": (0.039, None),
    },
}


class Corpus(NamedTuple):
    """0/1 rows, the category of each, and the categories' names."""

    X: Any
    y: Array
    names: Sequence[str]
    told: str


class Trial(NamedTuple):
    """A category against the rest, on one split."""

    corpus: Corpus
    category: int
    order: Array


class Result(NamedTuple):
    """The strength, and what each method did with it; `free` without a penalty."""

    strength: float
    outcomes: Mapping[str, Outcome]
    free: Mapping[str, Outcome]


def bigrams(texts: Sequence[str]) -> Any:
    """Return 0/1 rows (CSR, float32) of the words of two characters or more and of the pairs of neighbours among them.

    What occurs in one text alone is left out: it could never help to predict another.

    >>> bigrams(["red green", "green blue", "red green"]).toarray()
    array([[1., 1., 1.],
           [1., 0., 0.],
           [1., 1., 1.]], dtype=float32)
    """
    from sklearn.feature_extraction.text import CountVectorizer

    made = CountVectorizer(binary=True, ngram_range=(1, 2), min_df=2, dtype=np.float32).fit_transform(texts).tocsr()
    made.sort_indices()
    return made


def body(post: str) -> str:
    """Return what follows a post's head, that is its first empty line; some copies have tabs for ends of lines.

    >>> body("From: a\\nSubject: b\\n\\nWords\\n\\nand words"), body("From: a\\t\\tWords")
    ('Words\\n\\nand words', 'Words')
    """
    head = EMPTY_LINE.search(post)
    return post[head.end() :] if head else post


def newsgroups(folder: Path) -> Corpus:
    """Return all posts, without their heads, in the seven top-level groups."""
    posts = load_newsgroups(folder)
    texts = [body(text) for part in (posts.train, posts.test) for text in part.texts]
    group = np.concatenate([posts.train.y, posts.test.y])
    tops = [name.partition(".")[0] for name in posts.train.names]
    names = sorted(set(tops))
    X = bigrams(texts)
    told = f"20 Newsgroups, {len(texts):,} posts in {len(names)} top-level groups, {X.shape[1]:,} features"
    return Corpus(X, np.array([names.index(top) for top in tops])[group], names, told)


def from_file(file: Path) -> Corpus:
    """Return the rows of an svmlight file, each value that is not 0 as 1; its labels are the categories.

    Of two labels one category is made, the larger label's.
    """
    rows = load_text(file, dtype=np.float32)
    X = rows.X.copy()
    X.eliminate_zeros()
    X.data[:] = 1.0
    labels, y, counts = np.unique(rows.y, return_inverse=True, return_counts=True)
    if len(labels) < 2:
        raise ValueError(f"{file}: two categories are needed, got the label {labels[0]:g} alone")
    chosen = [1] if len(labels) == 2 else [i for i in range(len(labels)) if counts[i] >= LEAST_ROWS]
    new = np.full(len(labels), -1)
    new[chosen] = np.arange(len(chosen))
    names = [f"{labels[i]:g}" for i in chosen]
    told = f"{file.name}, {len(y):,} rows, {X.shape[1]:,} features, {len(names)} categories"
    return Corpus(X, new[y], names, told)


def generated(random: np.random.Generator, n_texts: int = 1500) -> Corpus:
    """Return texts of three groups. Words follow Zipf's law; a tenth of them are the group's own."""
    names, vocabulary, length = ("a", "b", "c"), 3000, 40
    y = random.integers(len(names), size=n_texts)
    chances = 1.0 / np.arange(1, vocabulary + 1)
    words = random.choice(vocabulary, size=(n_texts, length), p=chances / chances.sum())
    own = random.random((n_texts, length)) < 0.1
    theirs = vocabulary + 300 * y[:, None] + random.geometric(0.02, size=(n_texts, length)).clip(max=299)
    X = bigrams([" ".join(f"w{word}" for word in row) for row in np.where(own, theirs, words)])
    return Corpus(X, y, names, f"generated texts, {n_texts:,} in {len(names)} groups, {X.shape[1]:,} features")


def corpus(run: Run) -> Corpus:
    """Return the texts that the run has: RCV1 or else the newsgroups; for a quick look, generated ones."""
    if run.quick:
        return generated(run.generator(0))
    files = sorted(file for file in run.folder("rcv1").glob("rcv1*") if file.is_file())
    if files:
        return from_file(files[0])
    return newsgroups(run.folder("20newsgroups_bydate"))


def split(trial: Trial) -> tuple[RowBlock, RowBlock]:
    """Return the rows to learn and those held out, with the labels +1 in the category and -1 elsewhere."""
    X, y, order = trial.corpus.X, np.where(trial.corpus.y == trial.category, 1.0, -1.0), trial.order
    cut = len(order) - round(HELD_OUT * len(order))
    train, test = order[:cut], order[cut:]
    return as_block(X[train], y=y[train]), as_block(X[test], y=y[test])


def tried(trial: Trial) -> Result:
    """Run the three steps of one trial."""
    train, test = split(trial)
    contest = Contest(trial.corpus.X.shape[1])
    free = {
        name: contest.play(name, contest.best_rate(name, train), train, test)
        for name in METHODS
        if METHODS[name].penalized
    }
    strength = contest.strength("RDA", KEPT, train)
    outcomes = {}
    for name in METHODS:
        rate = contest.best_rate(name, train, L1(strength))
        outcomes[name] = contest.play(name, rate, train, test, L1(strength))
    return Result(strength, outcomes, free)


def perform(run: Run) -> Report:
    """Run all categories and splits."""
    texts = corpus(run)
    repetitions = 1 if run.quick else REPETITIONS
    trials = [
        Trial(texts, category, run.generator(1, repetition).permutation(len(texts.y)))
        for category in range(len(texts.names))
        for repetition in range(repetitions)
    ]
    found = run.map(tried, trials, "categories and splits")
    results = {name: found[i * repetitions : (i + 1) * repetitions] for i, name in enumerate(texts.names)}
    settings = {
        "features": "0/1, words and pairs of neighbouring words that occur in two texts at least; words are not "
        "stemmed",
        "loss": "hinge; no intercept",
        "repetitions": f"{repetitions}, each with {HELD_OUT:.0%} of the rows held out, one pass over the rest",
        "rates": "two a decade, the fewest mistakes during the pass; the grid goes on where the best is at its end",
        "l1": f"such that RDA keeps about {KEPT:.0%}: "
        + ", ".join(f"{name} {np.mean([r.strength for r in results[name]]):.1e}" for name in results),
        "AdaGrad's delta": f"{DELTA:g}",
    }
    return Report(tables(results), figures(results), claims(results), settings, texts.told)


Results = Mapping[str, Sequence[Result]]


def error(results: Results, category: str, method: str) -> float:
    """Return the mean error over the repetitions."""
    return float(np.mean([result.outcomes[method].error for result in results[category]]))


def kept_share(results: Results, category: str, method: str) -> float:
    """Return the mean share of non-zeros over the repetitions."""
    return float(np.mean([result.outcomes[method].nonzero for result in results[category]]))


def tables(results: Results) -> list[Table]:
    """Return Table 1 with our categories, and the means over categories beside the paper's."""
    each = [
        (
            name,
            *(f"{error(results, name, method):.3f} ({kept_share(results, name, method):.3f})" for method in METHODS),
        )
        for name in results
    ]
    printed = [
        (
            f"{name} (paper)",
            *(f"{e:.3f}" + ("" if share is None else f" ({share:.3f})") for e, share in row.values()),
        )
        for name, row in PAPER.items()
    ]
    ours = {m: np.mean([error(results, name, m) for name in results]) for m in METHODS}
    share = {m: np.mean([kept_share(results, name, m) for name in results]) for m in METHODS}
    theirs = {m: np.mean([row[m][0] for row in PAPER.values()]) for m in METHODS}
    shares = {m: [row[m][1] for row in PAPER.values()] for m in METHODS}
    means = [
        (
            m,
            float(ours[m]),
            float(theirs[m]),
            float(ours[m] / ours["RDA"]),
            float(theirs[m] / theirs["RDA"]),
            float(share[m]),
            float(np.mean([s for s in shares[m] if s is not None])) if shares[m][0] is not None else None,
        )
        for m in METHODS
    ]
    return [
        Table(
            "Error on held-out texts, and in brackets the share of weights that are not zero",
            ("category", *METHODS),
            [*each, *printed],
            "The paper's rows are of RCV1, some 800,000 news with 2 million features: other data, to be compared in "
            "kind.",
        ),
        Table(
            "Means over the categories",
            ("method", "error", "paper", "error / RDA's", "paper", "non-zero", "paper"),
            means,
        ),
    ]


def figures(results: Results) -> list[Figure]:
    """Return errors by category, and errors against shares of non-zeros."""

    def by_category(canvas: matplotlib.figure.Figure) -> None:
        axes = canvas.subplots()
        names = sorted(results, key=lambda name: error(results, name, "RDA"))
        for i, method in enumerate(METHODS):
            x = np.arange(len(names)) + (i - (len(METHODS) - 1) / 2) * 0.1
            every = [[r.outcomes[method].error for r in results[name]] for name in names]
            for place, points in zip(x, every, strict=True):
                axes.plot([place] * 2, [min(points), max(points)], color=look(method)["color"], linewidth=1)
            axes.plot(x, [np.mean(points) for points in every], linestyle="", label=method, **look(method))
        axes.set_xticks(range(len(names)), names)
        axes.set_ylabel("error on held-out texts")
        axes.set_ylim(bottom=0)
        axes.legend(ncols=3, loc="upper left")

    def by_share(canvas: matplotlib.figure.Figure) -> None:
        axes = canvas.subplots()
        for method, how in METHODS.items():
            if how.penalized:
                x = [kept_share(results, name, method) for name in results]
                y = [error(results, name, method) / error(results, name, "RDA") for name in results]
                axes.plot(x, y, linestyle="", label=method, **look(method))
        axes.axhline(1.0, color="0.6", linewidth=1, zorder=0)
        axes.set_xlabel("share of weights that are not zero")
        axes.set_ylabel("error / RDA's error")
        axes.set_xlim(left=0)
        axes.legend()

    return [
        Figure(
            "errors",
            "Errors by category",
            "Means over the repetitions; lines reach from the lowest to the highest.",
            by_category,
        ),
        Figure(
            "sparsity",
            "What the same l1 penalty leaves",
            "One point a category. Left is sparser, low is better.",
            by_share,
        ),
    ]


def claims(results: Results) -> list[Claim]:
    """Return what section 7.1 says, beside what was seen."""
    names = list(results)

    def wins(a: str, b: str) -> int:
        return sum(error(results, name, a) < error(results, name, b) for name in names)

    def means(method: str) -> float:
        return float(np.mean([error(results, name, method) for name in names]))

    worst_adaptive = sum(
        max(error(results, name, m) for m in ADAPTIVE) < min(error(results, name, m) for m in PLAIN) for name in names
    )
    better_each = {m: min(wins(m, p) for p in PLAIN) for m in ADAPTIVE}
    arow = [wins(m, "AROW") for m in ("AdaGrad-RDA", "AdaGrad-FOBOS")]
    shares = {m: np.mean([kept_share(results, name, m) for name in names]) for m in METHODS}
    sparser = sum(kept_share(results, n, "AdaGrad-RDA") < kept_share(results, n, "RDA") for n in names)
    free = {m: np.mean([r.free[m].error for n in names for r in results[n]]) for m in ("RDA", "FOBOS")}
    return [
        Claim(
            "The adaptive methods (AdaGrad, AROW) have far lower errors than the others, in every category (Table 1).",
            f"All three are below all of RDA, FOBOS and PA in {worst_adaptive} of {len(names)} categories; "
            + ", ".join(f"{m} is below each of them in {better_each[m]}" for m in ADAPTIVE)
            + f". Mean errors: {', '.join(f'{m} {means(m):.3f}' for m in METHODS)}.",
            _verdict(worst_adaptive, len(names)),
            "" if worst_adaptive == len(names) else WHY_CLOSE,
        ),
        Claim(
            "AdaGrad-RDA and AdaGrad-FOBOS have lower errors than AROW in all categories.",
            f"AdaGrad-RDA in {arow[0]} and AdaGrad-FOBOS in {arow[1]} of {len(names)}.",
            _verdict(min(arow), len(names)),
            "" if min(arow) == len(names) else WHY_AROW,
        ),
        Claim(
            "At the same l1 strength dual averaging keeps half as many weights as FOBOS, or fewer.",
            f"RDA keeps {shares['RDA']:.3f}, FOBOS {shares['FOBOS']:.3f}; with AdaGrad {shares['AdaGrad-RDA']:.3f} and "
            f"{shares['AdaGrad-FOBOS']:.3f}.",
            bool(2.0 * shares["RDA"] <= shares["FOBOS"] and 2.0 * shares["AdaGrad-RDA"] <= shares["AdaGrad-FOBOS"]),
        ),
        Claim(
            "AdaGrad-RDA keeps somewhat fewer weights than RDA, with a lower error.",
            f"Fewer in {sparser} of {len(names)} categories: {shares['AdaGrad-RDA']:.3f} against {shares['RDA']:.3f}.",
            _verdict(sparser, len(names)),
        ),
        Claim(
            "Without a penalty RDA and FOBOS have about the same errors as with it.",
            f"RDA {free['RDA']:.3f} without and {means('RDA'):.3f} with, FOBOS {free['FOBOS']:.3f} and "
            f"{means('FOBOS'):.3f}.",
            bool(all(abs(free[m] / means(m) - 1.0) < 0.1 for m in free)),
        ),
    ]


WHY_CLOSE = (
    "The corpus has a fiftieth of RCV1's rows: after one short pass no method has converged, and the lead of "
    "per-feature steps, which grows with the number of times that rare features come up, is smaller."
)
WHY_AROW = (
    "AROW takes no penalty. With a penalty that leaves a tenth of the weights on so few rows, features that came up "
    "once or twice are cut away, which costs AdaGrad some of the accuracy that AROW keeps."
)


def _verdict(count: int, of: int) -> bool | None:
    """Return True for all, False for none or a minority, None in between."""
    return True if count == of else (None if 2 * count > of else False)


EXPERIMENT = Experiment(
    "adagrad-text",
    "Adaptive subgradients on text",
    "Duchi, Hazan and Singer 2010, section 7.1, Table 1",
    "Six online methods learn to tell one category of texts from the rest, in one pass over 0/1 features of words and "
    "pairs of words under the hinge loss. Four take an l1 penalty, of the same strength, which is set so that plain "
    "dual averaging keeps a tenth of its weights. Rare words tell much and come up seldom: a step a feature should "
    "help.",
    "20 Newsgroups (20news-bydate.tar.gz or its folders), or a svmlight file named rcv1*, whose labels are the "
    "categories",
    perform,
)
