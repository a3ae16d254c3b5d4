"""Numeric columns standardized as they stream, or not: held-out loss of what `proxstream train` leaves on real tables.

    python -m benchmarks standardize [--data FOLDER] [--rows 20000]

FOLDER has one folder per set: adult, california_housing, kdd_census_income, us_flights (see `kept_sets`); those that
are not there are left out. cancer, wine, diabetes and digits are those of scikit-learn. Rows are shuffled once and a
quarter of them is held out; labels of regression are divided by their deviation. Nothing is timed.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import tempfile
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from proxstream import cli
from proxstream.learner.scale_warning import ScaleWarning
from proxstream.models.file import load_model

RESULTS = Path(__file__).parent / "results"
LEARNERS = {
    "AutoFTRL": (),
    "AutoFTRL, 3 passes": ("--passes", "3"),
    "FTRLProximal": ("--algorithm", "ftrl_proximal"),
    "AdaGrad": ("--algorithm", "adagrad"),
}
FLIGHTS = ("DayofMonth", "DayOfWeek", "Tail_Number", "Origin", "Dest", "DepTimeBlk", "CRSDepTime", "Distance")


class Table(NamedTuple):
    """A table with the column `label`; options that it needs."""

    name: str
    frame: pd.DataFrame
    options: tuple[str, ...]


def _regression(name: str, frame: pd.DataFrame) -> Table:
    return Table(name, frame.assign(label=frame["label"] / frame["label"].std()), ("--loss", "squared"))


def _of_sklearn() -> Iterator[Table]:
    from sklearn import datasets

    for name, load in (("cancer", datasets.load_breast_cancer), ("wine", datasets.load_wine)):
        found = load(as_frame=True)
        frame = found.data.assign(label=found.target)
        yield Table(name, frame, ("--loss", "softmax", "--classes", "3") if name == "wine" else ())
    digits = datasets.load_digits(as_frame=True)
    yield Table("digits", digits.data.assign(label=digits.target), ("--loss", "softmax", "--classes", "10"))
    found = datasets.load_diabetes(as_frame=True, scaled=False)
    yield _regression("diabetes", found.data.assign(label=found.target))


def _of_folder(folder: Path, rows: int) -> Iterator[Table]:
    if (folder / "california_housing").exists():
        frame = pd.read_csv(folder / "california_housing/housing.csv").rename(columns={"median_house_value": "label"})
        yield _regression("housing", frame)
        yield Table("housing, above the median", frame.assign(label=frame["label"] > frame["label"].median()), ())
    if (folder / "adult").exists():
        frame = pd.read_csv(folder / "adult/adult.data", header=None, skipinitialspace=True)
        yield Table("adult", frame.rename(columns={14: "label"}).assign(label=lambda one: one["label"] == ">50K"), ())
    if (folder / "kdd_census_income").exists():
        with gzip.open(folder / "kdd_census_income/census-income.test.gz", "rt") as file:
            frame = pd.read_csv(file, header=None, skipinitialspace=True, nrows=2 * rows)
        frame = frame.drop(columns=24).rename(columns={41: "label"})
        yield Table("census", frame.assign(label=frame["label"].str.contains(r"50000\+")), ())
    for path in (folder / "us_flights").glob("*.csv.gz"):
        with gzip.open(path, "rt") as file:
            records = [row for row in islice(csv.DictReader(file), 0, 20 * rows, 10) if row["ArrDel15"]]
        frame = pd.DataFrame([{name: row[name] for name in FLIGHTS} for row in records])
        yield Table("flights", frame.assign(label=[int(float(row["ArrDel15"])) for row in records]), ())


def _losses(table: Table, rows: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the held-out loss of each learner without and with standardized numbers."""
    frame = table.frame.sample(frac=1.0, random_state=0)[: rows + rows // 3]
    frame = frame.rename(columns=lambda name: f"column {name}" if isinstance(name, int) else name)
    frame = frame.assign(label=frame["label"].astype(int) if frame["label"].dtype == bool else frame["label"])
    learned, out = len(frame) * 3 // 4, folder / "held_out.csv"
    frame[:learned].to_csv(folder / "rows.csv", index=False)
    frame[learned:].to_csv(out, index=False)
    for learner, options in LEARNERS.items():
        found: dict[str, Any] = {"table": table.name, "rows": learned, "learner": learner}
        for name, more in (("as it is", ("--no-standardize",)), ("standardized", ())):
            model = folder / "model.psm"
            command = ["train", str(folder / "rows.csv"), "-o", str(model), "-q", "--holdout-file", str(out)]
            if cli.main([*command, *table.options, *options, *more]):
                raise SystemExit(f"{table.name}: training failed")
            summary = load_model(str(model)).summary
            found |= {name: summary["held_out_loss"], f"progressive, {name}": summary["progressive_loss"]}
        yield found


def main(arguments: list[str]) -> None:
    """Train on all tables, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks standardize", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of real sets")
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ScaleWarning)
    found = []
    print(line := f"{'table':<26}{'rows':>7}  {'learner':<20}{'as it is':>10}{'standardized':>14}")
    lines = [line]
    for table in (*_of_sklearn(), *(_of_folder(options.data, options.rows) if options.data else ())):
        with tempfile.TemporaryDirectory() as folder:
            for one in _losses(table, options.rows, Path(folder)):
                found.append(one)
                values = f"{one['as it is']:>10.4f}{one['standardized']:>14.4f}"
                print(line := f"{one['table']:<26}{one['rows']:>7,}  {one['learner']:<20}{values}", flush=True)
                lines.append(line)
    (RESULTS / "standardize.txt").write_text("\n".join(lines) + "\n")
    (RESULTS / "standardize.json").write_text(json.dumps(found, indent=1) + "\n")
