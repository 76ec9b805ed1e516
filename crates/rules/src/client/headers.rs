//! The headers of the modern era that a client sends: they repeat parts of the body.

use std::collections::BTreeMap;

use mcpjoin_proto::http::headers::{Headers, decode_value, encode_value, name};
use mcpjoin_proto::http::params::{check_param_headers, header_marks};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Payload, Raw, Request};

use super::http::wrong_header;
use crate::client_view::ClientView;
use crate::exchange::Exchange;
use crate::json::{list, member, text, text_param};
use crate::rule::{Evidence, Finding, Outcome, Source};

const STANDARD: &[Source] = sources![MODERN Must "basic/transports/streamable-http#standard-request-headers"];

rules! {
    pub(crate) RULES for Client in Chapter::StreamableHttp;

    "client-version-header-agrees", [MODERN Must "basic/transports/streamable-http#protocol-version-header"],
        "Each request of a client has the version that is in its body in the header MCP-Protocol-Version.",
        |view| requests(view, |post, request| {
            let meta = request.params.as_ref().and_then(Payload::meta);
            let version = meta.and_then(|meta| text(&meta, key::PROTOCOL_VERSION));
            let given = post.request.headers.value(name::PROTOCOL_VERSION).map(<[u8]>::trim_ascii);
            // A body without a version violates another rule.
            let is_good = given.is_some_and(|given| version.is_none_or(|version| given == version.as_bytes()));
            (!is_good).then(|| wrong_header(post, "MCP-Protocol-Version", name::PROTOCOL_VERSION))
        });
    "client-method-header", STANDARD,
        "Each request of a client has its method in the header Mcp-Method.",
        |view| requests(view, |post, request| {
            let given = post.request.headers.value(name::METHOD).map(<[u8]>::trim_ascii);
            let is_good = given == Some(request.method.as_str().as_bytes());
            (!is_good).then(|| wrong_header(post, "Mcp-Method", name::METHOD))
        });
    "client-name-header", STANDARD,
        "A client's request for a tool, a prompt or a resource has its name or URI in the header Mcp-Name.",
        else "the client asked for no tool, prompt or resource",
        |view| named(view).map(|(post, wanted)| {
            // A name that must be encoded has a rule of its own.
            let given = post.request.headers.value(name::NAME);
            let is_good = given.is_some() && encode_value(&wanted) != wanted
                || matches!(given.map(decode_value), Some(Ok(given)) if *given == *wanted);
            (!is_good).then(|| wrong_header(post, "Mcp-Name", name::NAME))
        });
    "client-header-encoded", [MODERN Must "basic/transports/streamable-http#value-encoding"],
        "A client writes a name that is no plain text, or looks like an encoded one, in Base64 into Mcp-Name.",
        else "no name had to be encoded",
        |view| named(view).filter(|(_, wanted)| encode_value(wanted) != *wanted).filter_map(|(post, wanted)| {
            let given = post.request.headers.value(name::NAME)?;
            let is_good =
                given != wanted.as_bytes() && matches!(decode_value(given), Ok(given) if *given == *wanted);
            Some((!is_good).then(|| wrong_header(post, "Mcp-Name", name::NAME)))
        });
    "client-param-headers", [MODERN Must "basic/transports/streamable-http#custom-headers-from-tool-parameters"],
        "A client repeats in headers the arguments that the tool's schema marks for one, and no others.",
        else "no tool with such arguments was called, or its schema had not been listed",
        |view| {
            let tools = tools(view);
            calls(view).filter_map(move |(post, called, request)| {
                let marks = header_marks(tools.get(&called)?).ok().filter(|marks| !marks.is_empty())?;
                let arguments = request.params.as_ref().and_then(Payload::arguments);
                let checked = check_param_headers(&post.request.headers[..], &marks, arguments.as_ref());
                Some(checked.err().map(|error| post.finding(error)))
            })
        };
    "client-drops-bad-header-marks", [MODERN Must "basic/transports/streamable-http#schema-extension"],
        "A client leaves out a tool whose schema marks an argument for a header in a way that is not allowed.",
        else "the client called no tool",
        |view| {
            let tools = tools(view);
            if !tools.values().any(|schema| header_marks(schema).is_err()) {
                return Outcome::Skipped("no such tool was listed");
            }
            calls(view).map(move |(post, called, _)| {
                let error = header_marks(tools.get(&called)?).err()?;
                Some(post.finding(format_args!("{called} is such a tool: {error}")))
            })
        };
}

/// The requests for a tool, a prompt or a resource, with its name or URI.
fn named<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t Exchange<'a>, String)> {
    posted(view).filter_map(|(post, request)| {
        let named = match request.method {
            Method::CallTool | Method::GetPrompt => "name",
            Method::ReadResource => "uri",
            _ => return None,
        };
        Some((post, text_param(&request.params, named)?))
    })
}

/// The requests in POSTs.
fn posted<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t Exchange<'a>, &'a Request)> {
    view.posts().flat_map(|post| post.requests().map(move |request| (post, request)))
}

/// Checks all requests in POSTs but `initialize`.
fn requests(view: &ClientView<'_>, check: impl Fn(&Exchange<'_>, &Request) -> Option<Finding>) -> Outcome {
    let requests = posted(view).filter(|(_, request)| request.method != Method::Initialize);
    Outcome::of(requests.map(|(post, request)| check(post, request)), "the client posted no request")
}

/// The calls of tools, with the name of the tool.
fn calls<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t Exchange<'a>, String, &'a Request)> {
    let calls = posted(view).filter(|(_, request)| request.method == Method::CallTool);
    calls.filter_map(|(post, request)| Some((post, text_param(&request.params, "name")?, request)))
}

/// The listed tools, with the last schema of their arguments.
fn tools(view: &ClientView<'_>) -> BTreeMap<String, Raw> {
    let pages = view.calls(&Method::ListTools).filter_map(|request| request.response?.result());
    let tools = pages.filter_map(|page| list(page, "tools")).flatten();
    tools.filter_map(|tool| Some((text(&tool, "name")?, member(&tool, "inputSchema")?))).collect()
}
