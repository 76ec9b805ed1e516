//! The chapter of authorization: how a server over HTTP refuses requests without a token, and its metadata about tokens.
//!
//! Its rules apply to [`Trace::authorization`](crate::Trace::authorization) alone, and no other rule applies to it: the
//! requests in it were sent without a token, and its documents were fetched from the addresses that the server names.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

pub(crate) mod address;
pub(crate) mod metadata;
pub(crate) mod tokens;

use mcpjoin_proto::Raw;

pub use address::{
    MAX_AUTHORIZATION_SERVERS, base_address, named_metadata, named_servers, resource_metadata_addresses,
    server_metadata_addresses, wants_token,
};

use crate::exchange::Exchange;
use crate::json::of_line;
use crate::server_view::ServerView;
use crate::trace::Probe;

/// The reason for skipping where no request was refused.
const LET_IN: &str = "the server lets in whoever comes";

/// The exchanges of a probe that have a response.
fn answered<'s, 'a>(view: &'s ServerView<'a>, probe: Probe) -> impl Iterator<Item = &'s Exchange<'a>> {
    view.exchanged(probe).filter(|exchange| exchange.response.is_some())
}

/// The exchanges of these probes that have a response.
fn all_answered<'s, 'a, const N: usize>(
    view: &'s ServerView<'a>,
    probes: [Probe; N],
) -> impl Iterator<Item = &'s Exchange<'a>> {
    probes.into_iter().flat_map(move |probe| answered(view, probe))
}

/// The request without a token that was refused.
fn refused<'s, 'a>(view: &'s ServerView<'a>) -> Option<&'s Exchange<'a>> {
    answered(view, Probe::NoToken).find(|exchange| !exchange.is_success() || exchange.error().is_some())
}

/// A parameter of the challenges for tokens.
fn parameter(exchange: &Exchange<'_>, name: &str) -> Option<String> {
    exchange.response.and_then(|response| address::parameter(response, name))
}

/// Whether there is a challenge for tokens with a parameter.
fn is_challenged(exchange: &Exchange<'_>) -> bool {
    let challenges = exchange.response.map(address::challenges).unwrap_or_default();
    challenges.iter().any(|challenge| !challenge.parameters.is_empty())
}

/// A fetched document that is an object.
fn object(exchange: &Exchange<'_>) -> Option<Raw> {
    exchange.body.filter(|_| exchange.is_success()).and_then(of_line)
}
