"""Bad lists and bad scenes of person search: the error names the argument, the rule and what came."""

import math
import re

import numpy as np
import pytest
import torch

from reid_torchmetrics.tasks import evaluate_lists, index_lists
from tests.tasks.test_person_search import search

Q = {"query_identities": [1], "gallery_identities": [1, 2]}
BAD_LISTS = [
    (([[1.5]], [[1]]), {}, TypeError, "`retrieved` must hold items that are all ints, or all strings; got float."),
    (([["a", -1]], [["a"]]), {}, TypeError, "`retrieved` must hold items that are all ints, or all strings; got int and str."),
    (([[True]], [[1]]), {}, TypeError, "`retrieved` must hold items that are all ints, or all strings; got bool."),
    (([[1]], [["a"]]), {}, TypeError, "`retrieved` must hold strings, as `positives` does; got ints."),
    ((torch.rand(2, 3), [[1], [2]]), {}, TypeError, "`retrieved` must hold items that are all ints, or all strings; got torch.float32."),
    ((torch.arange(3), [[1]]), {}, ValueError, "`retrieved` must have shape [queries, items]; got [3]."),
    (([[1]], [[1], [2]]), {}, ValueError, "`retrieved` must hold one list for each of 2 queries; got 1."),
    ((["ab"], [["a"]]), {}, TypeError, "`retrieved` must hold one list for each query; got str."),
    (([{1}], [[1]]), {}, TypeError, "`retrieved` must hold lists, which have an order; got set."),
    (("ab", [["a"]]), {}, TypeError, "`retrieved` must be a matrix, lists or a mapping of queries; got str."),
    (([[-2]], [[1]]), {}, ValueError, "`retrieved` must hold items of at least 0, or -1 for nothing; got -2."),
    (([[1]], [[1, 2, 1]]), {}, ValueError, "`positives` must list an item once for a query; got item 1 twice for query 0."),
    (({7: [1]}, {7: [2, 2]}), {}, ValueError, "`positives` must list an item once for a query; got item 2 twice for query 7."),
    (({"b": ["x"]}, {"a": ["x"], "b": ["y", "x", "y"]}), {"missing_queries": "skip"}, ValueError, "`positives` must list an item once for a query; got item 'y' twice for query 'b'."),
    (({"all_souls_1": ["a"]}, {"all_souls_1": {"good": ["b"], "ok": [], "junk": ["b"]}}), {"protocol": "oxford5k"}, ValueError, "`positives` must list an item once for a query; got item 'b' twice for query 'all_souls_1'."),
    (([[1]], [[1, 2**62, 3, 2**62]]), {}, ValueError, f"`positives` must list an item once for a query; got item {2**62} twice for query 0."),
    (({"a": []}, [[1]]), {}, TypeError, "`retrieved` and `positives` must both be mappings of queries, or neither; got dict and list."),
    (({"a": []}, {"b": []}), {}, ValueError, "`retrieved` must have no query that `positives` lacks; got 'a' where these are 'b'."),
    (({"a": []}, {1: []}), {"unknown_queries": "skip"}, TypeError, "`retrieved` must have ints as keys, as `positives` has; got strings."),
    (({1: [], "a": []}, {1: []}), {"unknown_queries": "skip"}, TypeError, "`retrieved` must have ints as keys, as `positives` has; got strings."),
    (({}, {"b": [], 1: []}), {}, TypeError, "`positives` must hold queries as keys that are all ints, or all strings; got int and str."),
    (([{1: 0.5}, [2], {3: float("nan"), 1: 0.25}], [[1]] * 3), {}, ValueError, "`retrieved` must have scores that can be ordered; got [nan, 0.25]."),
    (([{1: "x"}], [[1]]), {}, TypeError, "`retrieved` must have scores that are numbers; got str."),
    (([{1: 10**400}], [[1]]), {}, ValueError, "`retrieved` must have scores that fit float64; got int too large to convert to float."),
    (([[1]], [{1: 2, 3: float("nan")}]), {}, ValueError, "`positives` must hold grades that are finite; got nan."),
    (([[1]], [{1: 10**400}]), {}, ValueError, "`positives` must have grades that fit float64; got int too large to convert to float."),
    (([[1]], [{1: "2"}]), {}, TypeError, "`positives` must have grades that are numbers; got str."),
    (([[1]], [[1]]), {"gains": [[float("inf")]]}, ValueError, "`gains` must hold grades that are finite; got inf."),
    (([[1]], [[1]]), {"gains": [[1, 2]]}, ValueError, "`gains` must have a grade for each item of `positives`; got lists of other lengths."),
    (([[1]], [[1]]), {"gains": [1]}, TypeError, "`gains` must hold one list for each query; got int."),
    (([[1]], [[1]]), {"gains": 3}, TypeError, "`gains` must be a matrix or lists, as `positives`; got int."),
    (([[1], [1]], [{"ok": [1]}, {"ok": 3}]), {"protocol": "oxford5k"}, TypeError, "`positives` must hold a list of items as 'ok'; got int."),
    (([[1]], [{1: 1}]), {"gains": [[1]]}, TypeError, "`positives` must be mappings for all queries, without `gains`, or lists; got both."),
    (([[1], [1]], [{1: 1}, [1]]), {}, TypeError, "`positives` must be mappings for all queries, without `gains`, or lists; got both."),
    (([[1]], [{1: 1}]), {"num_positives": 1}, ValueError, "`num_positives` must come with positives that have no grades; got grades."),
    (([[1]], [[1, 2]]), {"num_positives": [1]}, ValueError, "`num_positives` must count the positives that are listed, too; got 1 for query 0, which has 2."),
    (({"a": [1]}, {"a": [1, 2]}), {"num_positives": {"a": 1}}, ValueError, "`num_positives` must count the positives that are listed, too; got 1 for query 'a', which has 2."),
    (({"a": [1]}, {"a": [1]}), {"num_positives": {"b": 1}}, ValueError, "`num_positives` must have the queries of `positives` as keys; got none for 'a'."),
    (([[1]], [{"easy": [1], "odd": [2]}]), {"protocol": "roxford5k_easy"}, ValueError, "`positives` must hold lists that `positive_lists` or `junk_lists` of the protocol name, 'easy', 'junk', 'hard'; got 'odd' for query 0."),
    (([[1]], [[1]]), Q, ValueError, "`query_identities` must come without `positives`; got both."),
    (({"a": [1]}, {"a": {"easy": [1], "odd": [2]}}), {"protocol": "roxford5k_easy"}, ValueError, "`positives` must hold lists that `positive_lists` or `junk_lists` of the protocol name, 'easy', 'junk', 'hard'; got 'odd' for query 'a'."),
    (({"a": [1], "b": [1]}, {"a": {"easy": [1]}, "b": {"hard": [1]}}), {"protocol": "roxford5k_easy"}, ValueError, "`positives` must name one of 'easy' for every query; got ['hard'] for 'b'."),
    (([[1]],), {}, ValueError, "`positives` must be given, or labels such as `query_identities`; got neither."),
    (([[1]],), Q | {"gains": [[1]]}, ValueError, "`gains` must come with `positives`; got none."),
    (([[2]],), Q, ValueError, "`retrieved` must lie in [-1, 2); got values from 2 to 2."),
    (([[1]],), Q | {"protocol": "cub200"}, ValueError, "`self_index` must hold every query's own place in the gallery, or `leave_one_out=False` be given, under protocol 'cub200', which searches every query among the others; got 1 queries without."),
    (([[1]],), Q | {"protocol": "oxford5k"}, ValueError, "`protocol` 'oxford5k' needs `positives`, lists for every query; got labels."),
    (([[1]], [[1]]), {"protocol": "vehicleid"}, ValueError, "`protocol` must draw no gallery, as lists are given; got GalleryDraw(shots=1, per='identity')."),
    (([[1]], [[1]]), {"leave_one_out": True}, ValueError, "`leave_one_out` must come with labels and `self_index`; got `positives`."),
    (([[1]], [[1]]), {"same_camera": "all"}, ValueError, "`same_camera` must come with labels; got `positives`, lists, which it cannot act on."),
    (([[1]], [[1]]), {"search_cameras": b"x"}, TypeError, "`search_cameras` must be a collection of ints or names; got bytes."),
    (([[1]],), Q | {"positive_lists": 0}, TypeError, "`positive_lists` must be a tuple or list of names; got int."),
    (([[1]],), Q | {"positive_lists": ["easy"]}, ValueError, "`positive_lists` must come with lists for every query; got labels, which have no lists."),
    (([[1]], [[1]]), {"missing_queries": "drop"}, ValueError, "`missing_queries` must be one of 'neg', 'skip'; got 'drop'."),
    (([[1]], [[1]]), {"unknown_queries": "neg"}, ValueError, "`unknown_queries` must be one of 'error', 'skip'; got 'neg'."),
    (([[2**70]], [[1]]), {}, ValueError, "`retrieved` must hold ints that fit int64, below 2**63; got 1180591620717411303424."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "options", "kind", "message"), BAD_LISTS)
@pytest.mark.usefixtures("unannotated")
def test_bad_lists_are_refused_by_name(arguments, options, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        evaluate_lists(*arguments, **options)


BAD_LISTS_OF_ENGINES = [
    (([[1, 2], [3, 4]], [[0.1, 0.2], [0.2, 0.1]]), {}, ValueError, "`distances` must be sorted along all lists, in one direction, or be left out; got 1 step up and 1 down, such as from 0.2 to 0.1 in list 1."),
    (([[1, 2, 3]], [[math.nan, 0.1, 0.2]]), {}, ValueError, "`distances` must be finite before the end of a list, or be left out; got nan at place 0 of list 0, and a number behind it."),
    (([[1, 2]], [[0.1]]), {}, ValueError, "`distances` must have an entry for each id; got lists of other lengths."),
    (([[1, 2]], np.zeros((2, 1))), {}, ValueError, "`distances` must have an entry for each id; got lists of other lengths."),
    (([[1, 2]], [0.1, 0.2]), {}, TypeError, "`distances` must hold one list for each query; got float."),
    (([[1, 2]], [["a", "b"]]), {}, TypeError, "`distances` must have entries that are numbers; got str."),
    (([[1, 2]], np.array([["a", "b"]])), {}, TypeError, "`distances` must have entries that are numbers; got str."),
    (([[1, 2]], np.ones((1, 2), complex)), {}, TypeError, "`distances` must have entries that are numbers; got complex."),
    (([[1, 2]],), {"counts": [3]}, ValueError, "`counts` must lie between 0 and the lengths of the lists; got 3 for 2 entries of list 0."),
    (([[1, 2], [3]],), {"counts": [1, -1]}, ValueError, "`counts` must lie between 0 and the lengths of the lists; got -1 for 1 entries of list 1."),
    (([[1, 2]],), {"counts": [1, 1]}, ValueError, "`counts` must have shape [1]; got [2]."),
    (([[1, 2]],), {"counts": [0.5]}, TypeError, "`counts` must have an integer dtype; got torch.float64."),
    (([1, 2],), {"counts": [1, 1], "queries": [0, 0]}, ValueError, "`counts` must come without `queries`, which tell the lengths of lists; got both."),
    (([1, 2, 3],), {"queries": [0, 0]}, ValueError, "`ids` must have one row for each label; got 3 rows for 2 labels."),
    (([1],), {"queries": [0.5]}, TypeError, "`queries` must hold names that are all ints, or all strings; got float."),
    (({0: [1]},), {}, TypeError, "`ids` must be a matrix, lists or a mapping of queries; got dict."),
    (([{1: 0.5}],), {}, TypeError, "`ids` must hold lists, which have an order; got dict."),
    (([[1, "a"]],), {}, TypeError, "`ids` must hold items that are all ints, or all strings; got int and str."),
    (([[-5]],), {}, ValueError, "`ids` must hold items of at least 0, or -1 for nothing; got -5."),
    ((np.zeros((1, 2)),), {}, TypeError, "`ids` must hold items that are all ints, or all strings; got torch.float64."),
    ((np.array([[2**63 + 5]], np.uint64),), {}, ValueError, "`ids` must hold ints that fit int64, below 2**63; got 9223372036854775813."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "options", "kind", "message"), BAD_LISTS_OF_ENGINES)
@pytest.mark.usefixtures("unannotated")
def test_bad_lists_of_engines_are_refused_by_name(arguments, options, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        index_lists(*arguments, **options)


BAD_SCENES = [
    ({"listed_twice": True}, ValueError, "`listed_twice` must come with `galleries`; got none."),
    ({"galleries": [[1], [2]]}, ValueError, "`galleries` must have one row for each label; got 2 rows for 1 labels."),
    ({"similarity": "euclidean"}, ValueError, "`similarity` must be one of 'cosine', 'dot'; got 'euclidean'."),
    ({"same_camera": "same_identity"}, ValueError, "`same_camera` must be one of 'keep', 'all'; got 'same_identity'."),
    ({"same_camera": "all"}, TypeError, "`query_cameras` must be a tensor, an array or a list of numbers; got NoneType."),
    ({"same_camera": "all", "query_cameras": [1], "image_cameras": [1, 2]}, ValueError, "`images` must lie in [0, 2); got values from 0 to 3."),
    ({"boxes": torch.ones(2, 4)}, ValueError, "`boxes` must have one row for each label; got 2 rows for 5 labels."),
    ({"images": [1, 2]}, ValueError, "`images` must have shape [5]; got [2]."),
    ({"embeddings": torch.full((5, 2), torch.nan)}, ValueError, "`embeddings` must give scores that can be ordered; got NaN."),
]  # fmt: skip


@pytest.mark.parametrize(("options", "kind", "message"), BAD_SCENES)
@pytest.mark.usefixtures("unannotated")
def test_bad_scenes_are_refused_by_name(options, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        search(**options)
