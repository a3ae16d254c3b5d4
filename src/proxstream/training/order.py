"""What a training run is told, as plain values, and the parts that are made of it."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from .. import _checks, losses
from ..engines.frozen import FrozenEngine
from ..learner import Learner
from ..model import Model
from ..streams import formats
from ..streams.faults import Faults
from ..streams.features import FeatureSpec
from . import recipe
from .labels import Labels
from .session import Plan

# What says how a run is watched, kept and finished, and nothing about the model; and what is told in its parts.
ASIDE = ("data", "output", "checkpoint", "resume", "quarantine", "initial", "chunk_bytes", "parameters", "features")


@dataclass(frozen=True)
class Order:
    """A training run in plain values: those of the options of `proxstream train`, by the same names."""

    data: tuple[str, ...]
    output: str
    format: str | None = None
    loss: str = "logistic"
    algorithm: str = "auto_ftrl"
    parameters: Mapping[str, str | bool] = field(default_factory=dict)
    l1: float = 0.0
    l2: float = 0.0
    penalty: str | None = None
    passes: int = 1
    classes: tuple[float, ...] = ()
    class_weight: Mapping[float, float] = field(default_factory=dict)
    features: FeatureSpec = field(default_factory=FeatureSpec)
    zero_based: bool = True
    dtype: str = "float32"
    holdout: str = ""
    early_stop: int = 0
    threads: int = 1
    seed: int = 0
    pairs: int | None = None
    average: bool = False
    intercept: bool = True
    on_error: str = "stop"
    quarantine: str | None = None
    weights_only: bool = False
    progress_every: int = 0
    chunk_bytes: int = 1 << 22
    checkpoint: str = ""
    resume: bool = False
    initial: str | None = None
    initial_checksum: str | None = None

    def __post_init__(self) -> None:
        _checks.integer("passes", self.passes, low=1)
        _checks.integer("threads", self.threads, low=1)
        _checks.integer("early-stop", self.early_stop, low=0)
        _checks.one_of("dtype", self.dtype, ("float32", "float64"))
        if self.early_stop and not self.holdout:
            raise ValueError("early-stop needs rows held out: holdout must be told")
        if self.early_stop and self.passes == 1:
            raise ValueError("early-stop needs passes > 1, got 1")
        if len(self.classes) == 1 or len(set(self.classes)) < len(self.classes):
            raise ValueError(f"classes must be two different labels or more, got {_listed(self.classes)}")
        kind = losses.get(self.loss).kind
        if kind == "multiclass" and not self.classes:
            raise ValueError(f"loss {self.loss} needs classes, their number or their labels")
        if self.classes and kind not in ("binary", "multiclass"):
            raise ValueError(f"loss {self.loss} is none of classes, got classes {_listed(self.classes)}")
        known, settled = self.labels().told, self.initial is None or self.initial_checksum is not None
        for label in self.class_weight:
            if settled and not known.good(np.array([label])).all():
                raise ValueError(f"class-weight must tell labels of the loss, {known.words}, got {label:g}")
        if self.format is not None:
            formats.get(self.format)
        Faults(self.on_error, self.quarantine)
        self.checkpoint_due()
        if self.share() and kind == "ranking":
            raise ValueError("holdout of a ranker must be a file: a query cannot be held out in part")

    def settings(self) -> dict[str, Any]:
        """Return all that the model depends on by the names of options, as JSON knows it."""
        told = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ASIDE}
        told |= {"classes": list(self.classes), "class_weight": sorted(map(list, self.class_weight.items()))}
        features = self.features.to_json()
        told |= {"cross": features.pop("crosses"), **features, **self.parameters}
        return {f"--{name.replace('_', '-')}": value for name, value in told.items()}

    def words(self) -> str:
        """Return the options that shape the model and are not at their defaults, as one would type them.

        >>> Order(("a.svm",), "m.psm", l1=0.1, passes=2, parameters={"scale": "global"}).words()
        '--l1 0.1 --passes 2 --scale global'
        """
        usual = Order((), "").settings()
        told = {name: value for name, value in self.settings().items() if value != usual.get(name)}
        return " ".join(word for name, value in sorted(told.items()) for word in _typed(name, value))

    # ---- parts

    def learner(self, n_features: int = 1) -> Learner:
        """Return a learner that knows nothing yet; one that can will grow with the rows."""
        loss = losses.get(self.loss)
        return Learner(
            recipe.algorithm(self.algorithm, self.parameters),
            loss,
            recipe.together(self.l1, self.l2, self.penalty),
            n_features=n_features,
            n_outputs=self.labels().n_outputs,
            dtype=np.dtype(self.dtype),
            fit_intercept=self.intercept,
            average=self.average,
            growing=True,
            n_threads=self.threads,
            ranking=loss.kind == "ranking",
            pairs=self.pairs,
            seed=self.seed,
        )

    def going_on(self) -> tuple[Order, Learner]:
        """Return the order with all that the model to go on from brings, and its learner."""
        from .. import modelfile

        path = self.initial or ""
        model = modelfile.load(path)
        learner = getattr(model, "learner", None)
        if not isinstance(model, Model) or not isinstance(learner, Learner):
            raise modelfile.ModelFileError(f"{path}: expected a model that `proxstream train` wrote")
        if isinstance(learner.engine, FrozenEngine):
            raise modelfile.ModelFileError(f"{path}: has weights alone, expected a model that can learn on")
        learner.n_threads = self.threads
        with open(path, "rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        usual = model.classes in ((-1.0, 1.0), (0.0, 1.0)) and learner.n_outputs == 1
        changes: dict[str, Any] = {
            "loss": str(learner.loss),
            "classes": () if usual else model.classes,
            "dtype": learner.dtype.name,
            "features": FeatureSpec.from_json(model.features) if model.features is not None else self.features,
            "zero_based": bool(model.reading.get("zero_based", True)),
            "initial_checksum": checksum,
        }
        return replace(self, **changes), learner

    def reading(self) -> dict[str, Any]:
        """Return what `open_stream` is told beside data, format and features."""
        names = ("dtype", "on_error", "quarantine", "zero_based", "chunk_bytes")
        return {**{name: getattr(self, name) for name in names}, "labels": self.labels().told}

    def reading_held_out(self) -> dict[str, Any]:
        """Return the same for a file that is held out, whose bad rows are left out where others are kept."""
        return self.reading() | {"on_error": "skip" if self._skips else "stop", "quarantine": None}

    def labels(self) -> Labels:
        """Return how labels are read."""
        return Labels(losses.get(self.loss), self.classes, self.class_weight)

    def plan(self) -> Plan:
        """Return how the session goes about its rows."""
        return Plan(self.passes, self.share() or Fraction(0), self.early_stop, self.progress_every, self._skips)

    @property
    def _skips(self) -> bool:
        return self.on_error != "stop"

    def share(self) -> Fraction | None:
        """Return the share of rows held out, None where `holdout` names a file.

        >>> order = Order(("a.svm",), "m.psm", holdout="0.25")
        >>> order.share(), Order(("a.svm",), "m.psm", holdout="10").share()
        (Fraction(1, 4), Fraction(1, 10))
        """
        try:
            number = float(self.holdout or "0")
        except ValueError:
            return None
        if number > 1.0 and number == int(number):
            return Fraction(1, int(number))
        if not 0.0 <= number < 1.0 or (number == 0.0 and self.holdout):
            raise ValueError(
                "holdout must be a share of the rows between 0 and 1, a whole number n > 1 for every n-th row, or a "
                f"file, got {self.holdout!r}"
            )
        return Fraction(self.holdout or "0").limit_denominator(1_000_000)

    def checkpoint_due(self) -> tuple[int, float]:
        """Return the rows and the seconds between two checkpoints, 0 for none.

        >>> Order(("a.svm",), "m.psm", checkpoint="30s").checkpoint_due()
        (0, 30.0)
        """
        text = self.checkpoint
        try:
            rows, seconds = (0, float(text[:-1])) if text.endswith("s") else (int(text or "0"), 0.0)
            if rows < 0 or not 0.0 <= seconds < math.inf or (text and not rows and not seconds):
                raise ValueError
        except ValueError:
            raise ValueError(
                f"checkpoint must be a number of rows such as 100000, or of seconds such as 30s, got {text!r}"
            ) from None
        return rows, seconds


def class_labels(text: str) -> tuple[float, ...]:
    """Return the labels of classes: a number n for 0, 1, ..., n - 1, or a list of labels.

    >>> class_labels("3"), class_labels("1,2,5")
    ((0.0, 1.0, 2.0), (1.0, 2.0, 5.0))
    """
    try:
        if "," in text:
            return tuple(float(label) for label in text.split(","))
        return tuple(float(label) for label in range(int(text)))
    except ValueError:
        raise ValueError(f"classes must be their number, or labels such as 1,2,3, got {text!r}") from None


def class_weights(texts: tuple[str, ...]) -> dict[float, float]:
    """Return the weight of each label.

    >>> class_weights(("1=5", "-1=0.5"))
    {1.0: 5.0, -1.0: 0.5}
    """
    weights = {}
    for text in (one for told in texts for one in told.split(",")):
        label, _, weight = text.partition("=")
        try:
            weights[float(label)] = _checks.number("class-weight", float(weight), low=0.0)
        except ValueError:
            raise ValueError(f"class-weight must be label=weight, such as 1=5, got {text!r}") from None
    return weights


# Settings that are on unless their option turns them off.
OFF = {"--intercept": "--no-intercept", "--zero-based": "--one-based"}


def _typed(name: str, value: Any) -> list[str]:
    """Return a setting as the words of its option.

    >>> _typed("--drop", ["a", "b"]), _typed("--text", [["review", "words"]]), _typed("--intercept", False)
    (['--drop', 'a', '--drop', 'b'], ['--text', 'review=words'], ['--no-intercept'])
    """
    if name == "--classes":
        value = ",".join(f"{label:g}" for label in value)
    if isinstance(value, bool):
        return [name if value else OFF.get(name, f"{name}=false")]
    if name == "--bits" and value is None:
        value = 0
    many = value if isinstance(value, (list, tuple)) else [value]
    told = ["=".join(map(_word, one)) if isinstance(one, (list, tuple)) else _word(one) for one in many]
    return [word for one in told for word in (name, shlex.quote(one))]


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


def _listed(labels: tuple[float, ...]) -> str:
    return ", ".join(f"{label:g}" for label in labels) or "none"
