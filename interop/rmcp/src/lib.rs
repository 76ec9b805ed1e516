//! What clients on rmcp share: the checks against `mcpjoin serve demo`, and the user who sits at the client.
//!
//! Used by the programs `client-current` and `client-old`, each of which fits one version of rmcp in as a [`Session`].
//! Everything passes between them and here as JSON, as it would stand on the wire: the versions have types of their own.

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
    /// The version that client and server must come to.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// What became of a check that did not come out right.
#[derive(Debug)]
pub enum Failure {
    /// Something was not as it should be.
    Fault(String),
    /// The server has refused: the code and the data of its error, and the client's words for it.
    Refused { code: i64, data: Value, said: String },
    /// The client has no such thing.
    Cannot(String),
}

impl Failure {
    /// Something that failed, in its own words.
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

/// What a check comes to.
pub type Checked<T = ()> = Result<T, Failure>;

/// Where the server is.
#[derive(Clone, Debug)]
pub enum Server {
    /// These words start it.
    Words(Vec<String>),
    /// It listens there, for Streamable HTTP.
    Url(String),
}

/// What can be listed.
#[derive(Clone, Copy, Debug)]
pub enum List {
    Prompts,
    Resources,
    Templates,
    Tools,
}

/// A call that is in progress.
pub trait Call {
    /// What its progress is known by.
    fn token(&self) -> &Value;

    /// Waits for its result.
    fn answer(self) -> impl Future<Output = Checked<Value>>;

    /// Cancels it.
    fn cancel(self) -> impl Future<Output = Checked>;
}

/// A session of the client.
pub trait Session: Sized + 'static {
    /// The major version of rmcp that it is on.
    const MAJOR: &'static str;
    /// A call in progress.
    type Call: Call;
    /// What is subscribed to.
    type Watch;

    /// Opens a session with the server, which it starts if that is not done yet.
    fn open(server: &Server, era: Era, desk: Arc<Desk>) -> impl Future<Output = Checked<Self>>;

    /// What it knows of its server: `protocolVersion`, `serverInfo`, `instructions`, `capabilities`.
    fn opened(&self) -> Checked<Value>;

    /// All pages of a list.
    fn list(&self, list: List) -> impl Future<Output = Checked<Value>>;

    /// Calls a tool, and answers what the server asks meanwhile.
    fn call(&self, name: &str, arguments: Value) -> impl Future<Output = Checked<Value>>;

    /// Begins to call a tool.
    fn begin(&self, name: &str, arguments: Value) -> impl Future<Output = Checked<Self::Call>>;

    /// Reads a resource.
    fn read(&self, uri: &str) -> impl Future<Output = Checked<Value>>;

    /// Subscribes to a resource.
    fn watch(&self, uri: &str) -> impl Future<Output = Checked<Self::Watch>>;

    /// Waits for the next update of it, and gives the address that has changed.
    fn updated(&self, watch: &mut Self::Watch) -> impl Future<Output = Checked<String>>;

    /// Ends the subscription.
    fn unwatch(&self, uri: &str, watch: Self::Watch) -> impl Future<Output = Checked>;

    /// Gets a prompt.
    fn prompt(&self, name: &str, arguments: Value) -> impl Future<Output = Checked<Value>>;

    /// Proposals for an argument of a prompt.
    fn complete_prompt(
        &self,
        name: &str,
        argument: &str,
        value: &str,
    ) -> impl Future<Output = Checked<Vec<String>>>;

    /// Proposals for a variable of a template.
    fn complete_template(
        &self,
        uri: &str,
        variable: &str,
        value: &str,
    ) -> impl Future<Output = Checked<Vec<String>>>;

    /// Ends the session and waits for the server's end.
    fn close(self) -> impl Future<Output = Checked>;
}

/// Answers a question of the server: its parameters, and the result.
pub type Answer = fn(&Value) -> Value;

/// Where a session's user sits: answers questions, and hears of progress and updates.
#[derive(Debug, Default)]
pub struct Desk {
    pub sampling: Option<Answer>,
    pub elicitation: Option<Answer>,
    pub roots: Option<Answer>,
    heard: Mutex<Heard>,
    changed: tokio::sync::Notify,
}

/// What has come, in the order in which it has.
#[derive(Debug, Default)]
struct Heard {
    asked: Vec<Value>,
    progress: Vec<Value>,
    updates: Vec<String>,
}

impl Desk {
    /// The capabilities that go with the answers there are.
    #[must_use]
    pub fn capabilities(&self) -> Value {
        let answers = [("sampling", self.sampling), ("elicitation", self.elicitation), ("roots", self.roots)];
        answers
            .into_iter()
            .filter(|(_, answer)| answer.is_some())
            .map(|(name, _)| (name, json!({})))
            .collect()
    }

    /// A question for that answer.
    #[must_use]
    pub fn ask(&self, answer: Option<Answer>, params: Value) -> Option<Value> {
        let answered = answer.map(|answer| answer(&params));
        self.heard().asked.push(params);
        answered
    }

    /// Progress, as its notification has it.
    pub fn progress(&self, params: Value) {
        self.heard().progress.push(params);
        self.changed.notify_one();
    }

    /// An update of a resource.
    pub fn update(&self, uri: String) {
        self.heard().updates.push(uri);
        self.changed.notify_one();
    }

    /// The next update of a resource that nobody has taken yet.
    pub async fn updated(&self) -> String {
        self.until(|heard| (!heard.updates.is_empty()).then(|| heard.updates.remove(0))).await
    }

    /// Waits until there is something.
    async fn until<T>(&self, mut find: impl FnMut(&mut Heard) -> Option<T>) -> T {
        loop {
            let found = find(&mut self.heard());
            match found {
                Some(found) => return found,
                None => self.changed.notified().await,
            }
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The program of a client: `ERA -- SERVER WORDS...`, or `ERA URL`; `interop/src/client.rs` says what it prints.
///
/// # Errors
///
/// When the words are others, or no runtime can be had. What becomes of a check is no error.
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

/// The version of rmcp that this was built with, of those with that major version.
fn locked(major: &str) -> Option<&'static str> {
    let lines = || include_str!("../Cargo.lock").lines();
    let mut versions = lines().zip(lines().skip(1)).filter(|(name, _)| *name == r#"name = "rmcp""#);
    versions.find_map(|(_, version)| {
        let version = version.strip_prefix(r#"version = ""#)?.strip_suffix('"')?;
        version.strip_prefix(major)?.starts_with('.').then_some(version)
    })
}

/// What the client gives, as it would stand on the wire.
///
/// # Errors
///
/// When it cannot stand there.
pub fn plain(given: &impl Serialize) -> Checked<Value> {
    serde_json::to_value(given).map_err(Failure::fault)
}

/// What the client takes, from how it would stand on the wire.
///
/// # Errors
///
/// When the client knows no such thing.
pub fn taken<T: DeserializeOwned>(params: Value) -> Checked<T> {
    serde_json::from_value(params).map_err(Failure::fault)
}

/// A check that runs.
type Running<'a> = Pin<Box<dyn Future<Output = Checked> + 'a>>;
