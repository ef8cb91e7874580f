"""Each step of the recipes in docs/extending is executed, in a copy of the tree, and gives what the recipe promises.

The examples of all recipes are put into one copy. Then the contracts of the new parts are run there, and each recipe's
block of Python, which prints what the comments at its end say.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import reid_torchmetrics
from tests.recipes import EXTENDING, RECIPES, TOURS, change_of, listed_pages, recipe_in
from tests.test_docs_pages import JOINT, headings, printed

ROOT = EXTENDING.parents[1]
PACKAGE = Path(reid_torchmetrics.__file__).parent
CONTRACTS = "tests/contracts/"
REGISTRY = "tests/functional/retrieval/measures/test_registry.py"
CHECKS = {
    "measure": [
        f"{CONTRACTS}test_measures.py::test_a_measure_keeps_its_contract[f1]",
        f"{CONTRACTS}test_rows.py::test_every_measure_is_reported_or_has_a_reason",
        f"{REGISTRY}::test_every_row_is_evaluated_above_and_has_its_own_name",
        "tests/test_docs.py::test_every_measure_has_a_row_with_its_words_its_formula_and_its_number",
    ],
    "tie_policy": [
        f"{CONTRACTS}test_tie_policies.py::test_a_tie_policy_keeps_its_contract[competition]",
        f"{CONTRACTS}test_rows.py::test_every_tie_policy_changes_the_numbers_of_a_row[competition]",
        "tests/test_docs.py::test_the_tables_of_conventions_list_every_value_of_an_option[ties]",
        "tests/test_docs.py::test_the_table_of_defaults_lists_every_value_and_marks_the_default[ties]",
    ],
    "similarity": [f"{CONTRACTS}test_similarities.py::test_a_similarity_keeps_its_contract[manhattan]"],
    "label": [
        f"{CONTRACTS}test_labels.py::test_a_label_keeps_its_contract[seasons]",
        f"{CONTRACTS}test_rows.py::test_every_label_and_every_rule_has_a_row",
        f"{CONTRACTS}test_rows.py::test_the_reference_knows_every_rule",
        "tests/metrics/test_shared_results.py::test_every_argument_is_in_the_table_or_changes_no_value",
    ],
    "protocol": [
        f"{CONTRACTS}test_protocols.py::test_a_protocol_keeps_its_contract[occluded_duke]",
        "tests/command/test_start.py::test_the_words_of_protocols_are_those_of_the_protocols",
        "tests/test_docs.py::test_every_protocol_has_a_row_and_the_row_is_what_the_protocol_says",
    ],
    "evaluator": [
        f"{CONTRACTS}test_evaluators.py::test_an_evaluator_keeps_its_contract[greedy_voc]",
    ],
    "shape": [
        f"{CONTRACTS}test_shape_types.py::test_a_kind_of_shape_keeps_its_contract[intervals]",
        "tests/test_architecture.py::test_a_file_that_one_other_imports_has_a_reason",
    ],
    "file_reader": [
        f"{CONTRACTS}test_readers.py::test_a_suffix_keeps_its_contract[.jsonl]",
        "tests/test_security.py",
    ],
    "figure": [
        "tests/device/test_device_names.py",
        "tests/functional/test_named_numbers.py::test_the_words_of_plot_name_every_figure",
    ],
    "logger": [
        "tests/integrations/test_log_picture.py::test_a_client_gets_an_image_of_pillow_with_its_name_and_step",
    ],
    "metric_option": ["tests/metrics/test_options.py"],
    "command_option": ["tests/command/test_options.py::test_options_are_those_of_the_function"],
    "result_field": [
        "tests/files/test_result_files.py::test_fields_of_files_are_those_of_the_format",
        "tests/files/test_result_files.py::test_the_format_is_that_of_the_fields_and_of_the_page",
    ],
}
"""the tests that are run for a recipe, by the name of its page"""
MORE_FILES = {
    "label": "the signatures of relevance, of streams and of protocols have its option; without one it is two files",
    "similarity": "docstrings list the names where users read them",
}
"""recipes with changes of more than two files of the package"""
RUN_RECIPES = """
import pathlib, runpy, sys

num_commands, *names = sys.argv[1:]
for command in names[: int(num_commands)]:
    runpy.run_module(command, run_name="__main__")
for place, path in enumerate(names[int(num_commands) :]):
    print(f"== {place}")
    exec(compile(pathlib.Path(path).read_text(encoding="utf-8"), path, "exec"), {"__name__": "__main__"})
"""


def run(root: Path, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy of the tree, by its code."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (root / "src", root))),
        "TEST_PROFILE": "quick",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *words], cwd=folder or root, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the examples of all recipes."""
    root = tmp_path_factory.mktemp("tree")
    left_out = shutil.ignore_patterns("*.pyc.*", "_build")  # compiled files stay valid; those of other suffixes vanish
    shutil.copytree(PACKAGE, root / "src" / PACKAGE.name, ignore=left_out)
    for folder in ("tests", "docs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=left_out)
    for name in ("SECURITY.md", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    for recipe in RECIPES.values():
        for change in recipe.changes:
            change.apply(root)
    return root


@pytest.fixture(scope="module")
def promised(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The lines that the blocks of Python print, by the name of the recipe, after all commands."""
    folder = tmp_path_factory.mktemp("promises")
    paths = [folder / f"recipe_{place}.py" for place in range(len(RECIPES))]
    for path, recipe in zip(paths, RECIPES.values(), strict=True):
        path.write_text(recipe.promise, encoding="utf-8")
    commands = [command for recipe in RECIPES.values() for command in recipe.commands]
    done = run(tree, "-c", RUN_RECIPES, str(len(commands)), *commands, *map(str, paths), folder=folder)
    assert done.returncode == 0, done.stderr
    _, *outputs = re.split(r"^== \d+\n", done.stdout, flags=re.MULTILINE)
    return {name: output.splitlines() for name, output in zip(RECIPES, outputs, strict=True)}


def test_every_page_of_the_folder_is_listed_with_its_title():
    names = listed_pages()
    assert sorted(["index", *names]) == sorted(path.stem for path in EXTENDING.glob("*.md"))
    text = (EXTENDING / "index.md").read_text(encoding="utf-8")
    for listed in (TOURS, RECIPES):
        lines = [f"- [{headings(EXTENDING / f'{name}.md')[0].title}]({name}.md)" for name in listed]
        assert "\n".join(lines) in text


@pytest.mark.parametrize("name", TOURS)
def test_each_block_of_a_tour_prints_a_value(name):
    text = (EXTENDING / f"{name}.md").read_text(encoding="utf-8")
    written = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert JOINT in text  # so that `test_docs_pages.py` compares what each block prints
    assert len(written) >= 8
    assert all(map(printed, written))
    assert len(text.splitlines()) <= 120


def test_a_recipe_changes_two_files_of_the_package_or_there_is_a_reason():
    for name, recipe in RECIPES.items():
        changed = {change.path for change in recipe.changes if change.path.startswith("src/")}
        changed = {path for path in changed if (ROOT / path).exists()}
        assert (len(changed) > 2) == (name in MORE_FILES), f"{name} changes {sorted(changed)}"


def test_every_recipe_has_tests():
    assert RECIPES.keys() == CHECKS.keys()


@pytest.mark.slow
def test_a_recipe_gives_what_it_promises(promised):
    for name, recipe in RECIPES.items():
        expected = printed(recipe.promise)
        assert promised[name][-len(expected) :] == expected, name


@pytest.mark.nightly
def test_a_recipe_adds_code_that_keeps_its_contracts(tree, promised):
    checks = [check for checks in CHECKS.values() for check in checks]
    done = run(tree, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *checks)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "skipped" not in done.stdout


EXAMPLE = """# Add a word

Run `python -m tests.words`.

```diff
+++ words.txt
 one ...
+two

-three
@@
+ten
```

```python
print(1)
# 1
```
"""


def test_an_example_is_read_as_changes(tmp_path):
    recipe = recipe_in(EXAMPLE)
    assert [change.path for change in recipe.changes] == ["words.txt", "words.txt"]
    assert (recipe.commands, recipe.promise) == (["tests.words"], "print(1)\n# 1\n")
    (tmp_path / "words.txt").write_text("# words\none word\n\nthree\n", encoding="utf-8")
    for change in recipe.changes:
        change.apply(tmp_path)
    assert (tmp_path / "words.txt").read_text(encoding="utf-8") == "# words\none word\ntwo\n\nten\n"


@pytest.mark.parametrize("lost", ["+++ words.txt\n", "```python", "# 1\n"])
def test_a_page_without_code_that_is_executed_is_refused(lost):
    message = "a recipe must have changes, and one block of Python that ends with what it prints."
    with pytest.raises(ValueError, match=message):
        recipe_in(EXAMPLE.replace(lost, ""))


def test_lines_that_have_gone_or_are_there_twice_are_refused(tmp_path):
    (tmp_path / "words.txt").write_text("# words\nthirty-one\ntwo\ntwo\n", encoding="utf-8")
    for line, count in (("one", 0), ("two", 2)):
        message = f"words.txt must have these lines once; it has them {count} times:\n{line}"
        with pytest.raises(ValueError, match=message):
            change_of("words.txt", f"-{line}\n").apply(tmp_path)
    with pytest.raises(ValueError, match=r"a line about words.txt must begin with a space, \+ or -; got 'one"):
        change_of("words.txt", "one\n")
