//! Adds an entry to a configuration file, or removes one. Comments, order and layout of everything else stay as they are.
//!
//! Called by `servers add` and `servers remove`. A change is made on the text first and shown; [`Change::write`] then replaces the
//! file at once, with a copy of the old one beside it. The entry is written in the dialect of the file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::json;

use super::super::dialect::Dialect;
use super::super::files::{Configuration, Unread};
use super::super::places::{self, Origin};
use super::super::programs::{Owner, dialect_of};
use super::super::source::{self, Source};
use super::super::tree::JSON;
use super::super::{called, no_such_entry};
use super::rendering::{self, Value};
use crate::args::Configured;
use crate::failure::Failure;
use crate::replacement;
use crate::secret::{self, Secrets};
use crate::target::path_shown;

/// The file of an entry where nothing else is said: that which most programs share in a folder.
const DEFAULT_FILE: &str = ".mcp.json";
/// What is appended to the name of the copy of the old file.
const BACKUP: &str = "mcpjoin-backup";

/// A server as it is typed.
pub(crate) struct Typed {
    pub(crate) server: TypedServer,
    /// Names and values; a variable without a value is passed on.
    pub(crate) env: Vec<(String, Option<String>)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) cwd: Option<String>,
}

/// How the server is started or reached.
pub(crate) enum TypedServer {
    Command {
        program: String,
        args: Vec<String>,
    },
    Url(String),
    /// HTTP+SSE of 2024-11-05.
    Sse(String),
}

/// A file with one entry more, or less.
#[derive(Debug)]
pub(crate) struct Change {
    path: PathBuf,
    /// `None` where there is no such file yet.
    old: Option<String>,
    new: String,
    /// The variables that stand for values, and have to be set.
    pub(crate) to_set: Vec<String>,
    /// The variables whose values are written, although values are replaced.
    pub(crate) plain: Vec<String>,
    /// What the dialect cannot express.
    pub(crate) left: Vec<String>,
    /// The values of the file's entries that must not be shown.
    pub(crate) secrets: Secrets,
}

/// The file to write: the named one, that of the program, or the default one. `user`: that of the program for all folders.
pub(crate) fn file_of(
    named: Option<PathBuf>,
    program: Option<&Owner>,
    user: bool,
) -> Result<PathBuf, Failure> {
    if let Some(program) = program {
        let missing = || Failure::usage("HOME is not set", "use a file: --config FILE");
        return program.file(user).ok_or_else(missing);
    }
    Ok(named.or_else(places::of_variable).unwrap_or_else(|| DEFAULT_FILE.into()))
}

/// A file with a new entry of that name. Without `values`, references stand for the values of headers, for those of variables that may
/// be secrets, and for secrets among words.
///
/// # Errors
/// When the file cannot be used or has such an entry already, or when the entry has no place in its dialect.
pub(crate) fn added(path: PathBuf, name: &str, typed: Typed, values: bool) -> Result<Change, Failure> {
    let old = read(&path)?;
    let known = old.as_ref().map(|source| Configuration::of(copy(source), Origin::Chosen));
    let secrets = known.as_ref().and_then(|known| known.as_ref().ok()).map(secrets).unwrap_or_default();
    let (dialect, names) = match known {
        None => (dialect_of(&path), Vec::new()),
        Some(Ok(known)) => (known.dialect, names(&known)),
        Some(Err(Unread { empty: true, .. })) => (dialect_of(&path), Vec::new()),
        Some(Err(Unread { failure, .. })) => return Err(failure),
    };
    if names.iter().any(|known| known == name) {
        let problem = format!("{} is already an entry of {}", called(name), path_shown(&path));
        // Without --config the default file is searched first.
        let is_default = path == Path::new(DEFAULT_FILE);
        let file = if is_default { String::new() } else { format!(" --config {}", path_shown(&path)) };
        let hint = format!("mcpjoin servers remove{file} {}", called(name));
        return Err(source::failure(problem, hint));
    }
    let is_plain = |(name, value): &(String, Option<String>)| {
        value.as_ref().is_some_and(|value| !secret::may_be_secret(name, value)).then(|| name.clone())
    };
    let plain: Vec<String> =
        if values { Vec::new() } else { typed.env.iter().filter_map(is_plain).collect() };
    let (value, left, to_set) = written(name, typed, dialect, values, &plain)?;
    let text = old.as_ref().map(Source::text);
    let new = with_entry(text.unwrap_or_default(), dialect, name, &value).map_err(|why| {
        source::failure(format!("{}: {why}", path_shown(&path)), "add the entry with an editor")
    })?;
    let wanted: Vec<String> = names.into_iter().chain([name.to_owned()]).collect();
    check(&path, &new, &wanted)?;
    let old = text.map(str::to_owned);
    Ok(Change { path, old, new, to_set, plain, left, secrets })
}

/// The file that has the entry, without it: the named one, or the first one of those in which entries are searched.
///
/// # Errors
/// When there is no such entry, or its file cannot be edited.
pub(crate) fn removed(named: Option<PathBuf>, name: &str) -> Result<Change, Failure> {
    let places = places::all(None, &Configured { config: named.clone(), ..Configured::default() })?;
    let mut configurations = Vec::new();
    for place in places.iter().filter(|place| place.text.is_none()) {
        match Configuration::at(place) {
            Ok(configuration) => configurations.push(configuration),
            // A file that was named and cannot be read is the fault, not the missing entry.
            Err(Unread { failure, empty: false }) if place.origin == Origin::Chosen => return Err(failure),
            Err(_) => {}
        }
    }
    let has =
        |configuration: &Configuration| configuration.parsed.entries.iter().any(|entry| entry.name == name);
    let Some(known) = configurations.into_iter().find(has) else {
        let (problem, hint) = no_such_entry(name, named.as_deref());
        return Err(source::failure(problem, hint));
    };
    if let Some(problem) = known.twice(name) {
        return Err(known.source.failure(&problem));
    }
    let path = known.source.path().to_owned();
    let new = without_entry(known.source.text(), known.dialect, name).map_err(|why| {
        source::failure(format!("{}: {why}", path_shown(&path)), "remove the entry with an editor")
    })?;
    let wanted: Vec<String> = names(&known).into_iter().filter(|other| other != name).collect();
    check(&path, &new, &wanted)?;
    let (old, secrets) = (Some(known.source.text().to_owned()), secrets(&known));
    Ok(Change { path, old, new, to_set: Vec::new(), plain: Vec::new(), left: Vec::new(), secrets })
}

/// The file, where it exists.
fn read(path: &Path) -> Result<Option<Source>, Failure> {
    if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    Source::read(path, true).map(Some)
}

fn copy(source: &Source) -> Source {
    Source::new(source.path(), source.text().to_owned())
}

/// The secrets of all entries.
fn secrets(configuration: &Configuration) -> Secrets {
    let entries = configuration.parsed.entries.iter();
    Secrets::new(&entries.flat_map(|entry| configuration.found(entry).secrets).collect::<Vec<_>>())
}

fn names(configuration: &Configuration) -> Vec<String> {
    configuration.parsed.entries.iter().map(|entry| entry.name.clone()).collect()
}

/// The members of the entry in the dialect, what the dialect cannot express, and the variables that have to be set.
fn written(
    name: &str,
    typed: Typed,
    to: Dialect,
    values: bool,
    plain: &[String],
) -> Result<(Value, Vec<String>, Vec<String>), Failure> {
    let passed = |name: &str| format!("${{{name}}}");
    let env: serde_json::Map<_, _> = typed
        .env
        .into_iter()
        .map(|(name, value)| (name.clone(), json!(value.unwrap_or_else(|| passed(&name)))))
        .collect();
    let headers: serde_json::Map<_, _> =
        typed.headers.into_iter().map(|(name, value)| (name, json!(value))).collect();
    let mut entry = match typed.server {
        TypedServer::Command { program, args } => json!({ "command": program, "args": args }),
        TypedServer::Url(url) => json!({ "url": url }),
        TypedServer::Sse(url) => json!({ "type": "sse", "url": url }),
    };
    let more = [("env", env.into()), ("headers", headers.into()), ("cwd", json!(typed.cwd))];
    if let Some(members) = entry.as_object_mut() {
        let is_given =
            |value: &serde_json::Value| !value.is_null() && value.as_object().is_none_or(|it| !it.is_empty());
        members.extend(
            more.into_iter().filter(|(_, value)| is_given(value)).map(|(key, value)| (key.into(), value)),
        );
    }
    let text = json!({ "mcpServers": { name: entry } }).to_string();
    let typed = Configuration::of(Source::new(Path::new("the command line"), text), Origin::Chosen)
        .map_err(|unread| unread.failure)?;
    let Some(entry) = typed.parsed.entries.first() else {
        return Err(source::failure("the entry has no name", "mcpjoin help servers add"));
    };
    let (mut left, mut to_set) = (Vec::new(), Vec::new());
    let value =
        typed.written(entry, to, &mut left, (!values).then_some(&mut to_set), plain).map_err(|problem| {
            source::failure(format!("{}: {}", called(name), problem.text), "mcpjoin help servers add")
        })?;
    // The place is in a text that the user does not see, so it is left out.
    let told =
        left.iter().map(|told| told.rsplit_once(": ").map_or(told.as_str(), |(_, told)| told).to_owned());
    let left = told.collect();
    to_set.sort();
    to_set.dedup();
    Ok((value, left, to_set))
}

/// The text with the entry behind the others.
fn with_entry(text: &str, to: Dialect, name: &str, value: &Value) -> Result<String, String> {
    let (holder, is_toml) = to.holder();
    if is_toml {
        let entry = [(name.to_owned(), value.clone())];
        let section = match to {
            Dialect::CodexToml => rendering::sections(holder, &entry),
            _ => rendering::tables(holder, &entry),
        };
        let before = text.trim_end();
        return Ok(if before.is_empty() { section } else { format!("{before}\n\n{section}") });
    }
    let text = if text.trim().is_empty() { "{\n}\n" } else { text };
    let root = parse(text)?;
    let entries = entries(&root, to, true)?;
    entries.append(name, input(value));
    Ok(root.to_string())
}

/// The text without the entry.
fn without_entry(text: &str, dialect: Dialect, name: &str) -> Result<String, String> {
    let (holder, is_toml) = dialect.holder();
    let elsewhere = || format!("{} is in a part of the file that mcpjoin cannot edit", called(name));
    if !is_toml {
        let root = parse(text)?;
        entries(&root, dialect, false)?.get(name).ok_or_else(elsewhere)?.remove();
        return Ok(root.to_string());
    }
    let mut document: toml_edit::DocumentMut =
        text.parse().map_err(|_| "mcpjoin cannot edit it in this form".to_owned())?;
    let entries = document.get_mut(holder).ok_or_else(elsewhere)?;
    if let Some(tables) = entries.as_array_of_tables_mut() {
        let is_named = |table: &toml_edit::Table| table.get("name").and_then(|it| it.as_str()) == Some(name);
        let place = tables.iter().position(is_named).ok_or_else(elsewhere)?;
        tables.remove(place);
    } else {
        let table = entries.as_table_like_mut().ok_or_else(elsewhere)?;
        table.remove(name).ok_or_else(elsewhere)?;
    }
    Ok(document.to_string())
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    CstRootNode::parse(text, &JSON).map_err(|_| "mcpjoin cannot edit it in this form".to_owned())
}

/// The object that holds the entries. `create`: it is made where there is none.
fn entries(root: &CstRootNode, dialect: Dialect, create: bool) -> Result<CstObject, String> {
    let no_object = || "its entries are not in an object".to_owned();
    let (holder, _) = dialect.holder();
    let root = root.object_value().ok_or_else(no_object)?;
    // The settings of VS Code have the content of its own file below `mcp`.
    let above =
        root.object_value("mcp").filter(|mcp| dialect == Dialect::VsCodeJson && mcp.get(holder).is_some());
    let above = above.unwrap_or(root);
    let found = if create { above.object_value_or_create(holder) } else { above.object_value(holder) };
    found.ok_or_else(no_object)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Text(text) => CstInputValue::String(text.clone()),
        Value::Number(number) => CstInputValue::Number(number.clone()),
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::List(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Table(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

/// Reads the new text as every command does, so that no file is written that has other entries than it should.
fn check(path: &Path, new: &str, wanted: &[String]) -> Result<(), Failure> {
    let found = match Configuration::of(Source::new(path, new.to_owned()), Origin::Chosen) {
        Ok(configuration) => names(&configuration),
        Err(Unread { empty: true, .. }) => Vec::new(),
        Err(Unread { failure, .. }) => return Err(failure),
    };
    let is_same = found.len() == wanted.len() && wanted.iter().all(|name| found.contains(name));
    let problem = || {
        format!("{} cannot be edited: the result would have other entries than expected", path_shown(path))
    };
    if is_same { Ok(()) } else { Err(source::failure(problem(), "edit it with an editor")) }
}

impl Change {
    /// The file as the user would type it.
    pub(crate) fn file(&self) -> String {
        path_shown(&self.path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The texts before and after.
    pub(crate) fn texts(&self) -> (&str, &str) {
        (self.old.as_deref().unwrap_or_default(), &self.new)
    }

    /// Replaces the file at once for all readers. Returns the copy of the old one, which has its permissions; another copy of an
    /// earlier change is replaced.
    ///
    /// # Errors
    /// When the file has changed since it was read, or cannot be written.
    pub(crate) fn write(&self) -> io::Result<Option<PathBuf>> {
        // A link stays a link.
        let path = if self.path.is_symlink() { self.path.canonicalize()? } else { self.path.clone() };
        let Some(old) = &self.old else {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            let written = file.write_all(self.new.as_bytes()).and_then(|()| file.sync_all());
            if written.is_err() {
                // A part of a configuration is none.
                let _ = fs::remove_file(&path);
            }
            return written.map(|()| None);
        };
        let is_same = fs::read_to_string(&path)?.trim_start_matches('\u{feff}') == old;
        if !is_same {
            return Err(io::Error::other("another program has changed it in the meantime"));
        }
        let mut backup = path.as_os_str().to_owned();
        backup.push(format!(".{BACKUP}"));
        let backup = PathBuf::from(backup);
        fs::copy(&path, &backup)?;
        // The new file gets the permissions of the old one.
        let prepare = |file: &File| {
            file.set_permissions(fs::metadata(&path)?.permissions())?;
            file.sync_all()
        };
        replacement::replace(&path, self.new.as_bytes(), prepare).map(|()| Some(backup))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::dialect::Dialect;
    use super::{Value, with_entry, without_entry};

    fn entry() -> Value {
        Value::table([
            ("command", Value::text("npx")),
            ("args", Value::List(vec![Value::text("-y"), Value::text("pkg")])),
        ])
    }

    #[test]
    fn an_entry_is_added_and_removed_and_everything_else_stays() {
        let json = "{\n  // mine\n  \"theme\": 'dark',\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"} // first\n  },\n}\n";
        let toml = "# mine\nmodel = \"x\" # y\n\n[mcp_servers.a]\ncommand = \"x\"\n";
        for (dialect, text, parts) in [
            (
                Dialect::McpServersJson,
                json,
                &["// mine", "'dark'", "// first", "\"b\": {", "[\"-y\", \"pkg\"]"][..],
            ),
            (
                Dialect::McpServersJson,
                "",
                &["{\n  \"mcpServers\": {\n    \"b\": {\n      \"command\": \"npx\""],
            ),
            (Dialect::ZedJson, "{\n\t\"theme\": 1\n}", &["\t\"context_servers\": {\n\t\t\"b\": {"]),
            (Dialect::VsCodeJson, r#"{"mcp": {"servers": {}}}"#, &["\"mcp\"", "\"b\": {"]),
            (
                Dialect::CodexToml,
                toml,
                &["# mine\nmodel = \"x\" # y\n", "\n\n[mcp_servers.b]\ncommand = \"npx\"\n"],
            ),
            (Dialect::ServersToml, "", &["[[servers]]\ncommand = \"npx\"\n"]),
        ] {
            let with = with_entry(text, dialect, "b", &entry()).unwrap();
            for part in parts {
                assert!(with.contains(part), "{part:?} is not in {with}");
            }
            if dialect == Dialect::ServersToml {
                continue;
            }
            let without = without_entry(&with, dialect, "b").unwrap();
            let squeezed = |text: &str| text.split_whitespace().collect::<String>().replace(",}", "}");
            if !text.is_empty() && dialect != Dialect::ZedJson {
                assert_eq!(squeezed(&without), squeezed(text), "{without}");
            }
            without_entry(&without, dialect, "b").unwrap_err();
        }
        let two = "[[servers]]\nname = \"a\"\n\n# of b\n[[servers]]\nname = \"b\"\n\n[[servers]]\nname = \"c\" # c\n";
        let without = without_entry(two, Dialect::ServersToml, "b").unwrap();
        assert!(
            without.contains("\"a\"") && without.contains("\"c\" # c") && !without.contains("\"b\""),
            "{without}"
        );
        with_entry("[]", Dialect::McpServersJson, "b", &entry()).unwrap_err();
        with_entry(r#"{"mcpServers": 7}"#, Dialect::McpServersJson, "b", &entry()).unwrap_err();
    }
}
