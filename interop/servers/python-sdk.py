"""A server on the official Python SDK, as its users write one: SCRIPT both|json|stateless|sse.

`both` has both eras, the legacy one with sessions; `json` answers there with one JSON body and no stream, `stateless` has
no sessions; `sse` is the transport of 2024-11-05. It listens on the port in the variable `PORT`, or on a free one, and
prints the address that a client is given.
"""

import os
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("python-sdk")


@server.tool()
def echo(message: str) -> str:
    return message


@server.tool()
def fail(message: str) -> str:
    raise ToolError(message)


@server.tool()
async def steps(message: str, context: Context) -> str:
    for progress in [1, 2, 3]:
        await context.report_progress(progress, 3)
    return message


if "COUNTED" in os.environ:

    @server.tool()
    def counted(message: str) -> str:
        with open(os.environ["COUNTED"], "a") as file:
            file.write(f"{message}\n")
        return message


class Listening(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"listening on http://127.0.0.1:{port}{path}", flush=True)


mode = sys.argv[1]
path = "/sse" if mode == "sse" else "/mcp"
if mode == "sse":
    app = server.sse_app()
else:
    app = server.streamable_http_app(json_response=mode == "json", stateless_http=mode == "stateless")
port = int(os.environ.get("PORT", 0))
# By itself it closes what is idle for five seconds, as much as a busy machine may let pass between two requests; one that is
# sent at that moment has no answer.
config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", timeout_keep_alive=3600)
Listening(config).run()
