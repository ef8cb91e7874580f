"""Windows and macOS: no fork, another encoding of text, and other habits that one system does not have."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import reid_torchmetrics

ROOT = Path(__file__).parents[1]
SOURCES = [ROOT / folder for folder in ("tests", "examples", "benchmarks", "docs")]

WITHOUT_FORK = """
import os, torch, torchmetrics
del os.fork, os.register_at_fork
from reid_torchmetrics import DetectionMAP, ReIDMetrics
torch.set_num_threads(2)  # so that our own threads work
metrics = ReIDMetrics(ranks=(1,))
metrics.update(torch.tensor([[1.0, 0.0]]), torch.tensor([7]), is_query=True)
metrics.update(torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.1, 0.9]]), torch.tensor([7, 3, 7]), is_query=False)
box, label = torch.tensor([[0.0, 0.0, 4.0, 4.0]]), torch.tensor([1])
detection = DetectionMAP()
detection.update([{"boxes": box, "scores": torch.tensor([0.5]), "labels": label}], [{"boxes": box, "labels": label}])
print(*(f"{float(value):.4f}" for value in metrics.compute().values()), float(detection.compute()["map"]))
"""


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="as it is here")
def test_the_package_works_where_processes_cannot_be_forked():
    done = subprocess.run([sys.executable, "-c", WITHOUT_FORK], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0.8333", "0.6667", "1.0000", "1.0"], done.stderr  # hits at ranks 1 and 3; one box


TEXT_FUNCTIONS = ("open", "read_text", "write_text")


def unencoded(source: str) -> list[str]:
    """Calls of a source that read or write text in whatever encoding the system has."""
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
