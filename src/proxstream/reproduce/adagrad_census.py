"""AdaGrad on census data: Table 4 and Figure 6 of Duchi, Hazan and Singer.

Who earns more than 50,000 a year? About 4,000 features are 0 or 1: bins, categories and products of two (see
`products`). Ten times the rows to learn are shuffled; each method goes over them once, and is judged on the test rows
when it has seen 5, 10, 25, 50 and 100 per cent. The l1 strength is set so that RDA keeps as many weights after a full
pass as the paper's does, one in twenty, and is the same for AdaGrad-RDA.

Rates are chosen by the fewest mistakes in a pass over the rows to learn. The paper takes the first 10,000 of them; with
so few, of which 600 have the label +1, and an l1 penalty, the best seems to be the rate that never says yes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.penalties import L1
from ..core.validation import Array
from ..data.rowblock import as_block
from ..datasets import load_census
from .contest import DELTA, Contest, most, nonzero, wrong
from .experiment import Claim, Experiment, Figure, Report, Table
from .looks import look
from .products import BINS, Products
from .run import Run

if TYPE_CHECKING:
    import matplotlib.figure

PROPORTIONS = (0.05, 0.1, 0.25, 0.5, 1.0)
N_FEATURES = 4001
KEPT = 0.05  # of the weights, by RDA with l1 after a full pass
SHUFFLES = 10
FIRST = 10_000  # rows that the paper chooses rates on
LEARNED = 2 / 3  # of the rows where one half of the data alone is there: the paper's proportion

# How a variant is called -> method, and whether it takes the penalty.
VARIANTS = {
    "AROW": ("AROW", False),
    "PA": ("PA", False),
    "RDA": ("RDA", False),
    "Ada-RDA": ("AdaGrad-RDA", False),
    "l1 RDA": ("RDA", True),
    "l1 Ada-RDA": ("AdaGrad-RDA", True),
}

# Table 4: errors, and shares of non-zeros.
PAPER = {
    "AROW": (0.049, 0.048, 0.046, 0.045, 0.044),
    "PA": (0.055, 0.052, 0.050, 0.049, 0.048),
    "RDA": (0.055, 0.054, 0.052, 0.051, 0.050),
    "Ada-RDA": (0.053, 0.051, 0.049, 0.048, 0.047),
    "l1 RDA": (0.056, 0.054, 0.053, 0.052, 0.051),
    "l1 Ada-RDA": (0.052, 0.051, 0.050, 0.050, 0.049),
}
PAPER_NONZERO = {
    "l1 RDA": (0.075, 0.066, 0.058, 0.053, 0.050),
    "l1 Ada-RDA": (0.062, 0.053, 0.044, 0.040, 0.037),
}


class People(NamedTuple):
    """The numbers of the values of the rows to learn and to test on, their labels, and a sentence."""

    products: Products
    train: Array
    train_y: Array
    test: Array
    test_y: Array
    description: str


class Shuffle(NamedTuple):
    """One pass: the people, the order, and for each variant its rate; the strength of l1."""

    people: People
    order: Array
    rates: Mapping[str, float]
    strength: float


class Seen(NamedTuple):
    """Errors and shares of non-zeros after each proportion."""

    errors: list[float]
    nonzeros: list[float]


def census(run: Run) -> People:
    """Return the official halves, or where there is one alone, two parts of it cut at random."""
    found = load_census(run.folder("kdd_census_income"))
    if found.train is not None and found.test is not None:
        train, test = found.train.columns, found.test.columns
        train_y, test_y = found.train.y, found.test.y
        description = f"KDD Census-Income, its {len(train_y):,} rows to learn and {len(test_y):,} to test"
    else:
        half = found.train or found.test
        assert half is not None  # load_census raises where neither is there
        order = run.generator(0).permutation(len(half))
        cut = round(LEARNED * len(half))
        parts = [{name: c[rows] for name, c in half.columns.items()} for rows in (order[:cut], order[cut:])]
        (train, test), (train_y, test_y) = parts, (half.y[order[:cut]], half.y[order[cut:]])
        description = (
            f"KDD Census-Income, one of its official halves alone, of {len(half):,} rows, cut at random into {cut:,} "
            f"to learn (the paper: 199,523) and {len(half) - cut:,} to test (the paper: 99,762)"
        )
    return _people(train, train_y, test, test_y, N_FEATURES, description)


def generated(random: np.random.Generator, n: int = 6000) -> People:
    """Return people made up: four columns of numbers, eight of categories, a quarter of them with the label +1."""
    columns: dict[str, Array] = {f"number {i}": np.round(random.exponential(20.0, n)) for i in range(3)}
    columns["gains"] = np.where(random.random(n) < 0.9, 0.0, random.exponential(1000.0, n))
    for i in range(8):
        chances = random.dirichlet(np.ones(4 + i))
        columns[f"category {i}"] = random.choice([f"c{j}" for j in range(4 + i)], size=n, p=chances).astype(object)
    score = 0.03 * columns["number 0"] + 2.0 * (columns["gains"] > 0) + (columns["category 0"] == "c1")
    score += 2.0 * (columns["category 3"] == columns["category 4"]) + 0.3 * random.logistic(size=n)
    y = np.where(score > np.quantile(score, 0.75), 1.0, -1.0)
    cut = round(LEARNED * n)
    train, test = ({name: c[part] for name, c in columns.items()} for part in (slice(cut), slice(cut, None)))
    return _people(train, y[:cut], test, y[cut:], 600, f"generated people, {cut:,} to learn and {n - cut:,} to test")


def _people(
    train: Mapping[str, Array],
    train_y: Array,
    test: Mapping[str, Array],
    test_y: Array,
    n_features: int,
    description: str,
) -> People:
    products = Products(train, n_features)
    description += f"; {products.n_features:,} features of which {len(products.pairs):,} are products"
    return People(products, products.codes(train), train_y, products.codes(test), test_y, description)


def passed(shuffle: Shuffle) -> dict[str, Seen]:
    """Let each variant go over the rows once, stopping at the proportions to be judged."""
    people, order = shuffle.people, shuffle.order
    test = as_block(people.products.rows(people.test), y=people.test_y)
    X, y = people.products.rows(people.train)[order], people.train_y[order]
    cuts = [0, *(round(proportion * len(y)) for proportion in PROPORTIONS)]
    pieces = [as_block(X[a:b], y=y[a:b]) for a, b in pairwise(cuts)]
    contest = Contest(X.shape[1])
    seen = {}
    for name, (method, penalized) in VARIANTS.items():
        learner = contest.learner(method, shuffle.rates[name], L1(shuffle.strength) if penalized else None)
        errors, nonzeros = [], []
        for piece in pieces:
            learner.learn(piece)
            errors.append(float(np.mean(wrong(learner.predict(test), test.y))))
            nonzeros.append(nonzero(learner))
        seen[name] = Seen(errors, nonzeros)
    return seen


def perform(run: Run) -> Report:
    """Choose rates and strength, then go over the shuffles."""
    people = generated(run.generator(0)) if run.quick else census(run)
    n = len(people.train_y)
    X = people.products.rows(people.train)
    train, first = as_block(X, y=people.train_y), as_block(X[:FIRST], y=people.train_y[:FIRST])
    contest = Contest(people.products.n_features)
    strength, plain = contest.strength("RDA", KEPT, train)
    rates, early = (
        {
            name: contest.best_rate(method, rows, L1(strength) if penalized else None)
            for name, (method, penalized) in run.track(list(VARIANTS.items()), "rates")
        }
        for rows in (train, first)
    )
    rates["l1 RDA"] = plain  # the rate that the strength was found at
    shuffles = 2 if run.quick else SHUFFLES
    tasks = [Shuffle(people, run.generator(1, i).permutation(n), rates, strength) for i in range(shuffles)]
    found = run.map(passed, tasks, "shuffles")
    results = {
        name: Seen(
            np.mean([seen[name].errors for seen in found], axis=0).tolist(),
            np.mean([seen[name].nonzeros for seen in found], axis=0).tolist(),
        )
        for name in VARIANTS
    }
    spread = {name: np.std([seen[name].errors for seen in found], axis=0).tolist() for name in VARIANTS}
    majority = float(np.mean(people.test_y > 0.0))
    settings = {
        "features": f"{BINS} bins per column of numbers; every category; the products of two that are 1 in the most "
        f"rows; a constant: {people.products.n_features:,} in all",
        "loss": "hinge; no intercept beside the constant feature",
        "shuffles": f"{shuffles}",
        "rates": "two per decade, the fewest mistakes in a pass over the rows to learn: "
        + ", ".join(f"{name} {rates[name]:.2g}" for name in VARIANTS),
        f"rates that the first {first.n_rows:,} rows would choose": ", ".join(
            f"{name} {early[name]:.2g}" for name in VARIANTS
        ),
        "l1": f"{strength:.2e}, such that RDA keeps about {KEPT:.0%} after a full pass (the paper does not give its "
        "own)",
        "AdaGrad's delta": f"{DELTA:g}",
        "error of always saying no": f"{majority:.4f}",
    }
    found_claims = claims(results, majority, restless(spread, X.nnz / n), rates)
    return Report(tables(results, spread), [figure(results)], found_claims, settings, people.description)


def tables(results: Mapping[str, Seen], spread: Mapping[str, Sequence[float]]) -> list[Table]:
    """Return Table 4, ours and the paper's side by side, and the deviations, of which the paper gives the order."""
    columns = ["method"]
    for proportion in PROPORTIONS:
        columns += [f"{proportion:.2f}", "paper"]

    def rows(ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]]) -> list[list[str]]:
        return [
            [name, *(cell for o, t in zip(ours[name], theirs[name], strict=True) for cell in (f"{o:.4f}", f"{t:.3f}"))]
            for name in theirs
        ]

    return [
        Table(
            "Test error after a share of the rows to learn",
            columns,
            rows({name: seen.errors for name, seen in results.items()}, PAPER),
        ),
        Table(
            "Share of weights that are not zero",
            columns,
            rows({name: seen.nonzeros for name, seen in results.items()}, PAPER_NONZERO),
        ),
        Table(
            "Standard deviation of the test error over the shuffles (paper: about 0.001)",
            ("method", *(f"{proportion:.2f}" for proportion in PROPORTIONS)),
            [(name, *(f"{deviation:.4f}" for deviation in deviations)) for name, deviations in spread.items()],
        ),
    ]


def figure(results: Mapping[str, Seen]) -> Figure:
    """Return Figure 6."""

    def draw(canvas: matplotlib.figure.Figure) -> None:
        ours, theirs = canvas.subplots(1, 2, sharey=True)
        for name, (method, penalized) in VARIANTS.items():
            style = look(method, linestyle="--" if penalized else "-", markerfacecolor="white" if penalized else None)
            ours.plot(PROPORTIONS, results[name].errors, label=name, **style)
            theirs.plot(PROPORTIONS, PAPER[name], label=name, **style)
        for axes, title in ((ours, "here"), (theirs, "paper, Table 4")):
            axes.set_xscale("log")
            axes.set_xticks(PROPORTIONS, [f"{proportion:g}" for proportion in PROPORTIONS])
            axes.minorticks_off()
            axes.set_xlabel("share of the rows to learn")
            axes.set_title(title)
        ours.set_ylabel("test error")
        theirs.legend(fontsize="small")

    return Figure(
        "errors",
        "Test error against the share of rows seen",
        "Left our means over the shuffles, right the numbers that the paper prints. Broken lines: with l1.",
        draw,
        (8.0, 4.0),
    )


def restless(spread: Mapping[str, Sequence[float]], active: float) -> str:
    """Return why an order of methods may be chance: how much errors differ from shuffle to shuffle."""
    name = max(spread, key=lambda name: max(spread[name]))
    at = PROPORTIONS[int(np.argmax(spread[name]))]
    return (
        "Last weights are judged, wherever the last rows have left them, and a row moves the weights of all its "
        f"{active:.0f} features: from shuffle to shuffle errors deviate by up to {max(spread[name]):.4f} ({name} at "
        f"{at:g})."
    )


def claims(results: Mapping[str, Seen], majority: float, jumps: str, rates: Mapping[str, float]) -> list[Claim]:
    """Return what section 7.4 says, beside what was seen; `jumps` is the reason where orders differ."""
    errors = {name: np.array(seen.errors) for name, seen in results.items()}
    adaptive, plain = ("AROW", "Ada-RDA"), ("PA", "RDA")
    below = {a: {p: int(np.sum(errors[a] < errors[p])) for p in plain} for a in adaptive}
    counts = [count for row in below.values() for count in row.values()]
    of = len(PROPORTIONS)
    l1, ada = results["l1 RDA"], results["l1 Ada-RDA"]
    sparser = int(np.sum(np.array(ada.nonzeros) < np.array(l1.nonzeros)))
    better = int(np.sum(errors["l1 Ada-RDA"] < errors["l1 RDA"]))
    best = int(sum(errors["AROW"][i] == min(e[i] for e in errors.values()) for i in range(of)))
    rising = np.diff(ada.nonzeros) < 0, np.diff(l1.nonzeros) < 0
    cost = errors["l1 Ada-RDA"][-1] - errors["Ada-RDA"][-1]
    uneven = (
        "The share hangs on the rate as well, and a larger rate leaves fewer weights to either method. Each has the "
        f"one with the fewest mistakes: l1 RDA {rates['l1 RDA']:.2g}, l1 Ada-RDA {rates['l1 Ada-RDA']:.2g}."
    )
    return [
        Claim(
            "The adaptive methods have lower errors than PA and RDA at every proportion (Table 4).",
            "; ".join(f"{a} is below {p} at {below[a][p]} of {of}" for a in adaptive for p in plain) + ".",
            most(min(counts), of),
            jumps if min(counts) < of else "",
        ),
        Claim(
            "AROW has the lowest error of all at every proportion.",
            f"At {best} of {of}; after a full pass it has {errors['AROW'][-1]:.4f} and Ada-RDA "
            f"{errors['Ada-RDA'][-1]:.4f}.",
            most(best, of),
            jumps if best < of else "",
        ),
        Claim(
            "At the same strength, l1 Ada-RDA keeps fewer weights than l1 RDA and has a lower error.",
            f"Fewer weights at {sparser} of {of} proportions, a lower error at {better} of {of}; after a full pass "
            f"{ada.nonzeros[-1]:.3f} of the weights with error {ada.errors[-1]:.4f}, against {l1.nonzeros[-1]:.3f} "
            f"with {l1.errors[-1]:.4f} (saying no to all: {majority:.4f}).",
            most(min(sparser, better), of),
            "" if sparser == of else uneven,
        ),
        Claim(
            "The share of non-zeros falls as more rows are seen.",
            "l1 RDA "
            + ", ".join(f"{s:.3f}" for s in l1.nonzeros)
            + "; l1 Ada-RDA "
            + ", ".join(f"{s:.3f}" for s in ada.nonzeros)
            + ".",
            bool(rising[0].all() and rising[1].all()),
        ),
        Claim(
            "Sparsity is cheap: with 4% of the weights l1 Ada-RDA is 0.002 behind Ada-RDA after a full pass.",
            f"With {ada.nonzeros[-1]:.1%} of the weights it is {cost:.4f} behind.",
            bool(cost < 0.004),
        ),
    ]


EXPERIMENT = Experiment(
    "adagrad-census",
    "Adaptive subgradients on census data",
    "Duchi, Hazan and Singer 2010, section 7.4, Table 4 and Figure 6",
    "Who earns more than 50,000 dollars a year? Online methods learn from 0/1 features (bins, categories and products "
    "of two) under the hinge loss, with and without an l1 penalty. How good are they after 5 per cent of the rows, "
    "and after all of them?",
    "KDD Census-Income: census-income.data(.gz) and census-income.test(.gz), or one of them, which is then cut in two",
    perform,
)
