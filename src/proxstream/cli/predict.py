"""`proxstream predict`: one line per row, in the order of the rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from click import Option, UsageError

from .command import command
from .common import check_places, load_strength, open_data
from .errors import usage
from .options import DATA, FILE_NAME, FORMAT, INDEX_BASE, MODEL, STRENGTH

if TYPE_CHECKING:
    from ..core.validation import Array
    from ..models.model import Model

BLOCK = 1 << 13  # rows formatted at once

EPILOG = """\b
Examples:
  proxstream predict model.psm rows.svm
  proxstream predict model.psm rows.svm --predict probabilities -o predictions.txt
  cat rows.svm | proxstream predict model.psm - --format svmlight | head
"""


@command(
    EPILOG,
    [MODEL, DATA],
    [
        Option(
            ["--predict"],
            default="labels",
            metavar="WHAT",
            help="What to print: labels, probabilities or scores.",
        ),
        Option(["--output", "-o"], **FILE_NAME, help="Write to FILE, atomically. [default: stdout]"),
        FORMAT,
        INDEX_BASE,
        STRENGTH,
    ],
)
def predict(
    model: str,
    data: tuple[str, ...],
    predict: str,
    output: str | None,
    format: str | None,
    one_based: bool | None,
    strength: float | None,
) -> None:
    """Predict each row: one line per row on stdout, without a header.

    Labels are those of the training data; for regression and ranking, the predicted values. Probabilities are those of
    the positive class; with several classes, one per class, separated by commas.
    """
    from ..io.atomic import replacing
    from ..models.model import OUTPUTS

    if predict not in OUTPUTS:
        raise UsageError(f"--predict must be one of {', '.join(OUTPUTS)}, got {predict!r}")
    path = None if output == "-" else output
    check_places({"-o": path}, [model, *data])
    fitted = load_strength(model, strength)
    with usage():
        fitted.check_output(predict)
    with open_data(fitted, data, format, one_based) as stream:
        texts = (text for chunk in stream.chunks() for text in lines(fitted, fitted.chunk_scores(chunk), predict))
        if path is None:
            for text in texts:
                sys.stdout.write(text)
            return
        with replacing(path) as out:
            for text in texts:
                out.write(text.encode())


def lines(model: Model, scores: Array, output: str) -> Iterator[str]:
    """Yield the lines of some rows at a time; numbers have all digits of their precision."""
    import numpy as np

    values = model.outputs_of(scores, output)
    several = 1 if values.ndim == 1 else values.shape[1]
    if output == "labels" and model.classes:
        found, places = np.unique(values, return_inverse=True)
        words = [f"{label}\n" if isinstance(label, str) else f"{label:.17g}\n" for label in found.tolist()]
        yield "".join([words[place] for place in places.tolist()])
        return
    digits = "%.9g" if model.learner.dtype == np.float32 else "%.17g"
    row = ",".join([digits] * several) + "\n"
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        yield row * len(block) % tuple(block.ravel().tolist())
