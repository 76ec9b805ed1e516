//! An entry of Codex: `[mcp_servers.NAME]` of its config.toml (<https://developers.openai.com/codex/mcp>).

use super::{Child, Definition, Remote, Way, address, disabled, headers, oauth, texts, unused, variables};
use crate::config::called;
use crate::config::filter::ToolFilter;
use crate::config::source::Problem;
use crate::config::tree::{Fields, Member, Text, Value};

/// What concerns that program and its user alone.
const THEIRS: [&str; 6] = [
    "default_tools_approval_mode",
    "environment_id",
    "oauth_resource",
    "required",
    "supports_parallel_tool_calls",
    "tools",
];

pub(super) fn read(mut fields: Fields<'_>, at: usize) -> Result<Definition, Problem> {
    let mut warnings = Vec::new();
    let (command, args) = (fields.take(&["command"])?, fields.take(&["args"])?);
    let (env, cwd) = (fields.take(&["env"])?, fields.take(&["cwd"])?);
    // Which of its variables that program passes on.
    let passed = fields.take(&["env_vars"])?;
    let url = fields.take(&["url"])?;
    let bearer = fields.take(&["bearer_token_env_var"])?;
    let (written, named) = (fields.take(&["http_headers"])?, fields.take(&["env_http_headers"])?);
    let (login, scopes) = (fields.take(&["oauth"])?, fields.take(&["scopes"])?);
    let way = match (command, url) {
        (Some(_), Some(url)) => {
            return Err(Problem::new(url.at, "there are both command and url: leave out one of them"));
        }
        (None, None) => return Err(Problem::new(at, "command is missing, or url")),
        (Some(command), None) => {
            warnings.extend(unused(
                &[bearer, written, named, login, scopes],
                "the server is started as a program",
            ));
            let command = command.node.text("command")?;
            if command.text.is_empty() {
                return Err(Problem::new(command.at, "command is empty"));
            }
            let cwd = match cwd {
                Some(member) => Some(member.node.text("cwd")?),
                None => None,
            };
            let (args, env) = (texts(args)?, variables(env)?);
            Way::Child(Child { command, args, env, cwd, env_file: None, passed: names(passed)? })
        }
        (None, Some(url)) => {
            warnings.extend(unused(&[args, env, cwd, passed], "the server is reached over HTTP"));
            let mut sent = headers(written)?;
            for (name, variable) in headers(named)? {
                add(&mut sent, name, of_variable("", variable)?)?;
            }
            if let Some(bearer) = bearer {
                let variable = bearer.node.text("bearer_token_env_var")?;
                add(&mut sent, "Authorization".into(), of_variable("Bearer ", variable)?)?;
            }
            let oauth = oauth::read(login, scopes, &mut warnings)?;
            Way::Http(Remote { url: address(url, false)?, headers: sent, sse: false, ca: None, oauth })
        }
    };
    let mut seconds = |name| match fields.take(&[name])? {
        Some(member) => member.node.seconds(name).map(Some),
        None => Ok(None),
    };
    let (opening, timeout) = (seconds("startup_timeout_sec")?, seconds("tool_timeout_sec")?);
    let opening = match fields.take(&["startup_timeout_ms"])? {
        Some(member) => Some(member.node.time("startup_timeout_ms", 1)?),
        None => opening,
    };
    let allowed = texts(fields.take(&["enabled_tools"])?)?;
    let denied = texts(fields.take(&["disabled_tools"])?)?;
    let off = disabled(&mut fields)?;
    for name in THEIRS {
        fields.take(&[name])?;
    }
    warnings.extend(fields.unknown());
    let tools = ToolFilter::new(&allowed, &denied)?;
    let patterns = [allowed, denied];
    Ok(Definition { way, description: None, tools, timeout, opening, patterns, disabled: off, warnings })
}

/// One more header. Of two with one name it is not clear which is meant.
fn add(sent: &mut Vec<(String, Text)>, name: String, value: Text) -> Result<(), Problem> {
    if sent.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
        return Err(Problem::new(value.at, format!("{} is given twice", called(&name))));
    }
    sent.push((name, value));
    Ok(())
}

/// The names of variables, each a text or, with where it comes from, a table. One that does not come from this machine is
/// not ours to pass on.
fn names(member: Option<&Member>) -> Result<Vec<Text>, Problem> {
    let mut names = Vec::new();
    for item in member.map_or(Ok(&[][..]), |member| member.node.items("env_vars"))? {
        let name = match &item.value {
            Value::Table(members) => {
                let mut fields = Fields::new(members);
                let source =
                    fields.take(&["source"])?.map(|source| source.node.text("source")).transpose()?;
                let missing = || Problem::new(item.at, "each of env_vars must have a name");
                let name = fields.take(&["name"])?.ok_or_else(missing)?.node.text("name")?;
                if source.is_some_and(|source| source.text != "local") {
                    continue;
                }
                name
            }
            _ => item.text("each of env_vars")?,
        };
        if !crate::config::variables::is_name(&name.text) {
            return Err(Problem::new(name.at, "this is the name of no variable"));
        }
        names.push(name);
    }
    Ok(names)
}

/// What a variable holds, behind those words: written as other dialects write it.
fn of_variable(before: &str, variable: Text) -> Result<Text, Problem> {
    let Text { at, text } = variable;
    if !crate::config::variables::is_name(&text) {
        return Err(Problem::new(at, "this is the name of no variable"));
    }
    Ok(Text { at, text: format!("{before}${{{text}}}") })
}
