"""`proxstream predict`: one line a row, in the order of the rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from .common import Data, Format, ModelFile, OneBased, check_places, open_data

if TYPE_CHECKING:
    from .._checks import Array
    from ..model import Model

BLOCK = 1 << 13  # rows that are formatted in one go

EPILOG = """\b
Examples:
  proxstream predict model.psm rows.svm
  proxstream predict model.psm rows.svm --output probabilities -o predictions.txt
  cat rows.svm | proxstream predict model.psm - --format svmlight | head
"""


def predict(
    model: ModelFile,
    data: Data,
    output: Annotated[
        str, typer.Option("--output", metavar="WHAT", help="labels, probabilities or scores.")
    ] = "labels",
    file: Annotated[
        str | None, typer.Option("-o", "--file", metavar="FILE", help="Write there, whole or not at all.")
    ] = None,
    format: Format = None,
    one_based: OneBased = None,
) -> None:
    """Predict each row: one line a row on stdout, no header.

    Labels are those of the training data; of numbers, counts and ranks they are the predictions. The probability is
    that of the positive class; of several classes there is one a class, separated by commas.
    """
    from ..model import OUTPUTS
    from ..modelfile import load_model, replacing

    if output not in OUTPUTS:
        raise typer.BadParameter(f"--output must be one of {', '.join(OUTPUTS)}, got {output!r}")
    check_places({"-o": None if file == "-" else file}, [model, *data])
    made = load_model(model)
    if output == "probabilities" and output not in made.outputs:
        told = " or ".join(made.outputs)
        raise typer.BadParameter(f"a model of loss {made.loss} tells no probabilities, only {told}")
    with open_data(made, data, format, one_based) as stream:
        texts = (text for chunk in stream.chunks() for text in lines(made, made.scores(chunk.rows), output))
        if file in (None, "-"):
            for text in texts:
                sys.stdout.write(text)
            return
        with replacing(file or "") as out:
            for text in texts:
                out.write(text.encode())


def lines(model: Model, scores: Array, output: str) -> Iterator[str]:
    """Yield the text of some rows at a time; numbers have all digits that their precision is worth."""
    import numpy as np

    told = model.told(scores, output)
    several = 1 if told.ndim == 1 else told.shape[1]
    if output == "labels" and model.classes:
        # Each label is formatted once.
        found, places = np.unique(told, return_inverse=True)
        words = [f"{label}\n" if isinstance(label, str) else f"{label:.17g}\n" for label in found.tolist()]
        yield "".join([words[place] for place in places.tolist()])
        return
    digits = "%.9g" if model.learner.dtype == np.float32 else "%.17g"
    row = ",".join([digits] * several) + "\n"
    for start in range(0, len(told), BLOCK):
        block = told[start : start + BLOCK]
        yield row * len(block) % tuple(block.ravel().tolist())
