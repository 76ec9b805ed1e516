//! From what went wrong to findings, where the server is none of our children: it listens, and was reached or not.
//!
//! Called for sockets, QUIC and HTTP. What is known of one transport alone is in its own file.

use mcpjoin_proto::session::{CloseCause, LinkEnd, LinkEndKind, OpeningFailure, foreign_protocol};

use super::diagnosis::{self, lines};
use super::report::{Check, Finding, Phase};
use super::wire::Seen;

pub(super) const ITS_LOG: &str = "look at the server's own log";

/// There is a connection, and client and server do not agree.
pub(super) fn unopened(phase: Phase, cause: &CloseCause, seen: &Seen) -> Finding {
    let foreign = seen.noise_lines > 0 && seen.first.is_none();
    let mut found = match cause {
        CloseCause::Opening(OpeningFailure::Garbage { .. } | OpeningFailure::TimedOut { .. }) if foreign => {
            diagnosis::written(phase, seen).unwrap_or_else(|| not_mcp(phase, seen))
        }
        CloseCause::Opening(OpeningFailure::Ended { .. }) | CloseCause::Link(_) if foreign => {
            not_mcp(phase, seen)
        }
        CloseCause::Opening(OpeningFailure::Ended { last, .. }) | CloseCause::Link(last) => {
            closed(phase, last)
        }
        CloseCause::Opening(failure @ OpeningFailure::TimedOut { .. }) => Finding::new(
            "silent",
            Check::Opening,
            phase,
            failure.to_string(),
            "something takes the connection and says nothing: it is busy, or no MCP server",
            "look at the server's own log; a slow one needs more time (--connect-timeout 2m)",
        ),
        CloseCause::Opening(failure) => diagnosis::opening(phase, failure, seen),
        other => Finding::new(
            "not-opened",
            Check::Opening,
            phase,
            other.to_string(),
            "client and server do not come to an agreement",
            ITS_LOG,
        ),
    };
    found.evidence.received = lines(&seen.noise);
    found
}

/// What came are no messages.
fn not_mcp(phase: Phase, seen: &Seen) -> Finding {
    let first = seen.noise.first().map(AsRef::as_ref).unwrap_or_default();
    foreign(phase, first).unwrap_or_else(|| {
        Finding::new(
            "not-mcp",
            Check::Protocol,
            phase,
            "what listens there answers, but not with messages",
            "it speaks another protocol: it is no MCP server",
            "check the host and the port",
        )
    })
}

/// What listens there speaks a protocol that is known by its first bytes.
pub(super) fn foreign(phase: Phase, first: &[u8]) -> Option<Finding> {
    let protocol = foreign_protocol(first)?;
    let (id, seen, meaning, advice) = match protocol {
        "HTTP" => (
            "speaks-http",
            "what listens there answers in HTTP".to_owned(),
            "the server is reached over HTTP, or it is a web server",
            "write http://host:port/path, mostly with the path /mcp",
        ),
        "TLS" => (
            "speaks-tls",
            "what listens there answers in TLS".to_owned(),
            "the server wants its connections encrypted",
            "write https://host:port/path, or give it a port without TLS",
        ),
        "SSH" => (
            "not-mcp",
            "what listens there is an SSH server".to_owned(),
            "it is no MCP server",
            "check the port; a server behind SSH is a command: mcpjoin doctor -- ssh host command",
        ),
        other => (
            "not-mcp",
            format!("what listens there speaks {other}"),
            "it is no MCP server",
            "check the port; `ss -ltnp` shows which program listens on which",
        ),
    };
    Some(Finding::new(id, Check::Protocol, phase, seen, meaning, advice))
}

/// The connection has ended before we ended it.
pub(super) fn closed(phase: Phase, end: &LinkEnd) -> Finding {
    let when = match phase {
        Phase::List | Phase::ShutDown => "in the middle of the conversation",
        _ => "before it said anything",
    };
    let (seen, meaning) = match &end.kind {
        LinkEndKind::EndOfStream => (
            format!("the server closed the connection {when}"),
            "it has ended, does not take what it was sent for its protocol, or serves one client and has one",
        ),
        LinkEndKind::CutOff { .. } => {
            (end.to_string(), "the connection was cut, or the server has ended while it was writing")
        }
        LinkEndKind::Failed(error) => (error.message.clone(), "the connection broke"),
        _ => (end.to_string(), "the connection broke"),
    };
    Finding::new("closed", Check::Life, phase, seen, meaning, ITS_LOG)
}
