"""What a training run shows: the table and its summary on stderr, and the same as JSON lines in a file."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import IO, TYPE_CHECKING, Any, Self

from .._paths import named
from .table import Table, number

if TYPE_CHECKING:
    from ..training import Line, Pass
    from ..training.certified import CertifiedRun
    from ..training.run import Run

BORN = time.perf_counter()  # when the command line was imported: about when the process began
NAMES = {"accuracy": "accuracy", "auc": "AUC", "rmse": "root mean squared error", "pair_accuracy": "pairs in order"}


class Show:
    """Looks on as a run goes, and tells.

    Parameters
    ----------
    quiet : bool
        Show nothing on stderr.
    metrics_file : str, optional
        Where JSON lines go.
    """

    def __init__(self, quiet: bool, metrics_file: str | None) -> None:
        self._quiet, self._path = quiet, metrics_file
        self._table = Table(sys.stderr)
        self._file: IO[str] | None = None
        self._begun = (0, 0)

    def __enter__(self) -> Self:
        if self._path is not None:
            self._file = open(self._path, "a+", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._file is not None:
            with named(self._path or ""):
                self._file.close()

    # ---- what a run calls

    def started(self, run: Run) -> None:
        """Begin the table; of a resumed run keep the metrics that are still true."""
        facts, order = run.session.facts, run.order
        self._begun = facts.all_rows, facts.n_bytes
        total = None if run.stream.n_bytes is None else run.stream.n_bytes * order.passes
        self._table = Table(sys.stderr, several=order.passes > 1, total=total)
        if self._file is not None:
            session = run.session
            known = {(line.number, line.rows, False) for line in session.lines}
            self._rewind(known | {(ended.number, ended.rows, True) for ended in session.passes})
        if run.resumed and not self._quiet:
            self._table.write(f"resumed after {facts.all_rows:,} rows")
        self._table.start(*self._begun, bar=not self._quiet)

    def line(self, line: Line, run: Run) -> None:
        """Show a line."""
        from ..training.report import record

        facts = run.session.facts
        if not self._quiet:
            self._table.line(line, facts.all_rows, facts.n_bytes)
        self._json(record(line))

    def passed(self, ended: Pass, run: Run) -> None:
        """Tell how a pass ended, if there is more to it than the summary tells."""
        from ..training.report import record

        held_out = not math.isnan(ended.held_out_loss)
        if not self._quiet and (held_out or run.order.passes > 1):
            more = f", held-out loss {ended.held_out_loss:.6f}" if held_out else ""
            self._table.write(f"pass {ended.number}: {ended.rows:,} rows, mean loss {ended.mean_loss:.6f}{more}")
        self._json({"ended": True, **record(ended)})

    def moved(self, run: Run) -> None:
        """Move the bar."""
        if not self._quiet:
            facts = run.session.facts
            self._table.moved(facts.n_bytes, facts.all_rows, run.session.mean_loss)

    def stop(self) -> None:
        """Take the bar away."""
        self._table.stop()

    # ---- the end

    def solved(self, run: CertifiedRun) -> None:
        """Show how a solver came to its proof: what was certified at which epoch."""
        history = run.model().history
        seconds = time.perf_counter() - BORN
        facts = {**run.summary(), "loss": run.order.loss, "bytes": run.n_bytes, "seconds": seconds}
        for told in (*history, {"summary": facts | _written(run.order.output)}):
            self._json(told)
        if self._quiet:
            return
        self._table.write("".join(f"{name:>12}" for name in history[0]))
        for one in history:
            cells = (f"{value:,}" if isinstance(value, int) else f"{value:.6g}" for value in one.values())
            self._table.write("".join(f"{cell:>12}" for cell in cells))
        proven = f"{facts['relative_gap']:.2g} of it" + ("" if facts["converged"] else ", more than was asked for")
        self._table.summary(
            {
                "rows": _rows(facts),
                "mean loss + penalty": f"{facts['primal']:.8g} ({facts['loss']})",
                "at least": f"{facts['dual']:.8g}, the gap is {proven}",
                "non-zeros": f"{facts['nonzeros']:,} of {facts['weights']:,}",
                "read": f"{facts['bytes'] / 1e6:,.2f} MB",
                "seconds": f"{seconds:.2f}",
                "model": _model(facts | _written(run.order.output)),
            }
        )

    def summary(self, run: Run) -> None:
        """Tell how it ended."""
        if run.finished:
            if not self._quiet:
                self._table.write(f"{run.order.output} is what this run makes: nothing to do")
            return
        facts = self._facts(run)
        self._json({"summary": facts})
        if not self._quiet:
            self._table.summary(_words(facts))

    def _facts(self, run: Run) -> dict[str, Any]:
        facts, seconds = run.session.facts, self._table.seconds
        return {
            **run.summary,
            "loss": run.order.loss,
            "bytes": facts.n_bytes,
            "seconds": seconds,
            "start_seconds": time.perf_counter() - BORN - seconds,
            "rows_per_second": (facts.all_rows - self._begun[0]) / max(seconds, 1e-9),
            "megabytes_per_second": (facts.n_bytes - self._begun[1]) / max(seconds, 1e-9) / 1e6,
            **_written(run.order.output),
        }

    def _json(self, told: dict[str, Any]) -> None:
        if self._file is not None:
            if "summary" not in told:
                told = {**told, "seconds": round(self._table.seconds, 6)}
            with named(self._path or ""):
                print(json.dumps(told), file=self._file, flush=True)

    def _rewind(self, known: set[tuple[int, int, bool]]) -> None:
        """Keep the lines of the file that the session still knows: a run that was killed may have got further."""
        assert self._file is not None
        self._file.seek(0)
        kept = []
        for text in self._file:
            try:
                record = json.loads(text)
                if (record["pass"], record["rows"], record.get("ended", False)) in known:
                    kept.append(text)
            except (ValueError, KeyError, TypeError):
                continue
        self._file.truncate(0)
        self._file.writelines(kept)


def _words(facts: dict[str, Any]) -> dict[str, str]:
    """Return the summary as it is shown."""
    shown = {"rows": _rows(facts), "progressive loss": f"{facts['progressive_loss']:.6f} ({facts['loss']})"}
    if "negative_labels" in facts:
        shown["labels"] = "-1 and 0 occurred, both taken for the negative class"
    if "best_constant" in facts:
        shown["best constant"] = f"{number(facts['best_constant'])}, loss {facts['best_constant_loss']:.6f}"
    for name, words in NAMES.items():
        if name in facts:
            shown[words] = f"{facts[name]:.6f}" if name == "rmse" else f"{facts[name]:.4f}"
    if "held_out_loss" in facts:
        shown["held-out loss"] = f"{facts['held_out_loss']:.6f}"
    shown["non-zeros"] = f"{facts['nonzeros']:,} of {facts['weights']:,}"
    shown["read"] = f"{facts['bytes'] / 1e6:,.2f} MB"
    shown["seconds"] = (
        f"{facts['seconds']:.2f}, and {facts['start_seconds']:.2f} to start; {facts['rows_per_second']:,.0f} rows/s, "
        f"{facts['megabytes_per_second']:,.1f} MB/s"
    )
    shown["model"] = _model(facts)
    return shown


def _rows(facts: dict[str, Any]) -> str:
    passes, skipped = facts.get("passes", 1), facts["skipped"]
    more = [f" in {passes} passes"] * (passes > 1) + [f", {skipped:,} skipped"] * (skipped > 0)
    return f"{facts['rows']:,}" + "".join(more)


def _written(path: str) -> dict[str, Any]:
    return {"model": path, "model_bytes": os.path.getsize(path)}


def _model(facts: dict[str, Any]) -> str:
    return f"{facts['model']}, {facts['model_bytes']:,} bytes"
