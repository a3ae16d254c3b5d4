"""What a run leaves behind: progressive loss, and log loss and AUC on held-out rows, at everyone's defaults.

    python -m benchmarks defaults --data FOLDER [--rows N]

Each set of `kept_sets` is learned in one pass in file order, and shuffled in one, three and five passes. Of file order
the loss on its own rows is shown too: rows that come sorted may leave a model of the last ones. Beside AutoFTRL are the
other algorithms, Vowpal Wabbit, scikit-learn, and the best linear model there is: the certified optimum under L2, its
strength chosen on a fifth of the rows, columns divided by their largest |value|.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from scipy.sparse import diags
from sklearn.metrics import roc_auc_score

import proxstream as ps
from proxstream.data.rowblock import as_block
from proxstream.learner.learner import Learner

from .data import Stream
from .kept_sets import CHOSEN_ON, Kept, shuffled
from .quality import _write_vw, log_loss

Figures = dict[str, float]
PASSES = (1, 3, 5)
OURS: dict[str, Any] = {
    "AutoFTRL": ps.AutoFTRL(),
    "AutoFTRL track": ps.AutoFTRL(track=True),
    "AutoFTRL feature": ps.AutoFTRL(scale="feature"),
    "AutoFTRL global": ps.AutoFTRL(scale="global"),
    "FTRLProximal": ps.FTRLProximal(),
    "AdaGrad": ps.AdaGrad(),
    "AdaGrad mirror": ps.AdaGrad(update="mirror"),
    "SGD": ps.SGD(),
}
VW = {"vw": "", "vw --ftrl": "--ftrl", "vw --coin": "--coin"}
STRENGTHS = (1e-5, 1e-4, 1e-3)


def judge(scores: Any, y: Any) -> Figures:
    """Return log loss and AUC."""
    return {"loss": log_loss(scores, y), "auc": float(roc_auc_score(y, scores))}


def ours(algorithm: Any, rows: Kept, passes: int) -> Figures:
    """Learn with one of our algorithms."""
    learner = Learner(algorithm, "logistic", n_features=rows.X.shape[1], dtype=np.float32)
    block, new = as_block(rows.X, rows.y, dtype=np.float32), as_block(rows.new, rows.new_y, dtype=np.float32)
    try:
        for i in range(passes):
            learner.learn(block, count=i == 0, undo=False, repeated=i > 0)
    except FloatingPointError:
        return {"loss": np.inf, "auc": 0.5, "progressive": np.inf, "own": np.inf}
    own = log_loss(learner.predict(block), rows.y)
    return {**judge(learner.predict(new), rows.new_y), "progressive": learner.progressive_loss, "own": own}


def vowpal_wabbit(options: str, rows: Kept, passes: int) -> Figures:
    """Learn with Vowpal Wabbit from its own text."""
    from vowpalwabbit import Workspace

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, X, y in (("own", rows.X, rows.y), ("new", rows.new, rows.new_y)):
            _write_vw(Stream(part, X, y), folder / part)
        cache = f"-k -c --cache_file {folder}/cache --holdout_off --passes {passes}" if passes > 1 else ""
        common = "--quiet -b 22 --loss_function logistic"
        Workspace(f"-d {folder}/own -f {folder}/model -p {folder}/played {common} {options} {cache}").finish()
        scores = {}
        for part in ("own", "new"):
            Workspace(f"-t -i {folder}/model -d {folder}/{part} -p {folder}/scores --quiet").finish()
            scores[part] = np.loadtxt(folder / "scores")
        played = log_loss(np.loadtxt(folder / "played")[: len(rows.y)], rows.y)
    own = log_loss(scores["own"], rows.y)
    return {**judge(scores["new"], rows.new_y), "progressive": played, "own": own}


def scikit_learn(rows: Kept, passes: int) -> Figures:
    """Learn with SGDClassifier, a pass at a time."""
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(loss="log_loss", random_state=0, shuffle=False, max_iter=passes, tol=None)
    model.fit(rows.X, rows.y)
    own = log_loss(model.decision_function(rows.X), rows.y)
    return {**judge(model.decision_function(rows.new), rows.new_y), "own": own}


def logistic_regression(rows: Kept) -> Figures:
    """LogisticRegression as it is."""
    from sklearn.linear_model import LogisticRegression

    return judge(LogisticRegression().fit(rows.X, rows.y).decision_function(rows.new), rows.new_y)


def optimum(rows: Kept) -> Figures:
    """Return what the certified optimum has, under the strength that a fifth of the rows prefers."""
    largest = abs(rows.X).max(axis=0).toarray().ravel()
    scale = diags(1.0 / np.where(largest > 0.0, largest, 1.0))
    X, new, cut = (rows.X @ scale).tocsr(), (rows.new @ scale).tocsr(), len(rows.y) * 4 // 5

    def fit(lam: float, stop: int) -> Any:
        return ps.CertifiedClassifier(penalty=ps.L2(lam), tol=1e-3, max_epochs=30).fit(X[:stop], rows.y[:stop])

    found = {lam: log_loss(fit(lam, cut).decision_function(X[cut:]), rows.y[cut:]) for lam in STRENGTHS}
    model = fit(min(found, key=found.__getitem__), len(rows.y))
    return judge(model.decision_function(new), rows.new_y)


def contestants() -> dict[str, Callable[[Kept, int], Figures]]:
    """Return all that learn in passes."""
    found: dict[str, Callable[[Kept, int], Figures]] = {
        name: lambda rows, passes, algorithm=algorithm: ours(algorithm, rows, passes)
        for name, algorithm in OURS.items()
    }
    try:
        import vowpalwabbit  # noqa: F401
    except ImportError:
        print("left out: Vowpal Wabbit, which is not installed")
    else:
        found |= {name: lambda rows, passes, o=o: vowpal_wabbit(o, rows, passes) for name, o in VW.items()}
    return {**found, "SGDClassifier": scikit_learn}


def measure(rows: Kept) -> dict[str, dict[str, Figures]]:
    """Return the figures of every contestant, by order and number of passes."""
    mixed, found = shuffled(rows), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rates that do not fit, and of peers about their convergence
        for name, learn in contestants().items():
            found[name] = {"file order": learn(rows, 1)} | {f"{passes}": learn(mixed, passes) for passes in PASSES}
        found["LogisticRegression"] = {"batch": logistic_regression(mixed)}
        found["certified, L2"] = {"batch": optimum(mixed)}
    return found


def tables(found: dict[str, dict[str, dict[str, Figures]]]) -> list[Table]:
    """Return a table per set."""
    columns = ("progressive", "1 pass", "AUC", "3 passes", "5 passes", "file order, progressive", "own rows")
    out = []
    for name, figures in found.items():
        kind = "chosen on" if name in CHOSEN_ON else "judged on"
        table = Table("", *columns, title=f"{name} ({kind}): log loss on held-out rows", title_justify="left")
        for column in table.columns[1:]:
            column.justify = "right"
        for learner, by in figures.items():
            one = by.get("1", by.get("batch", {}))
            file = by.get("file order", {})
            values = [one.get("progressive"), one.get("loss"), one.get("auc")]
            values += [by.get("3", {}).get("loss"), by.get("5", {}).get("loss")]
            values += [file.get("progressive"), file.get("own")]
            table.add_row(learner, *("" if value is None else f"{value:.4f}" for value in values))
        out.append(table)
    return out
