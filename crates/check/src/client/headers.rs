//! The headers of the modern era, which repeat what is in the body, as a client writes them.

use std::collections::BTreeMap;

use mcpjoin_proto::http::headers::{Headers, decode_value, encode_value, name};
use mcpjoin_proto::http::params::{HeaderMark, check_param_headers, header_marks};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Payload, Raw, Request};

use super::exchanges::shown;
use super::talk::{Post, Talk};
use crate::revisions::Revisions;
use crate::rule::Level::Must;
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, elements, member, text};

const STANDARD: &[Source] =
    &[Source::new(Revisions::MODERN, Must, "basic/transports/streamable-http#standard-request-headers")];
const NOTHING: &str = "the client posted no request";

pub(super) static RULES: [Rule; 6] = [
    Rule {
        slug: "client-version-header-agrees",
        chapter: Chapter::StreamableHttp,
        sentence: "Each request of a client has the version that is in its body in the header MCP-Protocol-Version.",
        sources: &[Source::new(
            Revisions::MODERN,
            Must,
            "basic/transports/streamable-http#protocol-version-header",
        )],
        judge: |seen| {
            requests(seen, |post, request| {
                let meta = request.params.as_ref().and_then(Payload::meta);
                let version = meta.and_then(|meta| text(&meta, key::PROTOCOL_VERSION));
                let given = post.request.headers.value(name::PROTOCOL_VERSION).map(<[u8]>::trim_ascii);
                // That the body has none is judged elsewhere.
                let good = match (given, version) {
                    (None, _) => false,
                    (Some(given), Some(version)) => given == version.as_bytes(),
                    (Some(_), None) => true,
                };
                (!good).then(|| {
                    post.finding(format!("MCP-Protocol-Version is {}", shown(post, name::PROTOCOL_VERSION)))
                })
            })
        },
    },
    Rule {
        slug: "client-method-header",
        chapter: Chapter::StreamableHttp,
        sentence: "Each request of a client has its method in the header Mcp-Method.",
        sources: STANDARD,
        judge: |seen| {
            requests(seen, |post, request| {
                let given = post.request.headers.value(name::METHOD).map(<[u8]>::trim_ascii);
                (given != Some(request.method.as_str().as_bytes()))
                    .then(|| post.finding(format!("Mcp-Method is {}", shown(post, name::METHOD))))
            })
        },
    },
    Rule {
        slug: "client-name-header",
        chapter: Chapter::StreamableHttp,
        sentence: "A client's request for a tool, a prompt or a resource has its name or URI in the header Mcp-Name.",
        sources: STANDARD,
        judge: |seen| {
            let judged = named(seen.talk()).map(|(post, wanted)| {
                // What must be encoded has a rule of its own.
                let given = post.request.headers.value(name::NAME);
                let good = given.is_some() && encode_value(&wanted) != wanted
                    || matches!(given.map(decode_value), Some(Ok(given)) if *given == *wanted);
                (!good).then(|| post.finding(format!("Mcp-Name is {}", shown(post, name::NAME))))
            });
            Outcome::of(judged, "the client asked for no tool, prompt or resource")
        },
    },
    Rule {
        slug: "client-header-encoded",
        chapter: Chapter::StreamableHttp,
        sentence: "A client writes a name that is no plain text, or looks like an encoded one, in Base64 into Mcp-Name.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/transports/streamable-http#value-encoding")],
        judge: |seen| {
            let judged = named(seen.talk()).filter_map(|(post, wanted)| {
                let given = post.request.headers.value(name::NAME)?;
                if encode_value(&wanted) == wanted {
                    return None;
                }
                let good = given != wanted.as_bytes()
                    && matches!(decode_value(given), Ok(given) if *given == *wanted);
                Some((!good).then(|| post.finding(format!("Mcp-Name is {}", shown(post, name::NAME)))))
            });
            Outcome::of(judged, "no name had to be encoded")
        },
    },
    Rule {
        slug: "client-param-headers",
        chapter: Chapter::StreamableHttp,
        sentence: "A client repeats in headers the arguments that the tool's schema marks for one, and no others.",
        sources: &[Source::new(
            Revisions::MODERN,
            Must,
            "basic/transports/streamable-http#custom-headers-from-tool-parameters",
        )],
        judge: |seen| {
            let talk = seen.talk();
            let tools = tools(talk);
            let judged = calls(talk).filter_map(|(post, called, request)| {
                let schema = tools.get(&called)?;
                let marks: Vec<HeaderMark> = header_marks(schema).ok().filter(|marks| !marks.is_empty())?;
                let arguments = request.params.as_ref().and_then(Payload::arguments);
                let checked = check_param_headers(&post.request.headers[..], &marks, arguments.as_ref());
                Some(checked.err().map(|error| post.finding(error.to_string())))
            });
            Outcome::of(judged, "no tool with such arguments was called, or its schema had not been listed")
        },
    },
    Rule {
        slug: "client-drops-bad-header-marks",
        chapter: Chapter::StreamableHttp,
        sentence: "A client leaves out a tool whose schema marks an argument for a header in a way that is not allowed.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/transports/streamable-http#schema-extension")],
        judge: |seen| {
            let talk = seen.talk();
            let tools = tools(talk);
            if !tools.values().any(|schema| header_marks(schema).is_err()) {
                return Outcome::Skipped("no such tool was listed");
            }
            let judged = calls(talk).map(|(post, called, _)| {
                let error = header_marks(tools.get(&called)?).err()?;
                Some(post.finding(format!("{called} is such a tool: {error}")))
            });
            Outcome::of(judged, "the client called no tool")
        },
    },
];

/// The requests that are about something with a name, each with that.
fn named<'t, 'a>(talk: &'t Talk<'a>) -> impl Iterator<Item = (&'t Post<'a>, String)> {
    posted(talk).filter_map(|(post, request)| {
        let named = match request.method {
            Method::CallTool | Method::GetPrompt => "name",
            Method::ReadResource => "uri",
            _ => return None,
        };
        Some((post, text(request.params.as_ref()?.raw(), named)?))
    })
}

/// The requests that were posted.
fn posted<'t, 'a>(talk: &'t Talk<'a>) -> impl Iterator<Item = (&'t Post<'a>, &'a Request)> {
    let posts = talk.posts.values().filter(|post| post.is("POST"));
    posts.flat_map(|post| post.requests().map(move |request| (post, request)))
}

fn requests(seen: &Seen<'_>, look: impl Fn(&Post<'_>, &Request) -> Option<Finding>) -> Outcome {
    let judged = posted(seen.talk()).filter(|(_, request)| request.method != Method::Initialize);
    Outcome::of(judged.map(|(post, request)| look(post, request)), NOTHING)
}

/// The calls of tools, each with the name of its tool.
fn calls<'t, 'a>(talk: &'t Talk<'a>) -> impl Iterator<Item = (&'t Post<'a>, String, &'a Request)> {
    posted(talk).filter_map(|(post, request)| {
        let called = request.params.as_ref().filter(|_| request.method == Method::CallTool)?;
        Some((post, text(called.raw(), "name")?, request))
    })
}

/// The tools that were listed, each with the schema of its arguments that was listed last.
fn tools(talk: &Talk<'_>) -> BTreeMap<String, Raw> {
    let pages = talk.calls(&Method::ListTools).filter_map(|asked| asked.answer?.outcome.as_ref().ok());
    let tools = pages.filter_map(|page| elements(&member(page.raw(), "tools")?)).flatten();
    tools.filter_map(|tool| Some((text(&tool, "name")?, member(&tool, "inputSchema")?))).collect()
}
