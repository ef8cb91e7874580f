"""The notebooks: their cells run one after the other and print what is kept in them, and their pictures are kept, too.

A notebook is JSON, and a cell without magic is Python, so the cells are executed here without Jupyter.
"""

import ast
import json
import sys
from pathlib import Path

import pytest

plt = pytest.importorskip("matplotlib.pyplot")
Image = pytest.importorskip("PIL.Image")

NOTEBOOKS = {path.stem: path for path in Path(__file__).parents[3].glob("examples/notebooks/*.ipynb")}
INSTALLED = {"torch", "PIL", "matplotlib", "reid_torchmetrics"}  # with the extra `plot`
MOST_BYTES = 300_000


def code_cells(name):
    cells = json.loads(NOTEBOOKS[name].read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def printed(cell):
    return "".join("".join(each["text"]) for each in cell["outputs"] if each["output_type"] == "stream")


def is_picture(cell):
    return any("image/png" in each.get("data", {}) for each in cell["outputs"])


def run(source, names):
    """Run a cell; returns the value that Jupyter shows below it, that of an expression in the last line."""
    *lines, last = ast.parse(source).body
    if not isinstance(last, ast.Expr) or source.endswith(";"):
        lines, last = [*lines, last], None
    exec(compile(ast.Module(lines, []), "cell", "exec"), names)  # noqa: S102 - our own text
    return last and eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_cells_print_and_draw_what_is_kept(name, capsys, tmp_path, monkeypatch):
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)  # a report is written
    names = {"__name__": "__main__"}
    for cell in code_cells(name):
        shown = run("".join(cell["source"]), names)
        assert capsys.readouterr().out == printed(cell)
        assert is_picture(cell) == bool(plt.get_fignums() or isinstance(shown, Image.Image))
        plt.close("all")


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_a_notebook_is_small_was_executed_from_top_to_bottom_and_imports_what_is_installed(name):
    cells = code_cells(name)
    assert NOTEBOOKS[name].stat().st_size < MOST_BYTES
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert not any(each["output_type"] == "error" for cell in cells for each in cell["outputs"])
    nodes = [node for cell in cells for node in ast.walk(ast.parse("".join(cell["source"])))]
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    assert {each.partition(".")[0] for each in imported} <= INSTALLED | sys.stdlib_module_names


def test_there_are_three():
    assert sorted(NOTEBOOKS) == ["compare_models", "detection_errors", "reid_evaluation"]
