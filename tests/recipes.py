"""The recipes in docs/extending: the changes of their examples, their commands, and what they promise.

A block of the language `diff` changes files. `+++ path` names one; then come lines that are there (they begin with a
space), lines that go (`-`) and lines that come (`+`). `@@` is between two places of a file. Lines that come without any
other line are a new file, or stand at the end of one. A line that is there may end with ` ...` for any rest.
A block of Python prints the comment lines at its end.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

EXTENDING = Path(__file__).parents[1] / "docs" / "extending"
TOURS = ("one_query", "one_box")
"""pages of the folder that follow a value through the files of the core"""
PROSE = ("map",)
"""pages of the folder without code"""
_REST = " ...\n"
_BLOCK_OF_CHANGES = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK_OF_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PRINTED = re.compile(r"^# .*\n\Z", re.MULTILINE)
_COMMAND = re.compile(r"`python -m ([\w.]+)`")


class Change(NamedTuple):
    """A change of one place of a file."""

    path: str
    """from the root of the repository"""
    lines: tuple[str, ...]
    """each with its sign: a space, + or -"""

    def apply(self, root: Path) -> None:
        """Change the file below a folder.

        Raises:
            ValueError: the lines that must be there are not, or are there more than once.
        """
        path = root / self.path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        begin, end = self._place_in(text)
        old_lines = iter(text[begin:end].splitlines(keepends=True))
        new_lines: list[str] = []
        for line in self.lines:
            if line[0] == "+":
                new_lines.append(line[1:])
                continue
            (old_line,) = islice(old_lines, 1)
            if line[0] == " ":
                new_lines.append(old_line)
        path.write_text(text[:begin] + "".join(new_lines) + text[end:], encoding="utf-8")

    def _place_in(self, text: str) -> tuple[int, int]:
        """Return where the old lines begin and end in a text: at its end if there are none."""
        old_lines = [line[1:] for line in self.lines if line[0] != "+"]
        if not old_lines:
            return len(text), len(text)
        patterns = [_pattern_of(line) for line in old_lines]
        places = [place.span() for place in re.finditer("^" + "".join(patterns), text, re.MULTILINE)]
        if len(places) != 1:
            shown = "".join(old_lines)
            raise ValueError(f"{self.path} must have these lines once; it has them {len(places)} times:\n{shown}")
        return places[0]


def _pattern_of(line: str) -> str:
    """Return the pattern of a line, which may be cut short."""
    if line.endswith(_REST):
        return re.escape(line.removesuffix(_REST)) + ".*\n"
    return re.escape(line)


class Recipe(NamedTuple):
    """A page about how a part is added."""

    changes: list[Change]
    commands: list[str]
    """modules that are run after the changes"""
    promise: str
    """a block of Python that runs then"""


def recipe_in(text: str) -> Recipe:
    """Return the recipe of a page.

    Raises:
        ValueError: a page without changes, or without one block of Python that prints something.
    """
    changes = list(changes_in(text))
    promises = _BLOCK_OF_PYTHON.findall(text)
    if not changes or len(promises) != 1 or not _PRINTED.search(promises[0]):
        raise ValueError("a recipe must have changes, and one block of Python that ends with what it prints.")
    return Recipe(changes, _COMMAND.findall(text), promises[0])


def listed_pages() -> list[str]:
    """Return the names of the pages in the table of contents of the folder, in its order."""
    text = (EXTENDING / "index.md").read_text(encoding="utf-8")
    contents = text.partition("```{toctree}\n:hidden:\n\n")[2].partition("```")[0]
    return contents.split()


def changes_in(text: str) -> Iterator[Change]:
    """Iterate over the changes in all blocks of a text, in their order."""
    for block in _BLOCK_OF_CHANGES.findall(text):
        _, *files = re.split(r"^\+\+\+ ", block, flags=re.MULTILINE)
        for file in files:
            path, _, lines = file.partition("\n")
            for place in re.split(r"^@@\n", lines, flags=re.MULTILINE):
                yield change_of(path, place)


def change_of(path: str, text: str) -> Change:
    """Return the change of a file by lines of a diff.

    Raises:
        ValueError: a line that neither stays nor goes nor comes.
    """
    # Editors remove the space of a line that is empty otherwise.
    lines = [" \n" if line == "\n" else line for line in text.splitlines(keepends=True)]
    for line in lines:
        if line[0] not in " +-":
            raise ValueError(f"a line about {path} must begin with a space, + or -; got {line!r}.")
    return Change(path, tuple(lines))


RECIPES = {
    name: recipe_in((EXTENDING / f"{name}.md").read_text(encoding="utf-8"))
    for name in listed_pages()
    if name not in (*TOURS, *PROSE)
}
"""the recipes by the names of their pages"""
