"""From hashed features to row blocks: crosses, numbers, and equal features of a row added up.

Rows come as (indptr, hashes, values, terms): row i has the features indptr[i] to indptr[i+1], each with its 32-bit
hash, its value (0: the feature is absent, and is skipped everywhere) and the column or namespace that it belongs to.
"""

from __future__ import annotations

import numpy as np

from ...jit.byteops import pointer
from ...jit.compile import compiled, compiled_inline
from ._hash import ONE, finish, mix, murmur3_32

BIT31 = np.uint32(31)
HALF = np.uint64(32)
FIRST_ROOM = 1 << 12


@compiled
def bucketed(indptr, hashes, values, mask, signed):
    """Return the rows as CSR arrays: numbers are the hashes' bits in `mask`, equal ones of a row are added up."""
    n_rows = len(indptr) - 1
    longest = 0
    for i in range(n_rows):
        longest = max(longest, indptr[i + 1] - indptr[i])
    room = _room(n_rows, len(hashes), longest, values)
    stop = _fill(indptr, hashes, values, (mask, signed), room)
    return room[0], room[1][:stop], room[2][:stop]


@compiled
def bucketed_columns(hashes, values, mask, signed):
    """Return the same of rows that come as columns of cells: hashes[c, i] and values[c, i] are those of row i."""
    n_cells, n_rows = hashes.shape
    room = _room(n_rows, n_cells * n_rows, n_cells, values)
    stop = _fill_columns(n_rows, hashes.ravel(), values.ravel(), (mask, signed), room)
    return room[0], room[1][:stop], room[2][:stop]


@compiled
def _room(n_rows, n_entries, longest, values):
    """Return CSR arrays for so many entries, and a table for `_put` that is nearly empty with a row in it."""
    starts = np.zeros(n_rows + 1, np.int32)
    indices, data = np.empty(n_entries + 1, np.int32), np.empty(n_entries + 1, values.dtype)
    size = FIRST_ROOM
    while size < 2 * longest:
        size *= 2
    return starts, indices, data, np.full(size, np.int32(-1))


@compiled
def _fill(indptr, hashes, values, law, room):
    """Fill the room and return the number of entries; pointers hold while the caller has the arrays."""
    starts, from_hashes, from_values, sink = room[0], pointer(hashes), pointer(values), _sink(room)
    start, lost = 0, 0
    for i in range(len(indptr) - 1):
        stop, twice = start, False
        for k in range(indptr[i], indptr[i + 1]):
            stop, again = _put(sink, law, start, stop, lost, from_hashes[k], from_values[k])
            twice |= again
        start, lost = _shrunk(sink, start, stop, lost) if twice else (stop, lost)
        starts[i + 1] = start
    return start


@compiled
def _fill_columns(n_rows, hashes, values, law, room):
    """Do the same from columns of cells, one after the other."""
    starts, from_hashes, from_values, sink = room[0], pointer(hashes), pointer(values), _sink(room)
    start, lost, n_cells = 0, 0, len(hashes)
    for i in range(n_rows):
        stop, twice = start, False
        for k in range(i, n_cells, n_rows):
            stop, again = _put(sink, law, start, stop, lost, from_hashes[k], from_values[k])
            twice |= again
        start, lost = _shrunk(sink, start, stop, lost) if twice else (stop, lost)
        starts[i + 1] = start
    return start


@compiled_inline
def _sink(room):
    return pointer(room[1]), pointer(room[2]), pointer(room[3]), np.uint32(len(room[3]) - 1)


@compiled_inline
def _put(sink, law, start, stop, lost, h, x):
    """Put a feature of the row that began at `start`; return where the next one goes, and whether its number was there.

    An absent feature is overwritten by the next one, and one whose number is there is added to it and leaves a 0: no
    branch has to be guessed but that most numbers are new. Those of a row are found through a table of their places.
    Places never fall, since what is taken out of rows is counted in `lost`; so whatever lies before the row's first
    place is free, and nothing is ever cleared.
    """
    number, value, free, last = sink
    mask, signed = law
    j = h & mask
    number[stop], value[stop] = j, -x if signed and h >> BIT31 else x
    place, present = j & last, x != 0.0
    here = free[place]
    if here - lost < start:
        free[place] = stop + lost if present else here
        return stop + present, False
    return _put_again(sink, start, stop, lost) if present else (stop, False)


@compiled
def _put_again(sink, start, stop, lost):
    """Do the same where the first place in the table is taken."""
    number, value, free, last = sink
    place = np.uint32(number[stop]) & last
    found = free[place] - lost
    while found >= start and number[found] != number[stop]:
        place = (place + np.uint32(1)) & last
        found = free[place] - lost
    if found < start:
        free[place] = stop + lost
        return stop + 1, False
    value[found] += value[stop]
    value[stop] = 0.0
    return stop + 1, True


@compiled
def _shrunk(sink, start, stop, lost):
    """Take zeros out of a row; return where it ends then, and how many places were lost until here."""
    number, value, _, _ = sink
    kept = start
    for k in range(start, stop):
        number[kept], value[kept] = number[k], value[k]
        kept += value[k] != 0.0
    return kept, lost + stop - kept


@compiled
def _bags(start, stop, values, terms, slots, begins, places):
    """Sort the places of a row's features by slot; slot s has places[begins[s]:begins[s + 1]]."""
    begins[:] = 0
    for k in range(start, stop):
        if values[k] != 0.0 and slots[terms[k]] >= 0:
            begins[slots[terms[k]] + 2] += 1
    for s in range(2, len(begins)):
        begins[s] += begins[s - 1]
    for k in range(start, stop):
        if values[k] != 0.0 and slots[terms[k]] >= 0:
            s = slots[terms[k]] + 1
            places[begins[s]] = k
            begins[s] += 1


@compiled
def count_crosses(rows, slots, crosses, limit):
    """Return where each row ends once crosses are added, and the first row with more than `limit` of them, or -1.

    `slots` numbers the terms that are crossed (-1: not crossed); `crosses` are (parts, ends): a cross is some of the
    slots in parts, equal ones side by side, of which it takes combinations with repetition.
    """
    indptr, _, values, terms = rows
    parts, ends = crosses
    grown = np.empty(len(indptr), np.int64)
    grown[0] = 0
    counts = np.zeros(len(slots), np.int64)
    for i in range(len(indptr) - 1):
        counts[:] = 0
        for k in range(indptr[i], indptr[i + 1]):
            if values[k] != 0.0 and slots[terms[k]] >= 0:
                counts[slots[terms[k]]] += 1
        total = 0.0
        for c in range(len(ends) - 1):
            product, repeat = 1.0, 1
            for q in range(ends[c], ends[c + 1]):
                repeat = repeat + 1 if q > ends[c] and parts[q] == parts[q - 1] else 1
                product = product * (counts[parts[q]] + repeat - 1) / repeat
            total += product
        if total > limit:
            return grown, i
        grown[i + 1] = grown[i] + indptr[i + 1] - indptr[i] + np.int64(np.round(total))
    return grown, -1


@compiled
def crossed_rows(rows, slots, crosses, grown):
    """Return the hashes and values of the rows with their crosses behind them; rows end where `grown` tells."""
    indptr, hashes, values, terms = rows
    parts, ends = crosses
    out_hashes = np.empty(grown[-1], np.uint32)
    out_values = np.empty(grown[-1], values.dtype)
    longest = 1
    for i in range(len(indptr) - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    n_slots = 0
    for slot in slots:
        n_slots = max(n_slots, slot + 1)
    begins, places = np.zeros(n_slots + 2, np.int64), np.empty(longest, np.int64)
    at = np.zeros(len(parts), np.int64)
    for i in range(len(indptr) - 1):
        out = grown[i]
        for k in range(indptr[i], indptr[i + 1]):
            out_hashes[out], out_values[out] = hashes[k], values[k]
            out += 1
        _bags(indptr[i], indptr[i + 1], values, terms, slots, begins, places)
        for c in range(len(ends) - 1):
            first, end = ends[c], ends[c + 1]
            filled = True
            for q in range(first, end):
                at[q] = begins[parts[q]]
                filled = filled and begins[parts[q]] < begins[parts[q] + 1]
            while filled:
                h, value = np.uint64(hashes[places[at[first]]]), values[places[at[first]]]
                for q in range(first + 1, end):
                    h = mix(h, hashes[places[at[q]]])
                    value *= values[places[at[q]]]
                out_hashes[out], out_values[out] = finish(h, 4 * (end - first - 1)), value
                out += 1
                q = end - 1
                while q >= first:
                    at[q] += 1
                    if at[q] < begins[parts[q] + 1]:
                        break
                    q -= 1
                filled = q >= first
                for r in range(q + 1, end):
                    if r > first:
                        at[r] = at[r - 1] if parts[r] == parts[r - 1] else begins[parts[r]]
    return out_hashes, out_values


@compiled
def joined_rows(rows, other_indptr, other_hashes, term):
    """Return the rows with the features of another column, each of value 1, behind them."""
    indptr, hashes, values, terms = rows
    n_rows = len(indptr) - 1
    size = indptr[n_rows] + other_indptr[n_rows]
    out_indptr = np.empty(n_rows + 1, np.int64)
    out_hashes, out_values = np.empty(size, np.uint32), np.empty(size, values.dtype)
    out_terms = np.empty(size, np.int32)
    out = 0
    out_indptr[0] = 0
    for i in range(n_rows):
        for k in range(indptr[i], indptr[i + 1]):
            out_hashes[out], out_values[out], out_terms[out] = hashes[k], values[k], terms[k]
            out += 1
        for k in range(other_indptr[i], other_indptr[i + 1]):
            out_hashes[out], out_values[out], out_terms[out] = other_hashes[k], 1.0, term
            out += 1
        out_indptr[i + 1] = out
    return out_indptr, out_hashes, out_values, out_terms


@compiled
def numbered(keys, values, table, n, most, out, fresh):
    """Number the keys of present features; return how many are known then.

    `table` is (keys, numbers) with open addressing, over half of it free; a number of -1 marks a free place, and `n`
    keys are known. New keys get the next numbers until `most` are known, and the places where they first occur are
    written to `fresh`; beyond, they get -1.
    """
    known, numbers = table
    last, begun = np.uint64(len(known) - 1), n
    for k in range(len(keys)):
        key = keys[k]
        out[k] = -1
        if values[k] == 0.0:
            continue
        place = key & last
        while numbers[place] >= 0 and known[place] != key:
            place = (place + ONE) & last
        if numbers[place] < 0:
            if n >= most:
                continue
            known[place], numbers[place] = key, n
            fresh[n - begun] = k
            n += 1
        out[k] = numbers[place]
    return n


@compiled
def paired(low, high):
    """Return 64-bit keys of two 32-bit hashes."""
    keys = np.empty(len(low), np.uint64)
    for k in range(len(low)):
        keys[k] = (np.uint64(high[k]) << HALF) | np.uint64(low[k])
    return keys


@compiled
def hash_spans(buf, spans, before, now, numeric, hashes):
    """Hash cells again with other seeds: the values buf[spans[i, c, 0]:spans[i, c, 1]] of row i and column c.

    `before` are the cells' hashes until now and those of missing values; `now` are the new seeds of columns and the new
    hashes of missing values. Numbers have the seed for a hash.
    """
    first, absent_first = before
    seeds, absent = now
    k = 0
    for i in range(spans.shape[0]):
        for c in range(len(numeric)):
            if first[k] == absent_first[c]:
                hashes[k] = absent[c]
            elif numeric[c]:
                hashes[k] = seeds[c]
            else:
                hashes[k] = murmur3_32(buf, spans[i, c, 0], spans[i, c, 1], seeds[c])
            k += 1
