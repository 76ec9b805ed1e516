//! Writes the entries of a configuration in another dialect, with variables spelled as its programs read them. Settings that the
//! other dialect cannot express are left out and reported.
//!
//! Called by the verb `servers convert`, which prints the result, and by `edit`, which puts an entry into a file. The names of
//! members are in `dialect`.

mod edit;
mod references;
mod rendering;

use std::collections::BTreeSet;
use std::time::Duration;

use super::dialect::{Dialect, Key, Row, Transport, Type};
use super::entry::{Definition, Setting};
use super::files::{self, Configuration};
use super::parsed_file::{Entry, Input};
use super::source::{self, Problem};
use super::tree::Text;
use super::variables::{Piece, pieces};
use super::{called, no_such_entry};
use crate::args::Configured;
use crate::failure::Failure;
use crate::target::shown;
pub(crate) use edit::{Change, Typed, TypedServer, added, file_of, removed};
use rendering::Value;

/// The settings that a dialect may not be able to express, by their keys.
const LOSSES: [(&[Key], &str); 10] = [
    (&[Key::AllowedTools, Key::DisabledTools], "the tool filter"),
    (&[Key::Description], "the description"),
    (&[Key::TimeoutMs, Key::TimeoutSec], "the request timeout"),
    (&[Key::OpeningMs, Key::OpeningSec], "the start-up timeout"),
    (&[Key::Disabled, Key::Enabled], "the state disabled"),
    (&[Key::Ca], "the list of trusted authorities"),
    (&[Key::ClientSecret], "the client secret"),
    (&[Key::CallbackPort, Key::RedirectUri], "the redirect URI of the login"),
    (&[Key::Scopes], "the scopes of the login"),
    (&[Key::OauthOff], "the disabled login"),
];

/// A configuration in another dialect.
pub(crate) struct Converted {
    pub(crate) text: String,
    /// The settings that are left out, and the entries that cannot be read.
    pub(crate) left: Vec<String>,
    /// The variables that replace values, and have to be set.
    pub(crate) to_set: Vec<String>,
    /// How many entries it has.
    pub(crate) entries: usize,
}

/// Converts the entries of these names, or all, of every file in which entries are searched; of several with one name the first.
/// With `values` the values of variables and headers, and the secrets among words, are written unchanged, otherwise as references.
///
/// # Errors
/// When a file or an entry that was named cannot be read.
pub(crate) fn convert(
    configured: &Configured,
    names: &[String],
    to: Dialect,
    values: bool,
) -> Result<Converted, Failure> {
    let (mut left, mut to_set, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
    let mut written: Vec<(String, Value)> = Vec::new();
    let mut known = BTreeSet::new();
    let files = files::read(None, configured)?;
    for file in &files.0 {
        let configuration = match file {
            Ok(configuration) => configuration,
            Err(broken) => {
                left.push(broken.failure.message.clone());
                continue;
            }
        };
        for entry in &configuration.parsed.entries {
            let wanted = names.is_empty() || names.contains(&entry.name);
            if !wanted || !known.insert(&entry.name) {
                continue;
            }
            let references = (!values).then_some(&mut to_set);
            let members = configuration.written(entry, to, &mut left, references, &[]);
            let name = called(&entry.name);
            match members {
                Ok(members) => written.push((entry.name.clone(), members)),
                Err(problem) if names.is_empty() => {
                    left.push(format!("{name} is left out: {}", configuration.source.say(&problem)));
                }
                // An entry that was named is not left out.
                Err(problem) => {
                    let text = format!("{name} cannot be converted: {}", problem.text);
                    return Err(configuration.source.failure(&Problem { text, ..problem }));
                }
            }
        }
        inputs.extend(configuration.parsed.inputs.iter().map(input));
    }
    if let Some(name) = names.iter().find(|name| written.iter().all(|(written, _)| written != *name)) {
        let (problem, hint) = no_such_entry(name, configured.config.as_deref());
        return Err(source::failure(format!("{problem} to convert"), hint));
    }
    if !inputs.is_empty() && to != Dialect::VsCodeJson {
        left.push("only VS Code has inputs: set their values in variables".into());
        inputs.clear();
    }
    let entries = written.len();
    let text = match to {
        Dialect::VsCodeJson => {
            let mut members = vec![("servers".to_owned(), Value::Table(written))];
            if !inputs.is_empty() {
                members.insert(0, ("inputs".into(), Value::List(inputs)));
            }
            Value::Table(members).json()
        }
        Dialect::ServersToml => rendering::tables("servers", &written),
        Dialect::CodexToml => rendering::sections("mcp_servers", &written),
        json => Value::table([(json.holder().0, Value::Table(written))]).json(),
    };
    to_set.sort();
    to_set.dedup();
    Ok(Converted { text, left, to_set, entries })
}

fn input(input: &Input) -> Value {
    let text = |name: &str, text: &str| (name.to_owned(), Value::text(text));
    let mut members = vec![text("type", "promptString"), text("id", &input.id)];
    members.extend(input.description.iter().map(|description| text("description", description)));
    members.extend(input.default.iter().map(|default| text("default", default)));
    Value::Table(members)
}

impl Configuration {
    /// The members of an entry in that dialect. `references` collects the variables that replace values, but not those of the
    /// variables that are `plain`.
    fn written(
        &self,
        entry: &Entry,
        to: Dialect,
        left: &mut Vec<String>,
        references: Option<&mut Vec<String>>,
        plain: &[String],
    ) -> Result<Value, Problem> {
        let mut definition = self.definition(entry)?;
        let transport = definition.transport;
        if let Some(url) = definition.text(Key::Url).filter(|_| transport.is_socket() && !to.is_complete()) {
            let text = format!("{} does not support servers over {}", to.name(), transport.name());
            return Err(Problem::new(url.at, text));
        }
        if let Some(to_set) = references {
            let files = self.dialect == Dialect::OpencodeJson;
            to_set.extend(references::put(&mut definition, &entry.name, files, plain));
        }
        let mut lost = |what: &str| {
            let place = self.source.place(entry.at);
            left.push(format!(
                "{place}: {what} of {} has no equivalent in {}",
                called(&entry.name),
                to.name()
            ));
        };
        left_out(&definition, to, &mut lost);
        spell(&mut definition, self.dialect, to, &mut lost);
        Ok(Written { entry: &entry.name, definition: &definition, to }
            .table(to.format().members.iter().copied().flatten()))
    }
}

/// Reports the settings that the dialect cannot express.
fn left_out(definition: &Definition, to: Dialect, lost: &mut dyn FnMut(&str)) {
    let format = to.format();
    for (keys, what) in LOSSES {
        let mut said = keys.iter().filter(|key| definition.says(**key));
        // The keys of tools are two settings; those of any other row are two spellings of one.
        let is_lost = match keys {
            [Key::AllowedTools, ..] => said.any(|key| !format.writes(*key)),
            keys => said.next().is_some() && !keys.iter().any(|key| format.writes(*key)),
        };
        if is_lost {
            lost(what);
        }
    }
    if definition.has(Key::EnvFile) && !format.writes(Key::EnvFile) {
        lost("the file of variables");
    }
    let has_sse = format.types.iter().any(|(_, kind)| *kind == Type::Is(Transport::Sse));
    if definition.transport == Transport::Sse && !has_sse {
        lost("the transport HTTP+SSE");
    }
}

impl Definition {
    /// Whether it has a setting of that key.
    fn says(&self, key: Key) -> bool {
        match key {
            Key::Description => self.description.is_some(),
            Key::TimeoutMs | Key::TimeoutSec => self.timeout.is_some(),
            Key::OpeningMs | Key::OpeningSec => self.opening.is_some(),
            Key::Disabled | Key::Enabled => self.disabled.is_some(),
            Key::CallbackPort => self.callback.is_some(),
            Key::OauthOff => self.oauth_off,
            key => self.has(key),
        }
    }
}

/// Spells references as the dialect does.
fn spell(definition: &mut Definition, from: Dialect, to: Dialect, lost: &mut dyn FnMut(&str)) {
    let files = from == Dialect::OpencodeJson;
    // Codex names variables that are passed on, and variables of headers, without a reference.
    let is_named = |setting: &Setting| match setting.key {
        Key::Env => is_passed_on(setting),
        Key::Headers => variable(&setting.text.text).is_some(),
        _ => false,
    };
    // Elsewhere a variable that is passed on is set to itself.
    let settings = std::mem::take(&mut definition.settings);
    let (passed, mut settings): (Vec<_>, Vec<_>) =
        settings.into_iter().partition(|setting| setting.key == Key::EnvVars);
    for Setting { text: Text { at, text: name }, .. } in passed {
        if !settings.iter().any(|known| known.key == Key::Env && known.name == name) {
            let text = Text { at, text: reference(&name) };
            settings.push(Setting { key: Key::Env, name, text });
        }
    }
    settings.sort_by_key(|setting| setting.key);
    let is_pair = |setting: &Setting| matches!(setting.key, Key::Env | Key::Headers);
    for pairs in [false, true] {
        let expanded = settings.iter_mut().filter(|setting| setting.is_expanded());
        for setting in expanded.filter(|setting| is_pair(setting) == pairs) {
            if to != Dialect::CodexToml || !is_named(setting) {
                let pieces = pieces(&setting.text.text, files);
                setting.text.text = pieces.into_iter().map(|piece| spelling(piece, to, lost)).collect();
            }
        }
    }
    definition.settings = settings;
}

fn reference(variable: &str) -> String {
    format!("${{{variable}}}")
}

/// The variable of a header that consists of one reference, with `Bearer ` before it or without. Codex names it beside the headers.
fn variable(text: &str) -> Option<(bool, String)> {
    let rest = text.strip_prefix("Bearer ");
    match *pieces(rest.unwrap_or(text), false) {
        [Piece::Environment(name, None)] => Some((rest.is_some(), name.to_owned())),
        _ => None,
    }
}

/// A piece of a text as the dialect spells it.
fn spelling(piece: Piece<'_>, to: Dialect, lost: &mut dyn FnMut(&str)) -> String {
    match (piece, to) {
        (Piece::Literal(text) | Piece::Broken(text), _) if to.is_complete() => text.replace("${", "$${"),
        (Piece::Literal(text) | Piece::Broken(text), _) => text.to_owned(),
        (Piece::Environment(name, None), _) if to.is_complete() => reference(name),
        (Piece::Environment(name, Some(default)), _) if to.is_complete() => format!("${{{name}:-{default}}}"),
        (
            Piece::Environment(name, None),
            Dialect::VsCodeJson | Dialect::CursorJson | Dialect::WindsurfJson,
        ) => format!("${{env:{name}}}"),
        (Piece::Environment(name, None), Dialect::GeminiJson) => reference(name),
        (Piece::Environment(name, None), Dialect::OpencodeJson) => format!("{{env:{name}}}"),
        (Piece::Environment(name, default), _) => {
            lost(&format!("the variable {name}{}", if default.is_some() { " with a default" } else { "" }));
            // Without a spelling in the dialect, the original one shows what to write there.
            default.map_or_else(|| reference(name), str::to_owned)
        }
        (Piece::Editor(name), Dialect::VsCodeJson | Dialect::McpServersJson | Dialect::CursorJson) => {
            reference(name)
        }
        (Piece::Editor(name), _) => {
            lost(&format!("the value of {}", shown(reference(name).as_ref())));
            reference(name)
        }
        (Piece::File(path), Dialect::OpencodeJson) => format!("{{file:{path}}}"),
        (Piece::File(path), _) => {
            lost(&format!("the text of the file {}", shown(path.as_ref())));
            format!("{{file:{path}}}")
        }
    }
}

/// An entry that is being written.
struct Written<'a> {
    entry: &'a str,
    definition: &'a Definition,
    to: Dialect,
}

impl Written<'_> {
    /// The members of a table of the entry.
    fn table<'a>(&self, rows: impl IntoIterator<Item = &'a Row>) -> Value {
        let format = self.to.format();
        let mut members = Vec::new();
        for (key, spellings) in rows.into_iter().filter(|(key, _)| !format.leaves_out(*key)) {
            let respelled =
                format.respelled.iter().find(|(known, _)| known == key).map(|(_, spelling)| *spelling);
            let mut name = respelled.or_else(|| spellings.first().copied()).unwrap_or_default();
            if (*key, self.to, self.definition.transport) == (Key::Url, Dialect::GeminiJson, Transport::Http)
            {
                name = "httpUrl";
            }
            let value = self.value(*key).filter(|value| !value.is_empty() || *key == Key::Name);
            members.extend(value.map(|value| (name.to_owned(), value)));
        }
        Value::Table(members)
    }

    /// The value of that key in the dialect; `None` where there is none.
    fn value(&self, key: Key) -> Option<Value> {
        let (definition, format) = (self.definition, self.to.format());
        let is_codex = self.to == Dialect::CodexToml;
        match key {
            Key::Name => Some(Value::text(self.entry)),
            Key::Type => self.kind().map(Value::text),
            Key::Command if self.to == Dialect::OpencodeJson => {
                let words = definition.of(Key::Command).chain(definition.of(Key::Args));
                Some(Value::List(words.map(|word| Value::text(&word.text.text)).collect()))
            }
            Key::Args | Key::AllowedTools | Key::DisabledTools => {
                Some(Value::List(definition.of(key).map(|setting| Value::text(&setting.text.text)).collect()))
            }
            Key::Env if is_codex => Some(pairs(definition.of(Key::Env).filter(|it| !is_passed_on(it)))),
            Key::EnvVars => {
                let passed = definition.of(Key::Env).filter(|setting| is_passed_on(setting));
                Some(Value::List(passed.map(|setting| Value::text(&setting.name)).collect()))
            }
            Key::Headers if is_codex => {
                Some(pairs(definition.of(Key::Headers).filter(|header| beside(header).is_none())))
            }
            Key::HeaderVars => {
                let named = definition.of(Key::Headers).filter_map(|header| match beside(header)? {
                    (false, variable) => Some((header.name.clone(), Value::text(&variable))),
                    (true, _) => None,
                });
                Some(Value::Table(named.collect()))
            }
            Key::BearerVar => definition.of(Key::Headers).find_map(|header| match beside(header)? {
                (true, variable) => Some(Value::text(&variable)),
                (false, _) => None,
            }),
            Key::Env | Key::Headers => Some(pairs(definition.of(key))),
            Key::Transport => format.transport.map(|rows| self.table(rows.iter().copied().flatten())),
            Key::Oauth if definition.oauth_off && format.writes(Key::OauthOff) => Some(Value::Bool(false)),
            Key::Oauth => Some(self.table(format.oauth())),
            Key::CallbackPort => definition.callback.map(|callback| Value::Number(callback.port.to_string())),
            Key::Scopes if is_codex => {
                let scopes =
                    definition.of(Key::Scopes).flat_map(|scopes| scopes.text.text.split_whitespace());
                Some(Value::List(scopes.map(Value::text).collect()))
            }
            Key::Scopes => {
                let scopes: Vec<&str> = definition.of(Key::Scopes).map(|scope| &*scope.text.text).collect();
                Some(Value::text(&scopes.join(" ")))
            }
            Key::Description => definition.description.as_deref().map(Value::text),
            Key::TimeoutMs => definition.timeout.map(milliseconds),
            Key::TimeoutSec => definition.timeout.map(seconds),
            Key::OpeningMs => definition.opening.map(milliseconds),
            Key::OpeningSec => definition.opening.map(seconds),
            Key::Disabled => definition.disabled.map(|_| Value::Bool(true)),
            Key::Enabled if self.to == Dialect::OpencodeJson => {
                Some(Value::Bool(definition.disabled.is_none()))
            }
            Key::Enabled => definition.disabled.map(|_| Value::Bool(false)),
            key => definition.text(key).map(|text| Value::text(&text.text)),
        }
    }

    /// The value of `type`, where the dialect needs one.
    fn kind(&self) -> Option<&'static str> {
        let transport = self.definition.transport;
        match (self.to, transport) {
            (Dialect::McpServersJson, Transport::Stdio) => None,
            (Dialect::OpencodeJson, Transport::Stdio) => Some("local"),
            (Dialect::OpencodeJson, _) => Some("remote"),
            _ => Some(transport.name()),
        }
    }
}

/// Whether a variable is passed on: its value is a reference to our variable of the same name.
fn is_passed_on(setting: &Setting) -> bool {
    setting.text.text == reference(&setting.name)
}

/// The variable that Codex names beside the headers, and whether it is the bearer token.
fn beside(header: &Setting) -> Option<(bool, String)> {
    let is_authorization = header.name.eq_ignore_ascii_case("authorization");
    variable(&header.text.text).filter(|(is_bearer, _)| !is_bearer || is_authorization)
}

fn pairs<'a>(settings: impl Iterator<Item = &'a Setting>) -> Value {
    Value::Table(settings.map(|setting| (setting.name.clone(), Value::text(&setting.text.text))).collect())
}

fn milliseconds(time: Duration) -> Value {
    Value::Number(time.as_millis().to_string())
}

/// Seconds, with a fraction where there is one.
fn seconds(time: Duration) -> Value {
    Value::Number(time.as_secs_f64().to_string())
}

#[cfg(test)]
mod tests;
