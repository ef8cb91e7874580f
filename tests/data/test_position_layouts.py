"""Positions of places, as the projects that are named write them."""

import numpy as np
import pytest
import scipy.io

from reid_torchmetrics.command import main
from reid_torchmetrics.data import labels_from_names, read_labels, read_samples
from tests.data.texts import written

QUERY, GALLERY = np.array([[0.0, 0.0], [500.0, 0.0]]), np.array([[0.0, 20.0], [500.0, 30.0], [501.0, 1.0], [9e3, 0.0]])
EMBEDDINGS = np.eye(4)


def vpr_names(positions):
    """As VPR-datasets-downloader names images."""
    return [f"database/@{east:010.2f}@{north:010.2f}@10@S@037.7@-122.5@a@@@@@@@.jpg" for east, north in positions]


def test_a_file_of_patch_netvlad_has_the_positions_of_both_sides(tmp_path):
    np.savez(tmp_path / "gt.npz", utmQ=QUERY, utmDb=GALLERY, posDistThr=25, feat=EMBEDDINGS, qfeat=EMBEDDINGS[:2])
    for name, positions in {"utmQ": QUERY, "utmDb": GALLERY}.items():
        labels = read_labels(tmp_path / "gt.npz", field="positions", names={"positions": name})
        assert {key: values.tolist() for key, values in labels.items()} == {"positions": positions.tolist()}
    with pytest.raises(ValueError, match=r"one array must be the positions, .*; got `utmQ`, `utmDb`"):
        read_labels(tmp_path / "gt.npz")


def test_a_file_of_both_sides_has_positions_by_the_names_of_patch_netvlad(tmp_path):
    arrays = {"query_feat": EMBEDDINGS[:2], "gallery_feat": EMBEDDINGS, "utmQ": QUERY, "utmDb": GALLERY}
    np.savez(tmp_path / "a.npz", **arrays)
    query, gallery = (read_samples(tmp_path / "a.npz", role=role)[0] for role in ("query", "gallery"))
    assert query.labels["positions"].tolist() == QUERY.tolist()
    assert gallery.labels["positions"].tolist() == GALLERY.tolist()


def test_positions_of_netvlad_in_matlab_are_columns(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"f": EMBEDDINGS, "Cdb": GALLERY.T})
    (gallery,) = read_samples(tmp_path / "a.mat", role="gallery")
    assert gallery.labels["positions"].tolist() == GALLERY.tolist()
    scipy.io.savemat(tmp_path / "two.mat", {"f": EMBEDDINGS[:2], "Cq": QUERY})  # rows, as two columns may be either
    assert read_samples(tmp_path / "two.mat", role="query")[0].labels["positions"].tolist() == QUERY.tolist()


def test_names_of_vpr_datasets_downloader_have_positions():
    labels = labels_from_names(vpr_names([(543256.96, 4178906.7), (-5.0, 3.25)]), "vpr")
    assert [*labels] == ["positions"]
    assert labels["positions"].tolist() == [[543256.96, 4178906.7], [-5.0, 3.25]]


def test_a_pattern_may_have_any_label():
    pattern = r"(?P<identity>\w+)-(?P<sequence>\d+)-(?P<clothes>\w)-(?P<group>\d+)@(?P<easting>\d+)_(?P<northing>\d+)"
    labels = labels_from_names(["bo-1-a-7@3_4.jpg", "al-2-b-8@5_6.jpg"], pattern)
    assert {key: values.tolist() for key, values in labels.items()} == {
        "identities": ["bo", "al"],
        "sequences": [1, 2],
        "clothes": ["a", "b"],
        "groups": [7, 8],
        "positions": [[3, 4], [5, 6]],
    }


@pytest.mark.parametrize("pattern", [r"(?P<easting>\d+)", r"(?P<height>\d+)", r"\d+", r"(?P<identity>"])
def test_a_pattern_without_labels_or_with_half_a_position_is_refused(pattern):
    with pytest.raises(ValueError, match=r"^`pattern` must be one of market1501, dukemtmc, veri776, msmt17, vpr, or a"):
        labels_from_names(["1"], pattern)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Embeddings of two queries and four places: the first query finds a place 20 m away, the second one 8500 m."""
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", EMBEDDINGS[[0, 3]])
    np.save("g.npy", EMBEDDINGS)
    np.savez("gt.npz", utmQ=QUERY, utmDb=GALLERY)
    written(tmp_path / "q.txt", "\n".join(vpr_names(QUERY)))
    written(tmp_path / "g.txt", "\n".join(vpr_names(GALLERY)))
    return ["evaluate", "q.npy", "g.npy", "--protocol", "pitts30k", "--reports", "rank_1"]


@pytest.mark.parametrize(
    "words",
    [
        ["--labels", "positions=gt.npz:utmQ", "positions=gt.npz:utmDb"],
        ["--labels", "q.txt", "g.txt", "--file-names", "vpr"],
    ],
    ids=["arrays of one file", "names"],
)
def test_places_are_evaluated_by_the_command(places, words, capsys):
    assert main([*places, *words]) == 0
    assert "50.0" in capsys.readouterr().out
    assert main([*places, *words, "--radius", "10"]) == 0
    assert " 0.0" in capsys.readouterr().out


def test_an_array_that_is_not_there_is_named(places, capsys):
    assert main([*places, "--labels", "positions=gt.npz:utm", "positions=gt.npz:utmDb"]) == 1
    assert "gt.npz: `utm`, named as positions, must be in the file; got `utmQ`, `utmDb`" in capsys.readouterr().err
    assert main([*places, "--labels", "positions=none.npz:utm", "positions=gt.npz:utmDb"]) == 1
    assert "There is no file 'none.npz'." in capsys.readouterr().err


def test_the_file_of_one_array_of_several_is_not_written_over(places, capsys):
    words = ["--labels", "positions=gt.npz:utmQ", "positions=gt.npz:utmDb", "--save", "gt.npz"]
    assert main([*places, *words]) == 1
    assert "gt.npz" in capsys.readouterr().err
    assert [*np.load("gt.npz")] == ["utmQ", "utmDb"]
