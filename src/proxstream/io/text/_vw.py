"""Lines of Vowpal Wabbit's text to rows of hashed features.

    [label [weight [base]]] ['tag] |namespace[:scale] name[:value] name[:value] ... |namespace ...

A feature's hash is that of its name with the hash of its namespace as seed; a namespace without a name has the hash 0.
The default value is 1; the scale of a namespace multiplies its values; zeros are dropped. A name ends at a blank, a
colon or a bar. Such positions are found ahead, 64 bytes at a time, so that the work on one name does not wait for the
end of the one before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.records import NamedTuple
from ...jit.byteops import WIDTH, below, digits, occurrences, pointer, write_places
from ...jit.compile import compiled
from ..features._hash import LOW, hashed
from . import _lines as lines
from ._lines import (
    AT,
    COLON,
    ENTRIES,
    ERROR,
    FINE,
    LINES,
    MODE,
    NEWLINE,
    ROWS,
    SPACE,
    WHERE,
    blank,
    invalid_utf8,
    past_blanks,
    pointers,
)
from ._numbers import BAD, number

BAR, QUOTE = 124, 39
PRINTED, ASCII = 33, 128  # the lowest byte that a name may have, and the lowest that is not ASCII
SMALL, LARGE = 1e-30, 1e30
MARKS = 1 << 10  # positions where names may end, known ahead
NOT_ASCII, LINE_NOT_ASCII = MARKS, MARKS + 1  # after them: whether the bytes searched for them have any


class Rule(NamedTuple):
    """How names are read: whether names of digits are numbers, and which namespaces are known, if they are tracked."""

    digits: Any  # bool
    tracked: Any  # bool
    spaces: Any  # hash of each known namespace
    wanted: Any  # 1 or 0: whether its features are


@compiled
def parse(text, stop, rule, full, progress):
    """Parse the lines text[state[AT]:stop], the last byte a newline."""
    parse_lines(text, stop, rule, full, progress, np.empty(MARKS + 2, np.int64))


@compiled
def parse_lines(text, stop, rule, full, progress, ends):
    """Do the same, given room for marks."""
    buf, out, state = pointer(text), pointers(full), pointer(progress)
    spaces, wanted, n_spaces = pointer(rule.spaces), pointer(rule.wanted), len(rule.spaces)
    plain = Rule(rule.digits, rule.tracked, spaces, wanted)
    at, row, k, n_lines, error = state[AT], 0, 0, 0, FINE
    marks, m, n = pointer(ends), 0, 0
    marks[NOT_ASCII] = 0
    state[WHERE] = state[MODE] = 0
    out.indptr[0] = 0
    while at < stop:
        line = at
        at = past_blanks(buf, at)
        if buf[at] != NEWLINE:
            marks[LINE_NOT_ASCII] = marks[NOT_ASCII]
            if row == out.n_rows:
                error = lines.FULL
            else:
                at, seen, error = parse_label(buf, at, out, row, state)
                marks[LINE_NOT_ASCII] |= seen >= ASCII
            after = k
            if error == FINE:
                at, after, m, n, error = parse_features(buf, at, stop, plain, n_spaces, out, k, marks, m, n, state)
            if error == FINE and marks[LINE_NOT_ASCII]:
                wrong = invalid_utf8(buf, line, at)
                if wrong >= 0:
                    state[WHERE], error = wrong, lines.UTF8
            if error != FINE:
                at = line
                break
            row, k = row + 1, after
            out.indptr[row] = k
        at, n_lines = at + 1, n_lines + 1
    state[AT], state[ROWS], state[ENTRIES], state[LINES], state[ERROR] = at, row, k, n_lines, error


@compiled
def mark(buf, at, stop, marks):
    """Write the positions from `at` on where names may end, as many as there is room for; return their number."""
    n, other = 0, np.uint64(0)
    while at + WIDTH <= stop and n + 2 * WIDTH <= MARKS:
        n = write_places(occurrences(buf, at, COLON, BAR) | below(buf, at, PRINTED), at, marks, n)
        other |= ~below(buf, at, ASCII)
        at += WIDTH
    if at + WIDTH > stop:
        while at < stop and n < MARKS:
            c = np.int64(buf[at])
            marks[n] = at
            n += (c < PRINTED) | (c == COLON) | (c == BAR)
            other |= np.uint64(c >= ASCII)
            at += 1
    marks[NOT_ASCII] = other != 0
    return n


@compiled
def parse_label(buf, at, out, row, state):
    """Read what precedes the first bar; return the bar's position, all bits seen, and what is wrong."""
    n, seen = 0, np.uint64(0)
    out.y[row], out.c[row] = np.nan, 1.0
    while True:
        at = past_blanks(buf, at)
        state[WHERE] = at
        if buf[at] == BAR:
            return at, seen, FINE
        if buf[at] == NEWLINE:
            return at, seen, lines.NO_BAR
        value, stop, status = number(buf, at)
        if status != BAD and (blank(buf[stop]) or buf[stop] == NEWLINE) and n < 3:
            if not np.isfinite(value):
                return at, seen, lines.LARGE
            if n == 0:
                out.y[row] = value
            elif n == 1:
                if value < 0.0:
                    return at, seen, lines.WEIGHT
                out.c[row] = value
                if value != 1.0:
                    state[MODE] = 1
            elif value != 0.0:
                return at, seen, lines.BASE
            n, at = n + 1, stop
            continue
        quoted, is_number = buf[at] == QUOTE, status != BAD and buf[stop] == BAR
        while buf[at] != NEWLINE and buf[at] != BAR and not blank(buf[at]):
            seen |= np.uint64(buf[at])
            at += 1
        if quoted:
            at = past_blanks(buf, at)
        if buf[at] == BAR and not is_number:
            return at, seen, FINE
        if is_number or quoted:
            return at, seen, lines.GLUED if is_number else lines.TAG
        return at, seen, lines.LABEL if n == 0 else lines.WEIGHT if n == 1 else lines.BASE


@compiled
def parse_features(buf, at, stop, rule, n_spaces, out, k, marks, m, n, state):
    """Read features from a bar to the newline; return where that is, the entries, the marks used, and what is wrong."""
    hashes, data = out.indices, out.data
    seed, scale, term, simple = np.uint64(0), 1.0, -1, False
    c = np.int64(buf[at])
    while c != NEWLINE:
        start = at + (c == BAR)
        while m < n and marks[m] < start:
            m += 1
        if m == n:
            n, m = mark(buf, start, stop, marks), 0
            marks[LINE_NOT_ASCII] |= marks[NOT_ASCII]
        at = marks[m]
        value, after = scale, np.int64(buf[at])
        if simple and c != BAR and after == SPACE and at > start and k < out.n_entries:
            hashes[k], data[k] = hashed(buf, start, at, seed), scale
            k += 1
            at = past_blanks(buf, at + 1)
            c = np.int64(buf[at])
            continue
        if c == BAR:
            value = 1.0
        elif at == start:
            state[WHERE] = at
            return at, k, m, n, lines.NAME
        if after == COLON:
            value_at = at + 1
            factor, at, status = number(buf, value_at)
            after = np.int64(buf[at])
            if status == BAD or not (blank(after) | (after == NEWLINE) | (after == BAR)):
                state[WHERE] = value_at
                return at, k, m, n, lines.VALUE
            value *= factor
            if not np.isfinite(value):
                state[WHERE] = value_at
                return at, k, m, n, lines.LARGE
            end = value_at - 1
        else:
            end = at
            if not (blank(after) | (after == NEWLINE) | (after == BAR)):
                state[WHERE] = at
                return at, k, m, n, lines.NAME
        if c == BAR:
            seed, scale = np.uint64(hashed(buf, start, end, 0)), value
            if rule.tracked:
                term = known(rule.spaces, n_spaces, seed, term)
                if term < 0:
                    state[WHERE] = start
                    return at, k, m, n, lines.NEW_NAMESPACE
                scale *= rule.wanted[term]
            # Most names are followed by a space and have the scale, which fits, for their value.
            simple = not (rule.tracked or rule.digits) and SMALL < abs(scale) < LARGE
        else:
            if k == out.n_entries:
                return at, k, m, n, lines.FULL
            hashes[k] = number_or_hash(buf, start, end, seed) if rule.digits else hashed(buf, start, end, seed)
            data[k] = value
            if not np.isfinite(data[k]):
                state[WHERE] = start
                return at, k, m, n, lines.LARGE
            if rule.tracked:
                out.terms[k], out.starts[k], out.stops[k] = term, start, end
            k += data[k] != 0.0
        at = past_blanks(buf, at)
        c = np.int64(buf[at])
    return at, k, m, n, FINE


@compiled
def name_end(buf, at):
    """Return where the name that begins at `at` ends."""
    c = np.int64(buf[at])
    while c >= PRINTED and c != COLON and c != BAR:
        at += 1
        c = np.int64(buf[at])
    return at


@compiled
def number_or_hash(buf, start, stop, seed):
    """Return the number that a name of digits is, added to the seed; the hash of any other name."""
    m, end = digits(buf, start, 0)
    return np.uint32((np.uint64(m) + seed) & LOW) if end == stop else hashed(buf, start, stop, seed)


@compiled
def known(spaces, n_spaces, key, last):
    """Return the number of a known namespace, or -1; most often it is the one after the last."""
    if last + 1 < n_spaces and spaces[last + 1] == key:
        return last + 1
    for i in range(n_spaces):
        if spaces[i] == key:
            return i
    return -1


@compiled
def hash_tokens(buf, starts, stops, terms, seeds, numeric, hashes):
    """Hash names again with other seeds, one per namespace."""
    text = pointer(buf)
    for k in range(len(starts)):
        seed = np.uint64(seeds[terms[k]])
        if numeric:
            hashes[k] = number_or_hash(text, starts[k], stops[k], seed)
        else:
            hashes[k] = hashed(text, starts[k], stops[k], seed)
