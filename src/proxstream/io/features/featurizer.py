"""Featurizer: applies a specification. Hashed features of rows become row blocks; known names are kept here.

    columns or namespaces -> RawRows -> crosses -> numbers of features -> equal ones added up -> CSR arrays

Without hashing, rows are hashed a second time with other seeds: the two hashes together are a name's key.

Names of features: a table that only grows, from the key of a name to its number and to the name itself.

Without hashing it numbers the features; with hashing it lists the names in each bucket. A key is the name's hash: 32
bits with hashing, whose buckets are part of it anyway, 64 bits without, so that two of n names share a number with a
probability below n^2 / 2^65. Because the table only grows, its state at an earlier row is a prefix of it: a reader may
be ahead of the learner, and a checkpoint stores as many names as its rows had.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, combinations_with_replacement, groupby, islice, product
from typing import Any, Protocol

import numpy as np

from ...core.records import NamedTuple
from ...core.validation import Array
from ...data.rowblock import RowBlock
from ...data.standardize import Standardizer
from ..types import DataError
from .spec import ALL_COLUMNS, KINDS, LABEL, ROLES, FeatureSpec, matches, parse_cross

SALTS = (0, 0x9747B28C)  # seeds of the names of columns: of the hash, and of a key's other half
MOST_CROSSES = 1 << 24  # of one row

MOST = 1 << 20  # names kept with a hashed model
ALL = (1 << 31) - 1  # numbers of features are 32-bit integers
FIRST = 1 << 10


class RawRows(NamedTuple):
    """Features of rows, hashed to 32 bits; a value of 0 means that there is none. `terms` are their columns."""

    indptr: Array
    hashes: Array
    values: Array
    terms: Array


class Cells(NamedTuple):
    """Features of rows, one per column: a hash and a value of each column and row, in this order."""

    hashes: Array
    values: Array


class Rows(Protocol):
    """Rows as a reader has them."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of what `terms` number."""

    def raw(self, salt: int) -> RawRows:
        """Return the rows, names of columns hashed with this seed."""

    def name(self, row: int, k: int) -> str:
        """Return the name of the k-th feature of a row of `raw`."""


class Column(NamedTuple):
    """A column that has features."""

    name: str
    kind: str


class Featurizer:
    """Makes features as specified, and remembers the columns that it decided on and the names that occurred.

    Parameters
    ----------
    spec : FeatureSpec
        With `columns` (a trained model's): tables may lack the label, weight and qid, but not the offset.
    dtype : float32 or float64
        Of values.
    growing : bool
        Remember new names; else, without hashing, their features are left out.
    """

    def __init__(self, spec: FeatureSpec | None = None, dtype: Any = np.float32, growing: bool = True) -> None:
        self.spec = FeatureSpec() if spec is None else spec
        self.dtype, self.growing = np.dtype(dtype), growing
        self._trained = self.spec.columns is not None
        self.names = Names(MOST if self.hashed else ALL)
        self.standardizer = Standardizer(0)
        self._name_columns()

    @property
    def hashed(self) -> bool:
        """Whether features fall into buckets."""
        return self.spec.bits is not None

    @property
    def columns(self) -> list[Column]:
        """The columns that have features: those of one feature per row, then texts."""
        decided = [Column(*pair) for pair in self.spec.columns or ()]
        return sorted(decided, key=lambda column: column.kind == "text")

    def role(self, role: str, columns: Sequence[str]) -> str | None:
        """Return the column among these that is the label, weight, qid or offset."""
        given = getattr(self.spec, role)
        name = LABEL if role == "label" and given is None else given
        return name if name in columns else None

    def decide(self, kinds: Mapping[str, str], place: str, *, labelled: bool = False) -> None:
        """Decide what columns mean when the first table is seen; check that later ones have what is needed.

        `kinds` are the columns of the table in order with the kind of their type: numeric or categorical, or else the
        type itself, which has to be dropped. With `labelled` there must be a column of labels.
        """
        for role in ROLES:
            given = getattr(self.spec, role)
            needed = not self._trained or (labelled and role == "label") or role == "offset"
            if given and given not in kinds and needed:
                raise DataError(f"{place}: found no column {given!r} for the {role}, expected one of {listed(kinds)}")
        if labelled and self.role("label", list(kinds)) is None:
            raise DataError(
                f"{place}: found no column {LABEL!r} and no label was specified, expected one of {listed(kinds)}"
            )
        if self.spec.columns is None:
            self.spec = self._decided(kinds, place)
            self._name_columns()
        for name, _ in self.spec.columns or ():
            if name not in kinds:
                raise DataError(f"{place}: found no column {name!r}, expected it as in the first table")

    def _decided(self, kinds: Mapping[str, str], place: str) -> FeatureSpec:
        """Return the specification with the columns of a table instead of patterns, and their kinds."""
        spec, roles = self.spec, {self.role(role, list(kinds)) for role in ROLES}
        grams = dict(spec.text)
        uses: dict[str, tuple[int, str]] = {}  # of each column: how closely a pattern names it, and as what
        patterns = [(use, pattern) for use in ("numeric", "categorical", "drop") for pattern in getattr(spec, use)]
        for use, pattern in (*patterns, *(("text:" + grams[column], column) for column in grams)):
            for name, rank in _matching(pattern, kinds, roles, place):
                known = uses.get(name, (rank, use))
                if known[0] == rank and known[1] != use:
                    both = " and ".join(one.partition(":")[0] for one in (known[1], use))
                    raise DataError(f"{place}: column {name!r} is specified as {both}, expected one of them")
                uses[name] = min(known, (rank, use))
        keep = None
        if spec.keep is not None:
            keep = [name for pattern in spec.keep for name, _ in _matching(pattern, kinds, roles, place)]
        decided = []
        for name, kind in kinds.items():
            use = uses.get(name, (0, kind))[1].partition(":")[0]
            if name in roles or use == "drop" or (keep is not None and name not in keep):
                continue
            if use not in KINDS:
                raise DataError(f"{place}: found column {name!r} of type {kind}, expected numbers or strings; drop it?")
            decided.append((name, use))
        crosses = self._expanded_crosses(kinds, [name for name, _ in decided], place)
        named: dict[str, Any] = {
            use: [name for name, (_, one) in uses.items() if one == use] for use in ("numeric", "categorical", "drop")
        }
        text = [(name, use[5:]) for name, (_, use) in uses.items() if use.startswith("text:")]
        return replace(spec, columns=decided, crosses=crosses, text=text, keep=keep, **named)

    def _expanded_crosses(self, kinds: Mapping[str, str], columns: list[str], place: str) -> list[str]:
        """Return the crosses with `all` replaced by columns, each combination once."""
        crosses: dict[str, None] = {}
        for cross in self.spec.crosses:
            factors = parse_cross(cross)
            fixed = [name for name in factors if name != ALL_COLUMNS or ALL_COLUMNS in kinds]
            for name in fixed:
                if name not in kinds:
                    raise DataError(f"{place}: found no column {name!r}, expected one of {listed(kinds)}")
                if name not in columns:
                    raise DataError(f"{place}: column {name!r} has no features, expected it to for the cross {cross!r}")
            others = [name for name in columns if name not in fixed]
            if len(fixed) == len(factors):
                crosses[cross] = None
            else:
                for some in combinations(others, len(factors) - len(fixed)):
                    crosses["*".join((*fixed, *some))] = None
        return list(crosses)

    def _name_columns(self) -> None:
        """Numeric columns come first, whether their values are 0 or not."""
        from ._crosses import paired
        from ._hash import hash_name

        numeric = self._numeric_names()
        if self.spec.standardize:
            self.standardizer = Standardizer(len(numeric), 0 if self.spec.bits is None else 1 << self.spec.bits)
        halves = [np.array([hash_name(name, salt) for name in numeric], np.uint32) for salt in SALTS]
        keys = halves[0].astype(np.uint64) if self.hashed else paired(*halves)
        self.names.add(keys, np.ones(len(keys)), numeric.__getitem__)

    def _numeric_names(self) -> list[str]:
        return [column.name for column in self.columns if column.kind == "numeric"]

    @property
    def standardizes(self) -> bool:
        """Whether there are numbers to be standardized."""
        return self.standardizer.n_columns > 0

    @property
    def cell_dtype(self) -> Any:
        """The precision of cells: double where the distance of numbers from their mean matters."""
        return np.dtype(np.float64) if self.standardizes else self.dtype

    def with_own_statistics(self, *, fresh: bool) -> Featurizer:
        """Return a featurizer of the same names whose statistics, these or `fresh` ones, are not shared."""
        made, columns = copy.copy(self), self.standardizer
        made.standardizer = Standardizer(columns.n_columns, columns.first) if fresh else copy.deepcopy(columns)
        return made

    def with_roles(self, spec: FeatureSpec | None) -> Featurizer:
        """Return a featurizer of the same names and statistics that takes roles that a specification names from it."""
        named = {role: name for role in ROLES if (name := getattr(spec, role, None)) is not None}
        made = copy.copy(self)
        made.spec = replace(self.spec, **named)
        return made

    def standardize(self, rows: RowBlock, *, learn: bool) -> RowBlock:
        """Return rows of this featurizer with standardized numbers; with `learn` they enter the statistics."""
        return self.standardizer.transform(rows, learn=learn, dtype=self.dtype)

    @property
    def plain(self) -> bool:
        """Whether every feature is a cell of its row, and its number a part of its hash."""
        spec = self.spec
        return self.hashed and not (spec.crosses or spec.grams or (spec.names and self.growing) or self.standardizes)

    def bucketed(self, cells: Cells) -> tuple[Array, Array, Array]:
        """Return the rows as CSR arrays where features are `plain`."""
        from ._crosses import bucketed_columns

        mask = np.uint32((1 << (self.spec.bits or 0)) - 1)
        return bucketed_columns(cells.hashes, cells.values, mask, self.spec.signed)  # type: ignore[no-any-return]

    def numbered(self, rows: Rows) -> tuple[Array, Array, Array]:
        """Return the rows as CSR arrays: indptr, indices, data."""
        raw = self._crossed(rows, rows.raw(SALTS[0]))
        if self.standardizes:
            return self._with_numbers(rows, raw)
        return self._numbered(rows, raw)

    def _with_numbers(self, rows: Rows, raw: RawRows) -> tuple[Array, Array, Array]:
        """Return the rows with their numbers, zeros too, as the features of the standardizer."""
        from ...data._standardize import put_numbers, take_numbers
        from ._hash import hash_name

        names = self._numeric_names()
        places = np.array([list(rows.columns).index(name) for name in names], np.int64)
        seeds = np.array([hash_name(name, SALTS[0]) for name in names], np.uint32)
        values, numbers = raw.values.copy(), np.empty((len(raw.indptr) - 1, len(names)))
        n = int(take_numbers(raw.indptr, raw.hashes, values, places, seeds, numbers))
        indptr, indices, data = self._numbered(rows, raw._replace(values=values))
        made = np.empty(len(indptr), np.int32), np.empty(n + len(indices), np.int32), np.empty(n + len(data))
        put_numbers(indptr, indices, data, numbers, self.standardizer.first, *made)
        return made

    def _numbered(self, rows: Rows, raw: RawRows) -> tuple[Array, Array, Array]:
        from ._crosses import bucketed, paired

        if self.spec.bits is not None:
            if self.spec.names and self.growing:
                keys = raw.hashes.astype(np.uint64)
                self.names.add(keys, raw.values, _Naming(self, rows, raw.indptr))
            mask = np.uint32((1 << self.spec.bits) - 1)
            return bucketed(raw.indptr, raw.hashes, raw.values, mask, self.spec.signed)  # type: ignore[no-any-return]
        keys = paired(raw.hashes, self._crossed(rows, rows.raw(SALTS[1])).hashes)
        if self.growing:
            numbers = self.names.add(keys, raw.values, _Naming(self, rows, raw.indptr))
        else:
            numbers = self.names.find(keys, raw.values)
        values = np.where(numbers >= 0, raw.values, raw.values.dtype.type(0))
        return bucketed(raw.indptr, numbers.view(np.uint32), values, np.uint32(ALL), False)  # type: ignore[no-any-return]

    def _crossed(self, rows: Rows, raw: RawRows) -> RawRows:
        if not self.spec.crosses:
            return raw
        from ._crosses import count_crosses, crossed_rows

        slots, crosses = self._slots(rows.columns)
        grown, many = count_crosses(tuple(raw), slots, crosses, MOST_CROSSES)
        if many >= 0:
            raise DataError(f"a row has more than {MOST_CROSSES} crosses, expected fewer")
        hashes, values = crossed_rows(tuple(raw), slots, crosses, grown)
        return RawRows(grown, hashes, values, raw.terms)

    def _slots(self, columns: Sequence[str]) -> tuple[Array, tuple[Array, Array]]:
        """Return which terms are crossed, numbered, and the crosses as parts and their ends."""
        factors = [parse_cross(cross) for cross in self.spec.crosses]
        names = list(dict.fromkeys(chain.from_iterable(factors)))
        slots = np.array([names.index(column) if column in names else -1 for column in columns] or [-1], np.int32)
        parts = np.array([names.index(name) for cross in factors for name in cross], np.int32)
        return slots, (parts, np.cumsum([0, *map(len, factors)]).astype(np.int32))

    def cross_names(self, bags: Mapping[str, list[str]]) -> Iterator[str]:
        """Yield the names of a row's crosses, given the names that each column has there."""
        for cross in self.spec.crosses:
            runs = [(name, len(list(run))) for name, run in groupby(parse_cross(cross))]
            for some in product(*(combinations_with_replacement(bags.get(name, ()), n) for name, n in runs)):
                yield "*".join(chain.from_iterable(some))

    def named(self) -> dict[int, list[str]]:
        """Return the names of the features that are known by name, by their number."""
        if self.spec.bits is None:
            return {number: [name] for number, name in enumerate(self.names.names)}
        named: dict[int, list[str]] = {}
        mask, columns = (1 << self.spec.bits) - 1, self.standardizer
        for i, (key, name) in enumerate(zip(self.names.keys, self.names.names, strict=True)):
            number = columns.first + i if i < columns.n_columns else int(key) & mask
            named.setdefault(number, []).append(name)
        return named

    def arrays(self, n_names: int | None = None) -> dict[str, Array]:
        """Return what is remembered beside the specification: the first `n_names` names, or all, and statistics."""
        return self.names.arrays(n_names) | self.standardizer.arrays()

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Continue from what `arrays` returned."""
        self.names.restore(arrays)
        if "statistics" in arrays:
            self.standardizer.restore(arrays["statistics"])


class Names:
    """Keys and names in the order in which they first occurred, at most `most` of them.

    >>> names = Names()
    >>> names.add(np.array([7, 9, 7], np.uint64), np.ones(3), lambda at: f"feature at {at}")
    array([0, 1, 0], dtype=int32)
    >>> names.names
    ['feature at 0', 'feature at 1']
    """

    def __init__(self, most: int = ALL) -> None:
        self.most = most
        self.names: list[str] = []
        self._keys = np.empty(FIRST, np.uint64)
        self._table: tuple[Array, Array] = (np.empty(0, np.uint64), np.empty(0, np.int32))
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def keys(self) -> Array:
        """The key of each name."""
        return self._keys[: len(self.names)]

    def add(self, keys: Array, values: Array, name: Callable[[int], str]) -> Array:
        """Return the number of each key, -1 of an absent feature and of a new one when the table is full.

        `name(at)` returns the name of the key at this position; it is called once for every new key.
        """
        from ._crosses import numbered

        self._reserve(min(self.most, len(self) + len(keys)))
        numbers = np.empty(len(keys), np.int32)
        fresh = np.empty(len(keys), np.int64)
        n = numbered(keys, values, self._table, len(self), self.most, numbers, fresh)
        new = fresh[: n - len(self)]
        names = [name(int(at)) for at in new]
        with self._lock:
            self._keys[len(self) : n] = keys[new]
            self.names += names
        return numbers

    def find(self, keys: Array, values: Array) -> Array:
        """Return the number of each key that is known, and -1 of all others."""
        from ._crosses import numbered

        self._reserve(0)
        numbers = np.empty(len(keys), np.int32)
        numbered(keys, values, self._table, len(self), len(self), numbers, np.empty(0, np.int64))
        return numbers

    def _reserve(self, n: int) -> None:
        """Make the table large enough for n keys."""
        size = max(len(self._table[0]), FIRST)
        while size < 2 * n + 2:
            size *= 2
        if size > len(self._table[0]):
            from ._crosses import numbered

            self._table = np.empty(size, np.uint64), np.full(size, np.int32(-1))
            known = self.keys
            places = np.empty(len(known), np.int64)
            numbered(known, np.ones(len(known)), self._table, 0, len(known), places.astype(np.int32), places)
        if n > len(self._keys):
            self._keys = np.resize(self._keys, max(n, 2 * len(self._keys)))

    def arrays(self, n: int | None = None) -> dict[str, Array]:
        """Return the first n names (all) as arrays: keys, the bytes of the names, and where each ends."""
        with self._lock:
            names, keys = self.names[:n], self.keys[:n].copy()
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        return {"keys": keys, "names": np.frombuffer(b"".join(encoded), np.uint8), "ends": ends}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Continue from what `arrays` returned; arrays that do not fit together are refused."""
        keys, ends = np.asarray(arrays["keys"], np.uint64), np.asarray(arrays["ends"], np.int64)
        data = np.asarray(arrays["names"], np.uint8).tobytes()
        starts = np.concatenate((np.zeros(min(len(ends), 1), np.int64), ends[:-1]))
        whole = len(ends) == 0 or int(ends[-1]) == len(data)
        if keys.shape != ends.shape or len(np.unique(keys)) < len(keys) or not whole or (starts > ends).any():
            raise ValueError(f"{len(keys)} keys and {len(ends)} names of {len(data)} bytes do not fit together")
        names = [data[start:end].decode("utf-8", "surrogateescape") for start, end in zip(starts, ends, strict=True)]
        self._keys, self.names = keys.copy(), names
        self._table = (np.empty(0, np.uint64), np.empty(0, np.int32))


class _Naming:
    """Returns the name of the feature at a position of crossed rows."""

    def __init__(self, featurizer: Featurizer, rows: Rows, ends: Array) -> None:
        self._featurizer, self._rows, self._ends = featurizer, rows, ends
        self._raw: RawRows | None = None
        self._crosses: tuple[int, list[str]] = (-1, [])

    def __call__(self, at: int) -> str:
        row = int(np.searchsorted(self._ends, at, side="right")) - 1
        k = at - int(self._ends[row])
        if not self._featurizer.spec.crosses:
            return self._rows.name(row, k)
        if self._raw is None:
            self._raw = self._rows.raw(SALTS[0])
        start, stop = int(self._raw.indptr[row]), int(self._raw.indptr[row + 1])
        if k < stop - start:
            return self._rows.name(row, k)
        if self._crosses[0] != row:
            bags: dict[str, list[str]] = {}
            for i in range(start, stop):
                if self._raw.values[i] != 0.0:
                    column = self._rows.columns[self._raw.terms[i]]
                    bags.setdefault(column, []).append(self._rows.name(row, i - start))
            self._crosses = row, list(islice(self._featurizer.cross_names(bags), MOST_CROSSES))
        return self._crosses[1][k - (stop - start)]


def _matching(pattern: str, columns: Iterable[str], roles: Collection[str | None], place: str) -> list[tuple[str, int]]:
    """Return the columns that a name, glob or comma list matches, with 0 for a name, 1 for a glob, 2 for `all`."""
    names = list(columns)
    found: dict[str, int] = {}
    for part in [pattern] if pattern in names else [part.strip() for part in pattern.split(",")]:
        rank = 0 if part in names else 2 if part == ALL_COLUMNS else 1
        matched = [part] if rank == 0 else [name for name in names if matches(name, [part]) and name not in roles]
        if not matched:
            raise DataError(f"{place}: found no column {part!r}, expected one of {listed(names)}")
        for name in matched:
            found[name] = min(rank, found.get(name, rank))
    return list(found.items())


def listed(names: Iterable[str]) -> str:
    """Return names as errors list them: of many the first ones, and the last, which often is the label.

    >>> listed(["a", "b"])
    "'a', 'b'"
    >>> listed(f"x{i}" for i in range(30))
    "'x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7', 'x8', 20 more, 'x29'"
    """
    all_names = list(map(repr, names))
    if len(all_names) > 10:
        all_names[9:-1] = [f"{len(all_names) - 10} more"]
    return ", ".join(all_names)
