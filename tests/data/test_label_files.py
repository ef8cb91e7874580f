"""Labels from tables and from names of files."""

import re
from itertools import permutations

import h5py
import numpy as np
import pytest

from reid_torchmetrics.data import labels_from_names, number_identities, read_labels, read_samples
from reid_torchmetrics.data.array_names import FIELD_NAMES
from reid_torchmetrics.functional.retrieval import evaluate
from tests.data.texts import written

QUERY, GALLERY = [True, False], [False, True]
TABLE = {"image_path": ["b/1_x.jpg", "a/2.jpg"], "pid": ["0007", " 8"], "split": ["query", "test"], "note": ["", "1.5"]}


def csv_of(path, columns, lines="\n"):
    rows = [columns.keys(), *zip(*columns.values(), strict=True)]
    path.write_text(lines.join(",".join(row) for row in rows), encoding="utf-8", newline="")
    return path


def in_lists(labels):
    return {key: values.tolist() for key, values in labels.items()}


def test_a_table_is_read_by_its_columns(tmp_path):
    path = csv_of(tmp_path / "labels.csv", TABLE, "\r\n\r\n")
    labels = read_labels(path)
    assert in_lists(labels) == {"identities": [7, 8], "roles": [QUERY, GALLERY], "names": ["b/1_x.jpg", "a/2.jpg"]}
    assert (labels["identities"].dtype, labels["roles"].dtype) == (np.int64, bool)
    assert in_lists(read_labels(path, names={"identities": "image_path"}))["identities"] == TABLE["image_path"]


def test_a_comma_in_quotes_and_a_byte_order_mark_are_no_columns(tmp_path):
    (tmp_path / "labels.csv").write_text('\ufeffname,id\n"a, b",1\n', encoding="utf-8")
    assert in_lists(read_labels(tmp_path / "labels.csv")) == {"names": ["a, b"], "identities": [1]}


@pytest.mark.parametrize("pair", [("easting", "northing"), ("UTM_East", "UTM_North"), ("x", "y")])
def test_two_columns_are_positions(pair, tmp_path):
    path = csv_of(tmp_path / "places.csv", {pair[0]: ["1", "2"], "group": ["4", "4"], pair[1]: ["3.5", "-1e3"]})
    assert in_lists(read_labels(path)) == {"positions": [[1, 3.5], [2, -1000]], "groups": [4, 4]}


def test_y_is_an_identity_without_x(tmp_path):
    assert in_lists(read_labels(csv_of(tmp_path / "a.csv", {"y": ["4"]}))) == {"identities": [4]}
    path = csv_of(tmp_path / "b.csv", {"x": ["1"], "y": ["4"]})
    assert in_lists(read_labels(path, names={"identities": "y"})) == {"identities": [4]}


@pytest.mark.parametrize("ids", ["0 1 2 3", "1 2 3 4", "2 0 3 1", "11 12 13 14", "1.0 2.0 3.0 4.0"])
def test_an_id_that_numbers_the_rows_beside_what_may_be_identities_is_refused(ids, tmp_path):
    table = {"id": ids.split(), "person": ["ann", "bob", "ann", "cid"], "camera": ["1", "1", "2", "2"]}
    path = csv_of(tmp_path / "labels.csv", table)
    rule = "labels.csv: `id` counts the rows, so that `names={'identities': NAME}` must say what the identities are"
    with pytest.raises(ValueError, match=re.escape(f"{rule}; got also `person`.")):
        read_labels(path)
    assert in_lists(read_labels(path, names={"identities": "id"}))["identities"] == [float(row) for row in ids.split()]
    assert in_lists(read_labels(path, names={"identities": "person"}))["identities"] == table["person"]


@pytest.mark.parametrize("changes", [{"id": [*"0213"]}, {"note": [*"abcd"]}, {"note": ["0.5"] * 4}])
def test_other_ids_are_identities(changes, tmp_path):
    path = csv_of(tmp_path / "labels.csv", {"id": [*"0123"], "note": ["1.5", "1.5", "2.5", "3.5"]} | changes)
    assert len(read_labels(path)["identities"]) == 4


def test_arrays_are_tables_too(tmp_path):
    np.savez(tmp_path / "labels.npz", pid=[3.0, 4.0], is_query=np.array([True, False]), utm=np.eye(2))
    np.save(tmp_path / "ids.npy", np.array([5, 6], np.int16))
    of_both = in_lists(read_labels(tmp_path / "labels.npz"))
    assert of_both == {"identities": [3, 4], "roles": [QUERY, GALLERY], "positions": [[1, 0], [0, 1]]}
    assert in_lists(read_labels(tmp_path / "ids.npy")) == {"identities": [5, 6]}


def test_one_position_is_two_numbers_and_not_two_samples(tmp_path):
    np.savez(tmp_path / "one.npz", utm=[[1.0, 2.0]], X=np.eye(1, 3), y=[4])
    assert in_lists(read_labels(tmp_path / "one.npz")) == {"identities": [4], "positions": [[1, 2]]}
    np.savez(tmp_path / "alone.npz", utm=[[1.0, 2.0]])
    assert in_lists(read_labels(tmp_path / "alone.npz")) == {"positions": [[1, 2]]}


def test_parquet_is_a_table(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    names = pyarrow.array(["b", "a", "b"]).dictionary_encode()
    columns = {"label": names, "feature": [[1.0, 2.0]] * 3, "cam": [1, 2, 3], "role": ["q", "gallery", "gallery"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "labels.parquet")
    labels = in_lists(read_labels(tmp_path / "labels.parquet"))
    assert labels == {"identities": ["b", "a", "b"], "cameras": [1, 2, 3], "roles": [QUERY, GALLERY, GALLERY]}


@pytest.mark.parametrize(
    ("pattern", "names", "identities", "cameras"),
    [
        (
            "market1501",
            ["0002_c1s1_000451_03.jpg", "-1_c6s3_000001_00.jpg", "a/b/0000_c2s1_1_1.jpg"],
            [2, -1, 0],
            [1, 6, 2],
        ),
        ("dukemtmc", ["0001_c2_f0046182.jpg"], [1], [2]),
        ("veri776", ["0001_c001_00016450_0.jpg", "0776_c020_00043425_0.jpg"], [1, 776], [1, 20]),
        ("msmt17", ["0000_000_01_0303morning_0015_0.jpg", "3059_012_14_0113noon_1_2_ex.jpg"], [0, 3059], [1, 14]),
        (r"(?P<identity>\w+)@(?P<camera>\d)", ["bo@1.png", "b/al@2.png"], ["bo", "al"], [1, 2]),
        (r"(?P<identity>[^/]+)/(?P<camera>\d)[^/]+$", ["x/al/1.png"], ["al"], [1]),  # a folder
    ],
)
def test_names_have_labels(pattern, names, identities, cameras):
    assert in_lists(labels_from_names(names, pattern)) == {"identities": identities, "cameras": cameras}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a/x-0002_c1s1_000451_03.jpg"],), "`paths` must have the pattern 'market1501' in each name; got 'a/x-"),
        ((["0002.jpg"],), "`paths` must have the pattern 'market1501' in each name; got '0002.jpg'."),
        (([],), "`paths` must not be empty; got none."),
        (
            (["a"], "market1502"),
            "`pattern` must be one of market1501, dukemtmc, veri776, msmt17, vpr, or a regular expression",
        ),
        ((["a"], "(?P<identity>"), "`pattern` must be one of market1501,"),
    ],
)
def test_names_without_labels_are_refused(arguments, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        labels_from_names(*arguments)


def test_names_are_numbered_over_both_sides():
    query, gallery = np.array(["bo", "-1", "al"]), np.array(["cy", "bo"])
    assert [side.tolist() for side in number_identities(query, gallery)] == [[1, -1, 0], [2, 1]]
    numbers = np.array([4, 2])
    assert number_identities(numbers, numbers)[0] is numbers
    with pytest.raises(
        TypeError, match=r"^`identities` must hold strings in all arrays, or integers in all; got <U2 and int64."
    ):
        number_identities(query, numbers)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_texts_in_bytes_are_texts_in_any_encoding(encoding, tmp_path):
    names = ["zoé", "zoè", "zoé"]
    in_bytes = np.array([name.encode(encoding) for name in names])
    arrays = {"f": np.eye(3, dtype=np.float32), "pid": in_bytes, "names": in_bytes}
    np.savez(tmp_path / "a.npz", **arrays)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.update(arrays)
    expected = [name.encode(encoding).decode(errors="surrogateescape") for name in names]
    for suffix in ("npz", "h5"):
        (samples,) = read_samples(tmp_path / f"a.{suffix}")
        assert samples.labels["identities"].tolist() == samples.names.tolist() == expected
    assert evaluate(arrays["f"], None, in_bytes, same_camera="keep").num_positives.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("3\n-1\n3\n", [3, -1, 3]),
        ("3.0\n7.0\n", [3, 7]),
        ("bo\nal\n7\n", ["bo", "al", "7"]),
        ("1_2\n12\n", ["1_2", "12"]),
    ],
)
def test_lines_of_text_are_labels_of_a_field(text, labels, tmp_path):
    path = written(tmp_path / "a.txt", text)
    assert in_lists(read_labels(path, field="identities")) == {"identities": labels}
    assert in_lists(read_labels(path, field="cameras")) == {"cameras": labels}


def test_an_empty_line_is_a_missing_label(tmp_path):
    path = written(tmp_path / "a.txt", "bo\n\nal\n")
    assert in_lists(read_labels(path, field="identities", missing_identities="junk")) == {
        "identities": ["bo", "", "al"]
    }
    with pytest.raises(ValueError, match=r"a.txt: `identities` must hold .*; got '' for sample 1\."):
        read_labels(path, field="identities")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3,4\n", "the identities must be an array without a name"),
        ("3\t4\n", "the identities must be an array without a name"),
        ("\n\n", "the file must be text in UTF-8, a row in each line, all of one length"),
    ],
)
def test_text_without_a_column_that_alone_may_be_the_labels_is_refused(text, message, tmp_path):
    with pytest.raises(ValueError, match=f"a.txt: {message}"):
        read_labels(written(tmp_path / "a.txt", text), field="identities")


def test_the_identities_beside_names_of_images_are_taken_for_the_field(tmp_path):
    path = written(tmp_path / "a.txt", "a.jpg 3\nb.jpg 5\n")
    assert in_lists(read_labels(path, field="identities")) == {"identities": [3, 5]}


KEYS = [key for key in FIELD_NAMES if key not in ("embeddings", "distances", "scores", "roles")]


@pytest.mark.parametrize(("key", "other"), list(permutations(KEYS, 2)))
def test_a_column_that_the_user_names_is_nothing_else(key, other, tmp_path):
    """Each name of the field for one label may be said to be any other label."""
    for name in FIELD_NAMES[other].split():
        if "/" in name or name == "name":
            continue
        (tmp_path / "a.csv").write_text(f"{name},{other}s\n1,3\n2,4\n", encoding="utf-8")
        labels = read_labels(tmp_path / "a.csv", names={key: name})
        assert labels[key].tolist() in ([1, 2], [[1.0], [2.0]])
        assert other not in labels or labels[other].tolist() in ([3, 4], [[3.0], [4.0]])


def test_a_name_beside_a_path_is_an_identity_where_no_column_is_one(tmp_path):
    def read(header, **names):
        (tmp_path / "a.csv").write_text(f"{header}\na,b,c\n", encoding="utf-8")
        labels = read_labels(tmp_path / "a.csv", names=names)
        return {key: values.item() for key, values in labels.items()}

    assert read("path,name,orientation") == {"identities": "b", "names": "a"}
    assert read("path,name,identity") == {"identities": "c", "names": "a"}
    assert read("name,age,orientation") == {"names": "a"}
    assert read("path,name,identity", names="name") == {"identities": "c", "names": "b"}
    assert read("path,name,individual", identities="individual") == {"identities": "c", "names": "a"}
    assert read("photo,name,age", names="photo") == {"identities": "b", "names": "a"}


def test_a_folder_of_tables_or_of_images_is_told_what_to_pass(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    (images / "0002_c1s1_000451_03.jpg").touch()
    with pytest.raises(ValueError, match=r"images: .*; pass a table or an array with a row for each sample\.$"):
        read_labels(images)
    for name in ("b.csv", "a.csv"):
        written(tmp_path / name, "pid\n3\n")
    with pytest.raises(ValueError, match=r"without \.npy files; pass a file in it, such as 'a\.csv'\.$"):
        read_labels(tmp_path)
    assert read_labels(tmp_path / "a.csv")["identities"].tolist() == [3]
