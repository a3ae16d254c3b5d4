"""A label that the reader of a stream cannot use is a bad row at its line and column, in every text format."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import proxstream as ps
from proxstream.core import losses
from proxstream.io import DataError
from proxstream.training.labels import Labels

from ..examples import examples

ACCEPTED = Labels(losses.logistic).accepted_labels
LINES = {  # of a good row, a row with a bad label, and lines that are no rows
    "svmlight": ("1 1:1", " -3 2:1 # x", ["# nothing", ""]),
    "vw": ("1 |a x", "2 |a y", [""]),
    "csv": ('"a\n""b",0,7', "x,5,1", []),
    "jsonl": ('{"label": 1, "a": 1}', '{"label": 3, "a": 1}', []),
}
COLUMNS = {"svmlight": 2, "vw": 1, "csv": 3, "jsonl": 1}
HEADS = {"csv": "name,label,b\n"}


@examples(25)
@given(
    st.sampled_from(sorted(LINES)),
    st.lists(st.sampled_from(["good"] * 6 + ["bad", "none"]), min_size=1, max_size=60),
    st.integers(20, 400),
)
def test_bad_labels_are_left_out_and_kept_with_their_places(format: str, kinds: list[str], chunk_bytes: int) -> None:
    good, bad, nothing = LINES[format]
    text, expected, line = HEADS.get(format, ""), [], 1 + len(HEADS.get(format, "").splitlines())
    n_good = 0
    for k, kind in enumerate(kinds):
        record = {"good": good, "bad": bad}.get(kind) or (nothing[k % len(nothing)] if nothing else good)
        if kind == "bad":
            expected += [f"# <bytes>:{line}:{COLUMNS[format]}: found the label", bad]
        n_good += record == good
        text += record + "\n"
        line += record.count("\n") + 1
    assume(n_good > 0)
    with pytest.MonkeyPatch.context() as patch:
        for n_parsers in (1, 2):
            patch.setattr("proxstream.io.text.parallel.parsers", lambda n=n_parsers: n)
            check(text, format, chunk_bytes, n_good, expected)


def check(text: str, format: str, chunk_bytes: int, n_good: int, expected: list[str]) -> None:
    settings = {"chunk_bytes": chunk_bytes, "labels": ACCEPTED}
    stream = ps.open_stream(io.BytesIO(text.encode()), format, on_error="skip", **settings)
    labels = np.concatenate([chunk.rows.y for chunk in stream.chunks()])
    assert len(labels) == n_good
    assert ACCEPTED.good(labels).all()
    assert stream.skipped == len(expected) // 2
    if expected:
        name = stream.names[0]
        with pytest.raises(DataError, match="found the label") as caught:
            list(ps.open_stream(io.BytesIO(text.encode()), format, **settings))
        assert str(caught.value).startswith(expected[0][2:].replace("<bytes>", name))


@pytest.mark.parametrize("format", sorted(LINES))
def test_the_quarantine_file_holds_the_rows_as_they_were(format: str, tmp_path: Path) -> None:
    good, bad, _ = LINES[format]
    path, kept = tmp_path / f"rows.{'svm' if format == 'svmlight' else format}", tmp_path / "bad.txt"
    head = HEADS.get(format, "")
    path.write_text(head + "\n".join([good, good, bad, bad, good, bad]) + "\n")
    stream = ps.open_stream(path, labels=ACCEPTED, on_error="quarantine", quarantine=kept)
    assert sum(rows.n_rows for rows in stream) == 3
    lines = 1 + good.count("\n")
    value, first = {"svmlight": "-3", "vw": "2", "csv": "5", "jsonl": "3"}[format], 1 + bool(head)
    places = [first + 2 * lines, first + 2 * lines + 1, first + 3 * lines + 2]
    assert kept.read_text() == "".join(
        f"# {path}:{line}:{COLUMNS[format]}: found the label {value}, expected -1, 0 or 1\n{bad}\n" for line in places
    )


def test_a_row_without_a_label_is_reported_as_such() -> None:
    with pytest.raises(DataError, match=r":2:1: found no label, expected -1, 0 or 1"):
        list(ps.open_stream(io.BytesIO(b"1 |a x\n|a y\n"), "vw", labels=ACCEPTED))
