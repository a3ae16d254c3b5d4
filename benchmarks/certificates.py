"""How tight certificates are: certified gaps of models that no solver made, over their true distances to the optimum.

    python -m benchmarks certificates --data FOLDER [--rows 8000] [--sets NAME...]

FOLDER has one folder per set (see `kept_sets`); those that are not there are left out. Models learn shuffled rows: one
pass of AutoFTRL, FTRLProximal and SGDClassifier, and LogisticRegression with five steps and as it is, under a strong
and a weak penalty of each kind. The optimum P* is that of `CertifiedClassifier` to 1e-9, or what a certificate reached
where that is lower. Nothing is timed. The bars: a gap of at most 2 (P(w) - P*) + 1e-4 P* everywhere, and a median of
gap / (P(w) - P*) of at most 1.2 over all models that are 1e-6 P* or more above the optimum.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import proxstream as ps
from proxstream.learner.learner import Learner

from .harness import save
from .kept_sets import Kept, load, shuffled

SETS = ("a9a", "adult", "housing", "housing scaled", "digits", "phrases", "news", "news tf-idf", "census", "flights")
PASSES, TOL = 10, 1e-9
TIMES, OFF, MEDIAN = 2.0, 1e-4, 1.2  # the bars
VISIBLE = 1e-6  # of the optimum, from which a distance has a ratio
STRENGTHS = {"strong": (0.1, 10.0), "weak": (0.003, 0.1)}  # of the l1 that zeroes all; of the mean ||x||^2 / n


def penalties(rows: Kept) -> Iterator[tuple[str, Any]]:
    """Yield penalties that are strong and weak for these rows."""
    n = len(rows.y)
    largest = float(np.max(np.abs(rows.X.T @ (rows.y - rows.y.mean())))) / (2.0 * n)
    size = float(rows.X.multiply(rows.X).sum()) / n**2
    for name, (share, times) in STRENGTHS.items():
        l1, l2 = share * largest, times * size
        yield f"L1, {name}", ps.L1(l1)
        yield f"L2, {name}", ps.L2(l2)
        yield f"elastic net, {name}", ps.ElasticNet(0.5 * l1, 0.5 * l2)


def models(rows: Kept, penalty: Any) -> Iterator[tuple[str, Any]]:
    """Yield models that minimize the logistic loss and the penalty, none of them to the end."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    terms = penalty.terms((rows.X.shape[1],))
    l1, l2 = float(terms.l1), float(terms.l2)
    ratio = l1 / (l1 + l2)
    for algorithm in (ps.AutoFTRL(), ps.FTRLProximal()):
        learner = Learner(algorithm, "logistic", penalty, n_features=rows.X.shape[1])
        learner.learn(ps.data.rowblock.as_block(rows.X, rows.y))
        yield type(algorithm).__name__, learner
    own = "l2" if l1 == 0.0 else "l1" if l2 == 0.0 else "elasticnet"
    sgd = SGDClassifier(
        loss="log_loss", penalty=own, alpha=l1 + l2, l1_ratio=ratio, max_iter=1, tol=None, random_state=0
    )
    yield "SGDClassifier", sgd.fit(rows.X, rows.y)
    C, solver = 1.0 / ((l1 + l2) * len(rows.y)), "lbfgs" if l1 == 0.0 else "saga"
    for steps in (5, 100):
        model = LogisticRegression(C=C, l1_ratio=ratio, solver=solver, max_iter=steps, random_state=0)
        yield f"LogisticRegression, {steps} steps", model.fit(rows.X, rows.y)


def measure(rows: Kept) -> Iterator[dict[str, Any]]:
    """Yield what is certified and what is true of every model of a set."""
    for kind, penalty in penalties(rows):
        best = ps.CertifiedClassifier(penalty=penalty, tol=TOL, max_epochs=10_000).fit(rows.X, rows.y)
        for name, model in models(rows, penalty):
            proof = ps.certificate(model, rows.X, rows.y, passes=PASSES)
            least = min(best.primal_, proof.reached)
            true = proof.primal - least
            allowed = TIMES * true + OFF * least
            yield {
                "set": rows.name,
                "rows": len(rows.y),
                "penalty": kind,
                "model": name,
                "optimum": least,
                "optimum_known_to": best.duality_gap_ / best.primal_,
                "primal": proof.primal,
                "true": true / least,
                "gap": proof.gap / least,
                "by_scores_alone": proof.history[0].gap / least,
                "passes": proof.history[-1].passes,
                "ratio": proof.gap / true if true > VISIBLE * least else None,
                "within": bool(proof.gap <= allowed),
            }


def tables(found: list[dict[str, Any]]) -> list[Table]:
    """Return a table of all models, and one of the bars."""
    title = "Certified gaps and true distances, as parts of the optimum"
    every = Table("set", "penalty", "model", "true", "scores alone", "certified", "ratio", "", title=title)
    for one in found:
        parts = [f"{one[name]:.2e}" for name in ("true", "by_scores_alone", "gap")]
        ratio = "" if one["ratio"] is None else f"{one['ratio']:.3f}"
        every.add_row(one["set"], one["penalty"], one["model"], *parts, ratio, "" if one["within"] else "MISSED")
    bars = Table("set", "models", "within the bar", "median ratio", "largest ratio", title="The bars")
    for name in [*dict.fromkeys(one["set"] for one in found), "all"]:
        some = [one for one in found if name in (one["set"], "all")]
        ratios = [one["ratio"] for one in some if one["ratio"] is not None]
        within = sum(one["within"] for one in some)
        bars.add_row(name, f"{len(some)}", f"{within}", f"{np.median(ratios):.4f}", f"{max(ratios):.4f}")
    for one in (every, bars):
        one.title_justify = "left"
        for column in one.columns[3 if one is every else 1 :]:
            column.justify = "right"
    return [bars, every]


def main(arguments: list[str]) -> None:
    """Print and keep both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks certificates", description="How tight proofs are.")
    parser.add_argument("--data", type=Path, default=os.environ.get("PROXSTREAM_DATA"), help="folder of real sets")
    parser.add_argument("--rows", type=int, default=8_000, help="rows of a set at most")
    parser.add_argument("--sets", nargs="*", default=SETS, help="some of them, by name")
    options = parser.parse_args(arguments)
    if options.data is None:
        parser.error("--data (or PROXSTREAM_DATA) must name a folder of real sets")
    found: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rates that do not fit, and of peers about their convergence
        for rows in load(Path(options.data), options.rows, options.sets):
            found += measure(shuffled(rows))
            last = tables([one for one in found if one["set"] == rows.name])
            save("certificates", tables(found), {"passes": PASSES, "models": found}, show=last)
