"""`proxstream certify`: how far from optimal a model can be at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import (
    AsJSON,
    Bad,
    Data,
    Format,
    Labelled,
    ModelFile,
    OneBased,
    OnError,
    Quarantine,
    facts,
    open_data,
    print_json,
    show,
)

if TYPE_CHECKING:
    from ..model import Model

EPILOG = """\b
Examples:
  proxstream certify model.psm rows.svm
  proxstream certify model.psm rows.svm --l1 1e-4 --l2 1e-3
"""


def certify(
    model: ModelFile,
    data: Data,
    loss: Annotated[str | None, typer.Option(metavar="NAME", help="Loss, in place of the model's own.")] = None,
    l1: Annotated[
        float | None, typer.Option("--l1", min=0.0, metavar="LAM", help="Strength of an l1 penalty, likewise.")
    ] = None,
    l2: Annotated[
        float | None, typer.Option("--l2", min=0.0, metavar="LAM", help="Strength of an l2 penalty, likewise.")
    ] = None,
    format: Format = None,
    one_based: OneBased = None,
    on_error: OnError = "stop",
    quarantine: Quarantine = None,
    json: AsJSON = False,
) -> None:
    """Prove how far from optimal a model is: primal value, dual value, and the gap between them.

    No weights have a lower objective (mean loss + penalty) than the dual value, so that the model is at most the gap
    above the best. The data are read several times, in bounded memory.
    """
    from ..modelfile import load_model

    if "-" in data:
        raise typer.BadParameter("the data are read several times, which standard input cannot be: give files")
    bad = Bad(on_error, quarantine)
    bad.check([model, *data])
    made = load_model(model)
    with open_data(made, data, format, one_based, bad=bad, labelled=True) as stream:
        rows = Labelled(made, stream, skip=on_error != "stop")
        told = _certified(made, rows, loss, l1, l2)
    if on_error != "stop":
        told["skipped"] = rows.skipped
    if json:
        print_json(told)
    else:
        show(facts(told.items()))


def _certified(model: Model, rows: Labelled, loss: str | None, l1: float | None, l2: float | None) -> dict[str, Any]:
    from .. import losses
    from ..batch import certificate
    from ..penalties import L1, L2, NoPenalty, Penalty

    learner = model.learner
    try:
        judged = losses.get(loss) if loss is not None else learner.loss
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if judged.kind != learner.loss.kind:
        raise typer.BadParameter(f"--loss must be of the kind of {learner.loss}, which is {learner.loss.kind}")
    penalty: Penalty | None = None
    if l1 is not None or l2 is not None:
        penalty = sum(((kind(lam) for kind, lam in ((L1, l1), (L2, l2)) if lam)), NoPenalty())
    coef, intercept = learner.weights()
    bare: Any = (coef.T if coef.ndim == 2 else coef, intercept if learner.fit_intercept else None)
    try:
        if learner.algorithm is None:
            proof = certificate(bare, rows, loss=judged, penalty=learner.penalty if penalty is None else penalty)
        else:
            proof = certificate(learner, rows, loss=judged, penalty=penalty)
    except TypeError as error:  # there is no certificate for this loss or penalty
        raise ValueError(str(error)) from None
    size = max(abs(proof.primal), abs(proof.dual))
    return {
        "loss": str(judged),
        "penalty": repr(learner.penalty if penalty is None else penalty),
        "primal": float(proof.primal),
        "dual": float(proof.dual),
        "gap": float(proof.gap),
        "relative_gap": float(proof.gap) / size if size else 0.0,
    }
