"""`--report FILE` of `train` and `evaluate`: gathers what a run knows and writes it as one HTML page.

matplotlib is imported when the page is drawn; that it is there, and that the file can be written, is checked first.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from click import UsageError

from .common import cell, check_places

if TYPE_CHECKING:
    from ..data.metrics import Metrics
    from ..data.tallies import Tally
    from ..models.model import Model
    from ..report.collect import Collector
    from ..training.base_session import BaseSession
    from ..training.certified import CertifiedRun
    from ..training.config import TrainConfig
    from ..training.run import BaseRun

TOP = 30  # weights
FILES = 8  # that are named
# The numbers at the head of a page, in this order, as far as there are any.
HEADLINE = (
    *("progressive_loss", "best_constant_loss", "held_out_loss", "primal", "relative_gap", "auc", "accuracy"),
    *("macro_f1", "calibration_error", "rmse", "mae", "r2", "pair_accuracy", "ndcg", "nonzeros", "rows"),
    "rows_per_second",
)
NAMES = {
    "auc": "AUC",
    "auc_error": "error of AUC at most",
    "best_constant": "best constant prediction",
    "best_constant_loss": "loss of best constant",
    "brier_score": "Brier score",
    "f1": "F1",
    "held_out_loss": "held-out loss",
    "macro_f1": "macro F1",
    "mae": "MAE",
    "ndcg": "NDCG",
    "nonzeros": "non-zeros",
    "primal": "loss + penalty",
    "r2": "R²",
    "rmse": "RMSE",
}
# What is shown elsewhere on the page.
HIDDEN = (
    *("end_of_input", "options", "model", "model_bytes", "loss", "bytes", "seconds", "start_seconds"),
    *("rows_per_second", "megabytes_per_second", "path"),
)


def check_report(path: str | None, inputs: Sequence[str | None], quarantine: str | None = None) -> None:
    """Raise a UsageError unless a report can be drawn and written, over no input and not over the quarantine."""
    if path is None:
        return
    from importlib.util import find_spec

    from ..training.run import OutputError, check_output

    if find_spec("matplotlib") is None:
        raise UsageError("--report needs matplotlib: pip install 'proxstream[report]'")
    try:
        check_output(path, "a report")
    except OutputError as error:
        raise UsageError(f"--report {error}") from None
    check_places({"--quarantine": quarantine, "--report": path}, inputs)


def collector_of(owner: Model | BaseSession) -> Collector | None:
    """Return what collects the predictions of a model, or of a session's learner."""
    from ..report.collect import collector

    learner = owner.learner
    return collector(learner.loss, learner.n_outputs, ranking=learner.ranking)


class TrainingPage:
    """The page of a training run.

    Parameters
    ----------
    path : str
        File to write.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._seen: list[Collector] = []  # one per strength

    def watch(self, run: BaseRun) -> None:
        """Collect the predictions of a run that starts, for each of its strengths."""
        from ..report.collect import WatchedTally

        for session in run.session.members or [run.session]:
            seen = collector_of(session)
            if seen is not None:
                self._seen.append(seen)
                session.tally = WatchedTally(session.tally, seen)

    def write(self, run: BaseRun, facts: Mapping[str, Any]) -> None:
        """Write the page of a run that has ended, or of a model that was up to date."""
        formats = ", ".join(dict.fromkeys(run.formats))
        if run.finished:
            from ..models.file import load_model

            model = load_model(run.config.output)
            self._write(model, model.summary, "", run.config, formats)
            return
        model = run.model()
        seen = self._seen[max(run.session.chosen, 0)] if self._seen else None
        predicted = predictions(model, run.session.tally, seen, facts.get("auc", math.nan))
        if predicted:
            since = " since the run was resumed" if run.resumed and seen is not None else ""
            predicted = f"<p>Predictions made before each row was learned, in the first pass{since}.</p>{predicted}"
        self._write(model, facts, predicted, run.config, formats)

    def write_solved(self, run: CertifiedRun, facts: Mapping[str, Any]) -> None:
        """Write the page of a batch solver, with the predictions of its own training rows."""
        from ..data.metrics import metrics_of

        model, rows = run.model(), run.rows
        assert rows is not None
        found, seen = metrics_of(model), collector_of(model)
        scores = model.scores(rows)
        for counted in (found, seen):
            if counted is not None:
                counted.add(scores, rows.y, rows.c)
        measured = found.facts()
        predicted = predictions(model, found, seen, measured.get("auc", math.nan))
        predicted = "<p>Predictions of the rows that the model was fitted to.</p>" + predicted
        formats = ", ".join(dict.fromkeys(run.stream.formats))
        self._write(model, {**measured, **facts}, predicted, run.config, formats)

    def _write(self, model: Model, facts: Mapping[str, Any], predicted: str, config: TrainConfig, formats: str) -> None:
        from ..report import sections

        files = list(map(str, config.data))
        words = ["proxstream", "train", *_few(files), "-o", config.output]
        shown = {
            "Learning": sections.learning(model.history, model.summary),
            "Strengths of the penalty": _path(model.summary),
            "Predictions": predicted,
            "Weights": _weights(model),
            "Measures": _measures(facts),
            "Settings and data": sections.making(
                f"{shlex.join(words)} {config.command_line()}".strip(),
                {**_settings(model), "files": ", ".join(_few(files)), "format": formats, **_speed(facts), **_place()},
            ),
        }
        lead = f"Trained on {', '.join(_few(files))}."
        _save(self.path, sections.report(f"Training of {config.output}", lead, headline(facts), shown))


def write_evaluation(
    path: str,
    model: Model,
    names: tuple[str, Sequence[str]],
    facts: Mapping[str, Any],
    found: Metrics,
    seen: Collector | None,
) -> None:
    """Write the page of an evaluation; `names` are those of the model file and of the data."""
    from ..report import sections

    predicted = predictions(model, found, seen, facts.get("auc", math.nan))
    tables = "".join(sections.measures(t.title.capitalize(), t.columns, t.rows) for t in found.tables())
    file, data = names
    shown = {
        "Predictions": predicted,
        "Measures": _measures(facts) + tables,
        "Weights": _weights(model),
        "How the model learned": sections.learning(model.history, model.summary),
        "Settings and data": sections.making(
            shlex.join(["proxstream", "evaluate", file, *_few(data)]),
            {**_settings(model), "data": ", ".join(_few(data)), **_speed(facts), **_place()},
        ),
    }
    lead = f"Measured on {', '.join(_few(data))}."
    _save(path, sections.report(f"Evaluation of {file}", lead, headline(facts), shown))


def predictions(model: Model, counted: Tally | Metrics, seen: Collector | None, auc: float) -> str:
    """Return how a model predicts, as HTML; empty where nothing was collected."""
    from ..data.tallies import BinaryTally
    from ..report import sections
    from ..report.collect import Confusion, NumberPairs

    if isinstance(counted, BinaryTally):
        sums = getattr(counted, "probabilities", None)
        likely = model.loss.has_probabilities
        return sections.two_classes(
            counted.arrays["scores"], model.classes, auc, likely=likely, probabilities=sums if likely else None
        )
    if isinstance(seen, NumberPairs):
        return sections.numbers(seen)
    return sections.confusion(seen, model.classes) if isinstance(seen, Confusion) else ""


def headline(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the most important numbers.

    >>> headline({"auc": 0.87654321, "rows": 12345, "rows_per_second": 5432.1, "skipped": 0})
    {'AUC': '0.8765', 'rows': '12,345', 'rows per second': '5,432'}
    """
    from ..report.page import text

    losses = [name for name in facts if name.endswith("_loss") and name not in HEADLINE]
    return {_name(name): text(facts[name]) for name in (*losses, *HEADLINE) if _is_number(facts.get(name))}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _name(name: str) -> str:
    return NAMES.get(name, name.replace("_", " "))


def _measures(facts: Mapping[str, Any]) -> str:
    from ..report.page import facts as table, verbatim

    return table({_name(name): verbatim(cell(value)) for name, value in facts.items() if name not in HIDDEN})


def _weights(model: Model) -> str:
    import numpy as np

    from ..report import sections
    from .inspect import largest

    return sections.weights(largest(model, TOP), int(np.count_nonzero(model.learner.weights()[0])))


def _path(summary: Mapping[str, Any]) -> str:
    """Return the strengths that were learned, as a figure and a table; empty where there was one."""
    from ..report import sections

    path = summary.get("path", [])
    return sections.path(path, summary["strength"]) if path else ""


def _settings(model: Model) -> dict[str, str]:
    from .inspect import settings

    found = settings(model)
    found.pop("progressive_loss", None)
    return {name.replace("_", " "): cell(value) for name, value in found.items()}


def _speed(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return how long it took and how much was read and written, as far as it was measured.

    >>> _speed({"seconds": 2.0, "rows_per_second": 1234.5, "rows": 2469})
    {'time': '2.00 s, 1,234 rows/s'}
    """
    forms = {"seconds": "{:,.2f} s", "rows_per_second": "{:,.0f} rows/s", "megabytes_per_second": "{:,.1f} MB/s"}
    shown = {"time": ", ".join(form.format(facts[name]) for name, form in forms.items() if name in facts)}
    if "bytes" in facts:
        shown |= {"read": f"{facts['bytes'] / 1e6:,.2f} MB", "model size": f"{facts['model_bytes']:,} bytes"}
    return {name: value for name, value in shown.items() if value}


def _place() -> dict[str, str]:
    from ..report.machine import machine, versions

    used = versions(("proxstream", "numpy", "matplotlib"))
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "versions": ", ".join(f"{name} {number}" for name, number in used.items()),
    }


def _few(files: Sequence[str]) -> list[str]:
    """Return the first of many files.

    >>> _few([f"{i}.svm" for i in range(20)])[-2:]
    ['7.svm', '... (12 more)']
    """
    return [*files[:FILES], *([f"... ({len(files) - FILES} more)"] if len(files) > FILES else [])]


def _save(path: str, page: str) -> None:
    from ..io.atomic import replacing

    with replacing(path) as file:
        file.write(page.encode("utf-8", "backslashreplace"))
