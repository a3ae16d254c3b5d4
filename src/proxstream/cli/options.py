"""Arguments and options that several commands share."""

from __future__ import annotations

import math
from typing import Any

import click
from click import Option

from .command import Argument

FILE = click.Path(readable=False)  # completed by the shell; whether it can be read is found when it is opened
FILE_NAME: dict[str, Any] = {"type": FILE, "metavar": "FILE"}
COLUMN: dict[str, Any] = {"metavar": "COLUMN"}
COLUMNS: dict[str, Any] = {"metavar": "COLUMN", "multiple": True}


class Integer(click.IntRange):
    """An integer in a range."""

    name = "integer"  # in errors


class Number(click.FloatRange):
    """A number in a range; NaN, which no comparison excludes, is in none."""

    name = "number"  # in errors

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number of a word."""
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail("must be a number, got nan", param, ctx)
        return found


MODEL = Argument("model", "A model file.", metavar="MODEL", type=FILE)
DATA = Argument(
    "data", "Files, globs, URIs, or - for standard input.", metavar="DATA...", type=FILE, nargs=-1, required=True
)
FORMAT = Option(
    ["--format"],
    metavar="NAME",
    help="svmlight, vw, csv, tsv, jsonl, parquet, arrow or cache. [default: by file name]",
)
INDEX_BASE = Option(["--one-based/--zero-based"], default=None, help="svmlight: index base. [default: as in training]")
ONE_BASED = Option(["--one-based"], is_flag=True, help="svmlight: subtract 1 from indices.")
MAX_FEATURES = Option(
    ["--max-features"],
    type=Integer(1, 1 << 31),
    default=1 << 26,
    metavar="N",
    help="Numbered features: reject an index of N or more.",
)
REPORT = Option(["--report"], **FILE_NAME, help="Write an HTML page with figures; needs matplotlib.")
STRENGTH = Option(
    ["--strength"],
    type=Number(0.0),
    metavar="LAM",
    help="Of several stored strengths this one. [default: the chosen one]",
)
AS_JSON = Option(["--json"], is_flag=True, help="Print the result as JSON.")
BAD_ROWS = (
    Option(["--on-error"], default="stop", metavar="stop|skip", help="Bad rows: stop with an error, or skip them."),
    Option(["--quarantine"], **FILE_NAME, help="Skip bad rows and write them to FILE with the reason."),
)
FEATURES = (
    Option(["--label"], **COLUMN, help="Label column of a table. [default: label]"),
    Option(["--weight"], **COLUMN, help="Column of row weights."),
    Option(["--qid"], **COLUMN, help="Column of query ids."),
    Option(["--offset"], **COLUMN, help="Column added to scores: log exposures, for poisson, gamma, tweedie."),
    Option(["--categorical"], **COLUMNS, help="Treat as categories; repeatable."),
    Option(["--numeric"], **COLUMNS, help="Treat as numbers; repeatable."),
    Option(["--text"], metavar="COLUMN[=GRAMS]", multiple=True, help="Treat as text: words:1-2, chars:3; repeatable."),
    Option(["--drop"], **COLUMNS, help="Ignore the column; repeatable."),
    Option(["--nulls"], metavar="WORD", multiple=True, help="Treat as missing, e.g. NA; repeatable."),
    Option(["--cross"], metavar="A*B", multiple=True, help="Products of columns or namespaces; repeatable."),
    Option(
        ["--bits", "-b"], default=22, metavar="B", help="Hash names into 2^B buckets; 0: number them as they occur."
    ),
)
