"""Real sets with rows to learn and rows held out, read from a folder that has one folder per set.

| set                     | rows                                                               | folder               |
|-------------------------|--------------------------------------------------------------------|----------------------|
| a9a                     | binary features                                                    | a9a                  |
| adult, adult crossed    | numbers and categories; all pairs of columns                       | adult                |
| housing, housing scaled | numbers as they are; centred, deviation 1; above the median or not | california_housing   |
| digits                  | raw pixels, odd against even                                       | mnist                |
| phrases, phrases tf-idf | counts of words and word pairs; rows of unit length                | sst2                 |
| news, news tf-idf       | the same of long texts; sorted by topic                            | 20newsgroups_bydate  |
| census                  | numbers and categories                                             | kdd_census_income    |
| flights                 | numbers and categories, late or not; in order of days              | us_flights           |
| cancer                  | numbers in their own units                                         | none: scikit-learn's |

A set whose files are not there is left out.
"""

from __future__ import annotations

import csv
import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

HELD_OUT = 10_000  # rows at most
BITS = 18


class Kept(NamedTuple):
    """Rows in file order and rows held out, labels -1/+1."""

    name: str
    X: csr_matrix
    y: np.ndarray
    new: csr_matrix
    new_y: np.ndarray


# Constants are chosen on the first and judged on the others.
CHOSEN_ON = ("a9a", "adult", "housing", "housing scaled", "phrases", "phrases tf-idf")
JUDGED_ON = ("adult crossed", "digits", "news", "news tf-idf", "census", "flights", "cancer")


def _hash(word: str) -> int:
    return zlib.crc32(word.encode()) & ((1 << BITS) - 1)


def _hashed(records: Sequence[Sequence[str]], numbers: Sequence[int], *, cross: bool = False) -> csr_matrix:
    """Return categories, each hashed with its column's number, and numbers; or categories and all pairs of them."""
    indices: list[int] = []
    values: list[float] = []
    indptr = [0]
    for record in records:
        words = [f"{j}={value}" for j, value in enumerate(record) if cross or j not in numbers]
        pairs = [f"{a}^{b}" for a, b in combinations(words, 2)] if cross else []
        indices += map(_hash, words + pairs)
        values += [1.0] * (len(words) + len(pairs))
        if not cross:
            indices += [_hash(f"number {j}") for j in numbers]
            values += [float(record[j] or 0.0) for j in numbers]
        indptr.append(len(indices))
    X = csr_matrix((np.array(values, np.float32), indices, indptr), shape=(len(records), 1 << BITS))
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _split(name: str, X: csr_matrix, y: np.ndarray, rows: int) -> Kept:
    """Hold out a quarter of the rows, sampled."""
    some = np.sort(np.random.default_rng(1).permutation(len(y))[: rows + min(rows // 3, HELD_OUT)])
    X, y = X[some], y[some]
    out = np.zeros(len(y), bool)
    out[np.random.default_rng(2).permutation(len(y))[: len(y) // 4]] = True
    return Kept(name, X[~out], y[~out], X[out], y[out])


def _a9a(folder: Path, rows: int) -> Iterator[Kept]:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(folder / "a9a/a9a"), n_features=123)
    new_X, new_y = load_svmlight_file(str(folder / "a9a/a9a.t"), n_features=123)
    yield Kept("a9a", csr_matrix(X)[:rows], y[:rows], csr_matrix(new_X)[:HELD_OUT], new_y[:HELD_OUT])


def _adult(folder: Path, rows: int) -> Iterator[Kept]:
    tables = []
    for name, most in (("adult.data", rows), ("adult.test", HELD_OUT)):
        lines = (folder / "adult" / name).read_text().splitlines()
        tables.append(
            [[value.strip(" .") for value in line.split(",")] for line in lines if line.count(",") == 14][:most]
        )
    labels = [np.array([1.0 if record[14] == ">50K" else -1.0 for record in table]) for table in tables]
    table, new = ([record[:14] for record in table] for table in tables)
    numbers = (0, 2, 4, 10, 11, 12)
    yield Kept("adult", _hashed(table, numbers), labels[0], _hashed(new, numbers), labels[1])
    yield Kept("adult crossed", _hashed(table, (), cross=True), labels[0], _hashed(new, (), cross=True), labels[1])


def _housing(folder: Path, rows: int) -> Iterator[Kept]:
    with (folder / "california_housing/housing.csv").open() as file:
        records = list(csv.DictReader(file))
    places = ("NEAR BAY", "INLAND", "<1H OCEAN", "NEAR OCEAN")
    columns = [name for name in records[0] if name not in ("median_house_value", "ocean_proximity")]
    X = np.array(
        [
            [float(r[name] or 0.0) for name in columns] + [float(r["ocean_proximity"] == place) for place in places]
            for r in records
        ]
    )
    value = np.array([float(record["median_house_value"]) for record in records])
    y = np.where(value > np.median(value), 1.0, -1.0)
    yield _split("housing", csr_matrix(X), y, rows)
    yield _split("housing scaled", csr_matrix((X - X.mean(axis=0)) / X.std(axis=0)), y, rows)


def _digits(folder: Path, rows: int) -> Iterator[Kept]:
    found = []
    for part, most in (("train", rows), ("t10k", HELD_OUT)):
        for kind, start in (("images-idx3", 16), ("labels-idx1", 8)):
            with gzip.open(folder / f"mnist/{part}-{kind}-ubyte.gz") as file:
                numbers = np.frombuffer(file.read(), np.uint8, offset=start)
            found.append(numbers.reshape(-1, 784 if start == 16 else 1)[:most].astype(np.float32))
    X, label, new_X, new_label = found
    odd, new_odd = (np.where(one.ravel() % 2 == 1, 1.0, -1.0) for one in (label, new_label))
    yield Kept("digits", csr_matrix(X), odd, csr_matrix(new_X), new_odd)


def _texts(name: str, texts: list[str], y: np.ndarray, rows: int) -> Iterator[Kept]:
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    words = HashingVectorizer(n_features=1 << 20, ngram_range=(1, 2), alternate_sign=False, norm=None)
    counts = _split(name, csr_matrix(words.transform(texts)), y, rows)
    yield counts
    weigh = TfidfTransformer().fit(counts.X)
    yield Kept(f"{name} tf-idf", weigh.transform(counts.X), counts.y, weigh.transform(counts.new), counts.new_y)


def _phrases(folder: Path, rows: int) -> Iterator[Kept]:
    lines = [line.split("\t") for line in (folder / "sst2/train.tsv").read_text().splitlines()[1:]]
    y = np.array([1.0 if label.strip() == "1" else -1.0 for _, label in lines])
    yield from _texts("phrases", [text for text, _ in lines], y, rows)


def _news(folder: Path, rows: int) -> Iterator[Kept]:
    (path,) = (folder / "20newsgroups_bydate").glob("*.tar.gz")
    texts, topics = [], []
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                texts.append(file.read().decode("latin1"))
                topics.append(member.name.split("/")[-2])
    y = np.where([topic.startswith(("comp.", "sci.")) for topic in topics], 1.0, -1.0)
    yield from _texts("news", texts, y, rows)


def _census(folder: Path, rows: int) -> Iterator[Kept]:
    with gzip.open(folder / "kdd_census_income/census-income.test.gz", "rt") as file:
        records = [[value.strip(" .\n") for value in line.split(",")] for line in islice(file, 2 * rows)]
    y = np.array([1.0 if "50000+" in record[-1] else -1.0 for record in records])
    records = [record[:24] + record[25:-1] for record in records]  # without the instance's weight
    yield _split("census", _hashed(records, (0, 5, 16, 17, 18, 38)), y, rows)


def _flights(folder: Path, rows: int) -> Iterator[Kept]:
    (path,) = (folder / "us_flights").glob("*.csv.gz")
    columns = ("DayofMonth", "DayOfWeek", "Tail_Number", "Flight_Number_Operating_Airline", "Origin", "Dest")
    columns += ("DepTimeBlk", "ArrTimeBlk", "CRSDepTime", "Distance")
    with gzip.open(path, "rt") as file:
        table = csv.DictReader(file)
        records = [row for row in islice(table, 0, 20 * rows, 10) if row["ArrDel15"]]
    y = np.array([1.0 if float(record["ArrDel15"]) > 0.0 else -1.0 for record in records])
    yield _split("flights", _hashed([[record[name] for name in columns] for record in records], (8, 9)), y, rows)


def _cancer(folder: Path, rows: int) -> Iterator[Kept]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    yield _split("cancer", csr_matrix(X), np.where(y == 1, 1.0, -1.0), rows)


LOADERS: dict[Callable[[Path, int], Iterator[Kept]], tuple[str, ...]] = {
    _a9a: ("a9a",),
    _adult: ("adult", "adult crossed"),
    _housing: ("housing", "housing scaled"),
    _digits: ("digits",),
    _phrases: ("phrases", "phrases tf-idf"),
    _news: ("news", "news tf-idf"),
    _census: ("census",),
    _flights: ("flights",),
    _cancer: ("cancer",),
}


def load(folder: Path, rows: int, names: Sequence[str] = ()) -> Iterator[Kept]:
    """Yield the sets whose files are in the folder, all or those named, with at most this many rows to learn."""
    for loader, made in LOADERS.items():
        if names and not set(names) & set(made):
            continue
        try:
            yield from (one for one in loader(folder, rows) if not names or one.name in names)
        except (FileNotFoundError, ValueError) as error:
            print(f"left out: {', '.join(made)} ({error})")


def shuffled(one: Kept, seed: int = 0) -> Kept:
    """Return the set with the rows to learn in random order."""
    order = np.random.default_rng(seed).permutation(len(one.y))
    return one._replace(X=one.X[order], y=one.y[order])
