"""Names of cameras and identities in files: no rule by number acts on numbers that the command made up."""

import csv
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics import command

NUM_QUERIES, NUM_GALLERY = 6, 40


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Embeddings, and labels with cameras as numbers and as names, in the working directory."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("q.npy", rng.normal(size=(NUM_QUERIES, 4)))
    np.save("g.npy", rng.normal(size=(NUM_GALLERY, 4)))
    for form in ("numbers", "cameras", "identities"):
        rng = np.random.default_rng(1)
        for side, number in (("q", NUM_QUERIES), ("g", NUM_GALLERY)):
            identities, cameras = rng.integers(0, 4, number), rng.integers(1, 7, number)
            with Path(f"{side}_{form}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["pid", "camid"])
                for identity, camera in zip(identities, cameras, strict=True):
                    name = f"lynx_{identity}" if form == "identities" else identity
                    writer.writerow([name, f"cam{camera}" if form == "cameras" else camera])


RULES = [
    ("cameras", ["--search-cameras", "1", "2"], "search_cameras"),
    ("cameras", ["--camera-map", "{3: 2}"], "camera_map"),
    ("cameras", ["--protocol", "sysu_mm01_all_multi"], "camera_map"),
    ("identities", ["--junk-identities", "0"], "junk_identities"),
]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize(("form", "words", "option"), RULES)
def test_a_rule_by_number_is_refused_where_labels_are_names(form, words, option, stream, capsys):
    files = ["q.npy", "g.npy", "--labels", f"q_{form}.csv", f"g_{form}.csv"]
    if stream and "--protocol" in words:
        pytest.skip("the protocol draws galleries")
    assert command.main(["evaluate", *files, *words, *stream]) == 1
    said = capsys.readouterr().err
    assert f"`{option}` must list names, or -1, where {form} are names" in said
    if form == "cameras":
        assert "Give the numbers in the names as integers, such as 'cam3' -> 3." in said


@pytest.mark.usefixtures("files")
def test_without_such_a_rule_names_have_the_numbers_of_integers(capsys):
    said = []
    for form in ("numbers", "cameras", "identities"):
        assert command.main(["evaluate", "q.npy", "g.npy", "--labels", f"q_{form}.csv", f"g_{form}.csv"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]
