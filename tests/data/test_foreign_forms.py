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
    with path.open("rb") as known["file"]:
        exec(line, known)  # noqa: S102 - the line of the message, as a user would paste it
    converted = [each for each in tmp_path.iterdir() if each != path] or [path]
    (samples,) = read_samples(converted[0])
    assert samples.embeddings.tolist() == X.tolist()
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
    "a.npz": lambda path: np.savez(path, I=[[2, 0], [1, 3]]),
    "a.pt": lambda path: torch.save(torch.tensor([[2, 0], [1, 3]]), path),
    "a.mat": lambda path: scipy.io.savemat(path, {"I": [[2, 0], [1, 3]]}),
    "a.parquet": lambda path: pd.DataFrame({"I": [[2, 0], [1, 3]]}).to_parquet(path),
}
RUN = {"q1": {"a": 0.75, "b": 0.5}, "q2": {"b": 0.25}}
META = {"model_name": "m", "revision": "r"}
RUNS = {
    "long.csv": lambda path: long_table().to_csv(path, index=False),
    "long.parquet": lambda path: long_table().to_parquet(path),
    "mteb.json": lambda path: path.write_text(
        json.dumps({"mteb_model_meta": META, "default": {"test": RUN}}), encoding="utf-8"
    ),
}
"""a run as other tools write it: MTEB by subset and split"""


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


def test_flags_of_pairs_and_their_scores_are_two_arrays(tmp_path, monkeypatch, capsys):
    # InsightFace writes `lfw_list.npy`, whether the two of each pair are one person.
    monkeypatch.chdir(tmp_path)
    np.save("lfw_list.npy", np.array([True, False, True]))
    np.save("scores.npy", np.array([0.9, 0.5, 0.4]))
    scores, same = read_pairs("lfw_list.npy", "scores.npy")
    assert (scores.tolist(), same.tolist()) == ([0.9, 0.5, 0.4], [True, False, True])
    assert main(["pairs", "lfw_list.npy", "scores.npy", "--reports", "auc"]) == 0
    assert "50.0" in capsys.readouterr().out  # one of two pairs of a genuine and an impostor score is in order
