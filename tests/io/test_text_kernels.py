"""The kernels under the text parsers: numbers to the nearest double, checksums, and no step out of the buffer."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from decimal import Decimal, localcontext
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from proxstream.io import _xxhash as xxhash
from proxstream.io.features import _hash as hashing
from proxstream.io.features.spec import FeatureSpec
from proxstream.io.text import _lines as lines, _numbers as numbers, _svmlight as svmlight, buffers
from proxstream.io.text.svmlight import SvmlightParser
from proxstream.io.text.vw import VWParser
from proxstream.io.types import Settings
from proxstream.jit.byteops import PAD

from ..examples import examples
from . import naive_text, text_cases
from .naive_features import murmur3

MOST = 2**31 - 1


def padded(text: bytes, pad: bytes = bytes(PAD)) -> Any:
    return np.frombuffer(bytearray(text + pad), np.uint8)


def parsed(token: str) -> float:
    value, stop, status = numbers.number(padded(token.encode() + b"\n"), 0)
    assert (stop, status) == (len(token), numbers.GOOD)
    return float(value)


def bits(x: float) -> bytes:
    return np.float64(x).tobytes()


@examples(500)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["r", ".15e", ".16e", ".17e", ".25e", ".6g"]))
def test_doubles_are_read_back(x: float, form: str) -> None:
    token = repr(x) if form == "r" else format(x, form)
    assert bits(parsed(token)) == bits(float(token))


@examples(500)
@given(st.from_regex(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@example("9007199254740993")  # a tie, to the even one below
@example("9007199254740995")  # a tie, to the even one above
@example("2.4703282292062327208e-324")  # a hair below half of the smallest number, and above
@example("2.4703282292062327209e-324")
@example("2.2250738585072011e-308")  # the largest subnormal number
@example("1.7976931348623158079e308")  # the last to be finite, and the first that is not
@example("1.7976931348623158081e308")
@example("0." + "0" * 400 + "1e390")
@example("1" + "0" * 400 + "e-390")
@example("0e99999999999999999999")
@example("00000000000000000000001.5")
def test_numbers_are_those_of_python(token: str) -> None:
    assert bits(parsed(token)) == bits(float(token))


@examples(300)
@given(st.floats(min_value=0, max_value=1.7e308), st.integers(17, 40), st.sampled_from(["", "0000000001", "9"]))
def test_numbers_near_a_tie(x: float, n_digits: int, tail: str) -> None:
    with localcontext() as context:
        context.prec = 900
        tie = (Decimal(x) + Decimal(float(np.nextafter(x, np.inf)))) / 2
        exact = format(tie, "e")
        mantissa, _, power = format(tie, f".{n_digits}e").partition("e")
    for token in (exact, f"{mantissa}{tail}e{power}"):
        assert bits(parsed(token)) == bits(float(token))


@pytest.mark.parametrize("token", ["", "-", "+", ".", "e5", "-.", "1e", "1e+", "nan", "inf", "-inf", "x"])
def test_what_is_no_number(token: str) -> None:
    assert numbers.number(padded(token.encode() + b"\n"), 0)[2] == numbers.BAD


def test_the_powers_of_five_and_their_exponents() -> None:
    for e in range(numbers.LOWEST, numbers.HIGHEST + 1):
        high, low = (int(word) for word in numbers.FIVES[e - numbers.LOWEST])
        leading = high << 64 | low
        assert leading.bit_length() == 128
        # 10^e = 5^e * 2^e lies between leading and leading + 1, times 2^(floor(log2 10^e) - 127).
        shift = (217706 * e >> 16) - 127
        over, under = 10 ** max(e, 0) << max(-shift, 0), 10 ** max(-e, 0) << max(shift, 0)
        assert leading * under <= over < (leading + 1) * under


def naive_xxh64(data: bytes, seed: int = 0) -> int:
    """XXH64 from its specification."""
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5, mask = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5, 2**64 - 1

    def turned(x: int, r: int) -> int:
        return (x << r | x >> (64 - r)) & mask

    def taken(lane: int, word: int) -> int:
        return turned((lane + word * p2) & mask, 31) * p1 & mask

    at, h = 0, (seed + p5) & mask
    if len(data) >= 32:
        lanes = [(seed + p1 + p2) & mask, (seed + p2) & mask, seed, (seed - p1) & mask]
        while at + 32 <= len(data):
            for i in range(4):
                lanes[i] = taken(lanes[i], int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little"))
            at += 32
        h = sum(turned(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
        for lane in lanes:
            h = ((h ^ taken(0, lane)) * p1 + p4) & mask
    h = (h + len(data)) & mask
    while at + 8 <= len(data):
        h = (turned(h ^ taken(0, int.from_bytes(data[at : at + 8], "little")), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= len(data):
        h = (turned(h ^ (int.from_bytes(data[at : at + 4], "little") * p1 & mask), 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        h = turned(h ^ (byte * p5 & mask), 11) * p1 & mask
    for shift, factor in ((33, p2), (29, p3), (32, 1)):
        h = (h ^ h >> shift) * factor & mask
    return h


def xxh64(pieces: list[bytes], seed: int = 0) -> int:
    state, rest = np.zeros(6, np.uint64), np.zeros(32, np.uint8)
    xxhash.begin(state, np.uint64(seed))
    for piece in pieces:
        xxhash.update(state, rest, padded(piece), 0, len(piece))
    return int(xxhash.digest(state, rest))


def test_known_checksums() -> None:
    assert xxh64([b""]) == naive_xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64([b"a"]) == naive_xxh64(b"a") == 0xD24EC4F1A98C6E5B
    assert xxh64([b"abc"]) == naive_xxh64(b"abc") == 0x44BC2CF5AD770999


@examples(200)
@given(st.lists(st.binary(max_size=100), max_size=5), st.integers(0, 2**64 - 1))
def test_checksums_do_not_depend_on_the_cut(pieces: list[bytes], seed: int) -> None:
    assert xxh64(pieces, seed) == naive_xxh64(b"".join(pieces), seed)


@examples(200)
@given(st.binary(max_size=40), st.integers(0, 2**32 - 1))
def test_names_are_hashed_as_everywhere(name: bytes, seed: int) -> None:
    expected = murmur3(name, seed)
    assert hashing.hashed(padded(name, b"\xff" * PAD), 0, len(name), np.uint32(seed)) == expected
    assert hashing.murmur3_32(padded(name), 0, len(name), np.uint32(seed)) == expected


@examples(300)
@given(st.one_of(st.binary(max_size=12), st.text(max_size=6).map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_utf8_is_that_of_python(text: bytes) -> None:
    expected = -1
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        expected = error.start
    assert lines.invalid_utf8(padded(text), 0, len(text)) == expected


def outcome(parser: Any, buffer: Any, n_bytes: int) -> list[Any]:
    """Return all that a parser says of whole lines, bad ones being passed over."""
    at, found_rows = 0, []
    while at < n_bytes:
        found = parser.parse(buffer, at, n_bytes)
        found_rows.append((*(array.tolist() for array in found.rows), found.lines, found.at))
        at = found.at
        if found.bad is not None:
            found_rows.append(found.bad)
            at = buffer.tobytes().index(b"\n", at) + 1
    return found_rows


def parser_of(format: str, rng: random.Random) -> Any:
    if format != "vw":
        return SvmlightParser(Settings(qid=rng.choice([None, True, False]), chunk_bytes=8))
    spec = FeatureSpec(bits=8, crosses="a*b" if rng.random() < 0.3 else ())
    return VWParser(Settings(features=spec, chunk_bytes=8, options={"digits": rng.random() < 0.5}))


@pytest.mark.parametrize("format", ["svmlight", "plain", "vw"])
def test_bytes_after_the_lines_do_not_matter(format: str) -> None:
    for seed in range(100):
        text = text_cases.text(format, random.Random(seed)) + b"\n"
        pads = [bytes(PAD), b"9" * PAD, b"\n" * PAD, b" 1:1 |a "]
        found_rows = [repr(outcome(parser_of(format, random.Random(seed)), padded(text, p), len(text))) for p in pads]
        assert len(set(found_rows)) == 1, text


def test_rows_that_do_not_fit_the_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"1 1:1\n" * 10 + b"2 " + b" ".join(b"%d:1" % j for j in range(500)) + b"\n" + b"3\n" * 50
    whole = SvmlightParser(Settings(chunk_bytes=1 << 16)).parse(padded(text), 0, len(text)).rows
    monkeypatch.setattr(buffers, "ROOM", 2)
    found = outcome(SvmlightParser(Settings(chunk_bytes=8)), padded(text), len(text))
    assert len(found) > 3
    assert list(chain.from_iterable(one[1] for one in found)) == whole.indices.tolist()
    assert list(chain.from_iterable(one[3] for one in found)) == whole.y.tolist()


def row_by_row(text: bytes, dtype: Any) -> tuple[list[Any], int]:
    """Return rows as dicts and labels, and the number of bad lines."""
    at, rows, bad = 0, [], 0
    parser = SvmlightParser(Settings(dtype=dtype, qid=False))
    while at < len(text):
        found = parser.parse(padded(text), at, len(text))
        indptr, indices, data, y, _ = found.rows
        for i, (first, last) in enumerate(pairwise(indptr)):
            rows.append((y[i], dict(zip(indices[first:last].tolist(), data[first:last].tolist(), strict=True))))
        at = found.at
        if found.bad is not None:
            bad, at = bad + 1, text.index(b"\n", at) + 1
    return rows, bad


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.exhaustive)])
def test_windows_of_plain_lines_are_what_the_lines_are_one_by_one(dtype: Any) -> None:
    for seed in range(300):
        rng = random.Random(seed)
        text = b"".join(text_cases.plain_line(rng, rng.choice([0.0, 0.1])) + b"\n" for _ in range(rng.choice([9, 40])))
        if rng.random() < 0.7:
            text = text_cases.mutated(text, rng) + b"\n"
        expected, n_bad = naive_text.rows(text, naive_text.svmlight, dtype=dtype)
        rows, bad = row_by_row(text, dtype)
        assert bad == n_bad, text
        assert rows == [(row.y, row.features) for row in expected], text


def test_plain_lines_are_read_by_the_window() -> None:
    rng = random.Random(0)
    lines_ = [text_cases.plain_line(rng).rstrip() + b"\n" for _ in range(50)]
    room = np.empty(2000, np.int32), np.empty(2000, np.float32)
    for change, n_rows in ((b"", 40), (b"3 qid:1 1:1\n", 0), (b"1 1:1 # note\n", 0), (b"\n", 0), (b"1 x:1\n", 0)):
        text = b"".join([*lines_[:30], change, *lines_[30:]])
        at, stop = len(lines_[0]), sum(map(len, lines_[:41])) + len(change)
        arrays = lines.ParseBuffer(np.zeros(99, np.int32), *room, np.empty(99), *np.empty((5, 0)))
        state = np.zeros(lines.STATE, np.int64)
        buffer, seen = padded(text, bytes(99)), svmlight.window()
        rows, _ = svmlight.parse_window(buffer, at, stop, 0, MOST, arrays, 0, 0, state, seen)
        assert rows == n_rows


# The kernels as plain Python on arrays of the exact length: a step out of them is an IndexError.
INTERPRETED = """
import random, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from tests.io.test_text_kernels import outcome, padded, parser_of
from tests.io import text_cases
from proxstream.jit import compile as jit
from proxstream.io.text import _numbers as numbers
from proxstream.io.text import buffers
assert jit.INTERPRETED
buffers.ROOM = 2
for seed in range(int(sys.argv[1])):
    for format in ("svmlight", "plain", "vw"):
        text = text_cases.text(format, random.Random(seed)) + b"\\n"
        print(outcome(parser_of(format, random.Random(seed)), padded(text), len(text)))
for token in sys.argv[2:]:
    print(numbers.number(padded(token.encode() + b"\\n"), 0)[0] == float(token))
"""


def test_no_step_out_of_the_buffer(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    n, tokens = 60, ["9007199254740993", "2.5e-324", "1e-320", "0.1", "123456789012345678901234567890e-20", "1e400"]
    script = tmp_path / "interpreted.py"
    script.write_text(INTERPRETED)
    root = Path(__file__).parent.parent.parent
    paths = os.pathsep.join([str(root), *sys.path])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": paths}
    command = [sys.executable, str(script), str(n), *tokens]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(buffers, "ROOM", 2)
    expected = []
    for seed in range(n):
        for format in ("svmlight", "plain", "vw"):
            text = text_cases.text(format, random.Random(seed)) + b"\n"
            expected.append(repr(outcome(parser_of(format, random.Random(seed)), padded(text), len(text))))
    assert done.stdout.splitlines() == [*expected, *["True"] * len(tokens)]
