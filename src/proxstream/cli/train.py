"""`proxstream train`: trains a model from files, in one pass or more, with a progress table on stderr."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import click
from click import Option, UsageError

from .command import Command, command, known_options, unknown
from .common import check_places, feature_options
from .errors import Stopped, usage
from .options import BAD_ROWS, DATA, FEATURES, FILE, FILE_NAME, FORMAT, MAX_FEATURES, REPORT
from .page import TrainingPage, check_report
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
    *("weights_only", "initial", "cluster", "rows_per_round", "shuffle_buffer", "report"),
)
# Options that do not apply to --algorithm certified.
ONLINE = (
    *("passes", "shuffle_buffer", "early_stop", "pairs", "average", "progress_every"),
    *("checkpoint", "resume", "initial"),
)

# Options that apply to some formats only.
TABLES = ("csv", "tsv", "jsonl", "parquet", "arrow")
FORMATS_OF = {
    **dict.fromkeys(("label", "weight", "qid", "offset", "categorical", "numeric", "text", "nulls"), TABLES),
    "no_standardize": TABLES,
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
  proxstream train clicks.svm -o model.psm --l1 auto --choose nnz=1000
  proxstream train clicks.svm -o model.psm --algorithm ftrl_proximal --alpha 0.5 --penalty-weight once
  proxstream train clicks.svm -o model.psm --passes 5 --holdout-every 10 --early-stop 1
  proxstream train clicks.svm -o model.psm --checkpoint 60s --resume
  proxstream train clicks.svm -o model.psm --report run.html
"""


def _list(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    """Print the algorithms and their parameters, and exit."""
    if not wanted or context.resilient_parsing:
        return
    from ..core import parsing
    from ..core.algorithms import ALGORITHMS

    for name in (*ALGORITHMS, "certified"):
        parameters = parsing.parameters(name).items()
        click.echo(f"{name:<20}{'  '.join(f'{_option(key)}{_default(value)}' for key, value in parameters)}")
    context.exit()


class TrainCommand(Command):
    """A command that also completes the parameters of the algorithms."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return what a shell offers for an incomplete word."""
        from click.shell_completion import CompletionItem

        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            options = map(_option, _known_parameters())
            found += [CompletionItem(option) for option in options if option.startswith(incomplete)]
        return found


OPTIONS = {
    "Model": [
        Option(["--output", "-o"], required=True, type=FILE, metavar="MODEL", help="Model file to write."),
        Option(["--loss"], default="logistic", metavar="NAME", help="Loss, with parameters: huber(0.5)."),
        Option(["--algorithm"], default="auto_ftrl", metavar="NAME",
               help="Algorithm: rda(gamma=2); certified loads all data."),
        Option(["--list"], is_flag=True, is_eager=True, expose_value=False, callback=_list,
               help="List the algorithms and their parameters."),
        Option(["--l1"], default="0", metavar="LAM|auto|LIST",
               help="Strength of the l1 penalty; several are learned in one pass: auto, 1e-6,1e-5 or 1e-7:1e-3:9."),
        Option(["--choose"], metavar="RULE", help="Of several: best, 1se, nnz=N or loss=1%. [default: 1se]"),
        Option(["--keep-path"], is_flag=True, help="Of several: store all models, for proxstream choose."),
        Option(["--l2"], default=0.0, metavar="LAM", help="Strength of the l2 penalty, lam/2 |w|^2."),
        Option(["--penalty"], metavar="SUM", help="More penalties: 'nonnegative', 'berhu(0.1, 2)'."),
        Option(["--average"], is_flag=True, help="Predict with averaged weights."),
        Option(["--no-intercept"], is_flag=True, help="Fit no intercept."),
        Option(["--pairs"], type=int, metavar="N", help="Ranking: sampled partners per row."),
        Option(["--dtype"], default="float32", metavar="TYPE", help="Precision of the model: float32 or float64."),
        Option(["--initial", "-i"], type=FILE, metavar="MODEL", help="Continue training from a model."),
        Option(["--weights-only"], is_flag=True, help="Write a small model for prediction only."),
    ],
    "Data": [
        FORMAT,
        Option(["--passes"], default=1, metavar="N", help="Passes over the data."),
        Option(["--shuffle-buffer"], default=0, metavar="ROWS", help="Shuffle windows of so many rows; see --seed."),
        Option(["--one-based/--zero-based"], default=None, help="svmlight: index base. [default: --zero-based]"),
        MAX_FEATURES,
        *BAD_ROWS,
    ],
    "Labels": [
        Option(["--classes"], metavar="N|LABELS",
               help="Labels of the classes: 1,2,3 or no,yes; N: 0..N-1. [default: found]"),
        Option(["--positive"], metavar="LABEL", help="Of two classes the positive one. [default: the last by name]"),
        Option(["--class-weight"], metavar="LABEL=WEIGHT", multiple=True,
               help="Weight of the rows with a label; repeatable."),
    ],
    "Features": [
        *FEATURES,
        Option(["--names"], is_flag=True, help="Store feature names in the model, for inspect."),
        Option(["--no-standardize"], is_flag=True, help="Learn numeric columns in their own units."),
    ],
    "Held-out rows": [
        Option(["--holdout-every"], default=0, metavar="N", help="Hold out every N-th row: predict, never learn."),
        Option(["--holdout-share"], default=0.0, metavar="SHARE", help="Hold out a share of the rows."),
        Option(["--holdout-file"], **FILE_NAME, help="Predict FILE after each pass."),
        Option(["--early-stop"], default=0, metavar="N", help="Stop after N passes without a lower held-out loss."),
    ],
    "Run": [
        Option(["--threads"], default=1, metavar="N", help="Training threads, without locks."),
        Option(["--seed"], default=0, metavar="N", help="Random seed."),
        Option(["--checkpoint"], default="", show_default=False, metavar="ROWS|SECs",
               help="Write MODEL.ckpt every so many rows, or seconds: 30s."),
        Option(["--resume"], is_flag=True, help="Resume from MODEL.ckpt if it exists."),
        Option(["--chunk-bytes"], default=1 << 22, hidden=True),
        Option(["--cluster"], metavar="ADDRESS|local[:N]",
               help="Train on a Dask cluster; paths must be readable by its workers."),
        Option(["--rows-per-round"], type=int, metavar="ROWS",
               help="Cluster: rows per synchronization round, over all workers. [default: by features]"),
    ],
    "Output": [
        Option(["--quiet", "-q"], is_flag=True, help="Print errors only."),
        Option(["--progress-every"], default=0, metavar="ROWS",
               help="Rows between lines of the table; 0: powers of two."),
        Option(["--metrics-file"], **FILE_NAME, help="Write progress and summary as JSON lines."),
        REPORT,
    ],
}  # fmt: skip


@command(EPILOG, [DATA], OPTIONS, kind=TrainCommand, ignore_unknown_options=True)
def train(data: tuple[str, ...], **options: Any) -> None:
    """Train a model from files.

    Each row is predicted, then learned; a table on stderr shows the progress at rows 1, 2, 4, 8, ...
    """
    files, parameters = _split(data)
    config = _config(files, parameters, options)
    given = {name for name in options if _is_given(name)} | set(parameters)
    outputs = {"-o": config.output, "--metrics-file": options["metrics_file"], "--quarantine": options["quarantine"]}
    outputs |= {"checkpoint": f"{config.output}.ckpt", "--report": options["report"]}
    check_places(outputs, [*files, options["holdout_file"]])
    _check_output(config.output)
    check_report(options["report"], [config.initial])
    page = None if options["report"] is None else TrainingPage(options["report"])
    report = ProgressReport(options["quiet"], options["metrics_file"], page)
    if options["cluster"] is not None:
        _run_on_cluster(options["cluster"], options["rows_per_round"], config, report, given)
        return
    if options["rows_per_round"] is not None:
        raise UsageError("--rows-per-round applies to --cluster only")
    if config.algorithm == "certified":
        _solve(config, report, given)
    else:
        _run(config, report, given)


# ---- from options to a configuration


def _known_parameters() -> dict[str, Any]:
    """Return the parameters of all algorithms, with a default of each."""
    from ..core import parsing
    from ..core.algorithms import ALGORITHMS

    return {key: value for name in (*ALGORITHMS, "certified") for key, value in parsing.parameters(name).items()}


def _split(words: Sequence[str]) -> tuple[list[str], dict[str, str | bool]]:
    """Separate the parameters of the algorithm, which click does not know, from the files."""
    known: dict[str, Any] = {}
    files: list[str] = []
    parameters: dict[str, str | bool] = {}
    left = iter(words)
    for word in left:
        if not word.startswith("-") or word == "-":
            files.append(word)
            continue
        known = known or _known_parameters()
        option, given, value = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--") or name not in known:
            raise unknown("option", option, [*known_options(train), *map(_option, known)])
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
    from ..training.strengths import parse_strengths

    with usage():
        features = FeatureSpec(**feature_options(options))
        values = {name: options[name] for name in TrainConfig.__dataclass_fields__ if name in options}
        values |= {"data": tuple(files), "features": features, "parameters": parameters}
        one_based = options["one_based"]
        values |= {"zero_based": not one_based, "min_index": None if one_based is None else 0}
        values |= {"intercept": not options["no_intercept"]}
        values |= {"classes": parse_classes(options["classes"]) if options["classes"] else ()}
        values |= {"class_weight": parse_class_weights(options["class_weight"])}
        values |= {"l1": parse_strengths(options["l1"])}
        return TrainConfig(**values)


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
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
        if "no_standardize" in given and run.featurizer is not None and run.featurizer.standardizes:
            raise UsageError("--no-standardize: the rows of the cache were written without it; convert the table again")
        _suggest_categorical(run, report)
        if config.passes > 1 and not run.stream.rereadable:
            raise UsageError(f"--passes {config.passes}: {', '.join(run.stream.names)} can be read only once")
        _run_until_stopped(run, report)


def _suggest_categorical(run: Run, report: ProgressReport) -> None:
    """Point out integer columns that look like identifiers."""
    if report.quiet or not set(run.stream.formats) & set(TABLES) or not run.stream.rereadable:
        return
    from ..io import suggest_categorical

    named = [word for entry in run.config.features.numeric for word in entry.split(",")]
    found = [name for name in suggest_categorical(run.stream) if not any(fnmatch(name, word) for word in named)]
    if found:
        columns = ",".join(found)
        report.note(
            f"integer columns that look like identifiers: {columns}; for categories add --categorical {columns}"
        )


def _run_until_stopped(run: Any, report: ProgressReport) -> None:
    """Run to the end and print the summary; an interrupt writes a checkpoint."""
    from ..training.session import Interrupted

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
    from_zero = {"one_based"} if config.min_index == 0 and config.zero_based else set()  # --zero-based
    for name in sorted(given - set(WITH_INITIAL) - from_zero):
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
        from ..training.config import ConfigError
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
    learner.settle_scale()  # a new learner is made later, with the scale that the first rows prefer
    reason = refusal(learner.algorithm, learner.engine, learner.average)
    if learner.ranking:
        reason = "the rows of a query may be in two files"
    if reason:
        raise UsageError(f"--cluster: {reason}")
    with connect(address) as client, report:
        try:
            run = ClusterRun(config, learner, report, client, rows)
        except ConfigError as error:
            raise UsageError(str(error)) from None
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
