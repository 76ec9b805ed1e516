//! The headers of the modern era that a client sends: they repeat parts of the body.

use std::collections::BTreeMap;

use mcpjoin_proto::http::headers::{Headers, decode_value, encode_value, name};
use mcpjoin_proto::http::params::{HeaderMark, check_param_headers, header_marks};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Payload, Raw, Request};

use super::http::shown;
use crate::client_view::{ClientExchange, ClientView};
use crate::json::{elements, member, text};
use crate::rule::{Finding, Outcome, Source};

const STANDARD: &[Source] = sources![
    MODERN Must "basic/transports/streamable-http#standard-request-headers",
];
const NOTHING: &str = "the client posted no request";

rules! {
    pub(crate) RULES for Client in Chapter::StreamableHttp;

    "client-version-header-agrees", [MODERN Must "basic/transports/streamable-http#protocol-version-header"],
        "Each request of a client has the version that is in its body in the header MCP-Protocol-Version.",
        |view| {
            requests(view, |post, request| {
                let meta = request.params.as_ref().and_then(Payload::meta);
                let version = meta.and_then(|meta| text(&meta, key::PROTOCOL_VERSION));
                let given = post.request.headers.value(name::PROTOCOL_VERSION).map(<[u8]>::trim_ascii);
                // That the body has none is checked elsewhere.
                let good = match (given, version) {
                    (None, _) => false,
                    (Some(given), Some(version)) => given == version.as_bytes(),
                    (Some(_), None) => true,
                };
                (!good).then(|| {
                    post.finding(format!("MCP-Protocol-Version is {}", shown(post, name::PROTOCOL_VERSION)))
                })
            })
        };
    "client-method-header", STANDARD,
        "Each request of a client has its method in the header Mcp-Method.",
        |view| {
            requests(view, |post, request| {
                let given = post.request.headers.value(name::METHOD).map(<[u8]>::trim_ascii);
                (given != Some(request.method.as_str().as_bytes()))
                    .then(|| post.finding(format!("Mcp-Method is {}", shown(post, name::METHOD))))
            })
        };
    "client-name-header", STANDARD,
        "A client's request for a tool, a prompt or a resource has its name or URI in the header Mcp-Name.",
        |view| {
            let findings = named(view).map(|(post, wanted)| {
                // What must be encoded has a rule of its own.
                let given = post.request.headers.value(name::NAME);
                let good = given.is_some() && encode_value(&wanted) != wanted
                    || matches!(given.map(decode_value), Some(Ok(given)) if *given == *wanted);
                (!good).then(|| post.finding(format!("Mcp-Name is {}", shown(post, name::NAME))))
            });
            Outcome::of(findings, "the client asked for no tool, prompt or resource")
        };
    "client-header-encoded", [MODERN Must "basic/transports/streamable-http#value-encoding"],
        "A client writes a name that is no plain text, or looks like an encoded one, in Base64 into Mcp-Name.",
        |view| {
            let findings = named(view).filter_map(|(post, wanted)| {
                let given = post.request.headers.value(name::NAME)?;
                if encode_value(&wanted) == wanted {
                    return None;
                }
                let good = given != wanted.as_bytes()
                    && matches!(decode_value(given), Ok(given) if *given == *wanted);
                Some((!good).then(|| post.finding(format!("Mcp-Name is {}", shown(post, name::NAME)))))
            });
            Outcome::of(findings, "no name had to be encoded")
        };
    "client-param-headers", [MODERN Must "basic/transports/streamable-http#custom-headers-from-tool-parameters"],
        "A client repeats in headers the arguments that the tool's schema marks for one, and no others.",
        |view| {
            let tools = tools(view);
            let findings = calls(view).filter_map(|(post, called, request)| {
                let schema = tools.get(&called)?;
                let marks: Vec<HeaderMark> = header_marks(schema).ok().filter(|marks| !marks.is_empty())?;
                let arguments = request.params.as_ref().and_then(Payload::arguments);
                let checked = check_param_headers(&post.request.headers[..], &marks, arguments.as_ref());
                Some(checked.err().map(|error| post.finding(error.to_string())))
            });
            Outcome::of(findings, "no tool with such arguments was called, or its schema had not been listed")
        };
    "client-drops-bad-header-marks", [MODERN Must "basic/transports/streamable-http#schema-extension"],
        "A client leaves out a tool whose schema marks an argument for a header in a way that is not allowed.",
        |view| {
            let tools = tools(view);
            if !tools.values().any(|schema| header_marks(schema).is_err()) {
                return Outcome::Skipped("no such tool was listed");
            }
            let findings = calls(view).map(|(post, called, _)| {
                let error = header_marks(tools.get(&called)?).err()?;
                Some(post.finding(format!("{called} is such a tool: {error}")))
            });
            Outcome::of(findings, "the client called no tool")
        };
}

/// The requests that are about something with a name, each with that.
fn named<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t ClientExchange<'a>, String)> {
    posted(view).filter_map(|(post, request)| {
        let named = match request.method {
            Method::CallTool | Method::GetPrompt => "name",
            Method::ReadResource => "uri",
            _ => return None,
        };
        Some((post, text(request.params.as_ref()?.raw(), named)?))
    })
}

/// The requests that were posted.
fn posted<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t ClientExchange<'a>, &'a Request)> {
    let posts = view.exchanges.values().filter(|post| post.is("POST"));
    posts.flat_map(|post| post.requests().map(move |request| (post, request)))
}

fn requests(
    view: &ClientView<'_>,
    look: impl Fn(&ClientExchange<'_>, &Request) -> Option<Finding>,
) -> Outcome {
    let findings = posted(view).filter(|(_, request)| request.method != Method::Initialize);
    Outcome::of(findings.map(|(post, request)| look(post, request)), NOTHING)
}

/// The calls of tools, each with the name of its tool.
fn calls<'t, 'a>(
    view: &'t ClientView<'a>,
) -> impl Iterator<Item = (&'t ClientExchange<'a>, String, &'a Request)> {
    posted(view).filter_map(|(post, request)| {
        let called = request.params.as_ref().filter(|_| request.method == Method::CallTool)?;
        Some((post, text(called.raw(), "name")?, request))
    })
}

/// The tools that were listed, each with the schema of its arguments that was listed last.
fn tools(view: &ClientView<'_>) -> BTreeMap<String, Raw> {
    let pages = view.calls(&Method::ListTools).filter_map(|request| request.response?.outcome.as_ref().ok());
    let tools = pages.filter_map(|page| elements(&member(page.raw(), "tools")?)).flatten();
    tools.filter_map(|tool| Some((text(&tool, "name")?, member(&tool, "inputSchema")?))).collect()
}
