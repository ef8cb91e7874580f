"""The README: it is short, its code runs and prints what it says, its commands and links name what exists."""

import re
from pathlib import Path

import pytest

from tests.test_docs import tables

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)
RESULTS, NUMBERS = ((ROOT / name).read_text(encoding="utf-8") for name in ("benchmarks/RESULTS.md", "docs/numbers.md"))
FIGURES = {
    "ranking_speed": (
        "All measures take no longer than sorting every row and a compiled loop for one of them: Market-1501",
        re.compile(r".+\((.+) over (.+)\)"),
    ),
    "gallery_memory": (
        "`ReIDMetrics` fed by batches of 64 needs little memory beside MSMT17's embeddings of dimension 256.",
        re.compile(r"(.+?) \("),
    ),
    "distributed_cost": ("Each of 4 processes receives little more than the queries", re.compile(r"(.+?) \(")),
    "detection_boxes": (
        "`DetectionMAP` takes a hundredth of the time of TorchMetrics with pycocotools",
        re.compile(r".+\((.+) over (.+)\)"),
    ),
}
"""by script: how the claim begins that the README gives a figure of, and where the figure stands in what was seen"""


@pytest.mark.parametrize("number", range(len(CODE)))
def test_the_code_runs_and_prints_what_a_comment_on_a_line_of_its_own_says(number, capsys):
    exec(compile(CODE[number], "README.md", "exec"), {})  # noqa: S102 - our own text
    said = re.findall(r"^# (.*)$", CODE[number], flags=re.MULTILINE)
    assert not said or capsys.readouterr().out.splitlines() == said


def test_the_order_is_picture_installation_a_first_example_what_users_replace_more_code_and_figures():
    parts = ["\n![", "pip install", CODE[0], "| you have | you write |", *CODE[1:], "| claim | figure | shown by |"]
    assert [README.index(part) for part in parts] == sorted(README.index(part) for part in parts)
    assert "compute()" in CODE[0]
    assert CODE[0].splitlines()[-1].startswith("# {'map': ")


def test_the_figures_of_claims_are_those_that_were_recorded():
    results, table = (
        {row[keys[0]]: row[keys[1]] for row in tables(text)[-1].rows}
        for text, keys in ((RESULTS, ("claim", "seen")), (README, ("shown by", "figure")))
    )
    figures = {re.search(r"`(\w+)\.py`|$", link)[1]: figure for link, figure in table.items()}
    for script, (claim, pattern) in FIGURES.items():
        (seen,) = (seen for said, seen in results.items() if said.startswith(claim))
        assert re.findall(r"[\d.]+ (?:MB|times|s\b)", figures[script])[: pattern.groups] == [
            *pattern.match(seen).groups()
        ]
    counted = [int(count.replace(",", "")) for count in re.findall(r"([\d,]+) arrays", NUMBERS)]
    assert figures[None].startswith(f"{sum(counted[:2]):,} outputs")


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
