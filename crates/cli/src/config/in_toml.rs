//! The dialects in TOML: `[[servers]]` of mcp_servers.toml, where each table has a `name`, a `transport`, and what binds
//! its use, and scalars of the whole file stand before the first of them; `[mcp_servers.NAME]` of Codex
//! (<https://developers.openai.com/codex/mcp>), which stands among that program's other settings.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Dialect;
use super::source::{Problem, Source};
use super::tree::{Contents, Entry, Fields, Member, Node, Value};

/// The array that holds the entries.
const SERVERS: &str = "servers";
/// The table that holds those of Codex.
const CODEX: &str = "mcp_servers";
/// Scalars of the whole file that mean something to the program from which the dialect comes.
pub(super) const TOP_LEVEL: [&str; 5] = [AT_ONCE, "daemon_ttl", "retry_delay_ms", "retry_max", TIMEOUT];
/// Those of them that mean something here, too.
const TIMEOUT: &str = "timeout_secs";
const AT_ONCE: &str = "concurrency_limit";
/// Nobody runs more servers at once.
const MOST: u64 = 64;

pub(super) fn read(source: &Source) -> Result<(Dialect, Contents), Problem> {
    let root = DeTable::parse(source.text()).map_err(|error| {
        // The text of the error names what was expected, and nothing of what is there.
        let at = error.span().map_or(0, |span| span.start);
        Problem::new(at, format!("this is not TOML: {}", error.message()))
    })?;
    let members = members(root.into_inner());
    let mut fields = Fields::new(&members);
    let (servers, codex) = (fields.take(&[SERVERS])?, fields.take(&[CODEX])?);
    match (servers, codex) {
        (Some(servers), codex) => {
            let mut contents = tables(fields, servers)?;
            contents.warnings.extend(codex.map(|codex| {
                Problem::new(codex.at, format!("{CODEX} is not read, because [[{SERVERS}]] is there"))
            }));
            Ok((Dialect::ServersToml, contents))
        }
        (None, Some(codex)) => {
            let entry = |member: &Member| Entry {
                name: member.name.clone(),
                at: member.at,
                node: member.node.clone(),
            };
            let entries = codex.node.members(CODEX)?.iter().map(entry).collect();
            Ok((Dialect::CodexToml, Contents { entries, ..Contents::default() }))
        }
        (None, None) => Err(Problem::empty(format!("there is no [[{SERVERS}]] and no [{CODEX}.NAME]"))),
    }
}

/// Each table of the array is an entry.
fn tables(mut fields: Fields<'_>, servers: &Member) -> Result<Contents, Problem> {
    let mut contents = Contents::default();
    if let Some(timeout) = fields.take(&[TIMEOUT])? {
        match timeout.node.time(TIMEOUT, 1000) {
            Ok(timeout) => contents.timeout = Some(timeout),
            Err(problem) => contents.warnings.push(problem),
        }
    }
    if let Some(limit) = fields.take(&[AT_ONCE])? {
        match limit.node.whole(AT_ONCE).map(|limit| (usize::try_from(limit), (1..=MOST).contains(&limit))) {
            Ok((Ok(limit), true)) => contents.at_once = Some(limit),
            Ok(_) => {
                let text = format!("{AT_ONCE} must be from 1 to {MOST}");
                contents.warnings.push(Problem::new(limit.node.at, text));
            }
            Err(problem) => contents.warnings.push(problem),
        }
    }
    // How that program works, and no concern of one that starts servers for one question and ends them, and asks nothing
    // twice.
    for name in TOP_LEVEL.into_iter().filter(|name| ![TIMEOUT, AT_ONCE].contains(name)) {
        if let Some(member) = fields.take(&[name])?
            && let Err(problem) = member.node.whole(name)
        {
            contents.warnings.push(problem);
        }
    }
    contents.warnings.extend(fields.unknown());
    let Value::List(tables) = &servers.node.value else {
        return Err(Problem::new(servers.at, format!("{SERVERS} must be an array of tables: [[{SERVERS}]]")));
    };
    for table in tables {
        match name(table) {
            Ok((at, name)) => contents.entries.push(Entry { name, at, node: table.clone() }),
            Err(problem) => contents.warnings.push(problem),
        }
    }
    Ok(contents)
}

/// By what an entry is called, and where that stands.
fn name(table: &Node) -> Result<(usize, String), Problem> {
    let mut fields = Fields::new(table.members(SERVERS)?);
    let name = fields.take(&["name"])?.ok_or_else(|| Problem::new(table.at, "an entry has no name"))?;
    let text = name.node.text("name")?;
    if text.text.is_empty() {
        return Err(Problem::new(text.at, "an entry has an empty name"));
    }
    Ok((name.at, text.text))
}

/// In the order of the file.
fn members(table: DeTable<'_>) -> Vec<Member> {
    let mut members: Vec<Member> = table
        .into_iter()
        .map(|(name, value)| Member {
            at: name.span().start,
            name: name.into_inner().into_owned(),
            node: node(value),
        })
        .collect();
    members.sort_by_key(|member| member.at);
    members
}

fn node(value: Spanned<DeValue<'_>>) -> Node {
    let at = value.span().start;
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        // Of other bases nothing here has a use.
        DeValue::Integer(number) if number.radix() == 10 => Value::Number(number.as_str().to_owned()),
        DeValue::Integer(number) => Value::Number(format!("base {} {}", number.radix(), number.as_str())),
        DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::List(items.into_iter().map(node).collect()),
        DeValue::Table(table) => Value::Table(members(table)),
    };
    Node { at, value }
}
