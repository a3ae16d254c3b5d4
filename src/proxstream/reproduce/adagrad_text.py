"""AdaGrad on text: Table 1 of Duchi, Hazan and Singer, in kind.

Posts are rows of words and of pairs of neighbouring words, 1 where they occur. For each category a binary predictor
separates its posts from all others. Four times a quarter of the posts is held out and one pass goes over the rest:

    1. the strength of the l1 penalty at which RDA, at its best rate, keeps a tenth of the weights;
    2. the rate of each method with this strength, by the fewest mistakes while learning; PA and AROW take no penalty;
    3. the error on the held-out posts, and the share of weights that are not zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.penalties import L1
from ..core.validation import Array
from ..data.rowblock import RowBlock, as_block
from .contest import DELTA, METHODS, Contest, Outcome, most
from .experiment import Claim, Experiment, Figure, Report, Table
from .looks import look
from .run import Run
from .texts import Corpus, from_file, generated, newsgroups

if TYPE_CHECKING:
    import matplotlib.figure

KEPT = 0.1  # of the weights, by RDA
HELD_OUT = 0.25
REPETITIONS = 4
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
    strength, plain = contest.strength("RDA", KEPT, train)
    outcomes = {}
    for name in METHODS:
        rate = plain if name == "RDA" else contest.best_rate(name, train, L1(strength))
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
    rows = len(texts.y) - round(HELD_OUT * len(texts.y))
    settings = {
        "features": "0/1, words and pairs of neighbouring words that occur in two texts at least; words are not "
        "stemmed",
        "loss": "hinge; no intercept",
        "repetitions": f"{repetitions}, each with {HELD_OUT:.0%} of the rows held out, one pass over the rest",
        "rates": "two per decade, the fewest mistakes during the pass; the grid grows where the best is at its end",
        "l1": f"such that RDA keeps about {KEPT:.0%}: "
        + ", ".join(f"{name} {np.mean([r.strength for r in results[name]]):.1e}" for name in results),
        "AdaGrad's delta": f"{DELTA:g}",
    }
    return Report(tables(results), figures(results), claims(results, rows), settings, texts.description)


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


def claims(results: Results, rows: int) -> list[Claim]:
    """Return what section 7.1 says, beside what was seen; `rows` are those of a pass."""
    names, of = list(results), len(results)
    errors = {m: np.array([error(results, name, m) for name in names]) for m in METHODS}
    shares = {m: np.array([kept_share(results, name, m) for name in names]) for m in METHODS}
    free = {
        m: np.array([np.mean([r.free[m].error for r in results[name]]) for name in names])
        for m in METHODS
        if METHODS[m].penalized
    }
    best_plain = np.min([errors[m] for m in PLAIN], axis=0)
    ahead = {m: errors[m] < best_plain for m in ADAPTIVE}
    all_ahead = np.all(list(ahead.values()), axis=0)
    behind = [
        f"{m} in {names[i]} ({errors[m][i]:.4f} against {best_plain[i]:.4f})"
        for m in ADAPTIVE
        for i in np.flatnonzero(~ahead[m])
    ]
    ada = ("AdaGrad-RDA", "AdaGrad-FOBOS")
    below = {m: int(np.sum(errors[m] < errors["AROW"])) for m in ada}
    below_free = {m: int(np.sum(free[m] < errors["AROW"])) for m in ada}
    sparser = int(np.sum(shares["AdaGrad-RDA"] < shares["RDA"]))
    mean = {m: float(np.mean(errors[m])) for m in METHODS}
    kept = {m: float(np.mean(shares[m])) for m in METHODS}
    without = {m: float(np.mean(free[m])) for m in free}
    whole = np.mean([r.strength * rows for name in names for r in results[name]])
    cut = (
        f"Strength times rows of a pass is {whole:.1f} in the mean: a feature is kept if its gradients, each 0, -1 or "
        "+1, sum to more. With so few rows the penalty that leaves a tenth also cuts features that help."
    )
    return [
        Claim(
            "The adaptive methods (AdaGrad, AROW) have far lower errors than the others, in every category (Table 1).",
            f"All three are below all of RDA, FOBOS and PA in {int(np.sum(all_ahead))} of {of} categories"
            + (f", but not {', '.join(behind)}" if behind else "")
            + f". Mean errors: {', '.join(f'{m} {mean[m]:.4f}' for m in METHODS)}.",
            most(int(np.sum(all_ahead)), of),
        ),
        Claim(
            "AdaGrad-RDA and AdaGrad-FOBOS have lower errors than AROW in all categories.",
            f"AdaGrad-RDA in {below[ada[0]]} and AdaGrad-FOBOS in {below[ada[1]]} of {of}; without a penalty in "
            f"{below_free[ada[0]]} and {below_free[ada[1]]}. Mean errors: AROW {mean['AROW']:.4f}, with the penalty "
            f"{mean[ada[0]]:.4f} and {mean[ada[1]]:.4f}, without {without[ada[0]]:.4f} and {without[ada[1]]:.4f}.",
            most(min(below.values()), of),
            cut + " AROW has no penalty." if min(below.values()) < min(below_free.values()) else "",
        ),
        Claim(
            "At the same l1 strength dual averaging keeps half as many weights as FOBOS, or fewer.",
            f"RDA keeps {kept['RDA']:.3f}, FOBOS {kept['FOBOS']:.3f}; with AdaGrad {kept[ada[0]]:.3f} and "
            f"{kept[ada[1]]:.3f}.",
            bool(2.0 * kept["RDA"] <= kept["FOBOS"] and 2.0 * kept[ada[0]] <= kept[ada[1]]),
        ),
        Claim(
            "AdaGrad-RDA keeps somewhat fewer weights than RDA, with a lower error.",
            f"Fewer in {sparser} of {of} categories, {kept[ada[0]]:.3f} against {kept['RDA']:.3f} in the mean; a lower "
            f"error in {int(np.sum(errors[ada[0]] < errors['RDA']))}.",
            most(min(sparser, int(np.sum(errors[ada[0]] < errors["RDA"]))), of),
        ),
        Claim(
            "Without a penalty RDA and FOBOS have about the same errors as with it.",
            f"RDA {without['RDA']:.4f} without and {mean['RDA']:.4f} with, FOBOS {without['FOBOS']:.4f} and "
            f"{mean['FOBOS']:.4f}.",
            bool(all(abs(without[m] / mean[m] - 1.0) < 0.1 for m in ("RDA", "FOBOS"))),
            cut if without["RDA"] < 0.9 * mean["RDA"] else "",
        ),
    ]


EXPERIMENT = Experiment(
    "adagrad-text",
    "Adaptive subgradients on text",
    "Duchi, Hazan and Singer 2010, section 7.1, Table 1",
    "Six online methods learn to separate one category of texts from the others, in one pass over 0/1 features of "
    "words and pairs of words under the hinge loss. Four take an l1 penalty, of the same strength, which is set so "
    "that plain dual averaging keeps a tenth of its weights. Rare words are informative: a separate step per feature "
    "should help.",
    "20 Newsgroups (20news-bydate.tar.gz or its folders), or a svmlight file named rcv1*, whose labels are the "
    "categories",
    perform,
)
