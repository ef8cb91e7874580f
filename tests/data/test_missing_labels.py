"""Identities that are missing in files: refused, or kept as missing where a user says that they may be."""

import numpy as np
import pandas as pd
import pytest

from reid_torchmetrics.data import read_labels, read_samples

NUMBERS = pd.DataFrame({"pid": [3, None, 5], "camid": [1, 2, 1]})
NAMES = pd.DataFrame({"pid": ["lynx", None, "ida"], "camid": [1, 2, 1]})


def written(folder, suffix, frame):
    path = folder / f"labels{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_empty_cells_and_nulls_are_missing(tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    numbers = read_labels(written(tmp_path, suffix, NUMBERS), missing_identities="junk")["identities"]
    assert str(numbers.tolist()) == "[3.0, nan, 5.0]"
    names = read_labels(written(tmp_path, suffix, NAMES), missing_identities="junk")["identities"]
    assert names.tolist() == ["lynx", "", "ida"]
    with pytest.raises(
        ValueError,
        match=r"`pid` must hold whole numbers or strings; got '' for sample 1\. Pass `missing_identities='junk'`",
    ):
        read_labels(written(tmp_path, suffix, NAMES))


def test_missing_cameras_are_refused(tmp_path):
    frame = pd.DataFrame({"pid": [3, 4, 5], "camid": [1, None, 1]})
    with pytest.raises(ValueError, match=r"`camid` must hold whole numbers or strings; got nan for sample 1\.$"):
        read_labels(written(tmp_path, ".csv", frame), missing_identities="junk")


def test_shards_with_and_without_missing_identities_have_one_form(tmp_path):
    for number, identities in enumerate(([1.0, 2.0], [np.nan, 4.0])):
        np.savez(tmp_path / f"{number}.npz", embeddings=np.eye(2), identities=np.array(identities))
    first, second = read_samples(tmp_path, missing_identities="junk")
    assert str([*first.labels["identities"], *second.labels["identities"]]) == str(
        [*map(np.float64, (1, 2, np.nan, 4))]
    )
    with pytest.raises(ValueError, match=r"got nan for sample 0\. Pass `missing_identities='junk'`"):
        read_samples(tmp_path)
