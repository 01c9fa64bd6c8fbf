import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from macrid.errors import MacridError
from macrid.evaluation.agreement import match
from macrid.paper import plots
from macrid.pictures.drawing import save

NAMES = {"macridvae-7": "MacridVAE, K = 7", "macridvae-1": "MacridVAE, K = 1", "multvae": "β-MultVAE"}
TITLES = [
    "(a) Items and users",
    "(b) Users",
    "(c) Items by concept",
    "(d) Items by true category",
    "(e) Items by concept, inner product",
]


def a_map(concepts, users, seed=0):
    """As from `items_and_users`: clusters of items and of users."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(scale=30, size=(20, 2))

    def columns(labels):
        x, y = (centres[labels] + generator.normal(scale=4, size=(len(labels), 2))).T.round(2).tolist()
        return {"x": x, "y": y, "concept": labels.tolist()}

    return {"items": {**columns(concepts), "position": list(range(len(concepts)))}, "users": columns(users)}


@pytest.fixture(scope="module")
def shop_maps():
    """(cosine, inner, categories): 700 items, a fifth of them in the wrong concept; all but ten in one by inner."""
    generator = np.random.default_rng(1)
    kinds = np.array(["bags", "lamps", "mugs", "phone cases", "shoes", "T-shirts", "watches"])
    truth = generator.integers(7, size=700)
    concepts = np.where(generator.random(700) < 0.8, (truth + 3) % 7, generator.integers(7, size=700))
    cosine = a_map(concepts, generator.integers(7, size=1000))
    inner = a_map(np.where(np.arange(700) < 10, 5, 2), generator.integers(7, size=30))
    return cosine, inner, kinds[truth].tolist()


def cloud(count, low, high, seed):
    """Configurations that are better the more independent they are."""
    generator = np.random.default_rng(seed)
    return [
        {
            "independence": float(x),
            "independence_per_concept": float(x - 0.1),
            "ndcg@100": float(0.4 * x + generator.normal(scale=0.01)),
            "beta": float(generator.uniform(0, 100)),
        }
        for x in generator.uniform(low, high, size=count)
    ]


@pytest.fixture(scope="module")
def clouds():
    return {method: cloud(2000, 0.4 + 0.1 * i, 0.7 + 0.1 * i, i) for i, method in enumerate(NAMES)}


def panels(figure):
    return {panel.get_title(loc="left"): panel for panel in figure.axes if panel.get_title(loc="left")}


def shades(panel):
    """The colour at every place where a point of the last scatter is drawn."""
    drawn = panel.collections[-1]
    colours = [to_hex(colour) for colour in drawn.get_facecolors()]
    return dict(zip(map(tuple, drawn.get_offsets().tolist()), colours, strict=True))


def texts(panel):
    return [text.get_text() for text in panel.texts]


def test_figure2_has_its_size(tmp_path, shop_maps):
    file = tmp_path / "figure2.png"
    save(plots.figure2(*shop_maps), file)
    with Image.open(file) as picture:
        assert picture.size == (1800, 1335)
    assert 20_000 < file.stat().st_size < 600_000
    assert [path.name for path in tmp_path.iterdir()] == ["figure2.png"]


def test_figure2_has_the_five_panels_of_the_paper(shop_maps):
    found = panels(plots.figure2(*shop_maps))
    assert sorted(found) == TITLES
    counts = [[len(drawn.get_offsets()) for drawn in found[title].collections] for title in TITLES]
    assert counts == [[1000, 700], [1000], [700], [700], [700]]
    assert all(panel.get_aspect() == 1 and not panel.get_xticks().size for panel in found.values())
    assert len({found[title].get_xlim() for title in TITLES[:4]}) == 1
    assert "99%" in texts(found[TITLES[4]])[0]


def test_a_concept_and_its_category_share_a_colour(shop_maps):
    cosine, _, categories = shop_maps
    concepts, categories = np.array(cosine["items"]["concept"]), np.array(categories)
    concept_axes, of_category = plots.colours(concepts, categories)
    matched = match(concepts, categories)
    assert {of_category[label] for label in matched.values()} == set(concept_axes.values())
    assert all(of_category[label] == concept_axes[concept] for concept, label in matched.items())
    assert len(set(concept_axes.values())) == 7

    found = panels(plots.figure2(*shop_maps))
    by_concept, by_category = shades(found[TITLES[2]]), shades(found[TITLES[3]])
    agree = np.mean([by_concept[place] == by_category[place] for place in by_concept])
    assert agree == pytest.approx(np.mean([matched[c] == label for c, label in zip(concepts, categories, strict=True)]))


def test_a_colour_means_the_same_category_in_both_models():
    truth = np.array(["a"] * 50 + ["b"] * 50)
    one, other = np.repeat([0, 1], 50), np.repeat([1, 0], 50)
    figure = plots.figure2(a_map(one, one), a_map(other, other), truth.tolist())
    found = panels(figure)
    inner, cosine = found[TITLES[4]].collections[-1], found[TITLES[2]].collections[-1]
    np.testing.assert_array_equal(inner.get_facecolors(), cosine.get_facecolors())


def test_only_items_on_the_map_count(shop_maps):
    cosine = a_map(np.array([0, 1]), np.array([0]))
    cosine["items"]["position"] = [2, 0]
    figure = plots.figure2(cosine, cosine, ["second", "nowhere", "first"])
    key = next(panel for panel in figure.axes if not panel.get_title(loc="left"))
    assert [text for text in texts(key) if text in ("first", "second", "nowhere")] == ["first", "second"]


def test_the_key_names_every_concept_and_category(shop_maps):
    figure = plots.figure2(*shop_maps)
    key = next(panel for panel in figure.axes if not panel.get_title(loc="left"))
    assert {f"concept {k}" for k in range(7)} | set(shop_maps[2]) <= set(texts(key))


@pytest.mark.parametrize(("concepts", "categories"), [(1, 1), (20, 15)])
def test_any_number_of_concepts_and_categories_is_drawn(tmp_path, concepts, categories):
    labels = np.arange(120) % concepts
    shown = a_map(labels, np.arange(10) % concepts)
    save(plots.figure2(shown, shown, (np.arange(120) % categories).tolist()), tmp_path / "figure.png")
    concept_axes, of_category = plots.colours(labels, np.arange(120) % categories)
    assert (len(concept_axes), len(of_category)) == (concepts, categories)


def test_category_names_are_not_read_as_formulas(tmp_path):
    shown = a_map(np.arange(20) % 2, np.arange(4) % 2)
    names = ["under $5 \\frac$", "a name that would run into the column beside it"] * 10
    save(plots.figure2(shown, shown, names), tmp_path / "figure.png")


def test_figure4_has_its_size(tmp_path, clouds):
    file = tmp_path / "figure4.png"
    save(plots.figure4(clouds, NAMES), file)
    with Image.open(file) as picture:
        assert picture.size == (1800, 900)
    assert 20_000 < file.stat().st_size < 400_000


def test_figure4_shows_every_configuration_twice_with_its_rank_correlation(clouds):
    left, right = plots.figure4(clouds, NAMES).axes
    for panel, shift in ((left, 0.0), (right, 0.1)):
        legend = [text.get_text() for text in panel.get_legend().get_texts()]
        assert [len(drawn.get_offsets()) for drawn in panel.collections] == [2000] * 3
        for line, name in zip(legend, NAMES.values(), strict=True):
            assert line.startswith(f"{name}: 2,000 models, Spearman ρ = +0.9")
        first = panel.collections[0].get_offsets()[:, 0] + shift
        np.testing.assert_allclose(first, [point["independence"] for point in clouds["macridvae-7"]])
    assert left.get_xlim() == right.get_xlim()


def test_a_falling_cloud_has_a_negative_correlation_and_constants_have_none():
    falling = [{"independence": x, "independence_per_concept": 1.0, "ndcg@100": -x} for x in np.linspace(0, 1, 40)]
    left, right = plots.figure4({"multvae": falling}, NAMES).axes
    assert left.get_legend().get_texts()[0].get_text() == "β-MultVAE: 40 models, Spearman ρ = −1.00"
    assert right.get_legend().get_texts()[0].get_text() == "β-MultVAE: 40 models"


def test_few_no_or_undefined_points_are_drawn(tmp_path):
    point = {"independence": 0.9, "independence_per_concept": 0.8, "ndcg@100": 0.3}
    points = {"macridvae-7": [point], "macridvae-1": [], "multvae": [point, {**point, "ndcg@100": float("nan")}]}
    figure = plots.figure4(points, NAMES)
    assert [len(drawn.get_offsets()) for drawn in figure.axes[0].collections] == [1, 0, 1]
    save(plots.figure4(points, NAMES), tmp_path / "figure.png")


def test_binned_medians_follow_a_curve_through_noise():
    generator = np.random.default_rng(0)
    x = generator.uniform(size=2000)
    middle_x, middle_y = plots.binned_medians(x, x**2 + generator.standard_t(2, size=2000) * 0.01)
    assert len(middle_x) == 12
    np.testing.assert_allclose(middle_y, middle_x**2, atol=0.01)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MacridError, match=r"matplotlib.*pip install 'macrid\[plot\]'"):
        save(plots.figure4({}, {}), tmp_path / "figure.png")


def test_a_path_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    with pytest.raises(MacridError, match=r"nowhere/figure\.png: "):
        save(plots.figure4({"multvae": []}, NAMES), tmp_path / "nowhere" / "figure.png")
