"""What the documents say is there: tests, files, links, commands."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.cli.main import make_parser
from stoker.platform.api.all_services import make_services
from stoker.platform.tracking.tracking import Tracking

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


# Folders that documents name with a path inside the repository. Other paths in documents are those
# of a job, of the platform's root or of the image.
_TOP = r"(?:benchmarks|container_src|docker|docs|examples|tests)/"
# Packages of `stoker`, which documents name without the folders above them.
_PACKAGES = sorted(
    folder.name
    for folder in (REPOSITORY / "container_src/stoker").iterdir()
    if (folder / "__init__.py").exists()
)
_IN_PACKAGE = rf"(?:{'|'.join(_PACKAGES)})/(?:\w+/)*(?:\w+(?:\.\w+)?)?"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(REPOSITORY)))
def test_every_path_of_the_repository_that_is_named_exists(document):
    if document.name == "CHANGELOG.md":
        return  # it also names what has been removed since
    spans = re.findall(r"`([^`\n]+)`", document.read_text())
    words = [word.rstrip(",.;:") for span in spans for word in span.split()]
    missing = [
        *(w for w in words if re.match(_TOP, w) and not _exists(REPOSITORY, w)),
        *(
            w
            for w in words
            if re.fullmatch(_IN_PACKAGE, w)
            and not _exists(REPOSITORY / "container_src/stoker", w)
            and not _exists(REPOSITORY / "container_src/stoker/platform", w)
        ),
    ]
    assert not missing, f"no such files: {missing}"


def _exists(folder: Path, path: str) -> bool:
    """`<group>` and `*` stand for any name; `…` and what follows a colon are left out."""
    pattern = re.sub(r"<\w+>", "*", path.partition("::")[0].partition("#")[0]).rstrip("/…")
    return any(folder.glob(pattern))


@pytest.mark.parametrize(
    "document", sorted((REPOSITORY / "docs/architecture").glob("*.md")), ids=lambda d: d.name
)
def test_every_module_that_an_architecture_page_lists_exists(document):
    stems = {path.stem for path in (REPOSITORY / "container_src/stoker").rglob("*")}
    text = document.read_text()
    tables = re.findall(r"^\| (?:module|package|part) \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    names = [
        name.rpartition(".")[2]
        for rows in tables
        for row in rows.splitlines()
        for name in re.findall(r"`([\w.]+)`", row.split("|")[1])
    ]
    dotted = re.findall(rf"`(?:stoker\.)?(?:{'|'.join(_PACKAGES)})\.([a-z_]+)[`.(]", text)
    missing = [name for name in [*names, *dotted] if name not in stems]
    assert not missing, f"no such modules: {missing}"


@pytest.mark.parametrize(
    ("page", "where"), [("01-overview.md", ""), ("03-platform.md", "platform")]
)
def test_the_modules_of_each_folder_are_where_their_row_says(page, where):
    text = (REPOSITORY / "docs/architecture" / page).read_text()
    tables = re.findall(r"^\| part \| noun \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    missing = []
    for part, nouns in re.findall(r"^\| `(\w+)/?` \| (.*)$", "".join(tables), re.MULTILINE):
        folder = REPOSITORY / "container_src/stoker" / where / part
        stems = {path.stem for path in folder.iterdir()} if folder.is_dir() else set()
        if stems:
            missing += [f"{part}/{n}" for n in re.findall(r"`([a-z_]+)`", nouns) if n not in stems]
    assert tables
    assert not missing


def test_the_overview_lists_every_file_of_the_bus():
    text = (REPOSITORY / "docs/architecture/01-overview.md").read_text()
    rows = text.partition("## `stoker.bus`")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)
    modules = {file.stem for file in (REPOSITORY / "container_src/stoker/bus").glob("*.py")}
    assert set(listed) == modules - {"__init__"}


def test_the_readme_is_short_and_has_one_picture():
    text = (REPOSITORY / "README.md").read_text()
    assert len(text.split()) <= 900
    assert len(re.findall(r"!\[", text)) == 1


def test_the_guide_lists_every_operation_of_the_platform(tmp_path):
    guide = (REPOSITORY / "docs/guide/local.md").read_text()
    section = guide.partition("## Operations")[2].partition("\n## ")[0]
    listed = {
        service: set(operations.split(", "))
        for service, operations in re.findall(
            r"^\| ([\w-]+) \| ([A-Z][\w, /{}-]+) \|$", section, re.M
        )
    }
    # The tables of operations are made without using any of these.
    root = SimpleNamespace(runs_database=tmp_path / "runs.sqlite", repositories_dir=tmp_path)
    context = SimpleNamespace(streams=None, series=None, root=root, engine=None)
    tracking = Tracking(context, None)
    services = make_services(
        context, None, None, tuning_store=None, tuning=None, tracking=tracking
    )
    tracking.close()
    assert listed == {service.name: {*service.operations} for service in services}


def test_the_guide_lists_every_command():
    guide = (REPOSITORY / "docs/guide/commands.md").read_text()
    listed = set(re.findall(r"^\| `stoker ([\w-]+)` \|", guide, re.M))
    verbs = next(
        action.choices
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    assert listed == {*verbs}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(REPOSITORY)))
def test_every_row_of_a_table_has_as_many_cells_as_its_head(document):
    cells = 0
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    for line in text.splitlines():
        if not line.startswith("|"):
            cells = 0
            continue
        found = len(re.findall(r"(?<!\\)\|", line)) - 1
        cells = cells or found
        assert found == cells, line


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


def test_the_figures_that_are_shown_are_those_that_were_measured():
    results = (REPOSITORY / "benchmarks/RESULTS.md").read_text()
    page = (REPOSITORY / "docs/measured.md").read_text()
    shown = [float(ratio) for ratio in re.findall(r"\*\*([\d.]+)\*\*", page)]
    measured = [float(ratio) for ratio in re.findall(r"\*\*([\d.]+)\*\*", results)]
    assert len(shown) >= 20
    for ratio in shown:
        assert any(abs(ratio - other) < 0.006 for other in measured), ratio
