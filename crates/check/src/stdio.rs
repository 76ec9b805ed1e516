//! The chapter of stdio: lines over standard input and output, and the end of the process.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio>

use mcpjoin_proto::scan::{Encoding, ScanErrorKind};
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{DecodeErrorKind, Raw};

use crate::base::silence;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Asked, Meaning, Seen};
use crate::trace::{Line, Probe};

/// A text over more lines than these is not put together again.
const PIECES: usize = 1000;
/// So many bytes are looked through for such texts: a server may write as much as it likes, and begin again each time.
const LOOKED_THROUGH: usize = 64 << 20;
/// A line counts as no fewer bytes than these: to look at a short one costs as much.
const LEAST: usize = 64;

const STDIO: &[Source] = &[
    Source::new(Revisions::LEGACY, Must, "basic/transports#stdio"),
    Source::new(Revisions::MODERN, Must, "basic/transports/stdio"),
];

pub(crate) static RULES: [Rule; 10] = [
    Rule {
        slug: "only-messages",
        chapter: Chapter::Stdio,
        sentence: "Nothing is written to standard output but messages.",
        sources: STDIO,
        judge: |seen| {
            let split = split_over_lines(seen);
            lines(seen, |place, kind| match kind {
                DecodeErrorKind::NotAnObject => true,
                // These have rules of their own.
                DecodeErrorKind::Json(ScanErrorKind::Utf8 | ScanErrorKind::Encoding(_)) => false,
                // Deeper than we read, and keys of ours to judge elsewhere.
                DecodeErrorKind::Json(
                    ScanErrorKind::Depth(_) | ScanErrorKind::TooLong | ScanErrorKind::DuplicateKey,
                ) => false,
                // Of the last line nobody knows how it would have gone on.
                DecodeErrorKind::Json(ScanErrorKind::Truncated) => {
                    split.binary_search(&place).is_err()
                        && seen.lines.last().is_some_and(|(last, _)| *last != place)
                }
                DecodeErrorKind::Json(_) => split.binary_search(&place).is_err(),
                _ => false,
            })
        },
    },
    Rule {
        slug: "utf-8",
        chapter: Chapter::Stdio,
        sentence: "Messages are written in UTF-8.",
        sources: &[
            Source::new(Revisions::FIRST, Must, "https://www.rfc-editor.org/rfc/rfc8259#section-8.1"),
            Source::new(Revisions::LEGACY_SINCE_SECOND, Must, "basic/transports"),
            Source::new(Revisions::MODERN, Must, "basic/transports#messages"),
        ],
        judge: |seen| {
            lines(seen, |_, kind| match kind {
                DecodeErrorKind::Json(ScanErrorKind::Utf8) => true,
                DecodeErrorKind::Json(ScanErrorKind::Encoding(encoding)) => {
                    *encoding != Encoding::Utf8WithMark
                }
                _ => false,
            })
        },
    },
    Rule {
        slug: "no-byte-order-mark",
        chapter: Chapter::Stdio,
        sentence: "No byte order mark stands before a message.",
        sources: &[Source::new(Revisions::ALL, Must, "https://www.rfc-editor.org/rfc/rfc8259#section-8.1")],
        judge: |seen| {
            lines(seen, |_, kind| {
                *kind == DecodeErrorKind::Json(ScanErrorKind::Encoding(Encoding::Utf8WithMark))
            })
        },
    },
    Rule {
        slug: "one-line-each",
        chapter: Chapter::Stdio,
        sentence: "A message has no line break in it.",
        sources: STDIO,
        judge: |seen| {
            let split = split_over_lines(seen);
            lines(seen, |place, kind| {
                matches!(kind, DecodeErrorKind::Json(_)) && split.first() == Some(&place)
            })
        },
    },
    Rule {
        slug: "no-array-written",
        chapter: Chapter::Stdio,
        sentence: "A line is one message, and no array of messages.",
        sources: &[
            Source::new(Revisions::LEGACY_SINCE_THIRD, Must, "basic/transports#stdio"),
            Source::new(Revisions::MODERN, Must, "basic/transports/stdio"),
        ],
        judge: |seen| {
            let judged = seen.lines.iter().map(|(_, line)| {
                let json = Raw::parse(line.bytes().clone()).is_ok();
                (json && line.is_array())
                    .then(|| Finding::new("the line is an array", None, Some(line.bytes())))
            });
            Outcome::of(judged, "the server wrote nothing")
        },
    },
    Rule {
        slug: "no-request-written",
        chapter: Chapter::Stdio,
        sentence: "The server writes no request: what it needs is asked for in a result.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/transports/stdio#receiving-messages")],
        judge: |seen| {
            let requests = seen.requests.iter().map(|request| {
                Some(Finding::new(
                    format!("the server asks for {}", request.what.method),
                    None,
                    Some(request.line.bytes()),
                ))
            });
            Outcome::of(requests.chain(seen.lines.iter().map(|_| None)), "the server wrote nothing")
        },
    },
    Rule {
        slug: "several-lines-at-once",
        chapter: Chapter::Stdio,
        sentence: "Messages that come together are taken one by one.",
        sources: STDIO,
        judge: |seen| {
            let judged = seen
                .probed(Probe::TwoAtOnce)
                .filter(|asked| !asked.answers.is_empty() || !seen.may_be_answered(asked));
            Outcome::of(
                judged.map(|asked| asked.answers.is_empty().then(|| silence(seen, asked))),
                "nothing was sent together",
            )
        },
    },
    Rule {
        slug: "whole-lines",
        chapter: Chapter::Stdio,
        sentence: "A message ends with its line: one that comes in pieces is taken as one, and not before its end.",
        sources: STDIO,
        judge: |seen| {
            let early = |asked: &Asked<'_>| {
                seen.strays
                    .iter()
                    .find(|stray| matches!(seen.meaning(stray), Meaning::Early(meant) if meant.place == asked.place))
            };
            let judged = seen
                .probed(Probe::InPieces)
                .filter(|asked| !asked.answers.is_empty() || !seen.may_be_answered(asked))
                .map(|asked| match early(asked) {
                    Some(stray) => {
                        Some(asked.finding("an answer came before the end of the line", stray.line))
                    }
                    None => asked.answers.is_empty().then(|| silence(seen, asked)),
                });
            Outcome::of(judged, "nothing was sent in pieces")
        },
    },
    Rule {
        slug: "ends-with-its-input",
        chapter: Chapter::Stdio,
        sentence: "The server ends when its standard input is closed.",
        sources: &[
            Source::new(Revisions::LEGACY, Advice, "basic/lifecycle#shutdown"),
            Source::new(Revisions::MODERN, Should, "basic/transports/stdio#shutdown"),
        ],
        judge: |seen| {
            let judged = seen.ended_in_order().map(|ended| {
                ended.forced.then(|| Finding::new("it had to be ended by a signal", None, None))
            });
            Outcome::of(judged, "its input was not closed, or it had ended before")
        },
    },
    Rule {
        slug: "ends-in-order",
        chapter: Chapter::Stdio,
        sentence: "A server whose input is closed ends with the status 0.",
        sources: &[
            Source::new(Revisions::LEGACY, Advice, "basic/lifecycle#shutdown"),
            Source::new(Revisions::MODERN, Advice, "basic/transports/stdio#shutdown"),
        ],
        judge: |seen| {
            let ended = seen.ended_in_order().filter(|ended| !ended.forced).and_then(|ended| ended.exit);
            let judged = ended.map(|exit| {
                (exit != ProcessExit::Code(0))
                    .then(|| Finding::new(format!("it ended with {exit}"), None, None))
            });
            Outcome::of(judged, "it did not end by itself, or its status is not known")
        },
    },
];

/// Every line that came, but for those that are no message for this reason.
fn lines(seen: &Seen<'_>, broken: impl Fn(usize, &DecodeErrorKind) -> bool) -> Outcome {
    let judged = seen.lines.iter().zip(1..).map(|((place, line), number)| {
        // They stand in the order of their places.
        let first = seen.faults.partition_point(|fault| fault.place < *place);
        let fault = seen.faults.get(first).filter(|fault| fault.place == *place && !line.is_array())?;
        broken(*place, &fault.what.kind)
            .then(|| Finding::new(format!("line {number}: {}", fault.what.kind), None, Some(line.bytes())))
    });
    Outcome::of(judged, "the server wrote nothing")
}

/// The lines that are pieces of a message written over several lines, in their order.
pub(crate) fn split_over_lines(seen: &Seen<'_>) -> Vec<usize> {
    let mut split = Vec::new();
    let (mut start, mut room) = (0, LOOKED_THROUGH);
    while start < seen.lines.len() {
        let length = pieces(&seen.lines[start..], &mut room).unwrap_or(1);
        if length > 1 {
            split.extend(seen.lines[start..start + length].iter().map(|(place, _)| *place));
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
