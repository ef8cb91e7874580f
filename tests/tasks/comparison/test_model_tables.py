"""Numbers of models as tables of papers: what is written, what is bold and marked, and what LaTeX and Markdown read."""

import csv
import math
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import accumulate

import pytest

from reid_torchmetrics import compare
from reid_torchmetrics.functional.model_tables import ModelTable, Number, Tabled
from reid_torchmetrics.tasks.comparison.model_tables import caption_of, comma_separated, latex, markdown
from tests.functional.saved_results import ALL, COMPARISON
from tests.report import problems
from tests.tasks.comparison import two_models
from tests.tasks.comparison.two_models import ranked

MAP = Number("map", "mAP", 0.70049)
ANMRR = Number("anmrr", "ANMRR", 0.25, lower_is_better=True)
MEAN_RANK = Number("mean_rank", "Mean rank", math.inf, is_share=False, lower_is_better=True)


def row(*values):
    """The numbers of a model, which may lack the last ones."""
    numbers = zip((MAP, ANMRR, MEAN_RANK), values, strict=False)
    return {number.name: number._replace(value=value) for number, value in numbers}


ROWS = {"a_1": row(0.70049, 0.25, math.inf), "b": row(0.7, math.nan, 12.25), "c&d|e": row(0.1, 0.5)}
TABLE = ModelTable(ROWS, "50% of a_1", marked={("b", "map"), ("c&d|e", "anmrr")})


def test_the_best_are_bold_as_they_are_written_and_marks_are_daggers():
    # 70.0 twice, the lowest of what is a loss or a rank, and nothing that is undefined.
    assert markdown(TABLE, 1).splitlines() == [
        r"| model   |   mAP (%) | ANMRR (%) | Mean rank |",
        r"| :--     |       --: |       --: |       --: |",
        r"| a\_1    |  **70.0** |  **25.0** |     never |",
        r"| b       | **70.0**† |       n/a |  **12.2** |",
        r"| c\&d\|e |      10.0 |     50.0† |       n/a |",
        "",
        r"50% of a\_1.",
    ]


def test_a_table_of_latex():
    assert latex(TABLE, 2).splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\setlength{\belowcaptionskip}{6pt}",
        r"\caption{50\% of a\_1.}",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"model           &               mAP (\%) &             ANMRR (\%) &      Mean rank \\",
        r"\midrule",
        r"a\_1            &         \textbf{70.05} &         \textbf{25.00} &          never \\",
        r"b               & 70.00\rlap{$^\dagger$} &                    n/a & \textbf{12.25} \\",
        r"c\&d\textbar{}e &                  10.00 & 50.00\rlap{$^\dagger$} &            n/a \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_comma_separated_values():
    expected = ["model,mAP (%),ANMRR (%),Mean rank", "a_1,70,25,never", "b,70,,12", "c&d|e,10,50,"]
    assert comma_separated(TABLE, 0).splitlines() == expected
    named = comma_separated(ModelTable({'a, "b"': row(0.5)}, ""), 1)
    assert [*csv.reader(named.splitlines())] == [["model", "mAP (%)"], ['a, "b"', "50.0"]]


def test_tables_have_one_digit_behind_the_point_unless_more_are_asked_for():
    # Two thirds, 66.67 %.
    results = problems.retrieval()
    for write in (results.to_markdown, results.to_latex):
        assert re.findall(r"\b66[.\d]*", write()) == ["66.7"]
        assert re.findall(r"\b66[.\d]*", write(decimals=2)) == ["66.67"]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("decimals", "error"), [(-1, ValueError), (True, TypeError), (1.0, TypeError)])
def test_decimals_are_a_number_of_digits(decimals, error):
    for results in (problems.retrieval(), COMPARISON["two models"]()):
        with pytest.raises(error, match=r"^`decimals` must be "):
            results.to_latex(decimals=decimals)
        with pytest.raises(error, match=r"^`decimals` must be "):
            results.to_markdown(decimals=decimals)


def test_a_comparison_has_a_row_for_each_model():
    three = {"one": ranked(1, 2, 4, None), "two": ranked(1, 1, 2, None), "three": ranked(1, 1, 1, None)}
    found = compare(three, num_resamples=9, num_permutations=9)
    table = found.model_table()
    assert {model: numbers["map"].value for model, numbers in table.rows.items()} == pytest.approx(
        {"one": 7 / 12, "two": 5 / 6, "three": 1.0}
    )
    assert [number.title for number in table.numbers.values()] == ["mAP", "mINP", "Rank-1", "Rank-5", "Rank-10"]
    assert [line.split("|")[2].strip() for line in found.to_markdown().splitlines()[2:5]] == [
        "58.3",
        "83.3",
        "**100.0**",
    ]
    frame = pytest.importorskip("pandas") and found.to_frame()
    assert (frame.index.name, frame.index.tolist()) == ("model", [*three])
    assert frame["map"].tolist() == pytest.approx([7 / 12, 5 / 6, 1])


def test_a_mark_is_for_a_p_value_after_holm_where_there_is_one():
    pair = COMPARISON["two models"]()
    for p_value, p_holm, is_marked in ((0.04, math.nan, True), (0.05, math.nan, False), (0.04, 0.08, False)):
        differences = {"map": replace(pair.differences["map"], p_value=p_value, p_holm=p_holm)}
        table = replace(pair, differences=differences).model_table()
        assert table.marked == ({("b", "map")} if is_marked else set())
    undefined = replace(pair.differences["map"], p_value=math.nan)
    assert not replace(pair, differences={"map": undefined}).model_table().marked


IN_CAMERA = "gallery images of the query's identity and camera are removed"


def test_a_caption_has_the_protocol_in_words_and_the_seed():
    three = {name: two_models.evaluated(seed, reports=("map", "rank_1", "rank_5")) for seed, name in enumerate("abc")}
    caption = caption_of(compare(three, num_resamples=9, num_permutations=9).model_table())
    setup, *measures, marks = caption.split(". ")
    assert setup.split("; ") == [
        "Protocol market1501, 30 of 30 queries valid",
        *("similarity: cosine", "ties: pessimistic", IN_CAMERA, "junk identities: -1"),
        "queries without a match are left out",
    ]
    average_precision = "mAP: average precision, not interpolated, over all ranks"
    assert measures == [average_precision, "Rank-1: CMC of the first match, at rank 1"]  # the first one of each kind
    assert marks == "† p < 0.05 against a with Holm's correction; p: 9 sign flips of queries; seed 0."


def test_a_caption_of_detections_says_what_the_first_number_of_each_kind_is():
    assert caption_of(problems.detection().model_table()) == (
        "COCO, 3 images; average precision, as in COCO; mean over 10 IoU thresholds from 0.5 to 0.95; area"
        " range all, no limit; at most 100 detections of an image and class; boxes matched by the rules of COCO; means"
        " over classes. mAR1: largest recall; at most 1 detection of an image and class."
    )


def test_text_has_shares_in_percent_on_demand():
    a, b = (ranked(*ranks, None, reports=("map", "mean_rank")) for ranks in ((1, 2, 4), (1, 1, 2)))
    assert f"{a:.1%}".splitlines()[1:3] == [
        "  map          58.3%  average precision, not interpolated, over all ranks",
        "  mean_rank      2.3  rank of the first positive",
    ]
    assert (f"{a}", f"{a:.4f}") == (str(a), str(a))
    found = compare(a, b, num_resamples=9, num_permutations=9)
    shares, rank = (each.split()[:4] for each in f"{found:.2%}".splitlines()[5:7])
    # Differences are percentage points.
    assert shares == ["map", "58.33%", "83.33%", "+25.00"]
    assert rank == ["mean_rank", "2.33", "1.33", "-1.00"]
    assert f"{found}" == str(found) == repr(found)
    lines = f"{problems.detection():.1%}".splitlines()
    assert lines[1].endswith("= 75.2%  map")  # (51 / 101 + 1) / 2
    assert lines[4].endswith("=   n/a  map_small")


NAMES = ["my_model&co|x", "100% #1", "[b]", "*c", r"a\b{c}^~$<d>", "two\nlines", "a--b"]


def tables():
    """Tables of every kind of results, and of models with names that LaTeX and Markdown read otherwise."""
    models = [two_models.evaluated(seed) for seed in range(len(NAMES))]
    yield compare(dict(zip(NAMES, models, strict=True)), num_resamples=9, num_permutations=9)
    detections = {"a_b": problems.detection(), "c&d": problems.detection()}
    yield compare(detections, num_resamples=2, num_permutations=2)
    for make in ALL.values():
        results = make()
        if isinstance(results, Tabled):
            yield results


@pytest.fixture(scope="module")
def every_table():
    return [*tables()]


OURS = r"\\(begin|end)\{\w+\}(\{l\w+\})?|\\[a-z]+(\{\})?|\\[#$%&_{}]|\$(\^?\\dagger|\^2)\$| & | \\\\$"
"""what we write, in which letters are more than themselves"""


def test_latex_can_read_every_table(every_table):
    for results in every_table:
        text, table = results.to_latex(), results.model_table()
        # What begins ends, in the order of a stack, and so do braces.
        open_ones = []
        for sign, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
            assert sign == "begin" or open_ones.pop() == name
            open_ones += [name] * (sign == "begin")
        assert open_ones == []
        depths = [(sign == "{") - (sign == "}") for sign in re.sub(r"\\[{}]", "", text)]
        assert min(accumulate(depths)) == sum(depths) == 0
        # The head and a row for each model, with as many cells; a row that begins with an option would be none.
        rows = [line for line in text.splitlines() if line.endswith(r" \\")]
        assert len(rows) == 1 + len(table.rows)
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(table.numbers)}
        assert f"{{tabular}}{{l{'r' * len(table.numbers)}}}\n" in text
        assert not any(row.startswith(("[", "*")) for row in rows)
        assert not re.search(r"[#$%&_^~\\<>|]", re.sub(OURS, "", text, flags=re.MULTILINE))


def test_markdown_has_as_many_cells_in_each_row(every_table):
    for results in every_table:
        lines, table = results.to_markdown().splitlines(), results.model_table()
        cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[: 2 + len(table.rows)]]
        assert {len(row) for row in cells} == {1 + len(table.numbers)}
        names = [re.sub(r"\\(.)", r"\1", row[0].strip()) for row in cells[2:]]
        assert names == [" ".join(name.split()) for name in table.rows]
        assert lines[2 + len(table.rows)] == ""


@pytest.mark.skipif(not (shutil.which("pdflatex") or shutil.which("tectonic")), reason="no LaTeX to compile with")
def test_every_table_compiles(every_table, tmp_path):
    pages = "\n\\clearpage\n".join(results.to_latex() for results in every_table)
    preamble = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "tables.tex").write_text(f"{preamble}{pages}\n\\end{{document}}\n", encoding="utf-8")
    program = shutil.which("pdflatex")
    words = [program, "-interaction=nonstopmode", "-halt-on-error"] if program else [shutil.which("tectonic")]
    done = subprocess.run([*words, "tables.tex"], cwd=tmp_path, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")
    assert (tmp_path / "tables.pdf").stat().st_size


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no LaTeX to compile with")
def test_five_measures_fit_the_width_of_two_columns(tmp_path):
    results = problems.retrieval(reports=("map", "rank_1", "rank_5", "rank_10", "minp"))
    table = results.to_latex("a model with a long name", two_columns=True)
    preamble = "\\documentclass[twocolumn]{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "table.tex").write_text(f"{preamble}{table}\n\\end{{document}}\n", encoding="utf-8")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0
    assert b"Overfull" not in done.stdout


def kinds_of_results():
    """A table of each kind of results."""
    retrieval = problems.retrieval()
    return {
        "retrieval": retrieval,
        "detection": problems.detection(),
        "comparison": compare(retrieval, retrieval, num_resamples=9, num_permutations=9),
    }


@pytest.mark.parametrize("kind", ["retrieval", "detection", "comparison"])
def test_a_table_in_latex_takes_a_caption_a_label_and_measures(kind):
    results = kinds_of_results()[kind]
    first, second, *_ = results.model_table().numbers.values()
    text = results.to_latex(caption="50 % of R&D", label="tab:a_1", measures=["map"], two_columns=True)
    lines = text.splitlines()
    assert lines[0] == r"\begin{table*}"
    assert lines[-1] == r"\end{table*}"
    assert r"\caption{50 \% of R\&D}" in lines
    assert lines[lines.index(r"\caption{50 \% of R\&D}") + 1] == r"\label{tab:a_1}"
    assert r"\begin{tabular}{lr}" in lines
    assert results.to_latex() == results.to_latex(measures=list(results.model_table().numbers))
    shown = results.to_latex(measures=["map"])
    assert r"\label" not in shown
    assert first.title in shown
    assert f"{second.title} (" not in shown
    assert f"{second.title}:" not in shown  # nor in the caption


@pytest.mark.parametrize(
    ("measures", "error", "message"),
    [
        ("map", TypeError, "`measures` must be a tuple or list of names; got 'map'"),
        ((), ValueError, r"`measures` must name some numbers, each once; got \(\)"),
        (("map", "map"), ValueError, "`measures` must name some numbers, each once"),
        (("mpa",), ValueError, "`measures` must be one of 'map', 'rank_1'; got 'mpa'"),
    ],
)
def test_measures_that_a_table_does_not_have_are_refused(measures, error, message):
    with pytest.raises(error, match=message):
        problems.retrieval().to_latex(measures=measures)
