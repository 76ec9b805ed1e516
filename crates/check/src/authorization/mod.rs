//! The chapter of authorization: how a server over HTTP keeps out whoever has no token, and what it says of where one is
//! to be had. Its rules judge [`Trace::authorization`](crate::Trace::authorization) alone, and no other rule does: what is
//! in it was asked without a token, or fetched from where the server says.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod address;
mod resource;
mod server;
mod tokens;

use bytes::Bytes;
use mcpjoin_proto::Raw;
use mcpjoin_proto::http::origin::MediaType;

pub use address::{
    MOST_SERVERS, base_address, named_metadata, named_servers, resource_metadata_addresses,
    server_metadata_addresses, wants_token,
};

use crate::exchange::Exchange;
use crate::rule::Rule;
use crate::seen::{Seen, of_line};
use crate::trace::Probe;

/// Every rule of the chapter.
pub(crate) static RULES: [&[Rule]; 3] = [&tokens::RULES, &resource::RULES, &server::RULES];

/// Nobody was kept out, so that nothing can be said of how.
const LET_IN: &str = "the server lets in whoever comes";

/// The exchanges for that purpose in which a response has come.
fn answered<'s, 'a>(seen: &'s Seen<'a>, probe: Probe) -> impl Iterator<Item = &'s Exchange<'a>> {
    seen.exchanges.values().filter(move |exchange| exchange.probe == probe && exchange.response.is_some())
}

/// The request without a token, and what it was refused with.
fn refused<'s, 'a>(seen: &'s Seen<'a>) -> Option<&'s Exchange<'a>> {
    answered(seen, Probe::NoToken).find(|exchange| !exchange.is_success() || exchange.error().is_some())
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
    let told =
        exchanges.into_iter().map(|exchange| format!("{} {}", exchange.request.url, exchange.outcome()));
    told.collect::<Vec<_>>().join("; ")
}

/// Whether no more than white space is in it.
fn is_empty(body: Option<&Bytes>) -> bool {
    body.is_none_or(|body| body.trim_ascii().is_empty())
}
