"""Xiao 2010, section 6: l1-regularized logistic regression on pairs of handwritten digits, in one pass.

| module       | has                                                              |
|--------------|------------------------------------------------------------------|
| data.py      | pairs of digits, raw pixels                                      |
| passes.py    | the methods at the published settings, one pass in a given order |
| optimum.py   | the batch optimum with its certificate                           |
| findings.py  | which passes and optima are made, in parallel                    |
| figures.py   | Figures 2 to 8                                                   |
| verdicts.py  | tables, and the paper's words against our numbers                |
"""

from __future__ import annotations

from ..experiment import Experiment, Report
from ..run import Run
from .figures import figures
from .findings import Findings, find
from .passes import ROUNDING, TOL, folder, pair
from .verdicts import claims, rounding, tables


def perform(run: Run) -> Report:
    """Make all passes and optima, and report."""
    return report(run, find(run))


def report(run: Run, found: Findings) -> Report:
    """Return the report of the passes."""
    plan = found.plan
    rows = [finding.rows[0] for finding in found.pairs.values()]
    source = "scikit-learn's 8 by 8 digits, greys spread to 0-255" if run.quick else "MNIST, raw pixels 0-255"
    return Report(
        tables(found),
        figures(found),
        [*claims(found), rounding(found, pair(folder(run), *plan.easy))],
        {
            "loss and penalty": "logistic, λ ‖w‖₁, the intercept free",
            "RDA": "γ = 5,000; ρ = 0, or γρ = 25; β_t = γ √t",
            "SGD and TG": "constant step α = (1/γ) √(2/T); TG with K = 1 and K = 10, θ = ∞",
            "passes": "one, rows in random order, T = the number of training rows of the pair",
            "orders": f"{plan.orders} for Figure 4, {plan.gamma_orders} for Figure 5, {plan.pair_orders} for each pair "
            f"of Figure 7 (the paper: 100), {plan.parts} parts with {plan.part_orders} orders each for Figure 8",
            "optimum": f"CertifiedClassifier in place of the interior-point code, relative duality gap at most {TOL:g}",
            "non-zeros": "exact zeros for RDA, TG with K = 1 and the optimum; for SGD, TG with K = 10 and all means, "
            f"weights beyond {ROUNDING:g}",
        },
        f"{source}: {len(found.pairs)} pairs of digits, {min(rows):,} to {max(rows):,} training rows a pair.",
    )


EXPERIMENT = Experiment(
    name="rda-mnist",
    title="Regularized dual averaging finds sparse weights in one pass",
    paper="Xiao 2010, section 6",
    about="Logistic regression with an l1 penalty separates two handwritten digits, from raw pixels and in one pass "
    "over about 12,000 images. Stochastic gradients (SGD), truncated gradients (TG, with K = 1 the same as FOBOS) and "
    "dual averaging (RDA) are compared with one another and with the optimum that a batch solver proves: which weights "
    "are not zero, how many during the pass, and what sparsity costs in test error.",
    data="MNIST's four idx files, plain or gzipped",
    perform=perform,
)
