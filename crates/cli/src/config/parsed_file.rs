//! The content of a configuration file: its dialect, its entries by name, and the settings of the whole file.
//!
//! - JSON: `mcpServers` of claude_desktop_config.json, .mcp.json, .cursor/mcp.json, mcp_servers.json and many more
//!   (<https://modelcontextprotocol.io/docs/develop/connect-local-servers>), `servers` and `inputs` of VS Code
//!   (<https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>), `mcp` of opencode
//!   (<https://opencode.ai/docs/mcp-servers/>), `context_servers` of Zed.
//! - TOML: `[[servers]]` of mcp_servers.toml, `[mcp_servers.NAME]` of Codex (<https://developers.openai.com/codex/mcp>).
//!
//! Called by `files`. Entries are not read here, so that a fault in one does not hide the others.

use std::path::Path;
use std::time::Duration;

use super::dialect::Dialect;
use super::source::{Problem, Source};
use super::tree::{Member, Node, Value, find, parse_json, parse_toml, similar, unknown};
use super::{called, tree};

/// The member that holds the entries in most files.
const MCP_SERVERS: &str = "mcpServers";
/// The member in the settings of Zed, whose entries have the same members.
const ZED_SERVERS: &str = "context_servers";
/// The members of a JSON file that hold entries, with their dialects. Of several the first is read.
const HOLDERS: [(&str, Dialect); 4] = [
    // Of several programs: the path of the file says of which.
    (MCP_SERVERS, Dialect::McpServersJson),
    ("servers", Dialect::VsCodeJson),
    ("mcp", Dialect::OpencodeJson),
    (ZED_SERVERS, Dialect::ZedJson),
];
/// The entries of Claude Code for single folders, by path. Most of its entries are there.
const PROJECTS: &str = "projects";

/// The array of tables in mcp_servers.toml.
const TOML_SERVERS: &str = "servers";
/// The table of tables of Codex.
const CODEX_SERVERS: &str = "mcp_servers";
/// The scalars of mcp_servers.toml above the first entry.
pub(super) const TOP_LEVEL: [&str; 5] =
    [CONCURRENCY_LIMIT, "daemon_ttl", "retry_delay_ms", "retry_max", TIMEOUT_SECS];
/// The scalars that are used here.
const TIMEOUT_SECS: &str = "timeout_secs";
const CONCURRENCY_LIMIT: &str = "concurrency_limit";
/// The largest value of [`CONCURRENCY_LIMIT`].
const MAX_CONCURRENCY: u64 = 64;

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct ParsedFile {
    pub(super) entries: Vec<Entry>,
    /// Faults and unknown members outside of the entries.
    pub(super) warnings: Vec<Problem>,
    /// The timeout of entries without one.
    pub(super) timeout: Option<Duration>,
    /// The limit of servers that run at once.
    pub(super) at_once: Option<usize>,
    /// The values that VS Code asks its user for.
    pub(super) inputs: Vec<Input>,
}

/// A value that an entry names with `${input:ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) id: String,
    pub(super) description: Option<String>,
    pub(super) default: Option<String>,
}

/// An entry that has not been read yet.
pub(super) type Entry = Member;

/// Reads a JSON file. `here`: the working directory.
pub(super) fn of_json(source: &Source, here: Option<&Path>) -> Result<(Dialect, ParsedFile), Problem> {
    let Some(Value::Table(root)) = parse_json(source.text())?.map(|root| root.value) else {
        return Err(Problem::new(0, format!("this must be an object with {MCP_SERVERS}")));
    };
    let local = here.map_or_else(Vec::new, |here| of_folder(&root, here));
    let mut parsed = ParsedFile { entries: local.clone(), ..ParsedFile::default() };
    let mut holders = Vec::new();
    for (name, dialect) in HOLDERS {
        holders.extend(find(&root, &[name])?.map(|member| (member, dialect)));
    }
    let mut holders = holders.into_iter();
    let Some((holder, mut dialect)) = holders.next() else {
        return if local.is_empty() { Err(no_servers(&root)) } else { Ok((Dialect::McpServersJson, parsed)) };
    };
    if dialect == Dialect::McpServersJson {
        dialect = Dialect::of_path(source.path());
    }
    let (mut servers, mut inputs) = (holder, find(&root, &["inputs"])?);
    // In the settings of VS Code, `mcp` has the content of its own file.
    let within = holder.node.members(&holder.name).unwrap_or_default();
    if dialect == Dialect::OpencodeJson && within.iter().any(|member| member.name == "servers") {
        dialect = Dialect::VsCodeJson;
        (servers, inputs) = (find(within, &["servers"])?.unwrap_or(holder), find(within, &["inputs"])?);
    }
    let Value::Table(members) = &servers.node.value else {
        let text = format!("{} must be an object of names and entries", servers.name);
        return Err(Problem::new(servers.node.at, text));
    };
    // Gemini CLI has other settings under `mcp`.
    let holds_tables = |member: &Member| {
        let members = member.node.members("").unwrap_or_default();
        members.iter().any(|member| matches!(member.node.value, Value::Table(_)))
    };
    for (other, _) in holders.filter(|(other, _)| holds_tables(other)) {
        let text = format!("{} is ignored, because {} is present", other.name, holder.name);
        parsed.warnings.push(Problem::new(other.at, text));
    }
    for member in members {
        let name = called(&member.name);
        if let Some(first) = local.iter().find(|first| first.name == member.name) {
            let line = source.line(first.at);
            let text = format!(
                "{name} is ignored, because this folder has an entry of that name in line \
                {line}"
            );
            parsed.warnings.push(Problem::new(member.at, text));
        } else if servers.name == ZED_SERVERS && is_extension(&member.node) {
            let text = format!("{name} is skipped: a Zed extension starts it");
            parsed.warnings.push(Problem::new(member.at, text));
        } else {
            parsed.entries.push(member.clone());
        }
    }
    if let Some(inputs) = inputs.filter(|_| dialect == Dialect::VsCodeJson) {
        match inputs.node.items("inputs") {
            Ok(items) => items.iter().for_each(|item| match input(item) {
                Ok(input) => parsed.inputs.push(input),
                Err(problem) => parsed.warnings.push(problem),
            }),
            Err(problem) => parsed.warnings.push(problem),
        }
    }
    Ok((dialect, parsed))
}

/// The entries of Claude Code for this folder, or for the nearest one above that has any.
fn of_folder(root: &[Member], here: &Path) -> Vec<Member> {
    let Ok(Some(projects)) = find(root, &[PROJECTS]) else { return Vec::new() };
    let projects = projects.node.members(PROJECTS).unwrap_or_default();
    let of = |folder: &Path| {
        let project = projects.iter().find(|project| Path::new(&project.name) == folder)?;
        let members = project.node.members(PROJECTS).ok()?;
        let servers = members.iter().find(|member| member.name == MCP_SERVERS)?;
        Some(servers.node.members(MCP_SERVERS).ok()?.to_vec()).filter(|servers| !servers.is_empty())
    };
    here.ancestors().find_map(of).unwrap_or_default()
}

/// Whether an extension of Zed starts the server, so that the entry says nothing of it.
fn is_extension(entry: &Node) -> bool {
    let members = entry.members("an entry").unwrap_or_default();
    let has = |name: &str| members.iter().any(|member| member.name == name);
    !has("command") && !has("url") && (has("settings") || has("source"))
}

/// A value that VS Code asks its user for.
fn input(item: &Node) -> Result<Input, Problem> {
    let members = item.members("an input")?;
    let id = find(members, &["id"])?.ok_or_else(|| Problem::new(item.at, "an input has no id"))?;
    let text = |name| find(members, &[name])?.map(|member| Ok(member.text()?.text)).transpose();
    let (description, default) = (text("description")?, text("default")?);
    Ok(Input { id: id.text()?.text, description, default })
}

/// The problem of a file without entries, with the member that was probably meant to hold them.
fn no_servers(root: &[Member]) -> Problem {
    let meant = similar(MCP_SERVERS, root.iter().map(|member| member.name.as_str()));
    match root.iter().find(|member| Some(member.name.as_str()) == meant) {
        Some(member) => {
            let name = called(&member.name);
            Problem::new(
                member.at,
                format!("no \"{MCP_SERVERS}\" key; did you mean \"{MCP_SERVERS}\" instead of \"{name}\"?"),
            )
        }
        None => Problem::empty(format!("no \"{MCP_SERVERS}\" key")),
    }
}

/// Reads a TOML file.
pub(super) fn of_toml(source: &Source) -> Result<(Dialect, ParsedFile), Problem> {
    let root = parse_toml(source.text())?;
    match (find(&root, &[TOML_SERVERS])?, find(&root, &[CODEX_SERVERS])?) {
        (Some(servers), codex) => {
            let mut parsed = of_tables(&root, servers)?;
            parsed.warnings.extend(codex.map(|codex| {
                let text = format!("{CODEX_SERVERS} is ignored, because [[{TOML_SERVERS}]] is present");
                Problem::new(codex.at, text)
            }));
            Ok((Dialect::ServersToml, parsed))
        }
        (None, Some(codex)) => {
            let entries = codex.node.members(CODEX_SERVERS)?.to_vec();
            Ok((Dialect::CodexToml, ParsedFile { entries, ..ParsedFile::default() }))
        }
        (None, None) => {
            Err(Problem::empty(format!("there is no [[{TOML_SERVERS}]] and no [{CODEX_SERVERS}.NAME]")))
        }
    }
}

/// Each table of the array is an entry.
fn of_tables(root: &[Member], servers: &Member) -> Result<ParsedFile, Problem> {
    let mut parsed = ParsedFile::default();
    if let Some(timeout) = find(root, &[TIMEOUT_SECS])? {
        match timeout.node.time(TIMEOUT_SECS, 1000) {
            Ok(timeout) => parsed.timeout = Some(timeout),
            Err(problem) => parsed.warnings.push(problem),
        }
    }
    if let Some(limit) = find(root, &[CONCURRENCY_LIMIT])? {
        match limit.node.whole(CONCURRENCY_LIMIT) {
            Ok(limit @ 1..=MAX_CONCURRENCY) => parsed.at_once = usize::try_from(limit).ok(),
            Ok(_) => {
                let text = format!("{CONCURRENCY_LIMIT} must be from 1 to {MAX_CONCURRENCY}");
                parsed.warnings.push(Problem::new(limit.node.at, text));
            }
            Err(problem) => parsed.warnings.push(problem),
        }
    }
    // The others are for a program that keeps servers running and retries. Here a server runs for one command.
    for name in TOP_LEVEL.into_iter().filter(|name| ![TIMEOUT_SECS, CONCURRENCY_LIMIT].contains(name)) {
        let number = find(root, &[name])?.map(|member| member.node.whole(name));
        parsed.warnings.extend(number.and_then(Result::err));
    }
    let known = [&[TOML_SERVERS, CODEX_SERVERS][..], &TOP_LEVEL].concat();
    parsed.warnings.extend(unknown(root, &known, &[]));
    let Value::List(tables) = &servers.node.value else {
        let text = format!("{TOML_SERVERS} must be an array of tables: [[{TOML_SERVERS}]]");
        return Err(Problem::new(servers.at, text));
    };
    for table in tables {
        match name_of(table) {
            Ok((at, name)) => parsed.entries.push(Entry { name, at, node: table.clone() }),
            Err(problem) => parsed.warnings.push(problem),
        }
    }
    Ok(parsed)
}

/// The name of an entry, and its place.
fn name_of(table: &Node) -> Result<(usize, String), Problem> {
    let name = find(table.members(TOML_SERVERS)?, &["name"])?;
    let name = name.ok_or_else(|| Problem::new(table.at, "an entry has no name"))?;
    let tree::Text { at, text } = name.text()?;
    if text.is_empty() {
        return Err(Problem::new(at, "an entry has an empty name"));
    }
    Ok((name.at, text))
}
