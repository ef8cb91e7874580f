"""Messages about unknown names say what the words of other libraries and of papers are called here."""

import ast
import dataclasses
import inspect
import pickle
import re
import string
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args, get_origin

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reid_torchmetrics
from reid_torchmetrics import (
    DetectionMAP,
    LvisMAP,
    ReIDCMC,
    ReIDMetrics,
    VocMAP,
    YoloMAP,
    _checks,
    _hints,
    _names,
    evaluate,
    evaluate_scores,
)
from reid_torchmetrics.command import main
from reid_torchmetrics.command.options import COMMANDS, command_options
from reid_torchmetrics.functional import retrieval
from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation.protocol import PROTOCOL_FIELDS
from reid_torchmetrics.functional.retrieval.measures import all_patterns
from reid_torchmetrics.tasks import Comparison
from tests.profiles import examples

PACKAGE = Path(reid_torchmetrics.__file__).parent

QUERY, GALLERY = torch.randn(4, 3), torch.randn(8, 3)
LABELS = [0, 1, 0, 1], [0, 1] * 4

ARGUMENTS = {
    "labels": "query_identities",
    "targets": "query_identities",
    "identities": "query_identities",
    "query_labels": "query_identities",
    "gallery_labels": "gallery_identities",
    "camids": "query_cameras",
    "g_camids": "gallery_cameras",
    "topk": "k",
    "metrics": "reports",
    "ranks": "reports",
    "dataset": "protocol",
    "metric": "similarity",
    "batch_size": "max_bytes",
    "ignore_index": "junk_identities",
    "remove_same_camera": "same_camera",
    "re_rank": "rerank",
}
REPORTS = {
    "mAP": "map",
    "Rank-1": "rank_1",
    "r1": "rank_1",
    "top-5": "rank_5",
    "CMC-5": "rank_5",
    "R@1": "hit_rate_1",
    "recall@10": "hit_rate_10",
    "recall_at_1": "hit_rate_1",
    "hits@3": "hit_rate_3",
    "success@1": "hit_rate_1",
    "P@10": "precision_10",
    "MAP@R": "map_at_r",
    "NDCG@10": "ndcg_10",
    "r_prec": "r_precision",
}
PROTOCOLS = {
    "cifar10": "hashing",
    "NUS-WIDE": "hashing",
    "stanford_online_products": "sop",
    "Market-1501": "market1501",
    "duke": "dukemtmc",
    "VeRi-776": "veri776",
    "coco": "coco_captions",
    "CUB-200-2011": "cub200",
}
UPDATES = {"pids": "identities", "camids": "cameras", "query": "is_query", "indexes": "index"}


def message_of(call):
    with pytest.raises((TypeError, ValueError, AttributeError)) as raised:
        call()
    return str(raised.value)


def meant_in(message):
    """The name that a message says was meant."""
    found = re.search(r"which may be [`'\"]([^`'\"]+)", message)
    return found[1] if found else None


@pytest.mark.parametrize(("word", "meant"), ARGUMENTS.items())
def test_arguments_of_evaluate(word, meant):
    assert meant_in(message_of(lambda: evaluate(QUERY, GALLERY, **{word: 1}))) == meant


@pytest.mark.parametrize(("word", "meant"), REPORTS.items())
def test_reports(word, meant):
    message = message_of(lambda: evaluate(QUERY, GALLERY, *LABELS, reports=(word,)))
    assert meant_in(message) == meant
    assert ("'recall_" in message) == word.lower().startswith(("r@", "recall"))


@pytest.mark.parametrize(("word", "meant"), PROTOCOLS.items())
def test_protocols(word, meant):
    assert meant_in(message_of(lambda: evaluate(QUERY, GALLERY, *LABELS, protocol=word))) == meant


@pytest.mark.parametrize(("word", "meant"), UPDATES.items())
def test_arguments_of_update(word, meant):
    assert meant_in(message_of(lambda: ReIDMetrics().update(QUERY, **{word: LABELS[0]}))) == meant
    assert meant_in(message_of(lambda: ReIDCMC().update(QUERY, **{word: LABELS[0]}))) == meant


def test_options_of_metrics():
    assert meant_in(message_of(lambda: ReIDCMC(k=5))) == "top_k"
    assert meant_in(message_of(lambda: ReIDMetrics(top_k=(1, 5)))) == "ranks"
    assert "`similarity='cosine'` normalizes" in message_of(lambda: ReIDMetrics(feat_norm=True))
    assert meant_in(message_of(lambda: DetectionMAP(max_dets=100))) == "max_detection_thresholds"
    assert meant_in(message_of(lambda: DetectionMAP(metric="mAP@0.5"))) == "map_50"
    assert "`average='micro'`" in message_of(lambda: DetectionMAP(class_agnostic=True))


def test_attributes_and_imports():
    results = evaluate(QUERY, GALLERY, *LABELS)
    assert "results.to_frame().to_csv(path)" in message_of(lambda: results.to_csv)
    assert "results['rank_1']" in message_of(lambda: results.rank1)
    assert "is in `reid_torchmetrics.coco`" in message_of(lambda: reid_torchmetrics.COCOeval)
    classes = {"DetectionMAP": "MeanAveragePrecision MaskMAP COCOMAP", "ReIDMetrics": "R1_mAP_eval", "ReIDCMC": "Rank1"}
    for meant, word in [(meant, word) for meant, words in classes.items() for word in words.split()]:
        assert f"there is `{meant}`" in message_of(lambda word=word: getattr(reid_torchmetrics, word))


@pytest.mark.parametrize("word", ["zebra", "qwerty", "_", "7"])
def test_a_word_that_is_not_known_has_no_hint(word):
    assert meant_in(message_of(lambda: evaluate(QUERY, GALLERY, *LABELS, reports=(word,)))) is None
    assert meant_in(message_of(lambda: evaluate(QUERY, GALLERY, *LABELS, protocol=word))) is None


NO_HINT = (
    *("recall@1%", "R@1%", "R@1 %", "top1%", "recall@top1%", "recall_1_percent", "recall@5pct"),
    *("mean_precision", "macro_precision", "precision@R", "recall@R", "ndcg@R", "mR", "mean_recall", "median_recall"),
    *("mAP@0.5", "mAP@.75", "map_0.5"),
)


@pytest.mark.parametrize("word", NO_HINT)
def test_a_number_that_is_not_here_has_no_other_one_as_a_hint(word):
    assert meant_in(message_of(lambda: evaluate(QUERY, GALLERY, *LABELS, reports=(word,)))) is None


DETECTED = {
    **dict.fromkeys(("mar", "mAR", "AR", "AR@100"), "mar_100"),
    **dict.fromkeys(("mAP", "AP", "mAP50-95", "mAP@.5:.95", "AP@[0.50:0.95]"), "map"),
    **dict.fromkeys(("mAP@0.5", "mAP@.5", "AP50", "map50"), "map_50"),
    **dict.fromkeys(("map_l", "APl", "AP_large", "maplarge"), "map_large"),
    "AR@10": "mar_10",
    "recall": "recall_50",
    "precision": "precision_50",
    "f1": "f1_50",
    **dict.fromkeys(("map_1", "mar_50", "recall_60", "f2_50", "map_5", "map_500", "map_r", "mAP@R", "map_rare")),
}


@pytest.mark.parametrize(("word", "meant"), DETECTED.items())
def test_numbers_of_detections(word, meant):
    assert meant_in(message_of(lambda: DetectionMAP(metric=word))) == meant


@pytest.mark.parametrize("word", ["map_95", "mAP@0.95", "AP95"])
@pytest.mark.parametrize("metric_class", [DetectionMAP, LvisMAP, VocMAP, YoloMAP])
def test_another_overlap_is_an_option(word, metric_class):
    message = message_of(lambda: metric_class(metric=word)) if metric_class is DetectionMAP else None
    hint = message or _hints.value_meant(word, ["map", "map_50", "map_75"])
    assert ": `iou_thresholds=[0.95]` computes it" in hint
    assert "iou_thresholds" in inspect.signature(metric_class).parameters


NAMES = {
    "reports": [pattern.replace("<k>", "10") for pattern in all_patterns()],
    "numbers of a protocol": ["map", "minp", "rank_1", "rank_5", "rank_10"],
    "protocols": [*retrieval.PROTOCOLS],
    "options of evaluate": [*inspect.signature(evaluate).parameters],
    "options of ReIDMetrics": [*inspect.signature(ReIDMetrics).parameters],
    "options of DetectionMAP": [*inspect.signature(DetectionMAP).parameters],
    "numbers of DetectionMAP": [
        *("map", "map_50", "map_75", "map_small", "map_medium", "map_large", "mar_1", "mar_10", "mar_100"),
        *("precision_50", "recall_50", "f1_50", "precision_75", "recall_75", "f1_75", "lrp", "lrp_fp", "lrp_fn"),
    ],
    **{f"options of {name}": [option.name for option in command_options(name)] for name in COMMANDS},
}
"""the public names of each door"""


def marks(name: str) -> tuple[list[str], bool, bool]:
    """The digits of a name, and whether it has "%" and "@R"."""
    lower = name.lower()
    is_at_r = bool(re.search(r"(@|at[\W_]|p[\W_]?at)r$", lower))  # as in "map_at_r", and not in "evaluatr"
    return re.findall(r"[0-9]+", lower), "%" in lower or "percent" in lower, is_at_r


@st.composite
def perturbed(draw: st.DrawFn, name: str) -> str:
    """A name with a letter, a digit or a part changed, or with "%" or "@R" behind it."""
    place = draw(st.integers(0, len(name) - 1))
    letter = draw(st.sampled_from(f"{string.ascii_lowercase}{string.digits}_"))
    changed = (
        name[:place] + letter + name[place + 1 :],
        name[:place] + name[place + 1 :],
        name[:place] + letter + name[place:],
        re.sub(r"[0-9]+", str(draw(st.integers(1, 200))), name),
        re.sub(r"_?[0-9]+", "", name),
        name + draw(st.sampled_from(("%", " %", "@R", "@1%", "_percent", "@5", "/1"))),
        draw(st.sampled_from(("mean", "macro", "hard", "top"))) + f"_{name}",
        name.replace("_", draw(st.sampled_from(("", "@", "-", " ")))).upper(),
        name.partition("_")[0],
    )
    return draw(st.sampled_from(changed))


@pytest.mark.parametrize("door", NAMES)
@examples(120)
@given(data=st.data())
def test_a_hint_never_names_a_quantity_with_other_digits_or_percent_or_at_r(door, data):
    names = NAMES[door]
    word = data.draw(st.sampled_from(names).flatmap(perturbed))
    match = _hints.name_meant(word, names)
    if match is not None and _hints.counterpart(word, names) != match:
        assert marks(match) == marks(word)


def test_the_table_of_words_changes_no_digits_but_of_data_sets_and_of_the_mean_over_overlaps():
    data_sets = {"cifar10", "cifar_10", "imagenet100", "pitts250k", "cuhk03", "cuhk_03"}
    for word, names in _hints.NAMES.items():
        if marks(word)[0] and "95" not in word and word not in data_sets:
            for name in names:
                assert "<k>" in name or marks(name)[0][:1] in ([], marks(word)[0][:1]) or not name.islower(), (
                    word,
                    name,
                )


PUBLIC_MODULES = [
    str(path.parent.relative_to(PACKAGE)).replace("/", ".")
    for path in sorted(PACKAGE.rglob("__init__.py"))
    if "__all__ = " in path.read_text(encoding="utf-8") and path.parent != PACKAGE
]


def test_all_public_modules_are_searched_for_a_name():
    assert {*reid_torchmetrics._PUBLIC_MODULES} == {*PUBLIC_MODULES}


def import_from_package(name: str) -> None:
    exec(f"from reid_torchmetrics import {name}")  # noqa: S102 - the statement itself is tested


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_each_public_name_of_a_module_is_told_to_those_who_import_it_from_the_package(module):
    for name in import_module(f"reid_torchmetrics.{module}").__all__:
        if name in reid_torchmetrics.__all__ or name == "report":
            continue
        said = message_of(lambda name=name: getattr(reid_torchmetrics, name))
        assert re.search(rf"`{name}` is in `reid_torchmetrics\.[a-z.]+`( and `reid_torchmetrics\.[a-z.]+`)?$", said), (
            said
        )
        with pytest.raises(ImportError, match=re.escape(said)):
            import_from_package(name)
        assert not hasattr(reid_torchmetrics, name)


def test_a_name_that_is_not_known_is_an_error_of_python():
    with pytest.raises(ImportError, match=r"^cannot import name 'zebra' from 'reid_torchmetrics'"):
        import_from_package("zebra")
    with pytest.raises(ImportError, match="there is `ReIDMeanAP`"):
        import_from_package("ReIDMeanAp")
    with pytest.raises(ImportError, match="there is `DetectionMAP`"):
        import_from_package("MeanAveragePrecision")
    import_from_package("plot, data, evaluate")
    __import__("reid_torchmetrics", fromlist=[""])


CALLABLES = {
    f"{place}.{name}": getattr(import_module(place), name)
    for place in ("reid_torchmetrics", *(f"reid_torchmetrics.{module}" for module in PUBLIC_MODULES))
    for name in import_module(place).__all__
    if callable(getattr(import_module(place), name)) and name not in ("AdviceWarning", "DistributedMetricError")
}


@pytest.mark.parametrize("name", CALLABLES)
def test_an_unknown_keyword_is_named_before_anything_else(name):
    function = CALLABLES[name]
    if inspect.isclass(function) and inspect.isabstract(function):
        return
    with pytest.raises((TypeError, ValueError), match="colour") as raised:
        function(colour=1)
    assert len(str(raised.value)) < 350


MADE_BY_USERS = [
    name
    for name, value in CALLABLES.items()
    if inspect.isfunction(value) or value.__name__ in reid_torchmetrics.__all__
]
"""functions, metrics and options; results are made by the package"""


@pytest.mark.parametrize("name", MADE_BY_USERS)
def test_a_word_of_other_libraries_for_an_argument_is_told_by_each_public_function(name):
    function = CALLABLES[name]
    parameters = [*inspect.signature(function).parameters]
    meant = {word: _hints.counterpart(word, parameters) for word in _hints.NAMES if word not in parameters}
    for word, parameter in meant.items():
        if parameter is not None and word not in ("args", "kwargs") and not inspect.isabstract(function):
            with pytest.raises((TypeError, ValueError), match=rf"{word}.*may be `{parameter}`"):
                function(**{word: 1})


def test_an_argument_that_is_given_is_not_what_another_word_means():
    assert meant_in(message_of(lambda: retrieval.hit_rate_at(None, topk=1))) == "k"
    assert meant_in(message_of(lambda: retrieval.hit_rate_at(k=1, topk=1))) == "ranks"


def test_a_public_function_can_be_pickled():
    assert pickle.loads(pickle.dumps(retrieval.hit_rate_at)) is retrieval.hit_rate_at


RESULTS = [reid_torchmetrics.functional.retrieval.RetrievalResults, DetectionResults, Comparison]


@pytest.mark.parametrize("word", _hints.ATTRIBUTES)
def test_each_text_about_an_attribute_applies_to_results_that_lack_it(word):
    for text in _hints.ATTRIBUTES[word]:
        classes = [kind for kind in RESULTS if text in _hints.attribute_meant(word, public_names(kind))]
        assert classes, text
        assert any(word not in public_names(kind) for kind in classes), text


def public_names(kind: type) -> list[str]:
    """The names of attributes that results of a class have."""
    return [*dir(kind), *(field.name for field in dataclasses.fields(kind))]


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("plot", "plot_pr_curve", "`plot_retrieval_precision_recall` is in `reid_torchmetrics.plot`"),
        ("data", "load_samples", "`read_samples` is in `reid_torchmetrics.data`"),
        ("functional", "evaluate", "there is `reid_torchmetrics.evaluate`"),
        ("coco", "maskUtils", "is in `reid_torchmetrics.functional.detection`"),
        ("integrations", "log_image", "is in `reid_torchmetrics.integrations`"),
        ("report", "to_html", ""),
        ("tasks", "near_duplicates", "there is `reid_torchmetrics.find_duplicates`"),
    ],
)
def test_modules_tell_the_names_here_for_those_of_other_libraries(module, name, said):
    assert said in message_of(lambda: getattr(import_module(f"reid_torchmetrics.{module}"), name))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate", "--query", "q.npz"], "files have no flag: `reid-torchmetrics evaluate [query] [gallery ...]"),
        (["detect", "--gt", "a.json", "--dt", "b.json"], "files have no flag: `reid-torchmetrics detect ground_truths"),
        (["evaluate", "q.npz", "g.npz", "-o", "x.json"], "-o, which may be `--save`"),
        (["evaluate", "q.npz", "g.npz", "--html", "x.html"], "--html, which may be `--report`"),
        (["eval", "q.npz"], "'eval', which may be 'evaluate'"),
        (["report", "q.npz"], "--report page.html` writes a page"),
    ],
)
def test_the_command_tells_its_names_for_those_of_other_tools(words, said, capsys):
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_keyword_is_named_before_a_missing_one():
    message = message_of(lambda: evaluate_scores(distmat=QUERY, q_pids=LABELS[0]))
    assert message.startswith("Unexpected keyword arguments: `distmat`")


ONE_HOT = np.eye(2, dtype=bool)[LABELS[1]]
NAMED = [f"person {label}" for label in LABELS[1]]
FORMS = {
    "list": LABELS[1],
    "list of NumPy's numbers": [np.int64(label) for label in LABELS[1]],
    "array of floats": np.array(LABELS[1], dtype=float),
    "object array": np.array(LABELS[1], dtype=object),
    "names": NAMED,
    "object array of names": np.array(NAMED, dtype=object),
    "column": pd.Series(LABELS[1]),
    "column of names": pd.Series(NAMED),
    "categories": pd.Series(NAMED).astype("category"),
    "label matrix": ONE_HOT,
    "label matrix of integers": ONE_HOT.astype(int),
    "tensor of several labels": torch.from_numpy(ONE_HOT),
    "lists of several labels": ONE_HOT.astype(int).tolist(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protocol", ["sop", "hashing"])
def test_leave_one_out_takes_labels_as_the_second_argument(form, protocol):
    samples = GALLERY if protocol == "sop" else GALLERY > 0
    expected = evaluate(samples, query_identities=FORMS[form], protocol=protocol)
    assert evaluate(samples, FORMS[form], protocol=protocol).means == expected.means


def test_a_gallery_of_codes_is_no_label_matrix():
    codes = GALLERY > 0
    with pytest.raises(ValueError, match="`query_identities` and `gallery_identities` must be given"):
        evaluate(codes, codes, protocol="hashing")
    with pytest.raises(ValueError, match="same embedding dimension"):
        evaluate(GALLERY, ONE_HOT.astype(float))


LISTS: dict[str, list[str]] = {
    **{name: list(get_args(value)) for name, value in vars(_names).items() if get_origin(value) is Literal},
    "MEASURES": all_patterns(),
    "COMMANDS": list(COMMANDS),
    **{command: [row.flag for row in command_options(command)] for command in COMMANDS},
    "fields of protocols": list(PROTOCOL_FIELDS),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_message_lists_ten_names_at_most_with_the_one_that_was_misspelled(name):
    names = LISTS[name]
    for misspelled in names:
        with pytest.raises(ValueError, match="must be one of") as raised:
            _checks.one_of("option", f"{misspelled}x", names)
        text = str(raised.value).partition("one of ")[2].rpartition("; got ")[0]
        rest = f" and {len(names) - 10} more" if len(names) > 10 else ""
        assert text.endswith(rest)
        shown = text.removesuffix(rest).split(", ")
        assert repr(misspelled) in shown
        assert len(shown) == min(len(names), 10)


NOT_BOUNDED = {
    "_checks.py": ["instance"],
    "command/evaluate.py": ["_check_camera_rules"],
    "files/result_files.py": ["sizes_of"],
    "functional/retrieval/evaluation/protocol.py": ["with_options"],
    "metrics/base/arguments.py": ["_check_call"],
    "report/write.py": ["write_report"],
}
"""functions that raise errors and join few words by themselves"""


JOINS = re.compile("[\"'], [\"']\\.join\\(")


def test_errors_list_names_by_one_function():
    root = Path(reid_torchmetrics.__file__).parent
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for function in ast.walk(ast.parse(text if JOINS.search(text) else "")):
            if isinstance(function, ast.FunctionDef):
                source = "\n".join(lines[function.lineno : function.end_lineno])
                if "raise " in source and JOINS.search(source):
                    found.setdefault(path.relative_to(root).as_posix(), []).append(function.name)
    assert found == NOT_BOUNDED


HALVES = ("functional.retrieval", "functional.detection")


@pytest.mark.parametrize("half", HALVES)
def test_a_name_that_moved_to_tasks_can_be_imported_from_where_it_was(half):
    tasks, names = import_module("reid_torchmetrics.tasks"), reid_torchmetrics._MOVED[half].split()
    module = import_module(f"reid_torchmetrics.{half}")
    assert set(names) <= set(tasks.__all__)
    for name in names:
        assert getattr(module, name) is getattr(tasks, name)
    (other,) = {*HALVES} - {half}
    for name in reid_torchmetrics._MOVED[other].split():
        said = f"module 'reid_torchmetrics.{half}' has no attribute '{name}'; "
        with pytest.raises(ImportError, match=re.escape(said)) as raised:
            exec(f"from reid_torchmetrics.{half} import {name}")  # noqa: S102 - the statement itself is tested
        assert re.search(rf"`(reid_torchmetrics\.)?{name}`", str(raised.value))
    with pytest.raises(ImportError, match=r"^cannot import name 'zebra' from 'reid_torchmetrics"):
        exec(f"from reid_torchmetrics.{half} import zebra")  # noqa: S102
