"""AdaGrad on digits under Gaussian kernels: Table 3 and Figure 5 of Duchi, Hazan and Singer.

The features of an image a are its kernels with some 3,000 images a_j of a support set,

    z_j = exp(-||a - a_j||^2 / (2 sigma^2)),

and a row of ten weights belongs to each. The loss is the multiclass hinge. Mixed norms over the rows, l1/l2 and
l1/l-inf, switch whole support images off. The features of 60,000 images would fill 720 MB: they are made a block at a
time, learned, and forgotten. The rate of a method is chosen without a penalty, on the first 5,000 images, and serves
for the mixed norms as well. Half of MNIST's images are learned, so that an ordinary machine needs a few minutes.

The paper does not give sigma. Here it is the one with which PA makes the fewest mistakes on the first 5,000 images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.penalties import GroupL2, GroupLinf, Penalty
from ..core.validation import Array
from ..data.rowblock import RowBlock
from ..datasets import load_mnist
from .contest import DELTA, Contest, nonzero, wrong
from .experiment import Claim, Experiment, Figure, Report, Table
from .looks import look
from .run import Run

if TYPE_CHECKING:
    import matplotlib.figure

SUPPORT = 3000
LEARNED = 30_000  # of MNIST's 60,000: a mixed norm takes some 0.6 ms an image
CHOOSING = 5000
BLOCK = 1000  # images whose features are in memory at a time
SIGMAS = (2.0, 2.5, 3.0, 4.0)  # of pixels in [0, 1]
STRENGTHS = (5e-4, 1e-3)
NORMS: Mapping[str, type[GroupL2] | type[GroupLinf]] = {"l1/l2": GroupL2, "l1/l-inf": GroupLinf}

# Table 3: error and share of rows that are not zero, by method, norm and strength.
PAPER = {
    ("PA", "", 0.0): (0.062, 1.000),
    ("AdaGrad-RDA", "", 0.0): (0.066, 1.000),
    ("RDA", "", 0.0): (0.108, 1.000),
    ("AdaGrad-RDA", "l1/l2", 5e-4): (0.100, 0.569),
    ("RDA", "l1/l2", 5e-4): (0.138, 0.878),
    ("AdaGrad-RDA", "l1/l2", 1e-3): (0.137, 0.144),
    ("RDA", "l1/l2", 1e-3): (0.192, 0.532),
}


class Variant(NamedTuple):
    """A method, the norm of its penalty ("" for none) and its strength."""

    method: str
    norm: str = ""
    strength: float = 0.0

    @property
    def penalty(self) -> Penalty | None:
        """The penalty, on rows of a weight matrix."""
        return NORMS[self.norm](self.strength) if self.norm else None

    @property
    def name(self) -> str:
        """As the tables call it."""
        return f"{self.method}, {self.norm} {self.strength:g}" if self.norm else self.method


class Digits(NamedTuple):
    """Images with pixels in [0, 1] (float32), their digits, the support set, and a sentence."""

    train: Array
    train_y: Array
    test: Array
    test_y: Array
    support: Array
    description: str


class Task(NamedTuple):
    """A variant to be run in full."""

    variant: Variant
    rate: float
    digits: Digits
    sigma: float


class Course(NamedTuple):
    """The rate, the mistakes made after each block, the test error, and the share of rows that are not zero."""

    rate: float
    mistakes: list[int]
    error: float
    nonzero: float


def kernels(images: Array, support: Array, sigma: float) -> Array:
    """Return exp(-||a - a_j||^2 / (2 sigma^2)) for every image and every one of the support set, in float32.

    >>> kernels(np.float32([[0, 0], [3, 4]]), np.float32([[0, 0]]), sigma=5.0).round(4)
    array([[1.    ],
           [0.6065]], dtype=float32)
    """
    squares = np.sum(images**2, axis=1)[:, None] + np.sum(support**2, axis=1) - 2.0 * (images @ support.T)
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / np.float32(2.0 * sigma**2)), np.float32)


def block(features: Array, y: Array) -> RowBlock:
    """Return dense rows as a block; a kernel is never 0."""
    n, width = features.shape
    indptr = np.arange(n + 1, dtype=np.int64) * width
    return RowBlock(indptr, np.tile(np.arange(width, dtype=np.int32), n), features.ravel(), y.astype(np.float64))


def blocks(images: Array, y: Array, support: Array, sigma: float) -> Iterator[RowBlock]:
    """Yield the features, a block at a time."""
    for start in range(0, len(images), BLOCK):
        part = slice(start, start + BLOCK)
        yield block(kernels(images[part], support, sigma), y[part])


def run_variant(task: Task) -> Course:
    """Learn all images in one pass, and judge the weights at its end."""
    digits = task.digits
    contest = Contest(len(digits.support), "multiclass_hinge", 10)
    learner = contest.learner(task.variant.method, task.rate, task.variant.penalty)
    mistakes = [0]
    for rows in blocks(digits.train, digits.train_y, digits.support, task.sigma):
        mistakes.append(mistakes[-1] + int(np.sum(wrong(learner.learn(rows), rows.y))))
    missed = sum(
        int(np.sum(wrong(learner.predict(rows), rows.y)))
        for rows in blocks(digits.test, digits.test_y, digits.support, task.sigma)
    )
    return Course(task.rate, mistakes, missed / len(digits.test_y), nonzero(learner))


class Trial(NamedTuple):
    """A width of the kernels, and a method without a penalty, to be tried on the first images."""

    sigma: float
    method: str
    digits: Digits
    choosing: int


def first_mistakes(trial: Trial) -> tuple[float, float]:
    """Return the best rate of a method on the first images, and the share of mistakes with it."""
    images, y = trial.digits.train[: trial.choosing], trial.digits.train_y[: trial.choosing]
    rows = block(kernels(images, trial.digits.support, trial.sigma), y)
    contest = Contest(len(trial.digits.support), "multiclass_hinge", 10)
    rate = contest.best_rate(trial.method, rows)
    return rate, contest.mistakes(trial.method, rate, rows)


def mnist(run: Run) -> Digits:
    """Return MNIST, the first images of those to learn alone, with a support set drawn from these."""
    found = load_mnist(run.folder("mnist"))
    train, test = (
        np.asarray(part.X, np.float32).reshape(len(part.y), -1) / np.float32(255.0)
        for part in (found.train, found.test)
    )
    train = train[:LEARNED]
    support = train[run.generator(0).choice(len(train), SUPPORT, replace=False)]
    description = (
        f"MNIST, the first {len(train):,} of {len(found.train.y):,} images to learn, {SUPPORT:,} of them as support "
        f"set, and {len(test):,} to test"
    )
    return Digits(train, found.train.y[:LEARNED], test, found.test.y, support, description)


def small(run: Run) -> Digits:
    """Return scikit-learn's 8x8 digits, their pixels scaled so that images are as far from each other as MNIST's."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    images, order = (X / 16.0 * np.sqrt(784 / 64)).astype(np.float32), run.generator(0).permutation(len(y))
    images, y = images[order], y[order]
    cut, width = 1300, 100
    description = (
        f"scikit-learn's digits, {cut:,} images to learn, {width} of them as support set, and {len(y) - cut} to test"
    )
    return Digits(images[:cut], y[:cut], images[cut:], y[cut:], images[:width], description)


def variants(quick: bool) -> list[Variant]:
    """Return all that is compared, in the table's order."""
    made = [Variant(method) for method in ("PA", "AdaGrad-RDA", "RDA")]
    for norm in ("l1/l2",) if quick else NORMS:
        made += [Variant(m, norm, s) for s in STRENGTHS for m in ("AdaGrad-RDA", "RDA")]
    return made


def perform(run: Run) -> Report:
    """Choose sigma and rates, then run all variants."""
    digits = small(run) if run.quick else mnist(run)
    choosing = min(CHOOSING, len(digits.train) // 4)
    sigmas = SIGMAS[1:3] if run.quick else SIGMAS
    by_sigma = run.map(first_mistakes, [Trial(s, "PA", digits, choosing) for s in sigmas], "widths of kernels")
    sigma = sigmas[int(np.argmin([share for _, share in by_sigma]))]
    plain = ("PA", "AdaGrad-RDA", "RDA")
    found = run.map(first_mistakes, [Trial(sigma, method, digits, choosing) for method in plain], "rates")
    best = {method: rate for method, (rate, _) in zip(plain, found, strict=True)}
    todo = variants(run.quick)
    # The mixed norms take longest: started first, they leave no process alone at the end.
    ordered = sorted(todo, key=lambda variant: variant.norm == "")
    tasks = [Task(variant, best[variant.method], digits, sigma) for variant in ordered]
    courses = dict(zip(ordered, run.map(run_variant, tasks, "variants"), strict=True))
    results = {variant: courses[variant] for variant in todo}
    settings = {
        "kernels": f"sigma {sigma:g} for pixels in [0, 1]; mistakes of PA on the first {choosing:,}: "
        + ", ".join(f"{s:g}: {share:.3f}" for s, (_, share) in zip(sigmas, by_sigma, strict=True)),
        "loss": "multiclass hinge; no intercept",
        "rates": f"two per decade, the fewest mistakes on the first {choosing:,} images, without a penalty: "
        + ", ".join(f"{method} {rate:.2g}" for method, rate in best.items()),
        "repetitions": "1, as in the paper",
        "AdaGrad's delta": f"{DELTA:g}",
    }
    return Report([table(results)], [figure(results, len(digits.train))], claims(results), settings, digits.description)


Results = Mapping[Variant, Course]


def table(results: Results) -> Table:
    """Return Table 3."""
    rows = [
        (
            variant.name,
            course.error,
            PAPER.get(variant, (None, None))[0],
            course.nonzero,
            PAPER.get(variant, (None, None))[1],
            course.mistakes[-1],
        )
        for variant, course in results.items()
    ]
    return Table(
        "Test error, and the share of support images with weights that are not zero",
        ("method", "test error", "paper", "non-zero", "paper", "mistakes while learning"),
        rows,
        "The paper prints only l1/l2, and says that l1/l-inf is similar.",
    )


def figure(results: Results, n: int) -> Figure:
    """Return Figure 5."""

    def draw(canvas: matplotlib.figure.Figure) -> None:
        axes = canvas.subplots()
        for variant, course in results.items():
            if variant.norm == "l1/l-inf" or variant.strength == STRENGTHS[1]:
                continue
            seen = np.minimum(np.arange(len(course.mistakes)) * BLOCK, n)
            style = look(variant.method, linestyle="--" if variant.norm else "-", markevery=max(len(seen) // 8, 1))
            axes.plot(seen, course.mistakes, label=variant.name, **style)
        axes.set_xlabel("images seen")
        axes.set_ylabel("mistakes so far")
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, n)
        axes.legend()

    return Figure(
        "mistakes",
        "Mistakes while learning",
        "Broken lines: with l1/l2 of the smaller strength.",
        draw,
    )


def claims(results: Results) -> list[Claim]:
    """Return what section 7.3 says, beside what was seen."""

    def course(*which: str | float) -> Course:
        return results[Variant(*which)]  # type: ignore[arg-type]

    pa, ada, rda = (course(method) for method in ("PA", "AdaGrad-RDA", "RDA"))
    pairs = [
        (v, course("AdaGrad-RDA", v.norm, v.strength), c) for v, c in results.items() if v.method == "RDA" and v.norm
    ]
    lower = sum(a.error < r.error for _, a, r in pairs)
    sparser = sum(a.nonzero < r.nonzero for _, a, r in pairs)
    description = "; ".join(
        f"{v.norm} {v.strength:g}: {a.error:.3f} ({a.nonzero:.3f}) against {r.error:.3f} ({r.nonzero:.3f})"
        for v, a, r in pairs
    )
    made = [
        Claim(
            "Without a penalty adaptive RDA is about as good as PA, and far better than RDA (Table 3, Figure 5).",
            f"Test errors: PA {pa.error:.3f}, AdaGrad-RDA {ada.error:.3f}, RDA {rda.error:.3f}; mistakes while "
            f"learning: {pa.mistakes[-1]:,}, {ada.mistakes[-1]:,}, {rda.mistakes[-1]:,}.",
            bool(abs(ada.error / pa.error - 1.0) < 0.2 and ada.error < 0.8 * rda.error),
            f"RDA has the rate with the fewest mistakes, however large: {rda.rate:.2g}. How far the paper searched, "
            "and the width of its kernels, it does not say."
            if ada.error >= 0.8 * rda.error
            else "",
        ),
        Claim(
            "With a mixed norm adaptive RDA has a lower error than RDA and keeps fewer rows, at each strength.",
            f"Lower errors in {lower} and fewer rows in {sparser} of {len(pairs)} pairs, AdaGrad-RDA against RDA: "
            f"{description}.",
            True if lower == sparser == len(pairs) else (None if lower + sparser > len(pairs) else False),
        ),
    ]
    infinite = [v for v in results if v.norm == "l1/l-inf"]
    if infinite:
        ratios = [results[v].error / course(v.method, "l1/l2", v.strength).error for v in infinite]
        made.append(
            Claim(
                "l1/l-inf is similar to l1/l2.",
                "Its errors are "
                + ", ".join(f"{ratio:.2f} ({v.name})" for v, ratio in zip(infinite, ratios, strict=True))
                + " times those of l1/l2; it keeps "
                + ", ".join(f"{results[v].nonzero:.3f}" for v in infinite)
                + " of the rows, l1/l2 "
                + ", ".join(f"{course(v.method, 'l1/l2', v.strength).nonzero:.3f}" for v in infinite)
                + ".",
                bool(max(ratios) < 1.25 and min(ratios) > 0.8),
                "The largest entry of a row is below its length: at the same strength l1/l-inf weighs less."
                if min(ratios) <= 0.8
                else "",
            )
        )
    return made


EXPERIMENT = Experiment(
    "adagrad-mnist",
    "Adaptive subgradients on digits, under kernels",
    "Duchi, Hazan and Singer 2010, section 7.3, Table 3 and Figure 5",
    "Ten digits from Gaussian kernels with 3,000 support images: features that are dense, where steps per feature have "
    "less to offer than on text. Passive-aggressive, dual averaging and adaptive dual averaging learn in one pass "
    "under the multiclass hinge, without a penalty and with mixed norms that switch support images off.",
    "MNIST: the four idx files, packed by gzip or not",
    perform,
)
