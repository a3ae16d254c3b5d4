"""The progress bar: its length, its colours and its text, on terminals of all kinds."""

from __future__ import annotations

import io
import os
import re

import pytest

from proxstream.cli import bar

FACTS = ("71,226 rows", "32,835 rows/s", "loss 0.22239")


class Terminal(io.StringIO):
    """Remembers what is written to a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def line(self) -> str:
        """Return the last line as it looks."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue().rpartition(bar.ERASE)[2])


@pytest.fixture
def width(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    columns: int = getattr(request, "param", 120)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((columns, 40)))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return columns


@pytest.mark.parametrize("done", range(0, 101, 7))
def test_the_bar_is_as_long_as_the_share_that_is_done(done: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    bar.Bar(terminal, 0, 100).draw(done, FACTS)
    cells = terminal.line()[: bar.CELLS]
    assert cells.count("━") + cells.count("╸") / 2 == round(bar.CELLS * 2 * done / 100) / 2
    assert terminal.line()[bar.CELLS :].startswith(f" {done:3}% 71,226 rows, 32,835 rows/s, loss 0.22239, ETA ")
    assert "\x1b[3" not in terminal.getvalue()


@pytest.mark.parametrize("width", [200, 80, 70, 60, 50, 40, 30], indirect=True)
def test_a_bar_fits_the_terminal_and_leaves_out_whole_facts(width: int) -> None:
    terminal = Terminal()
    bar.Bar(terminal, 0, 100).draw(35, FACTS)
    line = terminal.line()
    assert len(line) < width
    found = re.fullmatch(r"[━╸╺]+  35% (.*)ETA -:--:--", line)
    assert found
    assert ", ".join(FACTS).startswith(found[1].removesuffix(", "))
    assert (found[1] == "71,226 rows, 32,835 rows/s, loss 0.22239, ") == (width >= 70)


def test_lines_are_written_above_the_bar(width: int) -> None:
    terminal = Terminal()
    drawn = bar.Bar(terminal, 0, 100)
    drawn.draw(50, FACTS)
    before = terminal.line()
    drawn.write("a line")
    assert terminal.line() == f"a line\n{before}"
    drawn.erase()
    assert terminal.line() == ""


def test_the_time_left_follows_the_speed_since_the_first_step(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(bar.time, "monotonic", lambda: now)
    terminal = Terminal()
    drawn = bar.Bar(terminal, 20, 100)  # resumed
    seen = []
    for now, done in ((0.0, 20), (60.0, 30), (62.0, 40), (70.0, 60), (80.0, 100)):  # noqa: B007 - read by the clock
        drawn.draw(done, FACTS)
        seen.append(terminal.line().split()[-1])
    assert seen == ["-:--:--", "-:--:--", "0:00:12", "0:00:13", "0:00:00"]


def test_a_terminal_without_the_signs_gets_plain_ones(width: int) -> None:
    terminal = Terminal("ascii")
    bar.Bar(terminal, 0, 100).draw(50, FACTS)
    assert terminal.line().isascii()
    assert terminal.line().startswith("-" * bar.CELLS)


def test_no_bar_where_a_line_cannot_be_erased(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bar.can_draw(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not bar.can_draw(Terminal())
    assert not bar.can_draw(io.StringIO())
