"""Print pip constraints that pin every dependency of pyproject.toml to the oldest release that it allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
for requirement in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
    name, oldest = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", requirement).groups()
    parts = oldest.split(".")
    print(f"{name}=={oldest}" if len(parts) > 2 else f"{name}=={parts[0]}.{(parts[1:] or [0])[0]}.*")
