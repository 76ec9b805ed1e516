//! The dialects in JSON: `mcpServers` of claude_desktop_config.json, .mcp.json, .cursor/mcp.json, mcp_servers.json and many
//! more (<https://modelcontextprotocol.io/docs/develop/connect-local-servers>), `servers` and `inputs` of VS Code
//! (<https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>), `mcp` of opencode
//! (<https://opencode.ai/docs/mcp-servers/>). What people add to them by hand is read, too: comments, trailing commas, and
//! the rest of JSON5.

use std::path::Path;

use jsonc_parser::ast::Value as Ast;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::source::{Problem, Source};
use super::tree::{Contents, Entry, Fields, Input, Member, Node, Value, similar};
use super::{Dialect, called};

/// The member that holds the entries in most files.
const SERVERS: &str = "mcpServers";
/// What holds the entries, and in which dialect; of several the first one counts.
const HOLDERS: [(&str, Dialect); 4] = [
    (SERVERS, Dialect::McpServersJson),
    ("servers", Dialect::VsCodeJson),
    ("mcp", Dialect::OpencodeJson),
    // The settings of Zed, whose entries have the same members.
    (ZED, Dialect::McpServersJson),
];
const ZED: &str = "context_servers";

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: true,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: true,
    allow_hexadecimal_numbers: true,
    allow_unary_plus_numbers: true,
    allow_bare_decimal_point_numbers: true,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: true,
};

/// What Claude Code keeps for each folder, by its path; most of its entries are there.
const PROJECTS: &str = "projects";

/// `here`: the folder that is worked in.
pub(super) fn read(source: &Source, here: Option<&Path>) -> Result<(Dialect, Contents), Problem> {
    let root = parse_to_ast(source.text(), &CollectOptions::default(), &OPTIONS)
        .map_err(|error| syntax(&error))?
        .value;
    let Some(Value::Table(root)) = root.map(|root| node(root).value) else {
        return Err(Problem::new(0, format!("this must be an object with {SERVERS}")));
    };
    let mut fields = Fields::new(&root);
    let local = here.map_or_else(Vec::new, |here| local(&mut fields, here));
    let mut held = Vec::new();
    for (name, dialect) in HOLDERS {
        held.extend(fields.take(&[name])?.map(|member| (member, dialect)));
    }
    let mut held = held.into_iter();
    let Some((holder, mut dialect)) = held.next() else {
        if local.is_empty() {
            return Err(missing(&root));
        }
        let entries = local.iter().map(entry).collect();
        return Ok((Dialect::McpServersJson, Contents { entries, ..Contents::default() }));
    };
    let mut servers = holder;
    let mut inputs = fields.take(&["inputs"])?;
    // The settings of VS Code hold under `mcp` what its own file is.
    let within = holder.node.members(&holder.name).unwrap_or_default();
    if dialect == Dialect::OpencodeJson && within.iter().any(|member| member.name == "servers") {
        dialect = Dialect::VsCodeJson;
        let mut fields = Fields::new(within);
        servers = fields.take(&["servers"])?.unwrap_or(holder);
        inputs = fields.take(&["inputs"])?;
    }
    let Value::Table(members) = &servers.node.value else {
        let text = format!("{} must be an object: a name and what it starts", servers.name);
        return Err(Problem::new(servers.node.at, text));
    };
    let mut contents = Contents::default();
    // Gemini CLI has settings of another kind under `mcp`.
    let holds = |member: &Member| matches!(member.node.value, Value::Table(_));
    for (other, _) in held.filter(|(other, _)| other.node.members("").unwrap_or_default().iter().any(holds)) {
        let text = format!("{} is not read, because {} is there", other.name, holder.name);
        contents.warnings.push(Problem::new(other.at, text));
    }
    contents.entries = local.iter().map(entry).collect();
    for member in members {
        if let Some(first) = local.iter().find(|first| first.name == member.name) {
            let text = format!(
                "{} is not read, because this folder has one of that name in line {}",
                called(&member.name),
                source.line(first.at)
            );
            contents.warnings.push(Problem::new(member.at, text));
        } else if servers.name == ZED && is_extension(&member.node) {
            let text = format!("{} is left out: an extension of Zed starts it", called(&member.name));
            contents.warnings.push(Problem::new(member.at, text));
        } else {
            contents.entries.push(entry(member));
        }
    }
    if let Some(inputs) = inputs.filter(|_| dialect == Dialect::VsCodeJson) {
        match inputs.node.items("inputs") {
            Ok(items) => items.iter().for_each(|item| match input(item) {
                Ok(input) => contents.inputs.push(input),
                Err(problem) => contents.warnings.push(problem),
            }),
            Err(problem) => contents.warnings.push(problem),
        }
    }
    Ok((dialect, contents))
}

fn entry(member: &Member) -> Entry {
    Entry { name: member.name.clone(), at: member.at, node: member.node.clone() }
}

/// The entries that Claude Code keeps for this folder, or for the nearest one above that has any.
fn local(fields: &mut Fields<'_>, here: &Path) -> Vec<Member> {
    let Ok(Some(projects)) = fields.take(&[PROJECTS]) else { return Vec::new() };
    let projects = projects.node.members(PROJECTS).unwrap_or_default();
    let of = |folder: &Path| {
        let project = projects.iter().find(|project| Path::new(&project.name) == folder)?;
        let held = project.node.members(PROJECTS).ok()?;
        let servers = held.iter().find(|member| member.name == SERVERS)?.node.members(SERVERS).ok()?;
        Some(servers.to_vec()).filter(|servers| !servers.is_empty())
    };
    here.ancestors().find_map(of).unwrap_or_default()
}

/// Nothing of an entry says how the server is come by: Zed knows that of an extension alone.
fn is_extension(entry: &Node) -> bool {
    let members = entry.members("an entry").unwrap_or_default();
    let has = |name: &str| members.iter().any(|member| member.name == name);
    !has("command") && !has("url") && (has("settings") || has("source"))
}

/// A value that VS Code asks its user for.
fn input(item: &Node) -> Result<Input, Problem> {
    let mut fields = Fields::new(item.members("an input")?);
    let id = fields.take(&["id"])?.ok_or_else(|| Problem::new(item.at, "an input has no id"))?;
    let mut text = |name| match fields.take(&[name])? {
        Some(member) => Ok(Some(member.node.text(name)?.text)),
        None => Ok(None),
    };
    let (description, default) = (text("description")?, text("default")?);
    Ok(Input { id: id.node.text("id")?.text, description, default })
}

/// Nothing of the text is repeated: it may be a part of a secret.
fn syntax(error: &ParseError) -> Problem {
    let text = match error.kind() {
        ParseErrorKind::String(_) => "a string is not well-formed".to_owned(),
        kind => kind.to_string(),
    };
    Problem::new(error.range().start, format!("this is not JSON: {text}"))
}

/// There is no member with the entries: says what there is.
fn missing(root: &[Member]) -> Problem {
    let meant = similar(SERVERS, root.iter().map(|member| member.name.as_str()));
    match root.iter().find(|member| Some(member.name.as_str()) == meant) {
        Some(member) => Problem::new(
            member.at,
            format!("there is no {SERVERS}; is {} meant to be it?", called(&member.name)),
        ),
        None => Problem::empty(format!("there is no {SERVERS}")),
    }
}

fn node(ast: Ast<'_>) -> Node {
    match ast {
        Ast::StringLit(text) => Node { at: text.range.start, value: Value::Text(text.value.into_owned()) },
        Ast::NumberLit(number) => {
            Node { at: number.range.start, value: Value::Number(number.value.to_owned()) }
        }
        Ast::BooleanLit(value) => Node { at: value.range.start, value: Value::Bool(value.value) },
        Ast::NullKeyword(null) => Node { at: null.range.start, value: Value::Null },
        Ast::Array(array) => {
            Node { at: array.range.start, value: Value::List(array.elements.into_iter().map(node).collect()) }
        }
        Ast::Object(object) => Node {
            at: object.range.start,
            value: Value::Table(
                object
                    .properties
                    .into_iter()
                    .map(|member| Member {
                        name: member.name.as_str().to_owned(),
                        at: member.range.start,
                        node: node(member.value),
                    })
                    .collect(),
            ),
        },
    }
}
