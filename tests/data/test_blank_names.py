"""A column or an array with a blank name is not the one array of a file that has no name."""

import numpy as np
import pytest
import torch

from reid_torchmetrics.data import read_labels

IDENTITIES, CAMERAS = np.array([7, 8, 7]), np.array([1, 2, 3])


def as_csv(path):
    """As `to_csv()` of pandas and `write.csv` of R write it, with the numbers of the rows."""
    rows = [",pid,camid", *(f"{row},{IDENTITIES[row]},{CAMERAS[row]}" for row in range(3))]
    path.with_suffix(".csv").write_text("\n".join(rows), encoding="utf-8")
    return path.with_suffix(".csv")


def as_csv_with_trailing_commas(path):
    rows = ["pid,camid,", *(f"{IDENTITIES[row]},{CAMERAS[row]}," for row in range(3))]
    path.with_suffix(".csv").write_text("\n".join(rows), encoding="utf-8")
    return path.with_suffix(".csv")


def as_npz(path):
    np.savez(path.with_suffix(".npz"), **{"": np.arange(3), "pid": IDENTITIES, "camid": CAMERAS})
    return path.with_suffix(".npz")


def as_pt(path):
    arrays = {"": np.arange(3), "pid": IDENTITIES, "camid": CAMERAS}
    torch.save({name: torch.from_numpy(values) for name, values in arrays.items()}, path.with_suffix(".pt"))
    return path.with_suffix(".pt")


def as_parquet(path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"": np.arange(3), "pid": IDENTITIES, "camid": CAMERAS})
    parquet.write_table(table, path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


WRITERS = [as_csv, as_csv_with_trailing_commas, as_npz, as_pt, as_parquet]


@pytest.mark.parametrize("write", WRITERS)
def test_named_columns_are_found_beside_a_blank_name(tmp_path, write):
    labels = read_labels(write(tmp_path / "labels"))
    assert labels.keys() == {"identities", "cameras"}
    assert labels["identities"].tolist() == IDENTITIES.tolist()
    assert labels["cameras"].tolist() == CAMERAS.tolist()


@pytest.mark.parametrize("write", WRITERS)
def test_names_of_columns_are_looked_up(tmp_path, write):
    path = write(tmp_path / "labels")
    assert read_labels(path, names={"identities": "camid"})["identities"].tolist() == CAMERAS.tolist()
    with pytest.raises(ValueError, match="`other`, named as identities, must be in the file"):
        read_labels(path, names={"identities": "other"})


def test_the_numbers_of_rows_are_labels_by_their_name_only(tmp_path):
    path = as_csv(tmp_path / "labels")
    assert read_labels(path, names={"identities": "column 1"})["identities"].tolist() == [0, 1, 2]
