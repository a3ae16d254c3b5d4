"""`TrainConfig`: the options of a training run, validated in one place, and the objects made from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import losses, parsing, validation as checks
from ..core.component import component
from ..data.labels import text_numbers
from ..data.offsets import variance_power
from ..io import formats
from ..io.bad_rows import BadRows, bad_row_options
from ..io.features.spec import FeatureSpec
from ..io.types import MAX_FEATURES
from ..learner.frozen import FrozenEngine
from ..learner.learner import Learner
from ..models.model import Model
from .base_session import Plan
from .labels import Labels, make_labels
from .option_words import label_text, option_words
from .strengths import DEFAULT, Strengths, parse_choice

if TYPE_CHECKING:
    from fractions import Fraction

# Fields that do not shape the model, and fields that `settings` expands into several options.
NOT_SETTINGS = (
    "data",
    "output",
    "checkpoint",
    "resume",
    "quarantine",
    "initial",
    "initial_names",
    "chunk_bytes",
    "max_features",
    "min_index",
    "positive",
    "parameters",
    "features",
)


class ConfigError(ValueError):
    """Options that do not fit together; raised when the learner is made from them."""


@component
class TrainConfig:
    """The configuration of a training run: the options of `proxstream train` by the same names.

    Everything that can be checked without reading the data is checked here; a ValueError names the option.
    """

    data: tuple[Any, ...]  # paths, or opened pipes
    output: str
    format: str | None = None
    loss: str = "logistic"
    algorithm: str = "auto_ftrl"
    parameters: Mapping[str, str | bool] = field(default_factory=dict)
    l1: Strengths = 0.0
    choose: str | None = None
    keep_path: bool = False
    l2: float = 0.0
    penalty: str | None = None
    passes: int = 1
    shuffle_buffer: int = 0
    classes: tuple[float, ...] | tuple[str, ...] = ()
    positive: str | None = None
    class_weight: Mapping[str, float] = field(default_factory=dict)
    features: FeatureSpec = field(default_factory=lambda: FeatureSpec(standardize=True))
    zero_based: bool = True
    min_index: int | None = None  # of the rows; None infers it from the model to continue from, or from the data
    dtype: str = "float32"
    holdout_every: int = 0
    holdout_share: float = 0.0
    holdout_file: str | None = None
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
    max_features: int = MAX_FEATURES
    checkpoint: str = ""
    resume: bool = False
    initial: str | None = None
    initial_checksum: str | None = None
    initial_names: Mapping[str, Any] = field(default_factory=dict)  # what its featurizer remembers

    def __post_init__(self) -> None:
        self._split_algorithm()
        checks.integer("--passes", self.passes, low=1)
        checks.integer("--threads", self.threads, low=1)
        checks.integer("--early-stop", self.early_stop, low=0)
        self._check_shuffle()
        checks.one_of("--dtype", self.dtype, ("float32", "float64"))
        if self.quarantine is not None:
            object.__setattr__(self, "on_error", "skip")
        BadRows(**bad_row_options(self.on_error, self.quarantine))
        if self.format is not None:
            formats.get(self.format)
        self.checkpoint_interval()
        self._check_classes()
        self._check_holdout()
        self._check_path()
        if self.features.offset is not None:
            variance_power(losses.get(self.loss))  # raises where the loss takes none

    def _split_algorithm(self) -> None:
        """Turn parameters in the text of the algorithm, as in rda(gamma=2), into options."""
        name, given = parsing.split_algorithm(self.algorithm)
        for parameter in sorted(given.keys() & self.parameters.keys()):
            option = f"--{parameter.replace('_', '-')}"
            raise ValueError(f"{option} is given twice: as an option and in --algorithm {self.algorithm!r}")
        object.__setattr__(self, "algorithm", name)
        if name == "certified":  # which centres columns itself; its penalty is in the units of the columns
            object.__setattr__(self, "features", replace(self.features, standardize=False))
        object.__setattr__(self, "parameters", {**self.parameters, **given})

    def _check_classes(self) -> None:
        kind = losses.get(self.loss).kind
        if len(self.classes) == 1 or len(set(self.classes)) < len(self.classes):
            raise ValueError(f"--classes must be at least two different labels, got {_listed(self.classes)}")
        if self.classes and kind not in ("binary", "multiclass"):
            raise ValueError(f"--classes applies to classification losses only, got loss {self.loss!r}")
        if self.positive is not None:
            self._choose_positive(kind)
        numbers = kind == "binary" and all(map(_is_number, self.class_weight))
        if (self.classes or numbers) and (self.initial is None or self.initial_checksum is not None):
            self._label_weights()

    def _choose_positive(self, kind: str) -> None:
        """Put the positive class last of two."""
        if kind != "binary" or len(self.classes) not in (0, 2):
            raise ValueError(f"--positive applies to two classes only, got loss {self.loss!r}")
        names = [label_text(label) for label in self.classes]
        if names and self.positive not in names:
            raise ValueError(f"--positive: unknown label {self.positive!r}; expected {' or '.join(names)}")
        if names and names[0] == self.positive:
            object.__setattr__(self, "classes", self.classes[::-1])

    @property
    def label_texts(self) -> dict[str, float] | None:
        """The numbers of labels that are texts, for `open_stream`; None if labels are numbers."""
        return text_numbers(losses.get(self.loss), self.classes)

    def _label_weights(self) -> dict[float, float]:
        """Return the weights of rows by the number of their label."""
        texts = self.label_texts
        accepted = make_labels(losses.get(self.loss), () if texts else self.classes).accepted_labels
        weights = {}
        for label, weight in self.class_weight.items():
            number = texts.get(label) if texts else float(label) if _is_number(label) else None
            if number is None or not (texts or accepted.good(np.array([number])).all()):
                expected = " or ".join(texts) if texts else accepted.words
                raise ValueError(f"--class-weight: unknown label {label}; expected {expected}")
            weights[number] = weight
        return weights

    def _check_holdout(self) -> None:
        checks.integer("--holdout-every", self.holdout_every, low=0)
        if self.holdout_every == 1:
            raise ValueError("--holdout-every must be at least 2, got 1")
        if not 0.0 <= self.holdout_share < 1.0:
            raise ValueError(f"--holdout-share must be between 0 and 1, got {self.holdout_share:g}")
        given = [bool(self.holdout_every), bool(self.holdout_share), self.holdout_file is not None]
        if sum(given) > 1:
            raise ValueError("--holdout-every, --holdout-share and --holdout-file exclude one another")
        if self.early_stop and not any(given):
            raise ValueError("--early-stop needs held-out rows: --holdout-every, --holdout-share or --holdout-file")
        if self.early_stop and self.passes == 1:
            raise ValueError("--early-stop needs --passes greater than 1")
        if self.held_out_share and losses.get(self.loss).kind == "ranking":
            raise ValueError("a ranking loss needs --holdout-file: part of a query cannot be held out")

    @property
    def is_path(self) -> bool:
        """Whether there are several strengths to choose from."""
        return not isinstance(self.l1, (int, float))

    @property
    def one_strength(self) -> float:
        """The strength of the l1 penalty; a ValueError if there are several."""
        if not isinstance(self.l1, (int, float)):
            raise ValueError("--l1 has several strengths; give one number")
        return self.l1

    def _check_path(self) -> None:
        """Raise a ValueError for options that do not go with several strengths, or need them."""
        several = "several strengths: --l1 auto, --l1 1e-6,1e-5,1e-4 or --l1 1e-7:1e-3:9"
        if self.choose is not None:
            parse_choice(self.choose)
        if not self.is_path:
            for name in ("choose", "keep_path"):
                if getattr(self, name):
                    raise ValueError(f"--{name.replace('_', '-')} needs {several}; got --l1 {self.l1:g}")
            return
        refused = {
            f"--threads {self.threads}": self.threads > 1,
            "--algorithm certified": self.algorithm == "certified",
            f"--loss {self.loss}": losses.get(self.loss).kind == "ranking",
            "--keep-path --weights-only": self.keep_path and self.weights_only,
        }
        for name in (name for name, given in refused.items() if given):
            raise ValueError(f"{name} does not go with {several}; give one number")

    def _check_shuffle(self) -> None:
        checks.integer("--shuffle-buffer", self.shuffle_buffer, low=0)
        if self.shuffle_buffer and losses.get(self.loss).kind == "ranking":
            raise ValueError("--shuffle-buffer does not apply to a ranking loss: the rows of a query follow each other")

    def settings(self) -> dict[str, Any]:
        """Return all options that shape the model, by name, as JSON values."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in NOT_SETTINGS}
        values |= {"classes": list(self.classes), "class_weight": sorted(map(list, self.class_weight.items()))}
        features = self.features.to_json()
        values["l1"] = list(self.l1) if isinstance(self.l1, tuple) else self.l1
        values |= {"cross": features.pop("crosses"), **features, **self.parameters}
        return {f"--{name.replace('_', '-')}": value for name, value in values.items()}

    def command_line(self) -> str:
        """Return the options that shape the model and are not at their defaults, as typed on a command line.

        >>> TrainConfig(("a.svm",), "m.psm", l1=0.1, passes=2, parameters={"scale": "global"}).command_line()
        '--l1 0.1 --passes 2 --scale global'
        """
        defaults = TrainConfig((), "").settings()
        changed = {name: value for name, value in self.settings().items() if value != defaults.get(name)}
        return " ".join(word for name, value in sorted(changed.items()) for word in option_words(name, value))

    # ---- what is made from it

    def learner(self, n_features: int = 1) -> Learner:
        """Return a new learner, which grows with the rows if it can; a ConfigError if the options do not fit."""
        from .learners import make_learner

        return make_learner(self, n_features)

    @property
    def choice(self) -> dict[str, Any]:
        """The rule that chooses a strength, as an argument of `PathLearner.choose`."""
        return parse_choice(self.choose or DEFAULT)

    def continue_initial(self) -> tuple[TrainConfig, Learner]:
        """Return the configuration with the settings of the model that training continues from, and its learner."""
        from hashlib import file_digest

        from ..models import file as modelfile

        path = self.initial or ""
        model = modelfile.load(path)
        learner = getattr(model, "learner", None)
        if not isinstance(model, Model) or not isinstance(learner, Learner):
            raise modelfile.ModelFileError(f"{path}: expected a model written by `proxstream train`")
        if isinstance(learner.engine, FrozenEngine):
            raise modelfile.ModelFileError(f"{path}: holds weights only, training cannot continue from it")
        learner.n_threads = self.threads
        with open(path, "rb") as file:
            checksum = file_digest(file, "sha256").hexdigest()
        zero_based, min_index = bool(model.reading.get("zero_based", True)), model.reading.get("min_index", 0)
        if self.min_index == 0 and not zero_based:
            raise modelfile.ModelFileError(f"{path}: was trained with --one-based, which cannot be changed")
        usual = model.classes in ((-1.0, 1.0), (0.0, 1.0)) and learner.n_outputs == 1
        changes: dict[str, Any] = {
            "loss": str(learner.loss),
            "classes": () if usual else model.classes,
            "dtype": learner.dtype.name,
            "features": FeatureSpec.from_json(model.features) if model.features is not None else self.features,
            "zero_based": zero_based,
            "min_index": min_index if self.min_index is None else self.min_index,
            "initial_checksum": checksum,
            "initial_names": model.names,
        }
        return replace(self, **changes), learner

    def stream_options(self) -> dict[str, Any]:
        """Return the options of `open_stream` except data, format and features."""
        names = ("dtype", "zero_based", "chunk_bytes", "max_features")
        options = {name: getattr(self, name) for name in names} | bad_row_options(self.on_error, self.quarantine)
        options["min_index"] = self.min_index or 0
        if self.shuffle_buffer:
            options |= {"shuffle_buffer": self.shuffle_buffer, "seed": self.seed}
        return {**options, "labels": self.labels().accepted_labels, "label_texts": self.label_texts}

    def reading(self, formats: Iterable[str], *, index_zero: bool) -> dict[str, Any]:
        """Return how new data are to be read: rows with an index 0 are not those of data that count from 1."""
        from_one = self.zero_based and set(formats) == {"svmlight"} and not index_zero
        min_index = int(from_one) if self.min_index is None else self.min_index
        return {"zero_based": self.zero_based} | ({"min_index": min_index} if min_index else {})

    def again_options(self) -> dict[str, Any]:
        """Return the same for the data read once more: bad rows that have been written are skipped."""
        return self.stream_options() | bad_row_options(self.on_error)

    def holdout_options(self) -> dict[str, Any]:
        """Return the same for the held-out file, whose bad rows are skipped where those of the data are written."""
        return self.again_options() | {"shuffle_buffer": 0}

    def labels(self) -> Labels:
        """Return how labels are read."""
        return make_labels(losses.get(self.loss), self.classes, self._label_weights())

    def plan(self) -> Plan:
        """Return the plan of the session."""
        return Plan(self.passes, self.held_out_share, self.early_stop, self.progress_every, self.skip_bad_rows)

    @property
    def skip_bad_rows(self) -> bool:
        """Whether bad rows are left out."""
        return self.on_error != "stop"

    @property
    def holds_out(self) -> bool:
        """Whether rows are held out, of the data or of a separate file."""
        return bool(self.held_out_share) or self.holdout_file is not None

    @cached_property
    def held_out_share(self) -> Fraction | int:
        """The share of the rows that is held out; 0 if none are, or those of a separate file.

        >>> TrainConfig(("a.svm",), "m.psm", holdout_share=0.25).held_out_share
        Fraction(1, 4)
        """
        if not self.holdout_every and not self.holdout_share:
            return 0
        from fractions import Fraction

        if self.holdout_every:
            return Fraction(1, self.holdout_every)
        return Fraction(repr(float(self.holdout_share))).limit_denominator(1_000_000)

    def checkpoint_interval(self) -> tuple[int, float]:
        """Return the rows and the seconds between two checkpoints; 0 means no limit.

        >>> TrainConfig(("a.svm",), "m.psm", checkpoint="30s").checkpoint_interval()
        (0, 30.0)
        """
        text = self.checkpoint
        try:
            rows, seconds = (0, float(text[:-1])) if text.endswith("s") else (int(text or "0"), 0.0)
            if rows < 0 or not 0.0 <= seconds < math.inf or (text and not rows and not seconds):
                raise ValueError
        except ValueError:
            raise ValueError(
                f"--checkpoint must be a number of rows such as 100000, or of seconds such as 30s, got {text!r}"
            ) from None
        return rows, seconds


def parse_classes(text: str) -> tuple[float, ...] | tuple[str, ...]:
    """Return the labels of the classes: a number n means 0, 1, ..., n - 1.

    >>> parse_classes("3"), parse_classes("1,2,5"), parse_classes("no, yes")
    ((0.0, 1.0, 2.0), (1.0, 2.0, 5.0), ('no', 'yes'))
    """
    labels = [label.strip() for label in text.split(",")]
    if len(labels) == 1 and labels[0].isdecimal():
        return tuple(float(label) for label in range(int(labels[0])))
    if len(labels) == 1 or not all(labels):
        raise ValueError(f"--classes must be a number of classes, or labels such as 1,2,3 or no,yes, got {text!r}")
    return tuple(map(float, labels)) if all(map(_is_number, labels)) else tuple(labels)


def parse_class_weights(texts: tuple[str, ...]) -> dict[str, float]:
    """Return the weight of each label.

    >>> parse_class_weights(("1=5", "spam=0.5"))
    {'1': 5.0, 'spam': 0.5}
    """
    weights = {}
    for text in (part for one in texts for part in one.split(",")):
        label, _, weight = text.rpartition("=")
        try:
            if not label:
                raise ValueError
            weights[label.strip()] = checks.number("--class-weight", float(weight), low=0.0)
        except ValueError:
            raise ValueError(f"--class-weight must be LABEL=WEIGHT, such as 1=5, got {text!r}") from None
    return weights


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _listed(labels: tuple[Any, ...]) -> str:
    return ", ".join(map(label_text, labels)) or "none"
