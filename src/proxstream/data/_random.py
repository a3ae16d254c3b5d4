"""The one random generator of compiled loops: splitmix64, whose state is a single 64-bit number.

Reference: G. L. Steele, D. Lea, C. H. Flood, Fast splittable pseudorandom number generators, 2014.
"""

from __future__ import annotations

import numpy as np

from ..jit.compile import inlined


@inlined
def draw(seed):
    """Return the next 64-bit number of the sequence; `seed` is an array of one uint64."""
    seed[0] += np.uint64(0x9E3779B97F4A7C15)
    z = seed[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def uniform(seed):
    """Return the next number in [0, 1), with 53 random bits."""
    return float(draw(seed) >> np.uint64(11)) / 9007199254740992.0
