"""README and docs are correct: their examples run, their outputs are exact, their links resolve.

Every ```python block is run, all blocks of a page in one namespace. Its output must equal the ```text block that
follows it; a block that prints nothing is not followed by one.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import proxstream as ps

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]

DEMO = "pip install . && proxstream demo"
TESTS = "pip install '.[test]' && python -m pytest -n 2"


class Block(NamedTuple):
    language: str
    text: str
    line: int


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> list[Block]:
    text = read(page)
    fences = re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(f[1], f[2], text.count("\n", 0, f.start()) + 1) for f in fences]


@pytest.mark.parametrize("page", [README, *DOCS], ids=lambda page: page.name)
def test_examples_print_what_the_page_shows(page: Path) -> None:
    found, namespace = blocks(page), {"__name__": page.stem}
    for block, following in zip(found, [*found[1:], None], strict=False):
        if block.language != "python":
            continue
        printed = io.StringIO()
        code = compile("\n" * block.line + block.text, str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        adjacent = following is not None and following.language == "text"
        shown = following.text if following is not None and adjacent and printed.getvalue() else ""
        assert printed.getvalue() == shown, f"{page.name}:{block.line}"


def test_readme_shows_a_code_example() -> None:
    assert any(block.language == "python" and "import proxstream as ps" in block.text for block in blocks(README))


def test_readme_commands() -> None:
    commands = [block.text.splitlines()[0] for block in blocks(README) if block.language == "bash"]
    assert commands[:2] == [DEMO, TESTS]


def test_ci_takes_its_command_from_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    if not script.exists():
        pytest.skip("not in a source checkout")
    (awk,) = re.findall(r"awk '(.*?)' README\.md", read(script))
    taken = subprocess.run(["awk", awk, str(README)], capture_output=True, text=True, check=True).stdout
    assert taken.strip() == TESTS


def test_readme_counts() -> None:
    text = read(README)
    for count, what in (
        (len(ps.losses.names()), "losses"),
        (len(ps.penalties.PENALTIES), "penalties and constraints"),
        (len(ps.algorithms.ALGORITHMS), "algorithms"),
    ):
        assert f"{count} {what}" in text


PUBLIC = [name for name in ps.__all__ if not name.startswith("__")]


def documentation(name: str) -> str:
    thing: Any = getattr(ps, name)
    described = thing if inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    return inspect.getdoc(described) or ""


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert documentation(name).strip()


# Results that the example of the call that returns them shows.
@pytest.mark.parametrize("name", [name for name in PUBLIC if ps._MODULES[name] not in (".", ".core")])
def test_every_public_object_has_an_example(name: str) -> None:
    assert ">>>" in documentation(name)


@pytest.mark.parametrize("name", [name for name in PUBLIC if name.endswith(("Classifier", "Regressor", "Ranker"))])
def test_an_estimator_names_every_loss_that_it_takes(name: str) -> None:
    kinds, text = getattr(ps, name)._kinds, documentation(name)
    if name.endswith("Ranker"):
        kinds = ("ranking",)  # and all binary ones, in these words
    if name.startswith("StreamPath"):
        text = documentation(name.replace("Path", ""))  # whose parameters they are
    taken = [loss for loss in map(ps.losses.get, ps.losses.names()) if loss.kind in kinds]
    assert [loss.name for loss in taken if f'"{loss.name}"' not in text] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_appears_in_the_docs(name: str) -> None:
    pattern = rf"`[^`\n]*\b{re.escape(name)}\b[^`\n]*`"
    assert any(re.search(pattern, read(page)) for page in [README, *DOCS])


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", read(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", re.sub(r"^```.*?^```$", "", read(page), flags=re.M | re.S)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_page_is_linked_from_the_readme(page: Path) -> None:
    assert f"(docs/{page.name}" in read(README)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_of_prose_are_not_too_long(page: Path) -> None:
    for number, line in enumerate(read(page).splitlines(), 1):
        assert len(line) <= 125 or line.startswith(("|", "Box(lo")), f"{page.name}:{number} has {len(line)} characters"
