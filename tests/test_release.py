"""What is published: metadata, promised versions and where they were run, the citation, the workflows."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling import build
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from packaging.version import Version

import reid_torchmetrics

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / ".github/workflows").glob("*.yml")}
REPOSITORY = "https://example.org/someone/reid"
DOCUMENTATION = "https://someone.example.org/reid/"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pins(name):
    return {pin.split("==")[0]: Version(pin.split("==")[1]) for pin in read(name).splitlines() if "==" in pin}


def promised():
    """What is installed with the package and its extras, less the package itself."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    requirements = [Requirement(each) for each in sum(extras, PROJECT["project"]["dependencies"])]
    return [each for each in requirements if each.name != "reid-torchmetrics"]


def released_from(monkeypatch, repository, documentation):
    monkeypatch.setenv("PROJECT_REPOSITORY_URL", repository)
    monkeypatch.setenv("PROJECT_DOCUMENTATION_URL", documentation)
    return ProjectMetadata(str(ROOT), PluginManager()).core.urls


def test_a_copy_names_no_addresses_where_the_environment_does_not(monkeypatch):
    assert released_from(monkeypatch, "", "") == {}


def test_a_release_names_the_addresses_of_where_it_is_built(monkeypatch):
    assert released_from(monkeypatch, REPOSITORY, DOCUMENTATION) == {
        "Homepage": DOCUMENTATION,
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Documentation": DOCUMENTATION,
    }
    assert released_from(monkeypatch, REPOSITORY, "")["Homepage"] == REPOSITORY


def test_a_release_shows_the_readme_with_links_that_work_elsewhere(monkeypatch):
    monkeypatch.setenv("PROJECT_REPOSITORY_URL", "")
    assert ProjectMetadata(str(ROOT), PluginManager()).core.readme == read("README.md")
    monkeypatch.setenv("PROJECT_REPOSITORY_URL", REPOSITORY)
    page = ProjectMetadata(str(ROOT), PluginManager()).core.readme
    tag = f"v{reid_torchmetrics.__version__}"
    assert f"(https://example.org/someone/reid/raw/{tag}/docs/images/rank_lists.png)" in page
    links = re.findall(r"\]\((.*?)\)", page)
    assert all(link.startswith("https://") for link in links)
    files = [link.split(f"/{tag}/")[1] for link in links if link.startswith(REPOSITORY)]
    assert all((ROOT / name).is_file() for name in files)
    assert re.sub(rf"{REPOSITORY}/(raw|blob)/{tag}/", "", page) == read("README.md")


def test_a_wheel_that_is_built_from_a_released_source_distribution_keeps_the_addresses(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PROJECT_REPOSITORY_URL", REPOSITORY)
    source = tmp_path / build.build_sdist(str(tmp_path))
    monkeypatch.delenv("PROJECT_REPOSITORY_URL")
    with tarfile.open(source) as archive:
        # Python 3.11.4 and 3.10.12 are the first with filters; the archive was made here.
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # noqa: S202
    monkeypatch.chdir(tmp_path / source.name.removesuffix(".tar.gz"))
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert f"Project-URL: Source, {REPOSITORY}\n" in metadata
    assert f"({REPOSITORY}/blob/v{reid_torchmetrics.__version__}/docs/start.md)" in metadata
    assert "reid_torchmetrics/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"reid_torchmetrics"}


def test_the_workflow_that_publishes_sets_the_variables_that_the_metadata_read():
    for name in re.findall(r'"(PROJECT_\w+)"', read("hatch_build.py")):
        assert f"\n      {name}: " in WORKFLOWS["publish.yml"]


def test_the_lowest_versions_that_are_run_are_those_that_are_promised():
    bounds = {each.name: Version(str(each.specifier).removeprefix(">=")) for each in promised()}
    lowest = pins("constraints-lowest.txt")
    assert {name: lowest.get(name) for name in bounds} == bounds


@pytest.mark.parametrize("group", ["test", "dev", "docs"])
def test_each_tool_is_pinned_to_a_version_that_its_group_takes(group):
    pinned = pins("constraints.txt")
    for each in [
        Requirement(line) for line in PROJECT["dependency-groups"][group] if isinstance(line, str)
    ] + promised():
        assert pinned[each.name] in each.specifier


def test_a_python_that_is_promised_was_run():
    ran = read("docs/versions.md")
    for classifier in PROJECT["project"]["classifiers"]:
        if python := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier):
            assert re.search(rf"^\| {re.escape(python[1])}\.\d+ \|", ran, flags=re.MULTILINE)


def test_the_citation_names_the_version_and_its_date_once_it_is_released():
    citation = read("CITATION.cff")
    assert f"\nversion: {reid_torchmetrics.__version__}\n" in citation
    dated = re.search(
        rf"^## \[{re.escape(reid_torchmetrics.__version__)}\] - (\S+)$", read("CHANGELOG.md"), re.MULTILINE
    )
    assert re.findall(r"^date-released: (\S+)$", citation, re.MULTILINE) == ([dated[1]] if dated else [])


def test_workflows_pin_each_action_to_one_commit_and_say_which_version_that_is():
    uses = [line for text in WORKFLOWS.values() for line in re.findall(r"uses: ((?!\$/).*)", text)]  # `$/`: our own
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line) for line in uses)
    assert len(set(uses)) == len({line.split("@")[0] for line in uses})


def test_the_suite_is_run_on_windows_and_macos():
    systems = WORKFLOWS["tests.yml"].partition("\n  systems:\n")[2].partition("\n\n")[0]
    assert 'system: ["windows-latest", "macos-latest"]' in systems
    assert "runs-on: ${{ matrix.system }}" in systems
    assert systems.endswith("nox -s wheel")


def test_workflows_call_sessions_that_exist():
    sessions = re.findall(r"^@nox\.session.*\ndef (\w+)", read("noxfile.py"), flags=re.MULTILINE)
    called = [
        name for text in WORKFLOWS.values() for each in re.findall(r"nox -s ([\w ]+)", text) for name in each.split()
    ]
    assert set(called) <= {*sessions, "docs"}
