"""What a run over partitions is to do, how far it has come, and what it tells of its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from .reading import Place


class Round(NamedTuple):
    """A round that has ended: rows learned in it and in all, mean loss so far, bytes of changes sent, seconds.

    `sent` counts each lane's changes once and their sum once a worker, of two lanes the changes to the other's worker;
    with one worker nothing is sent.
    """

    number: int
    rows: int
    all_rows: int
    mean_loss: float
    sent: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """How a run goes about its rows.

    lanes : partitions that are learned side by side
    rows : rows a round, of all lanes together
    passes : partitions in the order of each pass
    fresh : the learner knows nothing yet
    tally : predictions are counted, and told
    held_out : share of each file's rows that are predicted and not learned
    settled : each pass ends before the next begins, and the learner then holds the state
    """

    lanes: int
    rows: int
    passes: Sequence[Sequence[int]]
    fresh: bool = True
    tally: bool = False
    held_out: Fraction = Fraction(0)
    settled: bool = False


@dataclass
class Standing:
    """How far a run has come, as a checkpoint keeps it."""

    number: int = 0  # of the pass
    round: int = 0  # of all passes
    rows: int = 0
    pass_rows: int = 0  # since the pass began
    n_bytes: int = 0
    skipped: int = 0  # bad rows that files had in this pass, or in the last one
    bad_labels: int = 0  # rows left out for their labels, of all passes
    zeros: bool = False
    negatives: bool = False
    places: list[Place] = field(default_factory=list)
    done: list[bool] = field(default_factory=list)
