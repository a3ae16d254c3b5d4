"""The package as a whole: names load on demand, heavy libraries stay out, imports between rooms go one way."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import proxstream as ps

SOURCE = Path(ps.__file__).parent
ROOT = Path(__file__).parent.parent


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_imports_no_heavy_library() -> None:
    code = "import sys, proxstream; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = set(run(code).split())
    assert "proxstream" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "numba", "sklearn", "pandas", "pyarrow", "click", "rich"})


def test_online_play_needs_neither_numba_nor_scikit_learn() -> None:
    code = (
        "import sys, proxstream as ps\n"
        "ledger = ps.Regret(ps.OnlineLearner(ps.RDA(), ps.L1(0.1), dim=2))\n"
        "ledger.learn([1.0, 2.0], 1, 'logistic'); ledger.bound([0.0, 0.0])\n"
        "print(*{'numba', 'sklearn'} & set(sys.modules))"
    )
    assert run(code) == ""


@pytest.mark.parametrize("name", ps.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(ps, name) is not None
    assert name in dir(ps)


def test_public_names_are_unique() -> None:
    assert len(set(ps.__all__)) == len(ps.__all__)


def test_an_unknown_name_raises_an_attribute_error_with_the_name() -> None:
    with pytest.raises(AttributeError, match=r"'proxstream' has no attribute 'Lasso'"):
        _ = ps.Lasso


def test_registered_algorithms_and_penalties_are_public() -> None:
    public = set(ps.__all__)
    assert {kind.__name__ for kind in ps.algorithms.ALGORITHMS.values()} <= public
    assert {kind.__name__ for kind in ps.penalties.PENALTIES.values()} <= public
    assert set(ps.losses.names()) <= public


def test_version_is_that_of_the_installed_package() -> None:
    assert ps.__version__ == version("proxstream")


def test_the_package_is_typed() -> None:
    assert (SOURCE / "py.typed").is_file()


# The rooms that each room may import, besides itself, as shown in CONTRIBUTING.md.
MAY_IMPORT = {
    "jit": set(),
    "core": {"jit"},
    "data": {"core", "jit"},
    "online": {"core"},
    "learner": {"core", "data", "jit", "online"},
    "batch": {"core", "data", "jit", "learner"},
    "io": {"core", "data", "jit"},
    "models": {"core", "data", "io", "learner"},
    "training": {"core", "data", "io", "learner", "models", "batch"},
    "estimators": {"core", "data", "io", "learner", "batch", "models"},
    "cluster": {"core", "data", "io", "learner", "batch", "models", "training", "estimators"},
    "datasets": {"core", "io"},
    "report": {"core", "data"},
    "reproduce": {"core", "data", "io", "online", "learner", "batch", "models", "estimators", "datasets", "report"},
    "cli": {
        "core", "data", "io", "jit", "online", "learner", "batch", "models", "training", "cluster", "report",
        "reproduce",
    },
}  # fmt: skip


def test_every_room_is_on_the_map() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert rooms == set(MAY_IMPORT)
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_the_map_in_contributing_shows_every_arrow() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Rooms")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", section, re.MULTILINE)
    assert {room: set(re.findall(r"`(\w+)`", others)) for room, others in rows} == MAY_IMPORT


def test_only_the_command_line_imports_experiments() -> None:
    importers = {room: {other for other in MAY_IMPORT if room in MAY_IMPORT[other]} for room in MAY_IMPORT}
    assert importers["reproduce"] == importers["cluster"] == {"cli"}
    assert importers["datasets"] == {"reproduce"}
    assert importers["report"] == {"cli", "reproduce"}


def test_only_the_estimators_of_the_cluster_import_scikit_learn() -> None:
    importers = {
        file.name
        for file in (SOURCE / "cluster").glob("*.py")
        if re.search(r"^ *from (sklearn|\.\.estimators)|^ *import sklearn", file.read_text("utf-8"), re.MULTILINE)
    }
    estimators = {"cocoa_estimator.py", "sdca_estimators.py", "stream_estimators.py", "stream_fitting.py"}
    assert importers == {*estimators, "lazy_predictions.py"}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_between_rooms_go_one_way(room: str) -> None:
    for file in sorted((SOURCE / room).rglob("*.py")):
        inside = file.relative_to(SOURCE).with_suffix("").parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for target in _imported(node, inside):
                assert target in MAY_IMPORT[room] | {room, "__version__"}, f"{file.name}:{node.lineno} imports {target}"


def _imported(node: ast.AST, inside: tuple[str, ...]) -> list[str]:
    """Return the rooms that an import statement in the module `inside` imports from."""
    if isinstance(node, ast.Import):
        return [name.name.split(".")[1] for name in node.names if name.name.startswith("proxstream.")]
    if not isinstance(node, ast.ImportFrom):
        return []
    if node.level:
        path = [*inside[: len(inside) - node.level], *(node.module or "").split(".")]
    elif (node.module or "").split(".")[0] == "proxstream":
        path = (node.module or "").split(".")[1:]
    else:
        return []
    path = [part for part in path if part]
    return [path[0]] if path else [name.name for name in node.names]
