"""The official Python SDK's client as it was before the modern era, `mcp.ClientSession` of `mcp` 1, against
`mcpjoin serve demo --full`; the checks are in `demo.py`.

Version 1 is not in the environment beside the newest one, but in a folder of its own.
"""

import asyncio
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "venv/mcp-1"))

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

import demo
from demo import plain


class Session:
    # BaseSession.send_request in mcp/shared/session.py sends nothing when it is cancelled, and nothing public says under
    # which id a request went.
    cancels = False

    def __init__(self, session, opened, updates):
        self.session, self.updates = session, updates
        self.version = opened.protocolVersion
        self.server_name = opened.serverInfo.name
        self.instructions = opened.instructions
        self.capabilities = plain(opened.capabilities)

    async def call(self, name, arguments=None, progress=None):
        return plain(await self.session.call_tool(name, arguments, progress_callback=progress))

    async def tools(self):
        return await every(self.session.list_tools, "tools")

    async def resources(self):
        return await every(self.session.list_resources, "resources")

    async def templates(self):
        return await every(self.session.list_resource_templates, "resourceTemplates")

    async def prompts(self):
        return await every(self.session.list_prompts, "prompts")

    async def read(self, uri):
        return plain(await self.session.read_resource(AnyUrl(uri)))["contents"]

    async def prompt(self, name, arguments):
        return plain(await self.session.get_prompt(name, arguments))["messages"]

    async def refusal(self, answer):
        try:
            raise demo.Wrong(f"no error, but {await answer}")
        except McpError as error:
            return error.error.code, error.error.data

    async def complete_prompt(self, name, argument, value):
        return await self.complete(types.PromptReference(type="ref/prompt", name=name), argument, value)

    async def complete_template(self, uri, argument, value):
        reference = types.ResourceTemplateReference(type="ref/resource", uri=uri)
        return await self.complete(reference, argument, value)

    async def complete(self, reference, argument, value):
        result = await self.session.complete(reference, {"name": argument, "value": value})
        return result.completion.values

    @asynccontextmanager
    async def watch(self, uri):
        await self.session.subscribe_resource(AnyUrl(uri))
        yield self
        await self.session.unsubscribe_resource(AnyUrl(uri))

    async def updated(self):
        return await self.updates.get()


async def every(method, member):
    found, cursor = [], None
    while True:
        page = await method(params=types.PaginatedRequestParams(cursor=cursor))
        found += plain(page)[member]
        cursor = page.nextCursor
        if cursor is None:
            return found


class Peer:
    def __init__(self, era, server):
        if era == "modern":
            sys.exit("mcp 1 has no modern era")
        self.server = server

    def transport(self):
        if self.server.words:
            return stdio_client(StdioServerParameters(command=self.server.words[0], args=self.server.words[1:]))
        return (sse_client if self.server.sse else streamable_http_client)(self.server.url)

    @asynccontextmanager
    async def open(self, sampling=None, elicitation=None, roots=None):
        updates = asyncio.Queue()

        async def message(message):
            if isinstance(message, types.ServerNotification):
                if isinstance(message.root, types.ResourceUpdatedNotification):
                    updates.put_nowait(str(message.root.params.uri))

        async def sample(context, params):
            messages = [plain(message) for message in params.messages]
            answer = types.TextContent(type="text", text=await sampling(messages, params.maxTokens))
            return types.CreateMessageResult(role="assistant", content=answer, model="none")

        async def elicit(context, params):
            action, content = await elicitation(params.message, params.requestedSchema)
            return types.ElicitResult(action=action, content=content)

        async def list_roots(context):
            return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in roots])

        # Over Streamable HTTP there is a third thing: what gives the session's id.
        async with self.transport() as (read, write, *_):
            session = ClientSession(
                read,
                write,
                message_handler=message,
                sampling_callback=sampling and sample,
                elicitation_callback=elicitation and elicit,
                list_roots_callback=roots and list_roots,
            )
            async with session:
                yield Session(session, await session.initialize(), updates)


demo.run(version("mcp"), Peer)
