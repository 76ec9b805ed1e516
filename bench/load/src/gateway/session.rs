//! One client of a gateway: lists and calls, one at a time, in each of the ways in which gateways are reached.

use std::time::Duration;

use serde_json::{Value, json};

use super::Gateway;
use crate::http::{Connection, Endpoint, Events, Mode};
use crate::messages::INITIALIZED;

/// How long an answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) events: Option<Events>,
    mode: Mode,
    next: u64,
}

impl Session {
    /// Opens a session, if the gateway has sessions.
    pub(super) fn open(gateway: &Gateway) -> Result<Self, String> {
        Self::open_at(&gateway.endpoint("b1"))
    }

    /// Opens a session at this endpoint.
    pub(super) fn open_at(endpoint: &Endpoint) -> Result<Self, String> {
        let mode = endpoint.mode;
        let mut session = if mode == Mode::Events {
            let (events, messages) = Events::open(endpoint, PATIENCE)?;
            Self { connection: Connection::connect(&messages)?, events: Some(events), mode, next: 1 }
        } else {
            Self { connection: Connection::connect(endpoint)?, events: None, mode, next: 1 }
        };
        session.connection.wait_at_most(PATIENCE)?;
        match mode {
            Mode::Stateful => session.connection.negotiate()?,
            Mode::Events => {
                let client = json!({ "name": "load", "version": "0.0.0" });
                let params =
                    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
                session.request("initialize", &params)?;
                session.connection.post_body(INITIALIZED)?;
            }
            Mode::Stateless | Mode::OpenApi => {}
        }
        Ok(session)
    }

    /// Ends the session. The gateway may refuse that.
    pub(super) fn close(mut self) -> Result<(), String> {
        if self.mode == Mode::Stateful { self.connection.close_session() } else { Ok(()) }
    }

    /// The names of all tools.
    pub(super) fn list(&mut self, gateway: &Gateway) -> Result<Vec<String>, String> {
        if self.mode == Mode::OpenApi {
            return gateway.options.names().try_fold(Vec::new(), |mut all, name| {
                self.connection.page(&format!("/{name}/openapi.json"))?;
                // A server that is not there yet has no page.
                if let (200, body) = self.connection.reply() {
                    let page: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
                    let paths = page["paths"].as_object();
                    all.extend(paths.into_iter().flatten().map(|(path, _)| format!("/{name}{path}")));
                }
                Ok(all)
            });
        }
        let (mut names, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let answer = self.request("tools/list", &params)?;
            let tools = answer["result"]["tools"].as_array().ok_or_else(|| answer.to_string())?;
            names.extend(tools.iter().filter_map(|tool| Some(tool["name"].as_str()?.to_owned())));
            cursor = answer["result"]["nextCursor"].clone();
            if cursor.is_null() {
                return Ok(names);
            }
        }
    }

    /// Calls the tool of a server; an error is what the client sees.
    pub(super) fn call(&mut self, gateway: &Gateway, name: &str) -> Result<(), String> {
        const TEXT: &str = "is it there?";
        let tool = gateway.options.tool(name);
        if self.mode == Mode::OpenApi {
            let mut connection = Connection::connect(&gateway.endpoint(name))?;
            connection.wait_at_most(PATIENCE)?;
            connection.post_body(&json!({ "message": TEXT }).to_string())?;
            let (status, body) = connection.reply();
            let body = String::from_utf8_lossy(body);
            return if status == 200 && body.contains(TEXT) {
                Ok(())
            } else {
                Err(format!("HTTP {status}: {body}"))
            };
        }
        let answer =
            self.request("tools/call", &json!({ "name": tool, "arguments": { "message": TEXT } }))?;
        match answer["result"]["content"][0]["text"].as_str() {
            Some(TEXT) => Ok(()),
            _ => Err(answer.get("error").or(answer.get("result")).unwrap_or(&answer).to_string()),
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let id = self.next;
        self.next += 1;
        let mut params = params.clone();
        if self.mode == Mode::Stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "load", "version": "0.0.0" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        if self.mode == Mode::Stateless {
            self.connection.post_modern(method, params["name"].as_str().unwrap_or_default(), &request)?;
        } else {
            self.connection.post_body(&request)?;
        }
        if let Some(events) = &mut self.events {
            let (status, body) = self.connection.reply();
            if status >= 300 {
                return Err(format!("HTTP {status}: {}", String::from_utf8_lossy(body)));
            }
            return events.answer(id);
        }
        let message = self.connection.message()?;
        serde_json::from_slice(message)
            .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(message)))
    }
}
