"""Feature specification: what the columns of a table, or the namespaces of a line, mean as features of a row.

A feature has a name, a 32-bit hash made from it, and a value. With m(name, seed) for MurmurHash3:

| source | its features | hash | value |
|---|---|---|---|
| numeric column c | `c`, unless 0 or missing | m(c, 0) | the number |
| categorical column c | `c=v` of its value v, unless missing | m(v, m(c, 0)) | 1 |
| text column c | `c=g` of each n-gram g | m(g, m(c, 0)) | how often g occurs |
| cross a*b*... | all combinations of one feature per part | m(4 bytes of h_b, ..., h_a) | the product |
| missing value of c, with missing="value" | `c=` | m("", m(c, 0)) | 1 |

A column is what a namespace is in Vowpal Wabbit's text, whose features are hashed the same way. The number of a
feature is its hash's lowest `bits` bits; with `signed` the value changes its sign where the highest bit is set, so that
collisions cancel on average (Weinberger et al., 2009, "Feature hashing for large scale multitask learning"). Features
of a row that collide are summed. With bits=None there are no collisions: each name gets the next number when it first
occurs, numeric columns first.

A null, an empty string or CSV field, and the words in `nulls` are missing values. NaN and infinity are errors.
Text is cut into n-grams as in `proxstream.io.features._hash`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from ...core import validation as _checks
from ...core.component import component
from ...core.records import NamedTuple

KINDS = ("numeric", "categorical", "text")
ROLES = ("label", "weight", "qid", "offset")
LABEL = "label"
OFFSETS = "a number from -500 to 500"  # what an offset may be: `types.MAX_OFFSET`
ALL_COLUMNS = "all"
MAX_BITS, MAX_ORDER, MAX_GRAM = 31, 8, 16


class Grams(NamedTuple):
    """Which n-grams a text has: of `words` or `chars`, with n from `low` to `high`."""

    unit: str
    low: int
    high: int


@component
class FeatureSpec:
    """What columns or namespaces mean as features, and how these are numbered; see the module for the definitions.

    Parameters
    ----------
    label, weight, qid, offset : str, optional
        Columns that are not features. The label defaults to the column "label"; "" means that there is none. The offset
        is added to the score of its row: log exposures, for the losses poisson, gamma and tweedie.
    numeric, categorical : columns
        Of this kind whatever their type: names, globs, comma lists of these ("ROLE_*,RESOURCE"), or "all". A name takes
        precedence over a glob, and a glob over "all". The kind of other columns follows from their type: numbers are
        numeric, strings, booleans and dictionaries categorical. In a CSV file a column is numeric if all its values in
        the first 64 KiB are numbers.
    text : mapping of columns to n-grams
        "words" or "chars" and a range, such as {"review": "words:1-2"} or {"url": "chars:3-5"}.
    drop, keep : columns
        Columns that are not features, and if given the only ones that are; as for `numeric`.
    crosses : products of columns
        Such as "site*device" or "age*age"; up to 8 factors. "all*all" means all pairs of columns.
    bits : int or None
        Features are hashed to 2^bits buckets, 1 to 31; None numbers names as they occur.
    signed : bool
        Use the highest bit of the hash as a sign.
    missing : {"nothing", "value"}
        What a missing value contributes: nothing, or the feature `column=`.
    nulls : words
        Spellings of a missing value beside the empty one.
    names : bool
        Keep the names of each bucket, up to 2^20 in all; without hashing all are kept.
    standardize : bool or None
        Give numeric columns weights after the buckets, and rows their zeros, so that what learns the rows can replace a
        number by its distance from the mean of its column in deviations. None leaves it to what learns them:
        `proxstream train` and the stream estimators do, Dask's do not. Crosses are made of the numbers as they are.
    columns : pairs of column and kind
        What was decided when the first table was seen: features come in this order. Not set by users.

    Examples
    --------
    >>> spec = FeatureSpec(label="click", categorical="site", crosses="site*device", bits=18)
    >>> spec.crosses, spec.categorical
    (('site*device',), ('site',))
    >>> FeatureSpec.from_json(spec.to_json()) == spec
    True
    >>> FeatureSpec(bits=40)
    Traceback (most recent call last):
    ValueError: bits must be an integer from 1 to 31, or None for no hashing, got 40
    """

    label: str | None = None
    weight: str | None = None
    qid: str | None = None
    offset: str | None = None
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    text: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    drop: Sequence[str] = ()
    keep: Sequence[str] | None = None
    crosses: Sequence[str] = ()
    bits: int | None = 22
    signed: bool = False
    missing: str = "nothing"
    nulls: Sequence[str] = ()
    names: bool = False
    standardize: bool | None = None
    columns: Sequence[tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        for name in ("numeric", "categorical", "drop", "crosses", "nulls"):
            object.__setattr__(self, name, _words(name, getattr(self, name)))
        if self.keep is not None:
            object.__setattr__(self, "keep", _words("keep", self.keep))
        object.__setattr__(self, "text", _pairs("text", self.text))
        if self.columns is not None:
            object.__setattr__(self, "columns", _pairs("columns", self.columns))
        for role in ROLES:
            if not isinstance(getattr(self, role), str | None):
                raise TypeError(f"{role} must be the name of a column, got {getattr(self, role)!r}")
        for flag in ("signed", "names"):
            if not isinstance(getattr(self, flag), bool):
                raise TypeError(f"{flag} must be True or False, got {getattr(self, flag)!r}")
        if not isinstance(self.standardize, bool | None):
            raise TypeError(f"standardize must be True, False or None, got {self.standardize!r}")
        if self.bits is not None and (type(self.bits) is not int or not 1 <= self.bits <= MAX_BITS):
            raise ValueError(f"bits must be an integer from 1 to {MAX_BITS}, or None for no hashing, got {self.bits!r}")
        if self.standardize and self.bits == MAX_BITS:
            raise ValueError(f"bits must be less than {MAX_BITS} to standardize: weights of numbers follow the buckets")
        _checks.one_of("missing", self.missing, ("nothing", "value"))
        self._check_uses()
        for cross in self.crosses:
            parse_cross(cross)

    def _check_uses(self) -> None:
        """Raise if a column is specified as two things."""
        uses: dict[str, str] = {}
        given: list[tuple[str, Sequence[str]]]
        given = [(role, (getattr(self, role),)) for role in ROLES if getattr(self, role) is not None]
        given += [("numeric", self.numeric), ("categorical", self.categorical), ("drop", self.drop)]
        given += [("text", tuple(self.grams))]
        for use, columns in given:
            for column in columns:
                if column in uses:
                    raise ValueError(f"column {column!r} cannot be both {uses[column]} and {use}")
                uses[column] = use
        for column, kind in self.columns or ():
            _checks.one_of(f"the kind of column {column!r}", kind, KINDS)

    @property
    def grams(self) -> dict[str, Grams]:
        """The n-grams of each text column."""
        return {column: parse_grams(grams) for column, grams in _pairs("text", self.text)}

    def standardizing(self) -> FeatureSpec:
        """Return the specification of a learner that standardizes numbers by default.

        >>> FeatureSpec().standardizing().standardize, FeatureSpec(standardize=False).standardizing().standardize
        (True, False)
        """
        return self if self.standardize is not None else replace(self, standardize=self.bits != MAX_BITS)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as what JSON can hold: lists, strings and numbers."""
        return {name: _listed(value) for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> FeatureSpec:
        """Return the specification that `to_json` was called on.

        >>> FeatureSpec.from_json({"bucket": 3})
        Traceback (most recent call last):
        ValueError: a feature specification has no 'bucket'; it has label, weight, qid, offset, numeric, categorical,
            text, drop, keep, crosses, bits, signed, missing, nulls, names, standardize, columns
        """
        if not isinstance(saved, Mapping):
            raise TypeError(f"a feature specification must be a mapping, got {saved!r}")
        known = [field.name for field in fields(cls)]
        for name in saved:
            if name not in known:
                raise ValueError(f"a feature specification has no {name!r}; it has {', '.join(known)}")
        return cls(**saved)


def parse_grams(grams: str) -> Grams:
    """Return what "words:1-2", "chars:3" or "words" means.

    >>> parse_grams("chars:3-5")
    Grams(unit='chars', low=3, high=5)
    >>> parse_grams("letters")
    Traceback (most recent call last):
    ValueError: n-grams must be words, words:1-2 or chars:3-5 (from 1 to 16), got 'letters'
    """
    found = re.fullmatch(r"(words|chars)(?::(\d{1,2})(?:-(\d{1,2}))?)?", grams)
    if found:
        low = int(found[2] or 1)
        high = int(found[3] or low)
        if 1 <= low <= high <= MAX_GRAM:
            return Grams(found[1], low, high)
    raise ValueError(f"n-grams must be words, words:1-2 or chars:3-5 (from 1 to {MAX_GRAM}), got {grams!r}")


def parse_cross(cross: str) -> tuple[str, ...]:
    """Return the factors of a cross, equal ones next to each other.

    >>> parse_cross("site*ad*site")
    ('site', 'site', 'ad')
    >>> parse_cross("site")
    Traceback (most recent call last):
    ValueError: a cross is two to 8 columns such as 'site*device', got 'site'
    """
    factors = [factor.strip() for factor in cross.split("*")]
    if not 2 <= len(factors) <= MAX_ORDER or not all(factors):
        raise ValueError(f"a cross is two to {MAX_ORDER} columns such as 'site*device', got {cross!r}")
    return tuple(sorted(factors, key=factors.index))


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a column or namespace is one of some names, globs or comma lists of these, or they are "all".

    >>> [name for name in ("ROLE_A", "RESOURCE", "ACTION") if matches(name, ["ROLE_*,RESOURCE"])]
    ['ROLE_A', 'RESOURCE']
    """
    return any(
        name == pattern
        or any(part.strip() == ALL_COLUMNS or fnmatchcase(name, part.strip()) for part in pattern.split(","))
        for pattern in patterns
    )


def _words(name: str, value: Any) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (None,)
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"{name} must be strings, got {value!r}")
    if len(set(words)) < len(words):
        raise ValueError(f"{name} must not repeat a name, got {value!r}")
    return words


def _pairs(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    pairs = value.items() if isinstance(value, Mapping) else value
    try:
        made = tuple((first, second) for first, second in pairs)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be pairs of strings, got {value!r}") from None
    if not all(isinstance(word, str) for pair in made for word in pair):
        raise TypeError(f"{name} must be pairs of strings, got {value!r}")
    _words(name, [first for first, _ in made])
    return made


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value
