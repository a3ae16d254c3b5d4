"""Files to train on, made with Python's own generator, which draws the same numbers everywhere, and files of models."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from proxstream.models import file as modelfile


def clicks(
    path: Path, rows: int = 1000, *, features: int = 50, seed: int = 0, labels: tuple[int, int] = (-1, 1)
) -> Path:
    """Write svmlight text: ten features on in a row, weights of both signs, labels with some noise."""
    rng = random.Random(seed)
    weights = [rng.choice((-2, -1, 0, 1, 2)) for _ in range(features)]
    lines = []
    for _ in range(rows):
        on = sorted(rng.sample(range(features), 10))
        score = sum(weights[j] for j in on) + rng.randint(-2, 2)
        lines.append(f"{labels[score > 0]} " + " ".join(f"{j + 1}:1" for j in on) + "\n")
    path.write_text("".join(lines))
    return path


def contents(path: str, *ignored: str) -> tuple[Any, dict[str, bytes]]:
    """Return header and arrays of a model file, without these entries of the summary."""
    header, arrays = modelfile.read(path)
    summary = header["model"]["with"]["summary"]
    entries = summary.get("with", summary)
    for name in ("options", "path", "strength", *ignored):
        entries.pop(name, None)
    return header, {name: array.tobytes() for name, array in arrays.items()}
