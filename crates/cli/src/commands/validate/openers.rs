//! `mcpjoin validate --eras`: how a server responds to each first request that a client may send (an opener).

use std::time::{Duration, Instant};

use mcpjoin::proto::Version;
use mcpjoin::proto::session::Limits;
use mcpjoin_diagnostics::validate::{Opener, OpenerResponse};
use serde_json::{Value, json};

use super::text::titled;
use crate::args::Connect;
use crate::commands::{filled, joined, present};
use crate::connect::{Plan, limits};
use crate::failure::{Failure, seconds};
use crate::fold::{Head, prose};
use crate::ui::{BAD, FAINT, Ui};
use crate::visible::{self, cut_chars};

/// The longest text of a server.
const MAX_TEXT_CHARS: usize = 300;
/// The maximum number of versions that are shown.
const MAX_VERSIONS: usize = 20;

/// An opener and its response.
pub(super) struct Row {
    opener: Opener,
    response: OpenerResponse,
    /// The response in words, truncated and without secrets.
    text: String,
    /// The text of the server in the response.
    message: String,
    took: Duration,
}

/// Sends every opener that the options select, one after another. `on_opener`: called before each, with its number.
pub(super) async fn examine(
    ui: &Ui,
    plan: &Plan,
    connect: &Connect,
    mut on_opener: impl FnMut(usize, &str),
) -> Result<Vec<Row>, Failure> {
    let limits = limits(connect);
    let mut rows = Vec::new();
    for opener in openers(connect) {
        on_opener(rows.len() + 1, &opener.to_string());
        let link = plan.endpoint.link().await?;
        let began = Instant::now();
        let response = opener.over(link, &limits, timeout(&opener, &limits)).await;
        let took = began.elapsed();
        let shown = |text: &str| ui.hidden(&cut_chars(text, MAX_TEXT_CHARS)).into_owned();
        let text = shown(&in_words(&response));
        let message = match &response {
            OpenerResponse::Refused { message, .. } => shown(message),
            _ => text.clone(),
        };
        rows.push(Row { opener, response, text, message, took });
    }
    Ok(rows)
}

/// The openers that the options select.
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

/// The timeout of a response. A server of the other era may stay silent, and is not waited for as long as one that
/// starts.
fn timeout(opener: &Opener, limits: &Limits) -> Duration {
    if opener.is_legacy() { limits.initialize } else { limits.probe }
}

impl Row {
    /// Whether the response opens the session.
    pub(super) const fn is_open(&self) -> bool {
        self.opener.is_opened_by(&self.response)
    }

    /// For a program.
    pub(super) fn json(&self) -> Value {
        let opener = &self.opener;
        let names = |versions: &[Version]| {
            let names = versions.iter().take(MAX_VERSIONS);
            names.map(|version| cut_chars(version.as_str(), MAX_TEXT_CHARS)).collect::<Value>()
        };
        // What the kind of the response has.
        let details = match &self.response {
            OpenerResponse::Version(version) => {
                json!({ "version": cut_chars(version.as_str(), MAX_TEXT_CHARS) })
            }
            OpenerResponse::Versions(versions) => json!({ "versions": names(versions) }),
            OpenerResponse::Refused { code, supported, .. } => present(json!({
                "code": code,
                "message": self.message,
                "versions": filled(supported).map(names),
            })),
            OpenerResponse::Result | OpenerResponse::Silent(_) => json!({}),
            _ => json!({ "message": self.message }),
        };
        let about = present(json!({
            "method": opener.method(),
            "protocolVersion": opener.version().map(Version::as_str),
            // Whether the response opens the session.
            "opens": self.is_open(),
            "answer": kind(&self.response),
            "elapsedMs": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
        }));
        joined(about, details)
    }
}

/// The table for a person.
pub(super) fn table(out: &mut String, shown: &str, rows: &[Row]) {
    let open = rows.iter().filter(|row| row.is_open()).count();
    titled(out, shown, &format!(", {open} of {} opening requests accepted", rows.len()));
    out.push('\n');
    let labels: Vec<String> = rows.iter().map(|row| row.opener.to_string()).collect();
    let width = labels.iter().map(String::len).max().unwrap_or_default();
    for (row, label) in rows.iter().zip(labels) {
        let took = seconds(row.took);
        let response = visible::line(&row.text);
        let no = if row.is_open() { String::new() } else { format!("{BAD}no{BAD:#}: ") };
        let text = format!("  {label:<width$}  {FAINT}{took:>8}{FAINT:#}  {no}");
        let columns = width + 14 + if row.is_open() { 0 } else { "no: ".len() };
        prose(out, &Head { text: &text, columns, indent: 10 }, &response);
    }
}

/// The kind of the response for a program.
const fn kind(response: &OpenerResponse) -> &'static str {
    match response {
        OpenerResponse::Version(_) => "version",
        OpenerResponse::Versions(_) => "versions",
        OpenerResponse::Result => "result",
        OpenerResponse::Refused { .. } => "refused",
        OpenerResponse::Unreadable { .. } => "unreadable",
        OpenerResponse::Lost(_) => "lost",
        OpenerResponse::Closed(_) => "closed",
        OpenerResponse::Silent(_) => "silent",
        _ => "other",
    }
}

/// The response in words.
fn in_words(response: &OpenerResponse) -> String {
    let list = |versions: &[Version]| {
        let names: Vec<&str> = versions.iter().take(MAX_VERSIONS).map(Version::as_str).collect();
        let more = if versions.len() > MAX_VERSIONS { " and others" } else { "" };
        format!("{}{more}", names.join(", "))
    };
    match response {
        OpenerResponse::Version(version) => version.to_string(),
        OpenerResponse::Versions(versions) if versions.is_empty() => "an empty list of versions".into(),
        OpenerResponse::Versions(versions) => list(versions),
        OpenerResponse::Result => "a result".into(),
        OpenerResponse::Refused { code, message, supported } if supported.is_empty() => {
            format!("error {code}: {message}")
        }
        OpenerResponse::Refused { code, message, supported } => {
            format!("error {code}: {message} (it speaks {})", list(supported))
        }
        OpenerResponse::Unreadable { problem, first } => {
            format!("invalid response, {problem}: {}", String::from_utf8_lossy(first))
        }
        OpenerResponse::Lost(why) => why.clone(),
        OpenerResponse::Closed(end) => end.to_string(),
        OpenerResponse::Silent(time) => format!("no response in {}", seconds(*time)),
        _ => "something else".into(),
    }
}
