//! The two sides of a comparison: a server, whose lists are read, or a document that `list --json` has written.
//!
//! Used by `diff`. Both become an [`Offer`].

use std::ffi::{OsStr, OsString};
use std::path::Path;

use mcpjoin::client::Client;
use mcpjoin::proto::{Kind, Raw};
use mcpjoin_rules::Offer;

use crate::args::Connect;
use crate::commands::lists::{ALL, Part, Section, ServerFacts, Stopped, read};
use crate::commands::{misuse, named_by, target_of};
use crate::config::{ToolFilter, is_program};
use crate::connect::{bounded, read_file};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::target::{Target, shown, stands_alone};
use crate::ui::Ui;

const VERB: &str = "diff";
/// The maximum size of a side: some hundred thousand tools. A server could list without end.
const MAX_SIDE_BYTES: usize = 256 * 1024 * 1024;

/// A side of a comparison.
pub(super) enum Side {
    /// A server whose lists are to be read.
    Server(Box<Target>),
    /// A document, which was read.
    File(Box<Snapshot>),
}

/// What a server offers, and the source of that.
#[derive(Default)]
pub(super) struct Snapshot {
    pub(super) source: String,
    pub(super) offer: Offer,
}

/// Parses both sides and reads files. `command`: the words behind `--`.
pub(super) fn of_words(
    ui: &Ui,
    connect: &Connect,
    words: Vec<OsString>,
    command: Option<Vec<OsString>>,
) -> Result<[Side; 2], Failure> {
    let count = words.len();
    let mut words = words.into_iter();
    let server = |target| Side::Server(Box::new(target));
    let (old, new) = match (words.next(), words.next(), connect.server(), command) {
        (Some(old), None, Some(_), None) => (old, server(target_of(ui, VERB, connect, Vec::new(), false)?)),
        (Some(old), None, None, Some(command)) => {
            if command.is_empty() {
                let hint = "mcpjoin diff OLD -- COMMAND [ARG]...";
                return Err(Failure::usage("no command follows --", hint));
            }
            (old, server(target_of(ui, VERB, connect, command, true)?))
        }
        (Some(old), Some(new), None, None) if count == 2 => {
            if old == "-" && new == "-" {
                return Err(misuse(VERB, "both sides are standard input"));
            }
            (old, of(ui, connect, new)?)
        }
        (None, ..) => return Err(misuse(VERB, "diff needs two servers or files; none was given")),
        (Some(_), None, None, None) => {
            return Err(misuse(VERB, "diff needs two servers or files; only one was given"));
        }
        _ => {
            let problem = "diff takes two servers or files; more were given";
            return Err(
                Failure::usage(problem, "mcpjoin diff OLD NEW").or("mcpjoin diff OLD -- COMMAND [ARG]...")
            );
        }
    };
    Ok([of(ui, connect, old)?, new])
}

/// Parses one word: a file with a document, or a server.
fn of(ui: &Ui, connect: &Connect, word: OsString) -> Result<Side, Failure> {
    match snapshot_file(&word)? {
        Some(snapshot) => Ok(Side::File(Box::new(snapshot))),
        None => {
            named_by(ui, VERB, connect, None, vec![word], false).map(|target| Side::Server(Box::new(target)))
        }
    }
}

/// Reads a document; `None` if the word does not name one.
fn snapshot_file(word: &OsStr) -> Result<Option<Snapshot>, Failure> {
    let most = u64::try_from(MAX_SIDE_BYTES).unwrap_or(u64::MAX);
    if word == "-" {
        let source = "standard input";
        let bytes = bounded(std::io::stdin(), most).map_err(|problem| unreadable(source, &problem))?;
        return snapshot(source, bytes).map(Some);
    }
    let path = Path::new(word);
    let is_called_so = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let is_path = is_called_so || word.as_encoded_bytes().iter().any(|byte| matches!(byte, b'/' | b'\\'));
    if stands_alone(word) || !is_path {
        return Ok(None);
    }
    let name = shown(word);
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() || !is_called_so && is_program(word) => return Ok(None),
        Ok(_) => {}
        Err(_) if !is_called_so => return Ok(None),
        Err(error) => {
            let hint = format!("mcpjoin list --json TARGET > {name} creates the file");
            return Err(Failure::usage(format!("{name} cannot be read: {error}"), hint));
        }
    }
    let bytes = read_file(path, most).map_err(|problem| unreadable(&name, &problem))?;
    let snapshot = snapshot(&name, bytes).map_err(|failure| match is_called_so {
        true => failure,
        // The file may have been meant as a program.
        false => {
            let message = format!("{}; it is not executable either", failure.message);
            Failure { message, ..failure }
        }
    });
    snapshot.map(Some)
}

fn unreadable(name: &str, problem: &str) -> Failure {
    Failure::usage(
        format!("{name} cannot be read: {problem}"),
        "use a server, or a file written by list --json",
    )
}

/// Parses a document of `list --json`.
fn snapshot(source: &str, bytes: Vec<u8>) -> Result<Snapshot, Failure> {
    let again = "mcpjoin list --json TARGET > FILE creates such a file";
    let no = |problem: &str| Failure::usage(format!("{source} {problem}"), again);
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        // PowerShell writes a byte order mark.
        Some(rest) => rest.to_vec(),
        None => bytes,
    };
    let document = Raw::parse(bytes).map_err(|error| no(&format!("is not valid JSON: {error}")))?;
    let document = Object::of(&document).ok_or_else(|| no("was not written by list --json"))?;
    if document.items("servers").is_some() {
        let problem = format!("{source} has the lists of several servers");
        return Err(Failure::usage(
            problem,
            "pin each server separately: mcpjoin list --json NAME > NAME.json",
        ));
    }
    if document.value("mcpServers").or_else(|| document.value("servers")).is_some() {
        let problem = format!("{source} is a configuration, not a file written by list --json");
        return Err(Failure::usage(problem, format!("use one of its entries: {source}#NAME")));
    }
    if document.text("protocolVersion").is_none() {
        return Err(no("was not written by list --json: it has no protocolVersion"));
    }
    if let Some(errors) = document.value("errors") {
        let errors: Vec<Raw> = errors.decode().unwrap_or_default();
        let error = errors.first().and_then(Object::of);
        let text = |name: &str| error.as_ref().and_then(|error| error.text(name)).unwrap_or_default();
        let (method, message) = (text("method"), text("message"));
        let of = if method.is_empty() { "a list".into() } else { method };
        return Err(no(&format!("is incomplete: {of} ended early ({message})")));
    }
    let mut snapshot = Snapshot { source: source.to_owned(), offer: Offer::default() };
    let mut known = Vec::new();
    for (name, value) in document {
        if let Some(section) = ALL.iter().find(|section| section.member == name) {
            let items = if value.kind() == Kind::Array { value.decode().ok() } else { None };
            let items = items
                .ok_or_else(|| no(&format!("was not written by list --json: {name} is not an array")))?;
            *list(&mut snapshot.offer, section) = items;
            known.push(section.member);
        } else {
            fact(&mut snapshot.offer, &name, value);
        }
    }
    // `info --json` writes no lists, and a part of a document may be missing.
    let declared = snapshot.offer.capabilities.as_ref().and_then(Object::of);
    let is_missing = |section: &&&Section| {
        let capability = match section.member {
            "resourceTemplates" => "resources",
            member => member,
        };
        declared.as_ref().is_some_and(|declared| declared.value(capability).is_some())
            && !known.contains(&section.member)
    };
    match ALL.iter().find(is_missing) {
        Some(section) => {
            Err(no(&format!("is incomplete: it has no {}, which the server declares", section.member)))
        }
        None => Ok(snapshot),
    }
}

/// Reads all lists of a server.
///
/// # Errors
/// One of the lists cannot be read: an incomplete side cannot be compared.
pub(super) async fn ask(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    pages: usize,
) -> Result<Snapshot, Failure> {
    let mut snapshot = Snapshot::default();
    for (name, value) in ServerFacts::of(client).members {
        fact(&mut snapshot.offer, name, value);
    }
    let mut room = MAX_SIDE_BYTES;
    let mut failed = None;
    read(ui, client, filter, &ALL, pages, async |part| {
        match part {
            Part::Page(section, items) => match keep(&mut snapshot.offer, section, items, &mut room) {
                Ok(()) => Ok(()),
                Err(failure) => {
                    failed = Some(failure);
                    Err(Stopped)
                }
            },
            // The first failure is enough.
            Part::Failed(_, failure) => {
                failed = Some(*failure);
                Err(Stopped)
            }
            Part::End(_) | Part::Pause => Ok(()),
        }
    })
    .await?;
    failed.map_or(Ok(snapshot), Err)
}

/// Appends the items of a page. `room`: the bytes that are left.
fn keep(offer: &mut Offer, section: &Section, items: Vec<Raw>, room: &mut usize) -> Result<(), Failure> {
    let size: usize = items.iter().map(|item| item.len() + size_of::<Raw>()).sum();
    *room = room.checked_sub(size).ok_or_else(|| {
        let problem = format!("its lists exceed the limit of {MAX_SIDE_BYTES} bytes");
        Failure::new("E_TOO_LARGE", Exit::Connection, Phase::List, problem)
            .hint("mcpjoin list --json shows them: compare only the parts that you need")
    })?;
    list(offer, section).extend(items);
    Ok(())
}

fn list<'a>(offer: &'a mut Offer, section: &Section) -> &'a mut Vec<Raw> {
    match section.member {
        "tools" => &mut offer.tools,
        "resources" => &mut offer.resources,
        "resourceTemplates" => &mut offer.resource_templates,
        _ => &mut offer.prompts,
    }
}

/// Stores a fact about the server by the name of its member in the document.
fn fact(offer: &mut Offer, name: &str, value: Raw) {
    match name {
        "protocolVersion" => offer.protocol_version = Some(value),
        "serverInfo" => offer.server_info = Some(value),
        "capabilities" => offer.capabilities = Some(value),
        "instructions" => offer.instructions = Some(value),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;
    use mcpjoin_rules::Offer;

    use super::{keep, snapshot};
    use crate::commands::lists::TOOLS;

    #[test]
    fn a_document_is_known_by_what_it_holds() {
        let whole = "\u{feff}{\"protocolVersion\":\"x\",\"tools\":[{\"name\":\"a\"}],\"instructions\":\"i\"}";
        let whole = snapshot("f", whole.as_bytes().to_vec()).unwrap();
        assert_eq!((whole.offer.tools.len(), whole.source.as_str()), (1, "f"));
        assert_eq!(whole.offer.instructions.unwrap().as_str(), "\"i\"");
        for (text, problem) in [
            ("", "f is not valid JSON"),
            ("[]", "f was not written by list --json"),
            (r#"{"tools":[]}"#, "it has no protocolVersion"),
            (r#"{"protocolVersion":"x","tools":{}}"#, "tools is not an array"),
            (r#"{"servers":[]}"#, "several servers"),
            (r#"{"mcpServers":{}}"#, "is a configuration"),
            (
                r#"{"protocolVersion":"x","errors":[{"method":"tools/list","message":"gone"}]}"#,
                "f is incomplete: tools/list ended early (gone)",
            ),
            (r#"{"protocolVersion":"x","errors":7}"#, "f is incomplete"),
            (
                r#"{"protocolVersion":"x","capabilities":{"tools":{}},"counts":{"tools":2}}"#,
                "f is incomplete: it has no tools, which the server declares",
            ),
            (
                r#"{"protocolVersion":"x","capabilities":{"resources":{}},"resources":[]}"#,
                "it has no resourceTemplates",
            ),
        ] {
            let failure = snapshot("f", text.into()).map(|_| ()).unwrap_err();
            assert!(failure.message.contains(problem), "{text}: {}", failure.message);
        }
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let items = || vec![Raw::null(), Raw::null()];
        let mut offer = Offer::default();
        let mut room = 2 * (4 + size_of::<Raw>());
        keep(&mut offer, &TOOLS, items(), &mut room).unwrap();
        assert_eq!((room, offer.tools.len()), (0, 2));
        assert_eq!(keep(&mut offer, &TOOLS, items(), &mut room).unwrap_err().id, "E_TOO_LARGE");
        let mut room = 1;
        keep(&mut Offer::default(), &TOOLS, vec![Raw::null()], &mut room).unwrap_err();
    }
}
