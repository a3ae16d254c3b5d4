"""Lines of svmlight text to rows: label [qid:q] index:value ... [# comment].

One pass over the bytes, each looked at about once. Blanks are spaces, tabs and carriage returns; a line without
anything but a comment is no row. Zeros are not kept, so that a row is the same whether its zeros were written or not.
"""

from __future__ import annotations

import numpy as np

from . import lines
from .jit import compiled, compiled_inline
from .lines import (
    AT,
    COLON,
    ENTRIES,
    ERROR,
    FINE,
    HASH,
    LINES,
    MODE,
    NEWLINE,
    ROWS,
    UNTIDY,
    WHERE,
    blank,
    ends,
    invalid_utf8,
    pointers,
)
from .numbers import BAD, number
from .words import digits, pointer

UNKNOWN, WITHOUT, WITH, IGNORED = range(4)  # MODE: whether rows have a qid
HIGHEST_INDEX = 2**31 - 1
MOST_DIGITS = 18  # of an index or a qid, which then fits a word


@compiled
def parse(text, stop, base, full, progress):
    """Fill the sheet from the lines buf[state[AT]:stop], the last byte a newline; indices count from `base`."""
    buf, sheet, state = pointer(text), pointers(full), pointer(progress)
    at, row, k, n_lines, error = state[AT], 0, 0, 0, FINE
    state[UNTIDY] = state[WHERE] = 0
    sheet.indptr[0] = 0
    while at < stop:
        line = at
        at = past_blanks(buf, at)
        after, is_row = k, buf[at] != NEWLINE and buf[at] != HASH
        if is_row:
            at, after, error = parse_row(buf, at, base, sheet, row, k, state)
        if error == FINE and buf[at] == HASH:
            at, error = past_comment(buf, at, state)
        if error != FINE:
            at = line
            break
        if is_row:
            row, k = row + 1, after
            sheet.indptr[row] = k
        at, n_lines = at + 1, n_lines + 1
    state[AT], state[ROWS], state[ENTRIES], state[LINES], state[ERROR] = at, row, k, n_lines, error


@compiled_inline
def parse_row(buf, at, base, sheet, row, k, state):
    """Read a row up to its newline or comment; return where that is, the entries so far, and what is wrong."""
    indices, data = sheet.indices, sheet.data
    if row == sheet.n_rows:
        return at, k, lines.FULL
    state[WHERE] = at
    value, at, told = number(buf, at)
    if told == BAD or not ends(buf[at]):
        return at, k, lines.LABEL
    if not np.isfinite(value):
        return at, k, lines.LARGE
    sheet.y[row] = value
    at = past_blanks(buf, at)
    state[WHERE] = at
    has_qid = named_qid(buf, at)
    if has_qid:
        value, at, error = whole(buf, at + 4)
        if error != FINE:
            return at, k, error
        if sheet.n_qid:
            sheet.qid[row] = value
        at = past_blanks(buf, at)
    if state[MODE] == UNKNOWN:
        state[MODE] = WITH if has_qid else WITHOUT
    if state[MODE] != IGNORED and has_qid != (state[MODE] == WITH):
        return at, k, lines.EXTRA_QID if has_qid else lines.NO_QID
    previous = -1
    c = np.int64(buf[at])
    while c != NEWLINE and c != HASH:
        token = at
        j, at = digits(buf, at, 0)
        if buf[at] != COLON or at == token:
            state[WHERE] = token
            return at, k, lines.FEATURE
        if j > HIGHEST_INDEX or at - token > MOST_DIGITS or j < base:
            state[WHERE] = token
            return at, k, lines.ZERO if j == 0 and at - token <= MOST_DIGITS else lines.INDEX
        start = at + 1
        value, at, told = number(buf, start)
        c = np.int64(buf[at])
        if told == BAD or not ends(c):
            state[WHERE] = start
            return at, k, lines.VALUE
        if k == sheet.n_entries:
            return at, k, lines.FULL
        j -= base
        indices[k], data[k] = j, value
        if not np.isfinite(data[k]):
            state[WHERE] = start
            return at, k, lines.LARGE
        if j <= previous:
            state[UNTIDY] = 1
        previous = j
        k += data[k] != 0.0
        while blank(c):
            at += 1
            c = np.int64(buf[at])
    return at, k, FINE


@compiled_inline
def past_blanks(buf, at):
    """Return where the blanks end."""
    while blank(buf[at]):
        at += 1
    return at


@compiled
def past_comment(buf, at, state):
    """Return where a comment's newline is, and what is wrong with the comment."""
    start = at
    while buf[at] != NEWLINE:
        at += 1
    wrong = invalid_utf8(buf, start, at)
    if wrong >= 0:
        state[WHERE] = wrong
        return at, lines.UTF8
    return at, FINE


@compiled_inline
def named_qid(buf, at):
    """Tell whether `qid:` is here; a newline ends the comparison."""
    return buf[at] == 113 and buf[at + 1] == 105 and buf[at + 2] == 100 and buf[at + 3] == COLON


@compiled
def whole(buf, at):
    """Read a whole number of up to 18 digits; return it, where it stops, and what is wrong."""
    c = np.int64(buf[at])
    negative = c == 45
    at += negative
    start, q = at, 0
    c = np.int64(buf[at])
    while 48 <= c <= 57:
        q = q * 10 + (c - 48)
        at += 1
        c = np.int64(buf[at])
    good = 0 < at - start <= MOST_DIGITS and ends(c)
    return -q if negative else q, at, FINE if good else lines.QID
