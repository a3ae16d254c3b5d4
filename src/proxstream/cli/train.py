"""`proxstream train`: from files to a model, in one pass or more, with a table on stderr while it learns."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import (
    Categorical,
    Drop,
    Nulls,
    Numeric,
    OnError,
    Quarantine,
    Stopped,
    Text,
    UsageError,
    check_places,
    grams_of,
    usage,
)
from .show import Show

if TYPE_CHECKING:
    from ..learner import Learner
    from ..training.order import Order

# What may be told of a run that goes on from a model.
WITH_INITIAL = (
    *("data", "output", "format", "passes", "class_weight", "holdout", "early_stop", "threads", "on_error"),
    *("quarantine", "chunk_bytes", "quiet", "progress_every", "metrics_file", "checkpoint", "resume"),
    *("weights_only", "initial", "cluster", "rows_per_round"),
)
# What only learning row by row knows.
ONLINE = ("passes", "holdout", "early_stop", "pairs", "average", "progress_every", "checkpoint", "resume", "initial")

# In which formats an option has a meaning, if not in all.
TABLES = ("csv", "tsv", "jsonl", "parquet", "arrow")
MEANT = {
    **dict.fromkeys(("label", "weight", "qid", "categorical", "numeric", "text", "nulls"), TABLES),
    **dict.fromkeys(("cross", "drop"), (*TABLES, "vw")),
    "one_based": ("svmlight",),
}

EPILOG = """\b
Parameters of the algorithm are options of the same name, as --alpha and
--penalty-weight below; --list tells them all.

\b
Examples:
  proxstream train clicks.svm -o model.psm
  proxstream train day1.vw.gz day2.vw.gz -o model.psm --bits 20 --l1 1e-6
  proxstream train clicks.csv -o model.psm --label click --cross "site*device"
  proxstream train clicks.svm -o model.psm --algorithm ftrl_proximal --alpha 0.5 --penalty-weight once
  proxstream train clicks.svm -o model.psm --passes 5 --holdout 10 --early-stop 1
  proxstream train clicks.svm -o model.psm --checkpoint 60s --resume
"""


def _list(wanted: bool) -> None:
    """Tell the algorithms and their parameters, and exit."""
    if not wanted:
        return
    from ..algorithms import ALGORITHMS
    from ..training import recipe

    for name in (*ALGORITHMS, "certified"):
        told = (f"--{key.replace('_', '-')}{_default(value)}" for key, value in recipe.parameters(name).items())
        typer.echo(f"{name:<20}{'  '.join(told)}")
    raise typer.Exit


def train(
    context: typer.Context,
    data: Annotated[list[str], typer.Argument(metavar="DATA", help="Files, globs, URIs, or - for standard input.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="MODEL", help="Where the model goes.")],
    format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="svmlight, vw, csv, tsv, jsonl, parquet, arrow or cache; told by the name."),
    ] = None,
    loss: Annotated[str, typer.Option(metavar="NAME", help="Loss, with parameters as in huber(0.5).")] = "logistic",
    algorithm: Annotated[str, typer.Option(metavar="NAME", help="Algorithm; certified loads the data.")] = "auto_ftrl",
    l1: Annotated[float, typer.Option("--l1", metavar="LAM", help="Strength of the l1 penalty.")] = 0.0,
    l2: Annotated[float, typer.Option("--l2", metavar="LAM", help="Strength of the l2 penalty, lam/2 |w|^2.")] = 0.0,
    penalty: Annotated[
        str | None, typer.Option(metavar="SUM", help="More penalties, as 'nonnegative' or 'berhu(0.1, 2)'.")
    ] = None,
    passes: Annotated[int, typer.Option(metavar="N", help="How often the data are read.")] = 1,
    bits: Annotated[
        int, typer.Option(metavar="B", help="Hash names into 2^B buckets; 0: number them as they come.")
    ] = 22,
    cross: Annotated[
        list[str] | None, typer.Option(metavar="A*B", help="Products of columns or namespaces; repeatable.")
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The label; else a column named label.")] = None,
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="The rows' weights.")] = None,
    qid: Annotated[str | None, typer.Option(metavar="COLUMN", help="The rows' queries.")] = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    text: Text = None,
    drop: Drop = None,
    nulls: Nulls = None,
    names: Annotated[bool, typer.Option("--names", help="Keep names of features, for inspect.")] = False,
    one_based: Annotated[bool, typer.Option("--one-based", help="svmlight: subtract 1 from indices.")] = False,
    dtype: Annotated[str, typer.Option(metavar="TYPE", help="float32 or float64, of the state.")] = "float32",
    classes: Annotated[
        str | None, typer.Option(metavar="N|LABELS", help="Number of classes 0..N-1, or their labels as 1,2,3.")
    ] = None,
    class_weight: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=WEIGHT", help="What rows of a label weigh; repeatable.")
    ] = None,
    holdout: Annotated[
        str, typer.Option(metavar="N|SHARE|FILE", help="Predict, never learn: every N-th row, a share, or a file.")
    ] = "",
    early_stop: Annotated[
        int, typer.Option(metavar="N", help="Stop after N passes without a lower held-out loss.")
    ] = 0,
    threads: Annotated[int, typer.Option(metavar="N", help="Lock-free threads that learn.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Of what is drawn at random.")] = 0,
    pairs: Annotated[int | None, typer.Option(metavar="N", help="Ranking: partners drawn for each row.")] = None,
    average: Annotated[bool, typer.Option("--average", help="Predict with the mean of the weights.")] = False,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Learn no intercept.")] = False,
    on_error: OnError = "stop",
    quarantine: Quarantine = None,
    chunk_bytes: Annotated[int, typer.Option(hidden=True)] = 1 << 22,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but errors.")] = False,
    progress_every: Annotated[int, typer.Option(metavar="ROWS", help="Rows between lines; 0: at powers of two.")] = 0,
    metrics_file: Annotated[str | None, typer.Option(metavar="FILE", help="Lines and summary as JSON lines.")] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="ROWS|SECs", help="Keep MODEL.ckpt every so many rows, or seconds as in 30s.")
    ] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from MODEL.ckpt if there is one.")] = False,
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Write a small model that predicts and cannot learn on.")
    ] = False,
    initial: Annotated[str | None, typer.Option(metavar="MODEL", help="Go on from a model.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS|local[:N]", help="Learn on a Dask cluster; the files are its workers'."),
    ] = None,
    rows_per_round: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS", help="Cluster: rows of all workers together between two sums. [default: by features]"
        ),
    ] = None,
    list_algorithms: Annotated[
        bool, typer.Option("--list", is_eager=True, callback=_list, help="List the algorithms and their parameters.")
    ] = False,
) -> None:
    """Train a model from files.

    Each row is predicted, then learned; a table on stderr tells how well at rows 1, 2, 4, 8, ...
    """
    told = dict(locals())
    files, parameters = _split(data)
    order = _order(files, parameters, told)
    given = {name for name in told if _is_given(context, name)} | set(parameters)
    outputs = {"-o": output, "--metrics-file": metrics_file, "--on-error quarantine": quarantine}
    check_places(outputs | {"checkpoint": f"{output}.ckpt"}, [*files, holdout])
    if cluster is None and "rows_per_round" in given:
        raise UsageError("--rows-per-round goes with --cluster")
    if cluster is not None:
        _run_on(cluster, rows_per_round, order, Show(quiet, metrics_file), given)
        return
    _run(order, Show(quiet, metrics_file), given)


# ---- from options to an order


def _split(words: list[str]) -> tuple[list[str], dict[str, str | bool]]:
    """Take the options that only an algorithm knows out of the files among which they came."""
    from ..algorithms import ALGORITHMS
    from ..training import recipe

    known = {key: value for name in (*ALGORITHMS, "certified") for key, value in recipe.parameters(name).items()}
    files: list[str] = []
    parameters: dict[str, str | bool] = {}
    left = iter(words)
    for word in left:
        if not word.startswith("-") or word == "-":
            files.append(word)
            continue
        option, given, value = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--") or name not in known:
            raise UsageError(f"No such option: {option}")
        if isinstance(known[name], bool):
            parameters[name] = value if given else True
        elif given or (value := next(left, "")):
            parameters[name] = value
        else:
            raise UsageError(f"Option {option} requires an argument")
    if not files:
        raise UsageError("Missing argument 'DATA...'")
    return files, parameters


def _order(files: list[str], parameters: dict[str, str | bool], told: dict[str, Any]) -> Order:
    from ..streams.features import FeatureSpec
    from ..training.order import Order, class_labels, class_weights

    with usage():
        features = FeatureSpec(
            label=told["label"],
            weight=told["weight"],
            qid=told["qid"],
            numeric=told["numeric"] or (),
            categorical=told["categorical"] or (),
            text=grams_of(told["text"]),
            drop=told["drop"] or (),
            crosses=told["cross"] or (),
            nulls=told["nulls"] or (),
            bits=told["bits"] or None,
            names=told["names"],
        )
        own = {name: told[name] for name in Order.__dataclass_fields__ if name in told}
        own |= {"data": tuple(files), "features": features, "parameters": parameters}
        own |= {"zero_based": not told["one_based"], "intercept": not told["no_intercept"]}
        own |= {"classes": class_labels(told["classes"]) if told["classes"] else ()}
        own |= {"class_weight": class_weights(tuple(told["class_weight"] or ()))}
        return Order(**own)


# ---- running


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _run(order: Order, show: Show, given: set[str]) -> None:
    from ..training import Interrupted
    from ..training.run import OutputError, Run, check_output

    try:
        check_output(order.output)
    except OutputError as error:
        raise UsageError(str(error)) from None
    if order.algorithm == "certified":
        _solve(order, show, given)
        return
    order, learner = _begun(order, given)
    with show, Run(order, learner, show) as run, _signals(run):
        _check_formats(run.stream.formats, given)
        if order.passes > 1 and not run.stream.rereadable:
            raise UsageError(f"passes {order.passes}: {', '.join(run.stream.names)} can be read once")
        try:
            run()
        except Interrupted:
            run.keep()
            show.stop()
            rows = run.session.facts.all_rows
            raise Stopped(
                f"interrupted after {rows:,} rows, kept in {run.keeper.path}; to go on, add --resume to the command"
            ) from None
        show.summary(run)


def _check_formats(formats: list[str], given: set[str]) -> None:
    """Refuse options that mean nothing in these formats, rather than let them seem to work."""
    for name in (name for name in MEANT if name in given):
        if not set(formats) & {"cache", *MEANT[name]}:  # what a cache holds is compared with what is told
            told = ", ".join(dict.fromkeys(formats))
            raise UsageError(f"--{name.replace('_', '-')} means nothing in {told}, only in {', '.join(MEANT[name])}")


def _begun(order: Order, given: set[str]) -> tuple[Order, Learner]:
    """Return a learner that knows nothing, or the one of the model to go on from and the order with what it brings."""
    if order.initial is None:
        with usage():
            return order, order.learner()
    own = sorted(given - set(WITH_INITIAL))
    if own:
        raise UsageError(f"a model to go on from brings its own --{own[0].replace('_', '-')}")
    return order.going_on()


def _run_on(address: str, rows: int | None, order: Order, show: Show, given: set[str]) -> None:
    """Run on a Dask cluster, which is imported here and nowhere else."""
    from ..training import Interrupted
    from ..training.run import OutputError, check_output

    try:
        from ..cluster.clients import connected
        from ..cluster.train import REFUSED, ClusterRun
        from ..engines.sums import refusal
    except ImportError as error:
        raise UsageError(f"--cluster needs Dask ({error.name}): pip install 'proxstream[cluster]'") from None
    try:
        check_output(order.output)
    except OutputError as error:
        raise UsageError(str(error)) from None
    if order.algorithm == "certified":
        raise UsageError("--algorithm certified does not go with --cluster: use proxstream.cluster.DaskSDCAClassifier")
    for name in sorted(given & set(REFUSED)):
        raise UsageError(f"--{name.replace('_', '-')} does not go with --cluster: {REFUSED[name]}")
    order, learner = _begun(order, given)
    reason = refusal(learner.algorithm, learner.engine, learner.average)
    if learner.ranking:
        reason = "rows of a query may lie in two files"
    if reason:
        raise UsageError(f"--cluster: {reason}")
    with connected(address) as client, show:
        run = ClusterRun(order, learner, show, client, rows)
        _check_formats([part.data.format for part in run.parts.parts], given)
        with _signals(run):
            try:
                run()
            except Interrupted:
                run.keep()
                show.stop()
                raise Stopped(
                    f"interrupted after {run.session.facts.all_rows:,} rows, kept in {run.keeper.path}; to go on, add "
                    "--resume to the command"
                ) from None
        show.summary(run)  # type: ignore[arg-type]


def _solve(order: Order, show: Show, given: set[str]) -> None:
    from .. import modelfile
    from ..training.certified import CertifiedRun

    online = sorted(given & set(ONLINE))
    if online:
        raise UsageError(f"certified solves in memory, without --{online[0].replace('_', '-')}")
    with usage():
        run = CertifiedRun(order)
    run.open()
    _check_formats(run.stream.formats, given)
    run.read()
    with show:
        with usage():
            run.solve()
        modelfile.save(run.model(), order.output)
        show.solved(run)


@contextmanager
def _signals(run: Any) -> Iterator[None]:
    """Let an interrupt, or a wish to terminate, stop the run between two chunks."""

    def stop(number: int, frame: object) -> None:
        run.stop()

    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _default(value: Any) -> str:
    """Return a default as one would type it; an option that is off takes no value."""
    if isinstance(value, bool):
        return ""
    return f" {type(value).__name__.lower() if hasattr(value, 'solve') else value}"
