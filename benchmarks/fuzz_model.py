"""A million model files gone wrong: each is refused in one line or loads and learns, and memory stays where it was.

`python -m benchmarks fuzz_model [--mutants N] [--seed S]` from the root of the repository.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path

from tests.models.model_mutants import good, mutants, outcome

from . import harness

WARM = 2000  # mutants after which all code has been imported and compiled


def main(args: list[str]) -> None:
    """Load mutants and count what became of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz_model")
    parser.add_argument("--mutants", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args(args)
    began, began_cpu, counted, warm = time.perf_counter(), time.process_time(), Counter[str](), 0
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        path = Path(folder) / "mutant.psm"
        files = good(path)
        for number, raw in enumerate(islice(mutants(files, parsed.seed), parsed.mutants)):
            try:
                counted[outcome(raw, path)] += 1
            except BaseException:
                kept = Path(tempfile.gettempdir()) / f"mutant-{parsed.seed}-{number}.psm"
                kept.write_bytes(raw)
                print(f"mutant {number} of seed {parsed.seed}, kept as {kept}:")
                raise
            if number == WARM:
                warm = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if number % 50_000 == 0:
                print(f"{number:>9,}  {time.perf_counter() - began:8.1f} s  {dict(counted)}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures = {"mutants": parsed.mutants, "seed": parsed.seed, **counted, "crashes": 0}
    figures |= {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - began_cpu}
    figures |= {
        "peak_megabytes": peak / 1024,
        f"megabytes_grown_after_the_first_{WARM}": (peak - warm) / 1024 if warm else 0.0,
    }
    harness.save("fuzz_model", [harness.listed("Mutated model files", figures)], figures)
