"""A server on FastMCP, as its users write one, over Streamable HTTP in both eras.

Its tool `counted` appends its message to the file in the variable `COUNTED`. It listens on the port in the variable
`PORT`, and prints the address that a client is given.
"""

import os

import uvicorn
from fastmcp import FastMCP

server = FastMCP("fastmcp")


@server.tool
def echo(message: str) -> str:
    return message


@server.tool
def counted(message: str) -> str:
    with open(os.environ["COUNTED"], "a") as file:
        file.write(f"{message}\n")
    return message


class Listening(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"listening on http://127.0.0.1:{port}/mcp", flush=True)


port = int(os.environ.get("PORT", 0))
# By itself it closes what is idle for five seconds, as much as a busy machine may let pass between two requests; one that is
# sent at that moment has no answer.
config = uvicorn.Config(
    server.http_app(), host="127.0.0.1", port=port, log_level="warning", timeout_keep_alive=3600
)
Listening(config).run()
