//! The shared part of the clients on rmcp: the checks against `mcpjoin serve demo --full`, and the scripted user of the client.
//!
//! Used by the programs `client-current` and `client-old`; each implements [`Session`] for one version of rmcp. Values pass
//! between them and this library as JSON in the wire format, because each version has its own types.

mod checks;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The eras of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// With `initialize`: 2025-11-25.
    Legacy,
    /// Without: 2026-07-28.
    Modern,
}

impl Era {
    /// The protocol version that client and server must negotiate.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// The reason why a check did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// A value was wrong.
    Fault(String),
    /// The server returned an error: its code and data, and the client's message for it.
    Refused { code: i64, data: Value, said: String },
    /// The client does not support this.
    Cannot(String),
}

impl Failure {
    /// A fault with the message of an error.
    pub fn fault(error: impl fmt::Display) -> Self {
        Self::Fault(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(why) | Self::Cannot(why) | Self::Refused { said: why, .. } => f.write_str(why),
        }
    }
}

/// The result of a check.
pub type Checked<T = ()> = Result<T, Failure>;

/// How to reach the server.
#[derive(Clone, Debug)]
pub enum Server {
    /// The command line that starts it.
    Words(Vec<String>),
    /// Its URL, for Streamable HTTP.
    Url(String),
}

/// The lists of a server.
#[derive(Clone, Copy, Debug)]
pub enum List {
    Prompts,
    Resources,
    Templates,
    Tools,
}

/// A call that is in progress.
pub trait Call {
    /// Its progress token.
    fn token(&self) -> &Value;

    /// Waits for its result.
    fn answer(self) -> impl Future<Output = Checked<Value>>;

    /// Cancels it.
    fn cancel(self) -> impl Future<Output = Checked>;
}

/// A session of the client.
pub trait Session: Sized + 'static {
    /// The major version of rmcp in use.
    const MAJOR: &'static str;
    /// A call in progress.
    type Call: Call;
    /// A subscription to a resource.
    type Watch;

    /// Opens a session with the server, and starts the server if necessary.
    fn open(server: &Server, era: Era, desk: Arc<Desk>) -> impl Future<Output = Checked<Self>>;

    /// The server's part of the handshake: `protocolVersion`, `serverInfo`, `instructions`, `capabilities`.
    fn opened(&self) -> Checked<Value>;

    /// All pages of a list.
    fn list(&self, list: List) -> impl Future<Output = Checked<Value>>;

    /// Calls a tool, and answers the server's requests during the call.
    fn call(&self, name: &str, arguments: Value) -> impl Future<Output = Checked<Value>>;

    /// Starts a tool call.
    fn begin(&self, name: &str, arguments: Value) -> impl Future<Output = Checked<Self::Call>>;

    /// Reads a resource.
    fn read(&self, uri: &str) -> impl Future<Output = Checked<Value>>;

    /// Subscribes to a resource.
    fn watch(&self, uri: &str) -> impl Future<Output = Checked<Self::Watch>>;

    /// Waits for the next update of the resource, and returns the URI of the changed resource.
    fn updated(&self, watch: &mut Self::Watch) -> impl Future<Output = Checked<String>>;

    /// Ends the subscription.
    fn unwatch(&self, uri: &str, watch: Self::Watch) -> impl Future<Output = Checked>;

    /// Gets a prompt.
    fn prompt(&self, name: &str, arguments: Value) -> impl Future<Output = Checked<Value>>;

    /// Requests completions for an argument of a prompt.
    fn complete_prompt(
        &self,
        name: &str,
        argument: &str,
        value: &str,
    ) -> impl Future<Output = Checked<Vec<String>>>;

    /// Requests completions for a variable of a template.
    fn complete_template(
        &self,
        uri: &str,
        variable: &str,
        value: &str,
    ) -> impl Future<Output = Checked<Vec<String>>>;

    /// Ends the session, and waits until the server has ended.
    fn close(self) -> impl Future<Output = Checked>;
}

/// Answers a request of the server: from its parameters to the result.
pub type Answer = fn(&Value) -> Value;

/// The scripted user of a session: answers requests, and records progress and updates.
#[derive(Debug, Default)]
pub struct Desk {
    pub sampling: Option<Answer>,
    pub elicitation: Option<Answer>,
    pub roots: Option<Answer>,
    received: Mutex<Received>,
    changed: tokio::sync::Notify,
}

/// The recorded notifications, in order of arrival.
#[derive(Debug, Default)]
struct Received {
    asked: Vec<Value>,
    progress: Vec<Value>,
    updates: Vec<String>,
}

impl Desk {
    /// The client capabilities for the available answers.
    #[must_use]
    pub fn capabilities(&self) -> Value {
        let answers = [("sampling", self.sampling), ("elicitation", self.elicitation), ("roots", self.roots)];
        answers
            .into_iter()
            .filter(|(_, answer)| answer.is_some())
            .map(|(name, _)| (name, json!({})))
            .collect()
    }

    /// Answers a request of the server with the given function.
    #[must_use]
    pub fn ask(&self, answer: Option<Answer>, params: Value) -> Option<Value> {
        let answered = answer.map(|answer| answer(&params));
        self.received().asked.push(params);
        answered
    }

    /// Records the parameters of a progress notification.
    pub fn progress(&self, params: Value) {
        self.received().progress.push(params);
        self.changed.notify_one();
    }

    /// Records an update of a resource.
    pub fn update(&self, uri: String) {
        self.received().updates.push(uri);
        self.changed.notify_one();
    }

    /// Takes the next update of a resource.
    pub async fn updated(&self) -> String {
        self.until(|received| (!received.updates.is_empty()).then(|| received.updates.remove(0))).await
    }

    /// Waits until `find` returns a value.
    async fn until<T>(&self, mut find: impl FnMut(&mut Received) -> Option<T>) -> T {
        loop {
            let found = find(&mut self.received());
            match found {
                Some(found) => return found,
                None => self.changed.notified().await,
            }
        }
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The main function of a client program: `ERA -- SERVER WORDS...`, or `ERA URL`; `interop/src/client.rs` describes its
/// output.
///
/// # Errors
///
/// When the arguments are invalid, or no runtime can be created. A failed check is not an error.
pub fn run<S: Session>() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (era, server) = match words.as_slice() {
        [era, dashes, words @ ..] if dashes == "--" && !words.is_empty() => {
            (era, Server::Words(words.to_vec()))
        }
        [era, url] if url.starts_with("http://") => (era, Server::Url(url.clone())),
        _ => return Err("usage: CLIENT legacy|modern -- SERVER WORDS..., or CLIENT legacy|modern URL".into()),
    };
    let era = match era.as_str() {
        "legacy" => Era::Legacy,
        "modern" => Era::Modern,
        _ => return Err(format!("no era: {era}").into()),
    };
    let version = locked(S::MAJOR).ok_or("the lock file has no such rmcp")?;
    println!("{}", json!({ "version": version }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for (name, check) in checks::all::<S>() {
        let mut line = match runtime.block_on(checks::limited(check(&server, era))) {
            Ok(()) => json!({ "outcome": "right" }),
            Err(Failure::Cannot(why)) => json!({ "outcome": "cannot", "why": why }),
            Err(failure) => json!({ "outcome": "fault", "why": failure.to_string() }),
        };
        line["check"] = name.into();
        println!("{line}");
    }
    Ok(())
}

/// The locked version of rmcp with that major version.
fn locked(major: &str) -> Option<&'static str> {
    let lines = || include_str!("../Cargo.lock").lines();
    let mut versions = lines().zip(lines().skip(1)).filter(|(name, _)| *name == r#"name = "rmcp""#);
    versions.find_map(|(_, version)| {
        let version = version.strip_prefix(r#"version = ""#)?.strip_suffix('"')?;
        version.strip_prefix(major)?.starts_with('.').then_some(version)
    })
}

/// Converts a value of the client's types to JSON in the wire format.
///
/// # Errors
///
/// When the value cannot be serialized.
pub fn plain(given: &impl Serialize) -> Checked<Value> {
    serde_json::to_value(given).map_err(Failure::fault)
}

/// Converts JSON in the wire format to a value of the client's types.
///
/// # Errors
///
/// When the client's types do not accept the value.
pub fn taken<T: DeserializeOwned>(params: Value) -> Checked<T> {
    serde_json::from_value(params).map_err(Failure::fault)
}

/// The future of a running check.
type Running<'a> = Pin<Box<dyn Future<Output = Checked> + 'a>>;
