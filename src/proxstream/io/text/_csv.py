"""Records of separated values to cells: each byte is read about once, values are hashed in place.

A field is plain, up to the next separator or line end, or quoted, "...", with "" for a quote inside, and then may hold
separators and line ends. Lines end in LF or CRLF; empty lines are skipped. The positions of separators and newlines
are found ahead, 64 bytes at a time.

A parser is given complete lines, the last byte before `stop` being a newline, followed by `PAD` readable bytes.
It leaves in `state` how far it got, and what is wrong with the record that it stopped at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.records import NamedTuple
from ...jit.byteops import WIDTH, ZEROS, joined, not_digits, occurrences, pointer, trailing_zeros, word, write_places
from ...jit.compile import compiled, compiled_inline
from ..features._hash import hashed, murmur3_32
from ..types import MAX_OFFSET
from ._numbers import BAD, GOOD, number

NEWLINE, RETURN, SPACE, QUOTE, MINUS = 10, 13, 32, 34, 45

# What a column is.
NUMERIC, CATEGORY, TEXT, DROPPED, LABEL, WEIGHT, QID, OFFSET, SNIFFED = range(9)

# Places in the state of a parser.
AT, ROWS, LINES, ERROR, WHERE, FIELD, END = range(7)
STATE = 7

# What can be wrong with a record; OPEN may be valid once more text is there, ESCAPED needs writable text.
FINE, FULL, OPEN, ESCAPED, FEW, MANY, CLOSED, NUMBER, LARGE, NEGATIVE, MISSING, UNKNOWN_LABEL, FAR = range(13)

MARKS = 1 << 10  # positions of separators and newlines known ahead


class Dialect(NamedTuple):
    """How fields are separated; `writable`: doubled quotes may be undoubled in place."""

    separator: int
    quoted: bool
    writable: bool


class Columns(NamedTuple):
    """For each column of the text its role, the place of its cell or text, and what it needs to be hashed.

    The seed of its values is the hash of its name; `nulls` are the hashes that mean missing, `n_nulls` per column.
    Labels are numbers, or else one of the texts label_bytes[label_ends[k - 1]:label_ends[k]] with these hashes.
    """

    roles: Any
    places: Any
    seeds: Any
    absent: Any  # the hash of a missing value
    nulls: Any
    label_bytes: Any
    label_ends: Any
    label_hashes: Any
    label_values: Any
    absent_value: float
    n_nulls: int
    n_labels: int


class Cells(NamedTuple):
    """Where records go, one row each; cells are stored by row. `spans` are start and stop of each value, if wanted."""

    hashes: Any
    values: Any
    y: Any
    c: Any
    qid: Any
    offset: Any
    spans: Any
    marks: Any  # room for MARKS positions
    n_cells: int
    n_spans: int


@compiled
def mark(buf, at, stop, separator, marks):
    """Write the positions of separators and newlines from `at` on, as many as there is room for; return their number.

    With the ends of fields known beforehand, the work on one field does not wait for the end of the one before.
    """
    n = 0
    while at + WIDTH <= stop and n + 2 * WIDTH <= MARKS:
        n = write_places(occurrences(buf, at, separator, NEWLINE), at, marks, n)
        at += WIDTH
    if at + WIDTH > stop:
        while at < stop and n < MARKS:
            marks[n] = at
            n += buf[at] == separator or buf[at] == NEWLINE
            at += 1
    return n


@compiled_inline
def short_number(buf, start, end):
    """Return the whole number of up to 8 digits, signed or not, that fills buf[start:end], and whether it does.

    As `words.digits`, but the end of the digits is known.
    """
    negative = buf[start] == MINUS
    start += negative
    n = end - start
    if n < 1 or n > 8:
        return 0.0, False
    w = word(buf, start) ^ ZEROS
    if trailing_zeros(not_digits(w)) < 8 * n:
        return 0.0, False
    value = np.float64(np.int64(joined(w << np.uint64(64 - 8 * n))))
    return -value if negative else value, True


@compiled
def quoted_field(buf, at, stop, writable):
    """Return where a quoted field's text begins and ends, the position after it, its newlines, and what is wrong.

    A doubled quote becomes one if the text is writable.
    """
    start = at + 1
    at = end = start
    newlines, shifted = 0, False
    while at < stop:
        c = buf[at]
        if c == QUOTE:
            if at + 1 < stop and buf[at + 1] == QUOTE:
                if not writable:
                    return start, end, at, newlines, ESCAPED
                shifted = True
                at += 1
            else:
                return start, end, at + 1, newlines, FINE
        newlines += c == NEWLINE
        if shifted:
            buf[end] = c
        end += 1
        at += 1
    return start, end, at, newlines, OPEN


@compiled
def end_of_record(buf, at, stop, separator, quoted):
    """Return the position after the newline that ends the record at `at`; quotes that are not closed do not count."""
    first, begins = at, True
    while at < stop:
        if begins and quoted and buf[at] == QUOTE:
            at += 1
            while at < stop and (buf[at] != QUOTE or (at + 1 < stop and buf[at + 1] == QUOTE)):
                at += 2 if buf[at] == QUOTE else 1
        elif buf[at] == NEWLINE:
            return at + 1
        begins = at < stop and buf[at] == separator
        at += 1
    while buf[first] != NEWLINE:
        first += 1
    return first + 1


@compiled
def trimmed_number(buf, start, end):
    """Read the number that fills buf[start:end] except for blanks; return its value, start, end, and GOOD or BAD."""
    while start < end and buf[start] == SPACE:
        start += 1
    while start < end and buf[end - 1] == SPACE:
        end -= 1
    if start == end:
        return 0.0, start, end, BAD
    value, at, status = number(buf, start)
    return value, start, end, status if at == end else BAD


@compiled_inline
def is_null(h, columns, j):
    """Return whether a hash in column j is that of a missing value."""
    null = False
    for k in range(j * columns.n_nulls, (j + 1) * columns.n_nulls):
        null = null or h == columns.nulls[k]
    return null


@compiled
def label_number(buf, start, end, columns):
    """Return the place of the label text buf[start:end] among the known ones, or -1."""
    h, begin = murmur3_32(buf, start, end, np.uint32(0)), 0
    for k in range(columns.n_labels):
        stop = columns.label_ends[k]
        if columns.label_hashes[k] == h and stop - begin == end - start:
            same = True
            for i in range(end - start):
                same = same and columns.label_bytes[begin + i] == buf[start + i]
            if same:
                return k
        begin = stop
    return -1


@compiled
def integer(buf, start, end):
    """Return the whole number of up to 18 digits that fills buf[start:end], and whether it does."""
    at = start + 1 if start < end and buf[start] == 45 else start
    good, q = 0 < end - at <= 18, 0
    for i in range(at, end):
        digit = np.int64(buf[i]) - 48
        good = good and 0 <= digit <= 9
        q = q * 10 + digit if good else 0
    return -q if at > start else q, good


@compiled
def parse(text, stop, dialect, column_arrays, cell_arrays, progress):
    """Fill cells from the records text[state[AT]:stop], given Columns and Cells of arrays; `progress` is the state."""
    buf, state = pointer(text), pointer(progress)
    columns = Columns(
        pointer(column_arrays.roles),
        pointer(column_arrays.places),
        pointer(column_arrays.seeds),
        pointer(column_arrays.absent),
        pointer(column_arrays.nulls),
        pointer(column_arrays.label_bytes),
        pointer(column_arrays.label_ends),
        pointer(column_arrays.label_hashes),
        pointer(column_arrays.label_values),
        column_arrays.absent_value,
        column_arrays.n_nulls,
        column_arrays.n_labels,
    )
    cells = Cells(
        pointer(cell_arrays.hashes),
        pointer(cell_arrays.values),
        pointer(cell_arrays.y),
        pointer(cell_arrays.c),
        pointer(cell_arrays.qid),
        pointer(cell_arrays.offset),
        pointer(cell_arrays.spans),
        pointer(cell_arrays.marks),
        cell_arrays.n_cells,
        cell_arrays.n_spans,
    )
    at, row, n_lines, n_columns = state[AT], 0, 0, len(column_arrays.roles)
    n_rows = len(cell_arrays.y)
    marks, m, n = cells.marks, 0, 0
    state[ERROR] = FINE
    while at < stop:
        if buf[at] == NEWLINE or (buf[at] == RETURN and buf[at + 1] == NEWLINE):
            at += 1 if buf[at] == NEWLINE else 2
            n_lines, m = n_lines + 1, m + (m < n)
            continue
        if row == n_rows:
            state[ERROR] = FULL
            break
        after, newlines, m, n = parse_record(buf, at, stop, dialect, columns, n_columns, cells, row, state, marks, m, n)
        if state[ERROR] != FINE:
            if state[ERROR] > ESCAPED:
                state[END] = end_of_record(buf, at, stop, dialect.separator, dialect.quoted)
            break
        at, row, n_lines = after, row + 1, n_lines + newlines + 1
    state[AT], state[ROWS], state[LINES] = at, row, n_lines


@compiled_inline
def parse_record(buf, at, stop, dialect, columns, n_columns, cells, row, state, marks, m, n):
    """Fill a row of cells; return where the next record begins, the newlines inside fields, and the marks used."""
    separator, base, newlines = dialect.separator, row * cells.n_cells, 0
    for j in range(n_columns):
        role, start = columns.roles[j], at
        if m == n:
            n, m = mark(buf, at, stop, separator, marks), 0
        if dialect.quoted and buf[at] == QUOTE:
            start, end, at, more, error = quoted_field(buf, at, stop, dialect.writable)
            newlines += more
            if error == FINE and buf[at] == RETURN and at + 1 < stop and buf[at + 1] == NEWLINE:
                at += 1
            if error == FINE and buf[at] != separator and buf[at] != NEWLINE:
                error = CLOSED
            if error != FINE:
                state[ERROR], state[WHERE] = error, at if error == CLOSED else start - 1
                return at, newlines, m, n
            while m < n and marks[m] <= at:
                m += 1
        else:
            at = end = marks[m]
            m += 1
            if buf[at] == NEWLINE and end > start and buf[end - 1] == RETURN:
                end -= 1
        k, fine = base + columns.places[j], True
        if role == CATEGORY:
            h = hashed(buf, start, end, columns.seeds[j])
            present = end > start and not (columns.n_nulls and is_null(h, columns, j))
            cells.hashes[k] = h if present else columns.absent[j]
            cells.values[k] = 1.0 if present else columns.absent_value
        elif role == NUMERIC and start == end:
            cells.hashes[k], cells.values[k] = columns.absent[j], columns.absent_value
        elif role == NUMERIC:
            value, good = short_number(buf, start, end)
            if not good:
                value, after, status = number(buf, start)
                good = status == GOOD and after == end
            cells.hashes[k], cells.values[k] = columns.seeds[j], value
            if not good or not np.isfinite(cells.values[k]):
                fine = put(buf, start, end, role, j, columns, cells, row, state)
        elif role > DROPPED:
            fine = put(buf, start, end, role, j, columns, cells, row, state)
        if cells.n_spans and role <= TEXT:
            q = 2 * (row * cells.n_spans + columns.places[j])
            cells.spans[q], cells.spans[q + 1] = start, end
        if not fine:
            return at, newlines, m, n
        if buf[at] == NEWLINE:
            if j + 1 < n_columns:
                state[ERROR], state[WHERE], state[FIELD] = FEW, at, j + 1
            return at + 1, newlines, m, n
        at += 1
    state[ERROR], state[WHERE] = MANY, at
    return at, newlines, m, n


@compiled
def put(buf, start, end, role, j, columns, cells, row, state):
    """Store a field that should be a number or a label; return whether it is one, else the error is in the state."""
    place = row * cells.n_cells + columns.places[j]
    value, first, last, status = trimmed_number(buf, start, end)
    missing = first == last
    if status == BAD and columns.n_nulls and not missing:
        missing = is_null(murmur3_32(buf, start, end, columns.seeds[j]), columns, j)
    if role == SNIFFED:
        if not missing:
            cells.hashes[columns.places[j]] |= np.uint32(2 if status == BAD else 1)
        return True
    state[WHERE], state[FIELD] = start, j
    if missing:
        if role == NUMERIC:
            cells.hashes[place], cells.values[place] = columns.absent[j], columns.absent_value
        elif role == LABEL:
            cells.y[row] = np.nan
        else:
            state[ERROR] = MISSING
        return state[ERROR] == FINE
    if role == LABEL and columns.n_labels:
        known = label_number(buf, first, last, columns)
        if known < 0:
            state[ERROR] = UNKNOWN_LABEL
            return False
        cells.y[row] = columns.label_values[known]
        return True
    if role == QID:
        q, good = integer(buf, first, last)
        cells.qid[row] = q if good else np.int64(murmur3_32(buf, start, end, np.uint32(0)))
        return True
    if role == NUMERIC:
        cells.hashes[place], cells.values[place] = columns.seeds[j], value
        value = np.float64(cells.values[place])
    elif role == LABEL:
        cells.y[row] = value
    elif role == OFFSET:
        cells.offset[row] = value
    else:
        cells.c[row] = value
    if status == BAD:
        state[ERROR] = NUMBER
    elif not np.isfinite(value):
        state[ERROR] = LARGE
    elif role == WEIGHT and value < 0.0:
        state[ERROR] = NEGATIVE
    elif role == OFFSET and abs(value) > MAX_OFFSET:
        state[ERROR] = FAR
    return state[ERROR] == FINE
