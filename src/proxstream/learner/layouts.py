"""Layouts: what each kind of compiled loop keeps in its arrays, the loop itself, and how states learned apart add up.

| layout           | models                                            | cells of a feature     | cost of a row        |
|------------------|---------------------------------------------------|------------------------|----------------------|
| ScalarLayout     | one output, separable penalty, diagonal algorithm | one                    | its non-zeros        |
| AveragedLayout   | the same, and the mean of the weights played      | one, and two sums      | its non-zeros        |
| MulticlassLayout | several outputs, row groups, one-vs-rest          | one per class          | non-zeros x classes  |
| AutoLayout       | AutoFTRL, one output or several                   | (z, r) per class, unit | non-zeros x classes  |

A layout holds no state: `CompiledEngine` keeps the arrays. Intercepts' cells, the clock and the table of idle rounds
are 64-bit whatever the state is.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from ..core.algorithms.auto import AutoFTRL, units_move
from ..core.losses import Loss, _kernels as losses
from ..core.penalties import Penalty, _kernels as penalties
from ..core.records import NamedTuple
from ..core.validation import Array
from ..data.rowblock import RowBlock
from . import (
    _auto as auto,
    _auto_multiclass as auto_multiclass,
    _loop as loop,
    _loop_averaged as averaged,
    _loop_multiclass as multiclass,
    _rules as rules,
    hogwild,
)
from ._groups import unit
from ._loop_averaged import LAST, Means
from ._loop_multiclass import OneVsRest
from ._rules import DECAYING, EPOCH, NOW
from .plan import MulticlassPlan, Plan
from .state_checks import check_clock, check_rounds

START = np.array([[1.0, 0.0], [1.0, 0.0]])  # a table of idle rounds before any; intercepts are never idle
SUMMED = (rules.RDA, rules.AdaGrad, rules.FTRLProximal)  # rules whose state is a sum over rows


class Columns(NamedTuple):
    """Where z, r and the unit are in a feature's cells, the numbers per class of a change, and the classes of a model.

    See `_merge`.
    """

    z_at: Array
    r_at: Array
    unit_at: int
    columns: int
    together: int

    def of_bias(self, bias: Array) -> Columns:
        """Return the same for the cells of intercepts in one row: each is moved by itself."""
        z = np.arange(len(bias)) * bias.shape[1]
        return Columns(z, z + 1 if self.columns > 1 else z[:0], -1, self.columns, 1)


class Layout(Protocol):
    """What differs between compiled loops."""

    parts: Any  # rule, penalty and loss as compiled loops know them
    reader: Any  # the same without a loss, for loops that only read: one version of them serves all losses
    n_outputs: int
    cells: int  # rows of the state for each feature
    width: int  # numbers in a row of the state
    bias_width: int
    counts: tuple[int, int]  # where rows learned and penalty are in the clock
    moves_all: bool  # whether each row moves all weights a little

    def start(self) -> tuple[Array, Array | None]: ...  # noqa: D102 - the clock and the table of idle rounds
    def model(self, state: Array, bias: Array, clock: Array, table: Array | None) -> Any: ...  # noqa: D102
    def check(self, rows: RowBlock) -> None: ...  # noqa: D102
    def check_state(self, new: Mapping[str, Array]) -> None: ...  # noqa: D102
    def for_repeated_rows(self) -> Layout: ...  # noqa: D102
    def learn(self, model: Any, rows: RowBlock, scores: Array, guard: Array) -> None: ...  # noqa: D102
    def learn_in_threads(  # noqa: D102
        self, model: Any, rows: RowBlock, scores: Array, guard: Array, n_threads: int
    ) -> None: ...
    def predict(self, model: Any, rows: RowBlock, scores: Array) -> None: ...  # noqa: D102
    def weights(self, model: Any) -> tuple[Array, Any]: ...  # noqa: D102
    def may_settle(self, model: Any, rows: RowBlock) -> bool: ...  # noqa: D102
    @property
    def adds_up(self) -> bool: ...  # noqa: D102
    def columns(self) -> Columns: ...  # noqa: D102
    def rate(self, clock: Array) -> float | Array: ...  # noqa: D102
    def clock_change(self, old: Array, new: Array, lanes: int) -> Array: ...  # noqa: D102
    def apply_clock(self, clock: Array, change: Array, grown: Array) -> None: ...  # noqa: D102


class ScalarLayout:
    """One weight per feature; weights at rest are brought up to date in closed form when a row touches them."""

    counts, moves_all, n_outputs, cells = (rules.T, rules.K), False, 1, 1

    def __init__(self, plan: Plan) -> None:
        self.parts, self.width = plan
        self.reader = self.parts._replace(loss=None)
        self.bias_width, self._still = self.width, START.copy()

    def start(self) -> tuple[Array, Array | None]:
        """Return the clock and the table of idle rounds before the first row."""
        return np.zeros(4), START.copy()

    def model(self, state: Array, bias: Array, clock: Array, table: Array | None) -> Any:
        """Return the arrays as loops take them."""
        return loop.Model(state, bias, clock, table, self._still)

    @property
    def decays(self) -> bool:
        """Whether cells keep the round of their last visit, to be looked up in the table."""
        return isinstance(self.parts.rule, DECAYING)

    def check(self, rows: RowBlock) -> None:
        """Refuse rows whose weights have no closed form: h/(h + c l2) per round is not a power of h/(h + l2)."""
        if isinstance(self.parts.rule, rules.AdaGradMirror) and self.parts.penalty.l2 > 0.0:
            bad = (rows.c != 0.0) & (rows.c != 1.0)
            if bad.any():
                raise ValueError(
                    "AdaGrad(update='mirror') with an l2 penalty has no closed form over idle rounds of unequal "
                    f"weights: each must be 0 or 1, got {rows.c[bad][0]:g} in row {int(np.argmax(bad))} of the block"
                )

    def check_state(self, new: Mapping[str, Array]) -> None:
        """Refuse a state whose places are outside of its tables."""
        check_clock(new["clock"], *self.counts, NOW)
        if len(new["state"]) % self.cells:
            raise ValueError(f"the state must have {self.cells} rows per feature, got {len(new['state'])} in all")
        last = new["state"][:, -1 if self.decays else self.width :]
        check_rounds("state", last, new["clock"][NOW], ("table", new["table"]))
        if self.decays:
            check_rounds("bias", new["bias"][:, -1], 1.0, ("still", START))

    def for_repeated_rows(self) -> Layout:
        """Return this layout: nothing but weights is learned from a row, whether it is new or not."""
        return self

    def learn(self, model: Any, rows: RowBlock, scores: Array, guard: Array) -> None:
        """Learn rows in order."""
        loop.learn(self.parts, rows, model, scores, guard)

    def learn_in_threads(self, model: Any, rows: RowBlock, scores: Array, guard: Array, n_threads: int) -> None:
        """Learn rows in lock-free threads."""

        def learn_rows(rows: RowBlock, bias: Array, clock: Array, scores: Array, guard: Array) -> None:
            self.learn(model._replace(bias=bias, clock=clock), rows, scores, guard)

        hogwild.learn_settling(self._foreseen_parts(), rows, model, scores, guard, n_threads, learn_rows)

    def _foreseen_parts(self) -> Any:
        """Return the components by which the clock is foreseen."""
        return self.reader

    def predict(self, model: Any, rows: RowBlock, scores: Array) -> None:
        """Write <w, x> + intercept of each row."""
        loop.predict(self.reader, rows, model, scores)

    def weights(self, model: Any) -> tuple[Array, Any]:
        """Return all weights and the intercept."""
        coefficients = np.empty(len(model.state), model.state.dtype)
        return coefficients, float(loop.read(self.reader, model, coefficients))

    def may_settle(self, model: Any, rows: RowBlock, lowest: float = loop.SMALLEST) -> bool:
        """Return whether rows may bring all features up to date: at an epoch's end, or when much has decayed."""
        rule, penalty, now = self.parts.rule, self.parts.penalty, int(model.clock[NOW])
        if not self.decays:
            return False
        if now + rows.n_rows >= EPOCH:
            return True
        if isinstance(rule, rules.AdaGradMirror) or penalty.l2 == 0.0:
            return False
        # A round takes P to P / (1 + a) or P (1 - a) with a = c l2 / h, which are exp(-2 a) at least for a <= 1/2.
        h = rule.rate * (model.clock[rules.T] + 1.0) ** rule.power
        most, total = (rows.c.max(), rows.c.sum()) if len(rows.c) else (1.0, float(rows.n_rows))
        decay = model.table[now, 0] * math.exp(-2.0 * total * penalty.l2 / h)
        return bool(most * penalty.l2 > 0.5 * h or decay < lowest)

    # ---- states learned apart

    @property
    def adds_up(self) -> bool:
        """Whether the state is a sum over rows."""
        return isinstance(self.parts.rule, SUMMED)

    def columns(self) -> Columns:
        """Return where z and r are in a feature's cells, class by class."""
        z = np.arange(self.cells) * self.width
        columns = {rules.RDA: 1, rules.AdaGrad: 3}.get(type(self.parts.rule), 5)
        return Columns(z, z + 1 if columns > 1 else z[:0], -1, columns, len(z))

    def rate(self, clock: Array) -> float:
        """Return the curvature for each unit of r."""
        return float(self.parts.rule.rate)

    def clock_change(self, old: Array, new: Array, lanes: int) -> Array:
        """Return the change of a clock by rows that weigh `lanes`."""
        change = new - old
        change[rules.K] /= lanes
        return change

    def apply_clock(self, clock: Array, change: Array, grown: Array) -> None:
        """Change a clock."""
        clock += change


class AveragedLayout(ScalarLayout):
    """One weight per feature, and the sums of the weights played, kept by one thread."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        if reason := averaged.refusal(self.parts):
            raise ValueError(f"average=True: {reason}")

    def start_means(self, n_features: int) -> Means:
        """Return sums over no rounds."""
        return Means(np.zeros((n_features, 2)), np.zeros(1), np.zeros((2, 3)), np.zeros(1))

    def first_sum(self, means: Means, t: int) -> float:
        """Return the sum of a weight that was never touched: the first point may not be 0."""
        penalty = self.parts.penalty
        if not isinstance(penalty, penalties.Bounded):
            return 0.0
        return float(min(max(0.0, float(penalty.lo)), float(penalty.hi)) * (t - means.clock[0]))

    def check_means(self, new: Mapping[str, Array]) -> None:
        """Refuse sums whose rounds are outside of their table."""
        check_clock(new["means.clock"], 0)
        rounds, last = ("means.rounds", new["means.rounds"]), new["means.sums"][:, LAST]
        check_rounds("means.sums", last, new["means.clock"][0], rounds)
        if len(new["means.sums"]) != len(new["state"]):
            raise ValueError("means.sums of the state must have a row per feature")


class MulticlassLayout(ScalarLayout):
    """A weight per feature and class, a feature's classes side by side; labels are the classes 0, 1, ..."""

    def __init__(self, plan: MulticlassPlan) -> None:
        self.parts, self.width, self.n_outputs = plan
        self.reader = self.parts._replace(loss=None)
        self.cells, self.bias_width, self._still = self.n_outputs, self.width, START.copy()

    def check(self, rows: RowBlock) -> None:
        """Take any weights."""

    def learn(self, model: Any, rows: RowBlock, scores: Array, guard: Array) -> None:
        """Learn rows in order."""
        multiclass.learn(self.parts, self.n_outputs, rows, model, scores, guard)

    def _foreseen_parts(self) -> Any:
        return self.reader._replace(penalty=unit(self.parts.penalty))

    def predict(self, model: Any, rows: RowBlock, scores: Array) -> None:
        """Write the scores (rows, classes)."""
        multiclass.predict(self.reader, self.n_outputs, rows, model, scores)

    def weights(self, model: Any) -> tuple[Array, Any]:
        """Return all weights (features, classes) and the intercepts (classes,)."""
        flat, intercepts = np.empty(len(model.state), model.state.dtype), np.zeros(self.n_outputs)
        multiclass.read(self.reader, self.n_outputs, model, flat, intercepts)
        return flat.reshape(-1, self.n_outputs), intercepts


class AutoLayout:
    """AutoFTRL with one output, or one per class.

    A feature's cell holds (z, r) for each class and, unless one global scale serves all, its own unit: 12 bytes per
    feature with one output in float32. A binary loss with more than one output learns one against the rest.
    """

    counts, moves_all, cells, bias_width = (auto.T, auto.K), True, 1, 2
    _added: ClassVar = [auto.T, auto.K, auto.SQUARES_A, auto.SQUARES_B, auto.SQUARES_C, auto.SIZE]
    _means: ClassVar = [auto.A, auto.B, auto.C]
    _widest: ClassVar = [auto.HI, auto.P_UNIT, auto.G_UNIT]

    def __init__(
        self, algorithm: AutoFTRL, penalty: Penalty, loss: Loss, n_outputs: int = 1, dtype: Any = np.float64
    ) -> None:
        parts = auto_parts(algorithm, penalty, loss, n_outputs, dtype)
        if isinstance(parts, str):
            raise TypeError(f"no compiled AutoFTRL: {parts}")
        self.parts, self.n_outputs = parts, n_outputs
        self.reader = parts._replace(loss=None)
        self.width = 2 * n_outputs + parts.rule.sized

    def start(self) -> tuple[Array, Array | None]:
        """Return the clock before the first row; there is no table, as all weights are read off their cells."""
        return auto.start_clock(self.parts.rule, self.n_outputs), None

    def model(self, state: Array, bias: Array, clock: Array, table: Array | None) -> Any:
        """Return the arrays as loops take them."""
        return auto.Model(state, bias, clock)

    def check(self, rows: RowBlock) -> None:
        """Take any weights."""

    def check_state(self, new: Mapping[str, Array]) -> None:
        """Refuse counts that are not counts."""
        check_clock(new["clock"], *self.counts)

    def for_repeated_rows(self) -> Layout:
        """Return a layout that leaves a, b and c as they are."""
        other = copy.copy(self)
        other.parts = self.parts._replace(rule=self.parts.rule._replace(adapts=False))
        return other

    @property
    def _loop(self) -> Any:  # a module, which cannot be pickled as an attribute
        return auto if self.n_outputs == 1 else auto_multiclass

    def learn(self, model: Any, rows: RowBlock, scores: Array, guard: Array) -> None:
        """Learn rows in order."""
        self._loop.learn(self.parts, rows, model, scores, guard)

    def learn_in_threads(self, model: Any, rows: RowBlock, scores: Array, guard: Array, n_threads: int) -> None:
        """Learn rows in lock-free threads, each with its own clock until the end of a chunk."""
        lock = threading.Lock()

        def learn_chunk(chunk: RowBlock, bias: Array, at: int, out: Array, guard: Array) -> None:
            with lock:
                own = model.clock.copy()
            before = own.copy()
            self.learn(model._replace(bias=bias, clock=own), chunk, out, guard)
            with lock:
                model.clock[:] = auto.joined_clock(self.parts.rule, model.clock, before, own)

        hogwild.learn(rows, model.bias, scores, guard, n_threads, learn_chunk)

    def predict(self, model: Any, rows: RowBlock, scores: Array) -> None:
        """Write <w, x> + intercept, (rows,) or (rows, classes)."""
        self._loop.predict(self.reader, rows, model, scores)

    def weights(self, model: Any) -> tuple[Array, Any]:
        """Return all weights and the intercept: (features,) and a number, or (features, classes) and (classes,)."""
        n, dtype = len(model.state), model.state.dtype
        if self.n_outputs == 1:
            coefficients = np.empty(n, dtype)
            return coefficients, float(auto.read(self.reader, model, coefficients))
        coefficients, intercepts = np.empty((n, self.n_outputs), dtype), np.zeros(self.n_outputs)
        auto_multiclass.read(self.reader, model, coefficients, intercepts)
        return coefficients, intercepts

    def may_settle(self, model: Any, rows: RowBlock) -> bool:
        """Return False: cells change only where rows touch them."""
        return False

    # ---- states learned apart

    adds_up = True

    def columns(self) -> Columns:
        """Return where numbers are in a feature's cell: all z, then all r, then the unit."""
        z = np.arange(self.n_outputs)
        unit_at = 2 * self.n_outputs if self.parts.rule.sized else -1
        return Columns(z, z + self.n_outputs, unit_at, 5, len(z))

    def rate(self, clock: Array) -> float:
        """Return the curvature for each unit of r."""
        begin: Any = auto.begin
        return 1.0 / float(begin(self.parts.rule, self.parts.penalty, clock).kappa)

    def clock_change(self, old: Array, new: Array, lanes: int) -> Array:
        """Return the change of a clock: sums, what becomes a mean times its rows; widths as they are now."""
        change = new - old
        rows = change[auto.T]
        change[self._means] *= rows
        change[auto.RECENT :] = new[auto.RECENT :] * rows / lanes
        change[[auto.K, auto.SQUARES_A, auto.SQUARES_B, auto.SQUARES_C]] /= lanes
        for at in (auto.LO, *self._widest):
            change[at] = new[at]
        change[auto.SCALE], change[auto.MANTISSA] = 0.0, 0.0
        return change

    @classmethod
    def join_changes(cls, one: Array, other: Array) -> Array:
        """Return two changes of a clock, or of those of several models, as one."""
        both = np.asarray(one + other)
        both[..., auto.LO] = np.minimum(one[..., auto.LO], other[..., auto.LO])
        both[..., cls._widest] = np.maximum(one[..., cls._widest], other[..., cls._widest])
        return both

    def apply_clock(self, clock: Array, change: Array, grown: Array) -> None:
        """Change a clock; `grown` is what the cells' units add to the exponents, mantissas and count of all units."""
        rule, rows = self.parts.rule, max(float(change[auto.T]), 1.0)
        clock[self._added] += change[self._added]
        constants = rule.constants
        lows = constants.low_a, constants.low_b, constants.low_c
        highs = constants.high_a, constants.high_b, constants.high_c
        clock[self._means] = np.clip(clock[self._means] + change[self._means] / rows, lows, highs)
        clock[auto.RECENT :] = change[auto.RECENT :] / rows
        clock[auto.LO] = min(clock[auto.LO], change[auto.LO])
        clock[self._widest] = np.maximum(clock[self._widest], change[self._widest])
        if rule.sized:
            exponents, logarithms, new = map(float, grown)
            total = math.log2(clock[auto.MANTISSA]) + logarithms
            carried = math.floor(total) + 1
            clock[auto.SUM] += exponents + carried
            clock[auto.MANTISSA] = 2.0 ** (total - carried)
            clock[auto.COUNT] += new
        else:
            clock[[auto.SUM, auto.COUNT]] += change[[auto.SUM, auto.COUNT]]
        self._rescale(clock)

    def _rescale(self, clock: Array) -> None:
        """Bring S, or the global scale, up to date (see `_auto.measure`)."""
        if clock[auto.COUNT] == 0.0:
            return
        if self.parts.rule.sized:
            exponent = (clock[auto.SUM] + math.log2(clock[auto.MANTISSA])) / clock[auto.COUNT]
            clock[auto.SCALE] = self.parts.rule.constants.floor * 2.0**-exponent
        elif clock[auto.SUM] > 0.0:
            clock[auto.SCALE] = math.sqrt(clock[auto.SUM] / clock[auto.COUNT])


def auto_parts(algorithm: AutoFTRL, penalty: Penalty, loss: Loss, n_outputs: int, dtype: Any) -> auto.Parts | str:
    """Return the components of a compiled AutoFTRL, or the reason why there is none for this combination."""
    folded = penalties.as_tuple(penalty, np.dtype(dtype).type)
    if folded is None:
        return f"{penalty!r} does not act on each coordinate alone, with one strength for all"
    if isinstance(folded, penalties.Bounded) and not folded.lo <= 0.0 <= folded.hi:
        return f"{penalty!r} gives weight to features never seen"
    labels, ranged = units_move(loss)
    if n_outputs > 1 and labels:
        return f"{loss} has one output, got {n_outputs}"
    each = losses.for_streams(loss)
    constants, sized = algorithm.constants, algorithm.scale != "global"
    lam = constants.lam if sized else constants.lam_global
    rule = auto.Rule(constants, lam, algorithm.penalty_weight == "once", labels, ranged, True, sized)
    return auto.Parts(rule, folded, OneVsRest(each) if n_outputs > 1 and loss.kind != "multiclass" else each)
