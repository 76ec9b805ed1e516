//! `mcpjoin read`: one resource.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use mcpjoin::client::Client;
use mcpjoin::proto::Raw;

use super::next_command::CommandLine;
use super::{misuse, operands, printed, request, result_content, unicode, unwritten, written};
use crate::args::Read;
use crate::connect::with_server;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::target::shown;
use crate::ui::{Ui, Unwritten};

const VERB: &str = "read";

/// Reads the resource. `argv`: the command line; `separated`: `--` stood between the operands and the server's command.
pub(crate) fn run(ui: &Ui, args: Read, argv: &[OsString], separated: bool) -> Result<Exit, Failure> {
    let words = args.words.clone();
    let invocation = operands(ui, VERB, &args.connect, args.words, separated)?;
    let uri = uri(invocation.operands)?;
    let connect = args.connect.answering(args.questions);
    let typed = CommandLine { argv, verb: VERB, words: &words, separated, target: &invocation.target };
    Ok(with_server(ui, &invocation.target, &connect, async |client, _| {
        read(ui, client, uri, args.file).await.map_err(|failure| typed.complete(failure))
    }))
}

/// The URI among the operands.
pub(super) fn uri(operands: Vec<OsString>) -> Result<String, Failure> {
    let mut operands = operands.into_iter();
    let uri = unicode(VERB, "the resource's URI", operands.next())?;
    match operands.next() {
        Some(word) => Err(misuse(VERB, format!("read takes one URI, and {} is an extra word", shown(&word)))),
        None => Ok(uri),
    }
}

/// Reads a resource with a client.
pub(super) async fn read(
    ui: &Ui,
    client: &Client,
    uri: String,
    file: Option<PathBuf>,
) -> Result<Exit, Failure> {
    request::enable_logs(ui, client, None).await;
    let result = request::result(ui, client.read_resource(uri.as_str()), Phase::Read).await?;
    let contents = Object::of(&result).and_then(|result| result.items("contents"));
    let Some(contents) = contents else {
        return Err(Failure::bad_reply("the result has no array `contents`", Phase::Read));
    };
    let one = match contents.as_slice() {
        [one] if !ui.json => Object::of(one),
        _ => None,
    };
    let outcome = match (one, file) {
        (Some(one), Some(path)) if path.as_os_str() != "-" => {
            let bytes = bytes(&one)?;
            let name = shown(path.as_ref());
            let said = format!("{} bytes written to {name}", bytes.len());
            let outcome = ui.aside(move |_| save(&path, &bytes).map_err(Into::into)).await;
            if let Err(Unwritten::Failed(error)) = &outcome {
                return Err(unwritten(&name, error));
            }
            if outcome.is_ok() {
                ui.note(&said);
            }
            outcome
        }
        (None, Some(_)) => {
            let hint = "leave out -o: the contents are shown, and --json shows all of them";
            return Err(Failure::usage(
                format!("{} has {} contents, but -o takes one", shown(uri.as_ref()), contents.len()),
                hint,
            ));
        }
        (Some(one), file) if file.is_some() || !ui.shows_results() => {
            let bytes = bytes(&one)?;
            ui.aside(move |ui| ui.bytes(&bytes)).await
        }
        (one, _) => {
            if one.is_some_and(|one| one.value("blob").is_some()) {
                ui.note("-o FILE writes the bytes to a file");
            }
            return Ok(printed(ui, &result, || page(&contents)).await);
        }
    };
    Ok(written(ui, outcome))
}

/// The bytes of a content.
fn bytes(content: &Object) -> Result<Vec<u8>, Failure> {
    let bytes = result_content::bytes(content)
        .ok_or_else(|| Failure::bad_reply("the content has neither text nor blob", Phase::Read))?;
    bytes.map_err(|error| Failure::bad_reply(format!("the blob is not base64: {error}"), Phase::Read))
}

fn save(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.flush()
}

/// The contents for a person: each text on its own lines, and one line for each other content.
fn page(contents: &[Raw]) -> String {
    result_content::page_of(contents, |content| match content.text("text") {
        Some(text) => text,
        None if content.value("blob").is_some() => result_content::described("binary", content),
        None => result_content::described("content without text or blob", content),
    })
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::{bytes, page};
    use crate::object::Object;

    #[test]
    fn several_contents_stand_one_below_the_other() {
        let contents = r#"[{"uri":"a:b","text":"one"},{"uri":"a:c","mimeType":"x/y","blob":"AAEC"},
            {"uri":"a:d"},{"text":"two\n"},7]"#;
        let contents: Vec<Raw> = Raw::parse(contents).unwrap().decode().unwrap();
        let shown = "one\n[binary, a:c, x/y, 3 bytes]\n[content without text or blob, a:d]\ntwo\n\
                     [content that is not an object]\n";
        assert_eq!(page(&contents), shown);
    }

    #[test]
    fn bytes_are_those_that_were_meant() {
        let read = |json: &str| bytes(&Object::of(&Raw::parse(json.to_owned()).unwrap()).unwrap());
        assert_eq!(read(r#"{"text":"ä\r\n"}"#).unwrap(), "ä\r\n".as_bytes());
        for blob in ["AAEC/w==", "AAEC/w", "AAEC\\r\\n/w==\\n"] {
            assert_eq!(read(&format!(r#"{{"blob":"{blob}"}}"#)).unwrap(), [0, 1, 2, 255], "{blob}");
        }
        for content in [r#"{"blob":"*"}"#, r#"{"blob":"A"}"#, r#"{"blob":7}"#, "{}"] {
            assert_eq!(read(content).unwrap_err().id, "E_BAD_REPLY", "{content}");
        }
    }
}
