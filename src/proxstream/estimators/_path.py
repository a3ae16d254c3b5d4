"""What the path estimators share: strengths found on the first rows, losses compared, a strength chosen."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Self

import numpy as np

from ..batch.strengths import OPENING, stream_strengths
from ..core.algorithms import Algorithm
from ..core.losses import Loss
from ..core.penalties import Penalty
from ..core.validation import Array
from ..data.batches import Batch, blocks
from ..data.measures import auc
from ..data.rowblock import RowBlock
from ..learner.path import PathLearner
from ..learner.path_losses import PairedLosses
from ._base import FITTED, StreamEstimator
from ._progress import Report


class PathEntry(NamedTuple):
    """One strength of a path: its non-zeros and losses; those of held-out rows are NaN if there are none."""

    strength: float
    nnz: int
    progressive_loss: float
    progressive_error: float
    held_out_loss: float
    held_out_error: float
    auc: float


class PathTable(list[PathEntry]):
    """The entries of a path in the order of its strengths; prints as a table that marks "best" and "1se"."""

    def __init__(self, entries: list[PathEntry], marks: dict[int, str]) -> None:
        super().__init__(entries)
        self.marks = marks

    def __str__(self) -> str:
        held_out = any(not np.isnan(entry.held_out_loss) for entry in self)
        lines = ["    strength  non-zero   progressive loss" + ("        held-out loss     AUC" if held_out else "")]
        for k, entry in enumerate(self):
            line = (
                f"{entry.strength:12.4g}  {entry.nnz:8}  {entry.progressive_loss:8.5f} ± {entry.progressive_error:.5f}"
            )
            if held_out:
                line += f"   {entry.held_out_loss:8.5f} ± {entry.held_out_error:.5f}  {entry.auc:6.4f}"
            lines.append(f"{line}  {self.marks.get(k, '')}".rstrip())
        return "\n".join(lines)


class StreamPath(StreamEstimator):
    """A stream estimator of several strengths; subclasses name the estimator of one."""

    _one: type[StreamEstimator]
    strengths: Any
    _learner: PathLearner
    _opening: tuple[Batch, ...] | None  # rows that wait until there are enough to find the strengths
    _held_out: tuple[PairedLosses, Array] | None  # losses and AUCs of held-out rows

    # ---- learning

    def _new_learner(self, algorithm: Algorithm, loss: Loss, penalty: Penalty, **settings: Any) -> PathLearner:
        self._opening, self._held_out, strengths = None, None, self.strengths
        if strengths is None:
            if getattr(algorithm, "penalty_weight", "every_round") == "once":
                raise ValueError(
                    "strengths=None: with penalty_weight='once' they depend on the number of rows; pass strengths"
                )
            self._opening, strengths = (), [1.0]
        return PathLearner(algorithm, loss, penalty, strengths=strengths, **settings)

    def _find_strengths(self, batches: tuple[Batch, ...]) -> None:
        """Replace the learner, which has learned nothing, by one with the strengths of the first rows."""
        old, found, rows = self._learner, [], 0
        for batch in batches:
            for block, _ in blocks(batch, pieces=True):
                if rows < OPENING:
                    found.append(block.slice(0, min(block.n_rows, OPENING - rows)))
                    rows += block.n_rows
        settings: dict[str, Any] = {"n_outputs": old.n_outputs, "fit_intercept": old.fit_intercept}
        strengths = stream_strengths(RowBlock.concat(found), old.loss, old.penalty, **settings)
        for name in ("n_features", "dtype", "average", "growing", "n_threads"):
            settings[name] = getattr(old, name)
        self._learner = PathLearner(old.algorithm, old.loss, old.penalty, strengths=strengths, **settings)
        self._opening = None

    def _fit(self, batch: Batch) -> Self:
        if self._opening is None:
            return super()._fit(batch)
        self._check_total_weight(batch)
        if self.passes == 1 and not self.shuffle and batch.n_rows < OPENING:  # more rows may follow by partial_fit
            started = time.perf_counter()
            self._learn_more(batch, first=True)
            self._end_pass(0, batch.n_rows, (0.0, 0.0), started)
            return self
        self._find_strengths((batch,))
        return super()._fit(batch)

    def _learn_more(self, batch: Batch, *, first: bool, report: Report | None = None, repeated: bool = False) -> Self:
        self._held_out = None
        if self._opening is None:
            return super()._learn_more(batch, first=first, report=report, repeated=repeated)
        if first:
            self.history_ = []
        if not repeated:
            for block, _ in blocks(batch):
                self._learner._check(block)
            self._learner.engine.grow(batch.n_features)
            self._opening = (*self._opening, _copied(batch))
        if repeated or sum(waiting.n_rows for waiting in self._opening) >= OPENING:
            self._learn_opening()
        if repeated:
            super()._learn_more(batch, first=False, report=report, repeated=True)
        return self

    def _learn_opening(self) -> None:
        """Find the strengths and learn the rows that waited."""
        waiting = self._opening or ()
        self._find_strengths(waiting)
        for batch in waiting:
            super()._learn_more(batch, first=True)

    def _fitted(self, attribute: str) -> Any:
        """Return the learner; of rows that still wait, the one that they would make if the stream ended here."""
        learner = super()._fitted(attribute)
        if self._opening is None:
            return learner
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._learn_opening()
        return other._learner

    def _reported_loss(self) -> float:
        return float(np.min(self._learner.progressive_loss))

    def _end_pass(self, i: int, rows: int, before: Any, started: float) -> bool:
        if self._opening is not None and self.passes > 1:
            self._learn_opening()
        learner = self._fitted("history_")
        if np.shape(before[0]) != learner.strengths.shape:
            before = np.zeros((2, len(learner.strengths)))
        losses = np.subtract(learner.loss_sums, before)
        if i:
            learner.loss_sums = before
        with np.errstate(invalid="ignore", divide="ignore"):
            means = losses[0] / losses[1]
        best = int(np.argmin(means))
        return self._record_pass(rows, float(means[best]), int(learner.count_nonzero()[best]), started)

    # ---- the models, read back

    @property
    def t_(self) -> int:
        """Rows learned, those of weight 0 left out."""
        if self.__dict__.get("_opening") is None:
            return self._fitted("t_").t  # type: ignore[no-any-return]
        return sum(int(np.count_nonzero(batch.c)) if len(batch.c) else batch.n_rows for batch in self._opening or ())

    @property
    def strengths_(self) -> Array:
        """The strengths, in the order of all other results."""
        return np.array(self._fitted("strengths_").strengths)

    @property
    def nnz_(self) -> Any:
        """Weights that are not exactly zero, of each strength."""
        return self._fitted("nnz_").count_nonzero()

    @property
    def coef_(self) -> Any:
        """The weights of all strengths: (strengths, features), or (strengths, classes, features)."""
        weights = self._weights("coef_")[0]
        return np.swapaxes(weights, 1, 2) if weights.ndim == 3 else weights

    @property
    def intercept_(self) -> Any:
        """What is added to every score, of each strength."""
        return self._weights("intercept_")[1]

    def _weights(self, attribute: str) -> tuple[Array, Any]:
        """Return coefficients and intercepts of each strength, in the units of the columns."""
        weights, intercepts = self._fitted(attribute).weights()
        if not self._standardizes:
            return weights, intercepts
        folded = self._featurizer.standardizer.fold(np.moveaxis(weights, 1, 0), intercepts)
        return np.moveaxis(folded.coef, 0, 1), folded.intercept

    def sparsify(self) -> Self:
        """Refuse: `coef_` has one matrix per strength; the estimator that `choose` returns can be made sparse."""
        raise TypeError("sparsify: a path has one matrix per strength; choose a strength first")

    densify = sparsify

    def top_features(self, n: int = 10, names: Any = None) -> Any:
        """Return the features with the largest weights of the best strength; see `StreamClassifier.top_features`."""
        return self.choose("best").top_features(n, names)

    def _scores(self, X: Any) -> Array:
        scores: Array = self.choose("best")._scores(X)
        return scores

    # ---- choosing

    def validate(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Compute the losses of held-out rows under all strengths: `choose` and `table` use them from now on.

        They are dropped when more rows are learned, which changes the models.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features), or RowBlock
        y : array of shape (n_samples,)
            None takes the labels of a RowBlock, or the label column that `features` names.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        learner, before = self._fitted("validate"), self.n_features_in_
        X, y, c = self._checked(X, y, sample_weight, reset=False)
        self.n_features_in_ = before
        losses, found = PairedLosses(len(learner.strengths)), []
        for block, _ in blocks(self._standardized(self._labelled(X, y, c), learn=False)):
            scores = learner.predict(block)
            losses.add(learner.losses_of(scores, block.y), block.weights())
            found.append((scores, block.y, block.weights()))
        areas = np.full(len(learner.strengths), np.nan)
        if learner.loss.kind == "binary" and learner.n_outputs == 1:
            scores, labels, weights = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
            areas = np.array([auc(each, labels, weights) for each in scores])
        self._held_out = losses, areas
        return self

    def _labelled(self, X: Any, y: Array, c: Array) -> Batch:
        """Return checked rows with labels as the loss knows them."""
        raise NotImplementedError

    def choose(
        self,
        rule: str | None = None,
        *,
        strength: float | None = None,
        nnz: int | None = None,
        loss_within: float | None = None,
    ) -> Any:
        """Return an ordinary fitted estimator with one of the strengths; it learns on by `partial_fit`.

        Losses are those of held-out rows if there are any (`validate`), else progressive losses. Give one rule:

        Parameters
        ----------
        rule : {"best", "1se"}, optional
            "best" has the least loss; "1se" is the sparsest model whose loss is within one standard error of it. The
            standard error is that of the difference of both models' losses on the same rows.
        strength : float, optional
            One of `strengths_`.
        nnz : int, optional
            The least loss among models with so many non-zeros at most.
        loss_within : float, optional
            The sparsest model whose loss is above the best by this share at most: 0.01 is 1%.

        Returns
        -------
        StreamClassifier or StreamRegressor
        """
        learner = self._fitted("choose")
        k = self._place(rule, strength=strength, nnz=nnz, loss_within=loss_within)
        params = {name: value for name, value in self.get_params(deep=False).items() if name != "strengths"}
        model = self._one(**params | {"penalty": learner.penalty_of(k)})
        own = vars(self)
        for name in FITTED:
            if name in own:
                setattr(model, name, own[name])
        if "_featurizer" in own:
            model._featurizer = self._featurizer.with_own_statistics(fresh=False)
        model._learner, model.history_ = learner.model(k), []
        return model

    def _place(self, rule: str | None, **rules: Any) -> int:
        """Return the place of the strength that a rule chooses."""
        losses = None if self._held_out is None else self._held_out[0]
        return int(self._fitted("choose").choose(rule, held_out=losses, **rules))

    def table(self) -> PathTable:
        """Return strength, non-zeros, losses with their standard errors, and AUC of held-out rows; prints as a table.

        Returns
        -------
        PathTable, a list of PathEntry(strength, nnz, progressive_loss, progressive_error, held_out_loss,
        held_out_error, auc)
        """
        learner = self._fitted("table")
        none = np.full(len(learner.strengths), np.nan)
        held_out, areas = (None, none) if self._held_out is None else self._held_out
        columns = zip(
            learner.strengths.tolist(),
            learner.count_nonzero().tolist(),
            learner.progressive_loss.tolist(),
            learner.compared.errors.tolist(),
            (none if held_out is None else held_out.means).tolist(),
            (none if held_out is None else held_out.errors).tolist(),
            areas.tolist(),
            strict=True,
        )
        marks: dict[int, str] = {}
        for rule in ("best", "1se"):
            k = self._place(rule)
            marks[k] = f"{marks[k]}, {rule}" if k in marks else rule
        return PathTable([PathEntry(*values) for values in columns], marks)

    def plot(self, rule: str | None = None, ax: Any = None, **rules: Any) -> Any:
        """Draw the loss against the non-zeros, with the point that a rule chooses; needs matplotlib.

        Parameters
        ----------
        rule : {"best", "1se"}, optional
            None is "1se", unless there is another rule.
        ax : matplotlib axes, optional
        **rules : strength=, nnz= or loss_within=
            As for `choose`.

        Returns
        -------
        matplotlib axes
        """
        if rule is None and not rules:
            rule = "1se"
        k = self._place(rule, **rules)
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        table = self.table()
        held_out = self._held_out is not None
        losses = [entry.held_out_loss if held_out else entry.progressive_loss for entry in table]
        errors = [entry.held_out_error if held_out else entry.progressive_error for entry in table]
        counts = [entry.nnz for entry in table]
        ax.errorbar(counts, losses, errors, marker="o", capsize=2, label="one strength each")
        words = rule or ", ".join(f"{name}={value:g}" for name, value in rules.items())
        label = f"chosen by {words}: {table[k].strength:.2g}"
        ax.plot(counts[k], losses[k], "o", markersize=11, fillstyle="none", color="C3", label=label)
        ax.set_xscale("symlog")
        ax.set_xlabel("non-zeros")
        ax.set_ylabel("held-out loss" if held_out else "progressive loss")
        ax.legend()
        return ax

    # ---- model files

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        saved = super().__proxstream_save__(weights_only)
        return saved | {"learner": self._fitted("weights") if self.__sklearn_is_fitted__() else None}

    def _restored(self, learner: Any, **fitted: Any) -> None:
        if not isinstance(learner, PathLearner):
            raise ValueError(f"a {type(self).__name__} has a path learner")
        self._opening, self._held_out = None, None
        super()._restored(learner, **fitted)


def _copied(batch: Batch) -> Batch:
    """Return a batch whose arrays nobody else has."""
    X = batch.X
    X = RowBlock(*(array.copy() for array in X)) if isinstance(X, RowBlock) else X.copy()
    return batch._replace(X=X, y=batch.y.copy(), c=batch.c.copy())
