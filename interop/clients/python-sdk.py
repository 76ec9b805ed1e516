"""The official Python SDK's client, `mcp.Client`, against `mcpjoin serve demo --full`; the checks are in `demo.py`.

In the modern era it is left to find the era by itself, as it does by default.
"""

import asyncio
import warnings
from contextlib import asynccontextmanager
from importlib.metadata import version

import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPDeprecationWarning

import demo
from demo import plain

# The legacy era is deprecated to this client's authors.
warnings.simplefilter("ignore", MCPDeprecationWarning)


class Session:
    cancels = True

    def __init__(self, client, updates):
        self.client, self.updates = client, updates
        self.version = client.protocol_version
        self.server_name = client.server_info and client.server_info.name
        self.instructions = client.instructions
        self.capabilities = plain(client.server_capabilities)

    async def call(self, name, arguments=None, progress=None):
        return plain(await self.client.call_tool(name, arguments, progress_callback=progress))

    async def tools(self):
        return await every(self.client.list_tools, "tools")

    async def resources(self):
        return await every(self.client.list_resources, "resources")

    async def templates(self):
        return await every(self.client.list_resource_templates, "resourceTemplates")

    async def prompts(self):
        return await every(self.client.list_prompts, "prompts")

    async def read(self, uri):
        return plain(await self.client.read_resource(uri))["contents"]

    async def prompt(self, name, arguments):
        return plain(await self.client.get_prompt(name, arguments))["messages"]

    async def refusal(self, answer):
        try:
            raise demo.Wrong(f"no error, but {await answer}")
        except MCPError as error:
            return error.error.code, error.error.data

    async def complete_prompt(self, name, argument, value):
        reference = types.PromptReference(type="ref/prompt", name=name)
        return await self.complete(reference, argument, value)

    async def complete_template(self, uri, argument, value):
        reference = types.ResourceTemplateReference(type="ref/resource", uri=uri)
        return await self.complete(reference, argument, value)

    async def complete(self, reference, argument, value):
        result = await self.client.complete(reference, {"name": argument, "value": value})
        return result.completion.values

    @asynccontextmanager
    async def watch(self, uri):
        if self.version == demo.MODERN:
            async with self.client.listen(resource_subscriptions=[uri]) as subscription:
                yield Listening(subscription)
        else:
            await self.client.subscribe_resource(uri)
            yield self
            await self.client.unsubscribe_resource(uri)

    async def updated(self):
        return await self.updates.get()


class Listening:
    def __init__(self, subscription):
        self.subscription = subscription

    async def updated(self):
        return (await anext(self.subscription)).uri


async def every(method, member):
    found, cursor = [], None
    while True:
        page = await method(cursor=cursor)
        found += plain(page)[member]
        cursor = page.next_cursor
        if cursor is None:
            return found


class Peer:
    def __init__(self, era, server):
        self.mode = "auto" if era == "modern" else "legacy"
        self.server = server

    def where(self):
        if self.server.words:
            return StdioServerParameters(command=self.server.words[0], args=self.server.words[1:])
        # Alone, an address is one of Streamable HTTP.
        return sse_client(self.server.url) if self.server.sse else self.server.url

    @asynccontextmanager
    async def open(self, sampling=None, elicitation=None, roots=None):
        updates = asyncio.Queue()

        async def message(message):
            if isinstance(message, types.ResourceUpdatedNotification):
                updates.put_nowait(message.params.uri)

        async def sample(context, params):
            messages = [plain(message) for message in params.messages]
            answer = types.TextContent(type="text", text=await sampling(messages, params.max_tokens))
            return types.CreateMessageResult(role="assistant", content=answer, model="none")

        async def elicit(context, params):
            action, content = await elicitation(params.message, params.requested_schema)
            return types.ElicitResult(action=action, content=content)

        async def list_roots(context):
            return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in roots])

        client = Client(
            self.where(),
            mode=self.mode,
            message_handler=message,
            sampling_callback=sampling and sample,
            elicitation_callback=elicitation and elicit,
            list_roots_callback=roots and list_roots,
        )
        async with client:
            yield Session(client, updates)


demo.run(version("mcp"), Peer)
