"""Plain lines of svmlight text, many at once: label index:value ... and nothing else, as nearly all are.

Read from its first byte, a number ends where it ends, and the next one can only begin to be read there: a chain, token
after token. Here the separators of some thousand bytes are found first, 64 bytes at a glance, so that all tokens are
known before the first is read. Then a few loops go over all tokens, each doing one thing to all of them, in vector
registers:

    text -> colons, ends (all other separators), lines      find
    -> the 8 bytes before each colon and each end           take
    -> indices, numerators and powers of ten                join
    -> values

What can be read so are indices of up to 8 digits and values of up to 8 characters and a minus sign. A value that is
none of these is read by `numbers`; where anything else is unusual - a qid, a comment, an empty line, a mistake - the
lines are left to the careful parser, and nothing of them counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .bits import AT_ONCE, WIDTH, occurrences, ones, write_places
from .jit import compiled, compiled_inline
from .lines import COLON, NEWLINE, RETURN, SPACE, TAB
from .numbers import EXACT
from .words import HIGH, ZEROS, joined, not_digits, pointer, trailing_zeros, word

WINDOW = 1 << 16  # bytes looked at together
TOKENS = WINDOW // 4  # that may be in them: 1:1 and a blank
MINUS = 45
LOWS = np.uint64(0x0101010101010101)
POINTS = np.uint64(0x1E) * LOWS  # points, where digits stand for their values
U0, U1, U3, U7, U63, BYTE = (np.uint64(x) for x in (0, 1, 3, 7, 63, 0xFF))


class Window(NamedTuple):
    """Places in the text, from the window's beginning on, and of each token what is made of it."""

    colons: Any
    ends: Any
    line_colons: Any  # how many of them are before each line
    line_ends: Any
    indices: Any  # the bytes of its index, and of its value
    values: Any
    negative: Any
    behind: Any  # digits behind the point
    wrong: Any


@compiled_inline
def window():
    """Return room for what a window can hold."""
    places = WINDOW + AT_ONCE
    return Window(
        np.empty(places, np.int32),
        np.empty(places, np.int32),
        np.empty(WINDOW + 2, np.int32),
        np.empty(WINDOW + 2, np.int32),
        np.empty(TOKENS, np.uint64),
        np.empty(TOKENS, np.uint64),
        np.empty(TOKENS, np.int32),
        np.empty(TOKENS, np.int32),
        np.empty(TOKENS, np.uint8),
    )


@compiled
def find(text, start, stop, seen):
    """Write where the separators of text[start:stop], whole lines, are; return the number of lines.

    64 bytes are read at a time, which the text has from `start` on.
    """
    buf, colons, ends = pointer(text), pointer(seen.colons), pointer(seen.ends)
    k, e, n_lines = 0, 0, 0
    seen.line_colons[0] = seen.line_ends[0] = 0
    for at in range(0, stop - start, WIDTH):
        keep = U0 - U1 >> np.uint64(max(at + WIDTH - (stop - start), 0))
        colon = occurrences(buf, start + at, COLON, COLON) & keep
        newline = occurrences(buf, start + at, NEWLINE, NEWLINE) & keep
        end = newline | (occurrences(buf, start + at, SPACE, SPACE) | occurrences(buf, start + at, TAB, RETURN)) & keep
        while newline:
            upto = newline ^ (newline - U1)
            n_lines += 1
            seen.line_colons[n_lines] = k + ones(colon & upto)
            seen.line_ends[n_lines] = e + ones(end & upto)
            newline &= newline - U1
        k = write_places(colon, at, colons, k)
        e = write_places(end, at, ends, e)
    return n_lines


@compiled_inline
def take(text, start, line, seen):
    """Take the tokens of a line out of the text; return whether each colon stands between two other separators."""
    first, last, at = seen.line_colons[line], seen.line_colons[line + 1], seen.line_ends[line]
    spare = seen.line_ends[line + 1] - at - (last - first) - 1
    if spare != 0:  # a line ends behind its last value, or behind one blank (or carriage return) more
        behind = at + last - first
        if spare != 1 or seen.ends[behind + 1] != seen.ends[behind] + 1:
            return False
    buf, colons, ends = pointer(text), pointer(seen.colons), pointer(seen.ends)
    indices, values, negatives = pointer(seen.indices), pointer(seen.values), pointer(seen.negative)
    before = np.int64(ends[at])
    for k in range(first, last):
        colon, end = np.int64(colons[k]), np.int64(ends[at + 1 + k - first])
        negative = buf[start + colon + 1] == MINUS
        indices[k] = last_bytes(word(buf, start + colon - 8), colon - before - 1)
        values[k] = last_bytes(word(buf, start + end - 8), end - colon - 1 - negative)
        negatives[k] = negative
        before = end
    return True


@compiled_inline
def last_bytes(w, n):
    """Return the last n bytes of a word with zeros before them; something that is no number unless n is 1 to 8."""
    drop = np.uint64(64 - 8 * n) & U63
    kept = (w ^ ZEROS) >> drop << drop
    return kept if np.uint64(n - 1) <= U7 else HIGH


@compiled
def join_indices(words, n, base, indices):
    """Write the whole numbers that the words are, less the base; return 0 if all are whole and not negative."""
    wrong = U0
    for k in range(n):
        indices[k] = np.int32(np.int64(joined(words[k])) - base)
        wrong |= not_digits(words[k]) | np.uint64(indices[k] < 0)
    return wrong


@compiled
def join_values(words, n, behind, wrong):
    """Put in the words' place the whole numbers that they are without their points; return how many are none.

    The point is cut out: the digits before it move by a byte, and those behind it tell the power of ten. A point at the
    end is left to others.
    """
    n_wrong = 0
    for k in range(n):
        w = words[k]
        x = w ^ POINTS
        point = (x - LOWS) & ~x & HIGH
        point &= U0 - point  # the highest bit of the first one, or 0
        unit, has_point = point >> U7, np.uint64(point != U0)
        before = unit - U1
        m = (w & ~before & ~(unit * BYTE)) | (w & before) << (has_point << U3)
        bad = (not_digits(m) | point >> U63) != U0
        behind[k] = np.int32(8) - np.int32(trailing_zeros(point | U1 << U63) + 1 >> 3)
        words[k], wrong[k] = joined(m), bad
        n_wrong += bad
    return n_wrong


@compiled
def divide(numerators, negative, behind, n, data):
    """Write the values; return how many of them are 0."""
    zeros = 0
    for k in range(n):
        m = np.int64(numerators[k])
        data[k] = np.float64(-m if negative[k] else m) / EXACT[behind[k]]
        zeros += m == 0
    return zeros
