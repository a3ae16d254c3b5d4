"""Lines of Vowpal Wabbit's text to rows of hashed features.

    [label [weight [base]]] ['tag] |namespace[:scale] name[:value] name[:value] ... |namespace ...

A feature's hash is that of its name with the hash of its namespace as seed; a namespace without a name has the hash 0.
A value that is not told is 1; the scale of a namespace multiplies its values; zeros are not kept. A name ends at a
blank, a colon or a bar. The end of a name is looked for in eight bytes at a time, and those bytes are what is hashed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import lines
from .hashing import LOW, hashed
from .jit import compiled
from .lines import AT, COLON, ENTRIES, ERROR, FINE, LINES, MODE, NEWLINE, ROWS, WHERE, blank, invalid_utf8, pointers
from .numbers import BAD, number
from .words import HIGH, digits, pointer, trailing_zeros, word

BAR, QUOTE = 124, 39
EVERY = np.uint64(0x0101010101010101)
COLONS, BARS, PRINTED = EVERY * np.uint64(COLON), EVERY * np.uint64(BAR), EVERY * np.uint64(33)


class Rule(NamedTuple):
    """How names are taken: whether digits alone are a number, and which namespaces are known, if they matter at all."""

    digits: Any  # bool
    tracked: Any  # bool
    spaces: Any  # hash of each known namespace
    wanted: Any  # 1 or 0: whether its features are


@compiled
def parse(text, stop, rule, full, progress):
    """Fill the sheet from the lines text[state[AT]:stop], the last byte a newline."""
    buf, sheet, state = pointer(text), pointers(full), pointer(progress)
    spaces, wanted, n_spaces = pointer(rule.spaces), pointer(rule.wanted), len(rule.spaces)
    plain = Rule(rule.digits, rule.tracked, spaces, wanted)
    at, row, k, n_lines, error = state[AT], 0, 0, 0, FINE
    state[WHERE] = state[MODE] = 0
    sheet.indptr[0] = 0
    while at < stop:
        line = at
        at = past_blanks(buf, at)
        if buf[at] != NEWLINE:
            if row == sheet.n_rows:
                error = lines.FULL
            else:
                at, seen, error = parse_label(buf, at, sheet, row, state)
            after = k
            if error == FINE:
                at, after, seen, error = parse_features(buf, at, plain, n_spaces, sheet, k, seen, state)
            if error == FINE and seen & HIGH:
                wrong = invalid_utf8(buf, line, at)
                if wrong >= 0:
                    state[WHERE], error = wrong, lines.UTF8
            if error != FINE:
                at = line
                break
            row, k = row + 1, after
            sheet.indptr[row] = k
        at, n_lines = at + 1, n_lines + 1
    state[AT], state[ROWS], state[ENTRIES], state[LINES], state[ERROR] = at, row, k, n_lines, error


@compiled
def past_blanks(buf, at):
    """Return where the blanks end."""
    while blank(buf[at]):
        at += 1
    return at


@compiled
def parse_label(buf, at, sheet, row, state):
    """Read what stands before the first bar; return where that is, all bits that were seen, and what is wrong."""
    n, seen = 0, np.uint64(0)
    sheet.y[row], sheet.c[row] = np.nan, 1.0
    while True:
        at = past_blanks(buf, at)
        state[WHERE] = at
        if buf[at] == BAR:
            return at, seen, FINE
        if buf[at] == NEWLINE:
            return at, seen, lines.NO_BAR
        value, stop, told = number(buf, at)
        if told != BAD and (blank(buf[stop]) or buf[stop] == NEWLINE) and n < 3:
            if not np.isfinite(value):
                return at, seen, lines.LARGE
            if n == 0:
                sheet.y[row] = value
            elif n == 1:
                if value < 0.0:
                    return at, seen, lines.WEIGHT
                sheet.c[row] = value
                if value != 1.0:
                    state[MODE] = 1
            elif value != 0.0:
                return at, seen, lines.BASE
            n, at = n + 1, stop
            continue
        quoted, is_number = buf[at] == QUOTE, told != BAD and buf[stop] == BAR
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
def parse_features(buf, at, rule, n_spaces, sheet, k, seen, state):
    """Read features from a bar to the newline; return where that is, the entries, the bits seen, and what is wrong."""
    hashes, data = sheet.indices, sheet.data
    seed, scale, term = np.uint64(0), 1.0, -1
    c = np.int64(buf[at])
    while c != NEWLINE:
        start = at + (c == BAR)
        at, seen = name_end(buf, start, seen)
        value, stands = scale, np.int64(buf[at])
        if c == BAR:
            value = 1.0
        elif at == start:
            state[WHERE] = at
            return at, k, seen, lines.NAME
        if stands == COLON:
            told_at = at + 1
            told, at, good = number(buf, told_at)
            stands = np.int64(buf[at])
            if good == BAD or not (blank(stands) | (stands == NEWLINE) | (stands == BAR)):
                state[WHERE] = told_at
                return at, k, seen, lines.VALUE
            value *= told
            if not np.isfinite(value):
                state[WHERE] = told_at
                return at, k, seen, lines.LARGE
            stop = told_at - 1
        else:
            stop = at
            if not (blank(stands) | (stands == NEWLINE) | (stands == BAR)):
                state[WHERE] = at
                return at, k, seen, lines.NAME
        if c == BAR:
            seed, scale = np.uint64(hashed(buf, start, stop, 0)), value
            if rule.tracked:
                term = known(rule.spaces, n_spaces, seed, term)
                if term < 0:
                    state[WHERE] = start
                    return at, k, seen, lines.NEW_NAMESPACE
                scale *= rule.wanted[term]
        else:
            if k == sheet.n_entries:
                return at, k, seen, lines.FULL
            hashes[k] = number_or_hash(buf, start, stop, seed) if rule.digits else hashed(buf, start, stop, seed)
            data[k] = value
            if not np.isfinite(data[k]):
                state[WHERE] = start
                return at, k, seen, lines.LARGE
            if rule.tracked:
                sheet.terms[k], sheet.starts[k], sheet.stops[k] = term, start, stop
            k += data[k] != 0.0
        at = past_blanks(buf, at)
        c = np.int64(buf[at])
    return at, k, seen, FINE


@compiled
def name_end(buf, at, seen):
    """Return where the name that begins at `at` ends, and all bits that were seen."""
    while True:
        w = word(buf, at)
        colons, bars = w ^ COLONS, w ^ BARS
        ends = ((w - PRINTED) & ~w) | ((colons - EVERY) & ~colons) | ((bars - EVERY) & ~bars)
        seen |= w
        if ends & HIGH:
            return at + (trailing_zeros(ends & HIGH) >> 3), seen
        at += 8


@compiled
def number_or_hash(buf, start, stop, seed):
    """Return the number that a name of digits alone is, added to the seed; the hash of any other name."""
    m, end = digits(buf, start, 0)
    return np.uint32((np.uint64(m) + seed) & LOW) if end == stop else hashed(buf, start, stop, seed)


@compiled
def known(spaces, n_spaces, key, last):
    """Return the place of a namespace among the known ones, or -1; most often it is the one behind the last."""
    if last + 1 < n_spaces and spaces[last + 1] == key:
        return last + 1
    for i in range(n_spaces):
        if spaces[i] == key:
            return i
    return -1


@compiled
def hash_tokens(buf, starts, stops, terms, seeds, numeric, hashes):
    """Hash names anew with other seeds, one a namespace."""
    text = pointer(buf)
    for k in range(len(starts)):
        seed = np.uint64(seeds[terms[k]])
        if numeric:
            hashes[k] = number_or_hash(text, starts[k], stops[k], seed)
        else:
            hashes[k] = hashed(text, starts[k], stops[k], seed)
