"""Data sets in tiny files of each format: what is read, and what is message where a file is missing or broken."""

from __future__ import annotations

import codecs
import gzip
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file
from sklearn.utils import Bunch

from proxstream import datasets

RNG = np.random.default_rng(5)


def written(file: Path, content: bytes, packed: bool) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if packed:
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(content))
    else:
        file.write_bytes(content)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


# -- MNIST ---------------------------------------------------------------------------------------


def digits(folder: Path, packed: bool, dotted: bool = False) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    parts = {}
    for name, n in (("train", 7), ("t10k", 3)):
        images, labels = RNG.integers(0, 256, (n, 4, 5), dtype=np.uint8), RNG.integers(0, 10, n, dtype=np.uint8)
        between = "." if dotted else "-"
        written(folder / f"{name}-images{between}idx3-ubyte", idx(images), packed)
        written(folder / f"{name}-labels{between}idx1-ubyte", idx(labels), packed)
        parts[name] = images, labels
    return parts


@pytest.mark.parametrize(("packed", "dotted"), [(False, False), (True, False), (False, True)])
def test_mnist_is_what_was_written(tmp_path: Path, packed: bool, dotted: bool) -> None:
    parts = digits(tmp_path, packed, dotted)
    read = datasets.load_mnist(tmp_path)
    for part, (images, labels) in zip((read.train, read.test), parts.values(), strict=True):
        assert_array_equal(part.X, images.reshape(len(images), 20))
        assert_array_equal(part.y, labels)
        assert part.X.dtype == np.uint8
        assert part.y.dtype == np.int64
        assert len(part) == len(images)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00\x00\x0d\x01\x00\x00\x00\x00", "an idx file of bytes along 1 axes, got 00 00 0d 01"),
        (b"", "an idx file of bytes along 1 axes, got"),
        (idx(np.zeros(7, np.uint8))[:-1], r"\(7,\) bytes were promised, 6 are there"),
        (idx(np.zeros(6, np.uint8)), "6 labels do not fit the 7 images of train-images-idx3-ubyte"),
    ],
)
def test_broken_idx_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    digits(tmp_path, packed=False)
    broken = tmp_path / "train-labels-idx1-ubyte"
    broken.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        datasets.load_mnist(tmp_path)
    assert str(error.value).startswith(f"{broken}: ")


def test_a_cut_gzip_file_is_named(tmp_path: Path) -> None:
    digits(tmp_path, packed=True)
    broken = tmp_path / "t10k-images-idx3-ubyte.gz"
    broken.write_bytes(broken.read_bytes()[:-9])
    with pytest.raises(ValueError, match="not a complete gzip file") as error:
        datasets.load_mnist(tmp_path)
    assert str(error.value).startswith(f"{broken}: ")


# -- census tables -------------------------------------------------------------------------------

PERSON = "39, State-gov, 77516, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 2174, 0, 40, Peru, {}\n"


@pytest.mark.parametrize("packed", [False, True])
def test_adult_with_comments_full_stops_and_empty_lines(tmp_path: Path, packed: bool) -> None:
    written(tmp_path / "adult.data", (PERSON.format("<=50K") + PERSON.format(">50K") + "\n").encode(), packed)
    written(tmp_path / "adult.test", ("|1x3 Cross validator\n" + PERSON.format(">50K.")).encode(), packed)
    read = datasets.load_adult(tmp_path)
    assert_array_equal(read.train.y, [-1, 1])
    assert_array_equal(read.test.y, [1])
    assert len(read.train.columns) == 14
    assert_array_equal(read.train.columns["capital-gain"], [2174.0, 2174.0])
    assert read.test.columns["occupation"].tolist() == ["?"]
    assert read.train.weight is None
    kinds = [column.dtype == np.float64 for column in read.train.columns.values()]
    assert sum(kinds) == 6


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (PERSON.format("<=50K") + PERSON.format("rich"), "2: the last cell must be '<=50K' or '>50K', got 'rich'"),
        (PERSON.format("<=50K") + "39, Private\n", "2: a row must have 15 cells, got 2"),
        (PERSON.replace("39", "old").format("<=50K"), " column 'age' must hold numbers: .*'old'"),
        ("\n", " it holds no rows"),
    ],
)
def test_broken_rows_are_named(tmp_path: Path, rows: str, message: str) -> None:
    for part in ("data", "test"):
        (tmp_path / f"adult.{part}").write_text(rows)
    with pytest.raises(ValueError, match=f"adult.data:{message}"):
        datasets.load_adult(tmp_path)


def census_row(weight: float, label: str) -> str:
    cells = [str(i) for i in range(41)]
    cells[24] = str(weight)
    return ", ".join([*cells, label]) + "\n"


def test_census_with_one_half_or_two(tmp_path: Path) -> None:
    rows = census_row(1032.38, "- 50000.") + census_row(7.5, "50000+.")
    written(tmp_path / "census-income.test", rows.encode(), packed=True)
    half = datasets.load_census(tmp_path)
    assert half.train is None
    assert half.test is not None
    assert_array_equal(half.test.y, [-1, 1])
    assert half.test.weight is not None
    assert_array_equal(half.test.weight, [1032.38, 7.5])
    assert len(half.test.columns) == 40
    numbers = {name for name, column in half.test.columns.items() if column.dtype == np.float64}
    assert len(numbers) == 7
    assert half.test.columns["weeks worked"].tolist() == [39.0, 39.0]
    assert half.test.columns["year"].tolist() == ["40", "40"]
    written(tmp_path / "census-income.data", rows.encode(), packed=False)
    whole = datasets.load_census(tmp_path)
    assert whole.train is not None
    assert len(whole.train) == 2


# -- text ----------------------------------------------------------------------------------------

POSTS = {"sci.space": {"9": "orbit\r\n", "10": "moon é"}, "alt.atheism": {"3": "why"}}


def newsgroups(folder: Path) -> None:
    for part in ("train", "test"):
        for group, posts in POSTS.items():
            for number, text in posts.items():
                written(folder / f"20news-bydate-{part}" / group / number, text.encode("latin-1"), packed=False)


def test_newsgroups_from_folders_and_from_the_archive_are_the_same(tmp_path: Path) -> None:
    folders, archive = tmp_path / "folders", tmp_path / "archive"
    newsgroups(folders)
    archive.mkdir()
    with tarfile.open(archive / "20news-bydate.tar.gz", "w:gz") as packed:
        for part in sorted(folders.iterdir()):
            packed.add(part, part.name)
    for folder in (folders, archive):
        read = datasets.load_newsgroups(folder)
        for part in (read.train, read.test):
            assert part.texts == ["why", "orbit\r\n", "moon é"]
            assert part.names == ("alt.atheism", "sci.space")
            assert_array_equal(part.y, [0, 1, 1])


def test_an_archive_of_something_else_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "20news-bydate.tar.gz"
    with tarfile.open(archive, "w:gz"):
        pass
    with pytest.raises(ValueError, match="it holds no posts in a folder 20news-bydate-train"):
        datasets.load_newsgroups(tmp_path)
    archive.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"20news-bydate.tar.gz: not a complete tar archive"):
        datasets.load_newsgroups(tmp_path)


def test_newsgroups_that_scikit_learn_has_fetched_before(tmp_path: Path) -> None:
    bunches = {
        part: Bunch(
            data=["why", "orbit"],
            target=np.array([0, 1]),
            target_names=["alt.atheism", "sci.space"],
            filenames=np.array(["a/3", "b/9"]),
            DESCR="",
        )
        for part in ("train", "test")
    }
    (tmp_path / "20news-bydate_py3.pkz").write_bytes(codecs.encode(pickle.dumps(bunches), "zlib_codec"))
    read = datasets.load_newsgroups(tmp_path, fetch=True)
    assert read.train.texts == ["why", "orbit"]
    assert_array_equal(read.test.y, [0, 1])
    assert read.test.names == ("alt.atheism", "sci.space")


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_text_is_what_scikit_learn_wrote(tmp_path: Path, zero_based: bool) -> None:
    X = RNG.integers(1, 100, (40, 9)) / 8 * (RNG.random((40, 9)) < 0.3)  # of few digits, which the writer keeps
    X[:, -1] += 1.0
    y = RNG.choice([-1.0, 1.0], 40)
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=zero_based)
    read = datasets.load_text(tmp_path / "rows.svm", zero_based=zero_based)
    assert_array_equal(read.X.toarray(), X)
    assert_array_equal(read.y, y)


def test_a_text_file_without_rows_is_named(tmp_path: Path) -> None:
    (tmp_path / "none.svm").write_text("# nothing\n")
    with pytest.raises(ValueError, match=r"none.svm: it holds no rows"):
        datasets.load_text(tmp_path / "none.svm")


# -- ranking -------------------------------------------------------------------------------------


def test_queries_told_by_sizes_and_by_ids(tmp_path: Path) -> None:
    sizes, ids = tmp_path / "sizes", tmp_path / "ids"
    for folder in (sizes, ids):
        folder.mkdir()
    for name, rows in (("train", ["2 {}1:0.5", "0 {}1:0.1", "1 {}5:1"]), ("test", ["1 {}2:1", "0 {}3:1", "0 {}1:1"])):
        (sizes / f"rank.{name}").write_text("\n".join(row.format("") for row in rows))
        (sizes / f"rank.{name}.query").write_text("2\n1\n")
        qids = ("qid:4 ", "qid:4 ", "qid:9 ")
        (ids / f"{name}.txt").write_text("\n".join(row.format(qid) for row, qid in zip(rows, qids, strict=True)))
    for folder, queries in ((sizes, [0, 0, 1]), (ids, [4, 4, 9])):
        read = datasets.load_ranking(folder)
        assert read.train.X.shape == read.test.X.shape == (3, 6)
        assert_array_equal(read.train.y, [2, 0, 1])
        assert_array_equal(read.train.query, queries)
        assert read.train.X.toarray()[2, 5] == 1.0
    (sizes / "rank.test.query").write_text("2\n2\n")
    with pytest.raises(ValueError, match=r"rank.test.query: the queries' sizes must add up to the 3 rows of rank.test"):
        datasets.load_ranking(sizes)
    (sizes / "rank.test.query").unlink()
    with pytest.raises(ValueError, match=r"rank.test: its rows have no qid, and there is no file rank.test.query"):
        datasets.load_ranking(sizes)


# -- what is missing -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "file"),
    [
        (datasets.load_mnist, "train-images-idx3-ubyte"),
        (datasets.load_adult, "adult.data"),
        (datasets.load_census, "census-income.data or census-income.test"),
        (datasets.load_newsgroups, "20news-bydate.tar"),
        (datasets.load_ranking, "rank.train or train.txt"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_missing_is_told_with_the_folder_and_its_source(
    tmp_path: Path, load: Callable[[Path], object], file: str
) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileNotFoundError) as error:
            load(folder)
        message = str(error.value)
        assert message.startswith(f"{folder}: ")
        assert file.split(" or ")[0] in message
        assert "from " in message
        assert "\n" not in message


def test_a_missing_text_file_is_told_with_its_source(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"rcv1.svm: no such file; get svmlight files, such as RCV1"):
        datasets.load_text(tmp_path / "rcv1.svm")
