"""The values of options by name, as types: editors complete them and type checkers know them.

The tables of the package check them, and a test compares both; names without a table are checked by their type.
"""

from __future__ import annotations

from typing import Literal

# Of embeddings.
SimilarityName = Literal["cosine", "euclidean", "dot", "hamming"]
TieName = Literal["pessimistic", "optimistic", "stable", "grouped", "expected"]
TieByPlace = Literal["stable"]
"""those that need places in a gallery"""
CameraRule = Literal["same_identity", "all", "only", "keep"]
ClothesRule = Literal["keep", "drop_same", "drop_other"]
ApRule = Literal["rectangle", "trapezoid", "interpolated_11", "interpolated_101"]
Normalizer = Literal["positives", "attainable", "hits", "k"]
PrecisionDivisor = Literal["k", "attainable", "last_positive", "calibrated"]
Gain = Literal["linear", "exponential"]
CmcMode = Literal["first_match", "all_shots"]
EmptyTargetAction = Literal["skip", "neg", "pos", "error"]
FpirRule = Literal["largest", "nearest", "floor", "strict"]
EerRule = Literal["interpolated", "closest", "voxceleb"]
TarRule = Literal["largest", "nearest"]
MedianRule = Literal["mean", "lower", "floor"]
RankVariant = Literal["mpeg7", "shrec22"]
Vote = Literal["weighted", "majority"]
Expansion = Literal["queries", "gallery_first", "together"]
OriginalDistance = Literal["euclidean", "squared_euclidean", "quartic_euclidean"]
MissingLabels = Literal["error", "junk"]
MissingQueries = Literal["neg", "skip"]
UnknownQueries = Literal["error", "skip"]
DrawnPer = Literal["identity", "identity_and_camera"]
LabelField = Literal["identities", "cameras", "sequences", "clothes", "positions", "groups", "index", "roles", "names"]
PairForm = Literal["first", "last", "lfw"]
ListForm = Literal["run", "rank", "query", "items", "scores"]
TruthForm = Literal["qrels", "grades", "pairs", "items"]
Role = Literal["query", "gallery"]
MatrixKind = Literal["embeddings", "distances", "scores"]
QualityMeasure = Literal["rankme", "dead_dimensions", "norm_mean", "norm_std", "alignment", "uniformity", "hubness"]
PairMetric = Literal["accuracy", "auc", "eer", "eer_closest", "eer_voxceleb", "min_dcf", "tar_at_far"]
BenchmarkProtocol = Literal[
    "prcc",
    "prcc_single_shot",
    "deepchange",
    "vc_clothes",
    "celeb_reid",
    "ltcc",
    "ltcc_cc",
    "ltcc_sc",
    "ccvid_cc",
    "pitts30k",
    "tokyo247",
    "msls",
    "nordland",
    "sysu_mm01_all_single",
    "sysu_mm01_all_multi",
    "sysu_mm01_indoor_single",
    "sysu_mm01_indoor_multi",
    "regdb",
    "llcm",
    "cuhk_pedes",
    "icfg_pedes",
    "rstpreid",
    "flickr30k",
    "coco_captions",
    "msrvtt",
    "oxford5k",
    "paris6k",
    "roxford5k_easy",
    "rparis6k_easy",
    "roxford5k_medium",
    "rparis6k_medium",
    "roxford5k_hard",
    "rparis6k_hard",
    "gldv2",
    "cub200",
    "cars196",
    "sop",
    "inshop",
    "trec",
    "cuhk_sysu",
    "prw",
    "sketchy",
    "hashing",
    "guie",
    "happywhale",
]
"""those that `tasks.benchmarks` adds, in this order"""
ProtocolName = Literal[
    "market1501",
    "market1501_official",
    "dukemtmc",
    "msmt17",
    "mars",
    "mars_official",
    "casia_b",
    "cuhk03_np",
    "cuhk03_openreid",
    "cuhk03_torchreid",
    "vehicleid",
    "veri776",
    "veri776_official",
    "veri776_image_to_track",
    "aicity",
    BenchmarkProtocol,
]

# Of detections.
BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
CocoIouType = Literal["bbox", "segm", "keypoints"]
IouType = Literal[CocoIouType, "rotated"]
LvisIouType = Literal["bbox", "segm"]
VocIouType = Literal["bbox", "rotated"]
ThresholdsName = Literal["coco", "torchmetrics"]
VocRule = Literal["voc07", "voc"]
YoloRule = Literal["yolo", "yolov5", "ultralytics", "voc"]
TaskRule = Literal[VocRule, YoloRule]
"""those that `tasks.evaluators` adds, in this order"""
DetectionRule = Literal["coco", TaskRule]
YoloMatching = Literal["ultralytics", "scaled_yolov4", "yolov4"]
Average = Literal["macro", "micro"]
Backend = Literal["pycocotools", "faster_coco_eval"]
InvalidAction = Literal["count", "drop", "raise"]
UnknownCategories = Literal["raise", "drop"]
DetectionAreas = Literal["coco", "shape"]
TaskEvaluator = Literal["lvis", "lvis_fixed", "voc", YoloMatching]
"""those that `tasks.evaluators` adds, in this order"""
EvaluatorName = Literal["coco", TaskEvaluator]
LimitOf = Literal["image and class", "image", "class"]
ClaimRule = Literal["voc", "dota", "scaled_yolov4", "yolov4"]
ConfusionMatrixRule = Literal["coco", "hotcoco", "ultralytics", "supervision"]
ErrorRule = Literal[DetectionRule, "tidecv"]
FramePer = Literal["number", "query", "class"]
