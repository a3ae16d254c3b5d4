"""`proxstream certify`: a proven bound on how far a model is from the optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from click import Option, UsageError

from .command import command
from .common import BadRows, Labelled, facts, open_data, print_json, show, table
from .inspect import text_of
from .options import AS_JSON, BAD_ROWS, DATA, FORMAT, INDEX_BASE, MAX_FEATURES, MODEL, Number

if TYPE_CHECKING:
    from ..batch import Certificate
    from ..models.model import Model

EPILOG = """\b
Examples:
  proxstream certify model.psm rows.svm
  proxstream certify model.psm rows.svm --l1 1e-4 --l2 1e-3
  proxstream certify model.psm rows.svm --features
"""


class Objective(NamedTuple):
    """The objective that is judged, where it is not that of the model."""

    loss: str | None
    l1: float | None
    l2: float | None


@command(
    EPILOG,
    [MODEL, DATA],
    [
        Option(["--loss"], metavar="NAME", help="Loss. [default: that of the model]"),
        Option(
            ["--l1"],
            type=Number(0.0),
            metavar="LAM",
            help="Strength of the l1 penalty. [default: that of the model]",
        ),
        Option(
            ["--l2"],
            type=Number(0.0),
            metavar="LAM",
            help="Strength of the l2 penalty. [default: that of the model]",
        ),
        Option(["--features"], is_flag=True, help="List features that are zero in every optimum, and in none."),
        FORMAT,
        INDEX_BASE,
        MAX_FEATURES,
        *BAD_ROWS,
        AS_JSON,
    ],
)
def certify(
    model: str,
    data: tuple[str, ...],
    loss: str | None,
    l1: float | None,
    l2: float | None,
    features: bool,
    format: str | None,
    one_based: bool | None,
    max_features: int,
    on_error: str,
    quarantine: str | None,
    json: bool,
) -> None:
    """Bound the distance of a model from the optimum: primal value, dual value, and the gap between them.

    No weights have a lower objective (mean loss + penalty) than the dual value, so the model is at most the gap above
    the optimum. Data of up to 1 GB are kept in memory, and a solver that starts from the model improves the bound;
    larger data are read several times. Without a penalty the optimum is that of all weights of the model's norm.
    """
    from ..models.file import load_model

    if "-" in data:
        raise UsageError("certify makes several passes and cannot read standard input; pass files")
    bad = BadRows(on_error, quarantine)
    bad.check([model, *data])
    fitted = load_model(model)
    if (fitted.features or {}).get("offset") is not None:
        raise ValueError(f"{model}: a certificate of a model with an offset takes CertifiedRegressor.fit(offset=)")
    most = max(max_features, fitted.learner.n_features)
    with open_data(fitted, data, format, one_based, bad=bad, labelled=True, max_features=most) as stream:
        rows = Labelled(fitted, stream, skip=bad.skip)
        result = _certify(fitted, rows, Objective(loss, l1, l2))
    if bad.skip:
        result["skipped"] = rows.skipped
    proof = result.pop("proof")
    found = certain_features(fitted, proof) if features else {}
    if json:
        print_json(result | found)
    else:
        show([*facts(result.items()), *(feature_lines(found) if found else [])])


def _certify(model: Model, rows: Labelled, objective: Objective) -> dict[str, Any]:
    from ..batch import certificate
    from ..core import losses
    from ..core.penalties import L1, L2, L2Ball, NoPenalty, Penalty

    learner = model.learner
    try:
        objective_loss = losses.get(objective.loss) if objective.loss is not None else learner.loss
    except ValueError as error:
        raise UsageError(str(error)) from None
    if objective_loss.kind != learner.loss.kind:
        raise UsageError(f"--loss must be a {learner.loss.kind} loss like that of the model, {learner.loss}")
    penalty: Penalty | None = None
    if objective.l1 is not None or objective.l2 is not None:
        strengths = ((L1, objective.l1), (L2, objective.l2))
        penalty = sum((kind(lam) for kind, lam in strengths if lam), NoPenalty())
    asked = learner.penalty if penalty is None else penalty
    coef, intercept = learner.weights()
    weights: Any = (coef.T if coef.ndim == 2 else coef, intercept if learner.fit_intercept else None)
    try:
        if learner.algorithm is None:
            proof = certificate(weights, rows, loss=objective_loss, penalty=asked)
        else:
            proof = certificate(learner, rows, loss=objective_loss, penalty=penalty)
    except TypeError as error:  # no certificate for this loss or penalty
        raise ValueError(str(error)) from None
    size = max(abs(proof.primal), abs(proof.dual))
    return {
        "proof": proof,
        "loss": str(objective_loss),
        "penalty": repr(asked if isinstance(proof.penalty, L2Ball) else proof.penalty),  # that beside the mean loss
        **_scope(proof),
        "primal": float(proof.primal),
        "dual": float(proof.dual),
        "gap": float(proof.gap),
        "relative_gap": float(proof.gap) / size if size else 0.0,
    }


def _scope(proof: Certificate) -> dict[str, Any]:
    """Return what has to be said about the proof beside its numbers."""
    from ..core.penalties import L2Ball

    said: dict[str, Any] = {}
    if isinstance(proof.penalty, L2Ball):
        said["norm_at_most"] = float(proof.penalty.radius)
        said["why"] = "without a penalty an optimum may not exist; compared with all weights of at most this norm"
    if not proof.in_memory:
        said["bound"] = "from the model's scores alone: the rows do not fit in memory"
    return said


# ---- what --features lists


def certain_features(model: Model, proof: Certificate) -> dict[str, list[dict[str, Any]]]:
    """Return the features that are zero in no optimum, and in every optimum, the largest weights of the model first."""
    import numpy as np

    coef, _ = model.learner.weights()
    weights, names = coef.reshape(len(coef), -1), model.named()
    largest = weights[np.arange(len(weights)), np.argmax(np.abs(weights), axis=1)] if len(weights) else np.zeros(0)

    def entries(features: Any) -> list[dict[str, Any]]:
        of = [(int(j), float(largest[j]) if j < len(largest) else 0.0) for j in features]
        of.sort(key=lambda pair: (-abs(pair[1]), pair[0]))
        return [{"feature": j, **({"name": names.get(j, [])} if names else {}), "weight": w} for j, w in of]

    known = np.union1d(proof.present, np.flatnonzero(largest))
    return {"never_zero": entries(proof.support), "always_zero": entries(np.intersect1d(proof.zeros, known))}


def feature_lines(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the lists as lines; of the zeros only those with a weight in the model."""
    never, always = found["never_zero"], found["always_zero"]
    wrong = [entry for entry in always if entry["weight"] != 0.0]
    counts = {"never_zero": len(never), "always_zero": len(always), "of_these_not_zero_in_the_model": len(wrong)}
    lines = ["", "# features in every optimum", *facts(counts.items())]
    for heading, entries in (("zero in no optimum", never), ("zero in every optimum, but not in the model", wrong)):
        if entries:
            columns = list(entries[0])
            rows = [[text_of(entry[name]) for name in columns] for entry in entries]
            lines += ["", f"# {heading}", *table(columns, rows, left=len(columns) - 1)]
    return lines
