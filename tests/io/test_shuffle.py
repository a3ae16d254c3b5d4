"""Shuffled streams: a permutation of each window that depends on the sequence of rows and the seed alone."""

from __future__ import annotations

import io
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import proxstream as ps
from proxstream.core.validation import Array
from proxstream.data.rowblock import RowBlock
from proxstream.io import FeatureSpec, write_cache
from proxstream.io.open import place_of
from proxstream.io.shuffle import permutation
from proxstream.io.types import Position
from proxstream.training.labels import BadLabelError, Labels

from ..examples import examples

pytestmark = pytest.mark.interpreted


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files, whose rows have their numbers as values, with a bad row in each."""
    folder = tmp_path_factory.mktemp("rows")
    paths = []
    for name, numbers in (("a.svm", range(300)), ("b.svm", range(300, 437))):
        lines = [f"{i % 2} {1 + i % 7}:{i + 1}\n" for i in numbers]
        lines.insert(50, "bad row\n")
        (folder / name).write_text("".join(lines))
        paths.append(str(folder / name))
    return paths


def opened(files: Any, buffer: int, chunk_bytes: int = 256, **more: Any) -> Any:
    reading = {"chunk_bytes": chunk_bytes, "on_error": "skip", "dtype": np.float32, "shuffle_buffer": buffer}
    return ps.open_stream(files, **(reading | more))


def values(chunks: Any) -> Array:
    return np.concatenate([chunk.rows.data for chunk in chunks] or [np.empty(0)])


@examples(30)
@given(
    buffer=st.sampled_from([1, 2, 10, 64, 100, 437, 438, 5000]),
    chunk_bytes=st.integers(20, 3000),
    seed=st.sampled_from([0, 1, 1 << 40]),
)
def test_windows_are_permuted_however_the_stream_is_cut(
    files: list[str], buffer: int, chunk_bytes: int, seed: int
) -> None:
    with opened(files, buffer, chunk_bytes, seed=seed) as stream:
        found = values(stream.chunks())
        np.testing.assert_array_equal(values(stream.chunks()), found)  # another pass
        with opened(files, 0, chunk_bytes) as ordered:
            n_bytes = [sum(chunk.n_bytes for chunk in one.chunks()) for one in (stream, ordered)]
        assert n_bytes[0] == n_bytes[1]
        assert stream.skipped == 2
    rows = np.arange(1.0, 438.0)
    windows = np.split(rows, range(buffer, 437, buffer))
    expected = [window[permutation(seed, i, len(window))] for i, window in enumerate(windows)]
    np.testing.assert_array_equal(found, np.concatenate(expected))


@pytest.mark.parametrize("piece", [1, 7, 1 << 13])
def test_reading_resumes_at_every_chunk_exactly(files: list[str], piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxstream.io.shuffle.PIECE", piece)
    whole = values(opened(files, 100).chunks())
    for chunk_bytes in (90, 700):
        with opened(files, 100, chunk_bytes) as stream:
            done = 0
            for chunk in stream.chunks():
                done += chunk.rows.n_rows
                if piece > 1 or done % 37 == 0:
                    with opened(files, 100, 401) as rest:  # cut elsewhere
                        np.testing.assert_array_equal(values(rest.chunks(chunk.end)), whole[done:])
                        assert rest.skipped == 2
            assert list(stream.chunks(chunk.end)) == []
    assert done == 437


def test_rows_added_after_the_end_are_found(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"1 1:{i + 1}\n" for i in range(250)))
    end = list(opened(path, 100).chunks())[-1].end
    with path.open("a") as file:
        file.write("1 1:999\n")
    assert values(opened(path, 100).chunks(end)).tolist() == [999.0]


def test_all_orders_of_a_window_are_about_equally_frequent() -> None:
    n = 24_000
    found = Counter(tuple(permutation(3, i, 4).tolist()) for i in range(n))
    assert set(found) == set(permutations(range(4)))
    expected = n / 24
    chi2 = sum((count - expected) ** 2 / expected for count in found.values())
    assert chi2 < 50  # 23 degrees of freedom: 1 in 1,000
    first = np.array([permutation(seed, 0, 50)[0] for seed in range(5000)])
    assert np.bincount(first, minlength=50).min() > 50


def test_labels_and_weights_move_with_their_rows(tmp_path: Path) -> None:
    rows = RowBlock(np.arange(41), np.zeros(40, np.int32), np.arange(1.0, 41.0), np.arange(40.0), np.arange(2.0, 42.0))
    write_cache(ps.open_stream(_svm(rows, tmp_path), dtype=np.float64), tmp_path / "rows.psr")
    for rows in opened(tmp_path / "rows.psr", 16):
        np.testing.assert_array_equal(rows.y, rows.data - 1.0)


def _svm(rows: RowBlock, folder: Path) -> Path:
    path = folder / "rows.svm"
    path.write_text("".join(f"{y:g} 0:{x:g}\n" for y, x in zip(rows.y, rows.data, strict=True)))
    return path


def test_numbered_names_are_those_of_the_ordered_stream(tmp_path: Path) -> None:
    path = tmp_path / "rows.vw"
    path.write_text("".join(f"1 |site s{i % 90}\n" for i in range(200)))
    names = []
    for buffer in (0, 64):
        stream = ps.open_stream(path, features=FeatureSpec(bits=None), chunk_bytes=300, shuffle_buffer=buffer)
        assert sum(rows.n_rows for rows in stream) == 200
        names.append(stream.featurizer.names.names)
    assert names[0] == names[1]


def test_errors_name_the_place_of_a_shuffled_row(tmp_path: Path) -> None:
    lines = [f"1 0:{i + 1}\n" for i in range(60)]
    lines[33] = "7 0:34\n"
    path = tmp_path / "rows.svm"
    path.write_text("# a comment\n" + "".join(lines))
    with ps.open_stream(path, shuffle_buffer=50, chunk_bytes=100) as stream:
        chunk = next(stream.chunks())
        with pytest.raises(BadLabelError, match=r"rows\.svm: row 34: the label is 7"):
            Labels(ps.logistic).read_chunk(chunk, stream.names)
        for row, value in enumerate(chunk.rows.data):
            assert place_of(stream, chunk, Position(), row) == f"{path}:{int(value) + 1}"


def test_queries_are_not_shuffled() -> None:
    text = io.BytesIO(b"1 qid:1 1:1\n0 qid:1 2:1\n")
    with pytest.raises(ps.DataError, match="shuffle_buffer is not for rows with a qid"):
        list(ps.open_stream(text, "svmlight", shuffle_buffer=10))
    text.seek(0)
    assert sum(rows.n_rows for rows in ps.open_stream(text, "svmlight", qid=False, shuffle_buffer=10)) == 2


@pytest.mark.parametrize(("name", "value"), [("shuffle_buffer", -1), ("shuffle_buffer", 2.5), ("seed", -3)])
def test_bad_options_are_named(name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=f"{name} must be an integer >= 0, got {value}"):
        ps.open_stream(io.BytesIO(b"1 1:1\n"), "svmlight", **{name: value})
