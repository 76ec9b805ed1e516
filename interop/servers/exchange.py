"""An authorization server on the package idpyoidc, with its token exchange (RFC 8693): SCRIPT.

Its client `gateway` has a secret, and may exchange tokens for any audience. `GET /login?user=NAME&resource=URL` answers with a token
of that user for that URL, as if the user had logged in with the client `near`. Tokens last 3600 s, or as many as TOKEN_SECONDS says.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qs, parse_qsl, urlsplit

from idpyoidc.message.oauth2 import AuthorizationRequest
from idpyoidc.server import Server
from idpyoidc.server.authn_event import create_authn_event
from idpyoidc.server.configure import ASConfiguration
from idpyoidc.server.exception import UnAuthorizedClient
from idpyoidc.server.token.jwt_token import JWTToken

SECONDS = int(os.environ.get("TOKEN_SECONDS", "3600"))
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS = "urn:ietf:params:oauth:token-type:access_token"
SCOPES = ["mcp:read"]
HELPERS = "idpyoidc.server.oauth2"


def configuration(issuer):
    policy = {"": {"function": f"{HELPERS}.token_helper.validate_token_exchange_policy"}}
    exchange = {"requested_token_types_supported": [ACCESS], "policy": policy}
    helper = {"class": f"{HELPERS}.token_helper.token_exchange.TokenExchangeHelper", "kwargs": exchange}
    rules = {"access_token": {"supports_minting": ["access_token"], "expires_in": SECONDS}}
    jwt = {"class": "__main__.Audience", "kwargs": {"lifetime": SECONDS}}
    return {
        "issuer": issuer,
        "httpc_params": {"verify": False},
        "keys": {"uri_path": "keys", "key_defs": [{"type": "EC", "crv": "P-256", "use": ["sig"]}]},
        "token_handler_args": {"token": jwt},
        "authz": {
            "class": "idpyoidc.server.authz.AuthzHandling",
            "kwargs": {"grant_config": {"usage_rules": rules, "expires_in": SECONDS}},
        },
        "authentication": {
            "anon": {
                "acr": "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified",
                "class": "idpyoidc.server.user_authn.user.NoAuthn",
                "kwargs": {"user": "nobody"},
            }
        },
        "userinfo": {"class": "idpyoidc.server.user_info.UserInfo", "kwargs": {"db": {}}},
        "claims_interface": {"class": "idpyoidc.server.session.claims.OAuth2ClaimsInterface", "kwargs": {}},
        "scopes_to_claims": {scope: [] for scope in SCOPES},
        "endpoint": {
            "metadata": {
                "path": ".well-known/oauth-authorization-server",
                "class": f"{HELPERS}.server_metadata.ServerMetadata",
                "kwargs": {},
            },
            "token": {
                "path": "token",
                "class": f"{HELPERS}.token.Token",
                "kwargs": {
                    "client_authn_method": ["client_secret_basic", "client_secret_post"],
                    "grant_types_helpers": {EXCHANGE: helper},
                },
            },
        },
    }


class Audience(JWTToken):
    """The package names no audience in a token that it has exchanged for another client."""

    def load_custom_claims(self, payload=None):
        manager = server.context.session_manager
        exchange = getattr(manager.get(manager.decrypt_branch_id(payload["sid"])), "exchange_request", None)
        return payload if exchange is None else {**payload, "aud": exchange["audience"]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        text = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        place = urlsplit(self.path)
        with lock:
            if place.path == "/.well-known/oauth-authorization-server":
                endpoint = server.get_endpoint("server_metadata")
                args = endpoint.process_request(endpoint.parse_request({}))
                self.answer(200, endpoint.do_response(**args)["response"])
            elif place.path == "/keys":
                self.answer(200, server.keyjar.export_jwks())
            elif place.path == "/login":
                asked = parse_qs(place.query)
                self.answer(200, {"access_token": login(asked["user"][0], asked["resource"][0])})
            else:
                self.answer(404, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        info = {"headers": {name.lower(): value for name, value in self.headers.items()}}
        endpoint = server.get_endpoint("token")
        with lock:
            try:
                request = endpoint.parse_request(dict(parse_qsl(body)), http_info=info)
            except UnAuthorizedClient:
                return self.answer(401, {"error": "invalid_client"})
            args = request if "error" in request else endpoint.process_request(request)
            if "error" in args:
                self.answer(400, args.to_dict())
            else:
                self.answer(200, endpoint.do_response(request=request, **args)["response"])

    def log_message(self, *_):
        pass


def login(user, resource):
    request = AuthorizationRequest(
        client_id="near", redirect_uri="http://127.0.0.1/callback", scope=SCOPES, state="s", response_type="code"
    )
    manager = server.context.session_manager
    event = create_authn_event(uid=user)
    session = manager.create_session(event, request, user_id=user, client_id="near", scopes=SCOPES)
    grant = server.context.authz(session, request)
    handler = manager.token_handler["access_token"]
    token = grant.mint_token(
        session, server.context, "access_token", handler, scope=SCOPES, resources=[resource], expires_in=SECONDS
    )
    manager.set(manager.decrypt_session_id(session), grant)
    return token.value


lock = Lock()
listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
issuer = f"http://127.0.0.1:{listener.server_address[1]}"
server = Server(ASConfiguration(conf=configuration(issuer), base_path="", domain="127.0.0.1", port=0), cwd="/tmp")
server.context.session_manager.sub_func["public"] = lambda uid, **_: uid
for client, more in [("near", {}), ("gateway", {"client_secret": "the-secret-of-the-gateway"})]:
    server.context.cdb[client] = {
        "client_id": client,
        "redirect_uris": [("http://127.0.0.1/callback", {})],
        "grant_types_supported": [EXCHANGE],
        "allowed_scopes": SCOPES,
        **more,
    }
print(f"listening on {issuer}/", flush=True)
listener.serve_forever()
