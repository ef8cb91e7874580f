"""Numbers that are the same as in other tools, by the page of `docs/coming_from`; the pages only name them."""

SAME: dict[str, list[tuple[str, str, str]]] = {
    "fast_reid": [
        ("CMC without -1", "Rank-1: 0.4500", "a06_40q300g_junk_distract__dropjunk/fastreid/cmc"),
        ("AP of valid queries", "mean 0.1781", "a07_60q500g_lack__dropjunk/fastreid/AP_valid_queries"),
        ("INP of valid queries", "mean 0.0545", "a07_60q500g_lack__dropjunk/fastreid/INP_valid_queries"),
        ("AP in Cython, in float32", "mean 0.0797", "a08_200q2000g__dropjunk/fastreid_cy/AP_valid_queries"),
    ],
    "layumi": [("junk and distractors: -1 dropped, 0 kept", "Rank-1: 0.4500", "a06_40q300g_junk_distract/layumi/cmc")],
    "mean_average_precision": [
        ("recall at these limits", "0.6901", "random/torchmetrics/mar_without_100"),
        ("no ground truth at all", "-1.0000", "random/torchmetrics/map_of_nothing"),
    ],
    "oml": [
        ("`cmc`", "mean 0.3667", "d01_loo_60/oml/cmc_at_1_per_query"),
        ("`map` over all ranks", "mean 0.3438", "d01_loo_60/oml/map_at_60_per_query"),
        (
            "`fnmr_at_fmr(pairs, relevance, (0.001, 0.01, 0.1)).rates`",
            "place 2: 0.7835",
            "a06_40q300g_junk_distract/oml/fnmr_at_fmr_0.001_0.01_0.1",
        ),
    ],
    "open_reid": [
        ("mAP without -1", "0.4053", "a06_40q300g_junk_distract__dropjunk/openreid/mAP"),
        ("`cmc(..., first_match_break=True)`", "Rank-1: 0.0833", "a08_200q2000g__dropjunk/openreid/cmc_market1501"),
        ("cluster-contrast's mAP", "0.0797", "a08_200q2000g__dropjunk/cc/mAP"),
        ("cluster-contrast's CMC", "Rank-1: 0.0833", "a08_200q2000g__dropjunk/cc/cmc_market1501"),
        ("mAP, some queries without positives", "0.1781", "a07_60q500g_lack__dropjunk/openreid/mAP"),
        ("`topk` > gallery size: the last value is repeated", "Rank-20: 1.0000", "a03_4q9g/openreid/cmc_market1501"),
    ],
    "pycocotools": [
        ("the first of the 12 numbers", "place 1: 0.5046", "val2014/coco/stats"),
        ("`ignore` is not read, only `iscrowd`", "place 1: 0.3284", "random/coco/stats_with_ignore"),
        ("inverted boxes: of negative area, ignored", "place 1: 0.3284", "random/coco/stats_with_inverted"),
        ('masks, `iouType="segm"`', "place 1: 0.3295", "random/coco/stats_of_masks"),
    ],
    "pytorch_metric_learning": [
        ("MAP@R", "0.1987", "d01_loo_60/pml/mean_average_precision_at_r_kNone"),
        ("MAP", "0.3438", "d01_loo_60/pml/mean_average_precision_kNone"),
        ("mean reciprocal rank", "0.5259", "d01_loo_60/pml/mean_reciprocal_rank_kNone"),
        ("precision at 1", "0.3667", "d01_loo_60/pml/precision_at_1_kNone"),
        ("R-precision", "0.2756", "d01_loo_60/pml/r_precision_kNone"),
        ("MAP@R, a class of one item left out", "0.0998", "d02_loo_200_lonely/pml/mean_average_precision_at_r_kNone"),
        ("MAP@R with a reference of its own", "0.2715", "d03_qg_labels/pml/mean_average_precision_at_r_kNone"),
    ],
    "torchmetrics_retrieval": [
        ("MAP", "0.1781", "a07_60q500g_lack/torchmetrics/MAP_kNone_skip"),
        ("MRR", "0.4855", "a07_60q500g_lack/torchmetrics/MRR_kNone_skip"),
        ("precision at 5", "0.1886", "a07_60q500g_lack/torchmetrics/Precision_k5_skip"),
        ("recall at 5", "0.1403", "a07_60q500g_lack/torchmetrics/Recall_k5_skip"),
        ("hit rate at 5", "0.6571", "a07_60q500g_lack/torchmetrics/HitRate_k5_skip"),
        ("nDCG at 5", "0.2321", "a07_60q500g_lack/torchmetrics/NormalizedDCG_k5_skip"),
        ("R-precision", "0.1591", "a07_60q500g_lack/torchmetrics/RPrecision_skip"),
    ],
    "torchreid": [
        ("mAP without -1", "0.4053", "a06_40q300g_junk_distract__dropjunk/torchreid/mAP"),
        ("CMC without -1", "Rank-1: 0.4500", "a06_40q300g_junk_distract__dropjunk/torchreid/cmc"),
        ("mAP, some queries without positives", "0.1781", "a07_60q500g_lack__dropjunk/torchreid/mAP"),
        ("Cython's mAP, in float32", "0.0797", "a08_200q2000g__dropjunk/torchreid_cy/mAP"),
        ("mAP with `use_metric_cuhk03`: of the whole gallery", "0.4765", "c01_sgs_mc/torchreid/mAP_cuhk03"),
        ("`re_ranking` of Euclidean distances", "place 1: 0.1419", "g01_rerank/torchreid_rerank/dist_k1_20_k2_6_l0.3"),
    ],
    "transreid": [
        ("CMC without -1", "Rank-1: 0.4500", "a06_40q300g_junk_distract__dropjunk/transreid/cmc"),
        ("mAP without -1", "0.4053", "a06_40q300g_junk_distract__dropjunk/transreid/mAP"),
        ("mAP, some queries without positives", "0.1781", "a07_60q500g_lack__dropjunk/transreid/mAP"),
    ],
    "ultralytics": [
        ("mAP50-95", "0.1908", "1/ultralytics/map"),
        ("mAP50", "0.4235", "1/ultralytics/map50"),
        ("mAP75", "0.0892", "1/ultralytics/map75"),
        ("AP of the first class and threshold", "place 1: 0.2744", "1/ultralytics/average_precision"),
        ("P", "0.4725", "7/ultralytics/precision"),
        ("R", "0.7138", "7/ultralytics/recall"),
        (
            "`confusion_matrix` at confidence 0.25, IoU 0.45: missed ground truths of class 0",
            "place 5: 3.0000",
            "1/ultralytics/confusion_matrix",
        ),
    ],
}
"""what is compared, the number, and where it is recorded or run"""
