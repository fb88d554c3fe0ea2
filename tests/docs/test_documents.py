"""What the documents say is there: tests, files, links, commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = sorted(
    file
    for file in REPOSITORY.rglob("*.md")
    if not any(part.startswith(".") for part in file.relative_to(REPOSITORY).parts)
)
TESTS = set(
    re.findall(
        r"^def (test_\w+)",
        "\n".join(file.read_text() for file in (REPOSITORY / "tests").rglob("test_*.py")),
        re.MULTILINE,
    )
)


def test_every_weakness_has_a_test_or_a_reason():
    rows = re.findall(
        r"^\| (W\d+) \|.*$", (REPOSITORY / "docs/weaknesses.md").read_text(), re.MULTILINE
    )
    assert rows == [f"W{number}" for number in range(1, 35)]
    for row in (REPOSITORY / "docs/weaknesses.md").read_text().splitlines():
        if row.startswith("| W"):
            assert "`test_" in row or "reason:" in row, row


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(REPOSITORY)))
def test_every_test_that_is_named_exists(document):
    named = set(re.findall(r"`(test_\w+)`", document.read_text()))
    assert named <= TESTS, f"no such tests: {sorted(named - TESTS)}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(REPOSITORY)))
def test_links_between_documents_resolve(document):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_readme_lists_every_guide_and_every_page_on_the_inside():
    documents = (REPOSITORY / "README.md").read_text().partition("## Documents")[2]
    listed = set(re.findall(r"\]\((docs/(?:guide|architecture)/[^)#]+)", documents))
    folders = [REPOSITORY / "docs/guide", REPOSITORY / "docs/architecture"]
    pages = [page for folder in folders for page in folder.glob("*.md")]
    assert listed == {str(page.relative_to(REPOSITORY)) for page in pages}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(REPOSITORY)))
def test_every_make_target_that_is_named_exists(document):
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text(), re.MULTILINE))
    assert named <= targets, f"no such targets: {sorted(named - targets)}"


def test_make_help_lists_every_command():
    shown = subprocess.run(["make", "help"], cwd=REPOSITORY, capture_output=True, text=True).stdout
    text = (REPOSITORY / "Makefile").read_text()
    for target in re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE):
        assert f"make {target} " in shown


def test_the_buildspec_calls_make_targets_only():
    commands = re.findall(r"^ +- (.+)$", (REPOSITORY / "buildspec.yml").read_text(), re.MULTILINE)
    assert commands
    assert all(re.match(r"(test .+ && )?make [a-z-]+", command) for command in commands)


def test_python_examples_of_the_readme_compile():
    blocks = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, "README.md", "exec")


def test_the_figures_of_the_readme_are_those_that_were_measured():
    results = (REPOSITORY / "benchmarks/RESULTS.md").read_text()
    readme = (REPOSITORY / "README.md").read_text()
    section = readme.partition("## Measured")[2].partition("\n## ")[0]
    shown = [float(ratio) for ratio in re.findall(r"\*\*([\d.]+)\*\*", section)]
    measured = [float(ratio) for ratio in re.findall(r"\*\*([\d.]+)\*\*", results)]
    assert len(shown) == 20
    for ratio in shown:
        assert any(abs(ratio - other) < 0.006 for other in measured), ratio
