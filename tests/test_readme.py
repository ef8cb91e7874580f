"""The README: its code runs, its commands name what exists, its tables list the options of the code."""

import re
from pathlib import Path

import pytest

from reid_torchmetrics.functional.retrieval import (
    AP_RULES,
    CMC_MODES,
    EMPTY_TARGET_ACTIONS,
    SAME_CAMERA_RULES,
    SIMILARITIES,
    TIE_POLICIES,
)

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)
OPTIONS = {
    "rule": AP_RULES,
    "mode": CMC_MODES,
    "same_camera": SAME_CAMERA_RULES,
    "ties": TIE_POLICIES,
    "similarity": SIMILARITIES,
    "empty_target_action": EMPTY_TARGET_ACTIONS,
}


@pytest.mark.parametrize("number", range(len(CODE)))
def test_the_code_runs(number):
    names: dict[str, object] = {}
    exec(compile(CODE[number], "README.md", "exec"), names)  # noqa: S102 - our own text
    if "mean_ap" in names:
        assert 0 < float(names["mean_ap"]) < 1


@pytest.mark.parametrize("option", OPTIONS)
def test_the_table_of_conventions_lists_every_value_and_marks_the_default(option):
    (row,) = (line for line in README.splitlines() if f"| `{option}` |" in line)
    _, _, _, default, others, _ = row.split("|")
    named = re.findall(r'`"(\w+)"`', default) + re.findall(r'`"(\w+)"`', others)
    assert sorted(named) == sorted(OPTIONS[option])
    assert re.findall(r'`"(\w+)"`', default) == [next(iter(OPTIONS[option]))]


def test_the_commands_install_extras_that_exist_and_run_files_that_exist():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in re.findall(r"'\.\[(\w+)\]'", "".join(COMMANDS)):
        assert f"\n{extra} = [" in project
    for path in re.findall(r"(\S+\.(?:py|txt))", "".join(COMMANDS)):
        assert (ROOT / path).is_file()


def test_links_inside_the_project_lead_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists()
