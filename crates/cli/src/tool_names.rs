//! The names of the tools that a server has listed, with those of their parameters: what the shell completes behind its name,
//! because no server is started or reached at a Tab key.
//!
//! `connect` remembers them for every verb that opens a session; `completion` reads them. The server
//! chooses the names, so that only names of plain characters are kept: no shell obeys a part of them. The file may be missing,
//! damaged or read-only, and no command fails because of that.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::Reply;
use mcpjoin::proto::{Method, Raw};

use crate::cache_file::{Format, Servers};
use crate::config::ToolFilter;
use crate::folders;
use crate::object::Object;
use crate::target::Target;

/// The servers in the file: those whose tools have changed last.
const MAX_SERVERS: usize = 128;
/// The names of one server.
const MAX_SERVER_BYTES: usize = 64 << 10;
/// A larger file was not written by us.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// A longer name is not completed.
const MAX_NAME_BYTES: usize = 128;
/// The file has the tools of each server: `NAME(PARAMETER,PARAMETER)`, separated by spaces.
static FORMAT: Format =
    Format { magic: "mcpjoin-tools-1", max_bytes: MAX_FILE_BYTES, max_servers: MAX_SERVERS };

/// The tools of one server.
#[derive(Debug)]
pub(crate) struct ToolNames {
    file: PathBuf,
    /// What the server is. The file holds its hash, with the salt of the file.
    server: Vec<u8>,
}

impl ToolNames {
    /// The tools of a target. `entry`: the file that has it, where it is an entry. `None` without a cache folder, and for a
    /// demonstration server, which this program asks itself.
    pub(crate) fn of(target: &Target, entry: Option<&Path>) -> Option<Self> {
        let server = identity(target, entry)?;
        Some(Self { file: folders::cache()?.join("mcpjoin").join("tools"), server })
    }

    /// The names of the tools, each with those of its parameters.
    pub(crate) fn read(&self) -> Vec<(String, Vec<String>)> {
        let servers: Option<Servers<String>> = Servers::read(&self.file, &FORMAT);
        let listed = servers.as_ref().and_then(|servers| servers.of(&self.server));
        listed.into_iter().flat_map(|listed| listed.split(' ')).filter_map(tool).collect()
    }

    /// Stores the tools where they have changed. `whole`: these are all tools, and not only the first ones.
    fn store(&self, listed: &str, whole: bool) -> std::io::Result<()> {
        // Read again, because other processes write, too. Of two that write at once the later one wins.
        let mut servers: Servers<String> = Servers::read_or_new(&self.file, &FORMAT)?;
        let known = servers.of(&self.server);
        if known.is_some_and(|known| !whole || known == listed) || known.is_none() && listed.is_empty() {
            return Ok(());
        }
        servers.put(&self.server, Some(listed.to_owned()));
        servers.write(&self.file)
    }
}

/// The client, which remembers the tools that the server lists and `filter` allows.
pub(crate) fn remembering(
    client: ClientBuilder,
    names: &Arc<ToolNames>,
    filter: &ToolFilter,
) -> ClientBuilder {
    let (names, filter) = (names.clone(), filter.clone());
    let listed = Arc::new(Mutex::new(String::new()));
    client.layer(move |call, next| {
        let (names, filter, listed) = (names.clone(), filter.clone(), listed.clone());
        async move {
            let cursor =
                |params: &Raw| Object::of(params).is_some_and(|params| params.value("cursor").is_some());
            let lists = call.method == Method::ListTools;
            let is_first = !call.params.as_ref().is_some_and(|params| cursor(params.raw()));
            let outcome = next.run(call).await;
            if let (true, Ok(Reply::Complete(page))) = (lists, &outcome)
                && let Some(page) = Object::of(page)
            {
                let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
                if is_first {
                    listed.clear();
                }
                add(&mut listed, &page, &filter);
                let is_last = page.value("nextCursor").is_none();
                if is_first || is_last {
                    // Without the file nothing is completed.
                    let _ = names.store(&listed, is_last);
                }
            }
            outcome
        }
    })
}

/// Adds the tools of a page, up to the limit.
fn add(listed: &mut String, page: &Object, filter: &ToolFilter) {
    for tool in page.items("tools").unwrap_or_default().iter().filter_map(Object::of) {
        let Some(name) = tool.text("name").filter(|name| is_plain(name) && filter.allows(name)) else {
            continue;
        };
        let schema = tool.value("inputSchema").and_then(Object::of);
        let properties = schema.as_ref().and_then(|schema| schema.value("properties")).and_then(Object::of);
        let parameters: Vec<String> =
            properties.into_iter().flatten().map(|(name, _)| name).filter(|name| is_plain(name)).collect();
        let before = listed.len();
        let separator = if before == 0 { "" } else { " " };
        let _ = write!(listed, "{separator}{name}({})", parameters.join(","));
        if listed.len() > MAX_SERVER_BYTES {
            listed.truncate(before);
            return;
        }
    }
}

/// Reads `NAME(PARAMETER,PARAMETER)`. Another program may have written the file.
fn tool(text: &str) -> Option<(String, Vec<String>)> {
    let (name, parameters) = text.strip_suffix(')')?.split_once('(')?;
    let parameters = parameters.split(',').filter(|name| is_plain(name)).map(str::to_owned);
    is_plain(name).then(|| (name.to_owned(), parameters.collect()))
}

/// Whether a name consists of characters that no shell obeys, and is no option.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.starts_with('-') && name.bytes().all(is_plain)
}

/// What a target is; `None` for a demonstration server.
fn identity(target: &Target, entry: Option<&Path>) -> Option<Vec<u8>> {
    let here = || std::env::current_dir().unwrap_or_default().into_os_string().into_encoded_bytes();
    let parts = match (target, entry) {
        (Target::Demo(_), _) => return None,
        (Target::Entry(named), Some(file)) => {
            // Two projects may have entries of one name.
            let file = std::path::absolute(file).ok()?;
            vec![
                b"entry".to_vec(),
                file.into_os_string().into_encoded_bytes(),
                named.name.clone().into_bytes(),
            ]
        }
        // Without such an entry the word is a program.
        (Target::Entry(named), None) => vec![b"command".to_vec(), here(), named.name.clone().into_bytes()],
        (Target::Command { program, args }, _) => {
            let words = std::iter::once(program).chain(args);
            let words = words.map(|word| word.as_encoded_bytes().to_vec());
            [b"command".to_vec(), here()].into_iter().chain(words).collect()
        }
        (Target::Http(address), _) => {
            let place = address.url.split('?').next().unwrap_or_default();
            vec![b"url".to_vec(), place.as_bytes().to_vec()]
        }
        (other, _) => vec![b"address".to_vec(), other.label().into_bytes()],
    };
    let framed = |part: Vec<u8>| [(part.len() as u64).to_be_bytes().to_vec(), part].concat();
    Some(parts.into_iter().flat_map(framed).collect())
}

#[cfg(test)]
mod tests;
