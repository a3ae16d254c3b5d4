"""Model: a learner with what its rows mean, which is what the command line writes, serves and inspects.

A learner knows numbered features and a loss's own labels. A file has columns, names and labels of its own; a model
remembers how they were read, so that new data are read the same way, and how it has learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from . import losses, penalties
from ._checks import Array, one_of
from .blocks import RowBlock
from .engines.frozen import FrozenEngine
from .learner import Learner
from .losses import Loss
from .penalties import Penalty
from .streams.features import FeatureSpec

OUTPUTS = ("labels", "probabilities", "scores")


class Weights:
    """Weights that a batch solver has found, or another program: they predict as a learner does, and learn nothing.

    Parameters
    ----------
    coef : array of shape (features,), or (features, outputs)
    intercept : float, or array of shape (outputs,)
    loss : str or Loss
    penalty : Penalty, optional
    fit_intercept : bool

    Examples
    --------
    >>> from proxstream.blocks import as_block
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
        # One class against the rest has several columns of a binary loss.
        several = coef.ndim == 2 and coef.shape[1] > 1 and self.loss.kind in ("binary", "multiclass")
        if not (several or (coef.ndim == 1 and self.loss.kind != "multiclass")):
            raise ValueError(f"{self.loss} does not go with weights of shape {coef.shape}")
        self.engine = FrozenEngine(coef, float(b) if coef.ndim == 1 else b, 0, 0.0)
        self.fit_intercept, self.dtype = fit_intercept, coef.dtype
        self.n_outputs = 1 if coef.ndim == 1 else coef.shape[1]

    @property
    def n_features(self) -> int:
        """Features that have a weight."""
        return self.engine.n_features

    def weights(self) -> tuple[Array, Any]:
        """Return the coefficients and the intercept."""
        return self.engine.weights()

    def predict(self, rows: RowBlock) -> Array:
        """Return the scores of the rows; features without a weight count 0."""
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
    """A learner, or weights, with the meaning of labels and features and the history.

    Parameters
    ----------
    learner : Learner or Weights
    classes : labels, numbers or texts, in the order of the loss's own
        Of two classes the negative one and the positive one, (-1, 1) if not told; of more classes all. Numbers and
        ranks have none.
    features : dict, optional
        How columns and names become features: `FeatureSpec.to_json()`.
    names : dict of arrays
        The names of features that were kept, as keys (their hashes), the bytes of all names, and where each ends.
        Without hashing they stand in the order of the features.
    reading : dict
        Other options that new data are to be read with, by the names of `open_stream`.
    history : list of dict
        Lines of the training table and passes; numbers that do not depend on the clock or the machine.
    summary : dict
        What training told at its end, likewise.

    Examples
    --------
    >>> import proxstream as ps
    >>> from proxstream.blocks import as_block
    >>> learner = Learner(ps.FTRLProximal(alpha=1.0), n_features=2)
    >>> model = Model(learner, classes=(0.0, 1.0))
    >>> scores = learner.learn(as_block(np.eye(2), y=[1, -1]))
    >>> model.predict(as_block(np.eye(2, dtype=np.float32)), "labels")
    array([1., 0.])
    """

    learner: Learner | Weights
    classes: tuple[Any, ...] = ()
    features: dict[str, Any] | None = None
    names: Mapping[str, Array] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.classes = tuple(label if isinstance(label, str) else float(label) for label in self.classes)
        if not self.classes and self.loss.kind == "binary" and self.learner.n_outputs == 1 and not self.learner.ranking:
            self.classes = (-1.0, 1.0)
        n_outputs = self.learner.n_outputs
        if self.classes and (len(self.classes) != max(n_outputs, 2) or len(set(self.classes)) < len(self.classes)):
            raise ValueError(f"a model of {n_outputs} outputs does not have the classes {self.classes}")

    def named(self) -> dict[int, list[str]]:
        """Return the names that are known of features: of a hashed one all that have been met in its bucket."""
        if not self.names:
            return {}
        ends, keys = self.names["ends"].tolist(), self.names["keys"].tolist()
        text = self.names["names"].tobytes()
        bits = None if self.features is None else self.features.get("bits")
        found: dict[int, list[str]] = {}
        for i, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            number = i if bits is None else keys[i] & ((1 << bits) - 1)
            found.setdefault(number, []).append(text[begin:end].decode("utf-8", "surrogateescape"))
        return found

    @property
    def loss(self) -> Loss:
        """The loss."""
        return self.learner.loss

    @property
    def outputs(self) -> tuple[str, ...]:
        """What it can predict, the usual first."""
        if self.loss.kind == "regression" or self.learner.ranking:
            return ("labels", "scores") if self.loss.name == "poisson" else ("scores",)
        return OUTPUTS if self.loss.name in ("logistic", "softmax") else ("labels", "scores")

    def scores(self, rows: RowBlock) -> Array:
        """Return <w, x> + b, (rows,) or (rows, classes)."""
        return self.learner.predict(rows._replace(data=rows.data.astype(self.learner.dtype, copy=False)))

    def predict(self, rows: RowBlock, output: str = "labels") -> Array:
        """Return what the model says of rows, as `told` does of their scores."""
        return self.told(self.scores(rows), output)

    def told(self, scores: Array, output: str) -> Array:
        """Return what scores mean: labels of the file, probabilities, or the scores themselves.

        The probability of two classes is that of the positive one; of more classes there is one a class. A count (loss
        poisson) has its mean, e^score, for a label; any other number its score.
        """
        one_of("output", output, OUTPUTS)
        if output == "scores":
            return scores
        if output == "probabilities":
            if output not in self.outputs:
                told = " or ".join(self.outputs)
                raise ValueError(f"a model of loss {self.loss} tells no probabilities, only {told}")
            return self._probabilities(scores)
        if not self.classes:
            return np.asarray(np.exp(scores)) if self.loss.name == "poisson" else scores
        best = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0.0).astype(np.intp)
        return np.asarray(np.asarray(self.classes)[best])

    def _probabilities(self, scores: Array) -> Array:
        if scores.ndim == 1 or self.loss.name == "logistic":
            with np.errstate(over="ignore"):  # e^710 is infinite, and 1 over it is 0 as it should be
                p: Array = 1.0 / (1.0 + np.exp(-scores))
            return p if p.ndim == 1 else p / np.sum(p, axis=1, keepdims=True)
        grown = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))

    # ---- model files

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        return {
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
        if parts["features"] is not None:
            FeatureSpec.from_json(parts["features"])
        _check_names(parts["names"])
        return cls(**parts)


def _check_names(names: Mapping[str, Any]) -> None:
    """Refuse a table of names whose parts do not fit together."""
    if not names:
        return
    keys, text, ends = (names[part] for part in ("keys", "names", "ends"))
    kinds = tuple(array.dtype for array in (keys, text, ends))
    if kinds != (np.uint64, np.uint8, np.int64) or keys.shape != ends.shape or text.ndim != 1 or ends.ndim != 1:
        raise ValueError("the names of a model must be keys, bytes, and where each name ends")
    if (np.diff(ends, prepend=0) < 0).any() or (ends[-1] if len(ends) else 0) != len(text):
        raise ValueError("the names of a model must follow one another")
