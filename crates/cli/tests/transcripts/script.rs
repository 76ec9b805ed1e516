//! Parses and replays a transcript. `README.md` describes the format.

use serde_json::{Map, Value, json};

use crate::pattern::{Kept, filled_in, matches};
use crate::peer::Peer;

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN: &str = "2026-07-28";

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Stdio,
    HttpSse,
}

/// A transcript.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: String,
    revisions: Vec<String>,
    /// The only transport that the transcript applies to.
    only: Option<Way>,
    /// The capabilities that the client declares.
    client: Value,
    /// Whether the lines contain the opening of the session.
    by_hand: bool,
    steps: Vec<(usize, Step)>,
}

#[derive(Debug)]
enum Step {
    /// The client sends a message. With `true`, the envelope of the revision is not added.
    Send(Value, bool),
    /// The server sends these messages, in any order.
    Expect(Vec<Expected>),
    /// An HTTP request outside the connection, and the status of its response.
    Http { method: String, path: String, header: String, status: u16 },
    /// The client closes its side.
    Close,
}

/// An expected message of the server.
#[derive(Debug)]
struct Expected {
    line: usize,
    message: Value,
    /// Whether the line contains the envelope of the revision.
    verbatim: bool,
    /// Whether the message may be missing.
    optional: bool,
}

impl Script {
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut script = Self {
            name: name.to_owned(),
            revisions: Vec::new(),
            only: None,
            client: json!({}),
            by_hand: false,
            steps: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            script.line(number, line).map_err(|why| format!("{name}, line {number}: {why}"))?;
        }
        if script.revisions.is_empty() {
            return Err(format!("{name}: it names no revision"));
        }
        if script.steps.is_empty() {
            return Err(format!("{name}: nothing is said"));
        }
        Ok(script)
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let value = || serde_json::from_str::<Value>(rest).map_err(|error| error.to_string());
        match kind {
            "" | "#" => {}
            "revision:" => {
                self.revisions = rest.split(' ').map(str::to_owned).collect();
                let unknown =
                    self.revisions.iter().find(|name| **name != MODERN && !LEGACY.contains(&name.as_str()));
                if let Some(unknown) = unknown {
                    return Err(format!("{unknown} is no revision"));
                }
            }
            "transport:" => {
                self.only = Some(match rest {
                    "stdio" => Way::Stdio,
                    "HTTP+SSE" => Way::HttpSse,
                    _ => return Err(format!("{rest} is no transport")),
                });
            }
            "client:" => self.client = value()?,
            "opening:" if rest == "by hand" => self.by_hand = true,
            ">" | ">>" => self.steps.push((number, Step::Send(value()?, kind == ">>"))),
            "<" | "<<" => {
                let message = value()?;
                let expected = Expected { line: number, message, verbatim: kind == "<<", optional: false };
                self.steps.push((number, Step::Expect(vec![expected])));
            }
            "<*" | "<?" => {
                let message = value()?;
                let line = Expected { line: number, message, verbatim: false, optional: kind == "<?" };
                match self.steps.last_mut() {
                    Some((last, Step::Expect(lines))) if *last + lines.len() == number => lines.push(line),
                    _ => self.steps.push((number, Step::Expect(vec![line]))),
                }
            }
            "!" => {
                let (request, status) = rest.rsplit_once(" -> ").ok_or("no `-> STATUS`")?;
                let mut words = request.splitn(3, ' ');
                let mut word = || words.next().unwrap_or_default().to_owned();
                let (method, path, header) = (word(), word(), word());
                let status = status.parse().map_err(|_| "no status")?;
                self.steps.push((number, Step::Http { method, path, header, status }));
            }
            "close" => self.steps.push((number, Step::Close)),
            _ => return Err(format!("neither a heading nor a line: {line}")),
        }
        Ok(())
    }

    /// The revisions in which the transcript is replayed over this transport.
    pub(crate) fn revisions(&self, way: Way) -> Vec<&str> {
        let all = self.revisions.iter().map(String::as_str);
        // The modern era has no HTTP+SSE.
        all.filter(|revision| {
            self.only.is_none_or(|only| only == way) && (way == Way::Stdio || *revision != MODERN)
        })
        .collect()
    }
}

/// Replays a transcript in a revision. An error names the file and the line.
pub(crate) fn replay(script: &Script, revision: &str, peer: Peer) -> Result<(), String> {
    let shared = peer.is_shared();
    let mut running =
        Running { script, revision, peer, kept: Kept::from([("revision".to_owned(), json!(revision))]) };
    let over = if shared { "HTTP+SSE" } else { "stdio" };
    let wrong =
        |line: usize, why: String| format!("{}, {revision} over {over}, line {line}: {why}", script.name);
    if revision != MODERN && !script.by_hand {
        running.open().map_err(|why| wrong(0, why))?;
    }
    for (number, step) in &script.steps {
        running.step(step).map_err(|(line, why)| wrong(line.unwrap_or(*number), why))?;
    }
    running.end().map_err(|why| wrong(script.steps.last().map_or(0, |(number, _)| *number), why))
}

struct Running<'a> {
    script: &'a Script,
    revision: &'a str,
    peer: Peer,
    kept: Kept,
}

impl Running<'_> {
    fn open(&mut self) -> Result<(), String> {
        let initialize = json!({ "jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
            "protocolVersion": self.revision, "capabilities": self.script.client,
            "clientInfo": { "name": "transcript", "version": "1" }
        } });
        self.peer.send(&initialize.to_string())?;
        let answer = self.next()?;
        let pattern = json!({ "jsonrpc": "2.0", "id": "open", "result": {
            "protocolVersion": self.revision, "...": "..."
        } });
        matches(&pattern, &answer, &mut self.kept)?;
        self.peer.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
    }

    fn next(&self) -> Result<Value, String> {
        let line = self.peer.next()?;
        serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))
    }

    fn step(&mut self, step: &Step) -> Result<(), (Option<usize>, String)> {
        let at = |why| (None, why);
        match step {
            Step::Send(line, verbatim) => {
                let mut line = filled_in(line, &self.kept);
                if !verbatim && self.revision == MODERN {
                    self.put_into_envelope(&mut line);
                }
                self.peer.send(&line.to_string()).map_err(at)
            }
            Step::Expect(lines) => {
                let mut open: Vec<_> = lines.iter().collect();
                while let Some(first) = open.iter().find(|expected| !expected.optional) {
                    let first = Some(first.line);
                    let seen = self.next().map_err(|why| (first, why))?;
                    let mut why = String::new();
                    let found = open.iter().position(|expected| {
                        match self.is_as_expected(&expected.message, &seen, expected.verbatim) {
                            Ok(()) => true,
                            Err(problem) => {
                                if why.is_empty() {
                                    why = problem;
                                }
                                false
                            }
                        }
                    });
                    let place = found.ok_or_else(|| (first, format!("{why}\n  in {seen}")))?;
                    open.remove(place);
                }
                Ok(())
            }
            Step::Http { method, path, header, status } => {
                let seen = self.peer.status(method, path, header).map_err(at)?;
                if seen == *status { Ok(()) } else { Err(at(format!("{seen} instead of {status}"))) }
            }
            Step::Close => {
                self.peer.close();
                Ok(())
            }
        }
    }

    fn is_as_expected(&mut self, pattern: &Value, seen: &Value, verbatim: bool) -> Result<(), String> {
        let mut seen = seen.clone();
        if !verbatim && self.revision == MODERN {
            take_out_of_envelope(pattern, &mut seen)?;
        }
        matches(pattern, &seen, &mut self.kept)
    }

    /// Adds the members that every modern request must have.
    fn put_into_envelope(&self, line: &mut Value) {
        if line.get("method").is_none() || line.get("id").is_none() {
            return;
        }
        let mut meta = json!({
            VERSION: MODERN, CAPABILITIES: self.script.client, CLIENT: { "name": "transcript", "version": "1" }
        });
        let params = &mut line["params"];
        if let Some(own) = params.get("_meta").and_then(Value::as_object) {
            for (key, value) in own {
                meta[key] = value.clone();
            }
        }
        params["_meta"] = meta;
    }

    fn end(mut self) -> Result<(), String> {
        if self.peer.is_shared() {
            // A message before the response to this ping was not expected.
            self.peer.send(r#"{"jsonrpc":"2.0","id":"end","method":"ping"}"#)?;
            let answer = self.next()?;
            let pattern = json!({ "jsonrpc": "2.0", "id": "end", "result": {} });
            matches(&pattern, &answer, &mut self.kept)
                .map_err(|_| format!("the server says more: {answer}"))?;
        }
        self.peer.finish()
    }
}

/// Checks and removes the members that every modern result has, so that the lines need not contain them.
fn take_out_of_envelope(pattern: &Value, seen: &mut Value) -> Result<(), String> {
    let Some(result) = seen.get_mut("result").and_then(Value::as_object_mut) else { return Ok(()) };
    let nothing = Map::new();
    let expected = pattern.get("result").and_then(Value::as_object).unwrap_or(&nothing);
    if !expected.contains_key("resultType") && result.remove("resultType") != Some(json!("complete")) {
        return Err("result: `resultType` is not `complete`".to_owned());
    }
    if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut)
        && expected.get("_meta").is_none_or(|expected| expected.get(SERVER).is_none())
    {
        meta.remove(SERVER).ok_or("result._meta: the server's name is missing")?;
        if meta.is_empty() {
            result.remove("_meta");
        }
    }
    for hint in ["ttlMs", "cacheScope"] {
        if !expected.contains_key(hint) {
            result.remove(hint);
        }
    }
    Ok(())
}
