"""Joins the servers of a configuration with fastmcp: `gateway.py CONFIG PORT`. One proxy for each server, mounted under its name."""

import json
import sys

from fastmcp import FastMCP
from fastmcp.server import create_proxy

with open(sys.argv[1], encoding="utf-8") as file:
    servers = json.load(file)["mcpServers"]
gateway = FastMCP("gateway")
for name, server in servers.items():
    gateway.mount(create_proxy({"mcpServers": {name: server}}), namespace=name)
gateway.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="error")
