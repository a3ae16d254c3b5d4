"""Model: a learner with the meaning of its features and labels, as the command line writes, serves and inspects it.

A learner knows numbered features and the labels of its loss. A model also remembers how columns, names and labels of
its training data were read, so that new data are read the same way, and its training history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..core import losses, penalties
from ..core.losses import Loss
from ..core.penalties import Penalty
from ..core.validation import Array, integer, number, one_of, truth
from ..data.labels import text_numbers
from ..data.rowblock import NO_WEIGHTS, RowBlock, as_block
from ..data.standardize import NO_MATRIX, StandardizedRows, Standardizer
from ..io.features.spec import FeatureSpec
from ..io.types import ALL_FEATURES
from ..learner.frozen import FrozenEngine
from ..learner.learner import Learner

if TYPE_CHECKING:
    from ..io import Stream
    from ..io.features.featurizer import Featurizer
    from ..io.types import Chunk
    from .path import ModelPath

OUTPUTS = ("labels", "probabilities", "scores")
NO_ROWS = RowBlock(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0), NO_WEIGHTS)


class Weights:
    """Fixed weights, from a batch solver or another program: they predict like a learner and cannot be trained.

    Parameters
    ----------
    coef : array of shape (features,), or (features, outputs)
    intercept : float, or array of shape (outputs,)
    loss : str or Loss
    penalty : Penalty, optional
    fit_intercept : bool

    Examples
    --------
    >>> from proxstream.data.rowblock import as_block
    >>> Weights(np.array([1.0, -2.0]), 0.5, "logistic").predict(as_block(np.eye(2)))
    array([ 1.5, -1.5])
    """

    ranking = average = False
    algorithm = None

    def __init__(
        self,
        coef: Array,
        intercept: Any,
        loss: Loss | str,
        penalty: Penalty | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.loss, self.penalty = losses.get(loss), penalties.get(penalty)
        if coef.ndim not in (1, 2) or coef.dtype not in (np.float32, np.float64) or not np.isfinite(coef).all():
            raise ValueError(f"coef must be a vector or matrix of finite numbers, got {coef.dtype} of {coef.shape}")
        b = np.array(intercept, np.float64)
        if b.shape != coef.shape[1:] or not np.isfinite(b).all():
            raise ValueError(f"intercept must be finite, of shape {coef.shape[1:]}, got {intercept!r}")
        # One-vs-rest has several columns of a binary loss.
        several = coef.ndim == 2 and coef.shape[1] > 1 and self.loss.kind in ("binary", "multiclass")
        if not (several or (coef.ndim == 1 and self.loss.kind != "multiclass")):
            raise ValueError(f"loss {self.loss} does not fit weights of shape {coef.shape}")
        self.engine = FrozenEngine(coef, float(b) if coef.ndim == 1 else b, 0, 0.0)
        self.fit_intercept, self.dtype = fit_intercept, coef.dtype
        self.n_outputs = 1 if coef.ndim == 1 else coef.shape[1]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.engine.n_features

    def weights(self) -> tuple[Array, Any]:
        """Return the coefficients and the intercept."""
        return self.engine.weights()

    def predict(self, rows: RowBlock) -> Array:
        """Return the scores of the rows; unknown features are ignored."""
        rows.check()
        return self.engine.predict(rows)

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        coef, intercept = self.weights()
        return {
            "coef": coef,
            "intercept": np.asarray(intercept, np.float64),
            "loss": self.loss,
            "penalty": self.penalty,
            "fit_intercept": self.fit_intercept,
        }

    @classmethod
    def __proxstream_load__(cls, parts: dict[str, Any]) -> Self:
        return cls(**parts)


@dataclass(eq=False)
class Model:
    """A learner, or weights, with the meaning of labels and features, and the training history.

    It has the attributes and methods of a fitted estimator: `coef_`, `intercept_`, `classes_`, `predict`,
    `predict_proba`, `decision_function`. They take matrices, row blocks, streams, data frames and file names.

    Parameters
    ----------
    learner : Learner or Weights
    classes : labels, numbers or texts, in the order of the loss
        Of two classes the negative and the positive one, (-1, 1) by default; of more classes all; empty for regression
        and ranking.
    features : dict, optional
        How columns and names become features: `FeatureSpec.to_json()`.
    names : dict of arrays
        Stored names of features: keys (their hashes), the bytes of all names, and where each ends. Without hashing
        they are in the order of the features.
    reading : dict
        Further options to read new data with, by the names of `open_stream`.
    history : list of dict
        Lines of the training table and passes, without numbers that depend on the clock or the machine.
    summary : dict
        The summary of training, likewise.
    path : ModelPath, optional
        The models of other strengths that were learned beside this one.

    Examples
    --------
    >>> import proxstream as ps
    >>> from proxstream.data.rowblock import as_block
    >>> learner = Learner(ps.FTRLProximal(alpha=1.0), n_features=2)
    >>> model = Model(learner, classes=(0.0, 1.0))
    >>> scores = learner.learn(as_block(np.eye(2), y=[1, -1]))
    >>> model.predict(np.eye(2)), model.classes_, model.coef_.shape
    (array([1., 0.]), array([0., 1.]), (1, 2))
    """

    learner: Learner | Weights
    classes: tuple[Any, ...] = ()
    features: dict[str, Any] | None = None
    names: Mapping[str, Array] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    path: ModelPath | None = None

    def __post_init__(self) -> None:
        self.classes = tuple(label if isinstance(label, str) else float(label) for label in self.classes)
        if not self.classes and self.loss.kind == "binary" and self.learner.n_outputs == 1 and not self.learner.ranking:
            self.classes = (-1.0, 1.0)
        n_outputs = self.learner.n_outputs
        if self.classes and (len(self.classes) != max(n_outputs, 2) or len(set(self.classes)) < len(self.classes)):
            raise ValueError(f"a model with {n_outputs} outputs cannot have the classes {self.classes}")

    def named(self) -> dict[int, list[str]]:
        """Return the known names of features; a hashed one has all names that fell into its bucket."""
        if not self.names:
            return {}
        ends, keys = self.names["ends"].tolist(), self.names["keys"].tolist()
        text = self.names["names"].tobytes()
        bits = None if self.features is None else self.features.get("bits")
        found: dict[int, list[str]] = {}
        columns = self._featurizer().standardizer
        for i, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            number = i if bits is None else keys[i] & ((1 << bits) - 1)
            if i < columns.n_columns:
                number = columns.first + i
            found.setdefault(number, []).append(text[begin:end].decode("utf-8", "surrogateescape"))
        return found

    @property
    def loss(self) -> Loss:
        """The loss."""
        return self.learner.loss

    @property
    def outputs(self) -> tuple[str, ...]:
        """The available outputs, the default first."""
        if self.loss.kind == "regression" or self.learner.ranking:
            return ("labels", "scores") if self.loss.link == "log" else ("scores",)
        return OUTPUTS if self.loss.has_probabilities else ("labels", "scores")

    @cached_property
    def _standardizer(self) -> Standardizer:
        """The statistics of numeric columns that were standardized in training."""
        if "statistics" not in self.names:
            return Standardizer(0)
        made = self._featurizer().standardizer
        made.restore(self.names["statistics"])
        return made

    def weights(self) -> tuple[Array, Any]:
        """Return the coefficients, (features,) or (features, outputs), and the intercept, in the units of the columns.

        Those of the learner are of standardized columns: see `proxstream.data.standardize`.
        """
        return self._standardizer.fold(*self.learner.weights())

    @property
    def means(self) -> dict[int, float]:
        """The means of numeric columns that were standardized in training, by the number of the feature."""
        columns = self._standardizer
        return {columns.first + j: mean for j, mean in enumerate(columns.means.tolist())}

    # ---- as an estimator

    @property
    def coef_(self) -> Array:
        """The coefficients, of shape (1, features) or (classes, features); (features,) for regression and ranking."""
        coef, _ = self.weights()
        return coef.T if coef.ndim == 2 else np.atleast_2d(coef) if self.classes else coef

    @property
    def intercept_(self) -> Any:
        """The intercepts, of shape (1,) or (classes,); a number for regression and ranking."""
        intercept = self.weights()[1]
        return np.atleast_1d(intercept) if self.classes else intercept

    @property
    def classes_(self) -> Array:
        """The labels of the classes, in the order of `predict_proba`."""
        if not self.classes:
            raise AttributeError(f"a model of loss {self.loss} has no classes")
        return np.asarray(self.classes)

    def predict(self, X: Any, output: str = "labels") -> Array:
        """Return the labels (classes, or predicted numbers) of rows, or another output: see `outputs_of`."""
        self.check_output(output)
        found = [self.outputs_of(scores, output) for scores in self._scores(X)]
        return np.concatenate(found) if found else self.outputs_of(self.scores(NO_ROWS), output)

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, (rows, classes); an AttributeError if the loss gives none."""
        if "probabilities" not in self.outputs:
            raise AttributeError(f"loss {self.loss} does not give probabilities")
        p = self.predict(X, "probabilities")
        return p if p.ndim == 2 else np.stack([1.0 - p, p], axis=1)

    def decision_function(self, X: Any) -> Array:
        """Return <w, x> + b, of shape (rows,) or (rows, classes)."""
        return self.predict(X, "scores")

    def _scores(self, X: Any) -> Iterable[Array]:
        if isinstance(X, RowBlock):
            return [self.scores(X)]
        if isinstance(X, np.ndarray) or hasattr(X, "tocsr"):
            return [self._matrix_scores(as_block(X, dtype=self.learner.dtype))]
        stream = X if hasattr(X, "chunks") else self.open(X)
        return map(self.chunk_scores, stream.chunks())

    def open(self, source: Any, format: str | None = None, **options: Any) -> Stream:
        """Open data as the training data were read; `options` are those of `open_stream`."""
        from ..io import open_stream

        reading = {**self.reading, "dtype": self.learner.dtype, "max_features": ALL_FEATURES}
        reading["label_texts"] = text_numbers(self.loss, self.classes)
        if self.features is not None:
            reading["features"] = self.featurizer()
        return open_stream(source, format, **reading | options)

    def featurizer(self) -> Featurizer:
        """Return the featurizer of the training data; it leaves out names that the model does not know."""
        made = self._featurizer()
        if self.names:
            made.restore(self.names)
        return made

    def _featurizer(self) -> Featurizer:
        """Return the featurizer without names and statistics."""
        from ..io.features.featurizer import Featurizer

        return Featurizer(FeatureSpec.from_json(self.features or {}), self.learner.dtype, growing=False)

    def scores(self, rows: RowBlock) -> Array:
        """Return <w, x> + b of a row block, (rows,) or (rows, classes)."""
        return self.learner.predict(self.standardized(rows))

    def standardized(self, rows: RowBlock) -> RowBlock:
        """Return rows as the learner was given them, in its precision."""
        return self._standardizer.transform(rows, learn=False, dtype=self.learner.dtype)

    def _parts_to_certify(self, X: Any, y: Any) -> tuple[Any, Any, Any]:
        """Return the model, rows as the learner was given them, and labels, for a certificate."""
        if self.features is None:
            return self, X, y
        if isinstance(X, RowBlock):
            return self, self.standardized(X), y
        if hasattr(X, "shape") and not hasattr(X, "columns"):
            if self._standardizer.n_columns:
                raise TypeError(NO_MATRIX)
            return self, X, y
        frame = hasattr(X, "columns") or hasattr(X, "__arrow_c_stream__")
        rows = StandardizedRows(self.standardized, self.open(X) if frame else X)
        if frame and y is not None:
            return self, RowBlock.concat([*rows]), y
        texts = frame and bool(self.classes) and isinstance(self.classes[0], str)  # then labels are the loss's numbers
        return self.learner if texts else self, rows, None

    def _matrix_scores(self, rows: RowBlock) -> Array:
        """Return the same of the rows of a matrix, whose zeros are numbers and not missing."""
        return rows.scores(*self.weights()) if self._standardizer.n_columns else self.scores(rows)

    def chunk_scores(self, chunk: Chunk) -> Array:
        """Return <w, x> + b of the rows of a stream, plus their offsets if they have any."""
        scores = self.scores(chunk.rows)
        return scores if chunk.offset is None else scores + chunk.offset

    def check_output(self, output: str) -> None:
        """Raise a ValueError unless the model has this output."""
        one_of("output", output, OUTPUTS)
        if output == "probabilities" and output not in self.outputs:
            raise ValueError(
                f"loss '{self.loss}' does not give probabilities; available outputs: {', '.join(self.outputs)}"
            )

    def outputs_of(self, scores: Array, output: str) -> Array:
        """Return labels, probabilities or the scores themselves, given the scores.

        Of two classes, the probability is that of the positive one; of more, there is one per class. The label of
        regression is the mean that the loss predicts.
        """
        self.check_output(output)
        if output == "scores":
            return scores
        if output == "probabilities":
            return np.asarray(self.loss.probabilities(scores))
        if not self.classes:
            return scores if self.learner.ranking else np.asarray(self.loss.mean(scores))
        best = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0.0).astype(np.intp)
        return np.asarray(np.asarray(self.classes)[best])

    # ---- several strengths

    def choose(self, rule: str | None = None, **rules: Any) -> Model:
        """Return the model of the strength that a rule chooses, where others are stored beside this one.

        Parameters
        ----------
        rule : {"best", "1se"}, optional
        **rules : strength=, nnz= or loss_within=
            In place of a rule: see `PathLearner.choose`.
        """
        if self.path is None:
            raise ValueError("has no other strengths; train with --keep-path")
        return self.path.model(self, self.path.choose(rule, **rules))

    # ---- model files

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        return {
            **({} if self.path is None else {"path": self.path}),
            "learner": self.learner,
            "classes": list(self.classes),
            "features": self.features,
            "names": dict(self.names),
            "reading": self.reading,
            "history": self.history,
            "summary": self.summary,
        }

    @classmethod
    def __proxstream_load__(cls, parts: dict[str, Any]) -> Self:
        if not isinstance(parts["learner"], (Learner, Weights)):
            raise TypeError(f"a model has a learner or weights, got {type(parts['learner']).__name__}")
        for name, kind in (("names", dict), ("reading", dict), ("summary", dict), ("history", list)):
            if not isinstance(parts[name], kind):
                raise TypeError(f"{name} of a model must be a {kind.__name__}, got {parts[name]!r}")
        if not all(isinstance(line, dict) for line in parts["history"]):
            raise TypeError("history of a model must be a list of dicts")
        if not set(parts["reading"]) <= {"zero_based", "min_index"}:
            raise ValueError(
                f"reading of a model must be zero_based and min_index, got {', '.join(parts['reading'])[:60]}"
            )
        integer("min_index", parts["reading"].get("min_index", 0), low=0)
        truth("zero_based", parts["reading"].get("zero_based", True))
        _check_path(parts.get("path"), parts["summary"])
        if parts["features"] is not None:
            FeatureSpec.from_json(parts["features"])
        _check_names(parts["names"])
        model = cls(**parts)
        model._standardizer  # noqa: B018 - raises where the statistics do not fit the columns
        return model


def _check_path(path: Any, summary: Mapping[str, Any]) -> None:
    """Raise an error for other strengths, or for what the summary says of them, that do not fit together."""
    facts = summary.get("path", [])
    if not isinstance(facts, list) or not all(isinstance(entry, dict) for entry in facts):
        raise TypeError("the path in the summary of a model must be a list of dicts")
    for entry in facts:
        for name in ("strength", "progressive_loss", "nonzeros"):
            number(name, entry[name])
    if facts:
        number("strength", summary["strength"])
    if path is None:
        return
    from .path import ModelPath

    if not isinstance(path, ModelPath):
        raise TypeError(f"path of a model must be a path, got {type(path).__name__}")
    if len(facts) != len(path.histories):
        raise ValueError(f"the summary of a model with {len(path.histories)} strengths must describe each")


def _check_names(names: Mapping[str, Any]) -> None:
    """Raise a ValueError for a table of names whose parts do not fit together."""
    if not names:
        return
    statistics = names.get("statistics", np.zeros((3, 0)))
    if statistics.dtype != np.float64 or statistics.ndim != 2:
        raise ValueError("the statistics of a model must be a matrix of numbers")
    keys, text, ends = (names[part] for part in ("keys", "names", "ends"))
    kinds = tuple(array.dtype for array in (keys, text, ends))
    if kinds != (np.uint64, np.uint8, np.int64) or keys.shape != ends.shape or text.ndim != 1 or ends.ndim != 1:
        raise ValueError("the names of a model must be keys, bytes, and the ends of the names")
    if (np.diff(ends, prepend=0) < 0).any() or (ends[-1] if len(ends) else 0) != len(text):
        raise ValueError("the ends of the names of a model must increase")
