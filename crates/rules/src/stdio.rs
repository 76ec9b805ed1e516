//! The chapter of stdio: lines over standard input and output, and the end of the process.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio>

use mcpjoin_proto::scan::{Encoding, ScanErrorKind};
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{DecodeErrorKind, Raw};

use crate::base::{goes_on, unanswered};
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::server_view::{OurRequest, ServerView, StrayMeaning};
use crate::trace::{Line, Probe};

/// A text over more lines than these is not put together again.
const MAX_SPLIT_LINES: usize = 1000;
/// The bytes that are searched for such texts: a server may write many lines that look like the beginning of one.
const LOOKED_THROUGH: usize = 64 << 20;
/// A line counts as at least this many bytes, because searching a short one costs as much.
const MIN_LINE_COST: usize = 64;

pub(crate) const STDIO: &[Source] =
    sources![LEGACY Must "basic/transports#stdio", MODERN Must "basic/transports/stdio"];
pub(crate) const NO_ARRAY: &[Source] =
    sources![LEGACY_SINCE_THIRD Must "basic/transports#stdio", MODERN Must "basic/transports/stdio"];
pub(crate) const BYTE_ORDER_MARK: &[Source] =
    sources![ALL Must "https://www.rfc-editor.org/rfc/rfc8259#section-8.1"];

rules! {
    pub(crate) RULES for Server in Chapter::Stdio;

    "only-messages", STDIO,
        "Only messages are written to standard output.",
        |view| {
            let split = split_over_lines(&view.lines);
            let is_last = |place| view.lines.last().is_some_and(|(last, _)| *last == place);
            lines(view, |place, kind| {
                // How the last line would have gone on is not known.
                let is_truncated = *kind == DecodeErrorKind::Json(ScanErrorKind::Truncated) && is_last(place);
                let is_json = is_no_message(kind) && !is_other_encoding(kind) && !is_truncated;
                *kind == DecodeErrorKind::NotAnObject || is_json && split.binary_search(&place).is_err()
            })
        };
    "utf-8", [
        FIRST Must "https://www.rfc-editor.org/rfc/rfc8259#section-8.1",
        LEGACY_SINCE_SECOND Must "basic/transports",
        MODERN Must "basic/transports#messages",
    ],
        "Messages are written in UTF-8.",
        |view| lines(view, |_, kind| is_other_encoding(kind) && !has_byte_order_mark(kind));
    "no-byte-order-mark", BYTE_ORDER_MARK,
        "No byte order mark precedes a message.",
        |view| lines(view, |_, kind| has_byte_order_mark(kind));
    "one-line-each", STDIO,
        "A message contains no line break.",
        |view| {
            let split = split_over_lines(&view.lines);
            lines(view, |place, kind| matches!(kind, DecodeErrorKind::Json(_)) && split.first() == Some(&place))
        };
    "no-array-written", NO_ARRAY,
        "A line is one message, and not an array of messages.",
        else "the server wrote nothing",
        |view| view.lines.iter().map(|(_, line)| array(line));
    "no-request-written", [MODERN Must "basic/transports/stdio#receiving-messages"],
        "The server sends no request: it asks for input in a result.",
        else "the server wrote nothing",
        |view| {
            let requests = view.requests.iter();
            let requests =
                requests.map(|it| Some(it.finding(format_args!("the server sends the request {}", it.what.method))));
            requests.chain(view.lines.iter().map(|_| None))
        };
    "several-lines-at-once", STDIO,
        "Several messages in one write are handled one by one.",
        |view| goes_on(view, Probe::TwoAtOnce, "no messages were sent in one write");
    "whole-lines", STDIO,
        "A message ends with its line: a message in several writes is handled as one, and not before its \
         end.",
        else "no message was sent in several writes",
        |view| {
            let early = |request: &OurRequest<'_>| view.stray_responses.iter().find(|stray| {
                matches!(view.meaning(stray), StrayMeaning::Early(meant) if meant.place == request.place)
            });
            let decided = view.probed(Probe::InPieces).filter(|request| view.is_decided(request));
            decided.map(move |request| match early(request) {
                Some(stray) => {
                    Some(request.finding_with("a response came before the end of the line", stray.line))
                }
                None => unanswered(view, request),
            })
        };
    "ends-with-its-input", [LEGACY Advice "basic/lifecycle#shutdown", MODERN Should "basic/transports/stdio#shutdown"],
        "The server exits when its standard input is closed.",
        else "its standard input was not closed, or it had exited before",
        |view| view.ended_in_order().map(|ended| {
            ended.forced.then(|| Finding::new("it exited only after a signal", None, None))
        });
    "ends-in-order", [LEGACY Advice "basic/lifecycle#shutdown", MODERN Advice "basic/transports/stdio#shutdown"],
        "A server whose standard input is closed exits with the status 0.",
        else "it did not exit by itself, or its status is unknown",
        |view| view.ended_in_order().filter(|ended| !ended.forced).and_then(|ended| ended.exit).map(|exit| {
            (exit != ProcessExit::Code(0)).then(|| Finding::new(format_args!("it ended with {exit}"), None, None))
        });
}

/// Whether a line is no message at all. Lines that are too deep or too long for us, and duplicate members, are not.
pub(crate) const fn is_no_message(kind: &DecodeErrorKind) -> bool {
    use ScanErrorKind::{Depth, DuplicateKey, TooLong};
    match kind {
        DecodeErrorKind::NotAnObject => true,
        DecodeErrorKind::Json(kind) => !matches!(kind, Depth(_) | TooLong | DuplicateKey),
        _ => false,
    }
}

/// Whether a line is not in UTF-8, or has a byte order mark.
pub(crate) const fn is_other_encoding(kind: &DecodeErrorKind) -> bool {
    matches!(kind, DecodeErrorKind::Json(ScanErrorKind::Utf8 | ScanErrorKind::Encoding(_)))
}

/// Whether a line is UTF-8 with a byte order mark.
pub(crate) fn has_byte_order_mark(kind: &DecodeErrorKind) -> bool {
    *kind == DecodeErrorKind::Json(ScanErrorKind::Encoding(Encoding::Utf8WithMark))
}

/// A finding if a line is an array of valid JSON.
pub(crate) fn array(line: &Line) -> Option<Finding> {
    let is_array = line.is_array() && Raw::parse(line.bytes().clone()).is_ok();
    line.finding_if(is_array, "the line is an array")
}

/// Checks every line: a violation is one that is no message for this reason.
fn lines(view: &ServerView<'_>, is_broken: impl Fn(usize, &DecodeErrorKind) -> bool) -> Outcome {
    let findings = view.lines.iter().zip(1..).map(|((place, line), number)| {
        // Invalid messages are in the order of their places.
        let first = view.invalid.partition_point(|fault| fault.place < *place);
        let fault = view.invalid.get(first).filter(|fault| fault.place == *place && !line.is_array())?;
        let kind = &fault.what.kind;
        line.finding_if(is_broken(*place, kind), format_args!("line {number}: {kind}"))
    });
    Outcome::of(findings, "the server wrote nothing")
}

/// The lines that are parts of a message written over several lines, in order.
pub(crate) fn split_over_lines(lines: &[(usize, &Line)]) -> Vec<usize> {
    let mut split = Vec::new();
    let (mut start, mut budget) = (0, LOOKED_THROUGH);
    while start < lines.len() {
        let length = split_length(&lines[start..], &mut budget).unwrap_or(1);
        if length > 1 {
            split.extend(lines[start..start + length].iter().map(|(place, _)| *place));
        }
        start += length;
    }
    split
}

/// The number of lines of the object that begins with the first of these. `None` if none begins, or if the budget is spent.
fn split_length(lines: &[(usize, &Line)], budget: &mut usize) -> Option<usize> {
    let mut text = Vec::new();
    for (count, (_, line)) in lines.iter().take(MAX_SPLIT_LINES + 1).enumerate() {
        let line = line.bytes();
        text.extend_from_slice(line);
        *budget = budget.checked_sub(line.len().max(MIN_LINE_COST))?;
        // Parsing is needed at the beginning of an object and where one may end.
        if count == 0 && line.trim_ascii_start().starts_with(b"{") || line.trim_ascii_end().ends_with(b"}") {
            *budget = budget.checked_sub(text.len())?;
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

    use crate::{Outcome, Run, Selection, Trace, check_server};

    #[test]
    fn a_flood_of_beginnings_is_checked_soon() {
        let mut run = Run::new("flood", Version::newest(Era::Legacy));
        for _ in 0..20_000 {
            run.received(r#"{"a":["#);
        }
        let trace = Trace { runs: vec![run], ..Trace::default() };
        let rules = ["only-messages", "one-line-each"];
        let report = check_server(&trace, &Selection::new(rules, []).expect("two rules"));
        let failed = |place: usize| match &report.results[place].outcome {
            Outcome::Failed(findings) => findings.len(),
            _ => 0,
        };
        // How the last line would have gone on is not known.
        assert_eq!((failed(0), failed(1)), (19_999, 0));
    }
}
