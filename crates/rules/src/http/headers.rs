//! Headers of the modern era, which repeat parts of the body: how a server handles missing, different and differently
//! written ones.

use super::{has_result, is_mismatch, probed, taken};
use crate::rule::Outcome;
use crate::server_view::ServerView;
use crate::trace::Probe;

const VALIDATION: &str = "basic/transports/streamable-http#server-validation";
const CUSTOM: &str = "basic/transports/streamable-http#server-behavior-for-custom-headers";
const NO_PARAMS: &str = "no tool was called whose arguments stand in headers: see --read-only-tools";
const NO_NUMBERS: &str = "no tool was called with an integer that stands in a header: see --read-only-tools";
const NOTHING: &str = "no such request was sent";
const NO_PROMPTS: &str = "the server declares no prompts, and nothing else is asked for by name";

rules! {
    pub(crate) RULES for Server in Chapter::StreamableHttp;

    "version-header-required", [MODERN Must "basic/transports/streamable-http#protocol-version-header"],
        "A request without MCP-Protocol-Version is refused with the status 400 and the error -32020.",
        |view| {
            if !view.refuses_legacy() {
                return Outcome::Skipped(
                    "the server speaks revisions that had no such header, or was not asked for them",
                );
            }
            mismatch(view, Probe::NoVersionHeader, NOTHING)
        };
    "version-header-agrees", [MODERN Must "basic/transports/streamable-http#protocol-version-header"],
        "A request whose MCP-Protocol-Version is not the version in its body is refused with the status 400 and the \
         error -32020.",
        |view| mismatch(view, Probe::OtherVersionHeader, NOTHING);
    "method-header-required", [MODERN Must VALIDATION],
        "A request without Mcp-Method is refused with the status 400 and the error -32020.",
        |view| mismatch(view, Probe::NoMethodHeader, NOTHING);
    "method-header-agrees", [MODERN Must VALIDATION],
        "A request whose Mcp-Method is not its method is refused with the status 400 and the error -32020.",
        |view| mismatch(view, Probe::OtherMethodHeader, NOTHING);
    "header-values-keep-letters", [MODERN Must "basic/transports/streamable-http#case-sensitivity"],
        "In the value of a header, capitals are other letters: a method in capitals is another method.",
        |view| mismatch(view, Probe::CapitalMethodHeader, NOTHING);
    "header-names-any-letters", [MODERN Must "basic/transports/streamable-http#case-sensitivity"],
        "The name of a header is the same in capitals and in small letters.",
        |view| probed(view, &[Probe::HeaderLetters], NOTHING, has_result);
    "header-space-dropped", [MODERN Must "https://www.rfc-editor.org/rfc/rfc9110#section-5.5"],
        "White space around the value of a header does not belong to it.",
        |view| probed(view, &[Probe::HeaderSpace], NOTHING, has_result);
    "name-header-required", [MODERN Must VALIDATION],
        "A request for a prompt without Mcp-Name is refused with the status 400 and the error -32020.",
        |view| mismatch(view, Probe::NoNameHeader, NO_PROMPTS);
    "name-header-agrees", [MODERN Must VALIDATION],
        "A request whose Mcp-Name is another name, or cannot be read, is refused with the status 400 and the error \
         -32020.",
        |view| probed(view, &[Probe::OtherNameHeader, Probe::BadNameHeader], NO_PROMPTS, is_mismatch);
    "name-header-decoded", [MODERN Must "basic/transports/streamable-http#value-encoding"],
        "A name in Base64 is decoded before it is compared with the body.",
        |view| taken(view, Probe::EncodedNameHeader, NO_PROMPTS);
    "param-header-required", [MODERN Must CUSTOM],
        "A call without the Mcp-Param header of an argument is refused with the status 400 and the error -32020.",
        |view| mismatch(view, Probe::NoParamHeader, NO_PARAMS);
    "param-header-agrees", [MODERN Must VALIDATION],
        "A call whose Mcp-Param header has another value is refused with the status 400 and the error -32020.",
        |view| mismatch(view, Probe::OtherParamHeader, NO_PARAMS);
    "param-header-valid", [MODERN Must CUSTOM],
        "A call whose Mcp-Param header is no Base64 behind its mark is refused with 400 and the error -32020.",
        |view| mismatch(view, Probe::BadParamHeader, NO_PARAMS);
    "param-header-decoded", [MODERN Must "basic/transports/streamable-http#value-encoding"],
        "An argument in Base64 in its Mcp-Param header is decoded before it is compared with the body.",
        |view| taken(view, Probe::EncodedParamHeader, NO_PARAMS);
    "param-header-as-number", [MODERN Should VALIDATION],
        "An integer in an Mcp-Param header is compared as a number: 1.0 is 1.",
        |view| taken(view, Probe::NumberParamHeader, NO_NUMBERS);
    "param-header-not-expected", [MODERN Must CUSTOM],
        "Where an argument is missing, or null, no Mcp-Param header is expected for it.",
        |view| taken(view, Probe::NoParamExpected, NO_PARAMS);
}

fn mismatch(view: &ServerView<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    probed(view, &[probe], nothing, is_mismatch)
}
