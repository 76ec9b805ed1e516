"""A server on standard input and output that puts what a terminal would obey or hide into every field.

Escape sequences, line breaks, names of 10 kB, wide and combining characters, marks of direction, and what has no width.
"""

import json
import sys

DRIVES = "\x1b[2J\x1b[1;1H\x1b]0;taken\x07\x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x1b[38;5;196mred\x1b[?1049h\x9b31m\x1bc"
BREAKS = "one\r\ntwo\rthree\vfour\ffive\x08\x85six\u2028seven"
WIDE = "漢字かな交じり文😀👨‍👩‍👧 ｗｉｄｅ"
MARKS = "left\u202eright\u2066in\u2069\u200b\ufeff\u061c\U000e0041"
COMBINING = "e\u0301o\u0308" + "a" + "\u0300\u0301\u0302" * 20
LONG = "n" * 10_000
HOSTILE = [DRIVES, BREAKS, WIDE, MARKS, COMBINING, LONG]
ALL = " ".join(HOSTILE[:5])


def tool(number, text):
    return {
        "name": text if number else "plain",
        "title": text,
        "description": text,
        "inputSchema": {
            "type": "object",
            "properties": {text: {"type": "string", "description": text, "default": text, "enum": [text]}},
            "required": [text],
        },
        "annotations": {text: True},
    }


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}, ALL: {ALL: True}},
            "serverInfo": {"name": ALL, "version": DRIVES, "title": ALL},
            "instructions": ALL,
        }
    if method == "tools/list":
        return {"tools": [tool(number, text) for number, text in enumerate([ALL, *HOSTILE])]}
    if method == "resources/list":
        return {"resources": [{"uri": f"x:{text}", "name": text, "description": text} for text in HOSTILE]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": text, "name": text} for text in HOSTILE]}
    if method == "prompts/list":
        return {
            "prompts": [
                {"name": text, "description": text, "arguments": [{"name": text, "description": text}]}
                for text in HOSTILE
            ]
        }
    if method == "tools/call":
        if params["name"] != "plain":
            return None
        contents = [{"type": "text", "text": text} for text in HOSTILE[:5]]
        contents.append({"type": "image", "data": "AAAA", "mimeType": ALL})
        contents.append({"type": ALL})
        contents.append({"type": "resource_link", "uri": ALL, "name": ALL})
        return {"content": contents, "isError": True}
    return {} if method in ("ping", "logging/setLevel") else None


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    print(ALL, file=sys.stderr, flush=True)
    if message["method"] == "tools/call":
        token = message["params"].get("_meta", {}).get("progressToken")
        if token is not None:
            send({
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1, "total": 2, "message": ALL},
            })
        send({"method": "notifications/message", "params": {"level": "info", "data": ALL}})
    if result is None:
        error = {"code": -32601, "message": ALL, "data": ALL}
        send({"id": message["id"], "error": error})
    else:
        send({"id": message["id"], "result": result})
