//! The rule book: checks the messages between a client and a server against the sentences of the
//! [specification](https://modelcontextprotocol.io/specification).
//!
//! Used by `mcpjoin validate`, and by any program that has a [`Trace`]. It does no I/O and sends no probe: the trace records
//! the probes and the responses. A rule without anything to check is skipped and gives its reason; it does not pass.
//! [`changes`] compares what a server offers with what it offered before, and [`compatibility`] with the limits of clients.
//!
//! ```
//! use mcpjoin_rules::{Outcome, Probe, Run, Selection, Trace, check_server};
//! use mcpjoin_proto::{Era, Version};
//!
//! let mut run = Run::new("session", Version::newest(Era::Legacy));
//! run.sent(Probe::Ping, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
//! run.received(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#);
//! let mut trace = Trace::default();
//! trace.runs.push(run);
//!
//! let report = check_server(&trace, &Selection::default());
//! let failed: Vec<&str> = report.failed().map(|result| result.rule.slug).collect();
//! assert_eq!(failed, ["id-given-back"]);
//! ```
#![forbid(unsafe_code)]

#[macro_use]
mod rule;

mod authorization;
mod base;
mod book;
mod changes;
mod client;
mod client_view;
mod compatibility;
mod content;
mod exchange;
mod features;
mod grammar;
mod http;
mod json;
mod lifecycle;
mod patterns;
mod prompts;
mod quotes;
mod remedies;
mod resilience;
mod resources;
mod revisions;
mod server_view;
mod stdio;
mod tools;
mod trace;
mod utilities;

pub use authorization::{
    MAX_AUTHORIZATION_SERVERS, base_address, named_metadata, named_servers, resource_metadata_addresses,
    server_metadata_addresses, wants_token,
};
pub use book::{Report, RuleResult, Selection, UnknownName, check_client, check_server, client_rules, rules};
pub use changes::{Change, ChangeClass, ChangeKind, ChangeOf, Offer, changes};
pub use compatibility::{
    CLIENT_LIMITS, ClientResult, Compatibility, Consequence, Day, Demand, Incompatibility, Limit,
    compatibility,
};
pub use exchange::{BodyEnd, HttpRequest, HttpResponse};
pub use grammar::template_variables;
pub use mcpjoin_schema::nonconformity;
pub use revisions::Revisions;
pub use rule::{Chapter, Finding, Level, Outcome, Rule, Source};
pub use trace::{CallWarning, CallWarningKind, Channel, Ended, Event, Line, Probe, Run, Trace, What};
