import re
from pathlib import Path

import pytest
from benchmarks import quality, quality_report

from macrid.errors import MacridError
from macrid.paper import figure4, table1
from macrid.paper.report import read_blocks, report, write_report

DOCS = Path(__file__).parents[2] / "docs"
ABOUT = {"seconds": 12.0, "machines": [{"machine": "a card", "versions": "macrid 1", "date": "2026-01-01"}]}


def row(data, method, *ndcgs, items=1000):
    runs = [
        {
            "seed": seed,
            "test": {"ndcg@100": value, "recall@20": value / 2, "recall@50": value * 2},
            "se": dict.fromkeys(table1.PAPER_METRICS, 0.01),
            "parameters": 3_960_000 if method == "ease" else 198_000,
            "users": 500,
        }
        for seed, value in enumerate(ndcgs)
    ]
    config = {"model": method, "settings": {"beta": 0.123456}, "training": {"learning_rate": 1e-3}}
    search = {"study": f"{data}-{method}", "trials": 200}
    return {"data": data, "method": method, "items": items, "config": config, "search": search, "runs": runs}


def block(name, **content):
    return {"block": name, "quick": False, "trials": None, "about": ABOUT, **content}


TABLE = block(
    "table1",
    rows=[
        row("ml-1m", "popularity", 0.2),
        row("ml-1m", "ease", 0.42),
        row("ml-1m", "multdae", 0.41, 0.41),
        row("ml-1m", "multvae", 0.40, 0.42),
        row("ml-1m", "macridvae-random", 0.42, 0.44),
        row("ml-1m", "macridvae", 0.43, 0.45),
    ],
    missing={"netflix": "netflix: missing mv.tar in $MACRID_DATA/netflix"},
)


def test_means_over_seeds_are_next_to_the_papers_figures_with_the_best_in_bold():
    text = report({"table1": TABLE}, "results")
    (line,) = [line for line in text.splitlines() if line.startswith("| MacridVAE |")]
    assert "**.440** ± .010" in line
    assert ".4300–.4500" in line
    assert "0.20 (0.99)" in line
    assert line.endswith("| .427 / .360 / .490 |")
    assert "| β-MultVAE | .410 ± .010" in text
    assert "MacridVAE against EASE +.020 / +.010 / +.040; against MultDAE +.030" in text
    assert "against MacridVAE, random start +.010" in text
    assert "our MacridVAE against the paper's +.013 / −.140 / +.390" in text
    assert "20 times as large as MacridVAE" in text
    assert "it has the better NDCG@100" not in text
    assert TABLE["missing"]["netflix"] in text


def test_a_table_without_any_data_says_what_is_missing():
    text = report({"table1": {**TABLE, "rows": []}}, "results")
    assert TABLE["missing"]["netflix"] in text
    assert "Tuned settings" not in text
    assert "seeds" not in text


def test_quick_results_are_marked():
    assert "quick settings" in report({"table1": {**TABLE, "quick": True}}, "results")
    assert "quick settings" not in report({"table1": TABLE}, "results")


def test_figure_2_shows_every_seed_and_reports_collapse():
    def runs(nmi, in_use):
        keys = ("nmi", "ari", "purity", "matched_accuracy", "ndcg@100")
        return [
            {"seed": seed, **dict.fromkeys(keys, nmi + seed / 100), "effective_concepts": in_use} for seed in (0, 1)
        ]

    found = {"cosine": runs(0.5, 6.8), "inner": runs(0.2, 6.0)}
    text = report({"figure2": block("figure2", data="alishop-7c-4k", runs=found)}, "pictures")
    assert "| cosine | 1 | .510 | .510 | .510 | .510 | 6.8 | .510 |" in text
    assert "| inner | **mean** | .205 |" in text
    assert "does not happen from our start" in text
    assert "(pictures/figure2.png)" in text
    found["inner"] = runs(0.2, 1.2)
    assert "does not happen" not in report({"figure2": block("figure2", data="d", runs=found)}, "p")


def test_figure_4_gives_rank_correlations_by_method():
    points = [{"independence": x, "independence_per_concept": 1 - x, "ndcg@100": x / 2} for x in (0.5, 0.7, 0.9)]
    found = block("figure4", data="d", configurations=3, points=dict.fromkeys(figure4.METHODS, points))
    text = report({"figure4": found}, "p")
    assert "| MacridVAE, K = 7 | 3 | .700 | .300 | .350 | .450 | +1.00 | −1.00 |" in text


def test_the_papers_claims_about_figure_4_are_checked_against_the_numbers():
    def points(shift, slope):
        xs = (0.5 + shift, 0.7 + shift, 0.9 + shift)
        return [{"independence": x, "independence_per_concept": x, "ndcg@100": 0.1 + slope * x} for x in xs]

    def verdicts(**points):
        by_method = {name.replace("_", "-"): of_method for name, of_method in points.items()}
        text = report({"figure4": block("figure4", data="d", configurations=3, points=by_method)}, "p")
        return re.findall(r"(holds|does not hold) for (\w+)(?: \(([^)]*)\))?", text)

    agrees = verdicts(macridvae_7=points(0.05, 0.4), macridvae_1=points(0, 0.3), multvae=points(0, 0.2))
    assert agrees == [("holds", "all", ""), ("holds", "accuracy", ".400 against .310"),
                      ("holds", "independence", ".750 against .700")]  # fmt: skip
    other = verdicts(macridvae_7=points(0, 0.1), macridvae_1=points(0.05, 0.3), multvae=points(0, -0.1))
    assert [verdict for verdict, *_ in other] == ["does not hold"] * 3


def test_a_method_whose_configurations_all_diverged_is_reported():
    points = [{"independence": 0.5, "independence_per_concept": 0.5, "ndcg@100": x} for x in (0.1, 0.2, 0.3)]
    by_method = {"macridvae-7": points, "macridvae-1": [], "multvae": points}
    text = report({"figure4": block("figure4", data="d", configurations=3, points=by_method)}, "p")
    assert "| MacridVAE, K = 1 | all diverged |" in text
    assert "nan" not in text  # no rank correlation with a constant


def test_sentences_depend_on_the_numbers():
    few = {**TABLE, "rows": [dict(one, runs=[dict(run, users=49) for run in one["runs"]]) for one in TABLE["rows"]]}
    assert "49 test users" in report({"table1": few}, "results")
    assert "test users*" not in report({"table1": TABLE}, "results")
    assert "`--trials`" in report({"table1": {**TABLE, "trials": 5}}, "results")
    assert "study ml-1m-macridvae, 200 trials" in report({"table1": TABLE}, "results")


def test_the_report_says_where_the_papers_order_holds():
    text = report({"table1": TABLE}, "results")
    assert "On ml-1m MacridVAE is ahead of MultDAE and β-MultVAE in every metric." in text
    assert "The paper finds the same on ml-1m." in text
    rows = [dict(one, data="ml-20m") for one in TABLE["rows"]]  # where the paper's MultDAE has the better Recall@50
    text = report({"table1": {**TABLE, "rows": rows}}, "results")
    assert "On ml-20m MacridVAE is ahead of MultDAE and β-MultVAE in every metric." in text
    assert "The paper finds the same" not in text
    other = {**TABLE, "rows": [*TABLE["rows"][:2], row("ml-1m", "multdae", 0.4412), *TABLE["rows"][3:]]}
    other["rows"][1] = row("ml-1m", "ease", 0.5)
    text = report({"table1": other}, "results")
    assert "On ml-1m it has the better NDCG@100." in text
    assert "MultDAE is ahead in NDCG@100 by .0012 (standard error .010)" in text


@pytest.mark.parametrize("content", ["{", "{}", "[]", "3"])
def test_a_damaged_block_is_named(tmp_path, content):
    (tmp_path / "table1.json").write_text(content)
    with pytest.raises(MacridError, match=r"table1\.json"):
        write_report(tmp_path, tmp_path / "results.md")


@pytest.mark.slow
def test_the_results_page_is_generated_from_the_stored_numbers():
    page, _, rest = (DOCS / "results.md").read_text(encoding="utf-8").partition(quality_report.BEGIN)
    assert page.rstrip() == report(read_blocks(DOCS / "results"), "results").rstrip()
    measured = quality.done(quality.RESULTS)
    assert rest.partition(quality_report.END)[0].strip() == quality_report.results(measured).strip()
    assert quality_report.concepts(measured).strip() in (DOCS / "disentanglement.md").read_text(encoding="utf-8")
