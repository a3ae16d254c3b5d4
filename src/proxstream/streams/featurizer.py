"""Featurizer: a specification at work. Hashed features of rows become row blocks; what must be remembered is kept here.

    columns or namespaces -> RawRows -> crosses -> numbers of features -> equal ones added up -> CSR arrays

Without hashing, rows are hashed a second time with other seeds: the two hashes together are a name's key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations_with_replacement, groupby, islice, product
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._checks import Array
from .base import DataError
from .features import LABEL, ROLES, FeatureSpec, parse_cross
from .names import ALL, MOST, Names

SALTS = (0, 0x9747B28C)  # seeds of the names of columns: of the hash, and of a key's other half
MOST_CROSSES = 1 << 24  # of one row


class RawRows(NamedTuple):
    """Features of rows, hashed to 32 bits; a value of 0 means that there is none. `terms` tell their column."""

    indptr: Array
    hashes: Array
    values: Array
    terms: Array


class Cells(NamedTuple):
    """Features of rows, one a column: a hash and a value of each column and row, in this order."""

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
    """Makes features as a specification tells, and remembers the columns that it decided on and the names it met.

    Parameters
    ----------
    spec : FeatureSpec
        With `columns` (a trained model's): tables may lack the label, weight and qid.
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
        self._name_columns()

    @property
    def hashed(self) -> bool:
        """Whether features fall into buckets."""
        return self.spec.bits is not None

    @property
    def columns(self) -> list[Column]:
        """The columns that have features: those of one feature a row, then texts."""
        decided = [Column(*pair) for pair in self.spec.columns or ()]
        return sorted(decided, key=lambda column: column.kind == "text")

    def role(self, role: str, columns: Sequence[str]) -> str | None:
        """Return the column among these that is the label, weight or qid."""
        told = getattr(self.spec, role)
        name = LABEL if role == "label" and told is None else told
        return name if name in columns else None

    def decide(self, kinds: Mapping[str, str], place: str, *, labelled: bool = False) -> None:
        """Settle what columns mean when the first table is seen; check that later ones have what is needed.

        `kinds` are the columns of the table in order with what their type tells: numeric or categorical, or else the
        type itself, which has to be dropped. With `labelled` rows without labels are of no use.
        """
        for role in ROLES:
            told = getattr(self.spec, role)
            needed = not self._trained or (labelled and role == "label")
            if told is not None and told not in kinds and needed:
                raise DataError(f"{place}: found no column {told!r} for the {role}, expected one of {_listed(kinds)}")
        if labelled and self.role("label", list(kinds)) is None:
            raise DataError(
                f"{place}: found no column {LABEL!r} and none told for the label, expected one of {_listed(kinds)}"
            )
        if self.spec.columns is None:
            self.spec = replace(self.spec, columns=self._decided(kinds, place))
            self._name_columns()
        for name, _ in self.spec.columns or ():
            if name not in kinds:
                raise DataError(f"{place}: found no column {name!r}, expected it as in the first table")

    def _decided(self, kinds: Mapping[str, str], place: str) -> list[tuple[str, str]]:
        spec = self.spec
        named = [*spec.numeric, *spec.categorical, *spec.grams, *spec.drop, *(spec.keep or ())]
        for name in (*named, *chain.from_iterable(map(parse_cross, spec.crosses))):
            if name not in kinds:
                raise DataError(f"{place}: found no column {name!r}, expected one of {_listed(kinds)}")
        out = {self.role(role, list(kinds)) for role in ROLES} | set(spec.drop)
        decided = []
        for name, kind in kinds.items():
            if name in out or (spec.keep is not None and name not in spec.keep):
                continue
            told = [one for one in ("numeric", "categorical") if name in getattr(spec, one)]
            kind = "text" if name in spec.grams else told[0] if told else kind
            if kind not in ("numeric", "categorical", "text"):
                raise DataError(f"{place}: found column {name!r} of type {kind}, expected numbers or strings; drop it?")
            decided.append((name, kind))
        known = [name for name, _ in decided]
        for cross in spec.crosses:
            for name in parse_cross(cross):
                if name not in known:
                    raise DataError(f"{place}: column {name!r} has no features, expected it to for the cross {cross!r}")
        return decided

    def _name_columns(self) -> None:
        """Numeric columns come first, whether their values are 0 or not."""
        from ..kernels.features import paired
        from ..kernels.hashing import hash_name

        numeric = [column.name for column in self.columns if column.kind == "numeric"]
        halves = [np.array([hash_name(name, salt) for name in numeric], np.uint32) for salt in SALTS]
        keys = halves[0].astype(np.uint64) if self.hashed else paired(*halves)
        self.names.add(keys, np.ones(len(keys)), numeric.__getitem__)

    @property
    def plain(self) -> bool:
        """Whether every feature is a cell of its row, and its number a part of its hash: no more is to be known."""
        spec = self.spec
        return self.hashed and not (spec.crosses or spec.grams or (spec.names and self.growing))

    def bucketed(self, cells: Cells) -> tuple[Array, Array, Array]:
        """Return the rows as CSR arrays where features are `plain`."""
        from ..kernels.features import bucketed_columns

        mask = np.uint32((1 << (self.spec.bits or 0)) - 1)
        return bucketed_columns(cells.hashes, cells.values, mask, self.spec.signed)  # type: ignore[no-any-return]

    def numbered(self, rows: Rows) -> tuple[Array, Array, Array]:
        """Return the rows as CSR arrays: indptr, indices, data."""
        from ..kernels.features import bucketed, paired

        raw = self._crossed(rows, rows.raw(SALTS[0]))
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
        from ..kernels.features import count_crosses, crossed_rows

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
        mask = (1 << self.spec.bits) - 1
        for key, name in zip(self.names.keys, self.names.names, strict=True):
            named.setdefault(int(key) & mask, []).append(name)
        return named

    def arrays(self, n_names: int | None = None) -> dict[str, Array]:
        """Return what is remembered beside the specification: the first names, all unless told how many."""
        return self.names.arrays(n_names)

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Go on from what `arrays` returned."""
        self.names.restore(arrays)


class _Naming:
    """Tells the name of the feature at a place of crossed rows."""

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


def _listed(kinds: Mapping[str, str]) -> str:
    names = list(kinds)
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
