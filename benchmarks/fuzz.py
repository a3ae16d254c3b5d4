"""Fuzzing of the text parsers and the row cache: python -m benchmarks fuzz [--inputs 1000000] [--seed 0].

A few lines of svmlight or Vowpal Wabbit's text, from some thousands that are good or nearly so, are cut, doubled and
overwritten in random places, and parsed with bad lines left out; one text in 19 is compared row by row with a naive
parser. Beside them, row caches with changed bytes are read. Whatever a parser says, it must neither crash nor take more
and more memory; a changed cache must be refused. The inputs of a seed are always the same: a failure is printed with
the number of its input. Counts, seconds and memory of a run are kept with the other results.
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.io import naive_text, text_cases

import proxstream as ps
from proxstream.io import DataError, write_cache
from proxstream.io.features.spec import FeatureSpec
from proxstream.io.text.reader import BOM, PAD
from proxstream.io.text.svmlight import SvmlightParser
from proxstream.io.text.vw import VWParser
from proxstream.io.types import Settings

from . import harness

BITS = 12
COMPARED = 19  # one text in so many, of each parser's in turn
LINES, ODD = 4096, 0.3  # of each format, and how likely there is something odd in one
CACHES = 1000  # one input in so many is a cache
GROWTH = 64  # MiB of memory that a million inputs may take more than the first ten thousand


def mutant(lines: list[bytes], rng: random.Random) -> bytes:
    """Return a few of the lines, changed; a byte order mark is no business of a parser."""
    some = rng.choices(lines, k=rng.choice([0, 1, 2, 6, 15]))
    text = text_cases.mutated(b"\n".join(some) + rng.choice([b"", b"\n"]), rng)
    while text.startswith(BOM):
        text = text.removeprefix(BOM)
    return text


def parsed(parser: Any, text: bytes) -> tuple[list[Any], int]:
    """Return the rows of a text and the number of its bad lines."""
    lines = text if text.endswith(b"\n") else text + b"\n"
    buffer = np.frombuffer(bytearray(lines + bytes(PAD)), np.uint8)
    at, rows, bad = 0, [], 0
    while at < len(lines):
        found = parser.parse(buffer, at, len(lines))
        block, ends = found.rows, found.rows.indptr.tolist()
        pairs = list(zip(block.indices.tolist(), block.data.tolist(), strict=True))
        weights = block.c.tolist() if len(block.c) else [1.0] * block.n_rows
        rows += [(repr(block.y[i]), weights[i], pairs[ends[i] : ends[i + 1]]) for i in range(block.n_rows)]
        at = found.at
        if found.bad is not None:
            bad += 1
            at = lines.index(b"\n", at) + 1
    return rows, bad


def expected(format: str, text: bytes, digits: bool) -> tuple[list[Any], int]:
    """Return the same from the naive parser."""
    if format != "vw":
        rows, bad = naive_text.rows(text, naive_text.svmlight)
    else:
        rows, bad = naive_text.rows(text, naive_text.vw, bits=BITS, digits=digits)
    return [(repr(np.float64(row.y)), row.c, list(row.features.items())) for row in rows], bad


def read_changed_cache(whole: bytes, path: Path, rng: random.Random) -> None:
    """Read a row cache with some bytes changed, which must be refused unless they mean nothing."""
    changed = text_cases.mutated(whole, rng)
    path.write_bytes(changed)
    try:
        for _ in ps.open_stream(path, "cache"):
            pass
    except DataError:
        return
    if changed[:12] + changed[16:] != whole[:12] + whole[16:]:
        raise AssertionError("a changed row cache was read")


def main(arguments: list[str]) -> None:
    """Run the job."""
    options = argparse.ArgumentParser(prog="python -m benchmarks fuzz", description=__doc__)
    options.add_argument("--inputs", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=0)
    parsed = options.parse_args(arguments)
    numbered = SvmlightParser(Settings(qid=False, chunk_bytes=1 << 12))
    parsers: dict[tuple[str, bool], Any] = {("svmlight", False): numbered, ("plain", False): numbered}
    for digits in (False, True):
        spec = FeatureSpec(bits=BITS)
        parsers["vw", digits] = VWParser(Settings(features=spec, chunk_bytes=1 << 12, options={"digits": digits}))
    drawn = random.Random(parsed.seed)
    lines = {format: [text_cases.LINES[format](drawn, ODD) for _ in range(LINES)] for format, _ in parsers}
    counts = {"rows": 0, "bad lines": 0, "compared": 0, "caches": 0}
    begun, begun_cpu, early = time.perf_counter(), time.process_time(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.psr"
        write_cache(ps.open_stream(io.BytesIO(b"1 3:0.5 70000:1\n-1 2:1\n" * 20), "svmlight"), path)
        whole = path.read_bytes()
        for i in range(parsed.inputs):
            rng = random.Random(parsed.seed * 1_000_000_007 + i)
            format, digits = list(parsers)[i % len(parsers)]
            text = mutant(lines[format], rng)
            try:
                rows, bad = parsed(parsers[format, digits], text)
                if i % COMPARED == 0:
                    counts["compared"] += 1
                    assert (rows, bad) == expected(format, text, digits)
                if i % CACHES == 0:
                    counts["caches"] += 1
                    read_changed_cache(whole, path, rng)
            except Exception as error:
                sys.exit(f"input {i} of seed {parsed.seed}, {format}: {type(error).__name__}: {error}\n{text!r}")
            counts["rows"] += len(rows)
            counts["bad lines"] += bad
            if i == 10_000:
                early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = (peak - early) / 1024 if early else 0.0
    figures = {"inputs": parsed.inputs, "seed": parsed.seed, **counts, "crashes": 0}
    figures |= {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - begun_cpu}
    figures |= {"peak_megabytes": peak / 1024, "megabytes_grown_after_the_first_10000": grown}
    harness.save("fuzz", [harness.listed("Mutated text and row caches", figures)], figures)
    if grown > GROWTH:
        sys.exit("too much memory")
