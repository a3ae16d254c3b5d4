"""The learner of a configuration: of one strength, or of several side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..core import losses, parsing
from ..core.penalties import Penalty
from ..data.offsets import needs_no_penalty
from ..data.rowblock import RowBlock
from ..learner.learner import Learner
from .config import ConfigError, TrainConfig

if TYPE_CHECKING:
    from ..learner.path import PathLearner

AnyLearner = TypeVar("AnyLearner", bound=Learner)


def make_learner(config: TrainConfig, n_features: int) -> Learner:
    """Return a new learner, which grows with the rows if it can; a ConfigError if the options do not fit.

    Where there are several strengths, its own is 1.
    """
    return _checked(config, lambda: Learner(*_components(config), _penalty(config), **_settings(config, n_features)))


def make_path_learner(config: TrainConfig, strengths: Sequence[float], n_features: int) -> PathLearner:
    """Return a new learner of several strengths; a ConfigError if the options do not fit."""
    from ..learner.path import PathLearner

    settings = {**_settings(config, n_features), "strengths": strengths, "fixed_l2": True}
    return _checked(config, lambda: PathLearner(*_components(config), _template(config), **settings))


def find_strengths(config: TrainConfig, rows: RowBlock) -> list[float]:
    """Return the strengths of `--l1 auto` by the first rows, with three digits, so that they can be typed."""
    from ..batch.strengths import stream_strengths

    outputs = config.labels().n_outputs
    try:
        loss, template = losses.get(config.loss), _template(config)
        found = stream_strengths(rows, loss, template, n_outputs=outputs, fit_intercept=config.intercept)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"--l1 auto: {error} (as in --l1 1e-6,1e-5,1e-4)") from None
    return [float(f"{strength:.3g}") for strength in found]


def _components(config: TrainConfig) -> tuple[Any, Any]:
    return parsing.algorithm_from_options(config.algorithm, config.parameters), losses.get(config.loss)


def _penalty(config: TrainConfig) -> Penalty:
    if config.is_path:
        return _template(config)
    return parsing.penalty_from_options(config.one_strength, config.l2, config.penalty)


def _template(config: TrainConfig) -> Penalty:
    """Return the penalty whose l1 part each strength multiplies; `--penalty` may add constraints to it."""
    if config.penalty is not None and not parsing.penalty_from_options(0.0, 0.0, config.penalty).is_constraint:
        raise ValueError(
            f"--penalty {config.penalty} with several strengths of --l1 must be a constraint such as nonnegative"
        )
    return parsing.penalty_from_options(1.0, config.l2, config.penalty)


def _settings(config: TrainConfig, n_features: int) -> dict[str, Any]:
    return {
        "n_features": n_features,
        "n_outputs": config.labels().n_outputs,
        "dtype": np.dtype(config.dtype),
        "fit_intercept": config.intercept,
        "average": config.average,
        "growing": True,
        "n_threads": config.threads,
        "ranking": losses.get(config.loss).kind == "ranking",
        "pairs": config.pairs,
        "seed": config.seed,
    }


def _checked(config: TrainConfig, make: Callable[[], AnyLearner]) -> AnyLearner:
    """Return what is made; errors are those of options."""
    try:
        made = make()
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from None
    if config.features.offset is not None and needs_no_penalty(made.loss, made.penalty):
        raise ConfigError(
            f"--offset with the loss {made.loss} needs a model without a penalty other than constraints: it acts by "
            "weights of rows, which would multiply the penalty too; --algorithm certified takes both"
        )
    return made
