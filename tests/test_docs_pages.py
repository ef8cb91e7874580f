"""The pages of the documentation: their code runs and prints what they say, their links lead somewhere.

A block is run on its own, in an empty folder. Comment lines at its end are what it prints. A page whose blocks build on
each other says so by the HTML comment `<!-- blocks build on each other -->`, one whose blocks all continue the first by
`<!-- each block continues the first one -->`.
"""

import importlib.util
import os
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from tests.recipes import RECIPES
from tests.test_docs import tables

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = "gallery"
RUN_ELSEWHERE = {
    "conventions.md",  # by `test_docs.py`
    "detection/numbers.md",  # by `test_docs_detection.py`
    *(f"extending/{name}.md" for name in RECIPES),  # by `test_recipes.py`
}
BOUNDS = {
    "how_to/large_galleries.md": [
        "`rank_positives` of two tensors needs little memory beside MSMT17's embeddings of dimension 256.",
        "`ReIDMetrics` fed by batches of 64 needs little memory beside MSMT17's embeddings of dimension 256.",
        "`ReIDMetrics` fed by batches of 64 needs little memory beside MSMT17's embeddings of dimension 2048.",
        "`compute` on 4 processes needs little memory over what the metric holds: MSMT17's size, dimension 512.",
    ],
    "how_to/reranking.md": [
        "k-reciprocal re-ranking of Market-1501, dimension 256, needs a tenth of the memory of dense matrices.",
        "k-reciprocal re-ranking of Market-1501, dimension 256, takes a fifth of the time of dense matrices.",
    ],
}
"""claims whose figures are below those of the page, row by row"""
FRAMEWORKS = {
    "from accelerate ": "accelerate",
    "from hydra.": "hydra",
    "from ignite.": "ignite",
    "import LightningCLI": "jsonargparse",
    "from ray ": "ray",
    "from trackers ": "trackers",
    "from transformers ": "transformers",
}
"""packages that blocks of how-tos need, by a text of the block; it is skipped without"""
JOINT = "<!-- blocks build on each other -->"
CONTINUED = "<!-- each block continues the first one -->"


class Heading(NamedTuple):
    """A line that begins with number signs."""

    level: int
    title: str


def pages() -> list[Path]:
    """All pages that are written by hand."""
    return sorted(path for path in DOCS.rglob("*.md") if not _is_generated(path.relative_to(DOCS)))


def _is_generated(path: Path) -> bool:
    return any(part.startswith("_") or part == GENERATED for part in path.parts)


def name_of(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


def blocks(path: Path) -> list[str]:
    """The Python blocks that are run, those that build on each other as one."""
    text = path.read_text(encoding="utf-8")
    found = _written_blocks(text)
    if CONTINUED in text:
        return [f"{found[0]}\n{block}" for block in found[1:]]
    return ["\n".join(found)] if found and JOINT in text else found


def _written_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def printed(block: str) -> list[str]:
    """What the comment lines at the end of a block say that it prints."""
    said: list[str] = []
    for line in reversed(block.splitlines()):
        if not re.match(r"#( |$)", line):
            break
        said.insert(0, line[2:])
    return said


def output_of(path: Path, number: int) -> list[str]:
    """What a block of a page says that it prints; of blocks that build on each other, what all of them say."""
    text = path.read_text(encoding="utf-8")
    parts = _written_blocks(text) if JOINT in text else [blocks(path)[number]]
    return [line for part in parts for line in printed(part)]


def without_fences(text: str) -> str:
    """The text without its blocks of code."""
    return re.sub(r"^(```+|~~~+).*?^\1[`~]*$", "", text, flags=re.DOTALL | re.MULTILINE)


def headings(path: Path) -> list[Heading]:
    lines = re.findall(r"^(#+) (.*?)\s*$", without_fences(path.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return [Heading(len(signs), title) for signs, title in lines]


def anchors(path: Path) -> set[str]:
    """The anchors in the text, and those of headings, as GitHub makes them: a repeated one is numbered."""
    seen: Counter[str] = Counter()
    found = set(re.findall(r'<a id="([^"]+)">', without_fences(path.read_text(encoding="utf-8"))))
    for heading in headings(path):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.title)
        anchor = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def links(path: Path) -> list[str]:
    """Where the links and pictures of a page lead to, outside of code."""
    text = re.sub(r"`[^`\n]*`", "code", without_fences(path.read_text(encoding="utf-8")))
    return re.findall(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)", text)


PAGES = pages()
LINKS = [(path, link) for path in PAGES for link in links(path)]
OTHERS_WARN = pytest.mark.filterwarnings("ignore")
BLOCKS = [
    pytest.param(path, number, id=f"{name_of(path)}-{number}", marks=OTHERS_WARN if "frameworks" in path.name else ())
    for path in PAGES
    if name_of(path) not in RUN_ELSEWHERE
    for number in range(len(blocks(path)))
]


@pytest.mark.parametrize(("path", "number"), BLOCKS)
def test_a_block_runs_on_its_own_and_prints_what_it_says(path, number, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # reports and pictures are written
    code = blocks(path)[number]
    if missing := [name for text, name in FRAMEWORKS.items() if text in code and not importlib.util.find_spec(name)]:
        pytest.skip(f"{missing[0]} is not installed")
    with mock.patch.dict(os.environ):  # frameworks write to it
        exec(compile(code, name_of(path), "exec"), {"__name__": "page"})  # noqa: S102 - our own text
    said = output_of(path, number)
    assert not said or capsys.readouterr().out.splitlines() == said


def test_a_page_begins_with_its_only_title():
    for path in PAGES:
        text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)  # front matter
        if text.startswith("```{include}"):
            continue  # it shows a file of another folder
        assert text.lstrip().startswith("# "), path
        assert [heading.level for heading in headings(path)].count(1) == 1, path


def test_links_and_anchors_lead_somewhere():
    for path, link in LINKS:
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if target.is_relative_to(DOCS) and _is_generated(target.relative_to(DOCS)):
            continue  # it is made with the site
        assert target.exists(), (path, link)
        assert not anchor or anchor in anchors(target), (path, link)


def test_links_to_other_sites_are_whole():
    for path, link in LINKS:
        assert not link.startswith("http:"), (path, link)
        if link.startswith("https://github.com/") and "/issues/" in link:
            assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/issues/\d+", link), (path, link)


def test_formulas_are_what_the_site_can_show():
    converter = pytest.importorskip("docutils.utils.math.latex2mathml")
    for path in PAGES:
        for formula in re.findall(r"\$([^$\n]+)\$", without_fences(path.read_text(encoding="utf-8"))):
            assert "<math" in converter.tex2mathml(formula), path


def amount(cell):
    number, unit = cell.split()[:2]
    return float(number.replace(",", "")), unit


@pytest.mark.parametrize("page", BOUNDS)
def test_bounds_of_pages_hold_in_the_results(page):
    (results,) = tables((ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8"))
    seen = {row["claim"]: row["seen"] for row in results.rows}
    (stated,) = (table for table in tables((DOCS / page).read_text(encoding="utf-8")) if "less than" in table.header)
    for row, claim in zip(stated.rows, BOUNDS[page], strict=True):
        (number, unit), (bound, unit_of_page) = amount(seen[claim]), amount(row["less than"])
        assert unit == unit_of_page
        assert number < bound, claim


@pytest.mark.parametrize(
    ("title", "anchor"),
    [
        ("Where `self.log` stands", "where-selflog-stands"),
        ("The query's camera", "the-querys-camera"),
        ("CMC: what is matched?", "cmc-what-is-matched"),
        ("A `snake_case` name", "a-snake_case-name"),
    ],
)
def test_an_anchor_is_that_of_github(title, anchor, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# {title}\n\n```bash\n# no heading\n```\n\n## {title}\n", encoding="utf-8")
    assert anchors(page) == {anchor, f"{anchor}-1"}


def test_only_the_comment_lines_at_the_end_of_a_block_are_its_output():
    assert printed("# why\nprint(1)\nprint()\nprint(2)\n# 1\n#\n# 2\n") == ["1", "", "2"]
    assert printed("# why\nprint(1)\n") == []


GUIDES = DOCS / "how_to"
VERBS = {
    "Add",
    "Bring",
    "Compare",
    "Detect",
    "Evaluate",
    "Find",
    "Identify",
    "Keep",
    "Log",
    "Rank",
    "Re-rank",
    "Read",
    "Understand",
    "Use",
    "Verify",
    "Write",
}


def listed_pages(name: str) -> list[str]:
    """The names in the table of contents of a page of guides."""
    text = (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    (contents,) = re.findall(r"^```{toctree}\n(?::\w+:\n\n)?(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return contents.split()


def title_of(name: str) -> str:
    return headings(GUIDES / f"{name}.md")[0].title


def test_every_guide_is_in_one_of_four_groups():
    groups = listed_pages("index")
    guides = [name for group in groups for name in listed_pages(group)]
    assert len(groups) == 4
    assert sorted(["index", *groups, *guides]) == sorted(path.stem for path in GUIDES.glob("*.md"))


def test_the_list_of_guides_has_the_groups_and_titles_of_the_sidebar():
    lines = ["# How-to guides"]
    for group in listed_pages("index"):
        lines.append(f"## [{title_of(group)}]({group}.md)")
        lines.extend(f"- [{title_of(name)}]({name}.md)" for name in listed_pages(group))
    text = without_fences((GUIDES / "index.md").read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if line.startswith(("#", "- "))] == lines


def test_the_title_of_a_guide_begins_with_a_verb():
    names = {path.stem for path in GUIDES.glob("*.md")} - {"index"}
    assert {title_of(name).split()[0].strip(",") for name in names} <= VERBS


def test_the_search_finds_pages_of_use_and_not_those_about_the_project():
    hidden = {name_of(path) for path in PAGES if "nosearch: true" in path.read_text(encoding="utf-8").partition("#")[0]}
    about_project = {"changelog.md", "contributing.md", "decisions.md"}
    about_project |= {name_of(path) for path in (DOCS / "extending").glob("*.md")}
    assert hidden == about_project | {"numbers/benchmarks.md", "numbers/recorded_outputs.md"}
