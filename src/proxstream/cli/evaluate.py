"""`proxstream evaluate`: how good a model is on labelled data."""

from __future__ import annotations

from .common import (
    AsJSON,
    Bad,
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

    Two classes: loss, accuracy, AUC and how well probabilities are calibrated. More classes: each one's precision and
    recall. Numbers: errors and R2. Ranks: NDCG and pairs in order. Rows count by their weights.
    """
    from ..metrics import measures
    from ..modelfile import load_model

    bad = Bad(on_error, quarantine)
    bad.check([model, *data])
    made = load_model(model)
    found = measures(made)
    with open_data(made, data, format, one_based, bad=bad, labelled=True) as stream:
        rows = Labelled(made, stream, skip=on_error != "stop")
        for chunk in rows.chunks():
            found.add(made.scores(chunk.rows), chunk.rows.y, chunk.rows.c, chunk.qid)
    measured, tables = found.facts(), found.tables()
    if on_error != "stop":
        measured = {"rows": measured.pop("rows"), "skipped": rows.skipped, **measured}
    if not measured["rows"]:
        raise ValueError(f"{', '.join(stream.names)}: no rows to measure")
    if json:
        listed = {t.title: [dict(zip(t.columns, row, strict=True)) for row in t.rows] for t in tables}
        print_json(measured | listed)
        return
    show(facts(measured.items()))
    for t in tables:
        show(["", f"# {t.title}", *table(t.columns, t.rows)])
