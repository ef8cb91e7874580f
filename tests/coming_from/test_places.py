"""The functions of the page on places for those of SALAD and OpenVPRLab, on an example whose ranks are known."""

import torch

from tests import test_docs_pages
from tests.test_docs_pages import DOCS

DATABASE = torch.eye(3)
QUERIES = torch.tensor([[0.1, 0.2, 0.9], [0.9, 0.2, 0.1]])  # the nearest are 2 1 0 and 0 1 2
POSITIVES = [[2], [1]]
PRINTED = "pitts30k R@1 50.00 R@2 100.00\n"


def page() -> dict:
    (code,) = (block for block in test_docs_pages.blocks(DOCS / "how_to" / "places.md") if "def " in block)
    functions: dict = {}
    exec(compile(code, "places", "exec"), functions)  # noqa: S102 - our own text
    return functions


def test_the_function_of_salad_prints_and_returns_the_numbers(capsys):
    recalls = page()["get_validation_recalls"](
        DATABASE, QUERIES, [1, 2], POSITIVES, print_results=True, faiss_gpu=False, dataset_name="pitts30k"
    )
    assert recalls == {1: 0.5, 2: 1.0}
    assert capsys.readouterr().out == PRINTED
    page()["get_validation_recalls"](DATABASE, QUERIES, [1, 2], POSITIVES, print_results=False)
    assert capsys.readouterr().out == ""
