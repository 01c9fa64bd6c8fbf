from pathlib import Path

import pytest

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
    missing={"netflix": "netflix: missing mv.tar in $MACRID_DATA/netflix; it cannot be downloaded without you"},
)


def test_the_mean_over_seeds_stands_beside_the_papers_figure_and_the_best_is_bold():
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
    assert "every pair of items: 20 times the size of MacridVAE here." in text
    assert "it has the better NDCG@100" not in text


def test_a_table_of_which_all_data_is_missing_is_reported_as_such(tmp_path):
    text = report({"table1": {**TABLE, "rows": []}}, "results")
    assert "**netflix: left out.**" in text
    assert "Tuned settings" not in text
    assert "seeds" not in text


def test_a_missing_data_set_is_named_with_its_file():
    text = report({"table1": TABLE}, "results")
    assert "**netflix: left out.** netflix: missing mv.tar in $MACRID_DATA/netflix; it cannot be downloaded" in text


def test_quick_results_say_that_they_mean_little():
    assert "the numbers mean little" in report({"table1": {**TABLE, "quick": True}}, "results")
    assert "the numbers mean little" not in report({"table1": TABLE}, "results")


def test_every_seed_of_figure_2_is_shown_and_collapse_is_told_as_it_was_found():
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


def test_what_the_paper_says_of_figure_4_is_held_against_the_numbers():
    def points(shift, slope):
        xs = (0.5 + shift, 0.7 + shift, 0.9 + shift)
        return [{"independence": x, "independence_per_concept": x, "ndcg@100": 0.1 + slope * x} for x in xs]

    def told(**points):
        own = {name.replace("_", "-"): found for name, found in points.items()}
        return report({"figure4": block("figure4", data="d", configurations=3, points=own)}, "p")

    agrees = told(macridvae_7=points(0.05, 0.4), macridvae_1=points(0, 0.3), multvae=points(0, 0.2))
    assert "The first holds for all three methods here. The second holds for accuracy, taking medians (.400" in agrees
    assert "and holds for independence (.750 against .700)" in agrees
    other = told(macridvae_7=points(0, 0.1), macridvae_1=points(0.05, 0.3), multvae=points(0, -0.1))
    assert "The first does not hold for all here. The second does not hold for accuracy" in other
    assert "and does not hold for independence (.700 against .750); the best model with K = 7" in other


def test_a_method_of_which_every_configuration_diverged_is_told():
    points = [{"independence": 0.5, "independence_per_concept": 0.5, "ndcg@100": x} for x in (0.1, 0.2, 0.3)]
    own = {"macridvae-7": points, "macridvae-1": [], "multvae": points}
    text = report({"figure4": block("figure4", data="d", configurations=3, points=own)}, "p")
    assert "| MacridVAE, K = 1 | all diverged |" in text
    assert "nan" not in text  # a rank correlation with a constant is left out


def test_sentences_hold_for_the_numbers_at_hand():
    few = {**TABLE, "rows": [dict(one, runs=[dict(run, users=49) for run in one["runs"]]) for one in TABLE["rows"]]}
    assert "ml-1m has 49 test users" in report({"table1": few}, "results")
    assert "test users*" not in report({"table1": TABLE}, "results")
    other = {**TABLE, "trials": 5}
    assert "Found by `macrid tune` with `--trials`" in report({"table1": other}, "results")
    assert "study ml-1m-macridvae, 200 trials" in report({"table1": TABLE}, "results")


def test_it_is_told_where_the_order_of_the_paper_holds_and_where_not():
    text = report({"table1": TABLE}, "results")
    assert "MacridVAE is ahead of MultDAE and β-MultVAE in every metric. So it is in the paper on ml-1m." in text
    rows = [dict(one, data="ml-20m") for one in TABLE["rows"]]  # where the paper's MultDAE has the better Recall@50
    text = report({"table1": {**TABLE, "rows": rows}}, "results")
    assert "On ml-20m MacridVAE is ahead of MultDAE and β-MultVAE in every metric." in text
    assert "So it is in the paper" not in text
    other = {**TABLE, "rows": [*TABLE["rows"][:2], row("ml-1m", "multdae", 0.4412), *TABLE["rows"][3:]]}
    other["rows"][1] = row("ml-1m", "ease", 0.5)
    text = report({"table1": other}, "results")
    assert "On ml-1m it has the better NDCG@100." in text
    assert "On ml-1m it is not everywhere: in NDCG@100 MultDAE is ahead by .0012 (a standard error is .010)" in text


@pytest.mark.parametrize("content", ["{", "{}", "[]", "3"])
def test_a_damaged_block_is_named(tmp_path, content):
    (tmp_path / "table1.json").write_text(content)
    with pytest.raises(MacridError, match=r"table1.json: damaged .*; run that block again"):
        write_report(tmp_path, tmp_path / "results.md")


def test_the_page_of_results_is_generated_from_the_numbers_beside_it():
    assert (DOCS / "results.md").read_text(encoding="utf-8") == report(read_blocks(DOCS / "results"), "results")
