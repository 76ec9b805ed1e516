//! Writes the entries of a configuration in another dialect, variables spelled as its programs read them; what the
//! other dialect has no word for is told and left out.
//!
//! Called by the verb `servers convert`, which prints what this returns. It writes no file.

mod references;

use std::collections::BTreeSet;
use std::time::Duration;

use super::entry::{Child, Definition, Listening, Oauth, Remote, Sides, Way};
use super::rendering::Value;
use super::source::Problem;
use super::tree::{Entry, Text};
use super::variables::{Piece, pieces};
use super::{Configuration, Dialect, Unread, called, places};
use crate::args::Configured;
use crate::failure::Failure;
use crate::target::shown;

/// A configuration in another dialect.
pub(crate) struct Converted {
    pub(crate) text: String,
    /// What could not be taken over, and which entries cannot be read.
    pub(crate) left: Vec<String>,
    /// The variables that stand in the place of values, and have to be set.
    pub(crate) to_set: Vec<String>,
    /// How many entries it has.
    pub(crate) entries: usize,
}

/// The entries of these names, or all, of every file that would be looked into; of several with one name the first.
/// `values`: the values of variables and headers, and the secrets among words, are written as they stand; otherwise as
/// references.
pub(crate) fn convert(
    configured: &Configured,
    names: &[String],
    to: Dialect,
    values: bool,
) -> Result<Converted, Failure> {
    let mut left = Vec::new();
    let mut to_set = Vec::new();
    let mut written: Vec<(String, Value)> = Vec::new();
    let mut inputs = Vec::new();
    let mut known = BTreeSet::new();
    for place in places::all(None, configured)? {
        let configuration = match Configuration::at(&place) {
            Ok(configuration) => configuration,
            Err(Unread { failure, .. }) if place.origin == places::Origin::Chosen => return Err(failure),
            Err(Unread { empty: true, .. }) if place.shared => continue,
            Err(Unread { failure, .. }) => {
                left.push(failure.message);
                continue;
            }
        };
        for entry in &configuration.contents.entries {
            let wanted = names.is_empty() || names.contains(&entry.name);
            if !wanted || !known.insert(entry.name.clone()) {
                continue;
            }
            let references = (!values).then_some(&mut to_set);
            let members = match configuration.twice(&entry.name) {
                Some(problem) => Err(problem),
                None => configuration.written(entry, to, &mut left, references),
            };
            let name = called(&entry.name);
            match members {
                Ok(members) => written.push((entry.name.clone(), members)),
                Err(problem) if names.is_empty() => {
                    left.push(format!("{name} is left out: {}", configuration.source.say(&problem)));
                }
                // What was asked for by its name is not left out in silence.
                Err(problem) => {
                    let text = format!("{name} cannot be converted: {}", problem.text);
                    return Err(configuration.source.failure(&Problem { text, ..problem }));
                }
            }
        }
        inputs.extend(configuration.contents.inputs.iter().map(|input| {
            let mut members =
                vec![("type".into(), Value::text("promptString")), ("id".into(), Value::text(&input.id))];
            members.extend(input.description.iter().map(|text| ("description".into(), Value::text(text))));
            members.extend(input.default.iter().map(|text| ("default".into(), Value::text(text))));
            Value::Table(members)
        }));
    }
    if let Some(name) = names.iter().find(|name| written.iter().all(|(written, _)| written != *name)) {
        let hint = "mcpjoin servers shows the entries that there are";
        return Err(super::source::failure(format!("there is no entry {} to convert", called(name)), hint));
    }
    if !inputs.is_empty() && to != Dialect::VsCodeJson {
        left.push("inputs are of VS Code alone: set their values in variables".into());
        inputs.clear();
    }
    let entries = written.len();
    let text = match to {
        Dialect::McpServersJson => Value::table([("mcpServers", Value::Table(written))]).json(),
        Dialect::OpencodeJson => Value::table([("mcp", Value::Table(written))]).json(),
        Dialect::VsCodeJson => {
            let mut members = vec![("servers".to_owned(), Value::Table(written))];
            if !inputs.is_empty() {
                members.insert(0, ("inputs".into(), Value::List(inputs)));
            }
            Value::Table(members).json()
        }
        Dialect::ServersToml => super::rendering::tables("servers", &written),
        Dialect::CodexToml => super::rendering::sections("mcp_servers", &written),
    };
    to_set.sort();
    to_set.dedup();
    Ok(Converted { text, left, to_set, entries })
}

impl Configuration {
    /// The members of an entry in that dialect. `references`: takes the variables that stand in the place of values.
    fn written(
        &self,
        entry: &Entry,
        to: Dialect,
        left: &mut Vec<String>,
        references: Option<&mut Vec<String>>,
    ) -> Result<Value, Problem> {
        let mut definition = Definition::read(self.dialect, &entry.node)?;
        if let Way::Listening(Listening { url, scheme, .. }) = &definition.way
            && !matches!(to, Dialect::McpServersJson | Dialect::ServersToml)
        {
            let text = format!("{} has no servers over {}", to.name(), scheme.name());
            return Err(Problem::new(url.at, text));
        }
        if let Some(to_set) = references {
            let files = self.dialect == Dialect::OpencodeJson;
            to_set.extend(references::put(&mut definition, &entry.name, files));
        }
        let mut lost = |what: &str| {
            let place = self.source.place(entry.at);
            left.push(format!("{place}: {what} of {} has no place in {}", called(&entry.name), to.name()));
        };
        left_out(&definition, to, &mut lost);
        let definition = spelled(definition, self.dialect, to, &mut lost);
        Ok(match to {
            Dialect::McpServersJson => mcp_servers(&definition),
            Dialect::VsCodeJson => vs_code(&definition),
            Dialect::OpencodeJson => opencode(&definition),
            Dialect::ServersToml => servers_toml(&entry.name, &definition),
            Dialect::CodexToml => codex(&definition),
        })
    }
}

/// Tells what an entry says that the dialect has no word for.
fn left_out(definition: &Definition, to: Dialect, lost: &mut dyn FnMut(&str)) {
    let [allowed, denied] = &definition.patterns;
    let bound = !allowed.is_empty() || !denied.is_empty();
    if bound && matches!(to, Dialect::VsCodeJson | Dialect::OpencodeJson) {
        lost("what binds its tools");
    }
    if definition.description.is_some() && !matches!(to, Dialect::McpServersJson | Dialect::ServersToml) {
        lost("the description");
    }
    if definition.timeout.is_some() && matches!(to, Dialect::VsCodeJson | Dialect::OpencodeJson) {
        lost("the time limit of a request");
    }
    if definition.opening.is_some() && !matches!(to, Dialect::CodexToml | Dialect::OpencodeJson) {
        lost("the time limit of the opening");
    }
    if definition.disabled.is_some() && to == Dialect::VsCodeJson {
        lost("that it is disabled");
    }
    if let Way::Http(Remote { ca: Some(_), .. }) = &definition.way
        && !matches!(to, Dialect::McpServersJson | Dialect::ServersToml)
    {
        lost("which authorities are trusted");
    }
    if let Way::Http(Remote { oauth: Some(oauth), .. }) = &definition.way {
        let knows_secret =
            matches!(to, Dialect::McpServersJson | Dialect::OpencodeJson | Dialect::ServersToml);
        let knows_rest = to != Dialect::VsCodeJson;
        for (what, is_lost) in [
            ("the secret of its client", oauth.client_secret.is_some() && !knows_secret),
            (
                "the way back from its login",
                (oauth.callback_port.is_some() || oauth.redirect.is_some()) && !knows_rest,
            ),
            ("the scopes of its login", !oauth.scopes.is_empty() && !knows_rest),
            (
                "that no login is to be used",
                oauth.off && matches!(to, Dialect::VsCodeJson | Dialect::CodexToml),
            ),
        ] {
            if is_lost {
                lost(what);
            }
        }
    }
    if let Way::Child(Child { env_file: Some(_), .. }) = &definition.way
        && matches!(to, Dialect::OpencodeJson | Dialect::CodexToml)
    {
        lost("the file of variables");
    }
    if let Way::Http(remote) = &definition.way
        && remote.sse
        && matches!(to, Dialect::OpencodeJson | Dialect::CodexToml)
    {
        lost("that it is HTTP+SSE");
    }
}

/// The same entry with its variables as the dialect spells them.
fn spelled(mut definition: Definition, from: Dialect, to: Dialect, lost: &mut dyn FnMut(&str)) -> Definition {
    let files = from == Dialect::OpencodeJson;
    let mut spell = |text: &mut Text| {
        let pieces = pieces(&text.text, files);
        text.text = pieces.into_iter().map(|piece| spelling(piece, to, lost)).collect();
    };
    match &mut definition.way {
        Way::Child(Child { command, args, env, cwd, env_file, passed }) => {
            spell(command);
            args.iter_mut().chain(cwd).chain(env_file).for_each(&mut spell);
            // Elsewhere what is passed on is set to itself.
            for Text { at, text: name } in passed.drain(..) {
                if env.iter().all(|(other, _)| *other != name) {
                    let text = Text { at, text: format!("${{{name}}}") };
                    env.push((name, text));
                }
            }
            // What Codex passes on under its own name needs no spelling.
            let kept =
                |name: &str, text: &Text| to == Dialect::CodexToml && text.text == format!("${{{name}}}");
            env.iter_mut().filter(|(name, text)| !kept(name, text)).for_each(|(_, text)| spell(text));
        }
        Way::Http(Remote { url, headers, ca, oauth, .. }) => {
            spell(url);
            ca.iter_mut().chain(oauth.iter_mut().flat_map(Oauth::texts_mut)).for_each(&mut spell);
            let named = |text: &Text| to == Dialect::CodexToml && variable(&text.text).is_some();
            headers.iter_mut().filter(|(_, text)| !named(text)).for_each(|(_, text)| spell(text));
        }
        Way::Listening(Listening { url, sides: Sides { pin, ca, identity }, .. }) => {
            let identity = identity.iter_mut().flat_map(|(cert, key)| [cert, key]);
            std::iter::once(url).chain(pin).chain(ca).chain(identity).for_each(&mut spell);
        }
    }
    definition
}

/// The one variable that a header is, with the words of a token before it or without: Codex names it beside the header.
fn variable(text: &str) -> Option<(bool, String)> {
    let rest = text.strip_prefix("Bearer ");
    match *pieces(rest.unwrap_or(text), false) {
        [Piece::Environment(name, None)] => Some((rest.is_some(), name.to_owned())),
        _ => None,
    }
}

fn spelling(piece: Piece<'_>, to: Dialect, lost: &mut dyn FnMut(&str)) -> String {
    let ours = matches!(to, Dialect::McpServersJson | Dialect::ServersToml);
    match (piece, to) {
        (Piece::Literal(text), _) if ours => text.replace("${", "$${"),
        (Piece::Literal(text), _) => text.to_owned(),
        (Piece::Environment(name, None), _) if ours => format!("${{{name}}}"),
        (Piece::Environment(name, Some(default)), _) if ours => format!("${{{name}:-{default}}}"),
        (Piece::Environment(name, None), Dialect::VsCodeJson) => format!("${{env:{name}}}"),
        (Piece::Environment(name, None), Dialect::OpencodeJson) => format!("{{env:{name}}}"),
        (Piece::Environment(name, default), _) => {
            lost(&format!("the variable {name}{}", if default.is_some() { " with a default" } else { "" }));
            // Where nothing can stand for it, what stood there shows what to put in its place.
            default.map_or_else(|| format!("${{{name}}}"), str::to_owned)
        }
        (Piece::Editor(name), Dialect::VsCodeJson | Dialect::McpServersJson) => format!("${{{name}}}"),
        (Piece::Editor(name), _) => {
            lost(&format!("what {} stands for", shown(format!("${{{name}}}").as_ref())));
            format!("${{{name}}}")
        }
        (Piece::File(path), Dialect::OpencodeJson) => format!("{{file:{path}}}"),
        (Piece::File(path), _) => {
            lost(&format!("the text of the file {}", shown(path.as_ref())));
            format!("{{file:{path}}}")
        }
    }
}

type Members = Vec<(String, Value)>;

fn put(members: &mut Members, name: &str, value: Value) {
    if !value.is_empty() {
        members.push((name.to_owned(), value));
    }
}

fn texts(texts: &[Text]) -> Value {
    Value::List(texts.iter().map(|text| Value::text(&text.text)).collect())
}

fn pairs(pairs: &[(String, Text)]) -> Value {
    Value::Table(pairs.iter().map(|(name, text)| (name.clone(), Value::text(&text.text))).collect())
}

fn milliseconds(time: Duration) -> Value {
    Value::Number(time.as_millis().to_string())
}

/// Whole seconds as they are, others with their fraction.
fn seconds(time: Duration) -> Value {
    Value::Number(time.as_secs_f64().to_string())
}

/// How the server is come by, in the words that most dialects share. `kind`: the member for its type, where it is always
/// there; `env_file_as`: the one for a file of variables.
fn way(way: &Way, kind: Option<&str>, env_file_as: &str) -> Members {
    let mut members = Members::new();
    let text = |text: Option<&Text>| Value::text(text.map_or("", |text| &text.text));
    match way {
        Way::Child(Child { command, args, env, cwd, env_file, .. }) => {
            if let Some(kind) = kind {
                put(&mut members, kind, Value::text("stdio"));
            }
            put(&mut members, "command", Value::text(&command.text));
            put(&mut members, "args", texts(args));
            put(&mut members, "env", pairs(env));
            put(&mut members, "cwd", text(cwd.as_ref()));
            put(&mut members, env_file_as, text(env_file.as_ref()));
        }
        Way::Http(Remote { url, headers, sse, ca, oauth }) => {
            put(&mut members, kind.unwrap_or("type"), Value::text(if *sse { "sse" } else { "http" }));
            put(&mut members, "url", Value::text(&url.text));
            put(&mut members, "headers", pairs(headers));
            put(&mut members, "ca", text(ca.as_ref()));
            if let Some(oauth) = oauth {
                put(&mut members, "oauth", login(oauth));
            }
        }
        Way::Listening(Listening { url, scheme, sides: Sides { pin, ca, identity } }) => {
            put(&mut members, kind.unwrap_or("type"), Value::text(scheme.name()));
            put(&mut members, "url", Value::text(&url.text));
            put(&mut members, "pin", text(pin.as_ref()));
            put(&mut members, "ca", text(ca.as_ref()));
            if let Some((cert, key)) = identity {
                put(&mut members, "cert", Value::text(&cert.text));
                put(&mut members, "key", Value::text(&key.text));
            }
        }
    }
    members
}

/// How the server is logged in to, in the words that Claude Code, opencode and VS Code share as far as each knows them.
fn login(oauth: &Oauth) -> Value {
    if oauth.off {
        return Value::Bool(false);
    }
    let mut members = Members::new();
    let text = |text: Option<&Text>| Value::text(text.map_or("", |text| &text.text));
    put(&mut members, "clientId", text(oauth.client_id.as_ref()));
    put(&mut members, "clientSecret", text(oauth.client_secret.as_ref()));
    members.extend(oauth.callback_port.map(|port| ("callbackPort".into(), Value::Number(port.to_string()))));
    put(&mut members, "redirectUri", text(oauth.redirect.as_ref()));
    put(&mut members, "scopes", scopes(oauth));
    Value::Table(members)
}

/// All of them in one text, which is what most programs read.
fn scopes(oauth: &Oauth) -> Value {
    let scopes: Vec<&str> = oauth.scopes.iter().map(|scope| scope.text.as_str()).collect();
    Value::text(&scopes.join(" "))
}

fn bindings(members: &mut Members, definition: &Definition, names: [&str; 2]) {
    for (name, patterns) in names.into_iter().zip(&definition.patterns) {
        put(members, name, texts(patterns));
    }
}

fn mcp_servers(definition: &Definition) -> Value {
    let mut members = way(&definition.way, None, "envFile");
    put(&mut members, "description", Value::text(definition.description.as_deref().unwrap_or_default()));
    members.extend(definition.timeout.map(|time| ("timeoutMs".into(), milliseconds(time))));
    bindings(&mut members, definition, ["allowedTools", "disabledTools"]);
    if definition.disabled.is_some() {
        put(&mut members, "disabled", Value::Bool(true));
    }
    Value::Table(members)
}

fn vs_code(definition: &Definition) -> Value {
    let mut members = way(&definition.way, Some("type"), "envFile");
    members.retain(|(name, _)| name != "ca" && name != "oauth");
    if let Way::Http(Remote { oauth: Some(Oauth { client_id: Some(id), .. }), .. }) = &definition.way {
        put(&mut members, "oauth", Value::table([("clientId", Value::text(&id.text))]));
    }
    Value::Table(members)
}

fn opencode(definition: &Definition) -> Value {
    let mut members = Members::new();
    match &definition.way {
        // There is none over another way in this dialect.
        Way::Listening(_) => {}
        Way::Child(Child { command, args, env, cwd, .. }) => {
            put(&mut members, "type", Value::text("local"));
            let words = std::iter::once(command).chain(args);
            put(&mut members, "command", Value::List(words.map(|word| Value::text(&word.text)).collect()));
            put(&mut members, "environment", pairs(env));
            put(&mut members, "cwd", Value::text(cwd.as_ref().map_or("", |cwd| &cwd.text)));
        }
        Way::Http(Remote { url, headers, oauth, .. }) => {
            put(&mut members, "type", Value::text("remote"));
            put(&mut members, "url", Value::text(&url.text));
            put(&mut members, "headers", pairs(headers));
            match oauth.as_ref().map(login) {
                Some(Value::Table(mut login)) => {
                    for (name, _) in login.iter_mut().filter(|(name, _)| name == "scopes") {
                        "scope".clone_into(name);
                    }
                    put(&mut members, "oauth", Value::Table(login));
                }
                Some(off) => put(&mut members, "oauth", off),
                None => {}
            }
        }
    }
    members.extend(definition.opening.map(|time| ("timeout".into(), milliseconds(time))));
    put(&mut members, "enabled", Value::Bool(definition.disabled.is_none()));
    Value::Table(members)
}

fn servers_toml(name: &str, definition: &Definition) -> Value {
    let mut members = vec![("name".into(), Value::text(name))];
    put(&mut members, "transport", Value::Table(way(&definition.way, Some("type"), "env_file")));
    put(&mut members, "description", Value::text(definition.description.as_deref().unwrap_or_default()));
    members.extend(definition.timeout.map(|time| ("timeout_ms".into(), milliseconds(time))));
    bindings(&mut members, definition, ["allowed_tools", "disabled_tools"]);
    if definition.disabled.is_some() {
        put(&mut members, "enabled", Value::Bool(false));
    }
    Value::Table(members)
}

fn codex(definition: &Definition) -> Value {
    let mut members = way(&definition.way, None, "envFile");
    members
        .retain(|(name, _)| !["type", "env", "headers", "ca", "envFile", "oauth"].contains(&name.as_str()));
    match &definition.way {
        Way::Listening(_) => {}
        Way::Child(Child { env, .. }) => {
            let (passed, set): (Vec<_>, Vec<_>) =
                env.iter().cloned().partition(|(name, text)| text.text == format!("${{{name}}}"));
            let passed = passed.iter().map(|(name, _)| Value::text(name)).collect();
            put(&mut members, "env", pairs(&set));
            put(&mut members, "env_vars", Value::List(passed));
        }
        Way::Http(Remote { headers, oauth, .. }) => {
            let (mut written, mut named) = (Members::new(), Members::new());
            for (name, text) in headers {
                match variable(&text.text) {
                    Some((true, variable)) if name.eq_ignore_ascii_case("authorization") => {
                        put(&mut members, "bearer_token_env_var", Value::text(&variable));
                    }
                    Some((false, variable)) => named.push((name.clone(), Value::text(&variable))),
                    _ => written.push((name.clone(), Value::text(&text.text))),
                }
            }
            put(&mut members, "http_headers", Value::Table(written));
            put(&mut members, "env_http_headers", Value::Table(named));
            if let Some(oauth) = oauth {
                let mut login = Members::new();
                put(&mut login, "client_id", Value::text(oauth.client_id.as_ref().map_or("", |id| &id.text)));
                let port = oauth.callback_port.map(|port| Value::Number(port.to_string()));
                login.extend(port.map(|port| ("callback_port".into(), port)));
                let redirect = oauth.redirect.as_ref().map_or("", |redirect| &redirect.text);
                put(&mut login, "callback_url", Value::text(redirect));
                put(&mut members, "oauth", Value::Table(login));
                let scopes = oauth.scopes.iter().flat_map(|scopes| scopes.text.split_whitespace());
                put(&mut members, "scopes", Value::List(scopes.map(Value::text).collect()));
            }
        }
    }
    members.extend(definition.opening.map(|time| ("startup_timeout_sec".into(), seconds(time))));
    members.extend(definition.timeout.map(|time| ("tool_timeout_sec".into(), seconds(time))));
    bindings(&mut members, definition, ["enabled_tools", "disabled_tools"]);
    if definition.disabled.is_some() {
        put(&mut members, "enabled", Value::Bool(false));
    }
    Value::Table(members)
}

#[cfg(test)]
mod tests;
