"""Results in files: what is read is what was written, and nothing else is read."""

import inspect
import json
import math
import pickle
import zipfile
from dataclasses import dataclass, fields, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics import tasks, write_report
from reid_torchmetrics.files import FORMAT
from reid_torchmetrics.functional import detection, retrieval
from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.detection.evaluation import MATCH_PARTS
from reid_torchmetrics.functional.retrieval import RetrievalResults
from reid_torchmetrics.functional.saved_results import SavedResults
from reid_torchmetrics.tasks import Comparison
from tests.files.broken_files import contents_of, file_of, parts_of, refused, reloaded, with_header
from tests.functional import saved_results
from tests.functional.asked_of_results import answers
from tests.functional.saved_results import ALL, COMPARISON, DETECTION, RETRIEVAL, difference
from tests.report import problems
from tests.tasks.comparison import two_models


@pytest.mark.sampled
@pytest.mark.parametrize("name", ALL)
def test_results_that_are_read_are_those_that_were_written(name, tmp_path):
    results = ALL[name]()
    loaded = reloaded(results, tmp_path)
    if isinstance(results, RetrievalResults):
        # Instead of what was evaluated a file has what a report shows of it.
        assert loaded.problem is None
        held = {
            each: getattr(loaded, each) for each in ("rank_lists", "camera_pairs") if getattr(results, each) is None
        }
        assert difference(replace(results, problem=None, **held), loaded) == ""
    else:
        assert difference(results, loaded) == ""
    assert (str(loaded), loaded.to_dict()) == (str(results), results.to_dict())
    assert difference(reloaded(loaded, tmp_path), loaded) == ""


def test_every_function_that_returns_results_makes_some_that_are_saved():
    sources = "".join(map(inspect.getsource, (saved_results, two_models, problems)))
    functions = {
        name
        for face in (retrieval, detection, tasks)
        for name in face.__all__
        if inspect.isfunction(function := getattr(face, name))
        and function.__annotations__.get("return") in {kind.__name__ for kind in SavedResults.__subclasses__()}
    }
    assert {"evaluate_lists", "evaluate_boxes", "compare"} < functions
    assert [name for name in sorted(functions) if f"{name}(" not in sources] == []


def test_results_of_embeddings_are_saved_with_their_first_candidates_and_the_first_number_between_cameras(tmp_path):
    results = RETRIEVAL["embeddings"]()
    loaded = reloaded(results, tmp_path)
    assert difference(loaded.nearest(10), results.nearest(10)) == ""
    assert difference(loaded.nearest(3, torch.tensor([2, 5])), results.nearest(3, torch.tensor([2, 5]))) == ""
    assert difference(loaded.by_camera_pair("map"), results.by_camera_pair("map")) == ""
    with pytest.raises(ValueError, match="`name` must be one of 'map'; got 'minp'"):
        loaded.by_camera_pair("minp")


@pytest.mark.parametrize("name", ["metric alone", "lists", "drawn", "not ranked"])
def test_a_file_lacks_what_results_cannot_find_either(name, tmp_path):
    assert reloaded(RETRIEVAL[name](), tmp_path).camera_pairs is None


def test_models_compare_by_their_files_as_by_their_results(tmp_path):
    a, b = two_models.evaluated(0), two_models.evaluated(1)
    found = two_models.compared(reloaded(a, tmp_path), reloaded(b, tmp_path))
    assert difference(found, two_models.compared(a, b)) == ""


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*RETRIEVAL, *DETECTION])
def test_results_that_are_read_answer_every_question_as_those_that_were_written(name, tmp_path):
    results = ALL[name]()
    loaded = reloaded(results, tmp_path)
    if isinstance(results, RetrievalResults):
        # Others would search the embeddings, which a file lacks.
        results = replace(results, problem=None, rank_lists=loaded.rank_lists, camera_pairs=loaded.camera_pairs)
    assert difference(answers(results), answers(loaded)) == ""


@pytest.mark.parametrize("protocol", ["market1501", "cuhk03_openreid", "vehicleid", "sysu_mm01_all_single"])
def test_the_curve_of_another_camera_rule_or_of_drawn_galleries_is_computed_again(protocol, tmp_path):
    changes = {"cmc_same_camera": "all"} if protocol == "market1501" else {}
    results = two_models.evaluated(0, protocol, max_rank=3, **changes)
    loaded = reloaded(results, tmp_path)
    assert (results.ranks_for_cmc is not None) == bool(changes)
    assert (results.drawn is not None) == (results.protocol.gallery_draw is not None)
    assert torch.equal(loaded.cmc, results.cmc)
    assert loaded.means == results.means


def printed_and_reported(process: int, size: int, folder: Path) -> list[str]:
    """Write a report of what is in the folder, and return what `print` would show."""
    printed = []
    for kind in (RetrievalResults, DetectionResults):
        results = kind.load(folder / f"{kind.__name__}.npz")
        write_report(results, folder / f"{kind.__name__}.html")
        printed += str(results).splitlines()
    return printed


@pytest.mark.nightly
def test_another_process_prints_and_reports_the_same(processes, tmp_path):
    both = problems.retrieval(), DETECTION["coco"]()
    for results in both:
        results.save(tmp_path / f"{type(results).__name__}.npz")
    (printed,) = processes.run(1, printed_and_reported, tmp_path)
    assert printed == [line for results in both for line in str(results).splitlines()]
    for results in both:
        theirs = (tmp_path / f"{type(results).__name__}.html").read_bytes()
        assert write_report(results, tmp_path / "ours.html").read_bytes() == theirs


@dataclass(frozen=True)
class Chain(SavedResults):
    value: float
    next: tuple["Chain", ...] = ()


def test_results_may_hold_results_of_their_own_class(tmp_path):
    chain = Chain(1.5, (Chain(-math.inf), Chain(2**-1074, (Chain(0.1),))))
    assert reloaded(chain, tmp_path) == chain


def test_the_same_results_give_the_same_bytes_and_any_name_will_do(tmp_path):
    results = problems.detection()
    path = results.save(str(tmp_path / "a" / "best.results"))
    assert path == tmp_path / "a" / "best.results"
    assert path.read_bytes() == results.save(tmp_path / "b").read_bytes()


def test_a_file_is_an_npz_with_a_header_that_says_how_it_was_evaluated(tmp_path):
    results = RETRIEVAL["shots"]()
    with np.load(results.save(tmp_path / "results.npz"), allow_pickle=False) as archive:
        header = json.loads(archive["header.json"])
        assert archive["ranks.rank"].tolist() == results.ranks.rank.tolist()
    assert header["format"] == FORMAT
    assert header["kind"] == "RetrievalResults"
    assert header["version"] == reid_torchmetrics.__version__
    protocol = header["fields"]["protocol"]["$Protocol"]
    assert protocol["name"] == "sysu_mm01_all_single"
    assert protocol["gallery_draw"] == {"$GalleryDraw": {"shots": 1, "per": "identity_and_camera"}}


FOLDER = Path(__file__).parent
FORMAT_OF_FIELDS = 3
FIELDS = {
    "RetrievalResults": "query_index counts ranks protocol setup query_identities query_cameras query_hash rank_lists "
    "camera_pairs query_names gallery_names label_names list_counts ranks_for_cmc drawn max_rank",
    "QueryCounts": "total valid junk not_in_gallery same_camera_only not_ranked",
    "PositiveRanks": "rank num_positives num_candidates tied judged",
    "TiedGroups": "policy num_groups num_positives num_negatives",
    "Judgments": "grade num_before num_negatives",
    "DrawnResults": "cmc average_precision inverse_negative_penalty num_positives weight",
    "Protocol": "name source same_camera cmc_same_camera camera_map search_cameras junk_identities missing_identities "
    "clothes radius must_agree must_differ needs_groups needs_lists positive_lists junk_lists leave_one_out rule "
    "k normalizer precision_divisor mode gain similarity reads_codes ties gallery_draw "
    "gallery_draw_for_map queries_in_draw empty_target_action reports",
    "GalleryDraw": "shots per",
    "Setup": "ties similarity rerank cameras lists sequences junk_pairs multi_query cut groups exchanged "
    "several_labels",
    "RankLists": "query query_index query_identities query_cameras index identities cameras scores is_positive "
    "first_positive_rank first_positive_index first_positive_score first_positive_camera label_names",
    "CameraPairs": "query_cameras gallery_cameras mean num_valid camera_names",
    "ListCounts": "num_short cutoff num_repeated",
    "DetectionResults": "matches images labels positives class_names objects boxes image_names evaluator grid rule",
    "CocoGrid": "iou_thresholds rec_thresholds max_detection_thresholds area_ranges class_groups limited"
    " iou_type sigmas average drops_invalid has_given_areas",
    "Matches": "classes num_positives scores class_index images rows limits area_bits columns matched true_positive "
    "ground_truths overlaps",
    "ObjectPairs": "scores labels images is_outside true_labels true_images is_crowd is_ignored detection ground_truth "
    "iou at_least crowd_iou",
    "Comparison": "names differences conventions num_queries num_valid level num_resamples num_permutations "
    "per_identity seed gained lost gained_index lost_index protocol setup_a setup_b cutoff further_comparisons",
    "IndexRecall": "per_query k num_gallery similarity num_short",
    "Difference": "mean_a mean_b difference low high p_value num_better num_worse num_equal is_rank p_holm title "
    "lower_is_better",
}


@pytest.mark.parametrize("name", ["metric", "coco", "two models", "index"])
def test_fields_of_files_are_those_of_the_format(name):
    results = ALL[name]()
    stored = {type(results).__name__: {*results._to_fields()}}
    parts = [*results._PARTS, *(MATCH_PARTS.values() if isinstance(results, DetectionResults) else ())]
    for part in parts:
        stored[part.__name__] = {each.name for each in fields(part)}
    for kind, names in stored.items():
        differing = names.symmetric_difference(FIELDS[kind].split())
        assert not differing, (
            f"the stored fields of {kind} are not those of format {FORMAT_OF_FIELDS}: {sorted(differing)}. Give a field"
            " that is added a default, so that older files are read; raise `FORMAT`, once between two releases; and"
            " write its name to `FIELDS` and the format to `FORMAT_OF_FIELDS` in tests/files/test_result_files.py"
        )


def test_the_format_is_that_of_the_fields_and_of_the_page():
    assert FORMAT == FORMAT_OF_FIELDS, "`FORMAT` in files/result_files.py is that of the fields in this file"
    page = (FOLDER.parents[1] / "docs" / "how_to" / "results.md").read_text(encoding="utf-8")
    assert f"- `format`: {FORMAT};" in page, f"docs/how_to/results.md must say that `format` is {FORMAT}"


def test_a_file_holds_no_measure_that_follows_from_the_rest(tmp_path):
    for name, derived in (
        ("metric", "per_query average_precision inverse_negative_penalty first_rank cmc num_candidates weight means"),
        ("coco", "averages average_precision recall at_confidence means"),
    ):
        with np.load(ALL[name]().save(tmp_path / "results.npz")) as archive:
            header = json.loads(archive["header.json"])
            stored = {*header["fields"], *(each.partition(".")[0] for each in archive.files)}
        assert stored & set(derived.split()) == set()


def test_other_ranks_in_a_file_are_other_results(tmp_path):
    # Average precisions of one positive at rank r are 1 / r.
    results = two_models.ranked(1, 2, 4)
    other = two_models.ranked(1, 3, 4)
    header, arrays = parts_of(contents_of(replace(results, problem=None), tmp_path))
    arrays["ranks.rank"] = np.array([1, 3, 4])
    (tmp_path / "other.npz").write_bytes(file_of(header, arrays))
    loaded = RetrievalResults.load(tmp_path / "other.npz")
    assert loaded["map"] == (1 + 1 / 3 + 1 / 4) / 3
    assert difference(loaded, replace(other, problem=None)) == ""


@pytest.mark.parametrize("kind", [RetrievalResults, DetectionResults])
def test_files_of_format_1_which_stored_numbers_are_refused_by_name(kind, tmp_path):
    contents = (FOLDER / "results_of_format_1" / f"{kind.__name__}.npz").read_bytes()
    ours = reid_torchmetrics.__version__
    end = f", a file of format 1 and version 0.1.0; {ours} reads {FORMAT}: evaluate and save again."
    assert refused(contents, tmp_path, kind).endswith(end)


@pytest.mark.parametrize("kind", [RetrievalResults, DetectionResults])
def test_files_of_this_format_are_read_for_ever(kind):
    loaded = kind.load(FOLDER / "results_of_format_2" / f"{kind.__name__}.npz")
    expected: Any = problems.retrieval()
    if kind is DetectionResults:  # these files do not say which shapes were matched
        expected = problems.detection()
        unknown = replace(expected.averages, grid=replace(expected.averages.grid, iou_type=None))
        expected = replace(expected, averages=unknown)
    assert (str(loaded), loaded.to_dict()) == (str(expected), expected.to_dict())


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path):
    contents = contents_of(problems.detection(), tmp_path)
    for length in (*range(0, len(contents), 37), len(contents) - 1):
        assert "a file that is truncated, damaged or of another program: " in refused(contents[:length], tmp_path)


@pytest.mark.slow
def test_a_damaged_file_is_refused_or_gives_the_same_results(tmp_path):
    expected = problems.detection()
    contents = contents_of(expected, tmp_path)
    path, num_refused = tmp_path / "damaged.npz", 0
    places = range(0, len(contents), 41)
    for place in places:
        path.write_bytes(contents[:place] + bytes([contents[place] ^ 0x10]) + contents[place + 1 :])
        try:
            assert difference(DetectionResults.load(path), expected) == ""
        except ValueError:
            num_refused += 1
    assert num_refused > len(places) / 2


def npz(**arrays) -> bytes:
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy() -> bytes:
    file = BytesIO()
    np.save(file, np.ones(3))
    return file.getvalue()


EMPTY_ZIP = b"PK\x05\x06" + bytes(18)


@pytest.mark.parametrize("contents", [b"", b"map: 0.7", npy(), npz(a=np.ones(3)), pickle.dumps([1]), EMPTY_ZIP])
def test_a_foreign_file_is_refused(contents, tmp_path):
    assert "a file that is truncated, damaged or of another program: " in refused(contents, tmp_path)


def test_a_file_of_a_later_version_is_refused_by_name(tmp_path):
    contents = contents_of(problems.detection(), tmp_path)
    later = with_header(contents, lambda header: header | {"format": FORMAT + 1, "version": "9.9", "kind": "Unheard"})
    ours = reid_torchmetrics.__version__
    assert refused(later, tmp_path).endswith(f", a file of format {FORMAT + 1} and version 9.9; {ours} reads {FORMAT}.")


@pytest.mark.parametrize("kind", [RetrievalResults, DetectionResults, Comparison])
def test_results_of_another_kind_are_refused_by_name(kind, tmp_path):
    for results in (problems.retrieval(), problems.detection(), COMPARISON["two models"]()):
        if type(results) is not kind:
            said = refused(contents_of(results, tmp_path), tmp_path, kind)
            assert f"`{kind.__name__}.save`" in said
            assert said.endswith(f", a file with {type(results).__name__}.")


CHANGES = {
    "a field that is unknown": lambda fields: fields | {"new": 1},
    "a field that is missing": lambda fields: {name: fields[name] for name in fields if name != "matches"},
    "a class that is not listed": lambda fields: fields | {"images": {"$Popen": {"args": "true"}}},
    "an array that is missing": lambda fields: fields | {"images": {"$array": "pictures"}},
    "a value that is not allowed": lambda fields: fields | {"evaluator": {"$tuple": ["unheard", {"$mapping": []}]}},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_header_that_is_not_of_results_is_refused(name, tmp_path):
    contents = contents_of(problems.detection(), tmp_path)
    refused(with_header(contents, lambda header: header | {"fields": CHANGES[name](header["fields"])}), tmp_path)


def test_a_pickle_in_an_array_is_not_opened(tmp_path):
    contents = contents_of(problems.detection(), tmp_path)
    file = BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "pickle.npz", "w") as new, zipfile.ZipFile(BytesIO(contents)) as old:
        for name in old.namelist():
            new.writestr(name, file.getvalue() if name == "images.npy" else old.read(name))
    assert "allow_pickle" in refused((tmp_path / "pickle.npz").read_bytes(), tmp_path)


def test_a_value_that_files_do_not_have_leaves_an_older_file_alone(tmp_path, monkeypatch):
    results = problems.detection()
    path = results.save(tmp_path / "results.npz")
    before = path.read_bytes()
    monkeypatch.setattr(DetectionResults, "_PARTS", ())
    with pytest.raises(TypeError, match="Object of type Matches is not JSON serializable"):
        results.save(path)
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        RetrievalResults.load(tmp_path / "nothing.npz")


def test_results_of_tensors_are_saved_whatever_the_numbers_of_their_images(tmp_path):
    boxes, labels, numbers = torch.rand(3, 4) + 1, torch.tensor([1, 2, 1]), torch.tensor([7, 3, 12])
    found = detection.Detections(boxes, torch.rand(3), labels, numbers)
    results = detection.evaluate_boxes(found, detection.GroundTruths(boxes, labels, numbers), across_classes=True)
    assert results.images.tolist() == [3, 7, 12]
    assert results.objects.images.tolist() == [0, 1, 2]
    assert type(results).load(results.save(tmp_path / "results.npz")).means == results.means
