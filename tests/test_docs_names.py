"""The documents for contributors name files, functions and options that exist."""

import re
from pathlib import Path

import pytest

import reid_torchmetrics
from reid_torchmetrics.functional import detection, retrieval
from tests.test_docs_pages import DOCS, PAGES, ROOT, name_of, without_fences

PACKAGE = Path(reid_torchmetrics.__file__).parent
DOCUMENTS = (
    *("CONTRIBUTING.md", "DECISIONS.md", "SECURITY.md"),
    *(path.relative_to(ROOT).as_posix() for path in sorted((DOCS / "extending").glob("*.md"))),
)
FOLDERS = (PACKAGE, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples", DOCS / "_ext")
PLACEHOLDERS = ("X", "file")
"""parts of a path that stand for any"""
OF_OTHERS = {"TypedDict": "typing", "pkg_resources": "setuptools"}
"""names in other packages, with the package"""
_PATH = re.compile(r"[\w./-]+\.(?:py|md|json|toml|npz)|[\w.-]+(?:/[\w.-]+)*/")
_NAMES_OF_CODE = re.compile(
    r"""(?:def|class|import|as)\ (\w+)  # functions, classes and modules
    |^(\w+)(?::\ |\ =\ )               # constants of a module
    |^\ {4}(\w+):\ [^=\n]+(?:=|$)       # fields of a class
    |\b(\w+)=                          # arguments
    |\.(\w+)                           # attributes
    |["'](\w+)                         # keys, and values of options
    """,
    re.MULTILINE | re.VERBOSE,
)
_NAME = re.compile(r"([A-Za-z_][\w.]*)(?:\(.*\))?")
_OWN_CLASSES = {
    name: getattr(room, name)
    for room in (reid_torchmetrics, retrieval, detection)
    for name in room.__all__
    if isinstance(getattr(room, name), type)
}


def code_in(text: str) -> list[str]:
    """The words in backticks, outside of blocks of code."""
    return re.findall(r"`([^`\n]+)`", without_fences(text))


def paths() -> list[str]:
    """Files and folders from the root; those of the package also from there."""
    listed = [path.relative_to(ROOT) for folder in (*FOLDERS, DOCS) for path in (folder, *folder.rglob("*"))]
    listed += [path.relative_to(ROOT) for path in (*ROOT.iterdir(), *(ROOT / ".ci").glob("*"))]
    return [f"/{path.as_posix()}" for path in listed]


def names_in(source: str) -> set[str]:
    """The names that a source file gives to others or asks others for; local variables are none."""
    return {name for found in _NAMES_OF_CODE.findall(source) for name in found if name}


@pytest.fixture(scope="module")
def known_names() -> set[str]:
    """The names in the source files of the repository."""
    files = [path for folder in FOLDERS for path in folder.rglob("*.py")]
    files += list(ROOT.glob("*.py"))
    known = {part for path in files for part in (path.stem, *path.parent.parts)}
    for path in files:
        if path != Path(__file__):
            known |= names_in(path.read_text(encoding="utf-8"))
    return known


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_a_document_names_exist(document):
    known = paths()
    missing = []
    for words in code_in((ROOT / document).read_text(encoding="utf-8")):
        is_placeholder = not {*re.split(r"[/.]", words)}.isdisjoint(PLACEHOLDERS)
        if _PATH.fullmatch(words) and not is_placeholder:
            ending = f"/{words.strip('/')}"
            if not any(path.endswith(ending) for path in known):
                missing.append(words)
    assert missing == [], f"{document} names files that do not exist: correct it"


def test_tests_that_compare_recorded_outputs_exist():
    words = code_in((ROOT / "tests/golden/README.md").read_text(encoding="utf-8"))
    patterns = [re.sub("<.*>", "*", path) for path in words if path.startswith("tests/")]
    assert [pattern for pattern in patterns if not any(ROOT.glob(pattern))] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names_in_a_document_exist(document, known_names):
    missing = []
    for words in code_in((ROOT / document).read_text(encoding="utf-8")):
        name = _NAME.fullmatch(words)
        if name is None or _PATH.fullmatch(words) or words.endswith("..."):
            continue
        parts = [part for part in name[1].split(".") if part]
        if not {*parts} <= known_names | OF_OTHERS.keys():
            missing.append(words)
    assert missing == [], f"{document} names what no source file has: correct it"


def test_members_of_our_classes_on_pages_exist():
    missing = []
    for page in PAGES:
        for words in code_in(page.read_text(encoding="utf-8")):
            member = re.match(r"(\w+)\.(\w+)", words)
            if member is None or member[1] not in _OWN_CLASSES:
                continue
            kind = _OWN_CLASSES[member[1]]
            fields = getattr(kind, "__annotations__", {})
            if not hasattr(kind, member[2]) and member[2] not in fields:
                missing.append((name_of(page), words))
    assert missing == [], "pages name members that do not exist: correct them"


def test_contributing_has_at_most_1500_words():
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split()) <= 1500


def test_names_of_local_variables_are_none_of_a_file():
    source = """import math as numbers
LIMIT = 3
class Box:
    side: int = 0
    def area(self, unit="cm"):
        chosen = self.width
        found: int = chosen
        return area_of(chosen, square=True)
"""
    assert names_in(source) == {"math", "numbers", "LIMIT", "Box", "side", "area", "unit", "cm", "width", "square"}
