"""The papers' experiments, one command each, beside the papers' own numbers.

An experiment is a module that ends with `EXPERIMENT`, a record of its title, its paper and `perform`, which is given a
`Run` (data, seed, quick or in full, processes) and returns a `Report` of tables, figures and claims. It knows nothing
of files, pages or terminals: `report.drawing` draws and `page` writes. To add an experiment, write its module and
enter it below.

>>> from proxstream import reproduce
>>> reproduce.experiment("no-such")
Traceback (most recent call last):
ValueError: unknown experiment 'no-such'; see proxstream reproduce --list
"""

from __future__ import annotations

from importlib import import_module

from .experiment import Claim, Experiment, Figure, Report, Table
from .run import Run

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Figure", "Report", "Run", "Table", "experiment"]

# The command's name -> the module, in the order in which they are listed.
EXPERIMENTS: dict[str, str] = {
    "rda-mnist": "rda_mnist",
    "adagrad-text": "adagrad_text",
    "adagrad-mnist": "adagrad_mnist",
    "adagrad-census": "adagrad_census",
    "adagrad-ranking": "adagrad_ranking",
    "ftrl-oscillation": "ftrl_oscillation",
    "adagrad-motivation": "adagrad_motivation",
    "regret": "regret",
    "accelerated-rda": "accelerated_rda",
    "sdca-rates": "sdca_rates",
}


def experiment(name: str) -> Experiment:
    """Return an experiment by its name, importing its module.

    Parameters
    ----------
    name
        One of `EXPERIMENTS`.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"unknown experiment {name!r}; see proxstream reproduce --list")
    found = import_module(f".{EXPERIMENTS[name]}", __name__).EXPERIMENT
    assert isinstance(found, Experiment)
    return found
