"""`proxstream evaluate`: metrics of a model on labelled data."""

from __future__ import annotations

import time

from .command import command
from .common import BadRows, Labelled, facts, load_strength, open_data, print_json, show, table
from .options import AS_JSON, BAD_ROWS, DATA, FORMAT, INDEX_BASE, MODEL, REPORT, STRENGTH
from .page import check_report, collector_of, write_evaluation

EPILOG = """\b
Examples:
  proxstream evaluate model.psm test.svm
  proxstream evaluate model.psm test.svm --json
  proxstream evaluate model.psm test.svm --report eval.html
"""


@command(EPILOG, [MODEL, DATA], [FORMAT, INDEX_BASE, STRENGTH, *BAD_ROWS, AS_JSON, REPORT])
def evaluate(
    model: str,
    data: tuple[str, ...],
    format: str | None,
    one_based: bool | None,
    strength: float | None,
    on_error: str,
    quarantine: str | None,
    json: bool,
    report: str | None,
) -> None:
    """Measure a model on labelled data.

    Two classes: loss, accuracy, AUC and calibration. More classes: precision and recall per class. Regression: errors
    and R2. Ranking: NDCG and pair accuracy. Rows count by their weights.
    """
    from ..data.metrics import metrics_of

    bad = BadRows(on_error, quarantine)
    bad.check([model, *data])
    check_report(report, [model, *data], quarantine)
    fitted = load_strength(model, strength)
    found = metrics_of(fitted)
    seen = None if report is None else collector_of(fitted)
    started = time.perf_counter()
    with open_data(fitted, data, format, one_based, bad=bad, labelled=True) as stream:
        rows = Labelled(fitted, stream, skip=bad.skip)
        for chunk in rows.chunks():
            scores = fitted.chunk_scores(chunk)
            found.add(scores, chunk.rows.y, chunk.rows.c, chunk.qid)
            if seen is not None:
                seen.add(scores, chunk.rows.y, chunk.rows.c)
    seconds = time.perf_counter() - started
    measured, tables = found.facts(), found.tables()
    if bad.skip:
        measured = {"rows": measured.pop("rows"), "skipped": rows.skipped, **measured}
    if not measured["rows"]:
        raise ValueError(f"{', '.join(stream.names)}: no rows to evaluate")
    if report is not None:
        write_evaluation(report, fitted, (model, data), measured, found, seen)
    if json:
        listed = {t.title: [dict(zip(t.columns, row, strict=True)) for row in t.rows] for t in tables}
        print_json(measured | listed)
    else:
        show(facts(measured.items()))
        for t in tables:
            show(["", f"# {t.title}", *table(t.columns, t.rows)])
    if report is not None:
        speed = {"seconds": seconds, "rows_per_second": measured["rows"] / max(seconds, 1e-9)}
        write_evaluation(report, fitted, (model, data), measured | speed, found, seen)
