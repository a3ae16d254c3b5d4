"""`proxstream evaluate`: metrics of a model on labelled data."""

from __future__ import annotations

from .common import (
    AsJSON,
    BadRows,
    Data,
    Format,
    Labelled,
    ModelFile,
    OneBased,
    OnError,
    Quarantine,
    facts,
    open_data,
    print_json,
    show,
    table,
)

EPILOG = """\b
Examples:
  proxstream evaluate model.psm test.svm
  proxstream evaluate model.psm test.svm --json
"""


def evaluate(
    model: ModelFile,
    data: Data,
    format: Format = None,
    one_based: OneBased = None,
    on_error: OnError = "stop",
    quarantine: Quarantine = None,
    json: AsJSON = False,
) -> None:
    """Measure a model on labelled data.

    Two classes: loss, accuracy, AUC and calibration. More classes: precision and recall per class. Regression: errors
    and R2. Ranking: NDCG and pair accuracy. Rows count by their weights.
    """
    from ..data.metrics import metrics_of
    from ..models.file import load_model

    bad = BadRows(on_error, quarantine)
    bad.check([model, *data])
    fitted = load_model(model)
    found = metrics_of(fitted)
    with open_data(fitted, data, format, one_based, bad=bad, labelled=True) as stream:
        rows = Labelled(fitted, stream, skip=bad.skip)
        for chunk in rows.chunks():
            found.add(fitted.scores(chunk.rows), chunk.rows.y, chunk.rows.c, chunk.qid)
    measured, tables = found.facts(), found.tables()
    if bad.skip:
        measured = {"rows": measured.pop("rows"), "skipped": rows.skipped, **measured}
    if not measured["rows"]:
        raise ValueError(f"{', '.join(stream.names)}: no rows to evaluate")
    if json:
        listed = {t.title: [dict(zip(t.columns, row, strict=True)) for row in t.rows] for t in tables}
        print_json(measured | listed)
        return
    show(facts(measured.items()))
    for t in tables:
        show(["", f"# {t.title}", *table(t.columns, t.rows)])
