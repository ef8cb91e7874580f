"""`diagnose` before another command prints the mistakes that may explain its numbers."""

import json

import numpy as np
import pytest

from reid_torchmetrics.command.options import COMMANDS, DIAGNOSED


@pytest.fixture
def files(tmp_path):
    """Scores of pairs with the opposite sign, lists, boxes and embeddings, each in the folder of the command."""
    generator = np.random.default_rng(0)
    same = np.arange(200) % 2 == 0
    np.savez(tmp_path / "pairs.npz", scores=generator.normal(size=200) - 3 * same, same=same)
    embeddings = {"embeddings": generator.normal(size=(40, 8)), "identities": np.arange(40) % 10}
    np.savez(tmp_path / "query.npz", **embeddings)
    (tmp_path / "lists.json").write_text(json.dumps([[0, 1], [2, 3]]), encoding="utf-8")
    (tmp_path / "truth.json").write_text(json.dumps([[1], [3]]), encoding="utf-8")
    row = {"image_id": 1, "category_id": 1, "bbox": [5, 5, 40, 40]}
    images = {"images": [{"id": 1, "width": 90, "height": 90}], "categories": [{"id": 1, "name": "dog"}]}
    true = images | {"annotations": [row | {"id": 1, "area": 1600, "iscrowd": 0}]}
    (tmp_path / "true.json").write_text(json.dumps(true), encoding="utf-8")
    (tmp_path / "found.json").write_text(json.dumps([row | {"score": 0.5}]), encoding="utf-8")


WORDS = {
    "evaluate": ("query.npz",),
    "lists": ("lists.json", "truth.json"),
    "detect": ("true.json", "found.json"),
    "pairs": ("pairs.npz",),
}
MEASURES = {"pairs": "auc", "detect": "mar_100", "lists": "map", "evaluate": "map"}


@pytest.mark.parametrize("name", DIAGNOSED)
@pytest.mark.usefixtures("files")
def test_each_command_is_diagnosed_with_its_numbers_on_the_other_stream(command, name):
    _, numbers, _ = command(name, *WORDS[name])
    status, out, err = command("diagnose", name, *WORDS[name], "--fail-under", f"{MEASURES[name]}=0.999")
    assert status == 0
    assert out.startswith("Diagnosis: ")
    assert all(line in err for line in numbers.splitlines())


@pytest.mark.usefixtures("files")
def test_what_is_found_is_said_in_options_and_not_warned_of(command):
    _, out, err = command("diagnose", "pairs", "pairs.npz")
    assert "opposite_pairs     found\n" in out
    assert out.splitlines()[-1].startswith("  opposite_pairs: The 100 pairs with `same` are farther apart")
    assert "warning" not in err


@pytest.mark.parametrize("name", [*sorted({*COMMANDS} - {*DIAGNOSED}), "pear"])
def test_other_commands_are_refused(command, name):
    status, _, err = command("diagnose", name)
    assert status == 2
    assert f"there is no command {name!r}" in err
    assert err.endswith("there are evaluate, lists, detect, pairs\n")


def test_help_names_the_commands_and_lists_their_options(command):
    assert "\n    diagnose" in command("--help").out
    told = command("diagnose", "--help").out
    assert all(f"\n    {name}" in told for name in DIAGNOSED)
    assert command("diagnose", "pairs", "--help").out == command("pairs", "--help").out


@pytest.mark.usefixtures("files")
def test_a_number_of_another_evaluator_is_explained_in_words_of_the_command(command):
    _, numbers, _ = command("evaluate", "query.npz", "--rule", "trapezoid", "--decimals", "3")
    expected = next(line.split()[1] for line in numbers.splitlines() if line.split()[0] == "map")
    words = ("diagnose", "evaluate", "query.npz", "--expected", expected.rstrip("%"), "--measure", "map")
    status, out, err = command(*words)
    assert status == 0
    assert "reid-torchmetrics evaluate ... --rule trapezoid --reports map\n" in out
    assert "layumi" in out
    assert "warning" not in err
    assert command("diagnose", "evaluate", "query.npz", "--expected", "x")[0] == 1
    assert command("diagnose", "evaluate", "query.npz", "--measure", "map")[0] == 2


@pytest.mark.usefixtures("files")
def test_a_number_of_another_evaluator_of_boxes_is_explained(command):
    status, out, _ = command("diagnose", "detect", "true.json", "found.json", "--expected", "99.5")
    assert status == 0
    assert "map 0.9950: average precision is a sum of trapezoids, as in Ultralytics\n" in out
    assert "reid-torchmetrics detect ... --rule ultralytics\n" in out
    assert "mAP of Ultralytics (8.4.190, " in out
