"""Reports in Chromium: nothing goes wrong, nothing is wider than the window, filters filter, orders sort."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.report import write_report
from reid_torchmetrics.tasks import compare
from tests.report import problems

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
WIDTHS = (1280, 500, 400)
LONG = "a name that is long, " * 8 + "andwithoutanyplacewhereitcouldbebroken" * 3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium"),
]

# Runs in the page: opens all that is folded, tells what is wrong, asks the filter for what begins with 1.
PROBE = """
<script>
const wrong = [];
addEventListener("error", event => wrong.push(event.message));
addEventListener("load", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const input = document.querySelector("input"), found = {wrong, width: innerWidth};
  found.scrollWidth = document.documentElement.scrollWidth;
  found.wide = [...document.querySelectorAll("body *")].filter(each => !each.closest(".scroll, pre, svg") &&
    each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 80));
  found.images = [...document.images].every(each => each.width > 0);
  if (input) {
    const box = input.closest(".filtered");
    const shown = () => [...box.querySelectorAll("tbody tr")].filter(row => row.offsetParent).length;
    found.all = shown();
    input.value = "1";
    input.dispatchEvent(new Event("input", {bubbles: true}));
    found.filtered = shown();
    found.said = box.querySelector("output").textContent;
  }
  const hardest = document.querySelector("#hardest .filtered");
  if (hardest) {
    const fields = [...hardest.querySelectorAll("select")], order = fields.pop();
    const facts = item => [...(item.cells ?? item.querySelector("p").children)].map(each => each.textContent);
    const items = () => [...hardest.querySelectorAll("tbody tr, li")].filter(each => each.offsetParent).map(facts);
    const choose = (field, value) => {
      field.value = value;
      field.dispatchEvent(new Event("input", {bubbles: true}));
      return items().map(each => each[field.dataset.column]);
    };
    found.orders = {listed: choose(order, ""), falling: choose(order, "-1"), rising: choose(order, "1")};
    found.chosen = fields.map(field => choose(field, field.options[1].value));
    found.counted = hardest.querySelector("output").textContent;
  }
  const letters = [...document.querySelectorAll("svg text")].map(text => parseFloat(text.style.fontSize) *
    text.closest("svg").getBoundingClientRect().width / text.closest("svg").viewBox.baseVal.width);
  found.letters = letters.length ? Math.min(...letters) : 99;
  // On paper.
  for (const sheet of document.styleSheets)
    for (const rule of sheet.cssRules) if (rule.media?.mediaText === "print") rule.media.mediaText = "all";
  const style = each => getComputedStyle(each), every = query => [...document.querySelectorAll(query)];
  found.shadows = every(".scroll").filter(each => style(each).backgroundImage !== "none").length;
  found.controls = every("input, select").filter(each => each.offsetParent).length;
  found.divided = every("figure, tr, .lists li").filter(each => style(each).breakInside !== "avoid").length;
  found.alone = every("h2, caption").filter(each => style(each).breakAfter !== "avoid").length;
  parent.postMessage({name: location.hash, found}, "*");
});
</script>
"""
FRAMES = """<!DOCTYPE html><script>
const found = {};
addEventListener("message", event => { found[event.data.name] = event.data.found;
  document.querySelector("pre").textContent = JSON.stringify(found); });
</script><pre></pre>"""


def samples(num: int, *, seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    identities = torch.arange(num) % 15
    return torch.randn(num, 8, generator=generator) + 0.3 * identities[:, None], identities, torch.arange(num) % 4


def retrieval(path: Path) -> None:
    """Fifteen identities, 0, 1, ... 14, of which six begin with 1; and another model."""
    gallery, gallery_identities, gallery_cameras = samples(60, seed=1)
    models = []
    for seed in (2, 3):
        query, query_identities, query_cameras = samples(30, seed=seed)
        labels = query_identities, gallery_identities, query_cameras, gallery_cameras + 4
        models.append(evaluate(query, gallery, *labels))
    comparison = compare(*models, generator=torch.Generator().manual_seed(0), num_resamples=20, num_permutations=20)
    results = models[1]
    write_report(results, path, comparison=comparison, title=LONG)


def rank_lists(path: Path) -> None:
    results = problems.of_metric(rank_lists=replace(problems.rank_lists(), query_index=torch.tensor([0, 1, 2])))
    write_report(results, path, pictures=problems.picture, identity_names={1: LONG})


def detection(path: Path) -> None:
    """Twenty-five classes 0, 1, ..., whose names are their labels, of which eleven begin with 1."""
    metric = DetectionMAP()
    boxes = torch.tensor([problems.BOX]).repeat(25, 1)
    found = {"boxes": boxes, "scores": torch.linspace(0.1, 0.9, 25), "labels": torch.arange(25)}
    truth = {"boxes": boxes.roll(3, 0) + torch.arange(25)[:, None], "labels": torch.arange(25)}
    metric.update([found], [truth])
    drawn = {"pictures": [torch.zeros(3, 240, 640, dtype=torch.uint8)], "detections": [found], "ground_truths": [truth]}
    write_report(metric.results(), path, class_names={label: f"{label} {LONG}" for label in range(25)}, **drawn)


PAGES = {"retrieval": retrieval, "rank_lists": rank_lists, "detection": detection}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What every page says of itself in frames of some widths, and what Chromium says of all of them."""
    folder = tmp_path_factory.mktemp("browser")
    frames = FRAMES
    for name, write in PAGES.items():
        write(folder / f"{name}.html")
        text = (folder / f"{name}.html").read_text(encoding="utf-8")
        (folder / f"{name}.html").write_text(text.replace("<head>", f"<head>{PROBE}", 1), encoding="utf-8")
        frames += "".join(
            f'<iframe width="{width}" height="900" src="{name}.html#{name}-{width}"></iframe>' for width in WIDTHS
        )
    (folder / "frames.html").write_text(frames, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    options += ["--virtual-time-budget=20000", f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    command = [CHROMIUM, *options, (folder / "frames.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    told = re.search(r"<pre>(.*?)</pre>", done.stdout, flags=re.DOTALL)
    assert told, done.stderr
    return json.loads(html.unescape(told[1])), done.stderr


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.slow
def test_nothing_is_wider_than_the_window(name, width, found):
    told = found[0][f"#{name}-{width}"]
    assert told["width"] == width
    assert told["scrollWidth"] <= width
    assert told["wide"] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.slow
def test_letters_of_figures_are_at_least_8_pixels_high(name, width, found):
    assert found[0][f"#{name}-{width}"]["letters"] >= 8


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.slow
def test_paper_has_no_controls_and_no_shadows_and_is_not_broken_inside_of_a_figure_a_query_or_a_row(name, found):
    told = found[0][f"#{name}-1280"]
    assert [told[kind] for kind in ("controls", "shadows", "divided", "alone")] == [0] * 4


@pytest.mark.parametrize("name", PAGES)
def test_nothing_goes_wrong(name, found):
    told, logged = found
    assert told[f"#{name}-400"]["wrong"] == []
    assert told[f"#{name}-400"]["images"]
    assert re.findall(r".*CONSOLE.*", logged) == []


@pytest.mark.parametrize(("name", "num_rows", "num_shown"), [("retrieval", 15, 6), ("detection", 25, 11)])
def test_a_filter_shows_the_rows_whose_names_begin_with_what_is_typed(name, num_rows, num_shown, found):
    told = found[0][f"#{name}-1280"]
    assert (told["all"], told["filtered"]) == (num_rows, num_shown)
    assert told["said"] == f"{num_shown} of {num_rows}"


@pytest.mark.parametrize("name", ["retrieval", "rank_lists"])
def test_queries_are_sorted_by_average_precision_over_what_is_folded(name, found):
    orders = found[0][f"#{name}-1280"]["orders"]
    numbers = {order: [float(each.split()[0]) for each in shown] for order, shown in orders.items()}
    assert len(numbers["listed"]) == {"retrieval": 30, "rank_lists": 2}[name]
    assert numbers["listed"] == numbers["rising"] == sorted(numbers["falling"])
    assert numbers["falling"] == numbers["rising"][::-1]


def test_queries_are_chosen_by_their_identity_and_camera(found):
    # Of 30 queries each identity has two, 15 apart and so of two cameras; one of both is of the camera 0.
    told = found[0]["#retrieval-1280"]
    assert (told["chosen"], told["counted"]) == ([["0", "0"], ["0"]], "1 of 30")
    assert found[0]["#rank_lists-1280"]["chosen"] == [["2"]]
