"""Open sets and given pairs on a device: the values of the CPU."""

import torch

from reid_torchmetrics import PairVerification, ReIDOpenSet
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from reid_torchmetrics.tasks import accuracy_over_folds, verify_pairs
from reid_torchmetrics.tasks.identification import FPIR_RULES
from reid_torchmetrics.tasks.metrics import PAIR_METRICS
from tests.device.problems import assert_as_on_the_cpu, moved, problem

RATES = [0.0, 0.1, 0.5]


def test_identification_is_that_of_the_cpu(device, deterministic):
    def values(where):
        query, gallery, *labels = moved(problem(whole=True), where)
        labels[0] = labels[0] + 3  # some are in no gallery
        of_scores = evaluate_scores((query @ gallery.T), *labels, same_camera="keep").identification()
        found = evaluate(query, gallery, *labels, similarity="dot", same_camera="keep").identification()
        metric = ReIDOpenSet(RATES, similarity="dot", same_camera="keep").to(where)
        for sides, is_query in (((query, labels[0], labels[2]), True), ((gallery, labels[1], labels[3]), False)):
            metric.update(*sides, is_query=is_query)
        rates = [(found.threshold_at_fpir(RATES, rule), found.tpir_at_fpir(RATES, 2, rule)) for rule in FPIR_RULES]
        more = [found.novelty_auc(), found.is_correct(0.5), found.balanced_accuracy(0.5)]
        return [found, of_scores, found.curve(), metric.compute(), metric.identification(), *rates, *more]

    assert_as_on_the_cpu(device, values)


def test_given_pairs_are_verified_as_on_the_cpu(device, deterministic):
    first, second = torch.arange(240.0).reshape(2, 30, 4).sin().double().unbind()
    same, index = torch.arange(30) % 3 == 0, torch.arange(30).flip(0)

    def values(where):
        sides = moved([first, second, same], where)
        scores = (sides[0] * 8).round().sum(1)
        found = verify_pairs(scores, sides[2])
        metrics = [PairVerification(report).to(where) for report in PAIR_METRICS]
        for metric in metrics:
            metric.update(*sides, index=moved(index, where))
        rates = [found.tar_at_far(RATES, "nearest"), found.equal_error_rate("voxceleb"), found.min_dcf(0.1)]
        return [found, accuracy_over_folds(scores.abs() / 8, sides[2]), *rates, *(each.compute() for each in metrics)]

    assert_as_on_the_cpu(device, values)
