"""Hashes against published vectors, an independent version and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.utils import murmurhash3_32

from proxstream.io.features._hash import crossed, hash_name, hash_strings, murmur3_32

from .naive_features import murmur3

SEEDS = st.integers(0, 2**32 - 1)


# The vectors that implementations of MurmurHash3_x86_32 are checked with: no bytes, each length of tail, high bits.
@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
        (b"\x21\x43\x65", 0, 0x7E4A8634),
        (b"\x21\x43", 0, 0xA0F7B07A),
        (b"\x21", 0, 0x72661CF4),
        (b"\0\0\0\0", 0, 0x2362F9DE),
        (b"\0", 0, 0x514E28B7),
        (b"aaaa", 0x9747B28C, 0x5A97808A),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
        (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
    ],
)
def test_published_vectors(data: bytes, seed: int, expected: int) -> None:
    assert hash_name(data, seed) == murmur3(data, seed) == expected


@settings(deadline=None)
@given(st.binary(max_size=40), SEEDS)
def test_any_bytes_as_naive_and_as_scikit_learn(data: bytes, seed: int) -> None:
    assert hash_name(data, seed) == murmur3(data, seed) == murmurhash3_32(data, seed, positive=True)


@settings(deadline=None)
@given(st.binary(max_size=20), st.binary(max_size=20), st.binary(max_size=20), SEEDS)
def test_only_the_bytes_between_start_and_stop_count(before: bytes, data: bytes, after: bytes, seed: int) -> None:
    buffer = np.frombuffer(before + data + after, np.uint8)
    start, stop = len(before), len(before) + len(data)
    assert murmur3_32(buffer, start, stop, np.uint32(seed)) == murmur3(data, seed)


@settings(deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1), SEEDS, st.sampled_from([pa.string(), pa.large_string()]))
def test_arrow_strings(words: list[str], seed: int, kind: pa.DataType) -> None:
    _, offsets, data = pa.array(words, kind).buffers()
    dtype = np.int32 if kind == pa.string() else np.int64
    buffer = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    hashes = hash_strings(buffer, np.frombuffer(offsets, dtype)[: len(words) + 1], np.uint32(seed))
    assert hashes.tolist() == [murmur3(word.encode(), seed) for word in words]


@settings(deadline=None)
@given(SEEDS, SEEDS)
def test_a_cross_is_the_hash_of_the_second_hash_seeded_with_the_first(h: int, g: int) -> None:
    assert crossed(np.uint32(h), np.uint32(g)) == murmur3(g.to_bytes(4, "little"), h)


def test_low_bits_are_spread_evenly() -> None:
    words = pa.array([f"user{i}" for i in range(1 << 16)])
    _, offsets, data = words.buffers()
    hashes = hash_strings(np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int32), np.uint32(0))
    counts = np.bincount(hashes & 0xFF, minlength=256)
    # Chi-square with 255 degrees of freedom: mean 255, standard deviation 22.6.
    assert abs(((counts - 256) ** 2 / 256).sum() - 255) < 5 * 22.6
    assert abs(int((hashes >> 31).sum()) - (1 << 15)) < 5 * 128
