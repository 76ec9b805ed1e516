"""What a server gives to a Python client, as one account, for tests that hold one connection against another: what is in it
is the same for the same server, whatever way it came.

Used by demo.py, for the scripts beside it, and read by `interop/src/account.rs`; it judges nothing. It knows
`server-everything`, as npm publishes it.
"""

import base64
import json
import re

CALLS = [
    ("echo", {"message": 'a "b" \\ é 😀\n'}),
    ("get-sum", {"a": 2, "b": 40.5}),
    ("get-sum", {"a": "two"}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-resource-links", {"count": 4}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("get-tiny-image", {}),
    ("gzip-file-as-resource", {"name": "hello.gz", "data": "data:text/plain;base64,aGVsbG8="}),
    ("no-such-tool", {}),
    ("trigger-sampling-request", {"prompt": "What is 2 + 2?"}),
    ("trigger-elicitation-request", {}),
    ("get-roots-list", {}),
]

READS = [
    "demo://resource/dynamic/text/1",
    "demo://resource/dynamic/blob/2",
    "demo://resource/static/document/features.md",
    "demo://resource/session/hello.gz",
]

PROMPTS = [
    ("simple-prompt", None),
    ("args-prompt", {"city": "Zürich"}),
    ("completable-prompt", {"department": "Sales", "name": "David"}),
    ("resource-prompt", {"resourceType": "Text", "resourceId": "3"}),
]


def lasting(value, era):
    """The same without what is another one each time, and without the envelope of the modern era."""
    match value:
        case str():
            return re.sub(r"\b\d{1,2}:\d{2}:\d{2}\s[AP]M\b", "TIME", value)
        case list():
            return [lasting(entry, era) for entry in value]
        case {"blob": blob, **rest}:
            content = base64.b64decode(blob)
            blob = lasting(content.decode(), era) if b"created at" in content else blob
            return {"blob": blob, **lasting(rest, era)}
        case dict():
            envelope = ["resultType", "ttlMs", "cacheScope", "_meta"] if era == "modern" else []
            return {name: lasting(member, era) for name, member in value.items() if name not in envelope}
    return value


async def account(peer, era):
    """Opens a session and asks for everything. `peer` is as in demo.py."""
    asked = []

    async def sampling(messages, tokens):
        asked.append(["sampling", messages, tokens])
        return "4"

    async def elicitation(message, schema):
        asked.append(["elicitation", message, schema])
        return "accept", {"name": "Ada", "check": True, "integer": 7}

    async with peer.open(sampling=sampling, elicitation=elicitation, roots=["file:///home/ada"]) as session:
        told = {
            "server": session.server_name,
            "instructions": session.instructions,
            "tools": await session.tools(),
            "resources": await session.resources(),
            "templates": await session.templates(),
            "prompts": await session.prompts(),
        }
        for name, arguments in CALLS:
            told[f"call {name} {json.dumps(arguments)}"] = await session.call(name, arguments)
        for uri in READS:
            told[f"read {uri}"] = await session.read(uri)
        told["an absent resource"] = await session.refusal(session.read("demo://resource/absent"))
        for name, arguments in PROMPTS:
            told[f"prompt {name}"] = await session.prompt(name, arguments)
        told["an absent prompt"] = await session.refusal(session.prompt("absent", None))
        told["completions"] = [
            await session.complete_prompt("completable-prompt", "department", "S"),
            await session.complete_template("demo://resource/dynamic/text/{resourceId}", "resourceId", "12"),
        ]

        steps = []

        async def progress(progress, total, message):
            steps.append([progress, total, message])

        told["long"] = await session.call(
            "trigger-long-running-operation", {"duration": 0.2, "steps": 4}, progress=progress
        )
        async with session.watch("demo://resource/dynamic/text/1") as watching:
            await session.call("toggle-subscriber-updates", {})
            told["update"] = await watching.updated()
            await session.call("toggle-subscriber-updates", {})
    return lasting({**told, "asked": asked, "progress": steps}, era)
