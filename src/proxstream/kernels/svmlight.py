"""Lines of svmlight text to rows: label [qid:q] index:value ... [# comment].

One pass over the bytes, each looked at about once. Blanks are spaces, tabs and carriage returns; a line without
anything but a comment is no row. Zeros are not kept, so that a row is the same whether its zeros were written or not.
"""

from __future__ import annotations

import numpy as np

from . import lines, plain
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
    past_blanks,
    pointers,
)
from .numbers import BAD, number
from .words import PAD, digits, pointer

UNKNOWN, WITHOUT, WITH, IGNORED = range(4)  # MODE: whether rows have a qid
HIGHEST_INDEX = 2**31 - 1
MOST_DIGITS = 18  # of an index or a qid, which then fits a word


@compiled
def parse(text, stop, base, full, progress):
    """Fill the sheet from the lines buf[state[AT]:stop], the last byte a newline; indices count from `base`.

    Lines are taken by the window, if all of them are plain; else one by one. After a window that is not, and another,
    more and more text is read line by line before the next is tried.
    """
    buf, sheet, state, seen = pointer(text), pointers(full), pointer(progress), plain.window()
    at, row, k, n_lines, error = state[AT], 0, 0, 0, FINE
    state[UNTIDY] = state[WHERE] = 0
    sheet.indptr[0] = 0
    line_by_line, wait = at, plain.WINDOW
    while at < stop:
        if at >= line_by_line and at >= PAD and (state[MODE] == WITHOUT or state[MODE] == IGNORED):
            end = whole_lines(buf, at, min(at + plain.WINDOW, stop, len(text) - plain.WIDTH))
            rows, entries = parse_window(text, at, end, base, full, row, k, state, seen)
            if rows:
                at, row, k, n_lines, wait = end, row + rows, k + entries, n_lines + rows, plain.WINDOW
                continue
            line_by_line, wait = at + wait, min(2 * wait, 64 * plain.WINDOW)
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
def whole_lines(buf, at, stop):
    """Return where the last line that ends before `stop` ends, or `at`."""
    while stop > at and buf[stop - 1] != NEWLINE:
        stop -= 1
    return max(stop, at)


@compiled
def parse_window(text, at, stop, base, full, row, k, state, seen):
    """Read plain lines; return how many rows and entries they are, or 0 and 0 if some line is not plain."""
    n_rows, buf = plain.find(text, at, stop, seen), pointer(text)
    n = seen.line_colons[n_rows]
    if n_rows == 0 or n > plain.TOKENS or row + n_rows > len(full.y) or k + n > len(full.data):
        return 0, 0
    start, indices, data = at, full.indices[k : k + n], full.data[k : k + n]
    for i in range(n_rows):
        label, after, told = number(buf, start)
        after_label = at + seen.ends[seen.line_ends[i]]
        if told == BAD or after != after_label or not np.isfinite(label) or not plain.take(text, at, i, seen):
            return 0, 0
        full.y[row + i], full.indptr[row + i + 1] = label, k + seen.line_colons[i + 1]
        start = at + seen.ends[seen.line_ends[i + 1] - 1] + 1
    if plain.join_indices(seen.indices, n, base, indices) != 0:
        return 0, 0
    unread = plain.join_values(seen.values, n, seen.behind, seen.wrong)
    zeros = plain.divide(seen.values, seen.negative, seen.behind, n, data)
    if unread and (4 * unread > n or not read_others(buf, at, n_rows, seen, data)):
        return 0, 0
    untidy = False
    for i in range(n_rows):
        for q in range(seen.line_colons[i] + 1, seen.line_colons[i + 1]):
            untidy |= indices[q] <= indices[q - 1]
    if untidy:
        state[UNTIDY] = 1
    if zeros or unread:
        n = drop_zeros(indices, data, full.indptr[row : row + n_rows + 1])
    return n_rows, n


@compiled
def read_others(buf, at, n_rows, seen, data):
    """Read the values that have another form; return whether all are numbers."""
    for i in range(n_rows):
        end = seen.line_ends[i] + 1
        for q in range(seen.line_colons[i], seen.line_colons[i + 1]):
            if seen.wrong[q]:
                value, after, told = number(buf, at + seen.colons[q] + 1)
                data[q] = value
                if told == BAD or after != at + seen.ends[end] or not np.isfinite(data[q]):
                    return False
            end += 1
    return True


@compiled
def drop_zeros(indices, data, indptr):
    """Keep the entries that are not 0, and let the row pointers follow; return their number."""
    k, q, origin = 0, 0, indptr[0]
    for i in range(1, len(indptr)):
        while q < indptr[i] - origin:
            indices[k], data[k] = indices[q], data[q]
            k += data[k] != 0.0
            q += 1
        indptr[i] = origin + k
    return k


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
