"""Lines of svmlight text to rows: label [qid:q] index:value ... [# comment].

One pass over the bytes, each read about once. Blanks are spaces, tabs and carriage returns; a line that is empty or a
comment is not a row. Zeros are dropped, so that a row is the same whether its zeros were written or not.

Nearly all lines are plain: label index:value ... and nothing else. These are parsed many at once.
Read byte by byte, a number can only be read once the end of the number before it is known: a chain of dependencies.
Here the separators of some thousand bytes are found first, 64 bytes at a time, so that all tokens are known before the
first is read. Then a few loops run over all tokens, each doing one thing to all of them, in vector registers:

    text -> colons, ends (all other separators), lines      find
    -> the 8 bytes before each colon and each end           take
    -> indices, numerators and powers of ten                join
    -> values

This reads indices of up to 8 digits and values of up to 8 characters and a minus sign. Other values are read by
`_numbers`; if anything else is unusual - a qid, a comment, an empty line, an error - the window is discarded and left
to the parser of single lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.records import NamedTuple
from ...jit.byteops import (
    AT_ONCE,
    HIGH,
    PAD,
    WIDTH,
    ZEROS,
    digits,
    joined,
    not_digits,
    occurrences,
    ones,
    pointer,
    trailing_zeros,
    word,
    write_places,
)
from ...jit.compile import compiled, compiled_inline
from . import _lines as lines
from ._lines import (
    AT,
    COLON,
    ENTRIES,
    ERROR,
    FINE,
    HASH,
    LINES,
    MODE,
    NEWLINE,
    RETURN,
    ROWS,
    SPACE,
    TAB,
    UNTIDY,
    WHERE,
    blank,
    ends,
    invalid_utf8,
    past_blanks,
    pointers,
)
from ._numbers import BAD, EXACT, number

UNKNOWN, WITHOUT, WITH, IGNORED = range(4)  # MODE: whether rows have a qid
MOST_DIGITS = 18  # of an index or a qid, which then fits a word
WINDOW = 1 << 16  # bytes read together
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


@compiled
def parse(text, stop, base, most, full, progress):
    """Parse the lines text[state[AT]:stop], the last byte a newline; indices are from `base` to `most`.

    Lines are parsed by the window if all of them are plain, else one by one. After each window that is not, more
    text is parsed line by line before the next window is tried.
    """
    buf, out, state, seen = pointer(text), pointers(full), pointer(progress), window()
    at, row, k, n_lines, error = state[AT], 0, 0, 0, FINE
    state[UNTIDY] = state[WHERE] = 0
    out.indptr[0] = 0
    line_by_line, wait = at, WINDOW
    while at < stop:
        if at >= line_by_line and at >= PAD and (state[MODE] == WITHOUT or state[MODE] == IGNORED):
            end = complete_lines(buf, at, min(at + WINDOW, stop, len(text) - WIDTH))
            rows, entries = parse_window(text, at, end, base, most, full, row, k, state, seen)
            if rows:
                at, row, k, n_lines, wait = end, row + rows, k + entries, n_lines + rows, WINDOW
                continue
            line_by_line, wait = at + wait, min(2 * wait, 64 * WINDOW)
        line = at
        at = past_blanks(buf, at)
        after, is_row = k, buf[at] != NEWLINE and buf[at] != HASH
        if is_row:
            at, after, error = parse_row(buf, at, base, most, out, row, k, state)
        if error == FINE and buf[at] == HASH:
            at, error = past_comment(buf, at, state)
        if error != FINE:
            at = line
            break
        if is_row:
            row, k = row + 1, after
            out.indptr[row] = k
        at, n_lines = at + 1, n_lines + 1
    state[AT], state[ROWS], state[ENTRIES], state[LINES], state[ERROR] = at, row, k, n_lines, error


@compiled_inline
def complete_lines(buf, at, stop):
    """Return where the last line that ends before `stop` ends, or `at`."""
    while stop > at and buf[stop - 1] != NEWLINE:
        stop -= 1
    return max(stop, at)


@compiled
def parse_window(text, at, stop, base, most, full, row, k, state, seen):
    """Read plain lines; return how many rows and entries they are, or 0 and 0 if some line is not"""
    n_rows, buf = find_separators(text, at, stop, seen), pointer(text)
    n = seen.line_colons[n_rows]
    if n_rows == 0 or n > TOKENS or row + n_rows > len(full.y) or k + n > len(full.data):
        return 0, 0
    start, indices, data = at, full.indices[k : k + n], full.data[k : k + n]
    for i in range(n_rows):
        label, after, status = number(buf, start)
        after_label = at + seen.ends[seen.line_ends[i]]
        if status == BAD or after != after_label or not np.isfinite(label) or not take_tokens(text, at, i, seen):
            return 0, 0
        full.y[row + i], full.indptr[row + i + 1] = label, k + seen.line_colons[i + 1]
        start = at + seen.ends[seen.line_ends[i + 1] - 1] + 1
    if join_indices(seen.indices, n, base, most, indices) != 0:
        return 0, 0
    unread = join_values(seen.values, n, seen.behind, seen.wrong)
    zeros = divide(seen.values, seen.negative, seen.behind, n, data)
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
    """Read the values that are not plain; return whether all are numbers."""
    for i in range(n_rows):
        end = seen.line_ends[i] + 1
        for q in range(seen.line_colons[i], seen.line_colons[i + 1]):
            if seen.wrong[q]:
                value, after, status = number(buf, at + seen.colons[q] + 1)
                data[q] = value
                if status == BAD or after != at + seen.ends[end] or not np.isfinite(data[q]):
                    return False
            end += 1
    return True


@compiled
def drop_zeros(indices, data, indptr):
    """Drop the entries that are 0 and adjust the row pointers; return the number of entries left."""
    k, q, origin = 0, 0, indptr[0]
    for i in range(1, len(indptr)):
        while q < indptr[i] - origin:
            indices[k], data[k] = indices[q], data[q]
            k += data[k] != 0.0
            q += 1
        indptr[i] = origin + k
    return k


@compiled_inline
def parse_row(buf, at, base, most, out, row, k, state):
    """Read a row up to its newline or comment; return where that is, the entries so far, and what is wrong."""
    indices, data = out.indices, out.data
    if row == out.n_rows:
        return at, k, lines.FULL
    state[WHERE] = at
    value, at, status = number(buf, at)
    if status == BAD or not ends(buf[at]):
        return at, k, lines.LABEL
    if not np.isfinite(value):
        return at, k, lines.LARGE
    out.y[row] = value
    at = past_blanks(buf, at)
    state[WHERE] = at
    has_qid = named_qid(buf, at)
    if has_qid:
        value, at, error = integer(buf, at + 4)
        if error != FINE:
            return at, k, error
        if out.n_qid:
            out.qid[row] = value
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
        if j > most or at - token > MOST_DIGITS or j < base:
            state[WHERE] = token
            return at, k, lines.ZERO if j == 0 and at - token <= MOST_DIGITS else lines.INDEX
        start = at + 1
        value, at, status = number(buf, start)
        c = np.int64(buf[at])
        if status == BAD or not ends(c):
            state[WHERE] = start
            return at, k, lines.VALUE
        if k == out.n_entries:
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
    """Return whether `qid:` is at this position; a newline ends the comparison."""
    return buf[at] == 113 and buf[at + 1] == 105 and buf[at + 2] == 100 and buf[at + 3] == COLON


@compiled
def integer(buf, at):
    """Read an integer of up to 18 digits; return it, where it stops, and what is wrong."""
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


# -- plain lines -------------------------------------------------------------------------------------


@compiled_inline
def window():
    """Return the arrays for one window."""
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
def find_separators(text, start, stop, seen):
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
def take_tokens(text, start, line, seen):
    """Extract the tokens of a line; return whether each colon is between two other separators."""
    first, last, at = seen.line_colons[line], seen.line_colons[line + 1], seen.line_ends[line]
    spare = seen.line_ends[line + 1] - at - (last - first) - 1
    if spare != 0:  # a line ends after its last value, or after one more blank (or carriage return)
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
    """Return the last n bytes of a word with zeros before them, or a word that is not a number unless n is 1 to 8."""
    drop = np.uint64(64 - 8 * n) & U63
    kept = (w ^ ZEROS) >> drop << drop
    return kept if np.uint64(n - 1) <= U7 else HIGH


@compiled
def join_indices(words, n, base, most, indices):
    """Write the whole numbers that the words are, less the base; return 0 if all are whole, from `base` to `most`."""
    wrong = U0
    for k in range(n):
        j = np.int64(joined(words[k]))
        indices[k] = np.int32(j - base)
        wrong |= not_digits(words[k]) | np.uint64(j < base) | np.uint64(j > most)
    return wrong


@compiled
def join_values(words, n, behind, wrong):
    """Replace the words by the integers that they are without their points; return how many are not numbers.

    The point is cut out: the digits before it move by a byte, and the number of those after it is the power of ten. A
    point at the end is not handled here.
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
