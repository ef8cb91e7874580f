"""Names of cameras and identities in files: no rule by number acts on numbers that the command made up."""

from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics import command
from reid_torchmetrics.functional.retrieval import RetrievalResults

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
            name, camera = "lynx_" * (form == "identities"), "cam" * (form == "cameras")
            rows = [f"{name}{pid},{camera}{camid}" for pid, camid in zip(identities, cameras, strict=True)]
            Path(f"{side}_{form}.csv").write_text("\n".join(["pid,camid", *rows]), encoding="utf-8")


def evaluated(form, *words):
    return command.main(["evaluate", "q.npy", "g.npy", "--labels", f"q_{form}.csv", f"g_{form}.csv", *words])


RULES = [
    ("cameras", ["--search-cameras", "1", "2"], "search_cameras"),
    ("cameras", ["--camera-map", "{3: 2}"], "camera_map"),
    ("cameras", ["--protocol", "sysu_mm01_all_multi"], "camera_map"),
    ("identities", ["--junk-identities", "0"], "junk_identities"),
]


# The protocol of SYSU-MM01 draws galleries, which a stream cannot.
STREAMED_RULES = [(form, [*words, "--stream"], option) for form, words, option in RULES if "--protocol" not in words]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("form", "words", "option"), [*RULES, *STREAMED_RULES])
def test_a_rule_by_number_is_refused_where_labels_are_names(form, words, option, capsys):
    assert evaluated(form, *words) == 1
    said = capsys.readouterr().err
    assert f"`--{option.replace('_', '-')}` must list names, or -1, where {form} are names" in said
    if form == "cameras":
        assert "Give the numbers in the names as integers, such as 'cam3' -> 3." in said


@pytest.mark.usefixtures("files")
def test_without_such_a_rule_names_have_the_numbers_of_integers(capsys):
    said = []
    for form in ("numbers", "cameras", "identities"):
        assert evaluated(form) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize(
    ("form", "by_name", "by_number"),
    [
        ("cameras", ["--search-cameras", "cam1", "cam2"], ["--search-cameras", "1", "2"]),
        ("cameras", ["--camera-map", "{cam3: cam2}"], ["--camera-map", "{3: 2}"]),
        ("identities", ["--junk-identities", "lynx_0", "-1"], ["--junk-identities", "0", "-1"]),
    ],
)
def test_rules_list_names_where_labels_are_names(form, by_name, by_number, stream, capsys):
    said = []
    for labels, words in ((form, by_name), ("numbers", by_number)):
        assert evaluated(labels, *words, *stream) == 0
        lines = capsys.readouterr().out.splitlines()
        said.append(lines[1:-1])  # without the names of the rules
    assert said[0] == said[1]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize("form", ["numbers", "identities"])
def test_empty_cells_are_junk_where_they_may_be(form, stream, capsys):
    said = []
    for gone in ("", "-1"):
        for side in "qg":
            rows = Path(f"{side}_{form}.csv").read_text(encoding="utf-8").splitlines()
            rows[2] = f"{gone},{rows[2].partition(',')[2]}"
            Path(f"{side}_{gone}.csv").write_text("\n".join(rows), encoding="utf-8")
        assert evaluated(gone, *stream, "--missing-identities", "junk") == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert evaluated("", *stream) == 1
    came = "nan" if form == "numbers" else "''"
    rule = f"q_.csv: `pid` must hold whole numbers or strings; got {came} for sample 1"
    assert f"{rule}. Pass `--missing-identities junk`" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_a_saved_file_and_a_report_have_the_names(capsys):
    assert evaluated("identities", "--save", "r.npz", "--report", "r.html") == 0
    capsys.readouterr()
    assert "lynx_1" in Path("r.html").read_text(encoding="utf-8")
    results = RetrievalResults.load("r.npz")
    assert set(results.to_frame("query")["query_identities"]) <= {f"lynx_{number}" for number in range(4)}
    assert results.nearest(1).names()[0][0].startswith("lynx_")
