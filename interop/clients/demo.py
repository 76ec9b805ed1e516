"""The checks of a Python client against `mcpjoin serve demo --full`, once for all of them.

Used by the scripts beside it, each of which fits one client in: `run` opens the server through it, a fresh session for
each check, and prints what became of the check (`interop/src/client.rs` says how a script is started and what it prints,
and what is seen from outside besides). Whatever is not as it should be is a `Wrong` that says what was seen.
"""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path

import anyio
from exceptiongroup import BaseExceptionGroup

from account import account

LEGACY = "2025-11-25"
MODERN = "2026-07-28"

# How long a check may take, in seconds: far more than any does on a busy machine, and less than `fifty` would take if
# its calls came one after the other.
LIMIT = 40

# What the server has.
DEMO = json.loads(Path(os.environ.get("MCPJOIN_INTEROP_DEMO", Path(__file__).parent / "demo.json")).read_text())
PICTURE = DEMO["picture"]
SOUND = DEMO["sound"]
WATCHED = "test://watched-resource"


class Wrong(Exception):
    """Something is not as it should be."""


class Cannot(Exception):
    """The client has no such feature."""


def equal(what, seen, expected):
    if seen != expected:
        raise Wrong(f"{what}: {json.dumps(seen, default=str)} instead of {json.dumps(expected)}")


class Complaints(logging.Handler):
    """What the client and what it builds on have complained of: they log what they make nothing of, and go on."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        self.said.append(f"{record.name}: {record.getMessage()}")

    def take(self):
        said, self.said = self.said, []
        return said


def plain(model):
    """What the client gives, as it would stand on the wire: with the members that were there, and no other."""
    return model.model_dump(by_alias=True, mode="json", exclude_unset=True)


def text(result):
    """The only text of a call that went well."""
    contents = result["content"]
    if result.get("isError") or len(contents) != 1 or contents[0]["type"] != "text":
        raise Wrong(f"no text alone: {result}")
    return contents[0]["text"]


class Checks:
    """`peer` opens a session of the client: `peer.open(sampling=, elicitation=, roots=)`, each of them what answers the
    server's question, or None for a user who does not. What the session gives and takes is `plain`."""

    def __init__(self, peer, era):
        self.peer, self.era = peer, era

    async def open(self):
        async with self.peer.open() as session:
            equal("the version", session.version, MODERN if self.era == "modern" else LEGACY)
            equal("the server", session.server_name, DEMO["name"])
            if not session.instructions.startswith(DEMO["instructions"]):
                raise Wrong(f"the instructions: {session.instructions}")
            for capability in ["completions", "prompts", "resources", "tools"]:
                if capability not in session.capabilities:
                    raise Wrong(f"{capability} is not among {session.capabilities}")

    async def list(self):
        async with self.peer.open() as session:
            tools = await session.tools()
        equal("the names", [tool["name"] for tool in tools], DEMO["tools"])
        by_name = {tool["name"]: tool for tool in tools}
        equal("a schema", by_name[DEMO["schema"]["of"]]["inputSchema"], DEMO["schema"]["is"])
        equal("annotations", by_name["echo"]["annotations"], {"readOnlyHint": True})
        equal("a schema of results", by_name["add"]["outputSchema"]["required"], ["sum"])
        equal("tools without one", "outputSchema" in by_name["echo"], False)

    async def content(self):
        picture = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
        alone = {
            "test_simple_text": {"type": "text", "text": "This is a simple text response for testing."},
            "test_image_content": picture,
            "test_audio_content": {"type": "audio", "data": SOUND, "mimeType": "audio/wav"},
            "test_resource_link": {
                "type": "resource_link",
                "uri": "test://static-text",
                "name": "static-text",
                "mimeType": "text/plain",
            },
            "test_embedded_resource": {
                "type": "resource",
                "resource": {
                    "uri": "test://embedded-resource",
                    "mimeType": "text/plain",
                    "text": "This is an embedded resource content.",
                },
            },
        }
        async with self.peer.open() as session:
            for name, expected in alone.items():
                result = await session.call(name)
                equal(name, result["content"], [expected])
                equal(f"isError of {name}", result.get("isError", False), False)
            result = await session.call("test_multiple_content_types")
            kinds = [content["type"] for content in result["content"]]
            equal("the kinds together", kinds, ["text", "image", "resource"])
            equal("the picture among others", result["content"][1], picture)
            result = await session.call("add", {"a": 2, "b": 3.5})
            equal("the structured content", result["structuredContent"], {"sum": 5.5})
            equal("the same as a text", json.loads(text(result)), {"sum": 5.5})
            result = await session.call("test_error_handling")
            equal("isError", result["isError"], True)
            why = "This tool intentionally returns an error for testing"
            equal("the error", result["content"][0], {"type": "text", "text": why})
            for name in DEMO["echoes"]:
                result = await session.call(name, {"message": "\U0001f600 \u2028 \"'\\ \x7f"})
                equal(f"what is not ASCII, of {name}", text(result), "\U0001f600 \u2028 \"'\\ \x7f")
            code, _ = await session.refusal(session.call("absent"))
            equal("what a tool that is not there comes to", code, -32602)

    async def progress(self):
        seen = []

        async def progress(progress, total, message):
            seen.append([progress, total, message])

        async with self.peer.open() as session:
            result = await session.call("test_tool_with_progress", progress=progress)
            equal("the result", text(result), "Tool with progress executed successfully")
            steps = [[0, 100, "Begun"], [50, 100, "Half done"], [100, 100, "Done"]]
            await until(lambda: len(seen) >= len(steps))
            equal("the progress", seen, steps)

    async def cancel(self):
        async with self.peer.open() as session:

            async def running(wanted):
                while await computations() != wanted:
                    await asyncio.sleep(0.02)

            async def computations():
                return (await session.call("running_computations"))["structuredContent"]["running"]

            seconds = 600 if session.cancels else 5
            call = asyncio.create_task(session.call("slow_compute", {"seconds": seconds}))
            await running(1)
            call.cancel()
            try:
                raise Wrong(f"the call that was cancelled gave {await call}")
            except asyncio.CancelledError:
                pass
            if not session.cancels:
                # The server would have heard of it before this.
                equal("what goes on", await computations(), 1)
            await running(0)
            # Once more through each of two bridges: one of them may send a late response to the call. If it came while the session
            # closes, the SDK (2.3) would raise an error.
            await computations()
            await computations()
        if not session.cancels:
            raise Cannot("the server is not told of a call that is given up, and goes on with it")

    async def sampling(self):
        asked = []

        async def sampling(messages, max_tokens):
            asked.append((messages, max_tokens))
            return "Paris"

        async with self.peer.open(sampling=sampling) as session:
            result = await session.call("test_sampling", {"prompt": "The capital?"})
            equal("the result", text(result), "LLM response: Paris")
            said = [{"role": "user", "content": {"type": "text", "text": "The capital?"}}]
            equal("the question", asked, [(said, 100)])
            result = await session.call("test_input_required_result_sampling")
            equal("the result of a question with a name", text(result), "The model says: Paris")
            equal("what a client with a model is told", text(await session.call("test_missing_capability")),
                  "This client has a model")

    async def elicitation(self):
        asked = []
        answers = {
            "Who are you?": {"username": "ada", "email": "ada@example.org"},
            "Is this right?": {
                "name": "Ada", "age": 36, "score": 99.5, "status": "pending", "verified": False,
            },
            "What will it be?": {
                "untitledSingle": "option2",
                "titledSingle": "value1",
                "legacyEnum": "opt3",
                "untitledMulti": ["option1", "option3"],
                "titledMulti": ["value2"],
            },
            "What is your name?": {"name": "Ada"},
            "Please confirm": {"ok": True},
            "Step 1: What is your name?": {"name": "Ada"},
            "Step 2: What is your favorite color?": {"color": "blue"},
        }

        async def elicitation(message, schema):
            if not message.startswith(DEMO["question"]):
                raise Wrong(f"the question: {message}")
            message = message.removeprefix(DEMO["question"])
            asked.append((message, schema))
            if message == "No?":
                return "decline", None
            return "accept", answers[message]

        async def completed(session, tool, message):
            result = text(await session.call(tool))
            prefix = "Elicitation completed: action=accept, content="
            if not result.startswith(prefix):
                raise Wrong(f"{tool}: {result}")
            equal(f"what {tool} was told", json.loads(result.removeprefix(prefix)), answers[message])
            return asked[-1][1]["properties"]

        async with self.peer.open(elicitation=elicitation) as session:
            result = text(await session.call("test_elicitation", {"message": "Who are you?"}))
            prefix = "User response: action: accept, content: "
            if not result.startswith(prefix):
                raise Wrong(f"test_elicitation: {result}")
            equal("the answer", json.loads(result.removeprefix(prefix)), answers["Who are you?"])
            schema = {
                "type": "object",
                "properties": {
                    "username": {"type": "string", "title": "Name"},
                    "email": {"type": "string", "title": "Address for mail", "format": "email"},
                },
                "required": ["username", "email"],
            }
            equal("the question", asked, [("Who are you?", schema)])
            result = text(await session.call("test_elicitation", {"message": "No?"}))
            equal("the answer no", result, "User response: action: decline, content: {}")

            form = await completed(session, "test_elicitation_sep1034_defaults", "Is this right?")
            defaults = {name: field["default"] for name, field in form.items()}
            expected = {"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True}
            equal("the defaults", defaults, expected)
            form = await completed(session, "test_elicitation_sep1330_enums", "What will it be?")
            option = {"const": "value1", "title": "First Option"}
            equal("a choice with titles", form["titledSingle"]["oneOf"][0], option)
            choice = {"const": "value2", "title": "Second Choice"}
            equal("several choices with titles", form["titledMulti"]["items"]["anyOf"][1], choice)
            await completed(session, "test_streaming_elicitation", "What is your name?")
            result = await session.call("test_input_required_result_multi_round")
            equal("two rounds", text(result), "Ada likes blue")
            result = await session.call("test_input_required_result_request_state")
            equal("a state that travels", text(result), "state-ok, and the user's answer is accept")

    async def roots(self):
        folders = ["file:///home/ada/engine", "file:///tmp/%C3%A9"]

        async def sampling(messages, max_tokens):
            return "Good morning"

        async def elicitation(message, schema):
            return "accept", {"name": "Ada"}

        async with self.peer.open(roots=folders) as session:
            result = await session.call("test_input_required_result_list_roots")
            equal("the roots", text(result), f"Roots: {', '.join(folders)}")
        async with self.peer.open(sampling=sampling, elicitation=elicitation, roots=folders) as session:
            result = await session.call("test_input_required_result_multiple_inputs")
            expected = f"Ada: Good morning. Roots: {', '.join(folders)}"
            equal("the roots among other questions", text(result), expected)

    async def resources(self):
        async with self.peer.open() as session:
            equal("the list", [resource["uri"] for resource in await session.resources()], DEMO["resources"])
            templates = [template["uriTemplate"] for template in await session.templates()]
            equal("the templates", templates, DEMO["resourceTemplates"])

            async def read(uri):
                contents = await session.read(uri)
                equal(f"the address of {uri}", [content["uri"] for content in contents], [uri])
                return contents[0]

            content = await read("test://static-text")
            equal("a text", content["text"], "This is the content of the static text resource.")
            content = await read("test://static-binary")
            equal("a blob", [content["blob"], content["mimeType"]], [PICTURE, "image/png"])
            content = await read("test://template/42/data")
            made = {"id": "42", "templateTest": True, "data": "Data for ID: 42"}
            equal("what a template makes", json.loads(content["text"]), made)
            code, data = await session.refusal(session.read("test://absent"))
            absent = -32602 if self.era == "modern" else -32002
            equal("what is not there", [code, data], [absent, {"uri": "test://absent"}])

            first = (await read(WATCHED))["text"]
            equal("what is watched", first, "Watched resource, version 1")
            # Behind two processes with a state each, the change happens in one of them.
            if not DEMO["isOneState"]:
                return
            async with session.watch(WATCHED) as watch:
                await session.call("test_trigger_resource_update")
                equal("the update", await watch.updated(), WATCHED)
                equal("after the update", (await read(WATCHED))["text"], "Watched resource, version 2")

    async def prompts(self):
        async def elicitation(message, schema):
            return "accept", {"context": "gardening"}

        async with self.peer.open(elicitation=elicitation) as session:
            equal("the list", [prompt["name"] for prompt in await session.prompts()], DEMO["prompts"])

            async def prompt(name, **arguments):
                messages = await session.prompt(name, arguments)
                equal(f"the roles in {name}", {message["role"] for message in messages}, {"user"})
                return [message["content"] for message in messages]

            contents = await prompt("test_simple_prompt")
            equal("a prompt", contents, [{"type": "text", "text": "This is a simple prompt for testing."}])
            contents = await prompt("test_prompt_with_arguments", arg1="one", arg2="two")
            equal("arguments", contents[0]["text"], "Prompt with arguments: arg1='one', arg2='two'")
            contents = await prompt("test_prompt_with_embedded_resource", resourceUri="test://given")
            equal("a resource in a prompt", contents[0]["resource"]["uri"], "test://given")
            contents = await prompt("test_prompt_with_image")
            equal("a picture in a prompt", contents[0]["data"], PICTURE)
            contents = await prompt("test_input_required_result_prompt")
            equal("a prompt that asks", contents[0]["text"], "A prompt for this context: gardening")

    async def completion(self):
        async with self.peer.open() as session:
            proposed = await session.complete_prompt("test_prompt_with_arguments", "arg1", "he")
            equal("for a prompt", proposed, ["hello", "help"])
            proposed = await session.complete_template("test://template/{id}/data", "id", "9")
            equal("for a template", proposed, ["9", *map(str, range(90, 100))])

    async def fifty(self):
        # One after the other, these would take 50 s.
        async with self.peer.open() as session:

            async def one(number):
                seen = set()

                async def progress(progress, total, message):
                    seen.add(message)

                label = f"number {number}"
                call = session.call("slow_compute", {"seconds": 1, "label": label}, progress=progress)
                equal("an answer", text(await call), f"{label} is there, after 1 s")
                await until(lambda: seen)
                equal("whose progress it is", seen, {label})

            await asyncio.gather(*map(one, range(50)))

    async def end(self):
        # How the server ends is seen from outside: this client ends it by force when it takes its time.
        async with self.peer.open() as session:
            equal("a call", text(await session.call("echo", {"message": "bye"})), "bye")


async def until(condition):
    """Callbacks of the client run in tasks of their own: waits for theirs."""
    while not condition():
        await asyncio.sleep(0.01)


def words_of(error):
    """What a failure says, in one line, out of whatever groups it is in."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(words_of(inner) for inner in error.exceptions))
    said = " ".join(str(error).split())
    return said if isinstance(error, (Wrong, Cannot)) else f"{type(error).__name__}: {said}"


CHECKS = [
    "open", "list", "content", "progress", "cancel", "sampling", "elicitation", "roots", "resources", "prompts",
    "completion", "fifty", "end",
]


async def outcome(check, complaints):
    complaints.take()
    try:
        with anyio.fail_after(LIMIT):
            await check()
        equal("what the client complains of", complaints.take(), [])
    except Cannot as error:
        return {"outcome": "cannot", "why": words_of(error)}
    except TimeoutError:
        return {"outcome": "fault", "why": f"not done in {LIMIT} s"}
    except Exception as error:
        return {"outcome": "fault", "why": words_of(error)}
    return {"outcome": "right"}


class Server:
    """Where the server is: `words` that start it, or `url` of one that listens, by HTTP+SSE if `sse`."""

    def __init__(self, words):
        self.words, self.url, self.sse = None, None, False
        match words:
            case ["--", _, *_]:
                self.words = words[1:]
            case [url] if "://" in url:
                self.sse = url.startswith("sse+")
                self.url = url.removeprefix("sse+")
            case _:
                sys.exit("usage: SCRIPT legacy|modern -- SERVER WORDS..., or SCRIPT legacy|modern URL")


def run(version, peer):
    """The script: `ERA [account] -- SERVER WORDS...`, or `ERA [account] URL`; `peer` makes a client from the era and the
    server."""
    era, *words = sys.argv[1:]
    if words[0] == "account":
        print(json.dumps(asyncio.run(account(peer(era, Server(words[1:])), era))))
        return
    server = Server(words)

    async def checks():
        complaints = Complaints()
        # The second keeps what it has to itself.
        for name in [None, "fastmcp"]:
            logging.getLogger(name).addHandler(complaints)
        print(json.dumps({"version": version}), flush=True)
        all_checks = Checks(peer(era, server), era)
        for name in CHECKS:
            print(json.dumps({"check": name, **await outcome(getattr(all_checks, name), complaints)}), flush=True)

    asyncio.run(checks())
