"""Embeddings in tables: a column of lists in Parquet, or a column for each dimension."""

import json

import numpy as np
import pandas as pd
import pytest

from reid_torchmetrics.command import main
from reid_torchmetrics.data import read_labels, read_samples

X = np.random.default_rng(0).normal(size=(5, 12)).astype(np.float32)
IDS = np.array([3, 3, 5, 5, 7])


@pytest.fixture
def pyarrow():
    pytest.importorskip("pyarrow.parquet")
    return pytest.importorskip("pyarrow")


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed_size_list"])
def test_a_column_of_lists_is_embeddings_as_datasets_of_hugging_face_have_it(pyarrow, kind, tmp_path):
    make = {
        "list": pyarrow.list_(pyarrow.float32()),
        "large_list": pyarrow.large_list(pyarrow.float32()),
        "fixed_size_list": pyarrow.list_(pyarrow.float32(), 12),
    }
    columns = {"embedding": pyarrow.array(X.tolist(), make[kind]), "label": IDS, "path": [*"abcde"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet", row_group_size=2)
    (samples,) = read_samples(tmp_path / "a.parquet")
    assert (samples.embeddings.dtype, samples.embeddings.tolist()) == (np.float32, X.tolist())
    assert samples.labels["identities"].tolist() == IDS.tolist()
    assert samples.names.tolist() == [*"abcde"]
    assert read_labels(tmp_path / "a.parquet")["identities"].tolist() == IDS.tolist()


@pytest.mark.parametrize(("lists", "came"), [([[1.0], [1.0, 2.0]], "1, 2"), ([[1.0], None], "1, None"), ([], "none")])
def test_lists_of_several_lengths_are_no_embeddings(pyarrow, lists, came, tmp_path):
    table = pyarrow.table({"embedding": pyarrow.array(lists, pyarrow.list_(pyarrow.float32()))})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    passed_over = f"got none, and without a reader `embedding`, lists of lengths {came}"
    with pytest.raises(ValueError, match=f"a.parquet: one array must be the embeddings, .*; {passed_over}"):
        read_samples(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["vector", "representation", "image_embeds", "descriptors"])
def test_vectors_have_the_names_of_vector_databases_and_other_libraries(pyarrow, name, tmp_path):
    table = pyarrow.table({name: VECTORS.tolist(), "pid": range(4)})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert np.array_equal(read_samples(tmp_path / "a.parquet")[0].embeddings, VECTORS)


VECTORS = np.eye(4, 3, dtype=np.float32)
STORED = {
    "lists of one list": lambda pa: pa.array([[row] for row in VECTORS.tolist()], pa.list_(pa.list_(pa.float32()))),
    "tensors": lambda pa: pa.FixedShapeTensorArray.from_numpy_ndarray(VECTORS),
    "tensors of one row": lambda pa: pa.FixedShapeTensorArray.from_numpy_ndarray(VECTORS[:, None]),
    "views": lambda pa: pa.array(VECTORS.tolist(), pa.list_view(pa.float32())),
    "bytes": lambda pa: pa.array(VECTORS.astype(int).tolist(), pa.list_(pa.int8())),
}


@pytest.mark.parametrize("form", STORED)
def test_vectors_are_read_from_every_storage_beside_lists_of_other_lengths(pyarrow, form, tmp_path):
    if form == "views" and not hasattr(pyarrow, "list_view"):
        pytest.skip("PyArrow has none before 16")
    columns = {"embedding": STORED[form](pyarrow), "boxes": [[1.0], [], None, [2.0, 3.0]], "pid": [1, 2, 1, 2]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    (samples,) = read_samples(tmp_path / "a.parquet")
    assert np.array_equal(samples.embeddings, VECTORS)
    assert samples.labels["identities"].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("values", [[{"x": 1.0}], [[[1.0], [2.0]]]])
def test_columns_of_other_types_are_named_with_them(pyarrow, values, tmp_path):
    column = pyarrow.array(values * 4)
    pyarrow.parquet.write_table(pyarrow.table({"embedding": column, "pid": range(4)}), tmp_path / "a.parquet")
    kind = {"struct<x: double>": "struct<x: double>"}.get(str(column.type), "several lists in a row")
    with pytest.raises(ValueError, match=f"got `pid`, and without a reader `embedding`, {kind}"):
        read_samples(tmp_path / "a.parquet")


def test_a_small_table_of_equal_lists_does_not_fill_the_memory(pyarrow, tmp_path):
    chunk = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.zeros(2**22, np.float32)), 512)
    pyarrow.parquet.write_table(
        pyarrow.table({"embedding": pyarrow.chunked_array([chunk] * 4)}), tmp_path / "a.parquet"
    )
    assert (tmp_path / "a.parquet").stat().st_size < 2**18
    with pytest.raises(ValueError, match=r"a\.parquet: the file must be .*; got lists of \d+ bytes in memory"):
        read_samples(tmp_path / "a.parquet")


@pytest.mark.parametrize("write", [lambda row: str(row.tolist()), str])
def test_vectors_as_text_are_read(write, tmp_path):
    vectors = X.astype(np.float64).round(4)
    pd.DataFrame({"embedding": [*map(write, vectors)], "label": IDS}).to_csv(tmp_path / "a.csv", index=False)
    (samples,) = read_samples(tmp_path / "a.csv")
    assert samples.embeddings.tolist() == vectors.tolist()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["[0.1 ... 0.2]"], r"`embedding` must hold whole vectors; got '\[0.1 ... 0.2\]' in row 0, whose middle NumPy"),
        (["[1, 2]", "[1]"], "`embedding` must hold vectors of one length, 2 as in row 0; got 1 in row 1"),
        (["[1, 2]", "a.npy"], "`embedding` must hold vectors, such as .*; got 'a.npy' in row 1"),
    ],
)
def test_a_text_that_is_no_vector_is_named(texts, message, tmp_path):
    pd.DataFrame({"embedding": texts, "label": range(len(texts))}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match=message):
        read_samples(tmp_path / "a.csv")


def test_a_folder_of_parquet_is_a_gallery_in_several_files(pyarrow, tmp_path):
    for number, rows in enumerate((slice(2), slice(2, 5))):
        columns = {"embedding": X[rows].tolist(), "label": IDS[rows]}
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / f"{number}.parquet")
    assert [len(file.embeddings) for file in read_samples(tmp_path)] == [2, 3]


def written_by_datasets(pyarrow, path, numbers, names):
    """Write a table with the metadata that `to_parquet` of datasets 5.2.0 writes for a column of `ClassLabel`."""
    features = {"label": {"names": names, "_type": "ClassLabel"}, "camera": {"dtype": "int64", "_type": "Value"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pyarrow.table({"label": pyarrow.array(numbers, pyarrow.int64()), "camera": range(len(numbers))})
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)
    return path


@pytest.mark.parametrize(
    ("names", "identities"),
    [
        (["ann", "bob"], ["bob", "ann", ""]),
        (["0002", "-1"], [-1, 2, np.nan]),
        (["0002", "2"], ["2", "0002", ""]),
    ],
)
def test_numbers_of_classes_are_read_as_their_names_in_the_metadata(pyarrow, names, identities, tmp_path):
    path = written_by_datasets(pyarrow, tmp_path / "a.parquet", [1, 0, None], names)
    labels = read_labels(path, missing_identities="junk")
    assert labels["identities"].tolist() == pytest.approx(identities, nan_ok=True)
    path = written_by_datasets(pyarrow, tmp_path / "a.parquet", [1, 0], names)
    assert read_labels(path)["identities"].tolist() == identities[:2]


def test_a_number_without_a_name_is_refused(pyarrow, tmp_path):
    path = written_by_datasets(pyarrow, tmp_path / "a.parquet", [0, 7], ["ann", "bob"])
    with pytest.raises(ValueError, match=r"a\.parquet: .*; got `label` with numbers from 0 to 7 for 2 names"):
        read_labels(path)


CSV = {
    "numpy.savetxt": lambda path: np.savetxt(path, X, delimiter=","),
    "pandas": lambda path: pd.DataFrame(X.astype(float)).to_csv(path),
    "pandas without numbers of rows": lambda path: pd.DataFrame(X.astype(float)).to_csv(path, index=False),
    "counted from 1": lambda path: pd.DataFrame(X.astype(float), columns=[f"dim_{k + 1}" for k in range(12)]).to_csv(
        path
    ),
    "tabs": lambda path: np.savetxt(path, X, delimiter="\t"),
}


@pytest.mark.parametrize("layout", CSV)
def test_columns_for_each_dimension_are_embeddings(layout, tmp_path):
    CSV[layout](tmp_path / "a.csv")
    (samples,) = read_samples(tmp_path / "a.csv")
    assert samples.embeddings.tolist() == X.astype(float).tolist()
    assert len(samples.guesses) == 1
    assert samples.guesses[0].endswith("` as embeddings")


def test_labels_are_beside_the_columns_of_embeddings(tmp_path):
    table = pd.DataFrame(X.astype(float)).add_prefix("feat_")
    table.assign(pid=IDS, easting=1.5, northing=2, path=[*"abcde"]).to_csv(tmp_path / "a.csv", index=False)
    (samples,) = read_samples(tmp_path / "a.csv")
    assert samples.guesses[0] == f"{tmp_path / 'a.csv'}: `feat_0 to feat_11` as embeddings"
    assert samples.embeddings.tolist() == X.astype(float).tolist()
    assert samples.labels["identities"].tolist() == IDS.tolist()
    assert samples.labels["positions"].tolist() == [[1.5, 2]] * 5
    assert samples.names.tolist() == [*"abcde"]


@pytest.mark.parametrize("header", ["a_0,a_1,b_0,b_1", "a_0,a_2,b_0,b_2", "height,width,pid,depth"])
def test_columns_of_which_none_or_several_may_be_embeddings_are_refused(header, tmp_path):
    (tmp_path / "a.csv").write_text(f"{header}\n0.5,1,2,3\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.csv: one array must be the embeddings, distances or scores by its name"):
        read_samples(tmp_path / "a.csv")


def test_tables_of_embeddings_are_evaluated_by_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame(np.eye(3)).assign(pid=[1, 2, 2])
    table.iloc[:2].to_csv("q.csv", index=False)
    table.iloc[[2, 1, 0]].to_csv("g.tsv", index=False, sep="\t")
    # Each query finds itself first; the second one has another positive, third after an item of equal score.
    assert main(["evaluate", "q.csv", "g.tsv", "--reports", "rank_1"]) == 0
    said = capsys.readouterr()
    assert "100" in said.out
    assert "`0 to 2` as embeddings" in said.err


@pytest.mark.parametrize("in_list", [False, True])
@pytest.mark.parametrize("make_feature", [lambda label: {"feature": label, "_type": "List"}, lambda label: [label]])
def test_numbers_of_hugging_face_are_the_names_of_their_classes_also_in_lists(pyarrow, in_list, make_feature, tmp_path):
    label = {"names": ["b", "a"], "_type": "ClassLabel"}
    features = {"label": make_feature(label) if in_list else label, "boxes": [{"x": {"_type": "Value"}}]}
    numbers = [[1], [0], [1]] if in_list else [1, 0, 1]
    table = pyarrow.table({"embedding": X[:3].tolist(), "label": numbers})
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
    (samples,) = read_samples(tmp_path / "a.parquet")
    assert samples.labels["identities"].tolist() == ["a", "b", "a"]
