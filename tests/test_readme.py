"""The README: it is short, its code runs and prints what it says, its commands and links name what exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(CODE)))
def test_the_code_runs_and_prints_what_a_comment_on_a_line_of_its_own_says(number, capsys):
    exec(compile(CODE[number], "README.md", "exec"), {})  # noqa: S102 - our own text
    said = re.findall(r"^# (.*)$", CODE[number], flags=re.MULTILINE)
    assert not said or capsys.readouterr().out.splitlines() == said


def test_a_metric_prints_its_values_before_the_list_of_claims():
    first_screen = README[: README.index("\n- **")]
    assert CODE[0] in first_screen
    assert "compute()" in CODE[0]
    assert CODE[0].splitlines()[-1].startswith("# {'map': ")


def test_the_text_has_at_most_600_words():
    assert len(README.split()) <= 600


def test_the_commands_install_what_exists_and_run_files_that_exist():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    tables = re.split(r"^\[(?:project|dependency)[-.](\S+)\]", project, flags=re.MULTILINE)
    extras, groups = (tables[tables.index(name) + 1] for name in ("optional-dependencies", "groups"))
    named = re.findall(r"'\.\[([\w,]+)\]'", "".join(COMMANDS))
    assert named
    assert all(f"\n{extra} = [" in extras for each in named for extra in each.split(","))
    for group in re.findall(r"--group[ =](\w+)", "".join(COMMANDS)):
        assert f"\n{group} = [" in groups
    for path in re.findall(r"(\S+\.(?:py|txt))", "".join(COMMANDS)):
        assert (ROOT / path).is_file()


def test_links_inside_the_project_lead_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists()
