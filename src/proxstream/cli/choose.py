"""`proxstream choose`: the model of one strength from a file that has several."""

from __future__ import annotations

from typing import Any

from click import Option, UsageError

from .command import command
from .common import check_places, choose_model, show
from .errors import usage
from .options import FILE, MODEL, Integer, Number
from .path_table import path_table

EPILOG = """\b
Examples:
  proxstream train clicks.svm -o model.psm --l1 auto --keep-path
  proxstream choose model.psm --nnz 1000 -o small.psm
  proxstream choose model.psm --loss 1% -o small.psm
"""


@command(
    EPILOG,
    [MODEL],
    [
        Option(["--output", "-o"], required=True, type=FILE, metavar="MODEL", help="Model file to write."),
        Option(["--best"], is_flag=True, help="The least loss."),
        Option(["--1se", "one_error"], is_flag=True, help="The sparsest within one standard error of the least loss."),
        Option(["--nnz"], type=Integer(0), metavar="N", help="The least loss with at most N non-zeros."),
        Option(["--loss"], metavar="SHARE", help="The sparsest whose loss is at most this share above the least: 1%."),
        Option(["--strength"], type=Number(0.0), metavar="LAM", help="One of the strengths that inspect shows."),
    ],
)
def choose(
    model: str,
    output: str,
    best: bool,
    one_error: bool,
    nnz: int | None,
    loss: str | None,
    strength: float | None,
) -> None:
    """Write the model of another strength of the penalty, from a file that `train --keep-path` has written.

    Losses are those of held-out rows if training had any, else progressive ones. The model is an ordinary one: it
    predicts, and training continues from it.
    """
    from ..models.file import load_model, save
    from ..training.run import OutputError, check_output

    option, rule = _rule({"--best": best, "--1se": one_error, "--nnz": nnz, "--loss": loss, "--strength": strength})
    check_places({"-o": output}, [model])
    try:
        check_output(output)
    except OutputError as error:
        raise UsageError(str(error)) from None
    chosen = choose_model(load_model(model), model, option, **rule)
    save(chosen, output)
    show(path_table(chosen.summary["path"], chosen.summary["strength"]))


def _rule(given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the option that was given and what it means to `Model.choose`."""
    from ..training.strengths import parse_share

    options = [option for option, value in given.items() if value is not None and value is not False]
    if len(options) != 1:
        found = " and ".join(options) or "none"
        raise UsageError(f"give one of {', '.join(given)}; got {found}")
    option, value = options[0], given[options[0]]
    if option in ("--best", "--1se"):
        return option, {"rule": option.removeprefix("--")}
    if option == "--loss":
        with usage():
            try:
                return f"--loss {value}", {"loss_within": parse_share(value)}
            except ValueError:
                raise ValueError(f"--loss must be a share >= 0 such as 1% or 0.01, got {value!r}") from None
    return f"{option} {value:g}", {option.removeprefix("--"): value}
