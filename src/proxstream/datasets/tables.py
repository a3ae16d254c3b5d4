"""Census tables of the UCI repository: people in columns, and whether one earns more than 50,000 a year."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .records import Split, Table, content, fetched, find

NUMBER, CATEGORY, WEIGHT = "number", "category", "weight"


@dataclass(frozen=True)
class _Form:
    """How a file is written: its columns with their kinds, its two labels without their full stop, its origin."""

    columns: dict[str, str]
    labels: dict[str, int]
    source: str


def _kinds(names: str, numbers: Sequence[str], weight: str = "") -> dict[str, str]:
    return {
        name: WEIGHT if name == weight else NUMBER if name in numbers else CATEGORY
        for name in (one.strip() for one in names.split(","))
    }


ADULT = _Form(
    _kinds(
        "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, race, sex, "
        "capital-gain, capital-loss, hours-per-week, native-country",
        ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
    ),
    {"<=50K": -1, ">50K": 1},
    "archive.ics.uci.edu, data set Adult; fetch=True gets the data from OpenML",
)
CENSUS = _Form(
    _kinds(
        "age, class of worker, industry code, occupation code, education, wage per hour, enrolled in education, "
        "marital status, major industry, major occupation, race, hispanic origin, sex, union member, "
        "reason for unemployment, employment, capital gains, capital losses, dividends, tax filer, "
        "region of previous residence, state of previous residence, household and family, household summary, weight, "
        "migration between areas, migration between regions, migration within region, same house a year ago, "
        "migration from sunbelt, persons worked for employer, family members under 18, father's birth country, "
        "mother's birth country, birth country, citizenship, own business, veterans questionnaire, veterans benefits, "
        "weeks worked, year",
        (
            "age",
            "wage per hour",
            "capital gains",
            "capital losses",
            "dividends",
            "persons worked for employer",
            "weeks worked",
        ),
        weight="weight",
    ),
    {"- 50000": -1, "50000+": 1},
    "archive.ics.uci.edu, data set Census-Income (KDD)",
)


def load_adult(folder: str | Path, *, fetch: bool = False) -> Split[Table]:
    """Load Adult: 32,561 and 16,281 people of the census of 1994, six columns of numbers and eight of categories.

    Parameters
    ----------
    folder
        Holds adult.data and adult.test, packed by gzip or not.
    fetch
        Get the data from OpenML through scikit-learn, which keeps them in the folder.

    Returns
    -------
    Two tables; y is +1 above 50,000 a year.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from proxstream.datasets import load_adult
    >>> folder = Path(mkdtemp())
    >>> row = "39, Private, 77516, Bachelors, 13, Divorced, Sales, Unmarried, White, Male, 0, 0, 40, Peru, >50K"
    >>> for part in ("data", "test"):
    ...     _ = (folder / f"adult.{part}").write_text(row)
    >>> people = load_adult(folder).train
    >>> people.columns["age"], people.columns["workclass"], people.y
    (array([39.]), array(['Private'], dtype=object), array([1]))

    References
    ----------
    B. Becker, R. Kohavi. Adult. UCI Machine Learning Repository, 1996.
    """
    if fetch:
        return _from_openml(folder)
    return Split(*(_read(find(folder, [f"adult.{part}"], ADULT.source), ADULT) for part in ("data", "test")))


def load_census(folder: str | Path) -> Split[Table | None]:
    """Load KDD Census-Income: 199,523 and 99,762 people, seven columns of numbers and 33 of categories.

    Parameters
    ----------
    folder
        Holds census-income.data and census-income.test, packed by gzip or not, or only one of them.

    Returns
    -------
    Two tables, None for a part whose file is not there; y is +1 above 50,000 a year, and the weights, which say how
    many people a row represents, are separate from the columns.

    Examples
    --------
    >>> from proxstream.datasets import load_census
    >>> load_census("no/such")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    FileNotFoundError: no/such: no such folder; it should contain census-income.data, from ...

    References
    ----------
    T. Lane, R. Kohavi. Census-Income (KDD). UCI Machine Learning Repository, 2000.
    """
    names = ["census-income.data", "census-income.test"]
    find(folder, names, CENSUS.source)
    parts: list[Table | None] = []
    for name in names:
        try:
            parts.append(_read(find(folder, [name], CENSUS.source), CENSUS))
        except FileNotFoundError:
            parts.append(None)
    return Split(*parts)


def _read(file: Path, form: _Form) -> Table:
    width = len(form.columns) + 1
    rows, labels = [], []
    for line, cells in _lines(file):
        if len(cells) != width:
            raise ValueError(f"{file}:{line}: a row must have {width} cells, got {len(cells)}")
        label = cells[-1].removesuffix(".")
        if label not in form.labels:
            accepted = " or ".join(map(repr, form.labels))
            raise ValueError(f"{file}:{line}: the last cell must be {accepted}, got {cells[-1]!r}")
        rows.append(cells)
        labels.append(form.labels[label])
    if not rows:
        raise ValueError(f"{file}: it holds no rows")
    columns, weight = {}, None
    for (name, kind), column in zip(form.columns.items(), zip(*rows, strict=True), strict=False):
        if kind == CATEGORY:
            columns[name] = np.array(column, dtype=object)
            continue
        try:
            numbers = np.array(column, dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"{file}: column {name!r} must hold numbers: {error}") from None
        if kind == WEIGHT:
            weight = numbers
        else:
            columns[name] = numbers
    return Table(columns, np.array(labels), weight)


def _lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of every line that is a row: no comment (|) and not empty."""
    reader = csv.reader(io.StringIO(content(file).decode("latin-1"), newline=""))
    for cells in reader:
        if cells and any(cells) and not cells[0].startswith("|"):
            yield reader.line_num, [cell.strip() for cell in cells]


def _from_openml(folder: str | Path) -> Split[Table]:
    from sklearn.datasets import fetch_openml

    try:
        frame = fetch_openml("adult", version=2, as_frame=True, data_home=str(folder)).frame
    except OSError as error:
        raise fetched("Adult", error) from None
    y = np.array([ADULT.labels[label] for label in frame["class"]])
    columns = {
        name: frame[other].to_numpy(np.float64)
        if kind == NUMBER
        else frame[other].astype(object).fillna("?").to_numpy()
        for (name, kind), other in zip(ADULT.columns.items(), frame.columns, strict=False)
    }
    halves = (slice(None, 32_561), slice(32_561, None))
    return Split(*(Table({name: column[half] for name, column in columns.items()}, y[half]) for half in halves))
