//! `mcpjoin validate --eras`: how a server responds to each first request that a client may send.

use std::time::{Duration, Instant};

use mcpjoin::proto::Version;
use mcpjoin::proto::session::Limits;
use mcpjoin_diagnostics::validate::{Opener, OpenerAnswer};
use serde::Serialize;

use super::page::titled;
use super::report::cut;
use crate::args::Connect;
use crate::connect::{Plan, limits};
use crate::failure::{Failure, seconds};
use crate::fold::{Head, prose};
use crate::ui::{BAD, FAINT, Ui};
use crate::visible;

/// The longest text of a server.
const MAX_TEXT_CHARS: usize = 300;
/// The versions of a server that are shown.
const MAX_VERSIONS: usize = 20;

/// An opener and the response to it, for a program.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfRow<'a> {
    method: &'a str,
    /// The version that it offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_version: Option<&'a str>,
    /// Whether the session is open then.
    opens: bool,
    /// The kind of the response: `version`, `versions`, `result`, `refused`, `unreadable`, `lost`, `closed`, `silent` or `other`.
    answer: &'static str,
    elapsed_ms: u64,
    /// The version that the server names.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The versions that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<String>>,
    /// The code of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// One opener and the response to it.
pub(super) struct Row {
    opener: Opener,
    answer: OpenerAnswer,
    /// The answer in words: cut, and without secrets.
    said: String,
    /// The server's own words in it.
    message: String,
    took: Duration,
}

/// Tries every opener that the options leave, one after another. `told`: called before each, with its number.
pub(super) async fn look(
    ui: &Ui,
    plan: &Plan,
    connect: &Connect,
    mut told: impl FnMut(usize, &str),
) -> Result<Vec<Row>, Failure> {
    let limits = limits(connect);
    let mut rows = Vec::new();
    for opener in openers(connect) {
        told(rows.len() + 1, &opener.to_string());
        let link = plan.endpoint.link().await?;
        let began = Instant::now();
        let answer = opener.over(link, &limits, patience(&opener, &limits)).await;
        let took = began.elapsed();
        let kept = |text: &str| ui.hidden(&cut(text, MAX_TEXT_CHARS)).into_owned();
        let said = kept(&words(&answer));
        let message = match &answer {
            OpenerAnswer::Refused { message, .. } => kept(message),
            _ => said.clone(),
        };
        rows.push(Row { opener, answer, said, message, took });
    }
    Ok(rows)
}

/// The openers that the options leave.
fn openers(connect: &Connect) -> impl Iterator<Item = Opener> {
    let (choice, wanted) = (connect.era, connect.protocol_version.clone());
    let is_of =
        move |opener: &Opener| if opener.is_legacy() { choice.has_legacy() } else { choice.has_modern() };
    let names = move |opener: &Opener| {
        wanted
            .as_ref()
            .is_none_or(|wanted| opener.version().is_some_and(|offered| offered.as_str() == wanted.as_str()))
    };
    Opener::all().into_iter().filter(is_of).filter(names)
}

/// A server of the other era may stay mute: that is not waited for as long as for one that starts.
fn patience(opener: &Opener, limits: &Limits) -> Duration {
    if opener.is_legacy() { limits.initialize } else { limits.probe }
}

impl Row {
    /// Whether it does what it is for.
    pub(super) const fn is_open(&self) -> bool {
        self.opener.is_opened_by(&self.answer)
    }

    /// For a program.
    pub(super) fn document(&self) -> OfRow<'_> {
        let opener = &self.opener;
        let names = |versions: &[Version]| {
            let names = versions.iter().take(MAX_VERSIONS);
            Some(names.map(|version| cut(version.as_str(), MAX_TEXT_CHARS)).collect())
        };
        let mut row = OfRow {
            method: opener.method(),
            protocol_version: opener.version().map(Version::as_str),
            opens: self.is_open(),
            answer: kind(&self.answer),
            elapsed_ms: u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            version: None,
            versions: None,
            code: None,
            message: None,
        };
        match &self.answer {
            OpenerAnswer::Version(version) => row.version = Some(cut(version.as_str(), MAX_TEXT_CHARS)),
            OpenerAnswer::Versions(versions) => row.versions = names(versions),
            OpenerAnswer::Refused { code, supported, .. } => {
                (row.code, row.message) = (Some(*code), Some(self.message.as_str()));
                row.versions = names(supported).filter(|_| !supported.is_empty());
            }
            OpenerAnswer::Result | OpenerAnswer::Silent(_) => {}
            _ => row.message = Some(&self.message),
        }
        row
    }
}

/// The table for a person.
pub(super) fn table(out: &mut String, shown: &str, rows: &[Row]) {
    let open = rows.iter().filter(|row| row.is_open()).count();
    titled(out, shown, &format!(", {} openers, {open} of them open it", rows.len()));
    out.push('\n');
    let labels: Vec<String> = rows.iter().map(|row| row.opener.to_string()).collect();
    let width = labels.iter().map(String::len).max().unwrap_or_default();
    for (row, label) in rows.iter().zip(labels) {
        let took = seconds(row.took);
        let said = visible::line(&row.said);
        let no = if row.is_open() { String::new() } else { format!("{BAD}no{BAD:#}: ") };
        let text = format!("  {label:<width$}  {FAINT}{took:>8}{FAINT:#}  {no}");
        let columns = width + 14 + if row.is_open() { 0 } else { "no: ".len() };
        prose(out, &Head { text: &text, columns, indent: 10 }, &said);
    }
}

/// The answer for a program.
const fn kind(answer: &OpenerAnswer) -> &'static str {
    match answer {
        OpenerAnswer::Version(_) => "version",
        OpenerAnswer::Versions(_) => "versions",
        OpenerAnswer::Result => "result",
        OpenerAnswer::Refused { .. } => "refused",
        OpenerAnswer::Unreadable { .. } => "unreadable",
        OpenerAnswer::Lost(_) => "lost",
        OpenerAnswer::Closed(_) => "closed",
        OpenerAnswer::Silent(_) => "silent",
        _ => "other",
    }
}

/// The answer in words.
fn words(answer: &OpenerAnswer) -> String {
    let list = |versions: &[Version]| {
        let names: Vec<&str> = versions.iter().take(MAX_VERSIONS).map(Version::as_str).collect();
        let more = if versions.len() > MAX_VERSIONS { " and others" } else { "" };
        format!("{}{more}", names.join(", "))
    };
    match answer {
        OpenerAnswer::Version(version) => version.to_string(),
        OpenerAnswer::Versions(versions) if versions.is_empty() => "an empty list of versions".into(),
        OpenerAnswer::Versions(versions) => list(versions),
        OpenerAnswer::Result => "a result".into(),
        OpenerAnswer::Refused { code, message, supported } if supported.is_empty() => {
            format!("error {code}: {message}")
        }
        OpenerAnswer::Refused { code, message, supported } => {
            format!("error {code}: {message} (it speaks {})", list(supported))
        }
        OpenerAnswer::Unreadable { problem, first } => {
            format!("no answer that can be read, {problem}: {}", String::from_utf8_lossy(first))
        }
        OpenerAnswer::Lost(why) => why.clone(),
        OpenerAnswer::Closed(end) => end.to_string(),
        OpenerAnswer::Silent(time) => format!("nothing in {}", seconds(*time)),
        _ => "something else".into(),
    }
}
