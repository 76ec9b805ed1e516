//! An HTTP server that requires authorization, with its authorization server on the same port, over plain sockets. The
//! test sets the responses, and all requests are recorded. The tests of authorization use it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The prefix of all planted secrets. No output may contain it.
pub(crate) const PLANTED: &str = "planted-secret";
/// The preregistered client, and its secret.
pub(crate) const MACHINE: &str = "machine";
pub(crate) const SECRET: &str = "planted-secret-of-the-machine";

/// Both servers. They run until the process of the test ends.
#[derive(Clone)]
pub(crate) struct Authority {
    pub(crate) base: String,
    state: Arc<Mutex<State>>,
}

/// The settings of the responses, and the recorded requests.
pub(crate) struct State {
    /// The lifetime of a token, as the token endpoint reports it.
    pub(crate) expires_in: Option<u64>,
    /// Whether the token endpoint also returns a refresh token.
    pub(crate) refreshes: bool,
    /// Replaces `resource` in the metadata of the protected resource.
    pub(crate) resource: Option<String>,
    /// Replaces the authorization server in the metadata of the protected resource.
    pub(crate) issuer: Option<String>,
    /// Members of the authorization server's metadata that are set, or removed where the value is null.
    pub(crate) metadata: BTreeMap<&'static str, Value>,
    /// A tool call requires a token that also has this scope.
    pub(crate) call_wants: Option<&'static str>,
    /// Whether the server publishes metadata of the protected resource.
    pub(crate) has_document: bool,
    /// The access tokens that are admitted, with the scopes of each.
    tokens: BTreeMap<String, String>,
    refresh: Vec<String>,
    codes: BTreeMap<String, BTreeMap<String, String>>,
    /// The key set for the tokens of a test's own.
    pub(crate) keys: Value,
    /// The values of `Authorization` that the MCP server has seen.
    pub(crate) shown: Vec<String>,
    /// The subject whose tokens are not exchanged.
    pub(crate) denied: &'static str,
    /// Method, path and body of each request.
    pub(crate) asked: Vec<(String, String, String)>,
    number: u32,
}

impl State {
    fn new() -> Self {
        Self {
            expires_in: Some(3600),
            refreshes: true,
            resource: None,
            issuer: None,
            metadata: BTreeMap::new(),
            call_wants: None,
            has_document: true,
            tokens: BTreeMap::new(),
            refresh: Vec::new(),
            codes: BTreeMap::new(),
            keys: Value::Null,
            shown: Vec::new(),
            denied: "",
            asked: Vec::new(),
            number: 0,
        }
    }

    /// Revokes all access tokens issued so far.
    pub(crate) fn forget_tokens(&mut self) {
        self.tokens.clear();
    }

    /// The number of requests for a path.
    pub(crate) fn count(&self, method: &str, path: &str) -> usize {
        self.asked.iter().filter(|(one, other, _)| one == method && other == path).count()
    }

    fn fresh(&mut self, what: &str) -> String {
        self.number += 1;
        format!("{PLANTED}-{what}-{}", self.number)
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let authority = Self { base, state: Arc::new(Mutex::new(State::new())) };
        let serving = authority.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), serving) = (stream, serving.clone()) else { return };
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        authority
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.base)
    }

    /// Issues a token without being asked.
    pub(crate) fn issue(&self, scope: &str) -> String {
        let mut state = self.state();
        let access = state.fresh("access");
        state.tokens.insert(access.clone(), scope.to_owned());
        access
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut head = String::new();
            while lines.read_line(&mut head).is_ok_and(|count| count > 2) {}
            if !head.ends_with("\r\n\r\n") {
                return;
            }
            let head = Head::of(&head);
            let length = head.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            let mut body = vec![0; length];
            if lines.read_exact(&mut body).is_err() {
                return;
            }
            let body = String::from_utf8(body).unwrap();
            let answer = self.answer(&head, &body);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, head: &Head, body: &str) -> String {
        let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
        let mut state = self.state();
        state.asked.push((head.method.clone(), path.to_owned(), body.to_owned()));
        match (head.method.as_str(), path) {
            (_, "/mcp") => {
                state.shown.extend(head.header("authorization").map(str::to_owned));
                self.mcp(&state, head, body)
            }
            ("GET", "/keys") => json_response(200, &state.keys),
            ("GET", "/.well-known/oauth-protected-resource/mcp") if state.has_document => {
                let resource = state.resource.clone().unwrap_or_else(|| self.url());
                let issuer = state.issuer.clone().unwrap_or_else(|| self.base.clone());
                json_response(
                    200,
                    &json!({"resource": resource, "authorization_servers": [issuer], "scopes_supported": ["tools"]}),
                )
            }
            ("GET", "/.well-known/oauth-authorization-server") if state.has_document => {
                json_response(200, &self.metadata(&state))
            }
            ("POST", "/register") => json_response(
                201,
                &json!({
                    "client_id": "registered", "token_endpoint_auth_method": "none",
                    "redirect_uris": serde_json::from_str::<Value>(body).unwrap()["redirect_uris"],
                }),
            ),
            ("GET", "/authorize") => {
                let asked = pairs(query);
                let code = state.fresh("code");
                let to = format!(
                    "{}?code={code}&state={}&iss={}",
                    asked["redirect_uri"],
                    asked["state"],
                    self.base.replace(':', "%3A").replace('/', "%2F")
                );
                state.codes.insert(code, asked);
                format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
            }
            ("POST", "/token") => self.token(&mut state, head, body),
            ("POST", "/revoke") => {
                let asked = pairs(body);
                state.refresh.retain(|token| *token != asked["token"]);
                state.tokens.remove(&asked["token"]);
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into()
            }
            _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".into(),
        }
    }

    fn metadata(&self, state: &State) -> Value {
        let at = |path: &str| format!("{}{path}", self.base);
        let mut document = json!({
            "issuer": self.base,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "revocation_endpoint": at("/revoke"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": true,
        });
        for (name, value) in &state.metadata {
            match value {
                Value::Null => _ = document.as_object_mut().unwrap().remove(*name),
                value => document[*name] = value.clone(),
            }
        }
        document
    }

    /// The MCP server.
    fn mcp(&self, state: &State, head: &Head, body: &str) -> String {
        let token = head.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let document =
            format!("resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", self.base);
        let challenge = |status: &str, parameters: &str| {
            format!(
                "HTTP/1.1 {status}\r\nwww-authenticate: Bearer {parameters}{}{document}\r\ncontent-length: 0\r\n\r\n",
                if parameters.is_empty() { "" } else { ", " }
            )
        };
        let Some(scopes) = token.and_then(|token| state.tokens.get(token)) else {
            let parameters = if token.is_some() { "error=\"invalid_token\"" } else { "" };
            return challenge("401 Unauthorized", parameters);
        };
        if head.method != "POST" {
            return "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".into();
        }
        let asked: Value = serde_json::from_str(body).unwrap();
        let result = match asked["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"}
            }),
            "tools/list" => json!({"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                if let Some(scope) = state.call_wants
                    && !scopes.split(' ').any(|granted| granted == scope)
                {
                    let parameters = format!("error=\"insufficient_scope\", scope=\"{scope}\"");
                    return challenge("403 Forbidden", &parameters);
                }
                // The token of an exchange names its user.
                let user = scopes.strip_prefix("of ").unwrap_or("you");
                json!({"content": [{"type": "text", "text": user}]})
            }
            "ping" => json!({}),
            "server/discover" => {
                let error = json!({"code": -32601, "message": "unknown"});
                return json_response(200, &json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}));
            }
            _ => return "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".into(),
        };
        json_response(200, &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
    }

    /// Whether the claims of an assertion name this server and the machine's client. The signature is tested in the library.
    fn is_of_machine(&self, jwt: &str) -> bool {
        let parts: Vec<&str> = jwt.split('.').collect();
        let part = |at: usize| -> Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[at]).unwrap()).unwrap()
        };
        let (header, claims) = (part(0), part(1));
        let ours = claims["aud"] == self.base.as_str() || claims["aud"] == json!([self.base]);
        header["alg"] == "ES256"
            && claims["iss"] == MACHINE
            && claims["sub"] == MACHINE
            && ours
            && parts.len() == 3
    }

    fn token(&self, state: &mut State, head: &Head, body: &str) -> String {
        let asked = pairs(body);
        let refuse = |error: &str| {
            json_response(400, &json!({"error": error, "error_description": "the test says no"}))
        };
        if asked.get("resource") != Some(&self.url()) {
            return refuse("invalid_target");
        }
        let scope = match asked["grant_type"].as_str() {
            "authorization_code" => {
                let Some(code) = state.codes.remove(&asked["code"]) else { return refuse("invalid_grant") };
                let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(asked["code_verifier"].as_bytes()));
                let same = |name: &str| code.get(name) == asked.get(name);
                if hash != code["code_challenge"] || !same("redirect_uri") || !same("client_id") {
                    return refuse("invalid_grant");
                }
                code.get("scope").cloned()
            }
            "refresh_token" => {
                let known = state.refresh.iter().position(|token| *token == asked["refresh_token"]);
                let Some(known) = known else { return refuse("invalid_grant") };
                state.refresh.remove(known);
                asked.get("scope").cloned()
            }
            "client_credentials" => {
                let expected = format!("Basic {}", STANDARD.encode(format!("{MACHINE}:{SECRET}")));
                let signed = asked.get("client_assertion").is_some_and(|jwt| self.is_of_machine(jwt));
                if !signed && head.header("authorization") != Some(&expected) {
                    return json_response(401, &json!({"error": "invalid_client"}));
                }
                asked.get("scope").cloned()
            }
            "urn:ietf:params:oauth:grant-type:token-exchange" => {
                let expected = format!("Basic {}", STANDARD.encode(format!("{MACHINE}:{SECRET}")));
                if head.header("authorization") != Some(&expected) {
                    return json_response(401, &json!({"error": "invalid_client"}));
                }
                let claims = asked["subject_token"].split('.').nth(1).unwrap();
                let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
                let user = claims["sub"].as_str().unwrap();
                if user == state.denied {
                    return refuse("access_denied");
                }
                Some(format!("of {user}"))
            }
            _ => return refuse("unsupported_grant_type"),
        };
        let access = state.fresh("access");
        let scope = scope.unwrap_or_default();
        state.tokens.insert(access.clone(), scope.clone());
        let mut reply = json!({"access_token": access, "token_type": "Bearer", "scope": scope});
        if let Some(seconds) = state.expires_in {
            reply["expires_in"] = json!(seconds);
        }
        if state.refreshes && asked["grant_type"] != "client_credentials" {
            let refresh = state.fresh("refresh");
            state.refresh.push(refresh.clone());
            reply["refresh_token"] = json!(refresh);
        }
        json_response(200, &reply)
    }
}

/// The head of a request.
struct Head {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
}

impl Head {
    fn of(text: &str) -> Self {
        let mut lines = text.lines();
        let mut words = lines.next().unwrap().split(' ');
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
        Self { method, target, headers }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

fn json_response(status: u16, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The pairs of a query or a form.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (plain(name), plain(value))).collect()
}

fn plain(text: &str) -> String {
    let (mut out, bytes) = (Vec::new(), text.as_bytes());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                out.push(u8::from_str_radix(&text[at + 1..at + 3], 16).unwrap());
                at += 2;
            }
            b'+' => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8(out).unwrap()
}

/// Acts as a browser: requests a page, and returns the target of the redirect.
pub(crate) fn led(url: &str) -> String {
    let answer = visited(url);
    let location = answer.lines().find_map(|line| line.strip_prefix("location: "));
    location.unwrap_or_else(|| panic!("{url} leads nowhere: {answer}")).trim_end().to_owned()
}

/// Requests a page, and returns the whole head of the response.
pub(crate) fn visited(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let (mut lines, mut answer) = (BufReader::new(stream), String::new());
    while lines.read_line(&mut answer).is_ok_and(|count| count > 2) {}
    answer
}
