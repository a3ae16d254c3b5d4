"""What experiments measure, against closed forms and plain loops that share no code with them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from proxstream.reproduce import Run, adagrad_motivation, ftrl_oscillation, sdca_rates
from proxstream.reproduce.sdca_rates import Contest, Solve, Source


@pytest.mark.parametrize("adversary", list(ftrl_oscillation.ADVERSARIES))
@pytest.mark.parametrize("name", [ftrl_oscillation.MIRROR, ftrl_oscillation.NATIVE])
def test_points_of_the_oscillation_are_those_of_the_closed_form(name: str, adversary: str) -> None:
    """Equation 37 by hand: eta = 1/2, lambda = 1/2."""
    lam, x, sum_g, points = 0.5, 0.0, 0.0, [0.0]
    for t in range(1, 17):
        if t == 1:
            g = -5.75
        elif adversary == "alternating":
            g = 11.0 if t % 2 == 0 else -11.0
        else:
            g = 11.0 if x > 0 else -11.0
        sum_g += g
        b, weight = (g - 2.0 * x, lam) if name == ftrl_oscillation.MIRROR else (sum_g, t * lam)
        x = 0.0 if abs(b) <= weight else -0.5 * (b - np.sign(b) * weight)
        points.append(x)
    game = ftrl_oscillation.play(name, adversary)
    np.testing.assert_allclose(game.x, points, atol=1e-12)
    suffered = sum(g * x + lam * abs(x) for g, x in zip(game.g, game.x, strict=False))
    assert game.regret == pytest.approx(suffered, abs=1e-9)
    assert game.regret <= game.bound


@pytest.mark.exhaustive
def test_the_walk_is_that_of_a_plain_loop() -> None:
    d, cycles = 9, 6
    x, g2, lost = np.zeros((2, d)), np.zeros(d), np.zeros((2, cycles))
    t = 0
    for cycle in range(cycles):
        for i in range(d):
            t += 1
            steps = (1.0 / np.sqrt(t), 1.0 / np.sqrt(g2[i] + 1.0))
            for k, step in enumerate(steps):
                loss = max(0.0, 1.0 - x[k, i])
                lost[k, cycle] += loss
                if loss > 0.0:
                    x[k, i] = min(1.0, x[k, i] + step)
                    g2[i] += k
    want = np.cumsum(lost, axis=1)
    for name, losses in zip((adagrad_motivation.DESCENT, adagrad_motivation.DIAGONAL), want, strict=True):
        task = adagrad_motivation.Walk(name, d, 0, tuple(range(1, cycles + 1)), seed=0)
        np.testing.assert_allclose(adagrad_motivation.walk(task), losses, rtol=1e-12)
    np.testing.assert_allclose(adagrad_motivation.equation_6(d, cycles), want[0], rtol=1e-12)


def test_the_three_methods_come_down_to_the_certified_optimum_and_not_below() -> None:
    source = Source(None, 4)
    best = sdca_rates.optimum(source)
    lam = 3e-4
    above = {
        method: np.array(sdca_rates.objectives(Contest(source, method, knob, 150, seed=1))) - best.objective
        for method, knob in (("SDCA", lam), ("FISTA", best.smoothness), ("RDA", 0.3))
    }
    for method, distance in above.items():
        assert len(distance) == 150
        assert distance.min() >= -1e-8, method
        assert distance[-1] < 0.2 * distance[0], method
    # The optimum with (lam/2) ||w||^2 added is at most (lam/2) ||w*||^2 above that without.
    assert above["SDCA"][-1] <= 0.5 * lam * best.norm**2
    # FISTA after k steps is at most 2 L ||w*||^2 / (k + 1)^2 above the optimum.
    k = np.arange(1, 151)
    assert (above["FISTA"] <= 2.0 * best.smoothness * best.norm**2 / (k + 1) ** 2).all()


def test_gaps_fall_within_the_theorem_and_bound_the_distance_to_the_optimum() -> None:
    source = Source(None, 4)
    n = len(sdca_rates.rows_of(source)[1])
    gaps = sdca_rates.gaps(Solve(source, sdca_rates.SMOOTHED, 10.0, "I", epochs=40, runs=1, seed=0))
    assert gaps[-1] <= sdca_rates.LEAST
    epochs = sdca_rates.first_at(gaps, sdca_rates.GAP)
    assert epochs is not None
    assert epochs <= sdca_rates.theorem_1(n, 10.0)
    assert sdca_rates.first_at(gaps, 1e-30) is None
    # n = 100, lambda n = 1, eps = 0.1: (100 + 100) ln(200 / 0.1) steps; and 100 + 20 * 100 / 0.1 steps of the hinge.
    assert sdca_rates.theorem_1(100, 1.0, at=0.1) == pytest.approx(2.0 * np.log(2000.0))
    assert sdca_rates.theorem_2(100, 1.0, at=0.1) == pytest.approx(1.0 + 200.0)


def test_numbers_do_not_depend_on_the_processes() -> None:
    tasks = [adagrad_motivation.Turn(adagrad_motivation.FULL, d, 1e-9, 5) for d in (4, 6)]
    assert Run(jobs=2).map(adagrad_motivation.turned, tasks, "") == [pytest.approx(4.0), pytest.approx(6.0)]
    assert Run(jobs=2).map(adagrad_motivation.turned, tasks, "") == Run(jobs=1).map(
        adagrad_motivation.turned, tasks, ""
    )


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    program = tmp_path / "sleep.py"
    program.write_text(
        "import time\nfrom proxstream.reproduce import Run\n"
        "if __name__ == '__main__':\n    Run(jobs=2).map(time.sleep, [3600.0, 3600.0], 'sleeping')\n"
    )
    parent = subprocess.Popen([sys.executable, str(program)], stderr=subprocess.DEVNULL)

    def children() -> list[int]:
        listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []

    def waited(until: float = 600.0) -> list[int]:
        end = time.monotonic() + until
        while time.monotonic() < end:
            workers = [pid for pid in children() if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            threads = [len(os.listdir(f"/proc/{pid}/task")) for pid in workers]
            if len(workers) == 2 and min(threads) > 1:
                return workers
            time.sleep(0.1)
        raise AssertionError("the processes did not start")

    workers = waited()
    parent.kill()
    parent.wait()
    end = time.monotonic() + 600.0
    while any(_running(pid) for pid in workers):
        assert time.monotonic() < end, "a process goes on without its parent"
        time.sleep(0.1)


def _running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
