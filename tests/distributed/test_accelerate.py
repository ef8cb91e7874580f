"""The block on Accelerate on two processes: each sample counts once, although Accelerate repeats and gathers some."""

import contextlib
import importlib.util
import io
import os
import re
import warnings
from pathlib import Path
from unittest import mock

import pytest

from tests import test_docs_pages

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "frameworks.md"
UPDATE = "metrics.update(network(images), identities, is_query=index < 8, index=index)"
GATHERED = "accelerator.gather_for_metrics((network(images), identities, index))"
CALLS = {
    "as the page says": UPDATE,
    "gathered": f"embeddings, identities, index = {GATHERED}\n        "
    + UPDATE.replace("network(images)", "embeddings"),
}

pytestmark = pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="Accelerate is not installed")


def printed_and_said(process: int, size: int, code: str) -> tuple[list[str], list[str]]:
    """What the block prints on a process, and the warnings of it."""
    from accelerate.state import AcceleratorState  # noqa: PLC0415

    variables = {"RANK": process, "LOCAL_RANK": process, "WORLD_SIZE": size, "MASTER_ADDR": "localhost"}
    AcceleratorState._reset_state(reset_partial_state=True)
    with (
        mock.patch.dict(os.environ, {name: str(value) for name, value in variables.items()}),
        contextlib.redirect_stdout(io.StringIO()) as text,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        exec(compile(code, "page", "exec"), {"__name__": "page"})  # noqa: S102 - our own text
    return text.getvalue().splitlines(), [str(each.message) for each in caught if "sample" in str(each.message)]


@pytest.fixture(scope="module")
def block():
    (code,) = (code for code in test_docs_pages.blocks(PAGE) if "from accelerate import" in code)
    return code


@pytest.mark.parametrize("call", CALLS)
def test_each_sample_with_an_index_counts_once(processes, block, call):
    assert UPDATE in block
    first, second = processes.run(2, printed_and_said, block.replace(UPDATE, CALLS[call]))
    assert first == (test_docs_pages.printed(block), [])
    assert second == ([], [])


@pytest.mark.parametrize("call", CALLS)
def test_without_an_index_other_numbers_come_with_a_warning(processes, block, call):
    code = block.replace(UPDATE, CALLS[call].replace(", index=index", ""))
    (printed, said), _ = processes.run(2, printed_and_said, code)
    assert printed != test_docs_pages.printed(block)
    assert re.search("index", said[0])
