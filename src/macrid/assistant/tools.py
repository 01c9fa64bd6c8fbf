"""The tools: what an assistant may ask, with descriptions written for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from macrid.assistant import shapes
from macrid.assistant.desk import MOST_ITEMS, Desk, Reply
from macrid.assistant.texts import one_line
from macrid.errors import MacridError
from macrid.models.base import Recommender
from macrid.version import __version__

INSTRUCTIONS = """\
Recommends items of one catalogue from what a person likes, and changes recommendations as they wish.
Items are named by title or id. If an answer has a `question`, ask the person, then call again with the title or id.
Use steer_in_words for wishes such as "something like Alien, but lighter"; recommend for a plain list; where conditions
such as price < 30 and genres = 'Comedy' filter lists. Call concepts first to learn what the catalogue knows."""

Title = Annotated[str, Field(description="A title or an id.", max_length=1000)]
Titles = Annotated[list[Title], Field(max_length=1000)]
Likes = Annotated[list[Title], Field(description="Titles or ids of items the person likes.", max_length=1000)]
Count = Annotated[int, Field(description="How many items.", ge=1, le=MOST_ITEMS)]
Where = Annotated[
    str | None,
    Field(
        description="Only items that meet this condition: price < 30 and genres = 'Comedy'. Comparisons: = != < <= > >="
        ", in (…), contains, is missing; joined by and, or, not. Text in single quotes. `concepts` has the attributes."
    ),
]
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


class Server(MCPServer[Any]):
    """Errors are one line, whatever their cause."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                first = cause.errors()[0]
                place = ".".join(map(str, first["loc"]))
                raise ToolError(one_line(f"{place}: {first['msg']}")) from None
            if isinstance(cause, ToolError):
                raise ToolError(str(cause)) from None
            raise


def server_of(model: Recommender, name: str) -> Server:
    """A server with all tools for a model; name: of the run."""
    desk = Desk(model)
    server = Server(
        "macrid", title=f"macrid: {name}", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR"
    )

    def search(
        query: Annotated[
            str, Field(description="Words of a title, with or without typos; empty lists what is popular.")
        ],
        n: Count = 10,
        where: Where = None,
    ) -> Annotated[CallToolResult, shapes.Found]:
        """Find items by title or attributes. Tolerates typos; exact matches first, then the more popular."""
        return _result(desk.search, query, n, where)

    def recommend(
        likes: Likes,
        n: Count = 10,
        where: Where = None,
        exclude: Annotated[Titles, Field(description="Titles or ids of items to leave out.")] = [],  # noqa: B006
    ) -> Annotated[CallToolResult, shapes.Items]:
        """Recommend items to somebody who likes these. Without likes, the list suits people in general."""
        return _result(desk.recommend, likes, n, where, exclude)

    def steer_in_words(
        wish: Annotated[
            str,
            Field(
                description="In plain English, wishes separated by commas: 'something like Alien, but lighter',"
                " 'more sci-fi, less horror, newer', 'no westerns, from the 90s, under 30 euros'."
            ),
        ],
        likes: Likes = [],  # noqa: B006
        n: Count = 10,
    ) -> Annotated[CallToolResult, shapes.Steered]:
        """Recommend as somebody wishes in words, and say how each part of the wish was understood."""
        return _result(desk.steer_in_words, wish, likes, n)

    def explain(
        items: Annotated[Titles, Field(description="Titles or ids of items to explain.")], likes: Likes
    ) -> Annotated[CallToolResult, shapes.Explained]:
        """Say why items are recommended to somebody: which liked items raised their scores, and by which concept."""
        return _result(desk.explain, items, likes)

    def similar(item: Title, n: Count = 10, where: Where = None) -> Annotated[CallToolResult, shapes.Items]:
        """List items that people treat like this one."""
        return _result(desk.similar, item, n, where)

    def variations(
        item: Title,
        along: Annotated[
            str, Field(description="A dimension of the item's concept, such as size, price or year; see `concepts`.")
        ],
        steps: Annotated[int, Field(description="At most this many items.", ge=2, le=50)] = 8,
    ) -> Annotated[CallToolResult, shapes.Varied]:
        """Walk from an item along one dimension: items that differ in it and are otherwise as alike as possible."""
        return _result(desk.variations, item, along, steps)

    def concepts() -> Annotated[CallToolResult, shapes.Known]:
        """Say what the catalogue knows: concepts (groups of items), their knobs, and the attributes of items."""
        return _result(desk.concepts)

    for tool in (search, recommend, steer_in_words, explain, similar, variations, concepts):
        server.add_tool(tool, annotations=READS)
    return server


def _result(ask: Callable[..., Reply], *arguments: Any) -> CallToolResult:
    try:
        reply = ask(*arguments)
    except MacridError as error:
        raise ToolError(one_line(str(error))) from None
    content = reply.content.model_dump(mode="json")
    return CallToolResult(content=[TextContent(type="text", text=reply.text)], structured_content=content)
