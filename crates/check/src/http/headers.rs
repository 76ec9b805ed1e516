//! Headers of the modern era, which repeat what is in the body: what a server makes of those that are missing, differ,
//! or are written in another way.

use super::{has_result, is_mismatch, modern, probed, taken};
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Outcome, Rule};
use crate::seen::Seen;
use crate::trace::Probe;

const VALIDATION: &str = "basic/transports/streamable-http#server-validation";
const CUSTOM: &str = "basic/transports/streamable-http#server-behavior-for-custom-headers";
const NO_PARAMS: &str = "no tool was called whose arguments stand in headers: see --read-only-tools";
const NO_NUMBERS: &str = "no tool was called with an integer that stands in a header: see --read-only-tools";
const NOTHING: &str = "no such request was sent";
const NO_PROMPTS: &str = "the server declares no prompts, and nothing else is asked for by name";

pub(super) static RULES: [Rule; 16] = [
    Rule {
        slug: "version-header-required",
        chapter: Chapter::StreamableHttp,
        sentence: "A request without MCP-Protocol-Version is refused with the status 400 and the error -32020.",
        sources: &modern(Must, "basic/transports/streamable-http#protocol-version-header"),
        judge: |seen| {
            if !seen.refuses_legacy() {
                return Outcome::Skipped(
                    "the server speaks revisions that had no such header, or was not asked for them",
                );
            }
            mismatch(seen, Probe::NoVersionHeader, NOTHING)
        },
    },
    Rule {
        slug: "version-header-agrees",
        chapter: Chapter::StreamableHttp,
        sentence: "A request whose MCP-Protocol-Version is not the version in its body is refused with the status 400 \
                   and the error -32020.",
        sources: &modern(Must, "basic/transports/streamable-http#protocol-version-header"),
        judge: |seen| mismatch(seen, Probe::OtherVersionHeader, NOTHING),
    },
    Rule {
        slug: "method-header-required",
        chapter: Chapter::StreamableHttp,
        sentence: "A request without Mcp-Method is refused with the status 400 and the error -32020.",
        sources: &modern(Must, VALIDATION),
        judge: |seen| mismatch(seen, Probe::NoMethodHeader, NOTHING),
    },
    Rule {
        slug: "method-header-agrees",
        chapter: Chapter::StreamableHttp,
        sentence: "A request whose Mcp-Method is not its method is refused with the status 400 and the error -32020.",
        sources: &modern(Must, VALIDATION),
        judge: |seen| mismatch(seen, Probe::OtherMethodHeader, NOTHING),
    },
    Rule {
        slug: "header-values-keep-letters",
        chapter: Chapter::StreamableHttp,
        sentence: "In the value of a header, capitals are other letters: a method in capitals is another method.",
        sources: &modern(Must, "basic/transports/streamable-http#case-sensitivity"),
        judge: |seen| mismatch(seen, Probe::CapitalMethodHeader, NOTHING),
    },
    Rule {
        slug: "header-names-any-letters",
        chapter: Chapter::StreamableHttp,
        sentence: "The name of a header is the same in capitals and in small letters.",
        sources: &modern(Must, "basic/transports/streamable-http#case-sensitivity"),
        judge: |seen| probed(seen, &[Probe::HeaderLetters], NOTHING, has_result),
    },
    Rule {
        slug: "header-space-dropped",
        chapter: Chapter::StreamableHttp,
        sentence: "White space around the value of a header does not belong to it.",
        sources: &modern(Must, "https://www.rfc-editor.org/rfc/rfc9110#section-5.5"),
        judge: |seen| probed(seen, &[Probe::HeaderSpace], NOTHING, has_result),
    },
    Rule {
        slug: "name-header-required",
        chapter: Chapter::StreamableHttp,
        sentence: "A request for a prompt without Mcp-Name is refused with the status 400 and the error -32020.",
        sources: &modern(Must, VALIDATION),
        judge: |seen| mismatch(seen, Probe::NoNameHeader, NO_PROMPTS),
    },
    Rule {
        slug: "name-header-agrees",
        chapter: Chapter::StreamableHttp,
        sentence: "A request whose Mcp-Name is another name, or cannot be read, is refused with the status 400 and the \
                   error -32020.",
        sources: &modern(Must, VALIDATION),
        judge: |seen| probed(seen, &[Probe::OtherNameHeader, Probe::BadNameHeader], NO_PROMPTS, is_mismatch),
    },
    Rule {
        slug: "name-header-decoded",
        chapter: Chapter::StreamableHttp,
        sentence: "A name in Base64 is decoded before it is compared with the body.",
        sources: &modern(Must, "basic/transports/streamable-http#value-encoding"),
        judge: |seen| taken(seen, Probe::EncodedNameHeader, NO_PROMPTS),
    },
    Rule {
        slug: "param-header-required",
        chapter: Chapter::StreamableHttp,
        sentence: "A call without the Mcp-Param header of an argument is refused with the status 400 and the error -32020.",
        sources: &modern(Must, CUSTOM),
        judge: |seen| mismatch(seen, Probe::NoParamHeader, NO_PARAMS),
    },
    Rule {
        slug: "param-header-agrees",
        chapter: Chapter::StreamableHttp,
        sentence: "A call whose Mcp-Param header has another value is refused with the status 400 and the error -32020.",
        sources: &modern(Must, VALIDATION),
        judge: |seen| mismatch(seen, Probe::OtherParamHeader, NO_PARAMS),
    },
    Rule {
        slug: "param-header-valid",
        chapter: Chapter::StreamableHttp,
        sentence: "A call whose Mcp-Param header is no Base64 behind its mark is refused with 400 and the error -32020.",
        sources: &modern(Must, CUSTOM),
        judge: |seen| mismatch(seen, Probe::BadParamHeader, NO_PARAMS),
    },
    Rule {
        slug: "param-header-decoded",
        chapter: Chapter::StreamableHttp,
        sentence: "An argument in Base64 in its Mcp-Param header is decoded before it is compared with the body.",
        sources: &modern(Must, "basic/transports/streamable-http#value-encoding"),
        judge: |seen| taken(seen, Probe::EncodedParamHeader, NO_PARAMS),
    },
    Rule {
        slug: "param-header-as-number",
        chapter: Chapter::StreamableHttp,
        sentence: "An integer in an Mcp-Param header is compared as a number: 1.0 is 1.",
        sources: &modern(Should, VALIDATION),
        judge: |seen| taken(seen, Probe::NumberParamHeader, NO_NUMBERS),
    },
    Rule {
        slug: "param-header-not-expected",
        chapter: Chapter::StreamableHttp,
        sentence: "Where an argument is missing, or null, no Mcp-Param header is expected for it.",
        sources: &modern(Must, CUSTOM),
        judge: |seen| taken(seen, Probe::NoParamExpected, NO_PARAMS),
    },
];

fn mismatch(seen: &Seen<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    probed(seen, &[probe], nothing, is_mismatch)
}
