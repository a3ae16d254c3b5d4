"""PathLearner: K strengths of one penalty, learned side by side in one pass.

    strengths s_1, ..., s_K     ->   model k follows the minimizer of  mean loss + s_k Psi(w)

Each model is bit for bit the one that a `Learner` with the penalty s_k Psi has after the same rows. The losses of all
rows under all models are compared as they come (`path_losses`), so that a strength can be chosen without other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np

from ..core import penalties, validation as _checks
from ..core.algorithms import Algorithm, AutoFTRL
from ..core.algorithms.auto_state import SCALES
from ..core.losses import Loss
from ..core.penalties import L1, L2, ElasticNet, NoPenalty, Penalty
from ..core.validation import Array
from ..data.rowblock import RowBlock
from . import _path as kernels
from .engine import CompiledEngine
from .learner import Learner
from .path_choice import choose_strength
from .path_engine import EachAlone, ManyEngine, PathEngine, side_by_side
from .path_losses import PairedLosses
from .path_trial import PathTrial
from .scale_warning import is_too_large, warn_of_scale
from .trial import TrialEngine

MOST = 1000  # strengths: the sums of losses need their square


class PathLearner(Learner):
    """Linear models for several strengths of one penalty, which learn the same row blocks.

    A `Learner` whose results have one entry per strength, always in the first place: scores (strengths, rows), weights
    (strengths, features), losses (strengths,). With several outputs these follow: (strengths, rows, outputs).

    RDA, AdaGrad with dual averaging, FTRLProximal and AutoFTRL with one output learn all strengths in one compiled
    loop, in one thread; anything else learns them one after the other.

    Parameters
    ----------
    algorithm, loss, **settings
        As for `Learner`; without ranking.
    penalty : Penalty
        The template Psi, which is multiplied by each strength; constraints in it stay as they are.
    strengths : numbers >= 0, increasing or decreasing
    fixed_l2 : bool
        Multiply the l1 part of an ElasticNet alone: its l2 part is the same in all models.
    scales : "feature" or "global" for each strength, optional
        The scales of AutoFTRL(scale="auto"), if they are known: no rows are needed to find them.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> from proxstream.data.rowblock import as_block
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 20))
    >>> rows = as_block(X, y=np.where(X[:, 0] + rng.logistic(size=500) > 0, 1.0, -1.0))
    >>> path = PathLearner(ps.AutoFTRL(), "logistic", ps.L1(), strengths=[0.1, 0.03, 0.01], n_features=20)
    >>> path.learn(rows).shape, path.count_nonzero()
    ((3, 500), array([ 1,  1, 10]))
    >>> alone = Learner(ps.AutoFTRL(), "logistic", ps.L1(0.03), n_features=20)
    >>> scores = alone.learn(rows)
    >>> np.array_equal(path.model(1).weights()[0], alone.weights()[0])
    True
    """

    engine: ManyEngine  # type: ignore[assignment]

    def __init__(
        self,
        algorithm: Algorithm,
        loss: Loss | str = "logistic",
        penalty: Penalty | None = None,
        *,
        strengths: Any,
        fixed_l2: bool = False,
        scales: Sequence[str] | None = None,
        **settings: Any,
    ) -> None:
        self.strengths, self.fixed_l2 = checked_strengths(strengths), bool(fixed_l2)
        self.scales = _checked_scales(scales, algorithm, len(self.strengths))
        template = penalties.get(L1() if penalty is None else penalty)
        check_template(template)
        if settings.pop("ranking", False):
            raise ValueError("ranking=True: a path has one loss per row, not per pair; make one Learner per strength")
        settings.pop("pairs", None)
        super().__init__(algorithm, loss, template, **settings)
        self.compared = PairedLosses(len(self.strengths))
        self._new_rows = True

    def _new_engine(self, n_features: int) -> Any:
        each = range(len(self.strengths))
        if not isinstance(self._alone(0, n_features, tries=True).engine, (CompiledEngine, TrialEngine)):
            return EachAlone([self._alone(k, n_features).engine for k in each])
        engines: list[Any] = [self._alone(k, 0, tries=True).engine for k in each]
        if isinstance(engines[0], TrialEngine):
            pairs = zip(*(engine.engines for engine in engines), strict=True)
            both = [side_by_side(scale, n_features) for scale in pairs]
            together: Any = None if None in both else PathTrial(both, self.losses_of)  # type: ignore[arg-type]
            if together is not None and self.scales is not None:
                together.settle(self.scales)
        else:
            together = side_by_side(engines, n_features)
        return together or EachAlone([self._alone(k, n_features).engine for k in each])

    def _alone(self, k: int, n_features: int, *, tries: bool = False) -> Learner:
        """Return a learner of model k that has learned nothing, with its scale if that is known; or one that `tries`.

        It shares no state with the path.
        """
        algorithm: Any = self.algorithm
        return Learner(
            algorithm if self.scales is None or tries else replace(algorithm, scale=self.scales[k]),
            self.loss,
            self.penalty_of(k),
            n_features=n_features,
            n_outputs=self.n_outputs,
            dtype=self.dtype,
            fit_intercept=self.fit_intercept,
            average=self.average,
            growing=self.growing,
            n_threads=self.n_threads,
        )

    def penalty_of(self, k: int) -> Penalty:
        """Return the penalty of model k."""
        strength = float(self.strengths[k])
        return with_l1(self.penalty, strength) if self.fixed_l2 else self.penalty.scaled(strength)

    def model(self, k: int) -> Learner:
        """Return the learner that model k would be had it learned alone; it shares nothing with the path."""
        learner = self._alone(k, self.n_features if isinstance(self.engine, EachAlone) else 0)
        state = {**self.engine.member(k), "losses": self.compared.sums[k, :2]}
        if self.scales is not None:  # it has one scale, and has tried none
            state = {name: array for name, array in state.items() if not name.startswith("trial.")}
        learner.load_state_dict(state)
        return learner

    def settle_scale(self, scale: Any = None) -> None:
        """End trials of AutoFTRL(scale="auto"): continue with this scale of each model, or with those ahead, alone."""
        ahead = self.scale_ahead
        if ahead is None:
            return
        kept = _checked_scales(ahead if scale is None else scale, self.algorithm, len(self.strengths)) or ()
        if isinstance(self.engine, PathTrial):
            self.engine.settle(kept)
        elif isinstance(self.engine, EachAlone):
            each: Any = zip(self.engine.engines, kept, strict=True)
            self.engine = EachAlone([engine.engine_of(own) for engine, own in each])
        self.scales = kept

    @property
    def scale_ahead(self) -> tuple[str, ...] | None:
        """The scale of AutoFTRL(scale="auto") that is ahead, or left, for each model; None where none are tried."""
        if isinstance(self.engine, PathTrial):
            return self.engine.scales
        if isinstance(self.engine, EachAlone) and isinstance(self.engine.engines[0], TrialEngine):
            return tuple(engine.scale for engine in self.engine.engines)  # type: ignore[attr-defined]
        return None

    # ---- losses

    @property
    def _losses(self) -> Array:
        return self.compared.sums

    @_losses.setter
    def _losses(self, sums: Array) -> None:
        if sums.ndim == 2:  # what a Learner starts with has no strengths
            self.compared.sums = sums

    @property
    def progressive_loss(self) -> Any:
        """The mean losses of predictions made before their rows were learned, one per strength."""
        return self.compared.means

    @property
    def loss_sums(self) -> Any:
        """The sums of weight times loss and of weight, each one per strength."""
        return self.compared.sums[:, kernels.LOSS].copy(), self.compared.sums[:, kernels.WEIGHT].copy()

    @loss_sums.setter
    def loss_sums(self, sums: Any) -> None:
        self.compared.sums[:, kernels.LOSS], self.compared.sums[:, kernels.WEIGHT] = sums

    def losses_since(self, before: Array, lanes: int) -> Array:
        """Return what rows with `lanes` times their weights have added to `loss_totals`, as of rows with their own."""
        change = super().losses_since(before, lanes)
        change[:, kernels.SQUARED_LOSS :] /= lanes  # sums of squares of weights
        return change

    def learn(self, rows: RowBlock, qid: Any = None, *, repeated: bool = False, **options: Any) -> Array:
        """Learn the rows in order; return the scores (strengths, rows, ...) before each was learned.

        As `Learner.learn`. Rows that are `repeated` are left out of the comparison of strengths.
        """
        self._new_rows = not repeated
        return super().learn(rows, qid, repeated=repeated, **options)

    def _count(self, scores: Array, rows: RowBlock) -> None:
        self._add_losses(scores, rows)
        least = float(np.min(self.progressive_loss))
        if is_too_large(least, self.t, self._without_weights):
            warn_of_scale(self.algorithm, least, self.t, self._without_weights)
            self._without_weights = 0.0

    def _add_losses(self, scores: Array, rows: RowBlock) -> None:
        if self.engine.loss_kernel is not None:
            each = np.empty(scores.shape)
            kernels.add_losses(self.engine.loss_kernel, scores, rows.y, rows.c, self.compared.sums, each)
        else:
            each = self.losses_of(scores, rows.y)
            self.compared.add_sums(each, rows.c)
        if self._new_rows:
            self.compared.add_pairs(each, rows.c)

    def losses_of(self, scores: Array, y: Array) -> Array:
        """Return the loss of each row's scores, (strengths, rows), or of those of one strength, (rows,)."""
        if scores.ndim == 1 + (self.n_outputs > 1):
            return super().losses_of(scores, y)
        return np.stack([super(PathLearner, self).losses_of(each, y) for each in scores])

    def choose(
        self,
        rule: str | None = None,
        *,
        held_out: PairedLosses | None = None,
        counts: Array | None = None,
        **rules: Any,
    ) -> int:
        """Return the place of the strength that a rule chooses: see `path_choice.choose_strength`.

        Parameters
        ----------
        rule : {"best", "1se"}, optional
        held_out : PairedLosses, optional
            Losses of other rows to choose by, in place of the progressive losses.
        counts : array of integers, optional
            What `count_nonzero` returns, if known.
        **rules : strength=, nnz= or loss_within=
        """
        losses = self.compared if held_out is None else held_out
        counts = self.count_nonzero() if counts is None else counts
        return choose_strength(self.strengths, losses, counts, rule, **rules)

    # ---- the models, read back

    def predict(self, rows: RowBlock) -> Array:
        """Return the scores of the rows, (strengths, rows, ...); features that the models do not know count 0."""
        rows.check()
        if not self.average:
            return self.engine.predict(rows.for_kernels())
        coefficients, intercepts = self.weights()
        return np.stack([rows.scores(w, b) for w, b in zip(coefficients, intercepts, strict=True)])

    def weights(self) -> tuple[Array, Array]:
        """Return the coefficients, (strengths, features) or (strengths, features, outputs), and the intercepts."""
        coefficients, intercepts = zip(*(self.model(k).weights() for k in range(len(self.strengths))), strict=True)
        return np.stack(coefficients), np.array(intercepts)

    def count_nonzero(self, occurred: Array | None = None) -> Any:
        """Return how many weights of each model are not exactly zero; see `Learner.count_nonzero`."""
        if isinstance(self.engine, (PathEngine, PathTrial)) and not self.average:
            return self.engine.count_nonzero(occurred)
        return np.array([self.model(k).count_nonzero(occurred) for k in range(len(self.strengths))])

    def load_state_dict(self, saved: Any) -> None:
        """Continue, bit for bit, from the state of a path learner with the same settings."""
        sums = np.array(saved["losses"], dtype=np.float64)
        if sums.shape != self.compared.sums.shape:
            raise ValueError(f"losses of the state must have shape {self.compared.sums.shape}, got {sums.shape}")
        self.engine.restore({name: saved[name] for name in saved if name != "losses"})
        self.compared.sums = sums

    # ---- model files

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        names = ("algorithm", "loss", "penalty", "strengths", "n_features", "n_outputs", "dtype", "average", "growing")
        parts = {name: getattr(self, name) for name in (*names, "n_threads", "fit_intercept", "fixed_l2")}
        parts |= {} if self.scales is None else {"scales": list(self.scales)}
        return {**parts, "state": self.state_dict(copy=False)}

    @classmethod
    def __proxstream_load__(cls, parts: dict[str, Any]) -> Self:
        state = parts.pop("state")
        n_features = _checks.integer("n_features", parts["n_features"], low=0)
        if n_features > sum(array.size for array in state.values()):
            raise ValueError(f"{n_features} features do not fit the arrays stored")
        learner = cls(**parts)
        learner.load_state_dict(state)
        if learner.n_features != n_features:
            raise ValueError(f"the state must have {n_features} features, got {learner.n_features}")
        return learner


def checked_strengths(strengths: Any) -> Array:
    """Return the strengths as numbers; a ValueError names the place and the value of one that cannot be used.

    >>> checked_strengths([0.1, 0.01, 0.01])
    Traceback (most recent call last):
    ValueError: strengths must increase or decrease: 0.01 at index 2 follows 0.01
    """
    grid = np.array(_checks.vector("strengths", strengths), np.float64)
    if grid.ndim != 1 or not 0 < len(grid) <= MOST:
        raise ValueError(f"strengths must be between 1 and {MOST} numbers >= 0, got an array of shape {grid.shape}")
    bad = ~(grid >= 0.0)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"strengths must be numbers >= 0, got {grid[i]:g} at index {i}")
    steps = np.diff(grid)
    wrong = steps <= 0.0 if len(grid) > 1 and steps[0] > 0.0 else steps >= 0.0
    if wrong.any():
        i = int(np.argmax(wrong)) + 1
        raise ValueError(f"strengths must increase or decrease: {grid[i]:g} at index {i} follows {grid[i - 1]:g}")
    return grid


def _checked_scales(scales: Sequence[str] | None, algorithm: Algorithm, models: int) -> tuple[str, ...] | None:
    """Return the scales of all models; a ValueError if one of them is not a scale."""
    if scales is None:
        return None
    if not isinstance(algorithm, AutoFTRL) or algorithm.scale != "auto":
        raise ValueError(f"scales are those of AutoFTRL(scale='auto'), got {algorithm!r}")
    if len(scales) != models or not set(scales) <= set(SCALES):
        raise ValueError(f"scales must be {' or '.join(SCALES)} for each of {models} strengths, got {scales!r}")
    return tuple(scales)


def check_template(penalty: Penalty) -> None:
    """Raise a ValueError if a penalty has no strength."""
    if penalty.is_constraint:
        raise ValueError(f"penalty must have a strength that can vary, such as L1() or L2(), got {penalty!r}")
    penalty.scaled(1.0)


def with_l1(penalty: Penalty, strength: float) -> Penalty:
    """Return a penalty with its l1 part multiplied by a strength; l2 parts and constraints stay as they are.

    >>> from proxstream import NonNegative
    >>> with_l1(ElasticNet(1.0, 0.2) + NonNegative(), 0.1)
    ElasticNet(l1=0.1, l2=0.2) + NonNegative()
    >>> with_l1(ElasticNet(1.0, 0.2), 0.0)
    L2(lam=0.2)
    >>> with_l1(L1(), 0.0)
    NoPenalty()
    """
    parts = [_part_with_l1(part, strength) for part in penalty.parts if strength or not isinstance(part, L1)]
    return reduce(add, parts) if parts else NoPenalty()


def _part_with_l1(part: Penalty, strength: float) -> Penalty:
    if isinstance(part, ElasticNet):
        return ElasticNet(part.l1 * strength, part.l2) if strength else L2(part.l2)
    return part if isinstance(part, L2) else part.scaled(strength)
