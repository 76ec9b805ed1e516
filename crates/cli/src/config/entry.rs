//! One entry, whatever dialect it is written in: how to start the server or to reach it, and what binds its use.

mod codex;
mod listening;
mod oauth;
mod opencode;

use std::collections::BTreeSet;
use std::time::Duration;

use super::filter::ToolFilter;
use super::in_toml::TOP_LEVEL;
use super::source::Problem;
use super::tree::{Fields, Member, Node, Text, Value};
use super::{Dialect, called};

pub(super) use listening::{Listening, Scheme, Sides};
pub(super) use oauth::Oauth;

/// What an entry says, nothing expanded yet.
#[derive(Debug, PartialEq)]
pub(super) struct Definition {
    pub(super) way: Way,
    pub(super) description: Option<String>,
    pub(super) tools: ToolFilter,
    pub(super) timeout: Option<Duration>,
    /// How long the server may take to open.
    pub(super) opening: Option<Duration>,
    /// What `allowed_tools` and `disabled_tools` say, as it is written.
    pub(super) patterns: [Vec<Text>; 2],
    /// Other programs leave it out, and where that is said.
    pub(super) disabled: Option<usize>,
    /// What is not understood.
    pub(super) warnings: Vec<Problem>,
}

/// How the server is come by.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    Child(Child),
    Http(Remote),
    Listening(Listening),
}

/// A process that is started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) command: Text,
    pub(super) args: Vec<Text>,
    pub(super) env: Vec<(String, Text)>,
    pub(super) cwd: Option<Text>,
    /// A file with more variables; those of `env` win.
    pub(super) env_file: Option<Text>,
    /// The names of our own variables that it is given, where we have them.
    pub(super) passed: Vec<Text>,
}

/// A server that is reached by HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) url: Text,
    pub(super) headers: Vec<(String, Text)>,
    /// The HTTP+SSE of 2024-11-05, and nothing else.
    pub(super) sse: bool,
    /// The authorities that are trusted beside the system's.
    pub(super) ca: Option<Text>,
    /// How it is logged in to, where that is said.
    pub(super) oauth: Option<Oauth>,
}

/// What concerns other programs and their users alone: where an entry comes from, how it is restarted for those who write
/// it, and what they are not asked about.
const THEIRS: [&str; 9] =
    ["gallery", "version", "dev", "source", "settings", "trust", "alwaysAllow", "autoApprove", "watchPaths"];

/// The spellings of `type`, and what they mean.
const TYPES: [(&str, Type); 12] = [
    ("stdio", Type::Child),
    ("local", Type::Child),
    ("http", Type::Http),
    ("streamable-http", Type::Http),
    ("streamable_http", Type::Http),
    ("streamableHttp", Type::Http),
    ("streamablehttp", Type::Http),
    ("remote", Type::ByUrl),
    ("sse", Type::Sse),
    ("quic", Type::Listening(Scheme::Quic)),
    ("tcp", Type::Listening(Scheme::Tcp)),
    ("unix", Type::Listening(Scheme::Unix)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Child,
    /// Whatever the scheme of its address says.
    ByUrl,
    Http,
    Sse,
    Listening(Scheme),
}

impl Definition {
    pub(super) fn read(dialect: Dialect, entry: &Node) -> Result<Self, Problem> {
        let mut fields = Fields::new(entry.members("an entry")?);
        let mut warnings = Vec::new();
        let way = match dialect {
            Dialect::CodexToml => return codex::read(fields, entry.at),
            Dialect::OpencodeJson => return opencode::read(fields, entry.at),
            Dialect::McpServersJson | Dialect::VsCodeJson => {
                fields.ignore(&THEIRS);
                Way::read(&mut fields, entry.at, &["type", "transport"], &mut warnings)?
            }
            Dialect::ServersToml => {
                // Its name is known by now.
                fields.take(&["name"])?;
                let transport = fields.take(&["transport"])?.ok_or_else(|| {
                    Problem::new(
                        entry.at,
                        "transport is missing: transport = { type = \"stdio\", command = ... }",
                    )
                })?;
                let mut transport_fields = Fields::new(transport.node.members("transport")?);
                let way = Way::read(&mut transport_fields, transport.at, &["type"], &mut warnings)?;
                warnings.extend(transport_fields.unknown());
                way
            }
        };
        let description = match fields.take(&["description"])? {
            Some(member) => Some(member.node.text("description")?.text),
            None => None,
        };
        // Gemini CLI says includeTools and excludeTools.
        let mut allowed = texts(fields.take(&["allowed_tools", "allowedTools", "includeTools"])?)?;
        let mut disabled_tools = texts(fields.take(&["disabled_tools", "disabledTools", "excludeTools"])?)?;
        // Copilot CLI says tools, and an empty list of them is none.
        match fields.take(&["tools"])? {
            Some(member) if matches!(member.node.value, Value::List(_)) => {
                let at = member.at;
                let names = texts(Some(member))?;
                if names.is_empty() {
                    disabled_tools.push(Text { text: "*".into(), at });
                }
                allowed.extend(names);
            }
            Some(member) => {
                warnings.push(Problem::new(member.at, "tools is not used: it is no list of names"));
            }
            None => {}
        }
        warnings.extend(way.bare());
        let timeout = match fields.take(&["timeout_ms", "timeoutMs"])? {
            Some(member) => Some(member.node.time(&member.name, 1)?),
            None => None,
        };
        let off = match fields.take(&["disabled"])? {
            Some(member) if member.node.bool("disabled")? => Some(member.at),
            _ => None,
        };
        let off = disabled(&mut fields)?.or(off);
        warnings.extend(fields.unknown().map(|mut unknown| {
            let misplaced = dialect == Dialect::ServersToml
                && TOP_LEVEL.iter().any(|name| unknown.text.starts_with(&format!("{name} ")));
            if misplaced {
                unknown.text.push_str(": it belongs above the first [[servers]]");
            } else if unknown.text.starts_with("timeout ") {
                unknown.text = "timeout is not used, because its unit differs from program to program: \
                                write timeoutMs"
                    .into();
            }
            unknown
        }));
        let tools = ToolFilter::new(&allowed, &disabled_tools)?;
        let patterns = [allowed, disabled_tools];
        Ok(Self { way, description, tools, timeout, opening: None, patterns, disabled: off, warnings })
    }
}

/// Where it is said that the entry is not enabled.
fn disabled(fields: &mut Fields<'_>) -> Result<Option<usize>, Problem> {
    match fields.take(&["enabled"])? {
        Some(member) if !member.node.bool("enabled")? => Ok(Some(member.at)),
        _ => Ok(None),
    }
}

impl Way {
    /// `at`: where to say what is missing; `types`: the spellings of the member that names the type; `warnings`: takes what
    /// belongs to the other way to come by a server, and is not used.
    fn read(
        fields: &mut Fields<'_>,
        at: usize,
        types: &[&'static str],
        warnings: &mut Vec<Problem>,
    ) -> Result<Self, Problem> {
        let kind = fields.take(types)?;
        let mut command = fields.take(&["command"])?;
        let mut args = fields.take(&["args"])?;
        let mut env = fields.take(&["env"])?;
        // Zed has written all three as one object.
        if let Some(Member { node: Node { at, value: Value::Table(members) }, .. }) = command {
            let mut program = Fields::new(members);
            command = program.take(&["path"])?;
            if command.is_none() {
                return Err(Problem::new(*at, "command must be a string, or an object with path"));
            }
            args = program.take(&["args"])?.or(args);
            env = program.take(&["env"])?.or(env);
            warnings.extend(program.unknown());
        }
        let cwd = fields.take(&["cwd"])?;
        let env_file = fields.take(&["envFile", "env_file"])?;
        let url = fields.take(&["url", "httpUrl", "serverUrl", "baseUrl"])?;
        let header = fields.take(&["headers"])?;
        let login = fields.take(&["oauth"])?;
        let sides = listening::Members::take(fields)?;
        let kind = match (kind, command, url) {
            (Some(member), ..) => {
                let word = member.node.text(&member.name)?.text;
                let known = TYPES.iter().find(|(spelling, _)| *spelling == word);
                known.map(|(_, kind)| *kind).ok_or_else(|| {
                    let text = format!("{} must be stdio, http, sse, quic, tcp or unix", member.name);
                    Problem::new(member.node.at, text)
                })?
            }
            (None, Some(_), Some(url)) => {
                return Err(Problem::new(url.at, "there are both command and url: leave out one of them"));
            }
            (None, Some(_), None) => Type::Child,
            (None, None, Some(_)) => Type::ByUrl,
            (None, None, None) => {
                return Err(Problem::new(at, "command is missing, or url"));
            }
        };
        if kind != Type::Child {
            let url = url.ok_or_else(|| Problem::new(at, "url is missing"))?;
            let scheme = match kind {
                Type::Listening(scheme) => Some(scheme),
                Type::ByUrl => Scheme::of(&url.node.text(&url.name)?.text),
                Type::Child | Type::Http | Type::Sse => None,
            };
            let of_a_child = [command, args, env, env_file, cwd];
            if let Some(scheme) = scheme {
                warnings.extend(unused(&of_a_child, scheme.reached()));
                warnings.extend(unused(&[header, login], scheme.reached()));
                return Ok(Self::Listening(Listening::read(url, scheme, &sides, warnings)?));
            }
            let text = address(url, kind == Type::ByUrl)?;
            warnings.extend(unused(&of_a_child, "the server is reached over HTTP"));
            warnings.extend(unused(&[sides.pin, sides.cert, sides.key], "the server is reached over HTTP"));
            let ca = sides.ca.map(|member| member.node.text("ca")).transpose()?;
            return Ok(Self::Http(Remote {
                url: text,
                headers: headers(header)?,
                sse: kind == Type::Sse,
                ca,
                oauth: oauth::read(login, None, warnings)?,
            }));
        }
        let command = command.ok_or_else(|| Problem::new(at, "command is missing"))?;
        let of_a_listener = [url, header, login, sides.pin, sides.ca, sides.cert, sides.key];
        warnings.extend(unused(&of_a_listener, "the server is started as a program"));
        let command = command.node.text("command").map_err(|mut problem| {
            problem.text.push_str("; its arguments stand in args");
            problem
        })?;
        if command.text.is_empty() {
            return Err(Problem::new(command.at, "command is empty"));
        }
        let cwd = match cwd {
            Some(member) => Some(member.node.text("cwd")?),
            None => None,
        };
        let env_file = env_file.map(|member| member.node.text(&member.name)).transpose()?;
        if let Some(empty) = env_file.as_ref().filter(|file| file.text.is_empty()) {
            return Err(Problem::new(empty.at, "envFile is empty"));
        }
        let (args, env) = (texts(args)?, variables(env)?);
        Ok(Self::Child(Child { command, args, env, cwd, env_file, passed: Vec::new() }))
    }
    /// Where a variable was probably meant and is not read as one: `$NAME` without braces, which Gemini CLI expands. In the
    /// arguments of a program a shell may read it. Nothing is quoted: a secret may begin so.
    fn bare(&self) -> impl Iterator<Item = Problem> {
        let texts: Vec<&Text> = match self {
            Self::Child(child) => child.env.iter().map(|(_, text)| text).collect(),
            Self::Http(remote) => {
                std::iter::once(&remote.url).chain(remote.headers.iter().map(|(_, text)| text)).collect()
            }
            Self::Listening(_) => Vec::new(),
        };
        texts.into_iter().filter(|text| has_bare_name(&text.text)).map(|text| {
            let said = "a $NAME in it is passed on as it stands: ${NAME} would stand for the variable";
            Problem::new(text.at, said)
        })
    }
}

/// Whether a word of the text is `$NAME`, in capitals as the names of variables are.
fn has_bare_name(text: &str) -> bool {
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_$".contains(c)));
    words.any(|word| {
        let name = word.strip_prefix('$').unwrap_or_default();
        name.len() > 1
            && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    })
}

/// The address of a server over HTTP, as far as it can be seen to be one. `any`: one without HTTP could stand there, too.
fn address(url: &Member, any: bool) -> Result<Text, Problem> {
    let text = url.node.text(&url.name)?;
    let scheme = text.text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if let Some("sse+http" | "sse+https") = scheme.as_deref() {
        let problem = format!("{} must begin with http:// or https://; for HTTP+SSE, type is sse", url.name);
        return Err(Problem::new(text.at, problem));
    }
    // A variable may hold the whole of it.
    if !matches!(scheme.as_deref(), Some("http" | "https")) && !text.text.starts_with("${") {
        let schemes = if any { "http://, https://, quic://, tcp:// or unix:" } else { "http:// or https://" };
        return Err(Problem::new(text.at, format!("{} must begin with {schemes}", url.name)));
    }
    Ok(text)
}

/// What is said of members that have no meaning where the server is come by in the other way. One that says nothing is none.
fn unused(members: &[Option<&Member>], why: &str) -> Vec<Problem> {
    let empty = |value: &Value| match value {
        Value::List(items) => items.is_empty(),
        Value::Table(members) => members.is_empty(),
        Value::Text(text) => text.is_empty(),
        _ => false,
    };
    let given = members.iter().flatten().filter(|member| !empty(&member.node.value));
    given.map(|member| Problem::new(member.at, format!("{} is not used: {why}", member.name))).collect()
}

fn texts(member: Option<&Member>) -> Result<Vec<Text>, Problem> {
    member.map_or(Ok(Vec::new()), |member| member.node.texts(&member.name))
}

/// Variables: their names count letter for letter, and hold no `=`.
fn variables(member: Option<&Member>) -> Result<Vec<(String, Text)>, Problem> {
    pairs(member, |name| !name.contains(['=', '\0']), str::to_owned)
}

/// Headers: their names are [tokens](https://www.rfc-editor.org/rfc/rfc9110#section-5.1), and their case means nothing.
fn headers(member: Option<&Member>) -> Result<Vec<(String, Text)>, Problem> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    pairs(member, |name| name.chars().all(token), str::to_ascii_lowercase)
}

/// Names and texts. `key`: what no two names may share.
fn pairs(
    member: Option<&Member>,
    is_name: impl Fn(&str) -> bool,
    key: impl Fn(&str) -> String,
) -> Result<Vec<(String, Text)>, Problem> {
    let Some(member) = member else {
        return Ok(Vec::new());
    };
    let mut known = BTreeSet::new();
    let mut pairs = Vec::new();
    for pair in member.node.members(&member.name)? {
        let name = &pair.name;
        if name.is_empty() || !is_name(name) {
            return Err(Problem::new(pair.at, format!("{} has a name that cannot be one", member.name)));
        }
        if !known.insert(key(name)) {
            return Err(Problem::new(pair.at, format!("{} is given twice", called(name))));
        }
        pairs.push((name.clone(), pair.node.text(&format!("{}.{}", member.name, called(name)))?));
    }
    Ok(pairs)
}
