"""Partitions: every way of having rows on a cluster gives the same rows, and errors name what is wrong."""

from __future__ import annotations

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix, random_array

from proxstream.cluster.client import connect, tree
from proxstream.cluster.partitions import Partitions, make_partitions, survey, to_row_block
from proxstream.data.rowblock import as_block
from proxstream.io.features.spec import FeatureSpec

N, D, CUT = 30, 6, (12, 13, 5)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = random_array((N, D), density=0.5, rng=rng, format="csr")
    return X, rng.integers(0, 3, N).astype(float), rng.integers(1, 4, N).astype(float)


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    X, y, _ = rows
    folder = tmp_path_factory.mktemp("parts")
    for k, (start, stop) in enumerate(bounds()):
        lines = [
            " ".join([f"{y[i]:g}", *(f"{j}:{X[i, j]:.17g}" for j in range(D) if X[i, j] != 0)])
            for i in range(start, stop)
        ]
        (folder / f"part{k}.svm").write_text("\n".join(lines) + "\n")
    return folder


def bounds():
    ends = np.cumsum(CUT)
    return list(zip(ends - CUT, ends, strict=True))


def given(kind, rows, files):
    """Return X, y, weights as a user has them."""
    X, y, c = rows
    dense = X.toarray()
    apart = da.from_array(y, chunks=(CUT,)), da.from_array(c, chunks=(CUT,))
    array = da.from_array(dense, chunks=(CUT, 2))
    if kind == "dense":
        return array, *apart
    if kind == "sparse":
        return array.rechunk({1: -1}).map_blocks(csr_matrix), y, c
    if kind == "frame":
        frame = pd.DataFrame(dense, columns=list("abcdef")).assign(label=y, weight=c)
        return dd.from_pandas(frame, npartitions=3), "label", "weight"
    if kind == "bag":
        return db.from_sequence([as_block(X[a:b], y[a:b], c[a:b]) for a, b in bounds()], partition_size=2), None, None
    if kind == "delayed":
        return [dask.delayed((X[a:b], y[a:b], c[a:b])) for a, b in bounds()], None, None
    if kind == "futures":
        client = files  # scattered by the test
        return client.scatter([(X[a:b], y[a:b], c[a:b]) for a, b in bounds()], hash=False), None, None
    return str(files / "*.svm"), None, None


def unchanged(batch):
    return batch


def all_rows(client, parts: Partitions, dtype=None):
    """Gather every partition as one dense matrix with labels and weights."""
    blocks = client.gather(
        [client.submit(to_row_block, part.load(client), unchanged, dtype, pure=False) for part in parts.parts]
    )
    X = np.concatenate(
        [csr_array((b.data, b.indices, b.indptr), shape=(b.n_rows, D)).toarray() for b in blocks if b.n_rows]
    )
    return X, np.concatenate([b.y for b in blocks]), np.concatenate([b.c for b in blocks])


@pytest.mark.default_cases(3)
@pytest.mark.parametrize("kind", ["dense", "sparse", "frame", "bag", "delayed", "futures", "files"])
def test_every_kind_is_the_same_rows(client, rows, files, kind):
    parts = make_partitions(
        *given(kind, rows, client if kind == "futures" else files), **({"dtype": "float64"} if kind == "files" else {})
    )
    X, y, c = all_rows(client, parts)
    np.testing.assert_array_equal(X, rows[0].toarray())
    np.testing.assert_array_equal(y, rows[1])
    if kind != "files":
        np.testing.assert_array_equal(c, rows[2])
    found = survey(client, parts)
    assert sum(found.rows) == N
    assert found.n_features == D
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.labels, [0, 1, 2])
    np.testing.assert_array_equal(found.counts, np.bincount(rows[1].astype(int)))


def test_labels_may_be_text(client):
    X, y = da.ones((6, 2), chunks=(2, 2)), da.from_array(np.array(list("bbabca")), chunks=2)
    found = survey(client, make_partitions(X, y))
    assert found.labels.tolist() == ["a", "b", "c"]
    assert found.counts.tolist() == [2, 3, 1]


def test_what_is_known_is_not_computed():
    def never(block):
        raise AssertionError("computed")

    parts = make_partitions(da.ones((6, 2), chunks=2).map_blocks(never, meta=np.ones((0, 0))), np.zeros(6))
    assert (parts.rows, parts.n_features, parts.dtype) == ((2, 2, 2), 2, np.float64)


def test_hashed_files_have_a_known_number_of_features(tmp_path):
    (tmp_path / "a.csv").write_text("label,color,size\n1,red,2\n0,blue,3\n")
    parts = make_partitions([tmp_path / "a.csv"], features=FeatureSpec(bits=10))
    assert parts.n_features == 1024
    assert dict(parts.features.columns) == {"color": "categorical", "size": "numeric"}
    with pytest.raises(ValueError, match="hash the features"):
        make_partitions([tmp_path / "a.csv"], features=FeatureSpec(bits=None))
    with pytest.raises(ValueError, match="standardize=True does not work on a cluster"):
        make_partitions([tmp_path / "a.csv"], features=FeatureSpec(standardize=True))
    with pytest.raises(ValueError, match="an offset \\(column 'size'\\) does not work on a cluster"):
        make_partitions([tmp_path / "a.csv"], features=FeatureSpec(offset="size"))


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda: (np.ones((2, 2)), np.ones(2)), TypeError, "X must be a dask array, data frame or bag"),
        (lambda: ([], None), TypeError, "X must be a dask array"),
        (lambda: (da.ones((4, 2)), None), TypeError, "y is missing: pass labels with X"),
        (lambda: (da.ones(4), np.ones(4)), ValueError, "X must be a matrix"),
        (lambda: (da.ones((4, 2)), np.ones(3)), ValueError, r"y must have shape \(4,\)"),
        (lambda: (da.ones((4, 2)), da.ones(3)), ValueError, "y must have 4 rows"),
        (lambda: (da.ones((4, 2)), da.ones((4, 1))), ValueError, "y must be a vector"),
        (lambda: ([dask.delayed(1)] * 2, [dask.delayed(1)]), ValueError, "y must have 2 partitions like X, got 1"),
        (lambda: ("no/such/*.svm", None), FileNotFoundError, "no file matches"),
        (lambda: ("-", None), ValueError, "-: a pipe can only be read here"),
    ],
)
def test_errors_name_the_argument(made, error, message):
    with pytest.raises(error, match=message):
        make_partitions(*made())


def test_an_error_names_the_partition(client):
    X = [dask.delayed((np.ones((2, 2)), np.ones(2))), dask.delayed((np.ones((2, 2)), np.ones(3)))]
    with pytest.raises(ValueError, match="partition 1: 2 rows need as many labels"):
        survey(client, make_partitions(X))


def test_partitions_without_rows_are_rejected(client):
    with pytest.raises(ValueError, match="no rows to learn from"):
        survey(client, make_partitions([dask.delayed((np.ones((0, 2)), np.ones(0)))]))


def test_clients(cluster, client):
    with connect(client) as one, connect(cluster.scheduler_address) as two, connect(None) as three:
        assert one is client
        assert three is two  # the newest is the current one
        assert set(one.scheduler_info()["workers"]) == set(two.scheduler_info()["workers"])
    for wrong, message in ((3, "must be a distributed.Client"), ("local:many", "'local:N'")):
        with pytest.raises((TypeError, ValueError), match=message), connect(wrong):
            pass


def test_a_tree_adds_in_one_order(client):
    futures = client.map(str, range(20), pure=False)
    grouped = tree(client, joined, futures, "test-tree").result()
    groups = ["".join(f"{i}" for i in range(a, min(a + 8, 20))) for a in (0, 8, 16)]
    assert grouped == "".join(f"({group})" for group in groups).join("()")


def joined(texts):
    return f"({''.join(texts)})"
