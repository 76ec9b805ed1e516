//! The ways to a server: a child process, a socket, QUIC, HTTP.

use mcpjoin::Link;
use mcpjoin::link::{ChildCommand, ChildHandle, HttpConnect, SocketConnect, SocketError};
use mcpjoin_diagnostics::doctor::{Report, Target};
use mcpjoin_diagnostics::validate::Validator;
use mcpjoin_quic::QuicConnect;
use mcpjoin_quic::endpoint::QuicError;

use super::authorization::Access;
use super::http;
use super::plan;
use super::trace::Trace;
use crate::failure::{Failure, WITHHELD};
use crate::ui::Ui;

/// How a server is reached, and where what crosses is written down. Can be gone several times.
#[derive(Clone)]
pub(crate) struct Way {
    pub(super) to: To,
    pub(super) trace: Option<Trace>,
    /// That what is started is no entry of a configuration, where it could have been one.
    pub(super) no_entry: Option<String>,
    /// How it is let know who asks, over HTTP.
    pub(super) access: Option<Access>,
    /// Of our variables the child gets some alone.
    pub(super) withheld: bool,
}

/// What is at the far end.
#[derive(Clone)]
pub(super) enum To {
    /// A program, to be run; what crosses is written down by whatever it starts.
    Child(ChildCommand),
    /// Somebody who listens.
    Socket(SocketConnect),
    /// Somebody who listens on QUIC.
    Quic(Box<QuicConnect>),
    /// Somebody who listens for HTTP.
    Http(HttpConnect),
}

impl Way {
    /// Starts the server, or connects to it.
    pub(crate) async fn link(&self) -> Result<Link, Failure> {
        let link = match &self.to {
            To::Child(command) => {
                let failed = |error| Failure::spawn(&error).and_no_entry(self.no_entry());
                return command.clone().start().await.map_err(failed);
            }
            To::Socket(socket) => socket.clone().await.map_err(|error| Failure::connect(&error))?,
            To::Quic(connect) => (**connect).clone().await.map_err(|error| Failure::quic(&error))?,
            To::Http(connect) => http::made(connect.clone())?,
        };
        Ok(match &self.trace {
            Some(trace) => link.tapped(trace.tap()),
            None => link,
        })
    }

    /// That what is started is no entry of a configuration, where it could have been one.
    pub(crate) fn no_entry(&self) -> Option<&str> {
        self.no_entry.as_deref()
    }

    /// The same for verbs that go it more than once: what crosses is written down with the number of the time.
    pub(crate) fn numbered(&self, ui: &Ui, number: u64) -> Self {
        let Some(trace) = self.trace.as_ref().map(|trace| trace.numbered(number)) else {
            return self.clone();
        };
        let to = match self.to.clone() {
            To::Child(command) => {
                To::Child(command.tapped(trace.tap()).stderr(plan::said(ui, Some(trace.clone()))))
            }
            to => to,
        };
        Self { to, trace: Some(trace), ..self.clone() }
    }

    /// How it is let know who asks, over HTTP.
    pub(crate) const fn access(&self) -> Option<&Access> {
        self.access.as_ref()
    }

    /// A failure with what is known of the way.
    pub(crate) fn told(&self, failure: Failure) -> Failure {
        match (&self.to, &self.access) {
            (To::Child(command), _) => {
                let failure = failure.stderr(&command.handle().stderr());
                if self.withheld { failure.and_withheld() } else { failure }
            }
            (To::Http(_), Some(access)) => access.told(failure.over_http()),
            (To::Http(_), None) => failure.over_http(),
            _ => failure.over_a_socket(),
        }
    }

    /// Adds to the report, where it says that the program has ended, that the program did not get all of our variables.
    pub(crate) fn advise(&self, report: &mut Report) {
        for finding in report.findings.iter_mut().filter(|finding| self.withheld && finding.id == "died") {
            finding.advice.push_str("; ");
            finding.advice.push_str(WITHHELD);
        }
    }

    /// How messages travel, in a word.
    pub(crate) const fn name(&self) -> &'static str {
        match &self.to {
            To::Child(_) => "stdio",
            To::Socket(_) => "socket",
            To::Quic(_) => "quic",
            To::Http(_) => "http",
        }
    }

    /// What is examined.
    pub(crate) fn examined(&self) -> Target {
        match &self.to {
            To::Child(command) => command.clone().into(),
            To::Socket(socket) => socket.clone().into(),
            To::Quic(connect) => (**connect).clone().into(),
            To::Http(connect) => connect.clone().into(),
        }
    }

    /// What is judged by the rules.
    pub(crate) fn judged(&self) -> Validator {
        let trace = self.trace.clone();
        let tapped = move |link: Link| match &trace {
            Some(trace) => link.tapped(trace.tap()),
            None => link,
        };
        match &self.to {
            // Whatever it starts writes down what crosses.
            To::Child(command) => Validator::new(command.clone()),
            To::Socket(socket) => {
                let socket = socket.clone();
                Validator::stream(move || {
                    let (socket, tapped) = (socket.clone(), tapped.clone());
                    async move { Ok::<_, SocketError>(tapped(socket.await?)) }
                })
            }
            To::Quic(connect) => {
                let (one, each, also) = (connect.clone(), connect.clone(), tapped.clone());
                let lines = Validator::stream(move || {
                    let (connect, tapped) = (one.clone(), tapped.clone());
                    async move { Ok::<_, QuicError>(tapped(connect.on_one_stream().await?)) }
                });
                lines.and_messages(move || {
                    let (connect, tapped) = (each.clone(), also.clone());
                    async move { Ok::<_, QuicError>(tapped((*connect).await?)) }
                })
            }
            To::Http(connect) => match &self.trace {
                Some(trace) => Validator::http(connect.clone()).tapped(trace.tap()),
                None => Validator::http(connect.clone()),
            },
        }
    }

    /// The program that is to be run, where it is one.
    pub(crate) const fn command(&self) -> Option<&ChildCommand> {
        match &self.to {
            To::Child(command) => Some(command),
            To::Socket(_) | To::Quic(_) | To::Http(_) => None,
        }
    }

    /// What connects over HTTP, where that is the way.
    pub(crate) const fn http(&self) -> Option<&HttpConnect> {
        match &self.to {
            To::Http(connect) => Some(connect),
            To::Child(_) | To::Socket(_) | To::Quic(_) => None,
        }
    }

    /// Where what crosses is written down.
    pub(crate) const fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// Watches the child, where it is one.
    pub(crate) fn child(&self) -> Option<ChildHandle> {
        self.command().map(ChildCommand::handle)
    }
}
