"""`proxstream train`: trains a model from files, in one pass or more, with a progress table on stderr."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import (
    Bits,
    Categorical,
    Cross,
    Data,
    Drop,
    Format,
    Label,
    MaxFeatures,
    Nulls,
    Numeric,
    OnError,
    Qid,
    Quarantine,
    Stopped,
    Text,
    UsageError,
    Weight,
    check_places,
    grams_of,
    usage,
)
from .progress import ProgressReport

if TYPE_CHECKING:
    from ..learner.learner import Learner
    from ..training.config import TrainConfig
    from ..training.run import Run

# Options that go together with --initial; the others are taken from the model.
WITH_INITIAL = (
    *("data", "output", "format", "passes", "class_weight", "early_stop", "threads", "on_error"),
    *("holdout_every", "holdout_share", "holdout_file"),
    *("quarantine", "chunk_bytes", "max_features", "quiet", "progress_every", "metrics_file", "checkpoint", "resume"),
    *("weights_only", "initial", "cluster", "rows_per_round"),
)
# Options that do not apply to --algorithm certified.
ONLINE = (
    *("passes", "holdout_every", "holdout_share", "holdout_file", "early_stop", "pairs", "average", "progress_every"),
    *("checkpoint", "resume", "initial"),
)

# Options that apply to some formats only.
TABLES = ("csv", "tsv", "jsonl", "parquet", "arrow")
FORMATS_OF = {
    **dict.fromkeys(("label", "weight", "qid", "categorical", "numeric", "text", "nulls"), TABLES),
    **dict.fromkeys(("cross", "drop"), (*TABLES, "vw")),
    **dict.fromkeys(("one_based", "max_features"), ("svmlight",)),
}

EPILOG = """\b
Parameters of the algorithm are options of the same name, such as --alpha and
--penalty-weight below; --list shows them all.

\b
Examples:
  proxstream train clicks.svm -o model.psm
  proxstream train day1.vw.gz day2.vw.gz -o model.psm -b 20 --l1 1e-6
  proxstream train clicks.csv -o model.psm --label click --cross "site*device"
  proxstream train clicks.svm -o model.psm --algorithm ftrl_proximal --alpha 0.5 --penalty-weight once
  proxstream train clicks.svm -o model.psm --passes 5 --holdout-every 10 --early-stop 1
  proxstream train clicks.svm -o model.psm --checkpoint 60s --resume
"""


def _list(wanted: bool) -> None:
    """Print the algorithms and their parameters, and exit."""
    if not wanted:
        return
    from ..core import parsing
    from ..core.algorithms import ALGORITHMS

    for name in (*ALGORITHMS, "certified"):
        options = (f"--{key.replace('_', '-')}{_default(value)}" for key, value in parsing.parameters(name).items())
        typer.echo(f"{name:<20}{'  '.join(options)}")
    raise typer.Exit


def train(
    context: typer.Context,
    data: Data,
    output: Annotated[str, typer.Option("--output", "-o", metavar="MODEL", help="Model file to write.")],
    format: Format = None,
    loss: Annotated[str, typer.Option(metavar="NAME", help="Loss, with parameters: huber(0.5).")] = "logistic",
    algorithm: Annotated[
        str, typer.Option(metavar="NAME", help="Algorithm: rda(gamma=2); certified loads all data.")
    ] = "auto_ftrl",
    l1: Annotated[float, typer.Option("--l1", metavar="LAM", help="Strength of the l1 penalty.")] = 0.0,
    l2: Annotated[float, typer.Option("--l2", metavar="LAM", help="Strength of the l2 penalty, lam/2 |w|^2.")] = 0.0,
    penalty: Annotated[
        str | None, typer.Option(metavar="SUM", help="More penalties: 'nonnegative', 'berhu(0.1, 2)'.")
    ] = None,
    passes: Annotated[int, typer.Option(metavar="N", help="Passes over the data.")] = 1,
    bits: Bits = 22,
    cross: Cross = None,
    label: Label = None,
    weight: Weight = None,
    qid: Qid = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    text: Text = None,
    drop: Drop = None,
    nulls: Nulls = None,
    names: Annotated[bool, typer.Option("--names", help="Store feature names in the model, for inspect.")] = False,
    one_based: Annotated[bool, typer.Option("--one-based", help="svmlight: subtract 1 from indices.")] = False,
    max_features: MaxFeatures = 1 << 26,
    dtype: Annotated[str, typer.Option(metavar="TYPE", help="Precision of the model: float32 or float64.")] = "float32",
    classes: Annotated[
        str | None,
        typer.Option(metavar="N|LABELS", help="Labels of the classes: 1,2,3 or no,yes; N: 0..N-1. [default: found]"),
    ] = None,
    positive: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Of two classes the positive one. [default: the last by name]")
    ] = None,
    class_weight: Annotated[
        list[str] | None, typer.Option(metavar="LABEL=WEIGHT", help="Weight of the rows with a label; repeatable.")
    ] = None,
    holdout_every: Annotated[int, typer.Option(metavar="N", help="Hold out every N-th row: predict, never learn.")] = 0,
    holdout_share: Annotated[float, typer.Option(metavar="SHARE", help="Hold out a share of the rows.")] = 0.0,
    holdout_file: Annotated[str | None, typer.Option(metavar="FILE", help="Predict FILE after each pass.")] = None,
    early_stop: Annotated[
        int, typer.Option(metavar="N", help="Stop after N passes without a lower held-out loss.")
    ] = 0,
    threads: Annotated[int, typer.Option(metavar="N", help="Training threads, without locks.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0,
    pairs: Annotated[int | None, typer.Option(metavar="N", help="Ranking: sampled partners per row.")] = None,
    average: Annotated[bool, typer.Option("--average", help="Predict with averaged weights.")] = False,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Fit no intercept.")] = False,
    on_error: OnError = "stop",
    quarantine: Quarantine = None,
    chunk_bytes: Annotated[int, typer.Option(hidden=True)] = 1 << 22,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    progress_every: Annotated[
        int, typer.Option(metavar="ROWS", help="Rows between lines of the table; 0: powers of two.")
    ] = 0,
    metrics_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write progress and summary as JSON lines.")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="ROWS|SECs", help="Write MODEL.ckpt every so many rows, or seconds: 30s.")
    ] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Resume from MODEL.ckpt if it exists.")] = False,
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Write a small model for prediction only.")
    ] = False,
    initial: Annotated[
        str | None, typer.Option("--initial", "-i", metavar="MODEL", help="Continue training from a model.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|local[:N]", help="Train on a Dask cluster; paths must be readable by its workers."
        ),
    ] = None,
    rows_per_round: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS", help="Cluster: rows per synchronization round, over all workers. [default: by features]"
        ),
    ] = None,
    list_algorithms: Annotated[
        bool, typer.Option("--list", is_eager=True, callback=_list, help="List the algorithms and their parameters.")
    ] = False,
) -> None:
    """Train a model from files.

    Each row is predicted, then learned; a table on stderr shows the progress at rows 1, 2, 4, 8, ...
    """
    options = dict(locals())
    files, parameters = _split(data)
    config = _config(files, parameters, options)
    given = {name for name in options if _is_given(context, name)} | set(parameters)
    outputs = {"-o": output, "--metrics-file": metrics_file, "--quarantine": quarantine}
    check_places(outputs | {"checkpoint": f"{output}.ckpt"}, [*files, holdout_file])
    _check_output(output)
    report = ProgressReport(quiet, metrics_file)
    if cluster is not None:
        _run_on_cluster(cluster, rows_per_round, config, report, given)
        return
    if rows_per_round is not None:
        raise UsageError("--rows-per-round applies to --cluster only")
    if config.algorithm == "certified":
        _solve(config, report, given)
    else:
        _run(config, report, given)


# ---- from options to a configuration


def _split(words: list[str]) -> tuple[list[str], dict[str, str | bool]]:
    """Separate the parameters of the algorithm, which typer does not know, from the files."""
    from ..core import parsing
    from ..core.algorithms import ALGORITHMS

    known = {key: value for name in (*ALGORITHMS, "certified") for key, value in parsing.parameters(name).items()}
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


def _config(files: list[str], parameters: dict[str, str | bool], options: dict[str, Any]) -> TrainConfig:
    from ..io.features.spec import FeatureSpec
    from ..training.config import TrainConfig, parse_class_weights, parse_classes

    with usage():
        features = FeatureSpec(
            label=options["label"],
            weight=options["weight"],
            qid=options["qid"],
            numeric=options["numeric"] or (),
            categorical=options["categorical"] or (),
            text=grams_of(options["text"]),
            drop=options["drop"] or (),
            crosses=options["cross"] or (),
            nulls=options["nulls"] or (),
            bits=options["bits"] or None,
            names=options["names"],
        )
        values = {name: options[name] for name in TrainConfig.__dataclass_fields__ if name in options}
        values |= {"data": tuple(files), "features": features, "parameters": parameters}
        values |= {"zero_based": not options["one_based"], "intercept": not options["no_intercept"]}
        values |= {"classes": parse_classes(options["classes"]) if options["classes"] else ()}
        values |= {"class_weight": parse_class_weights(tuple(options["class_weight"] or ()))}
        return TrainConfig(**values)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _check_output(path: str) -> None:
    from ..training.run import OutputError, check_output

    try:
        check_output(path)
    except OutputError as error:
        raise UsageError(str(error)) from None


def _check_formats(formats: Sequence[str], given: set[str]) -> None:
    """Raise a UsageError for options that do not apply to these formats."""
    for name in (name for name in FORMATS_OF if name in given):
        if not set(formats) & {"cache", *FORMATS_OF[name]}:  # a cache is compared with the options
            found = ", ".join(dict.fromkeys(formats))
            raise UsageError(f"{_option(name)} does not apply to {found}, only to {', '.join(FORMATS_OF[name])}")


# ---- running


def _run(config: TrainConfig, report: ProgressReport, given: set[str]) -> None:
    from ..training.classes import find_classes
    from ..training.config import ConfigError
    from ..training.run import Run

    config, learner = _initial(config, given)
    try:
        run = Run(find_classes(config, report.note), report, learner)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    with report, run:
        _check_formats(run.stream.formats, given)
        _suggest_categorical(run, report)
        if config.passes > 1 and not run.stream.rereadable:
            raise UsageError(f"--passes {config.passes}: {', '.join(run.stream.names)} can be read only once")
        _run_until_stopped(run, report)


def _suggest_categorical(run: Run, report: ProgressReport) -> None:
    """Point out integer columns that look like identifiers."""
    from ..io import suggest_categorical

    if report.quiet or not set(run.stream.formats) & set(TABLES) or not run.stream.rereadable:
        return
    named = [word for entry in run.config.features.numeric for word in entry.split(",")]
    found = [name for name in suggest_categorical(run.stream) if not any(fnmatch(name, word) for word in named)]
    if found:
        columns = ",".join(found)
        report.note(
            f"integer columns that look like identifiers: {columns}; for categories add --categorical {columns}"
        )


def _run_until_stopped(run: Any, report: ProgressReport) -> None:
    """Run to the end and print the summary; an interrupt writes a checkpoint."""
    from ..training import Interrupted

    with _signals(run):
        try:
            run()
        except Interrupted:
            run.save_checkpoint()
            report.stop()
            rows = run.session.progress.all_rows
            raise Stopped(
                f"interrupted after {rows:,} rows; checkpoint written to {run.checkpoints.path}; to resume, add "
                "--resume to the command"
            ) from None
    report.summary(run)


def _initial(config: TrainConfig, given: set[str]) -> tuple[TrainConfig, Learner | None]:
    """Return the model to continue from, if there is one, and the configuration with its settings."""
    if config.initial is None:
        return config, None
    for name in sorted(given - set(WITH_INITIAL)):
        raise UsageError(f"{_option(name)} cannot be changed together with --initial: it is taken from the model")
    return config.continue_initial()


def _run_on_cluster(
    address: str, rows: int | None, config: TrainConfig, report: ProgressReport, given: set[str]
) -> None:
    """Run on a Dask cluster; Dask is imported here and nowhere else."""
    try:
        from ..cluster.client import connect
        from ..cluster.train import REFUSED, ClusterRun
        from ..learner.merge import refusal
        from ..training.classes import find_classes
    except ImportError as error:
        raise UsageError(f"--cluster needs Dask ({error.name}): pip install 'proxstream[cluster]'") from None
    if config.algorithm == "certified":
        raise UsageError("--algorithm certified cannot run on a cluster; use proxstream.cluster.DaskSDCAClassifier")
    for name in sorted(given & set(REFUSED)):
        raise UsageError(f"{_option(name)} does not apply to --cluster: {REFUSED[name]}")
    config, initial = _initial(config, given)
    with usage():
        config = find_classes(config, report.note)
        learner = initial or config.learner()
    reason = refusal(learner.algorithm, learner.engine, learner.average)
    if learner.ranking:
        reason = "the rows of a query may be in two files"
    if reason:
        raise UsageError(f"--cluster: {reason}")
    with connect(address) as client, report:
        run = ClusterRun(config, learner, report, client, rows)
        _check_formats(run.formats, given)
        _run_until_stopped(run, report)


def _solve(config: TrainConfig, report: ProgressReport, given: set[str]) -> None:
    from ..models import file as modelfile
    from ..training.certified import CertifiedRun
    from ..training.classes import find_classes
    from ..training.config import ConfigError

    for name in sorted(given & set(ONLINE)):
        raise UsageError(f"{_option(name)} does not apply to --algorithm certified")
    try:
        config = find_classes(config, report.note)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    with usage():
        run = CertifiedRun(config)
    run.open()
    _check_formats(run.stream.formats, given)
    run.read()
    with report:
        with usage():
            run.solve()
        modelfile.save(run.model(), config.output)
        report.solved(run)


@contextmanager
def _signals(run: Any) -> Iterator[None]:
    """Stop the run between two chunks on SIGINT or SIGTERM."""

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
    """Return a default as typed on the command line; a flag has none."""
    if isinstance(value, bool):
        return ""
    return f" {type(value).__name__.lower() if hasattr(value, 'solve') else value}"
