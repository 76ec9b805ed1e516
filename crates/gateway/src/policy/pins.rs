//! Pinned tools: a tool whose definition is not the one that the operator has read is withheld.
//!
//! A server can replace the description that people have accepted by another one, which a model then obeys ("rug
//! pull"). So each definition in a list that passes is compared with the pinned one by `mcpjoin_rules`, as
//! `mcpjoin diff` does. A call needs a definition that was compared within the last minute: otherwise the list is read
//! first. Used by `admission`. <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#security-considerations>

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::{Call, CallError, Reply};
use mcpjoin_proto::{ErrorObject, Kind, Method, Payload, Raw};
use mcpjoin_rules::{Change, ChangeClass, Offer, changes};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::errors::failure;
use mcpjoin::connection::Connection;

/// Bytes of a file of pinned tools: ten thousand tools with long schemas.
pub(super) const MAX_PIN_BYTES: u64 = 32 * 1024 * 1024;
/// Pages that are read of a list of tools, as in the translation of tasks. What follows is withheld.
const MAX_PAGES: usize = 1_000;
/// How long a comparison is enough for calls: a change that the server does not report is noticed after this time.
const COMPARED_FOR: Duration = Duration::from_secs(60);

/// The key of `reported` for tools that are not pinned. No tool can have this name.
const UNPINNED: &str = "";

/// The pinned tools of a target.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) path: PathBuf,
    tools: BTreeMap<String, Raw>,
    /// What was compared at each connection to the target that has not ended.
    compared: Mutex<Vec<Arc<Compared>>>,
    /// The last definition of each pinned tool that was reported, and one of a tool that is not pinned.
    reported: Mutex<BTreeMap<String, Raw>>,
}

#[derive(Debug)]
struct Compared {
    connection: Connection,
    state: Mutex<State>,
    /// Held while the list is read, so that calls which need it read it once.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The tools whose last definition was the pinned one.
    same: BTreeSet<String>,
    /// When the whole list was read.
    read: Option<Instant>,
}

/// Receives the name of a tool that is withheld, and its differences.
pub(super) type OnWithheld<'a> = &'a (dyn Fn(&str, &[Change]) + Send + Sync);

impl PartialEq for Pin {
    fn eq(&self, other: &Self) -> bool {
        self.tools == other.tools
    }
}

impl Pin {
    /// Reads a file that `mcpjoin list --json` has written.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let no = |problem: String| format!("{} {problem}", path.display());
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_PIN_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| no(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > MAX_PIN_BYTES {
            return Err(no(format!("is above the limit of {MAX_PIN_BYTES} bytes")));
        }
        // PowerShell writes a byte order mark.
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(bytes);
        let document = Raw::parse(text).map_err(|error| no(format!("is not valid JSON: {error}")))?;
        let tools = document.member("tools").and_then(|tools| tools.decode::<Vec<Raw>>().ok());
        let tools = tools
            .filter(|_| document.member("protocolVersion").is_some() && document.member("errors").is_none());
        let tools = tools.ok_or_else(|| {
            no("is not a complete list of tools, as `mcpjoin list --json TARGET` writes it".into())
        })?;
        let mut named = BTreeMap::new();
        for tool in tools {
            let name = name_of(&tool).ok_or_else(|| no("has a tool without a name".into()))?;
            if named.insert(name.clone(), tool).is_some() {
                return Err(no(format!("has two tools of the name {name:?}")));
            }
        }
        Ok(Self { path: path.into(), tools: named, compared: Mutex::default(), reported: Mutex::default() })
    }

    /// Compares the tools of a list that came over this connection. Returns whether each may pass.
    pub(super) fn compare(
        &self,
        connection: &Connection,
        tools: &[Raw],
        on_withheld: OnWithheld<'_>,
    ) -> Vec<bool> {
        let compared = self.compared(connection);
        let passes: Vec<bool> = tools.iter().map(|tool| self.is_same(tool, on_withheld)).collect();
        let mut state = compared.state.lock();
        let (mut same, mut other) = (Vec::new(), Vec::new());
        for (tool, passes) in tools.iter().zip(&passes) {
            if let Some(name) = name_of(tool) {
                if *passes { &mut same } else { &mut other }.push(name);
            }
        }
        state.same.extend(same);
        // Last, because of two tools of one name a call may reach either.
        for name in &other {
            state.same.remove(name);
        }
        passes
    }

    /// Whether the definition is the pinned one. Reports a difference once.
    fn is_same(&self, tool: &Raw, on_withheld: OnWithheld<'_>) -> bool {
        let name = name_of(tool);
        let pinned = name.as_ref().and_then(|name| self.tools.get(name));
        if pinned.is_some_and(|pinned| pinned.as_str() == tool.as_str()) {
            return true;
        }
        // A server may list any number of tools that are not pinned. One of them is reported.
        if pinned.is_none() && self.reported.lock().contains_key(UNPINNED) {
            return false;
        }
        let offer = |tool: &Raw| Offer { tools: vec![tool.clone()], ..Offer::default() };
        let differences = changes(&pinned.map(offer).unwrap_or_default(), &offer(tool));
        if differences.iter().all(|change| change.class == ChangeClass::Noted) {
            return true;
        }
        let Some(name) = name else { return false };
        let key = if pinned.is_some() { &*name } else { UNPINNED };
        let last = self.reported.lock().insert(key.into(), tool.clone());
        if last.is_none_or(|last| last.as_str() != tool.as_str()) {
            on_withheld(&name, &differences);
        }
        false
    }

    /// Whether a tool may be called over this connection. Reads the list of tools if it was not compared lately.
    pub(super) async fn permits(
        &self,
        connection: &Connection,
        tool: &str,
        on_withheld: OnWithheld<'_>,
    ) -> Result<bool, ErrorObject> {
        if !self.tools.contains_key(tool) {
            return Ok(false);
        }
        let compared = self.compared(connection);
        let _reading = compared.reading.lock().await;
        let is_recent = compared.state.lock().read.is_some_and(|read| read.elapsed() < COMPARED_FOR);
        if !is_recent {
            self.read_list(connection, on_withheld).await?;
            compared.state.lock().read = Some(Instant::now());
        }
        Ok(compared.state.lock().same.contains(tool))
    }

    async fn read_list(
        &self,
        connection: &Connection,
        on_withheld: OnWithheld<'_>,
    ) -> Result<(), ErrorObject> {
        let unread = |why: &str| {
            let text = format!("the tools of the server could not be compared with the pinned ones: {why}");
            failure("notCompared", &text, &[])
        };
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let mut params = Payload::from_raw(Raw::empty_object());
            if let Some(cursor) = &cursor {
                params = params.with_member("cursor", cursor);
            }
            let call = Call::new(Method::ListTools).with_params(params.into_raw());
            let page = match connection.call(call).await {
                Ok(Reply::Verbatim(page)) => page.into_raw(),
                Ok(Reply::Complete(page)) => page,
                Err(CallError::Remote(error)) => return Err(unread(&error.message)),
                // The text of another error may contain what the server has written on standard error.
                _ => return Err(unread("it did not answer with its list of tools")),
            };
            let tools = page.member("tools").and_then(|tools| tools.decode::<Vec<Raw>>().ok());
            self.compare(connection, &tools.ok_or_else(|| unread("the list is not valid"))?, on_withheld);
            cursor = page.member("nextCursor").filter(|cursor| cursor.kind() == Kind::String);
            if cursor.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn compared(&self, connection: &Connection) -> Arc<Compared> {
        let mut compared = self.compared.lock();
        if let Some(known) = compared.iter().find(|known| known.connection.is(connection)) {
            return known.clone();
        }
        compared.retain(|known| known.connection.close_cause().is_none());
        let new = Compared {
            connection: connection.clone(),
            state: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        };
        let new = Arc::new(new);
        compared.push(new.clone());
        new
    }
}

pub(super) fn name_of(tool: &Raw) -> Option<String> {
    Some(tool.member("name")?.to_string_value()?.into_owned())
}
