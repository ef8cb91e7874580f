"""Windows and macOS: another encoding of text. `test_imports.py` runs the package without forks."""

import ast
import re
from pathlib import Path

import pytest

import reid_torchmetrics

ROOT = Path(__file__).parents[1]
SOURCES = [ROOT / folder for folder in ("tests", "examples", "benchmarks", "docs")]

TEXT_FUNCTIONS = ("open", "read_text", "write_text")


def unencoded(source: str) -> list[str]:
    """Calls of a source that read or write text in whatever encoding the system has."""
    if not re.search(rf"\b({'|'.join(TEXT_FUNCTIONS)})\(", source):
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    of_text = [call for call in calls if _name_of(call.func) in TEXT_FUNCTIONS and _is_of_text(call)]
    return [ast.unparse(call) for call in of_text if all(each.arg not in ("encoding", None) for each in call.keywords)]


def _name_of(function: ast.expr) -> str:
    """The last name of a function, as `open` of `Image.open`."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_of_text(call: ast.Call) -> bool:
    owner, _, name = ast.unparse(call.func).rpartition(".")
    arguments = [*call.args, *(each.value for each in call.keywords)]
    modes = [each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    opens = name == "open" and owner not in ("Image", "PIL.Image", "archive", "tarfile", "fsspec")
    return name != "open" or (opens and not any("b" in mode for mode in modes))


def test_text_is_read_and_written_as_utf_8_on_every_system():
    package = Path(reid_torchmetrics.__file__).parent
    paths = [path for folder in (package, *SOURCES) for path in folder.rglob("*.py") if "_build" not in path.parts]
    named = [(path.name, call) for path in paths for call in unencoded(path.read_text(encoding="utf-8"))]
    assert named == []


@pytest.mark.parametrize("call", ["open(path)", "path.open('w')", "path.read_text()", "path.write_text(text)"])
def test_text_without_an_encoding_would_be_found(call):
    assert unencoded(f"with {call} as file: pass") == [call]
    encoded = f"{call[:-1]}{'' if call.endswith('()') else ', '}encoding='utf-8')"
    assert not unencoded(encoded)
    assert not unencoded("path.open('rb'), Image.open(path), path.read_bytes()")
