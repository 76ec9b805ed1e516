"""FastMCP's client, `fastmcp.Client`, against `mcpjoin serve demo --full`; the checks are in `demo.py`.

In the modern era it is left to find the era by itself, as it does by default. It builds on the official SDK, and gives
the session of that where it has no method of its own: for subscriptions.
"""

import asyncio
import warnings
from contextlib import asynccontextmanager
from importlib.metadata import version

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp import MCPError
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPDeprecationWarning

import demo
from demo import plain

# The legacy era is deprecated to the SDK's authors.
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
        result = await self.client.call_tool(name, arguments, progress_handler=progress, raise_on_error=False)
        return {
            "content": [plain(content) for content in result.content],
            "structuredContent": result.structured_content,
            "isError": result.is_error,
        }

    async def tools(self):
        return [plain(entry) for entry in await self.client.list_tools()]

    async def resources(self):
        return [plain(entry) for entry in await self.client.list_resources()]

    async def templates(self):
        return [plain(entry) for entry in await self.client.list_resource_templates()]

    async def prompts(self):
        return [plain(entry) for entry in await self.client.list_prompts()]

    async def read(self, uri):
        return [plain(content) for content in await self.client.read_resource(uri)]

    async def prompt(self, name, arguments):
        return plain(await self.client.get_prompt(name, arguments))["messages"]

    async def refusal(self, answer):
        try:
            raise demo.Wrong(f"no error, but {await answer}")
        except MCPError as error:
            return error.error.code, error.error.data

    async def complete_prompt(self, name, argument, value):
        reference = types.PromptReference(type="ref/prompt", name=name)
        return (await self.client.complete(reference, {"name": argument, "value": value})).values

    async def complete_template(self, uri, argument, value):
        reference = types.ResourceTemplateReference(type="ref/resource", uri=uri)
        return (await self.client.complete(reference, {"name": argument, "value": value})).values

    @asynccontextmanager
    async def watch(self, uri):
        if self.version == demo.MODERN:
            async with listen(self.client.session, resource_subscriptions=[uri]) as subscription:
                yield Listening(subscription)
        else:
            await self.client.session.subscribe_resource(uri)
            yield self
            await self.client.session.unsubscribe_resource(uri)

    async def updated(self):
        return await self.updates.get()


class Listening:
    def __init__(self, subscription):
        self.subscription = subscription

    async def updated(self):
        return (await anext(self.subscription)).uri


class Peer:
    def __init__(self, era, server):
        self.mode = "auto" if era == "modern" else "legacy"
        self.server = server

    def transport(self):
        if self.server.words:
            # Else it keeps the server when the session is over.
            return StdioTransport(self.server.words[0], self.server.words[1:], keep_alive=False)
        return (SSETransport if self.server.sse else StreamableHttpTransport)(self.server.url)

    @asynccontextmanager
    async def open(self, sampling=None, elicitation=None, roots=None):
        updates = asyncio.Queue()

        async def message(message):
            if isinstance(message, types.ResourceUpdatedNotification):
                updates.put_nowait(message.params.uri)

        async def sample(messages, params, context):
            return await sampling([plain(message) for message in messages], params.max_tokens)

        async def elicit(message, response_type, params, context):
            action, content = await elicitation(message, params.requested_schema)
            # As its users answer: with the class that it has made of the form.
            return ElicitResult(action=action, content=content and response_type(**content))

        client = Client(
            self.transport(),
            mode=self.mode,
            message_handler=message,
            sampling_handler=sampling and sample,
            elicitation_handler=elicitation and elicit,
            roots=roots,
        )
        async with client:
            yield Session(client, updates)


demo.run(version("fastmcp-slim"), Peer)
