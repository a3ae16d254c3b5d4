"""Where lanes stand, and which rows they take next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .lanes import Told
from .reading import Place

Rows = tuple[int, int, int]  # a partition, and rows of it: the first, and the one behind the last


class Places:
    """The places of all lanes, pass after pass.

    Of partitions in memory the rows are counted, so all is known in advance. Files are read until they end: a place is
    then what the lane told last, and a round that is planned before that stands where it does not know. No round has
    rows of two passes.

    Parameters
    ----------
    passes : of each pass the partitions of each lane, by number
    rows : rows of each partition, None for files
    number, places, done : where an earlier run stood: the pass, and the lanes in it

    Examples
    --------
    >>> places = Places([[[0, 2], [1]]], (3, 5, 2))
    >>> places.take(4)
    [[(0, 0, 3), (2, 0, 1)], [(1, 0, 4)]]
    >>> places.take(4), places.more()
    ([[(2, 1, 2)], [(1, 4, 5)]], False)
    """

    def __init__(
        self,
        passes: Sequence[list[list[int]]],
        rows: Sequence[int] | None,
        number: int = 0,
        places: Iterable[Place] = (),
        done: Iterable[bool] = (),
    ) -> None:
        self._passes, self._rows, self.number = passes, rows, number
        self.places = list(places) or [Place()] * len(self.lanes)
        self.done = list(done) or [not lane for lane in self.lanes]
        self._pass_by()

    @property
    def lanes(self) -> list[list[int]]:
        """The partitions of each lane in this pass."""
        return self._passes[self.number]

    def copy(self) -> Places:
        """Return places that can go on apart."""
        return Places(self._passes, self._rows, self.number, self.places, self.done)

    @property
    def ended(self) -> bool:
        """Whether no lane has more rows in this pass."""
        return all(self.done)

    def more(self) -> bool:
        """Tell whether any lane may have rows, in this pass or in one to come."""
        return not self.ended or (self.number + 1 < len(self._passes) and (self._rows is None or any(self._rows)))

    def take(self, rows: int) -> list[Any]:
        """Return the next rows of each lane and move behind them: None where there are none, [] where files tell."""
        if self.ended:
            self.number += 1
            self.places, self.done = [Place()] * len(self.lanes), [not lane for lane in self.lanes]
            self._pass_by()
        return [None if done else self._taken(lane, rows) for lane, done in enumerate(self.done)]

    def _taken(self, lane: int, rows: int) -> list[Rows]:
        if self._rows is None:
            return []
        found: list[Rows] = []
        while rows > 0 and not self.done[lane]:
            place = self.places[lane]
            part = self.lanes[lane][place.part]
            stop = min(place.row + rows, self._rows[part])
            found.append((part, place.row, stop))
            rows -= stop - place.row
            self.places[lane] = place._replace(row=stop)
            self._pass_by()
        return found

    def _pass_by(self) -> None:
        """Move over partitions that have no rows left."""
        if self._rows is None:
            return
        for lane, parts in enumerate(self.lanes):
            place = self.places[lane]
            while place.part < len(parts) and place.row >= self._rows[parts[place.part]]:
                place = Place(place.part + 1)
            self.places[lane], self.done[lane] = place, place.part >= len(parts)

    def told(self, number: int, several: tuple[Told, ...]) -> None:
        """Take in where lanes of files stand in a pass."""
        if self._rows is None and self.number == number:
            for told in several:
                self.places[told.lane], self.done[told.lane] = told.place, told.done

    def needed(self) -> set[int]:
        """Return the partitions that lanes have still to take rows of in this pass."""
        return {part for lane, place in zip(self.lanes, self.places, strict=True) for part in lane[place.part :]}
