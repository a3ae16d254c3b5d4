"""What a table means as features, told the obvious way: dictionaries, loops, one row at a time."""

from __future__ import annotations


def murmur3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 x86 32, from its description: blocks of four bytes, a tail, an avalanche at the end."""

    def rotate(x: int, r: int) -> int:
        return (x << r | x >> (32 - r)) % 2**32

    def scrambled(k: int) -> int:
        return rotate(k * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32

    h = seed
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        h = rotate(h ^ scrambled(int.from_bytes(data[start : start + 4], "little")), 13)
        h = (h * 5 + 0xE6546B64) % 2**32
    h ^= scrambled(int.from_bytes(data[whole:], "little"))
    h ^= len(data) % 2**32
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ h >> shift) * factor % 2**32
    return h
