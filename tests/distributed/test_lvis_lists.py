"""LVIS: lists of classes and ground truths of one process are enough to say nothing."""

from reid_torchmetrics import LvisMAP
from tests.functional.detection.detection_samples import fed
from tests.functional.detection.evaluation.test_lvis_warnings import on_ten_images, told_by


def told_of_processes(process: int, size: int, listed: int) -> list[str]:
    """What a process is told if one of them has lists, and ground truths of the only class of a frequency."""
    lists, labels = ((None, [1]), (1,)) if process == listed else ((None, None), (2,))
    return told_by(lambda: fed(LvisMAP("xywh", frequencies={1: "r"}), *on_ten_images(lists, labels)).compute())


def test_lists_and_classes_of_one_process_are_enough(processes):
    for listed in (0, 1):
        assert processes.run(2, told_of_processes, listed) == [[], []]
    lists, groups = processes.run(2, told_of_processes, -1)[0]
    assert lists.startswith("None of 20 images has")
    assert groups.startswith("No ground truth has a label of `map_rare`: the groups have the labels [1], and the")
