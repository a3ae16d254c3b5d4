"""Vowpal Wabbit's text: [label [weight [base]]] ['tag] |namespace[:scale] name[:value] ..., one line per row.

Names become features by the law of `proxstream.io.features.spec`: a namespace is what a column is there, so that
`|site a.com` and the value a.com of a categorical column `site` are one feature, and `| age:30` is that of a numeric
column `age`. The parser tracks namespaces only if they matter (crosses, names, `keep` and `drop`); else it sees hashes
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from ...core.validation import Array
from ...data.rowblock import NO_WEIGHTS, RowBlock
from ..features.featurizer import RawRows
from ..features.spec import ALL_COLUMNS, matches, parse_cross
from ..formats import Job
from ..types import Chunk, Settings
from .buffers import ParseBuffers, Wants
from .parallel import read_on_threads
from .reader import BadRow, Parsed, TextParser, parse_pieces

MOST_SPACES = 1 << 16


def read(job: Job) -> Iterator[Chunk]:
    """Read Vowpal Wabbit's text."""
    names = job.settings.featurizer.names
    for chunk in read_on_threads(job, VWParser(job.settings)):
        yield chunk._replace(end=chunk.end._replace(names=len(names)))


class VWParser(TextParser):
    """Rows of Vowpal Wabbit's lines.

    The option `digits`: False hashes all names; True takes a name of digits alone as its number, added to the hash of
    the namespace, as Vowpal Wabbit does without `--hash all`.
    """

    def __init__(self, settings: Settings) -> None:
        from . import _lines as lines, _vw as vwtext

        self._digits = settings.options.get("digits", False)
        if not isinstance(self._digits, bool):
            raise TypeError(f"digits must be True or False, got {self._digits!r}")
        self._kernel: Any = vwtext
        self._settings = settings
        self._new: int = lines.NEW_NAMESPACE
        self._featurizer = settings.featurizer
        spec = self._featurizer.spec
        self._tracked = bool(spec.crosses or spec.names or spec.bits is None or spec.drop or spec.keep is not None)
        self._spaces: list[str] = []
        self._rule = self._kernel.Rule(self._digits, self._tracked, np.empty(0, np.uint32), np.empty(0))
        for name in dict.fromkeys(part for cross in spec.crosses for part in parse_cross(cross)):
            if name == ALL_COLUMNS:
                raise ValueError("crosses of all columns need a table: the namespaces of vw are not known beforehand")
            self._number(name.encode())
        self._buffers = ParseBuffers(settings, Wants(hashes=True, weights=True, spans=self._tracked))

    def clone(self) -> Self | None:
        """Return a parser for another thread, unless names are numbered in the order of the rows."""
        return None if self._featurizer.spec.names or not self._featurizer.hashed else type(self)(self._settings)

    def parse(self, buffer: Array, at: int, stop: int) -> Parsed:
        """Parse complete lines."""
        buffers, bad = self._buffers, None
        while True:
            error = buffers.run(lambda arrays, state: self._kernel.parse(buffer, stop, self._rule, arrays, state), at)
            if error == self._new:
                bad = self._add_namespace(buffer, buffers.report("WHERE"))
            if error != self._new or bad is not None or buffers.report("LINES"):
                break
        filled = buffers.filled()
        numbered = self._featurizer.numbered(VWRows(filled, buffer, self._spaces, self._digits))
        weights = filled.c.copy() if buffers.report("MODE") else NO_WEIGHTS
        parsed = buffers.parsed(RowBlock(*numbered, filled.y.copy(), weights), None, buffer)
        return parsed if bad is None else parsed._replace(bad=bad)

    def _add_namespace(self, buffer: Array, where: int) -> BadRow | None:
        """Number the namespace at this position."""
        end = self._kernel.name_end(buffer, where)
        name = buffer[where:end].tobytes()
        if len(self._spaces) >= MOST_SPACES:
            return BadRow(where, f"found one more namespace, {name!r}, expected at most {MOST_SPACES} of them")
        self._number(name)
        return None

    def _number(self, name: bytes) -> None:
        from ..features._hash import hash_name

        spec, text = self._featurizer.spec, name.decode("utf-8", "surrogateescape")
        wanted = not matches(text, spec.drop) and (spec.keep is None or matches(text, spec.keep))
        self._spaces.append(text)
        self._rule = self._rule._replace(
            spaces=np.append(self._rule.spaces, np.uint32(hash_name(name))),
            wanted=np.append(self._rule.wanted, float(wanted)),
        )


class VWRows:
    """Rows as a featurizer takes them."""

    def __init__(self, filled: Any, buffer: Array, spaces: list[str], digits: bool) -> None:
        self._filled, self._buffer, self._digits = filled, buffer, digits
        self.columns: Sequence[str] = spaces

    def raw(self, salt: int) -> RawRows:
        """Return the rows, names of namespaces hashed with this seed."""
        filled = self._filled
        hashes = filled.indices
        if salt:
            from ..features._hash import hash_name
            from ._vw import hash_tokens

            names = [name.encode("utf-8", "surrogateescape") for name in self.columns]
            seeds = np.array([hash_name(name, salt) for name in names], np.uint32)
            hashes = np.empty_like(hashes)
            hash_tokens(self._buffer, filled.starts, filled.stops, filled.terms, seeds, self._digits, hashes)
        return RawRows(filled.indptr, hashes, filled.data, filled.terms)

    def name(self, row: int, k: int) -> str:
        """Return the name of the k-th feature of a row."""
        at = int(self._filled.indptr[row]) + k
        name = self._buffer[self._filled.starts[at] : self._filled.stops[at]].tobytes().decode()
        space = self.columns[self._filled.terms[at]]
        return f"{space}={name}" if space else name


def parse_bytes(text: bytes, features: Any = None, dtype: Any = np.float32, **options: Any) -> list[Parsed]:
    """Parse complete lines in memory, piece by piece as a stream does, and nothing else: for benchmarks.

    >>> from proxstream.io.features.spec import FeatureSpec
    >>> text = b"1 |site a.com\\n-1 0.5 |site b.com |age:2 y:15\\n"
    >>> [parsed.rows.data for parsed in parse_bytes(text, FeatureSpec(bits=8))]
    [array([ 1.,  1., 30.], dtype=float32)]
    """
    settings = Settings(features=features, dtype=dtype, options=options)
    return list(parse_pieces(text, VWParser(settings), settings.chunk_bytes))
