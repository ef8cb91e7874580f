"""Genuine pairs and impostors of a problem, and problems of pairs with given scores."""

import torch

from reid_torchmetrics.functional.retrieval import Relevance, scores_from_matrix
from reid_torchmetrics.functional.retrieval.relevance import find_listed_relevance
from reid_torchmetrics.functional.retrieval.scores.scores import MatrixScores
from tests.reference.retrieval import candidates
from tests.strategies import Problem


def pairs_of(problem: Problem) -> tuple[list[float], list[float]]:
    """Scores of genuine pairs and of impostors, by the slow reference."""
    gallery = [None if labels is None else labels.tolist() for labels in (problem.labels[1], problem.labels[3])]
    genuine, impostors = [], []
    for q, scores in enumerate(problem.scores.tolist()):
        found = candidates(
            int(problem.query_identities[q]),
            gallery[0],
            None if problem.query_cameras is None else int(problem.query_cameras[q]),
            gallery[1],
            same_camera=problem.same_camera,
            junk_identities=problem.junk_identities,
            self_position=-1 if problem.self_index is None else int(problem.self_index[q]),
        )
        genuine += [scores[place] for place in found.positive]
        impostors += [scores[place] for place in found.negative]
    return genuine, impostors


def row(genuine: list[float], impostors: list[float], dtype=torch.float64) -> tuple[MatrixScores, Relevance]:
    """One query whose positives come first."""
    relevance = find_listed_relevance([torch.arange(len(genuine))], num_gallery=len(genuine) + len(impostors))
    return scores_from_matrix(torch.tensor([[*genuine, *impostors]], dtype=dtype), relevance), relevance
