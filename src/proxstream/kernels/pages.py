"""Pages of Parquet files: their headers, the runs of levels and codes in them, and cells made of these.

A column is stored in pages. A dictionary page has the different values, one after the other; a data page tells for
each row whether there is a value (its level, where values may be missing) and then a code for each value that there is,
or the values themselves. Levels and codes are runs: of one value repeated, or of values of `width` bits side by side. A
value of the dictionary is made a cell (see `cells`) once; a row costs a look at its level, its code and that cell.

Nothing here trusts the bytes: whatever does not fit is told by a result below 0, and left to who reads the format in
full.
"""

from __future__ import annotations

import numpy as np

from .cells import string_cell
from .jit import compiled, compiled_inline
from .words import PAD, pointer, word

# What a page header tells: fields of the header itself, then those of the header for its kind of page.
FIELDS = 16
KIND, SIZE, STORED, VALUES = 1, 2, 3, FIELDS + 1
ENCODING, LEVEL_ENCODING = FIELDS + 2, FIELDS + 3  # of a first-version page, and of a dictionary
ROWS_2, ENCODING_2, LEVEL_BYTES, REPETITION_BYTES, PACKED = (FIELDS + k for k in (3, 4, 5, 6, 7))
WHICH = 0  # where the field is kept that has the header for its kind of page
CUT, NONE = 0, -1

# What a file tells of each part of a column.
PART_TYPE, PART_CODEC, PART_VALUES, PART_SIZE, PART_STORED, PART_DATA, PART_DICTIONARY = 1, 4, 5, 6, 7, 9, 11
WHOLE, STRUCT, LISTS, DEPTH = 5, 12, (9, 10), 8

# Where runs are: the byte to go on at, the byte to stop at, values left of the run, the bit where those of a packed
# run go on (-1: they are all `RUN_VALUE`), and the bits of a value (-1: no runs, values are 0, 1, 2, ...).
RUN_AT, RUN_STOP, RUN_LEFT, RUN_BIT, RUN_VALUE, RUN_WIDTH = range(6)
RUN = 6
MOST_RUN = 1 << 31
U1 = np.uint64(1)


@compiled
def varint(buf, at, stop):
    """Read a number of seven bits a byte, lowest first; return it and where it stops, behind `stop` if it is cut."""
    value, shift = 0, 0
    while at < stop and shift < 63:
        byte = np.int64(buf[at])
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    return 0, stop + 1


@compiled
def past(buf, at, stop, kind):
    """Read a value that is no struct and no list; return it, -1 if it is no whole number, and where it stops."""
    if kind <= 2:
        return 2 - kind, at
    if 4 <= kind <= 6:
        value, at = varint(buf, at, stop)
        return (value >> 1) ^ -(value & 1), at
    if kind == 8:
        size, at = varint(buf, at, stop)
        return -1, at + min(size, stop + 1 - at)
    return -1, at + (8 if kind == 7 else 1)


@compiled
def page_header(buf, stop, told):
    """Write the numbers in the page header at the beginning of buf[:stop], -1 if there is none, into their fields.

    Return where it ends, CUT or NONE. It is a struct of Thrift's compact protocol: of each field a byte with its type
    and how far its number is from the one before, then its value.
    """
    last = np.zeros(DEPTH, np.int64)
    told[:] = -1
    at, depth = 0, 0
    while at < stop:
        kind, step = np.int64(buf[at]) & 15, np.int64(buf[at]) >> 4
        at += 1
        if kind == 0:
            depth -= 1
            if depth < 0:
                return at
            continue
        last[depth] += step
        field = last[depth]
        if kind == STRUCT and depth + 1 < DEPTH and step:
            if depth == 0:
                if told[WHICH] >= 0:
                    return NONE
                told[WHICH] = field
            depth += 1
            last[depth] = 0
            continue
        if kind > 8 or step == 0 or (depth < 2 and field >= FIELDS):
            return NONE
        value, at = past(buf, at, stop, kind)
        if depth < 2:
            told[depth * FIELDS + field] = value if kind <= 2 or kind == WHOLE else -1
    return CUT


@compiled
def column_chunks(buf, stop, told):
    """Write the numbers that the struct in buf[:stop], a file's last, tells of each part of a column into a row each.

    Return how many parts there are, CUT or NONE. What is told of one is field 3 of those in the list that is field 1 of
    those in the list that is field 4: `last` are the fields on the way to where we are, `left` the structs that a list
    there still has.
    """
    last, left = np.zeros(DEPTH, np.int64), np.zeros(DEPTH, np.int64)
    at, depth, n = 0, 0, 0
    while at < stop:
        kind, step = np.int64(buf[at]) & 15, np.int64(buf[at]) >> 4
        at += 1
        if kind == 0:
            n += depth == 2 and last[0] == 4 and last[1] == 1
            if depth == 0:
                return n
            depth -= 1
            if left[depth]:
                left[depth] -= 1
                depth += 1
                last[depth] = 0
            continue
        last[depth] += step
        size = 1
        if kind in LISTS:
            if at >= stop:
                return CUT
            kind, size = np.int64(buf[at]) & 15, np.int64(buf[at]) >> 4
            at += 1
            if size == 15:
                size, at = varint(buf, at, stop)
            size, step = max(size, 0), step if kind > 2 else 0  # lists of truth values have no place there
        if step == 0 or kind > STRUCT or 8 < kind < STRUCT or (kind == STRUCT and depth + 1 == DEPTH):
            return NONE
        if kind == STRUCT and size:
            left[depth] = size - 1
            depth += 1
            last[depth] = 0
            continue
        value = -1
        while size and kind != STRUCT and at <= stop:
            value, at = past(buf, at, stop, kind)
            size -= 1
        if depth == 3 and last[0] == 4 and last[1] == 1 and last[2] == 3 and last[3] < FIELDS:
            if n == len(told):
                return NONE
            told[n, last[3]] = value
    return CUT


@compiled
def string_entries(buf, at, stop, most, seed, nulls, absent, hashes, values):
    """Make cells of at most so many strings, each behind its length in 4 bytes; return their number, or -1."""
    data, n = pointer(buf), 0
    while n < most and at < stop:
        if at + 4 > stop:
            return -1
        size = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16
        size |= np.int64(data[at + 3]) << 24
        at += 4
        if size > stop - at:
            return -1
        hashes[n], values[n] = string_cell(data, at, at + size, stop, seed, pointer(nulls), len(nulls), absent)
        n += 1
        at += size
    return n


@compiled_inline
def bits_at(buf, bit, width, end):
    """Return the `width` bits, up to 32, at a place of buf[:end]."""
    at = bit >> 3
    if at + PAD <= end:
        w = word(buf, at)
    else:
        w = np.uint64(0)
        for k in range(end - at):
            w |= np.uint64(buf[at + k]) << np.uint64(8 * k)
    return np.int64((w >> np.uint64(bit & 7)) & ((U1 << np.uint64(width)) - U1))


@compiled
def begin_run(buf, run):
    """Look at the run that begins at run[RUN_AT]; return whether it is one."""
    told, at = varint(buf, run[RUN_AT], run[RUN_STOP])
    width, stop = run[RUN_WIDTH], run[RUN_STOP]
    if at > stop or not 1 < told < MOST_RUN:  # below are runs of nothing
        return False
    if told & 1:
        run[RUN_LEFT], run[RUN_BIT] = 8 * (told >> 1), 8 * at
        at += (told >> 1) * width
    else:
        size = (width + 7) >> 3
        if at + size > stop:
            return False
        run[RUN_LEFT], run[RUN_BIT] = told >> 1, -1
        run[RUN_VALUE] = bits_at(buf, 8 * at, 8 * size, stop)
        if run[RUN_VALUE] >> width:
            return False
        at += size
    run[RUN_AT] = at
    return at <= stop


@compiled
def take_run(buf, run, n, out):
    """Write the next n values of the runs; return their largest, or -1 if there are not as many."""
    done, highest, width, end = 0, 0, run[RUN_WIDTH], run[RUN_STOP]
    while done < n:
        if run[RUN_LEFT] == 0 and not begin_run(buf, run):
            return -1
        m = min(run[RUN_LEFT], n - done)
        bit = run[RUN_BIT]
        if bit < 0:
            value = run[RUN_VALUE]
            highest = max(highest, value)
            for k in range(done, done + m):
                out[k] = value
        else:
            whole = min(max((8 * (end - PAD) - bit) // max(width, 1), 0), m)
            keep = (U1 << np.uint64(width)) - U1
            for k in range(whole):
                here = bit + k * width
                value = np.int64((word(buf, here >> 3) >> np.uint64(here & 7)) & keep)
                highest = max(highest, value)
                out[done + k] = value
            for k in range(whole, m):
                value = bits_at(buf, bit + k * width, width, end)
                highest = max(highest, value)
                out[done + k] = value
            run[RUN_BIT] = bit + m * width
        run[RUN_LEFT] -= m
        done += m
    return highest


@compiled
def put_page(page, runs, entries, absent, scratch, at, n, hashes, values):
    """Put the next n rows of a page at `at`; `runs` are those of its levels and of its codes; return whether it can.

    A width of 0 for levels tells that no value is missing. Behind the last of the entries is one that nobody takes.
    """
    buf, levels, codes = pointer(page), pointer(runs[0]), pointer(runs[1])
    present, numbers = pointer(scratch[0]), pointer(scratch[1])
    entry_hashes, entry_values, n_entries = pointer(entries[0]), pointer(entries[1]), len(entries[0]) - 1
    found = n
    if levels[RUN_WIDTH] and levels[RUN_LEFT] == 0 and not begin_run(buf, levels):
        return False
    if levels[RUN_WIDTH] and levels[RUN_BIT] < 0 and levels[RUN_VALUE] == 1 and levels[RUN_LEFT] >= n:
        levels[RUN_LEFT] -= n
    elif levels[RUN_WIDTH]:
        if take_run(buf, levels, n, present) < 0:
            return False
        found = 0
        for i in range(n):
            found += present[i]
    if codes[RUN_WIDTH] < 0:
        highest = codes[RUN_VALUE] + found - 1
        for i in range(found):
            numbers[i] = codes[RUN_VALUE] + i
        codes[RUN_VALUE] += found
    else:
        highest = take_run(buf, codes, found, numbers)
        if highest < 0:
            return False
    if found and highest >= n_entries:
        return False
    if found == n:
        for i in range(n):
            hashes[at + i], values[at + i] = entry_hashes[numbers[i]], entry_values[numbers[i]]
        return True
    absent_hash, absent_value = absent
    numbers[found] = 0  # what a missing value at the end looks at, and does not take
    q = 0
    for i in range(n):
        entry = numbers[q]
        hashes[at + i] = entry_hashes[entry] if present[i] else absent_hash
        values[at + i] = entry_values[entry] if present[i] else absent_value
        q += present[i]
    return True
