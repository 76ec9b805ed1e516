//! An entry of Codex: `[mcp_servers.NAME]` of its config.toml (<https://developers.openai.com/codex/mcp>).

use super::{Child, Definition, Remote, Way, address, disabled, headers, texts, unused, variables};
use crate::config::filter::ToolFilter;
use crate::config::source::Problem;
use crate::config::tree::{Fields, Text};

/// What concerns that program and its user alone.
const THEIRS: [&str; 7] = [
    "default_tools_approval_mode",
    "environment_id",
    "oauth_resource",
    "required",
    "scopes",
    "supports_parallel_tool_calls",
    "tools",
];

pub(super) fn read(mut fields: Fields<'_>, at: usize) -> Result<Definition, Problem> {
    let mut warnings = Vec::new();
    let (command, args) = (fields.take(&["command"])?, fields.take(&["args"])?);
    let (env, cwd) = (fields.take(&["env"])?, fields.take(&["cwd"])?);
    // Which of its variables that program passes on. We pass on all of them.
    fields.take(&["env_vars"])?;
    let url = fields.take(&["url"])?;
    let bearer = fields.take(&["bearer_token_env_var"])?;
    let (written, named) = (fields.take(&["http_headers"])?, fields.take(&["env_http_headers"])?);
    let way = match (command, url) {
        (Some(_), Some(url)) => {
            return Err(Problem::new(url.at, "there are both command and url: leave out one of them"));
        }
        (None, None) => return Err(Problem::new(at, "command is missing, or url")),
        (Some(command), None) => {
            warnings.extend(unused(&[bearer, written, named], "the server is started as a program"));
            let command = command.node.text("command")?;
            if command.text.is_empty() {
                return Err(Problem::new(command.at, "command is empty"));
            }
            let cwd = match cwd {
                Some(member) => Some(member.node.text("cwd")?),
                None => None,
            };
            Way::Child(Child { command, args: texts(args)?, env: variables(env)?, cwd })
        }
        (None, Some(url)) => {
            warnings.extend(unused(&[args, env, cwd], "the server is reached over HTTP"));
            let mut sent = headers(written)?;
            for (name, variable) in headers(named)? {
                sent.push((name, of_variable("", variable)?));
            }
            if let Some(bearer) = bearer {
                let variable = bearer.node.text("bearer_token_env_var")?;
                sent.push(("Authorization".into(), of_variable("Bearer ", variable)?));
            }
            Way::Http(Remote { url: address(url)?, headers: sent, sse: false })
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

/// What a variable holds, behind those words: written as other dialects write it.
fn of_variable(before: &str, variable: Text) -> Result<Text, Problem> {
    let Text { at, text } = variable;
    if !crate::config::variables::is_name(&text) {
        return Err(Problem::new(at, "this is the name of no variable"));
    }
    Ok(Text { at, text: format!("{before}${{{text}}}") })
}
