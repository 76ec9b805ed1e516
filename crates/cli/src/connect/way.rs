//! The ways to a server: a child process, a socket, QUIC, HTTP.

use mcpjoin::Link;
use mcpjoin::doctor::Target;
use mcpjoin::link::{ChildCommand, ChildHandle, HttpConnect, QuicConnect, SocketConnect, SocketError};
use mcpjoin::quic::QuicError;
use mcpjoin::validate::Validator;

use super::http;
use super::trace::Trace;
use crate::failure::Failure;

/// How a server is reached, and where what crosses is written down. Can be gone several times.
#[derive(Clone)]
pub(crate) struct Way {
    pub(super) to: To,
    pub(super) trace: Option<Trace>,
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
                return command.clone().start().await.map_err(|error| Failure::spawn(&error));
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
