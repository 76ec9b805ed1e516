//! The chapter of authorization: how a server over HTTP refuses requests without a token, and where it says that a token
//! can be had.
//!
//! Its rules apply to [`Trace::authorization`](crate::Trace::authorization) alone, and no other rule applies to it: the
//! requests in it were sent without a token, and its documents were fetched from the addresses that the server names.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

pub(crate) mod address;
pub(crate) mod resource;
pub(crate) mod server;
pub(crate) mod tokens;

use bytes::Bytes;
use mcpjoin_proto::Raw;
use mcpjoin_proto::http::origin::MediaType;

pub use address::{
    MOST_SERVERS, base_address, named_metadata, named_servers, resource_metadata_addresses,
    server_metadata_addresses, wants_token,
};

use crate::exchange::Exchange;
use crate::json::of_line;
use crate::server_view::ServerView;
use crate::trace::Probe;

/// Nobody was kept out, so that nothing can be said of how.
const LET_IN: &str = "the server lets in whoever comes";

/// The exchanges for that purpose in which a response has come.
fn answered<'s, 'a>(view: &'s ServerView<'a>, probe: Probe) -> impl Iterator<Item = &'s Exchange<'a>> {
    view.exchanges.values().filter(move |exchange| exchange.probe == probe && exchange.response.is_some())
}

/// The request without a token, and what it was refused with.
fn refused<'s, 'a>(view: &'s ServerView<'a>) -> Option<&'s Exchange<'a>> {
    answered(view, Probe::NoToken).find(|exchange| !exchange.is_success() || exchange.error().is_some())
}

/// A document that was fetched, as an object.
fn object(exchange: &Exchange<'_>) -> Option<Raw> {
    exchange.body.filter(|_| exchange.is_success()).and_then(of_line)
}

/// Something that is meant for a document: an object, or what says that it is JSON.
fn is_document(exchange: &Exchange<'_>) -> bool {
    exchange.is_success() && (exchange.media_type() == MediaType::Json || object(exchange).is_some())
}

/// Each address with the status that it was answered with.
fn statuses<'s, 'a: 's>(exchanges: impl IntoIterator<Item = &'s Exchange<'a>>) -> String {
    let statuses =
        exchanges.into_iter().map(|exchange| format!("{} {}", exchange.request.url, exchange.outcome()));
    statuses.collect::<Vec<_>>().join("; ")
}

/// Whether no more than white space is in it.
fn is_empty(body: Option<&Bytes>) -> bool {
    body.is_none_or(|body| body.trim_ascii().is_empty())
}
