"""Damaged files of every form end in the values of a strict reading, or in an error that names the file."""

import pytest

from tests import fuzz_files
from tests.profiles import IS_QUICK


@pytest.mark.parametrize("form", fuzz_files.FORMS)
def test_a_damaged_file_is_read_strictly_or_refused_by_name(form, tmp_path):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    assert fuzz_files.run(form, 5 if IS_QUICK else 20, 20261129, tmp_path) == []
