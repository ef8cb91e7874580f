"""What `SECURITY.md` says of the files that are read: it names every reader and every suffix."""

import re
from pathlib import Path

import pytest

from reid_torchmetrics import data
from reid_torchmetrics.data.array_files import FORMATS
from reid_torchmetrics.data.table_files import TABLES, TEXTS

TEXT = (Path(__file__).parents[1] / "SECURITY.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("## What the library reads\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", [name for name in data.__all__ if name.startswith("read_")])
def test_every_reader_is_named(name):
    assert f"`{name}`" in SECTION


@pytest.mark.parametrize("suffix", FORMATS | TABLES | TEXTS)
def test_every_suffix_is_named(suffix):
    assert re.search(rf"{re.escape(suffix)}\b", SECTION)
