"""A server on the official Python SDK that notifies its client and asks it, in both eras: SCRIPT stdio|http [mcpserver].

It is a low-level `Server`, which can declare everything that it does; with `mcpserver` it is a `MCPServer`, as most users
write one, with the first tools only. Each of the notifying servers has the same tools. Over HTTP it prints the address that
a client is given.
"""

import sys
import warnings

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning

# Log messages and what else is here of the legacy era are deprecated to the SDK's authors.
warnings.simplefilter("ignore", MCPDeprecationWarning)

MODERN = "2026-07-28"
RESOURCE = "test://counter"
TOOLS = ["change_tools", "update_resource", "log", "ask", "elicit"]
MESSAGE = "Who are you?"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def low_level():
    bus = InMemorySubscriptionBus()
    added = []
    subscribed = set()
    version = 0

    async def list_tools(context, params):
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in TOOLS + added]
        return types.ListToolsResult(tools=tools)

    async def call_tool(context, params):
        nonlocal version
        modern = context.protocol_version == MODERN
        match params.name:
            case "change_tools":
                added[:] = [] if added else ["added"]
                if modern:
                    await bus.publish(ToolsListChanged())
                else:
                    await context.session.send_tool_list_changed()
            case "update_resource":
                version += 1
                if modern:
                    await bus.publish(ResourceUpdated(uri=RESOURCE))
                elif RESOURCE in subscribed:
                    await context.session.send_resource_updated(RESOURCE)
            case "log":
                await context.session.send_log_message("warning", "It is hot", related_request_id=context.request_id)
            case "ask" if modern:
                if params.input_responses is None:
                    form = types.ElicitRequestFormParams(message=MESSAGE, requested_schema=SCHEMA)
                    return types.InputRequiredResult(input_requests={"user": types.ElicitRequest(params=form)})
                return greeting(params.input_responses["user"])
            case "ask" | "elicit":
                # With a request, which the SDK refuses in the modern era.
                answer = await context.session.elicit_form(MESSAGE, SCHEMA, related_request_id=context.request_id)
                return greeting(answer)
        return text("done")

    async def list_resources(context, params):
        return types.ListResourcesResult(resources=[types.Resource(uri=RESOURCE, name="counter")])

    async def read_resource(context, params):
        contents = types.TextResourceContents(uri=params.uri, text=f"version {version}")
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(context, params):
        subscribed.add(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(context, params):
        subscribed.discard(str(params.uri))
        return types.EmptyResult()

    async def set_level(context, params):
        # The SDK sends every message in the legacy era, whatever the level.
        return types.EmptyResult()

    return Server(
        "python-sdk-notifying",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=ListenHandler(bus),
        on_set_logging_level=set_level,
    )


def text(words):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)])


def greeting(answer):
    return text(f"Hello, {answer.content['name']}")


def high_level():
    server = MCPServer("python-sdk-mcpserver")

    def added() -> str:
        return "here"

    @server.tool()
    async def change_tools(context: Context) -> str:
        if any(tool.name == "added" for tool in await server.list_tools()):
            server.remove_tool("added")
        else:
            server.add_tool(added)
        if context.protocol_version == MODERN:
            await context.notify_tools_changed()
        else:
            await context.session.send_tool_list_changed()
        return "done"

    @server.tool()
    async def log(context: Context) -> str:
        await context.warning("It is hot")
        return "done"

    return server


class Listening(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"listening on http://127.0.0.1:{port}/mcp", flush=True)


async def on_stdio(server):
    async with stdio_server() as (read, write):
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        await server.run(read, write, options)


mode, *rest = sys.argv[1:]
server = high_level() if rest == ["mcpserver"] else low_level()
if mode == "http":
    app = server.streamable_http_app()
    Listening(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning")).run()
elif isinstance(server, MCPServer):
    server.run()
else:
    anyio.run(on_stdio, server)
