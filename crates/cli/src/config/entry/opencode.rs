//! An entry of opencode: a member of `mcp` (<https://opencode.ai/docs/mcp-servers/>).

use super::{Child, Definition, Remote, Way, address, disabled, headers, oauth, texts, unused, variables};
use crate::config::filter::ToolFilter;
use crate::config::source::Problem;
use crate::config::tree::Fields;

pub(super) fn read(mut fields: Fields<'_>, at: usize) -> Result<Definition, Problem> {
    let mut warnings = Vec::new();
    let kind = fields.take(&["type"])?.ok_or_else(|| Problem::new(at, "type is missing: local or remote"))?;
    let (command, env) = (fields.take(&["command"])?, fields.take(&["environment"])?);
    let cwd = fields.take(&["cwd"])?;
    let (url, header) = (fields.take(&["url"])?, fields.take(&["headers"])?);
    let login = fields.take(&["oauth"])?;
    let way = match kind.node.text("type")?.text.as_str() {
        "local" => {
            warnings.extend(unused(&[url, header, login], "the server is started as a program"));
            let command = command.ok_or_else(|| Problem::new(at, "command is missing"))?;
            let mut words = command.node.texts("command")?.into_iter();
            let program = words.next().filter(|program| !program.text.is_empty());
            let program = program.ok_or_else(|| Problem::new(command.node.at, "command is empty"))?;
            let cwd = match cwd {
                Some(member) => Some(member.node.text("cwd")?),
                None => None,
            };
            let (args, env) = (words.collect(), variables(env)?);
            Way::Child(Child { command: program, args, env, cwd, env_file: None, passed: Vec::new() })
        }
        "remote" => {
            warnings.extend(unused(&[command, env, cwd], "the server is reached over HTTP"));
            let url = url.ok_or_else(|| Problem::new(at, "url is missing"))?;
            let (url, headers) = (address(url, false)?, headers(header)?);
            let oauth = oauth::read(login, None, &mut warnings)?;
            Way::Http(Remote { url, headers, sse: false, ca: None, oauth })
        }
        _ => return Err(Problem::new(kind.node.at, "type must be local or remote")),
    };
    // Of the first request, in that program's words: of fetching its tools.
    let opening = match fields.take(&["timeout"])? {
        Some(member) => Some(member.node.time("timeout", 1)?),
        None => None,
    };
    let allowed = texts(fields.take(&["allowed_tools", "allowedTools"])?)?;
    let denied = texts(fields.take(&["disabled_tools", "disabledTools"])?)?;
    let off = disabled(&mut fields)?;
    warnings.extend(fields.unknown());
    let tools = ToolFilter::new(&allowed, &denied)?;
    let patterns = [allowed, denied];
    Ok(Definition {
        way,
        description: None,
        tools,
        timeout: None,
        opening,
        patterns,
        disabled: off,
        warnings,
    })
}
