"""A small thesaurus: what comparisons and moods mean in terms of columns and values that items may have.

Words and names are compared as `macrid.control.vocabulary.key_of` writes them: in lower case, in the singular and
without spaces, so "Sci-Fi" is "scifi" and "release_date" is "releasedate".
"""

from __future__ import annotations

from dataclasses import dataclass

# Names that columns of numbers may have; the first that exists is meant.
YEAR = ("year", "releaseyear", "releasedate", "release", "released", "date", "published", "publicationyear",
        "publicationdate", "season")  # fmt: skip
PRICE = ("price", "cost", "saleprice", "listprice", "retailprice", "unitprice")
LENGTH = ("runtime", "duration", "length", "minute", "playingtime", "page", "pagecount")
SIZE = ("size", "volume", "area", "width", "height")
WEIGHT = ("weight", "mass")
RATING = ("rating", "averagerating", "meanrating", "score", "star")


@dataclass(frozen=True)
class Scale:
    """A number that items may have."""

    columns: tuple[str, ...]
    """Names it may have; the first that exists is meant."""
    more: tuple[str, ...]
    less: tuple[str, ...]


@dataclass(frozen=True)
class Mood:
    """Values that become more or less frequent; those that no item has are left out."""

    words: tuple[str, ...]
    more: tuple[str, ...]
    less: tuple[str, ...] = ()


def _scale(columns: tuple[str, ...] | str, more: str, less: str) -> Scale:
    return Scale((columns,) if isinstance(columns, str) else columns, tuple(more.split()), tuple(less.split()))


def _mood(words: str, more: str, less: str = "") -> Mood:
    return Mood(tuple(words.split()), tuple(more.split()), tuple(less.split()))


SCALES = (
    _scale(
        YEAR, "newer new recent modern later latest contemporary current", "older old earlier classic vintage retro"
    ),
    _scale(
        PRICE,
        "pricier dearer expensive costlier costly luxury luxurious",
        "cheaper cheap affordable inexpensive budget",
    ),
    _scale(SIZE, "larger bigger large big huge", "smaller small little tiny compact"),
    _scale(LENGTH, "longer long lengthy", "shorter short brief"),
    _scale(WEIGHT, "heavier heavy", "lighter light lightweight"),
    _scale(("brightness", "lightness", "luminance"), "brighter bright lighter light", "darker dark dimmer dim"),
    _scale(
        "popularity", "popular mainstream famous wellknown bestseller", "niche obscure unknown unusual rare hiddengem"
    ),
    _scale(RATING, "better acclaimed toprated", "worse"),
    _scale("coolness", "cooler colder", "warmer hotter"),
    _scale(("speed", "tempo", "bpm", "pace"), "faster quicker fast", "slower slow"),
    _scale(("strength", "power"), "stronger strong", "weaker milder mild"),
)
MOODS = (
    _mood("lighter light lighthearted cheerful happier happy upbeat feelgood", "comedy animation children musical",
          "horror thriller war crime filmnoir"),
    _mood("darker dark bleaker bleak grim gritty", "thriller crime horror filmnoir",
          "comedy children animation musical"),
    _mood("funnier funny amusing humorous humor humour fun laugh hilarious", "comedy"),
    _mood("scarier scary frightening creepier creepy spooky", "horror"),
    _mood("sadder sad serious moving emotional deeper deep", "drama", "comedy"),
    _mood("romantic love lovestory", "romance"),
    _mood("romcom romanticcomedy", "romance comedy"),
    _mood("exciting thrilling suspenseful tense suspense", "thriller action"),
    _mood("calmer calm quieter quiet gentler gentle relaxing", "", "action thriller horror war"),
    _mood("violent bloody brutal", "action war crime horror"),
    _mood("familyfriendly family kid kidfriendly forchildren forkid child", "children animation", "horror thriller"),
    _mood("animated cartoon", "animation"),
    _mood("factual true real truestory", "documentary"),
    _mood("sciencefiction sf futuristic space", "scifi"),
    _mood("noir", "filmnoir"),
    _mood("magical", "fantasy"),
    _mood("mysterious whodunit", "mystery"),
    _mood("cowboy", "western"),
    _mood("colorful colourful bolder bold", "patterned striped dotted"),
    _mood("plainer simpler simple plain minimalist", "plain", "patterned striped dotted"),
)  # fmt: skip
DEGREES = {  # how far a move goes, in halves of the range of real users
    "a little bit": 0.3, "a bit": 0.3, "a little": 0.3, "a touch": 0.3, "a tad": 0.3, "slightly": 0.3, "somewhat": 0.3,
    "much": 1.0, "far": 1.0, "a lot": 1.0, "lots": 1.0, "way": 1.0, "very": 1.0, "really": 1.0, "extremely": 1.0,
    "as much as possible": 1.5,
}  # fmt: skip
PLAIN = 0.6  # the degree of a plain "more" or "newer"
MORE = ("more", "additional", "extra", "increase", "plenty of", "lots of")
LESS = (
    "less",
    "fewer",
    "not too",
    "not so",
    "not as",
    "not that",
    "reduce",
    "isn't too",
    "least",
    "than",
    "rather than",
)
NEVER = ("no", "not", "without", "never", "exclude", "excluding", "except", "nothing", "avoid", "don't want",
         "do not want", "no more", "not any", "isn't", "hide")  # fmt: skip
ONLY = ("only", "just", "must be", "has to be", "strictly", "exclusively")
SHARES = {"more": 0.5, "less": 0.1, "never": 0.0, "only": 1.0}  # of a list, for a concept
_IGNORED = """
    a about again all also am an and any anything are as at be been bit but can could do feel feeling film films find
    for from get give good great have i i'd i'll i'm if in is it item items its kind less like list little look looking
    make maybe me mood more movie movies much my of on one or perhaps please prefer product products recommend
    recommendation recommendations s should show some something sort stuff suggest t thanks that the them then there
    these thing things this though to today tonight too type want watch we what which will wish with would you your
"""
IGNORED = frozenset(_IGNORED.split())
