//! A scripted MCP server with scripted authorization servers. They follow the specification except where a test sets a knob.
//!
//! One [`World`] has an MCP server with its protected resource metadata, and two authorization servers, each at its own
//! port, with metadata, registration, authorization (it redirects the browser at once), token and revocation. They log
//! every request, so that a test can count the requests. Used by all tests of this folder.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcpjoin_auth::{Authorizing, OAuth, OAuthBuilder, UserAgent, UserAgentError, Visit};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::scripted::{Scripted, Seen, Talk, modern};

/// Part of every secret, so that a test can search for it.
pub(crate) const SECRET: &str = "hush";

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// The `iss` parameter in an authorization server's response.
#[derive(Clone, Debug)]
pub(crate) enum Iss {
    Right,
    Missing,
    Other(String),
}

/// The settings of a world; the default values follow the specification.
#[derive(Clone, Debug)]
pub(crate) struct Knobs {
    /// The index of the authorization server that the MCP server names.
    pub(crate) named: usize,
    /// `resource` in the metadata, in place of the server's URL.
    pub(crate) resource: Option<String>,
    /// `scope` in the challenge of a 401.
    pub(crate) challenge_scope: Option<String>,
    /// The scope that each call of a tool needs.
    pub(crate) tool_scope: Option<String>,
    /// Each call needs another scope that the token does not have.
    pub(crate) insatiable: bool,
    /// Every token is refused.
    pub(crate) refuses_all: bool,
    pub(crate) iss: Iss,
    pub(crate) advertises_iss: bool,
    /// The state in the response, in place of the one in the request.
    pub(crate) state: Option<String>,
    /// The authorization is refused with this error.
    pub(crate) denies: Option<String>,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) scopes_supported: Option<Vec<String>>,
    pub(crate) auth_methods: Vec<String>,
    pub(crate) expires_in: Value,
    /// Refresh tokens are issued.
    pub(crate) refreshes: bool,
    /// Each refresh token is valid once.
    pub(crate) rotates: bool,
    /// The response of the token endpoint, in place of its own.
    pub(crate) token_reply: Option<(u16, String)>,
    /// The response of the token endpoint to a refresh.
    pub(crate) refresh_reply: Option<(u16, String)>,
    /// Registered clients are removed before the next code is exchanged.
    pub(crate) forgets_clients: bool,
    pub(crate) registers: bool,
    /// The granted scope, whatever was requested.
    pub(crate) grants: Option<String>,
    /// Authorization requests are pushed (RFC 9126).
    pub(crate) pushes: bool,
    /// Access tokens are not stored, so that they cannot be revoked.
    pub(crate) signs_access: bool,
    /// A revocation needs a client secret, possibly an empty one, as with the Python SDK.
    pub(crate) revokes_with_secret: bool,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            named: 0,
            resource: None,
            challenge_scope: None,
            tool_scope: None,
            insatiable: false,
            refuses_all: false,
            iss: Iss::Right,
            advertises_iss: true,
            state: None,
            denies: None,
            authorization_endpoint: None,
            scopes_supported: None,
            auth_methods: vec!["none".into()],
            expires_in: json!(3600),
            refreshes: true,
            rotates: true,
            token_reply: None,
            refresh_reply: None,
            forgets_clients: false,
            registers: true,
            grants: None,
            pushes: false,
            signs_access: false,
            revokes_with_secret: false,
        }
    }
}

/// An issued token.
#[derive(Clone, Debug)]
struct Given {
    by: usize,
    scope: String,
}

#[derive(Debug)]
struct Code {
    challenge: String,
    client: String,
    redirect_uri: String,
    resource: String,
    scope: String,
}

#[derive(Debug, Default)]
struct Books {
    clients: HashSet<String>,
    codes: HashMap<String, Code>,
    pushed: HashMap<String, HashMap<String, String>>,
    access: HashMap<String, Given>,
    refresh: HashMap<String, (Given, String)>,
    next: usize,
}

impl Books {
    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }
}

struct State {
    knobs: Mutex<Knobs>,
    books: Mutex<Books>,
    server: String,
    issuers: [String; 2],
}

impl State {
    fn knobs(&self) -> Knobs {
        self.knobs.lock().unwrap().clone()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }
}

pub(crate) struct World {
    pub(crate) mcp: Scripted,
    pub(crate) authorities: [Scripted; 2],
    state: Arc<State>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(turn: impl FnOnce(&mut Knobs)) -> Self {
        let bind = || TcpListener::bind("127.0.0.1:0");
        let (mcp, one, two) = (bind().await.unwrap(), bind().await.unwrap(), bind().await.unwrap());
        let at =
            |listener: &TcpListener| format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let mut knobs = Knobs::default();
        turn(&mut knobs);
        let state = Arc::new(State {
            knobs: Mutex::new(knobs),
            books: Mutex::default(),
            server: at(&mcp),
            issuers: [at(&one), format!("{}/two", at(&two))],
        });
        let authority = |which, listener| {
            let state = state.clone();
            Scripted::on(listener, move |seen, talk| authority(state.clone(), which, seen, talk))
        };
        let (one, two) = (authority(0, one), authority(1, two));
        let of_server = state.clone();
        let mcp = Scripted::on(mcp, move |seen, talk| server(of_server.clone(), seen, talk));
        Self { mcp, authorities: [one, two], state }
    }

    pub(crate) fn turn(&self, turn: impl FnOnce(&mut Knobs)) {
        turn(&mut self.state.knobs.lock().unwrap());
    }

    pub(crate) fn url(&self) -> String {
        self.mcp.url()
    }

    pub(crate) fn issuer(&self, which: usize) -> &str {
        &self.state.issuers[which]
    }

    /// A builder without a user agent.
    pub(crate) fn builder(&self) -> OAuthBuilder {
        OAuth::builder(self.url())
    }

    /// A builder whose user agent agrees at once.
    pub(crate) fn asking(&self) -> OAuthBuilder {
        self.builder().user_agent(Robot)
    }

    /// The forms or queries of all requests to an authorization server at this path.
    pub(crate) fn asked(&self, which: usize, path: &str) -> Vec<HashMap<String, String>> {
        let seen = self.authorities[which].seen();
        let there = seen.iter().filter(|seen| path_of(seen).ends_with(path));
        there
            .map(|seen| if seen.method == "POST" { form(&seen.body) } else { form(query_of(seen)) })
            .collect()
    }

    /// The number of token requests with this grant.
    pub(crate) fn grants(&self, which: usize, grant: &str) -> usize {
        self.asked(which, "/token").iter().filter(|form| form["grant_type"] == grant).count()
    }

    /// Revokes all access tokens.
    pub(crate) fn revoke_access(&self) {
        self.state.books().access.clear();
    }

    /// Revokes all tokens.
    pub(crate) fn revoke_all(&self) {
        self.revoke_access();
        self.state.books().refresh.clear();
    }

    /// The number of valid refresh tokens.
    pub(crate) fn refresh_tokens(&self) -> usize {
        self.state.books().refresh.len()
    }

    pub(crate) fn access_tokens(&self) -> usize {
        self.state.books().access.len()
    }
}

fn path_of(seen: &Seen) -> &str {
    seen.target.split('?').next().unwrap()
}

fn query_of(seen: &Seen) -> &str {
    seen.target.split_once('?').map_or("", |(_, query)| query)
}

/// Parses a form, byte for byte.
pub(crate) fn form(text: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap();
        let before = found.insert(decoded(name), decoded(value));
        assert_eq!(before, None, "{name} stands there twice");
    }
    found
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = std::str::from_utf8(&rest[..2]).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

// ---- the MCP server ----

async fn server(state: Arc<State>, seen: Seen, talk: Talk) -> Option<Talk> {
    let knobs = state.knobs();
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", state.server);
    if path_of(&seen) == "/.well-known/oauth-protected-resource/mcp" {
        let resource = knobs.resource.unwrap_or_else(|| format!("{}/mcp", state.server));
        let document = json!({"resource": resource, "authorization_servers": [state.issuers[knobs.named]],
            "scopes_supported": knobs.scopes_supported});
        return talk.json(&document.to_string()).await;
    }
    if path_of(&seen) != "/mcp" {
        return talk.status(404).await;
    }
    let token = seen.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let given = token.and_then(|token| state.books().access.get(token).cloned());
    let given = given.filter(|given| given.by == knobs.named && !knobs.refuses_all);
    let Some(given) = given else {
        let scope = knobs.challenge_scope.map(|scope| format!(", scope=\"{scope}\"")).unwrap_or_default();
        let error = token.map(|_| ", error=\"invalid_token\"").unwrap_or_default();
        let challenge = format!("Bearer resource_metadata=\"{metadata}\"{scope}{error}");
        return talk.answer(401, &[("WWW-Authenticate", &challenge)], "").await;
    };
    if seen.about() == "tools/call" {
        let needed = match knobs.insatiable {
            true => Some(format!("more-{}", state.books().number())),
            false => knobs.tool_scope,
        };
        if let Some(needed) = needed.filter(|needed| !given.scope.split(' ').any(|scope| scope == needed)) {
            let challenge = format!(
                "Bearer error=\"insufficient_scope\", scope=\"{needed}\", resource_metadata=\"{metadata}\""
            );
            return talk.answer(403, &[("WWW-Authenticate", &challenge)], "").await;
        }
    }
    modern(seen, talk).await
}

// ---- an authorization server ----

async fn authority(state: Arc<State>, which: usize, seen: Seen, talk: Talk) -> Option<Talk> {
    let issuer = state.issuers[which].clone();
    let below = issuer.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_default();
    let path = path_of(&seen).to_owned();
    if path == format!("/.well-known/oauth-authorization-server{below}") {
        let knobs = state.knobs();
        let endpoint = |name: &str| format!("{issuer}/{name}");
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": knobs.authorization_endpoint.unwrap_or_else(|| endpoint("authorize")),
            "token_endpoint": endpoint("token"),
            "revocation_endpoint": endpoint("revoke"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": knobs.auth_methods,
            "authorization_response_iss_parameter_supported": knobs.advertises_iss,
        });
        if knobs.registers {
            document["registration_endpoint"] = endpoint("register").into();
        }
        if knobs.pushes {
            document["pushed_authorization_request_endpoint"] = endpoint("par").into();
            document["require_pushed_authorization_requests"] = true.into();
        }
        return talk.json(&document.to_string()).await;
    }
    let (status, reply) = match path.strip_prefix(&below) {
        Some("/register") => register(&state, &seen),
        Some("/authorize") => {
            let mut asked = form(query_of(&seen));
            if let Some(uri) = asked.get("request_uri") {
                asked = state.books().pushed.remove(uri).unwrap();
            }
            let location = authorize(&state, &issuer, &asked);
            return talk.answer(302, &[("Location", &location)], "").await;
        }
        Some("/token") => token(&state, which, &seen),
        Some("/par") => {
            let mut books = state.books();
            let uri = format!("urn:ietf:params:oauth:request_uri:{}", books.number());
            books.pushed.insert(uri.clone(), form(&seen.body));
            (201, json!({"request_uri": uri, "expires_in": 60}))
        }
        Some("/revoke")
            if state.knobs().revokes_with_secret && !form(&seen.body).contains_key("client_secret") =>
        {
            (400, json!({"error": "invalid_request"}))
        }
        Some("/revoke")
            if state.knobs().signs_access && form(&seen.body)["token_type_hint"] == "access_token" =>
        {
            (400, json!({"error": "unsupported_token_type"}))
        }
        Some("/revoke") => {
            let form = form(&seen.body);
            let mut books = state.books();
            books.access.remove(&form["token"]);
            books.refresh.remove(&form["token"]);
            (200, json!({}))
        }
        _ => return talk.status(404).await,
    };
    talk.answer(status, &[JSON, ("Cache-Control", "no-store")], &text_of(&reply)).await
}

fn text_of(reply: &Value) -> String {
    // A string is sent as it is, so that a test can send any body.
    reply.as_str().map_or_else(|| reply.to_string(), str::to_owned)
}

fn register(state: &State, seen: &Seen) -> (u16, Value) {
    let mut books = state.books();
    let id = format!("client-{}", books.number());
    books.clients.insert(id.clone());
    let mut reply = seen.json();
    reply["client_id"] = id.clone().into();
    if reply["token_endpoint_auth_method"] != "none" {
        reply["client_secret"] = format!("{SECRET}-of-{id}").into();
    }
    (201, reply)
}

fn authorize(state: &State, issuer: &str, asked: &HashMap<String, String>) -> String {
    let knobs = state.knobs();
    assert_eq!((asked["response_type"].as_str(), asked["code_challenge_method"].as_str()), ("code", "S256"));
    let mut books = state.books();
    let code = format!("{SECRET}-code-{}", books.number());
    books.codes.insert(
        code.clone(),
        Code {
            challenge: asked["code_challenge"].clone(),
            client: asked["client_id"].clone(),
            redirect_uri: asked["redirect_uri"].clone(),
            resource: asked["resource"].clone(),
            scope: knobs.grants.clone().or_else(|| asked.get("scope").cloned()).unwrap_or_default(),
        },
    );
    let state = knobs.state.as_ref().unwrap_or_else(|| &asked["state"]);
    let mut location = format!("{}?state={}", asked["redirect_uri"], encoded(state));
    match &knobs.denies {
        Some(error) => location += &format!("&error={}&error_description=because", encoded(error)),
        None => location += &format!("&code={}", encoded(&code)),
    }
    match &knobs.iss {
        Iss::Right => location += &format!("&iss={}", encoded(issuer)),
        Iss::Missing => {}
        Iss::Other(other) => location += &format!("&iss={}", encoded(other)),
    }
    location
}

fn token(state: &State, which: usize, seen: &Seen) -> (u16, Value) {
    let knobs = state.knobs();
    let form = form(&seen.body);
    let refused = |error: &str| (400, json!({"error": error}));
    let mut books = state.books();
    if knobs.forgets_clients {
        books.clients.clear();
        state.knobs.lock().unwrap().forgets_clients = false;
    }
    let client = match form.get("client_id") {
        Some(id) => id.clone(),
        None => {
            let basic = seen.header("authorization").unwrap().strip_prefix("Basic ").unwrap();
            let basic = base64::engine::general_purpose::STANDARD.decode(basic).unwrap();
            decoded(String::from_utf8(basic).unwrap().split(':').next().unwrap())
        }
    };
    if client.starts_with("client-") && !books.clients.contains(&client) {
        return (401, json!({"error": "invalid_client"}));
    }
    if let Some((status, reply)) = &knobs.token_reply {
        return (*status, reply.as_str().into());
    }
    let (given, resource) = match form["grant_type"].as_str() {
        "authorization_code" => {
            let Some(code) = books.codes.remove(&form["code"]) else { return refused("invalid_grant") };
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
            assert_eq!(challenge, code.challenge);
            assert_eq!(form["redirect_uri"], code.redirect_uri);
            assert_eq!(client, code.client);
            assert_eq!(form["resource"], code.resource);
            (Given { by: which, scope: code.scope }, code.resource)
        }
        "refresh_token" => {
            if let Some((status, reply)) = &knobs.refresh_reply {
                return (*status, reply.as_str().into());
            }
            let token = &form["refresh_token"];
            let found =
                if knobs.rotates { books.refresh.remove(token) } else { books.refresh.get(token).cloned() };
            let Some((given, resource)) = found else { return refused("invalid_grant") };
            assert_eq!(
                (given.by, &form["resource"]),
                (which, &resource),
                "a refresh token goes where it came from"
            );
            (given, resource)
        }
        other => panic!("{other}"),
    };
    let number = books.number();
    let access = format!("{SECRET}-access-{number}");
    let mut reply = json!({"access_token": access, "token_type": "bearer", "expires_in": knobs.expires_in});
    if !given.scope.is_empty() {
        reply["scope"] = given.scope.clone().into();
    }
    if knobs.refreshes && (knobs.rotates || form["grant_type"] != "refresh_token") {
        let refresh = format!("{SECRET}-refresh-{number}");
        reply["refresh_token"] = refresh.clone().into();
        books.refresh.insert(refresh, (given.clone(), resource));
    }
    books.access.insert(access, given);
    (200, reply)
}

// ---- the user agent ----

/// A user agent that requests the page at once, and returns the target of its redirect.
pub(crate) struct Robot;

impl UserAgent for Robot {
    async fn visit(&self, before: Option<&str>) -> Result<Visit, UserAgentError> {
        let redirect_uri = before.unwrap_or("http://127.0.0.1:1/callback").to_owned();
        Ok(Visit::new(redirect_uri, |authorizing: Authorizing| async move {
            let location = location_of(&authorizing.url).await;
            Ok(location.split_once('?').unwrap().1.to_owned())
        }))
    }
}

/// The target of a page's redirect.
pub(crate) async fn location_of(url: &str) -> String {
    let answer = get(url).await;
    let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    location.unwrap_or_else(|| panic!("{url}: {answer}")).to_owned()
}

/// Requests a page, and returns the raw response.
pub(crate) async fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "{url}");
    }
    String::from_utf8(answer).unwrap()
}
