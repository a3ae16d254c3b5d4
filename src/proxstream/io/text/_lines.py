"""What the parsers of text lines share: the arrays they fill, how they report progress, sorting of rows.

A parser is given complete lines, the last byte being a newline: no loop in it can run past the end, since each one
stops at a newline. It fills the arrays of a `ParseBuffer` row by row until the lines or the arrays end or a line is
bad, and leaves in `state` how far it got; a line that is bad, or does not fit any more, leaves no trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.records import NamedTuple
from ...jit.byteops import pointer
from ...jit.compile import compiled, compiled_inline

TAB, NEWLINE, RETURN, SPACE, HASH, COLON = 9, 10, 13, 32, 35, 58

# Places in the state of a parser.
AT, ROWS, ENTRIES, LINES, UNTIDY, ERROR, WHERE, MODE = range(8)
STATE = 8

# What can be wrong with a line; FULL and NEW_NAMESPACE are not errors of the line.
FINE, FULL, LABEL, FEATURE, VALUE, LARGE, INDEX, ZERO, QID, NO_QID, EXTRA_QID, UTF8 = range(12)
WEIGHT, BASE, TAG, GLUED, NO_BAR, NAME, NEW_NAMESPACE = range(12, 19)


class ParseBuffer(NamedTuple):
    """Arrays for the rows of some lines; those from c on may be empty if they are not wanted."""

    indptr: Any
    indices: Any
    data: Any
    y: Any
    c: Any
    qid: Any
    terms: Any  # of each entry: its namespace, and where its name starts and stops
    starts: Any
    stops: Any


class Pointers(NamedTuple):
    """A parse buffer as the loops see it: pointers and capacities."""

    indptr: Any
    indices: Any
    data: Any
    y: Any
    c: Any
    qid: Any
    terms: Any
    starts: Any
    stops: Any
    n_rows: int
    n_entries: int
    n_qid: int


@compiled
def pointers(out):
    """Return the pointers of a parse buffer, valid as long as it lives."""
    return Pointers(
        pointer(out.indptr),
        pointer(out.indices),
        pointer(out.data),
        pointer(out.y),
        pointer(out.c),
        pointer(out.qid),
        pointer(out.terms),
        pointer(out.starts),
        pointer(out.stops),
        len(out.y),
        len(out.data),
        len(out.qid),
    )


@compiled_inline
def blank(c):
    """Return whether a byte is a blank."""
    return (c == SPACE) | (c == TAB) | (c == RETURN)


@compiled_inline
def past_blanks(buf, at):
    """Return where the blanks end."""
    while blank(buf[at]):
        at += 1
    return at


@compiled_inline
def ends(c):
    """Return whether a byte ends a token."""
    return blank(c) | (c == NEWLINE) | (c == HASH)


@compiled
def invalid_utf8(buf, at, stop):
    """Return where buf[at:stop] stops being UTF-8, or -1."""
    while at < stop:
        c = np.int64(buf[at])
        if c < 0x80:
            at += 1
            continue
        if 0xC2 <= c <= 0xDF:
            more, low, high = 1, 0x80, 0xBF
        elif 0xE0 <= c <= 0xEF:
            more, low, high = 2, 0xA0 if c == 0xE0 else 0x80, 0x9F if c == 0xED else 0xBF
        elif 0xF0 <= c <= 0xF4:
            more, low, high = 3, 0x90 if c == 0xF0 else 0x80, 0x8F if c == 0xF4 else 0xBF
        else:
            return at
        if at + more >= stop:
            return at
        for k in range(1, more + 1):
            c = np.int64(buf[at + k])
            if c < low or c > high:
                return at
            low, high = 0x80, 0xBF
        at += more + 1
    return -1


@compiled
def rising(indices, first, last):
    """Return whether a row's indices increase."""
    falls = 0
    for q in range(first + 1, last):
        falls += indices[q] <= indices[q - 1]
    return falls == 0


@compiled
def sort_rows(out, n_rows):
    """Sort each row by index, sum duplicates, drop zeros; return the number of entries left."""
    indptr, indices, data = out.indptr, out.indices, out.data
    k, first = 0, indptr[0]
    for row in range(n_rows):
        last = indptr[row + 1]
        keys, values = indices[first:last].copy(), data[first:last].copy()
        if not rising(indices, first, last):
            order = np.argsort(keys, kind="mergesort")  # stable: equal ones are added in their order
            keys, values = keys[order], values[order]
        q = 0
        while q < len(keys):
            indices[k], data[k] = keys[q], values[q]
            q += 1
            while q < len(keys) and keys[q] == indices[k]:
                data[k] += values[q]
                q += 1
            k += data[k] != 0.0
        first, indptr[row + 1] = last, k
    return k
