//! What a failure says where the server is no child of ours, so that less is known of it.
//!
//! Called by `connect` with the failures of the other files.

use mcpjoin::proto::session::{TransportErrorReason as Reason, foreign_protocol};

use super::hints::SHOWS_STDERR;
use super::{Failure, Phase};

const WEB_SERVER: &str = "this is a web server: use http:// instead of tcp://";

impl Failure {
    /// Fits the failure to a server that is reached over HTTP. `url`: its address.
    #[must_use]
    pub(crate) fn over_http(mut self, url: &str) -> Self {
        self.seen.listening = true;
        // A server that speaks TLS alone closes the connection on an unencrypted request.
        if self.phase != Phase::Call
            && url.starts_with("http://")
            && matches!(self.seen.reason, Some(Reason::ConnectionLost | Reason::NoHttp))
        {
            self.hint =
                "use https:// instead of http:// if the port is for HTTPS; otherwise see the server's own log"
                    .into();
        }
        let is_of_the_link = matches!(self.id, "E_AUTH" | "E_CONNECT" | "E_LINK" | "E_NO_ENDPOINT" | "E_TLS");
        if is_of_the_link && matches!(self.phase, Phase::Probe | Phase::Initialize) {
            // The message names the request. Its purpose does not matter any more.
            self.phase = Phase::Connect;
        }
        if self.id == "E_BAD_REPLY" && self.seen.is_no_message {
            self.hint =
                "check the path: another API may be there; if it is right, report it to the server's authors"
                    .into();
        }
        if matches!(self.id, "E_NOT_MCP" | "E_SILENT") {
            return self
                .hint("check that an MCP server listens there; for a slow start use --connect-timeout 2m");
        }
        self.over_a_socket()
    }

    /// Adds the command that examines the server, where it may find more than the failure says. `line`: that command.
    #[must_use]
    pub(crate) fn and_doctor(mut self, line: &str) -> Self {
        let is_opening = matches!(self.phase, Phase::Connect | Phase::Probe | Phase::Initialize);
        let is_unclear = match self.id {
            "E_NO_ENDPOINT" | "E_LINK" | "E_BAD_REPLY" | "E_TLS" => true,
            // A proxy or a firewall answers like that, too, and then no token helps.
            "E_AUTH" => self.seen.http_status == Some(403),
            _ => false,
        };
        if is_opening && is_unclear {
            let between = if self.hint.is_empty() { "" } else { "; " };
            self.hint.push_str(&format!("{between}for more: {line}"));
        }
        self
    }

    /// Fits the failure to a server that is no child of ours, of which less is known.
    #[must_use]
    pub(crate) fn over_a_socket(mut self) -> Self {
        self.seen.listening = true;
        if let Some(before) = self.hint.strip_suffix(SHOWS_STDERR) {
            self.hint = before.trim_end_matches("; ").to_owned();
        }
        let hint = match self.id {
            "E_SERVER_EXITED" => {
                (self.id, self.message) = ("E_CLOSED", "the server closed the connection".into());
                if self.seen.garbage.as_deref().is_some_and(is_of_the_web) {
                    WEB_SERVER
                } else {
                    "see the server's own log; check that an MCP server without TLS or HTTP listens there"
                }
            }
            "E_NOT_MCP" | "E_SILENT" => match self.foreign() {
                Some("HTTP") => WEB_SERVER,
                Some("TLS") => "that port expects TLS: for HTTPS use https:// instead of tcp://",
                Some("SSH") => "check the port; a server behind SSH is a command: -- ssh host command",
                Some(_) => "check the host and the port",
                None => "check that an MCP server without TLS or HTTP listens there",
            },
            "E_STALLED" => "the server has stopped reading: see its own log",
            _ => return self,
        };
        self.hint(hint)
    }

    /// The protocol of another kind of server, by the first bytes that it sent.
    fn foreign(&mut self) -> Option<&'static str> {
        let protocol = foreign_protocol(self.seen.garbage.as_deref()?.as_bytes())?;
        self.message = format!("the server speaks {protocol}, and not MCP");
        Some(protocol)
    }
}

/// Whether the first bytes are those of an HTTP response or a page.
fn is_of_the_web(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    ["http/", "<!doctype", "<html"].iter().any(|start| text.starts_with(start))
}
