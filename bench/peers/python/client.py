"""A client on the Python SDK, with the words and figures of ours-client:
python client.py DEPTH SECONDS PAYLOAD SERVER..."""

import json
import pathlib
import re
import sys
import time

import anyio
from mcp import Client, StdioServerParameters

DEPTH, SECONDS = int(sys.argv[1]), float(sys.argv[2])
MESSAGE = pathlib.Path(sys.argv[3]).read_text(encoding="utf-8")
SERVER = StdioServerParameters(command=sys.argv[4], args=sys.argv[5:])


async def calls(client, end):
    """Calls until the time is over; how long each took, in seconds."""
    times = []

    async def caller():
        while time.perf_counter() < end:
            called = time.perf_counter()
            result = await client.call_tool("echo", {"message": MESSAGE})
            assert len(result.content[0].text) == len(MESSAGE)
            times.append(time.perf_counter() - called)

    async with anyio.create_task_group() as group:
        for _ in range(DEPTH):
            group.start_soon(caller)
    return times


async def main():
    started = time.perf_counter()
    async with Client(SERVER, mode="legacy") as client:
        opened = time.perf_counter() - started
        await calls(client, time.perf_counter() + 0.4)
        used, began = time.process_time(), time.perf_counter()
        times = sorted(await calls(client, began + SECONDS))
        wall, cpu = time.perf_counter() - began, time.process_time() - used
        count = len(times)
        peak = re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())
        figures = {
            "calls": count,
            "per_second": count / wall,
            "p50_us": times[count // 2] * 1e6,
            "p99_us": times[int(count * 0.99)] * 1e6,
            "cpu_us": cpu * 1e6 / count,
            "peak_kib": int(peak[1]),
            "opened_ms": opened * 1e3,
        }
        print(json.dumps(figures), flush=True)


anyio.run(main)
