"""A wrong `--config`, and wrong words, are one line with the name of the program and the exit status 2."""

import re

import pytest

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
)
CONFIGS = {
    "k: [1, 2\n": r"c\.yaml:2: the file must be valid YAML; got ",
    "- 1\n- 2\n": r"c\.yaml: the file must map options to values, .*; got \[1, 2\]\.",
    "": r"c\.yaml: the file must map options to values, .*; got nothing\.",
    "protocl: msmt17\n": r"c\.yaml:1: keys must be options .* got 'protocl', which may be `protocol`\.",
    "protocol: msmt17\nk: abc\n": r"c\.yaml:2: `k` must be a whole number or null; got 'abc'\.",
    "leave_one_out: 3\n": r"c\.yaml:1: `leave_one_out` must be true or false; got 3\.",
    "reports: map\n": r"c\.yaml:1: `reports` must be a list; got 'map'\.",
    "k: 1\nk: 2\n": r"c\.yaml:2: each option must be given once; got `k` twice\.",
    "k: !!python/object/apply:os.system [ls]\n": r"c\.yaml:1: values must be plain; got the tag ",
    "protocol: &a [*a]\n": r"c\.yaml:1: an alias must name a whole value before it; got \*a\.",
    "--- \nk: 1\n---\nk: 2\n": r"c\.yaml:3: the file must have one document; got a second one\.",
    BOMB: r"c\.yaml:4: values must be at most 10000 with aliases; got more\.",
    "k: " + "[" * 30 + "]" * 30: r"c\.yaml:1: values must be nested at most 20 deep; got more\.",
    "k: 1\n" + "#" * 2**18: r"c\.yaml: a file of options must have at most 262144 bytes; got ",
}


def refused(outcome):
    assert outcome.status == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith("reid-torchmetrics: ")
    return line.removeprefix("reid-torchmetrics: ")


@pytest.mark.parametrize("text", CONFIGS, ids=range(len(CONFIGS)))
def test_a_wrong_file_of_options_is_one_line_that_names_its_line(command, tmp_path, text):
    (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
    line = refused(command("evaluate", "g.npz", "--config", "c.yaml"))
    assert re.match(CONFIGS[text], line), line


def test_a_file_of_options_that_cannot_be_read_is_one_line(command, tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\x00\xff\xfe")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    (tmp_path / "folder.yaml").mkdir()
    for name in ("binary.yaml", "loop.yaml", "folder.yaml", "missing.yaml"):
        assert name in refused(command("evaluate", "g.npz", f"--config={name}"))


def test_a_protocol_of_ones_own_comes_from_a_file(command, files, tmp_path):
    fields = "source: ours\ngallery_draw: {per: identity, shots: 1}\nempty_target_action: neg\nreports: [rank_1, map]\n"
    (tmp_path / "warehouse.yaml").write_text(fields, encoding="utf-8")
    words = ["evaluate", *files, "--protocol"]
    printed = command(*words, "warehouse.yaml")
    assert printed.status == 0, printed.err
    assert "protocol warehouse," in printed.out
    assert printed.out.count("rank_1") == 1
    (tmp_path / "options.yaml").write_text("protocol: warehouse.yaml\n", encoding="utf-8")
    assert command(*words[:3], "--config", "options.yaml").out == printed.out
    assert "protocol: warehouse.yaml" in command(*words, "warehouse.yaml", "--print-config").out


PROTOCOLS = {
    "same_camra: keep\n": r"p\.yaml:1: keys must be fields of `Protocol`; got 'same_camra', which may be `same_c",
    "same_camera: kep\n": r"p\.yaml: `same_camera` must be one of .*; got 'kep'\.",
    "k: 0\n": r"p\.yaml: `k` must be at least 1; got 0\.",
    "gallery_draw: {pre: 1}\n": r"p\.yaml: .*unexpected keyword argument 'pre'",
    "- 1\n": r"p\.yaml: the file must map options to values, such as `same_camera: keep`; got \[1\]\.",
    "reports: [three_in_ten]\n": r"p\.yaml: `reports` must be of .*; got 'three_in_ten'\.",
}


@pytest.mark.parametrize("text", PROTOCOLS, ids=range(len(PROTOCOLS)))
def test_a_wrong_file_of_a_protocol_is_one_line_that_names_it(command, files, tmp_path, text):
    (tmp_path / "p.yaml").write_text(text, encoding="utf-8")
    outcome = command("evaluate", *files, "--protocol", "p.yaml")
    assert outcome.status == 1
    assert re.search(PROTOCOLS[text], outcome.err), outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_file_of_a_protocol_that_is_missing_is_one_line(command, files):
    assert "'none.yml'" in command("evaluate", *files, "--protocol", "none.yml").err
