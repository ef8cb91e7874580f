"""Forms that no reader takes: the message has the line of Python that converts the file, and the line does so."""

import io
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import torch

from reid_torchmetrics.command import main
from reid_torchmetrics.data import read_ground_truth, read_labels, read_pairs, read_retrieved, read_samples
from reid_torchmetrics.data.foreign_forms import CONVERSIONS

X, IDS = np.eye(3, 4), np.array([5, 6, 5])


def remedy(reader, path):
    """The line of Python in the message that refuses a file."""
    with pytest.raises(ValueError, match=re.escape(str(path))) as raised:
        reader(path)
    return re.search(r"convert it by `(.*?)`", str(raised.value))[1]


def as_dict():
    return {"feat": X.tolist(), "pids": IDS.tolist()}


def as_records():
    return [{"feat": row, "pids": int(identity)} for row, identity in zip(X.tolist(), IDS, strict=True)]


def as_tensors(rows):
    return [{name: torch.tensor(value) for name, value in row.items()} for row in rows]


def write_stream(path):
    table = pytest.importorskip("pyarrow").Table.from_pylist(as_records())
    with path.open("wb") as file, pytest.importorskip("pyarrow.ipc").new_stream(file, table.schema) as writer:
        writer.write_table(table)


ARRAYS = {
    "a.pkl": lambda path: path.write_bytes(pickle.dumps(as_dict())),
    "a.json": lambda path: path.write_text(json.dumps(as_dict()), encoding="utf-8"),
    "records.pkl": lambda path: path.write_bytes(pickle.dumps(as_records())),
    "arrays.pkl": lambda path: path.write_bytes(pickle.dumps(list(X), protocol=0)),
    "pandas.pkl": lambda path: pd.DataFrame(as_records()).to_pickle(path),
    "records.json": lambda path: path.write_text(json.dumps(as_records()), encoding="utf-8"),
    "split.json": lambda path: pd.DataFrame(as_records()).to_json(path, orient="split"),
    "columns.json": lambda path: pd.DataFrame(as_records()).to_json(path),
    "a.ndjson": lambda path: pd.DataFrame(as_records()).to_json(path, orient="records", lines=True),
    "a.arrow": lambda path: pd.DataFrame(as_records()).to_feather(path),
    "stream.arrow": write_stream,
    "a.npy": lambda path: np.save(path, as_dict(), allow_pickle=True),
    "a.pt": lambda path: torch.save({"feat": X, "pids": IDS}, path),
    "a.txt": lambda path: np.savetxt(path, X),
    "a.fbin": lambda path: path.write_bytes(np.array(X.shape, "i4").tobytes() + X.astype("f4").tobytes()),
    "lines.json": lambda path: pd.DataFrame(as_records()).to_json(path, orient="records", lines=True),
    "samples.pt": lambda path: torch.save(as_tensors(as_records()), path),
    "batches.pt": lambda path: torch.save(
        as_tensors([{"feat": X[:2], "pids": IDS[:2]}, {"feat": X[2:], "pids": IDS[2:]}]), path
    ),
    "tuple.pt": lambda path: torch.save((torch.tensor(X), torch.tensor(IDS)), path),
    "by_name.pt": lambda path: torch.save(dict(zip("abc", torch.tensor(X), strict=True)), path),
    "by_name.npz": lambda path: np.savez(path, **dict(zip("abc", X, strict=True))),
    "list.pt": lambda path: torch.save([torch.tensor(row) for row in X], path),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_the_line_in_the_message_makes_embeddings_of_the_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    ARRAYS[name](path)
    if name.endswith("arrow"):
        pytest.importorskip("pyarrow")
    line = remedy(read_samples, path)
    known = {"numpy": np, "torch": torch, "json": json, "pickle": pickle, "pandas": pd, "path": path}
    if name == "a.npy":
        known["array"] = np.load(path, allow_pickle=True)
    if name == "list.pt":
        known["tensors"] = torch.load(path)
    if name.startswith("by_name"):
        known["arrays"] = dict(np.load(path)) if name.endswith("npz") else torch.load(path)
    known["names"] = ["features", "identities"]
    with path.open("rb") as known["file"]:
        exec(line, known)  # noqa: S102 - the line of the message, as a user would paste it
    converted = [each for each in tmp_path.iterdir() if each != path] or [path]
    (samples,) = read_samples(converted[0])
    assert samples.embeddings.tolist() == X.tolist()
    assert samples.names is None or samples.names.tolist() == [*"abc"]
    assert [*samples.labels.values()] == [] or samples.labels["identities"].tolist() == IDS.tolist()


def test_the_lines_for_tables_and_lists_are_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "a.jsonl"
    pd.DataFrame({"pid": IDS}).to_json(table, orient="records", lines=True)
    pytest.importorskip("pyarrow")
    exec(remedy(read_labels, table), {"pandas": pd, "path": table})  # noqa: S102
    assert read_labels("table.parquet")["identities"].tolist() == IDS.tolist()
    rows = np.array([np.array([1, 2]), np.array([0])], dtype=object)
    np.save("gt.npy", rows)
    with pytest.raises(ValueError, match=re.escape(f"lists of items by `{CONVERSIONS['lists as objects']}`.")):
        read_ground_truth("gt.npy")
    file = io.StringIO()
    exec(CONVERSIONS["lists as objects"], {"json": json, "array": rows, "file": file})  # noqa: S102
    assert json.loads(file.getvalue()) == [[1, 2], [0]]


LISTS = {
    "a.pkl": lambda path: path.write_bytes(pickle.dumps([[2, 0], [1, 3]])),
    "hits.json": lambda path: path.write_text(
        json.dumps([[{"corpus_id": k} for k in row] for row in ([2, 0], [1, 3])]), encoding="utf-8"
    ),
    "pairs.json": lambda path: path.write_text("[[[2, 0.5], [0, 0.25]], [[1, 0.5], [3, 0.25]]]", encoding="utf-8"),
    "a.npz": lambda path: np.savez(path, I=[[2, 0], [1, 3]]),
    "a.pt": lambda path: torch.save(torch.tensor([[2, 0], [1, 3]]), path),
    "a.mat": lambda path: scipy.io.savemat(path, {"I": [[2, 0], [1, 3]]}),
    "a.parquet": lambda path: pd.DataFrame({"I": [[2, 0], [1, 3]]}).to_parquet(path),
}
RUN = {"q1": {"a": 0.75, "b": 0.5}, "q2": {"b": 0.25}}
META = {"model_name": "m", "revision": "r"}
RUNS = {
    "long.csv": lambda path: long_table().to_csv(path, index=False),
    "ranked.csv": lambda path: long_table().assign(rank=[1, 2, 1]).to_csv(path, index=False),
    "ranked.parquet": lambda path: long_table().assign(rank=[1, 2, 1]).to_parquet(path),
    "long.parquet": lambda path: long_table().to_parquet(path),
    "mteb.json": lambda path: path.write_text(
        json.dumps({"mteb_model_meta": META, "default": {"test": RUN}}), encoding="utf-8"
    ),
}
"""a run as other tools write it: MTEB by subset and split"""
RUNS |= {
    "records.json": lambda path: long_table().to_json(path, orient="records"),
    "results.json": lambda path: path.write_text(json.dumps({"results": RUN}), encoding="utf-8"),
}


def long_table():
    rows = [(query, item, score) for query, items in RUN.items() for item, score in items.items()]
    return pd.DataFrame(rows, columns=["query", "item", "score"])


def converted_lists(path):
    """What the line in the message makes of a file of lists."""
    known = {"numpy": np, "torch": torch, "json": json, "pickle": pickle, "scipy": scipy, "pandas": pd}
    known |= {"path": path, "name": "I"}
    line = remedy(read_retrieved, path)
    with path.open("rb") as known["file"]:
        exec(line.replace("open('lists.json', 'w')", "output"), known | {"output": (output := io.StringIO())})  # noqa: S102
    if output.getvalue():
        Path("lists.json").write_text(output.getvalue(), encoding="utf-8")
    (converted,) = Path().glob("lists.*")
    return read_retrieved(converted)


@pytest.mark.parametrize("name", LISTS)
def test_the_line_in_the_message_makes_lists_of_the_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LISTS[name](tmp_path / name)
    assert np.array_equal(converted_lists(tmp_path / name), [[2, 0], [1, 3]])


@pytest.mark.parametrize("name", RUNS)
def test_the_line_in_the_message_makes_a_run_of_the_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RUNS[name](tmp_path / name)
    assert converted_lists(tmp_path / name) == RUN


def test_an_array_of_objects_that_is_not_needed_is_left_unread(tmp_path):
    paths = np.array(["a.jpg", "b.jpg", "c.jpg"], dtype=object)  # as `df.path.values`
    np.savez(tmp_path / "a.npz", feat=X, pids=IDS, paths=paths)
    (samples,) = read_samples(tmp_path / "a.npz")
    assert samples.embeddings.tolist() == X.tolist()
    assert samples.names is None
    assert read_labels(tmp_path / "a.npz")["identities"].tolist() == IDS.tolist()


@pytest.mark.parametrize("arrays", [{"pids": IDS.astype(object)}, {"paths": np.array(["a.jpg"], dtype=object)}])
def test_an_array_of_objects_that_is_needed_has_its_remedy(arrays, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    assert remedy(read_labels, tmp_path / "a.npz") == "array.astype(str)"
    (name,) = arrays
    np.savez(tmp_path / "a.npz", **{name: arrays[name].astype(str)})
    read_labels(tmp_path / "a.npz")


def test_a_class_of_another_package_is_not_said_to_be_converted(tmp_path):
    torch.save({"feat": torch.nn.Linear(2, 2)}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"got the class torch\.nn\.modules\.linear\.Linear\.$"):
        read_samples(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"distance": [0.5], "same": [1]},
            "`scores`, higher for closer pairs (minus distances), and `same`, one of each; got distance",
        ),
        ({"score": [0.5, 0.4], "same": [1, -1]}, "`same` 1 or 0; got float64 [2] and -1."),
        ({"score": [0.5], "same": ["yes"]}, "`same` 1 or 0; got float64 [1] and 'yes'."),
    ],
)
def test_pairs_of_other_columns_and_flags_are_named(columns, message, tmp_path):
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_pairs(tmp_path / "a.csv")


def test_flags_of_pairs_may_be_a_column_of_a_table(tmp_path):
    (tmp_path / "pairs.csv").write_text("label,a,b\n1,x,y\n0,x,z\n", encoding="utf-8")
    (tmp_path / "scores.txt").write_text("0.9\n0.4\n", encoding="utf-8")
    assert read_pairs(tmp_path / "pairs.csv", tmp_path / "scores.txt")[1].tolist() == [True, False]


def test_lists_in_parquet_that_are_no_labels_are_named(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"pid": [[1], [2]]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"got none, and without a reader `pid`, list<"):
        read_labels(tmp_path / "a.parquet")


@pytest.mark.parametrize("content", ["{}", "[]"])
def test_json_without_lists_is_refused(content, tmp_path):
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    with pytest.raises(
        ValueError, match=re.escape(f"the file must be JSON of queries with their lists; got {content}.")
    ):
        read_retrieved(tmp_path / "a.json")


def test_embeddings_with_a_column_for_each_sample_are_said_to_be_transposed(tmp_path):
    np.savez(tmp_path / "a.npz", feat=X.T, pids=IDS)
    with pytest.raises(
        ValueError, match=r"`feat` must have a row .* shape \[4, 3\], .* transposed, as `pids` has 3 values"
    ):
        read_samples(tmp_path / "a.npz")


def test_counted_columns_may_be_in_any_order(tmp_path):
    pd.DataFrame(X, columns=[f"f{k}" for k in range(4)]).iloc[:, [3, 0, 2, 1]].to_csv(tmp_path / "a.csv", index=False)
    assert read_samples(tmp_path / "a.csv")[0].embeddings.tolist() == X.tolist()


def test_flags_of_pairs_and_their_scores_are_two_arrays(tmp_path, monkeypatch, capsys):
    # InsightFace writes `lfw_list.npy`, whether the two of each pair are one person.
    monkeypatch.chdir(tmp_path)
    np.save("lfw_list.npy", np.array([True, False, True]))
    np.save("scores.npy", np.array([0.9, 0.5, 0.4]))
    scores, same = read_pairs("lfw_list.npy", "scores.npy")
    assert (scores.tolist(), same.tolist()) == ([0.9, 0.5, 0.4], [True, False, True])
    assert main(["pairs", "lfw_list.npy", "scores.npy", "--reports", "auc"]) == 0
    assert "50.0" in capsys.readouterr().out  # one of two pairs of a genuine and an impostor score is in order
