"""The official Python SDK's client that gets itself a token: it is let in nowhere without one. Prints what the server's
tool has answered, and the token.

Usage: authorized.py URL
"""

import asyncio
import base64
import json
import sys
import warnings
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import AuthorizationCodeResult
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

warnings.simplefilter("ignore")
CALLBACK = "http://127.0.0.1:1/callback"


class Storage:
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


came = []


async def browse(url):
    """A browser without a person: it follows where it is sent, with cookies, until it is sent back to the client."""
    async with httpx2.AsyncClient() as browser:
        for _ in range(20):
            answer = await browser.get(url)
            if "location" not in answer.headers:
                raise RuntimeError(f"{url} answers {answer.status_code}: {answer.text}")
            url = urljoin(str(url), answer.headers["location"])
            if url.startswith(CALLBACK):
                came.append({name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})
                return
    raise RuntimeError("it goes round in circles")


async def callback():
    query = came.pop()
    return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


async def main(url):
    storage = Storage()
    metadata = OAuthClientMetadata(
        client_name="interop", redirect_uris=[CALLBACK], token_endpoint_auth_method="none", application_type="native",
        grant_types=["authorization_code", "refresh_token"], response_types=["code"],
    )
    auth = OAuthClientProvider(url, metadata, storage, browse, callback)
    async with httpx2.AsyncClient(auth=auth) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            result = await client.call_tool("echo", {"message": "let in"})
    payload = storage.tokens.access_token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    said = {name: claims[name] for name in ("aud", "scope", "sub")}
    print(json.dumps({"text": result.content[0].text, "token": storage.tokens.access_token, **said}))


asyncio.run(asyncio.wait_for(main(sys.argv[1]), 60))
