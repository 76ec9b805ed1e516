//! The chapter of stdio: lines over standard input and output, and the end of the process.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio>

use mcpjoin_proto::scan::{Encoding, ScanErrorKind};
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{DecodeErrorKind, Raw};

use crate::base::silence;
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::{OurRequest, ServerView, StrayMeaning};
use crate::trace::{Line, Probe};

/// A text over more lines than these is not put together again.
const PIECES: usize = 1000;
/// So many bytes are looked through for such texts: a server may write as much as it likes, and begin again each time.
const LOOKED_THROUGH: usize = 64 << 20;
/// A line counts as no fewer bytes than these: to look at a short one costs as much.
const LEAST: usize = 64;

const STDIO: &[Source] = sources![
    LEGACY Must "basic/transports#stdio",
    MODERN Must "basic/transports/stdio",
];

rules! {
    pub(crate) RULES for Server in Chapter::Stdio;

    "only-messages", STDIO,
        "Nothing is written to standard output but messages.",
        |view| {
            let split = split_over_lines(&view.lines);
            lines(view, |place, kind| match kind {
                DecodeErrorKind::NotAnObject => true,
                // These have rules of their own.
                DecodeErrorKind::Json(ScanErrorKind::Utf8 | ScanErrorKind::Encoding(_)) => false,
                // Deeper than we read, and keys of ours to check elsewhere.
                DecodeErrorKind::Json(
                    ScanErrorKind::Depth(_) | ScanErrorKind::TooLong | ScanErrorKind::DuplicateKey,
                ) => false,
                // Of the last line nobody knows how it would have gone on.
                DecodeErrorKind::Json(ScanErrorKind::Truncated) => {
                    split.binary_search(&place).is_err()
                        && view.lines.last().is_some_and(|(last, _)| *last != place)
                }
                DecodeErrorKind::Json(_) => split.binary_search(&place).is_err(),
                _ => false,
            })
        };
    "utf-8", [
        FIRST Must "https://www.rfc-editor.org/rfc/rfc8259#section-8.1",
        LEGACY_SINCE_SECOND Must "basic/transports",
        MODERN Must "basic/transports#messages",
    ],
        "Messages are written in UTF-8.",
        |view| {
            lines(view, |_, kind| match kind {
                DecodeErrorKind::Json(ScanErrorKind::Utf8) => true,
                DecodeErrorKind::Json(ScanErrorKind::Encoding(encoding)) => {
                    *encoding != Encoding::Utf8WithMark
                }
                _ => false,
            })
        };
    "no-byte-order-mark", [ALL Must "https://www.rfc-editor.org/rfc/rfc8259#section-8.1"],
        "No byte order mark stands before a message.",
        |view| {
            lines(view, |_, kind| {
                *kind == DecodeErrorKind::Json(ScanErrorKind::Encoding(Encoding::Utf8WithMark))
            })
        };
    "one-line-each", STDIO,
        "A message has no line break in it.",
        |view| {
            let split = split_over_lines(&view.lines);
            lines(view, |place, kind| {
                matches!(kind, DecodeErrorKind::Json(_)) && split.first() == Some(&place)
            })
        };
    "no-array-written", [LEGACY_SINCE_THIRD Must "basic/transports#stdio", MODERN Must "basic/transports/stdio"],
        "A line is one message, and no array of messages.",
        |view| {
            let findings = view.lines.iter().map(|(_, line)| {
                let json = Raw::parse(line.bytes().clone()).is_ok();
                (json && line.is_array())
                    .then(|| Finding::new("the line is an array", None, Some(line.bytes())))
            });
            Outcome::of(findings, "the server wrote nothing")
        };
    "no-request-written", [MODERN Must "basic/transports/stdio#receiving-messages"],
        "The server writes no request: what it needs is asked for in a result.",
        |view| {
            let requests = view.requests.iter().map(|request| {
                Some(Finding::new(
                    format!("the server asks for {}", request.what.method),
                    None,
                    Some(request.line.bytes()),
                ))
            });
            Outcome::of(requests.chain(view.lines.iter().map(|_| None)), "the server wrote nothing")
        };
    "several-lines-at-once", STDIO,
        "Messages that come together are taken one by one.",
        |view| {
            let findings = view
                .probed(Probe::TwoAtOnce)
                .filter(|request| !request.responses.is_empty() || !view.may_be_answered(request));
            Outcome::of(
                findings.map(|request| request.responses.is_empty().then(|| silence(view, request))),
                "nothing was sent together",
            )
        };
    "whole-lines", STDIO,
        "A message ends with its line: one that comes in pieces is taken as one, and not before its end.",
        |view| {
            let early = |request: &OurRequest<'_>| {
                view.stray_responses
                    .iter()
                    .find(|stray| matches!(view.meaning(stray), StrayMeaning::Early(meant) if meant.place == request.place))
            };
            let findings = view
                .probed(Probe::InPieces)
                .filter(|request| !request.responses.is_empty() || !view.may_be_answered(request))
                .map(|request| match early(request) {
                    Some(stray) => {
                        Some(request.finding("an answer came before the end of the line", stray.line))
                    }
                    None => request.responses.is_empty().then(|| silence(view, request)),
                });
            Outcome::of(findings, "nothing was sent in pieces")
        };
    "ends-with-its-input", [
        LEGACY Advice "basic/lifecycle#shutdown",
        MODERN Should "basic/transports/stdio#shutdown",
    ],
        "The server ends when its standard input is closed.",
        |view| {
            let findings = view.ended_in_order().map(|ended| {
                ended.forced.then(|| Finding::new("it had to be ended by a signal", None, None))
            });
            Outcome::of(findings, "its input was not closed, or it had ended before")
        };
    "ends-in-order", [LEGACY Advice "basic/lifecycle#shutdown", MODERN Advice "basic/transports/stdio#shutdown"],
        "A server whose input is closed ends with the status 0.",
        |view| {
            let ended = view.ended_in_order().filter(|ended| !ended.forced).and_then(|ended| ended.exit);
            let findings = ended.map(|exit| {
                (exit != ProcessExit::Code(0))
                    .then(|| Finding::new(format!("it ended with {exit}"), None, None))
            });
            Outcome::of(findings, "it did not end by itself, or its status is not known")
        };
}

/// Every line that came, but for those that are no message for this reason.
fn lines(view: &ServerView<'_>, broken: impl Fn(usize, &DecodeErrorKind) -> bool) -> Outcome {
    let findings = view.lines.iter().zip(1..).map(|((place, line), number)| {
        // They stand in the order of their places.
        let first = view.invalid.partition_point(|fault| fault.place < *place);
        let fault = view.invalid.get(first).filter(|fault| fault.place == *place && !line.is_array())?;
        broken(*place, &fault.what.kind)
            .then(|| Finding::new(format!("line {number}: {}", fault.what.kind), None, Some(line.bytes())))
    });
    Outcome::of(findings, "the server wrote nothing")
}

/// The lines that are pieces of a message written over several lines, in their order.
pub(crate) fn split_over_lines(lines: &[(usize, &Line)]) -> Vec<usize> {
    let mut split = Vec::new();
    let (mut start, mut room) = (0, LOOKED_THROUGH);
    while start < lines.len() {
        let length = pieces(&lines[start..], &mut room).unwrap_or(1);
        if length > 1 {
            split.extend(lines[start..start + length].iter().map(|(place, _)| *place));
        }
        start += length;
    }
    split
}

/// Over how many lines the object goes that begins with the first of these; `None` when none does, or when there is no
/// room left to look.
fn pieces(lines: &[(usize, &Line)], room: &mut usize) -> Option<usize> {
    let mut text = Vec::new();
    for (count, (_, line)) in lines.iter().take(PIECES + 1).enumerate() {
        let line = line.bytes();
        text.extend_from_slice(line);
        *room = room.checked_sub(line.len().max(LEAST))?;
        // An object ends with this, and whether one begins is seen at once.
        if count == 0 && line.trim_ascii_start().starts_with(b"{") || line.trim_ascii_end().ends_with(b"}") {
            *room = room.checked_sub(text.len())?;
            match Raw::parse(text.clone()) {
                Ok(_) => return Some(count + 1),
                Err(error) if error.kind == ScanErrorKind::Truncated => {}
                Err(_) => return None,
            }
        } else if count == 0 {
            return None;
        }
        text.push(b'\n');
    }
    None
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::{Era, Version};

    use crate::{Outcome, Run, Selection, Trace, judge};

    #[test]
    fn a_flood_of_beginnings_is_judged_soon() {
        let mut run = Run::new("flood", Version::newest(Era::Legacy));
        for _ in 0..20_000 {
            run.received(r#"{"a":["#);
        }
        let trace = Trace { runs: vec![run], ..Trace::default() };
        let rules = ["only-messages", "one-line-each"];
        let report = judge(&trace, &Selection::new(rules, []).expect("two rules"));
        let failed = |place: usize| match &report.verdicts[place].outcome {
            Outcome::Failed(findings) => findings.len(),
            _ => 0,
        };
        // Of the last line nobody knows how it would have gone on.
        assert_eq!((failed(0), failed(1)), (19_999, 0));
    }
}
