"""`nodewise dossier` as a user types it; LaTeX compiled where pdflatex is there."""

import shutil
import subprocess
import zipfile

import pytest

from nodewise.study import store
from nodewise.study.spec import Spec, Workload
from nodewise.study.spec_text import spec_text
from nodewise.study.study import Run
from tests.decide.test_allocation import OPENFOAM

WEAK = "nodes,rep,time_s,regime\n" + "".join(
    f"{k},{rep},{60 + k + 0.1 * rep},weak\n" for k in (1, 2, 4) for rep in range(3)
)
CENTRES = ("csc", "archer2", "gcs", "nhr", "incite")


@pytest.fixture
def studies(tmp_path):
    for name, text in (("openfoam", OPENFOAM), ("weak_50%", WEAK)):
        (tmp_path / f"{name}.csv").write_text(text)
    return [tmp_path / "openfoam.csv", tmp_path / "weak_50%.csv"]


@pytest.mark.parametrize("centre", CENTRES)
def test_every_centre_gets_its_headings_and_nothing_is_invented(nodewise, studies, centre):
    outcome = nodewise("dossier", *studies, "--for", centre)
    assert outcome.code == 0
    assert outcome.out.count("\n## ") >= 4
    assert "TODO(author)" in outcome.out and "4390" in outcome.out


def test_the_largest_size_and_the_resources(nodewise, studies):
    outcome = nodewise(
        *("dossier", studies[0], "--for", "csc", "--cores-per-node", "128"),
        *("--runs", "production=40@16*2"),
    )
    assert "is 16 cores; that it does has a probability of" in outcome.out
    assert "| production | 40 | 16 |" in outcome.out
    found = nodewise("dossier", studies[0], "--for", "csc", "--json").json
    assert found[0]["largest"] == 16


def test_a_first_step_that_fails_is_said(nodewise, tmp_path):
    (tmp_path / "flat.csv").write_text("cores,time_s\n1,100\n2,90\n4,80\n")
    outcome = nodewise("dossier", tmp_path / "flat.csv", "--for", "csc")
    assert "No size passes: the first step, from 1 core to 2 cores, does not." in outcome.out
    assert "names no limit" not in outcome.out
    assert (
        nodewise("dossier", tmp_path / "flat.csv", "--for", "csc", "--json").json[0]["largest"]
        is None
    )


def test_studies_of_one_name_keep_their_pictures(nodewise, tmp_path):
    for folder, text in (("a", OPENFOAM), ("b", OPENFOAM.replace("213.91", "300"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "job.csv").write_text(text)
    tables = [tmp_path / folder / "job.csv" for folder in "ab"]
    out = tmp_path / "dossier.md"
    assert nodewise("dossier", *tables, "--for", "csc", "-o", out).code == 0
    pictures = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert len(set(pictures.values())) == 2
    assert all(f"({name})" in out.read_text() for name in pictures)


def drifting(quality):
    """A table with good times whose quality is given by K."""
    return "nodes,rep,time_s,quality\n" + "".join(
        f"{k},{rep},{100 / k + 0.1 * rep},{q}\n" for k, q in quality.items() for rep in range(3)
    )


@pytest.mark.parametrize(
    ("quality", "largest"), [({1: 0.9, 2: 0.9, 4: 0.8}, 2), ({1: 0.9, 2: 0.8, 4: 0.9}, None)]
)
def test_a_scale_that_the_decision_excludes_is_never_the_largest(
    nodewise, tmp_path, quality, largest
):
    (tmp_path / "drifts.csv").write_text(drifting(quality))
    dossier = ("dossier", tmp_path / "drifts.csv", "--for", "archer2")
    assert nodewise(*dossier, "--json").json[0]["largest"] == largest
    text = nodewise(*dossier).out
    assert "is excluded: quality drifts by -0.1, tolerance 0.005." in text
    assert ("is 2 nodes; that it does" in text) == (largest == 2) and "is 4 nodes" not in text


def test_doubts_and_emulated_nodes_are_in_the_dossier(nodewise, tmp_path):
    spec = Spec(name="job", scales=(1, 2, 4), rounds=1, workload=Workload(command=("true",)))
    store.create(tmp_path / "job.study", spec_text(spec, {}))
    for nodes in (1, 2, 4):
        run = Run(nodes=nodes, round=0, seconds=100 / nodes, provenance={"emulated": True})
        store.append(tmp_path / "job.study", run)
    dossier = ("dossier", tmp_path / "job.study", "--for", "archer2")
    text = nodewise(*dossier).out
    assert "Doubt about job: Rehearsal: emulated nodes." in text
    decided = nodewise("decide", tmp_path / "job.study", "--json").json["validity"]
    assert decided["state"] == "doubtful"
    for reason in decided["reasons"]:
        assert reason[1:] in text
    assert len(nodewise(*dossier, "--json").json[0]["doubts"]) == 1 + len(decided["reasons"])


def test_an_invalid_study_is_refused_in_two_lines(nodewise, tmp_path):
    spec = Spec(name="job", scales=(1, 8), rounds=3, workload=Workload(command=("true",)))
    store.create(tmp_path / "job.study", spec_text(spec, {"regime": "weak"}))
    for nodes in (1, 8):
        for number in range(3):
            seconds = 10.0 / nodes + 0.1 * number
            run = Run(nodes=nodes, round=number, seconds=seconds, work=8.0)
            store.append(tmp_path / "job.study", run)
    outcome = nodewise("dossier", tmp_path / "job.study", "--for", "csc")
    assert nodewise("decide", tmp_path / "job.study").code == outcome.code == 1
    first, second = outcome.err.splitlines()
    assert "job: no answer: " in first and second.startswith("  fix: ") and not outcome.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--for", "mars"), "is not a centre"),
        (("--for", "csc", "--runs", "production"), "is not a planned run"),
        (("--for", "csc", "-o", "x.pages"), "ends in .md, .tex or .docx"),
    ],
)
def test_mistakes_are_two_lines(nodewise, studies, arguments, words):
    outcome = nodewise("dossier", studies[0], *arguments)
    assert outcome.code == 2 and words in outcome.err and "fix:" in outcome.err


def test_runs_at_a_scale_that_was_not_measured_are_refused(nodewise, studies):
    outcome = nodewise("dossier", studies[0], "--for", "csc", "--runs", "a=1@7")
    assert outcome.code == 4 and "K=7 of --runs was not measured" in outcome.err


@pytest.mark.slow
def test_a_word_processor_gets_tables_and_pictures(nodewise, studies, tmp_path):
    pytest.importorskip("docx", reason="python-docx is not installed")
    out = tmp_path / "dossier.docx"
    assert nodewise("dossier", *studies, "--for", "gcs", "-o", out).code == 0
    with zipfile.ZipFile(out) as made:
        assert b"TODO(author)" in made.read("word/document.xml")
        assert sum(name.startswith("word/media/") for name in made.namelist()) == 2


@pytest.mark.slow
def test_latex_compiles(nodewise, studies, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed (apt-get install texlive-latex-base)")
    out = tmp_path / "dossier.tex"
    assert nodewise("dossier", *studies, "--for", "nhr", "-o", out).code == 0
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", out.name],
        cwd=tmp_path, capture_output=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-800:]
