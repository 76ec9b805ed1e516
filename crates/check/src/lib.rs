//! Judges what crossed between a client and a server by the sentences of the
//! [specification](https://modelcontextprotocol.io/specification).
//!
//! Called by `mcpjoin validate` and by whoever has a [`Trace`]. It does no I/O and provokes nothing: a probe provokes,
//! and what came of it is in the trace. A rule that saw nothing to judge says so; it never passes for want of evidence.
//! [`changes`] compares what a server offers with what it offered before.
//!
//! ```
//! use mcpjoin_check::{Outcome, Probe, Run, Selection, Trace, judge};
//! use mcpjoin_proto::{Era, Version};
//!
//! let mut run = Run::new("session", Version::newest(Era::Legacy));
//! run.sent(Probe::Ping, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
//! run.received(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#);
//! let mut trace = Trace::default();
//! trace.runs.push(run);
//!
//! let report = judge(&trace, &Selection::default());
//! let failed: Vec<&str> = report.failed().map(|verdict| verdict.rule.slug).collect();
//! assert_eq!(failed, ["id-given-back"]);
//! ```
#![forbid(unsafe_code)]

mod authorization;
mod base;
mod changes;
mod client;
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
mod resilience;
mod resources;
mod revisions;
mod rule;
mod schema;
mod seen;
mod stdio;
mod tools;
mod trace;
mod utilities;

pub use authorization::{
    MOST_SERVERS, base_address, named_metadata, named_servers, resource_metadata_addresses,
    server_metadata_addresses, wants_token,
};
pub use changes::{Change, ChangeClass, ChangeKind, ChangeOf, Offer, changes};
pub use client::{client_rules, judge_client};
pub use compatibility::{
    CLIENT_LIMITS, ClientVerdict, Compatibility, Consequence, Day, Demand, Incompatibility, Limit,
    compatibility,
};
pub use exchange::{BodyEnd, HttpRequest, HttpResponse, StreamEvent};
pub use grammar::template_variables;
pub use revisions::Revisions;
pub use rule::{
    Chapter, Finding, Level, Outcome, Report, Rule, Selection, Source, UnknownName, Verdict, judge, rules,
};
pub use schema::misfit;
pub use trace::{CallNote, CallProblem, Channel, Ended, Event, Line, Probe, Run, Trace, What};
