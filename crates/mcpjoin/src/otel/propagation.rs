//! The context of a trace in `_meta`: written into requests that are sent, read from requests that arrive.
//!
//! The program's global propagator decides which keys these are: with that of W3C they are `traceparent`, `tracestate` and
//! `baggage` (<https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>, [SEP-414](https://modelcontextprotocol.io/seps/414)).
//! A peer may send anything: what is too long, of another type or not valid is as if it were absent.

use mcpjoin_proto::session::Call;
use mcpjoin_proto::types::{Meta, meta::key};
use mcpjoin_proto::{Kind, Payload, Raw};
use opentelemetry::propagation::{Extractor, Injector};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, global};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::connection;

/// Bytes of a `_meta` above which nothing is read from it. What we send is below 10 KiB.
pub(super) const MAX_META_BYTES: usize = 64 * 1024;

/// Bytes of one value: as long as a baggage must be able to be (<https://www.w3.org/TR/baggage/#limits>).
pub(super) const MAX_VALUE_BYTES: usize = 8 * 1024;

/// Keys and values of a context.
#[derive(Default)]
struct Carrier(Vec<(String, String)>);

impl Injector for Carrier {
    fn set(&mut self, key: &str, value: String) {
        // The propagator of W3C writes an empty `tracestate`.
        if !value.is_empty() && Meta::key_is_valid(key) {
            self.0.push((key.to_owned(), value));
        }
    }
}

impl Extractor for Carrier {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(key, _)| key.as_str()).collect()
    }
}

/// Writes a context into the `_meta` of a request, or the current context of OpenTelemetry if this one has no span. Keys
/// of the caller stay; nothing is written if `traceparent` is one of them.
pub(super) fn inject(cx: &Context, call: &mut Call) {
    let mut carrier = Carrier::default();
    global::get_text_map_propagator(|propagator| {
        if cx.has_active_span() {
            propagator.inject_context(cx, &mut carrier);
        } else {
            propagator.inject(&mut carrier);
        }
    });
    if carrier.0.is_empty() {
        return;
    }
    let params = call.params.take().unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
    call.params = Some(with_meta(&params, carrier).unwrap_or(params));
}

/// Returns the params with more keys in `_meta`; `None` if there is nothing to add.
fn with_meta(params: &Payload, carrier: Carrier) -> Option<Payload> {
    let mut meta: Meta = match params.meta() {
        Some(meta) => meta.decode().ok()?,
        None => Meta::new(),
    };
    if meta.member(key::TRACEPARENT).is_some() {
        return None;
    }
    let known = meta.len();
    for (key, value) in carrier.0 {
        if meta.member(&key).is_none() {
            meta.insert(key, Raw::string(&value));
        }
    }
    let written = Raw::from_value(&meta).ok().filter(|_| meta.len() > known)?;
    Some(params.with_member("_meta", &written))
}

/// Writes a context with a span into the `_meta` of a request, in place of the one that is there. Every other byte stays.
#[cfg(all(feature = "client", feature = "server"))]
pub(super) fn replace(cx: &Context, call: &mut Call) {
    let is_object = |meta: Raw| meta.kind() == Kind::Object;
    if !cx.has_active_span() || !call.params.as_ref().and_then(Payload::meta).is_none_or(is_object) {
        return;
    }
    let params = call.params.take().unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
    let (mut carrier, mut written) = (Carrier::default(), params.clone());
    global::get_text_map_propagator(|propagator| {
        propagator.inject_context(cx, &mut carrier);
        // A `tracestate` belongs to the `traceparent` that it came with.
        written = params.without_meta_members(|key| propagator.fields().any(|field| field == key));
    });
    for (key, value) in &carrier.0 {
        written = written.with_meta_member(key, &Raw::string(value));
    }
    call.params = Some(if carrier.0.is_empty() { params } else { written });
}

/// Makes the context in the `_meta` of a request the parent of its span, and links to the context of the transport. If
/// `_meta` has none, the context of the transport is the parent.
pub(super) fn adopt(span: &Span, params: Option<&Payload>, cx: &connection::Context) {
    if span.is_disabled() {
        return;
    }
    let transport = of_transport(cx);
    let parent = match params.and_then(Payload::meta) {
        Some(meta) => of_meta(&transport, &meta),
        None => transport.clone(),
    };
    if !parent.has_active_span() {
        return;
    }
    let (link, own) = (transport.span().span_context().clone(), parent.span().span_context().clone());
    // It fails if nothing exports the span.
    let _ = span.set_parent(parent);
    if link.is_valid() && link != own {
        span.add_link(link);
    }
}

/// Reads a context from `_meta`, on top of another one.
fn of_meta(base: &Context, meta: &Raw) -> Context {
    if meta.len() > MAX_META_BYTES || meta.kind() != Kind::Object {
        return base.clone();
    }
    global::get_text_map_propagator(|propagator| {
        let value = |key: &str| {
            let value = meta.member(key).filter(|value| value.len() <= MAX_VALUE_BYTES)?;
            Some((key.to_owned(), value.to_string_value()?.into_owned()))
        };
        let carrier = Carrier(propagator.fields().filter_map(value).collect());
        propagator.extract_with_context(base, &carrier)
    })
}

/// Makes the current context of OpenTelemetry the parent of a span without a parent of `tracing`.
pub(super) fn adopt_current(span: &Span) {
    let current = Context::current();
    if Span::current().is_none() && current.has_active_span() {
        // It fails if nothing exports the span.
        let _ = span.set_parent(current);
    }
}

pub(super) fn is_http(cx: &connection::Context) -> bool {
    cx.origin().is_some_and(|origin| origin.link == "http")
}

/// The context of what brought the request: what stands beside the HTTP request, or its headers; elsewhere the current span.
fn of_transport(cx: &connection::Context) -> Context {
    if is_http(cx) {
        return of_http(cx);
    }
    let current = Span::current();
    if current.is_none() { Context::current() } else { current.context() }
}

#[cfg(feature = "http-server")]
fn of_http(cx: &connection::Context) -> Context {
    if let Some(beside) = cx.extension::<Context>() {
        return beside.clone();
    }
    let Some(request) = cx.http() else { return Context::new() };
    global::get_text_map_propagator(|propagator| {
        let value = |key: &str| {
            let value = request.headers.get(key)?.to_str().ok()?;
            (value.len() <= MAX_VALUE_BYTES).then(|| (key.to_owned(), value.to_owned()))
        };
        let carrier = Carrier(propagator.fields().filter_map(value).collect());
        propagator.extract_with_context(&Context::new(), &carrier)
    })
}

#[cfg(not(feature = "http-server"))]
fn of_http(_: &connection::Context) -> Context {
    Context::new()
}
