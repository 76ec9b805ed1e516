//! The server's end of a connection: a child process, a socket, QUIC or HTTP.
//!
//! Made by `connect::plan`. `connect` and the commands open links to it, as often as they need.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::internal::SocketPlace;
use mcpjoin::transport::{ChildCommand, ChildHandle, Credentials, HttpConnect, SocketConnect, SocketError};
use mcpjoin_diagnostics::doctor::{Report, Target};
use mcpjoin_diagnostics::validate::Validator;
use mcpjoin_quic::QuicConnect;
use mcpjoin_quic::endpoint::QuicError;
use tokio::time::timeout;

use super::authorization::Access;
use super::network::refused;
use super::orchestra::OrchestraConnect;
use super::trace::Trace;
use super::unmatched::Unmatched;
use crate::config::NoEntry;
use crate::failure::{Failure, WITHHELD};
use crate::target::{Bound, shown};
use crate::ui::Ui;

/// How long is waited for the end of a session over HTTP. A link takes half of it at most.
const SESSION_END_TIMEOUT: Duration = Duration::from_secs(2);

/// How a server is reached, and the trace of its messages. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(super) kind: Kind,
    pub(super) trace: Option<Trace>,
    /// Says that the program is no entry of a configuration, where it could have been one.
    pub(super) no_entry: Option<NoEntry>,
    /// The authorization over HTTP.
    pub(super) access: Option<Access>,
    /// The child does not get all of our environment variables.
    pub(super) withheld: bool,
    pub(super) unmatched: Unmatched,
    /// Stands before each line of a child's standard error: [`SERVER`], or the name of one of several servers.
    pub(super) name: Arc<str>,
}

/// The name of the only server.
pub(super) const SERVER: &str = "server";

/// What the server is.
#[derive(Clone)]
pub(super) enum Kind {
    /// A program that is started. Its command writes the trace.
    Child(ChildCommand),
    Socket(SocketConnect),
    Quic(Box<QuicConnect>),
    Http(HttpConnect),
    Orchestra(OrchestraConnect),
}

impl Endpoint {
    /// Starts the server, or connects to it.
    pub(crate) async fn link(&self) -> Result<Link, Failure> {
        let link = match &self.kind {
            Kind::Child(command) => {
                let failed = |error| Failure::spawn(&error).and_no_entry(self.no_entry());
                return command.clone().start().await.map_err(failed);
            }
            Kind::Socket(socket) => socket.clone().await.map_err(|error| Failure::connect(&error))?,
            Kind::Quic(connect) => (**connect).clone().await.map_err(|error| Failure::quic(&error))?,
            Kind::Http(connect) => connect.clone().build().map_err(|error| refused(&error))?,
            Kind::Orchestra(connect) => connect.link().await?,
        };
        Ok(inspected(link, self.trace.as_ref()))
    }

    /// Waits until what was started or opened has ended: every process of a child, and over HTTP the session at the server, for
    /// which [`SESSION_END_TIMEOUT`] is enough. At once if there is nothing.
    pub(crate) async fn ended(&self) {
        match &self.kind {
            Kind::Child(command) => drop(command.handle().ended().await),
            Kind::Http(connect) => drop(timeout(SESSION_END_TIMEOUT, connect.handle().ended()).await),
            Kind::Orchestra(connect) => connect.ended().await,
            Kind::Socket(_) | Kind::Quic(_) => {}
        }
    }

    /// Waits until the bridges to an orchestrator have closed their connections. At once for other servers, whose links do that.
    pub(super) async fn bridges_ended(&self) {
        if let Kind::Orchestra(connect) = &self.kind {
            connect.ended().await;
        }
    }

    /// Says that the program is no entry of a configuration, where it could have been one.
    pub(crate) const fn no_entry(&self) -> Option<&NoEntry> {
        self.no_entry.as_ref()
    }

    /// The same endpoint for commands that open several links: the trace gives each message the number of its link.
    pub(crate) fn numbered(&self, ui: &Ui, number: u64) -> Self {
        let Some(trace) = self.trace.as_ref().map(|trace| trace.numbered(number)) else {
            return self.clone();
        };
        let kind = self.kind.clone().observed(ui, Some(&trace), self.name.clone());
        Self { kind, trace: Some(trace), ..self.clone() }
    }

    /// The same endpoint for one of several servers: with `-v` its standard error is shown under this name.
    pub(crate) fn named(mut self, ui: &Ui, name: &str) -> Self {
        self.name = name.into();
        self.kind = self.kind.observed(ui, self.trace.as_ref(), self.name.clone());
        self
    }

    /// The same endpoint with other credentials over HTTP.
    pub(crate) fn authorized_by(&self, credentials: impl Credentials) -> Self {
        let mut endpoint = self.clone();
        if let Kind::Http(connect) = &mut endpoint.kind {
            *connect = connect.clone().credentials(credentials);
        }
        endpoint
    }

    /// The authorization over HTTP.
    pub(crate) const fn access(&self) -> Option<&Access> {
        self.access.as_ref()
    }

    /// Adds to the failure of a request that was not answered what the server has sent in place of the answer.
    pub(crate) fn and_received(&self, failure: Failure) -> Failure {
        let failure = match &self.kind {
            Kind::Child(command) => failure.and_unfinished(&command.handle().unfinished_line()),
            _ => failure,
        };
        failure.and_unmatched(self.unmatched.last())
    }

    /// Adds to a failure what is known of the endpoint, and a hint that fits it.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        let failure = self.and_received(failure);
        match (&self.kind, &self.access) {
            (Kind::Child(command), _) => {
                let stderr = command.handle().stderr();
                let failure = failure.stderr(&stderr).and_said(&stderr);
                if self.withheld { failure.and_withheld() } else { failure }
            }
            (Kind::Http(connect), Some(access)) => {
                access.explain(failure.over_http(connect.url())).and_doctor(&access.doctor_line())
            }
            (Kind::Http(connect), None) => failure
                .over_http(connect.url())
                .and_doctor(&format!("mcpjoin doctor {}", shown(connect.url().as_ref()))),
            (Kind::Orchestra(connect), _) => connect.explain(failure),
            _ => failure.over_a_socket(),
        }
    }

    /// Adds to the finding that the program has exited that it did not get all of our variables.
    pub(crate) fn advise(&self, report: &mut Report) {
        let may_be_of_that =
            |id| self.withheld && ["died", "variable-missing", "command-missing"].contains(&id);
        for finding in report.findings.iter_mut().filter(|finding| may_be_of_that(finding.id)) {
            finding.advice.push_str("; ");
            finding.advice.push_str(WITHHELD);
        }
    }

    /// The address of the server, where it is no child.
    pub(crate) fn bound(&self) -> Option<Bound> {
        match &self.kind {
            // An orchestrator is not a server of MCP.
            Kind::Child(_) | Kind::Orchestra(_) => None,
            Kind::Socket(socket) => match socket.place() {
                SocketPlace::Tcp(address) => Bound::tcp(&address),
                SocketPlace::Unix(path) => Some(Bound::Unix(path)),
            },
            Kind::Quic(connect) => Bound::udp(connect.address()),
            Kind::Http(connect) => Bound::of_url(connect.url()),
        }
    }

    /// The transport, in a word.
    pub(crate) const fn transport(&self) -> &'static str {
        match &self.kind {
            Kind::Child(_) => "stdio",
            Kind::Socket(_) => "socket",
            Kind::Quic(_) => "quic",
            Kind::Http(_) => "http",
            Kind::Orchestra(_) => "orchestra",
        }
    }

    /// The target of `doctor`. An orchestrator is examined by its own part of `doctor`.
    pub(crate) fn doctor_target(&self) -> Result<Target, Failure> {
        Ok(match &self.kind {
            Kind::Child(command) => command.clone().into(),
            Kind::Socket(socket) => socket.clone().into(),
            Kind::Quic(connect) => (**connect).clone().into(),
            Kind::Http(connect) => connect.clone().into(),
            Kind::Orchestra(_) => return Err(not_of_mcp()),
        })
    }

    /// The validator of this server. An orchestrator has none.
    pub(crate) fn validator(&self) -> Result<Validator, Failure> {
        let trace = self.trace.clone();
        Ok(match self.kind.clone() {
            Kind::Child(command) => Validator::new(command),
            Kind::Socket(socket) => Validator::stream(move || {
                let (socket, trace) = (socket.clone(), trace.clone());
                async move { Ok::<_, SocketError>(inspected(socket.await?, trace.as_ref())) }
            }),
            Kind::Orchestra(_) => return Err(not_of_mcp()),
            Kind::Quic(connect) => {
                let (each, also) = (connect.clone(), trace.clone());
                let lines = Validator::stream(move || {
                    let (connect, trace) = (connect.clone(), trace.clone());
                    async move { Ok::<_, QuicError>(inspected(connect.on_one_stream().await?, trace.as_ref())) }
                });
                lines.and_messages(move || {
                    let (connect, trace) = (each.clone(), also.clone());
                    async move { Ok::<_, QuicError>(inspected((*connect).await?, trace.as_ref())) }
                })
            }
            Kind::Http(connect) => match trace {
                Some(trace) => Validator::http(connect).inspected(trace.inspect()),
                None => Validator::http(connect),
            },
        })
    }

    /// The program, where the server is a child.
    pub(crate) const fn command(&self) -> Option<&ChildCommand> {
        if let Kind::Child(command) = &self.kind { Some(command) } else { None }
    }

    /// The HTTP client's settings, where the server is reached over HTTP.
    pub(crate) const fn http(&self) -> Option<&HttpConnect> {
        if let Kind::Http(connect) = &self.kind { Some(connect) } else { None }
    }

    /// The trace, where one is written.
    pub(crate) const fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// The handle of the child, where the server is one.
    pub(crate) fn child(&self) -> Option<ChildHandle> {
        self.command().map(ChildCommand::handle)
    }
}

impl Kind {
    /// Writes what a child sends, receives and prints to standard error to the trace. With `-v` its standard error is shown, too.
    pub(super) fn observed(self, ui: &Ui, trace: Option<&Trace>, name: Arc<str>) -> Self {
        let Self::Child(mut command) = self else { return self };
        if let Some(trace) = trace {
            command = command.inspected(trace.inspect());
        }
        if ui.verbosity() > 0 || trace.is_some() {
            let (ui, trace) = (ui.clone(), trace.cloned());
            command = command.stderr(move |line| {
                if let Some(trace) = &trace {
                    trace.stderr(line);
                }
                if ui.verbosity() > 0 {
                    ui.line_of(&name, &String::from_utf8_lossy(line));
                }
            });
        }
        Self::Child(command)
    }
}

/// An orchestrator cannot be examined as a server of MCP.
fn not_of_mcp() -> Failure {
    Failure::usage(
        "an orchestrator does not speak MCP",
        "mcpjoin doctor orchestra://HOST:PORT checks the orchestrator",
    )
}

fn inspected(link: Link, trace: Option<&Trace>) -> Link {
    match trace {
        Some(trace) => link.inspected(trace.inspect()),
        None => link,
    }
}
