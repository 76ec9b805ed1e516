//! The era without sessions: each request says what it needs, and the server answers it by itself.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

use std::collections::BTreeSet;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Raw, RequestId, code};

use crate::base::code_of;
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Answer, Asked, Seen, member, strings, text};
use crate::trace::Probe;

const fn must(page: &'static str) -> Source {
    Source::new(Revisions::MODERN, Must, page)
}

const fn should(page: &'static str) -> Source {
    Source::new(Revisions::MODERN, Should, page)
}

pub(super) static RULES: [Rule; 19] = [
    Rule {
        slug: "discover-implemented",
        chapter: Chapter::Lifecycle,
        sentence: "server/discover is answered with a result.",
        sources: &[must("server/discover")],
        judge: |seen| {
            let judged = seen.probed(Probe::Discover).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                Some(outcome.is_err().then(|| asked.finding("server/discover brought an error", answer.line)))
            });
            Outcome::of(judged, "server/discover was not answered")
        },
    },
    Rule {
        slug: "discover-versions",
        chapter: Chapter::Lifecycle,
        sentence: "The result of server/discover has supportedVersions: strings, and the version of the request is one \
                   of them.",
        sources: &[must("server/discover#discoverresult")],
        judge: |seen| {
            discovered(seen, |asked, answer, result| {
                let versions = member(result, "supportedVersions").and_then(|versions| strings(&versions));
                let problem = match versions {
                    None => "supportedVersions is no array of strings".to_owned(),
                    Some(versions) if versions.iter().any(|version| version == seen.run.version.as_str()) => {
                        return None;
                    }
                    Some(_) => format!(
                        "supportedVersions lacks {}, in which the server has answered",
                        seen.run.version
                    ),
                };
                Some(asked.finding(problem, answer.line))
            })
        },
    },
    Rule {
        slug: "discover-capabilities",
        chapter: Chapter::Lifecycle,
        sentence: "The result of server/discover has the server's capabilities.",
        sources: &[must("server/discover#discoverresult")],
        judge: |seen| {
            discovered(seen, |asked, answer, result| {
                let given = member(result, "capabilities").map(|value| value.kind());
                (given != Some(Kind::Object))
                    .then(|| asked.finding("capabilities are missing or no object", answer.line))
            })
        },
    },
    Rule {
        slug: "result-type-present",
        chapter: Chapter::Lifecycle,
        sentence: "Each result says its resultType.",
        sources: &[must("basic#result-responses")],
        judge: |seen| {
            each_result(seen, |asked, answer, result| {
                let given = member(result, "resultType").map(|value| value.kind());
                (given != Some(Kind::String))
                    .then(|| asked.finding("resultType is missing or no string", answer.line))
            })
        },
    },
    Rule {
        slug: "result-type-known",
        chapter: Chapter::Lifecycle,
        sentence: "A resultType is one of the specification, or of an extension that both sides have declared.",
        sources: &[must("basic#resulttype")],
        judge: |seen| {
            let judged =
                seen.results().filter_map(|(asked, answer, result)| {
                    let given = text(result.raw(), "resultType")?;
                    let known = ["complete", "input_required"].contains(&&*given);
                    Some((!known).then(|| {
                        asked.finding(format!("no revision has the resultType {given:?}"), answer.line)
                    }))
                });
            Outcome::of(judged, "no result has a resultType")
        },
    },
    Rule {
        slug: "input-required-where-allowed",
        chapter: Chapter::Lifecycle,
        sentence: "Nothing but tools/call, prompts/get and resources/read is answered with the resultType \
                   input_required.",
        sources: &[must("basic/patterns/mrtr#supported-requests")],
        judge: |seen| {
            each_result(seen, |asked, answer, result| {
                let allowed = matches!(
                    asked.method,
                    Some(Method::CallTool | Method::GetPrompt | Method::ReadResource) | None
                );
                let input = text(result, "resultType").is_some_and(|kind| kind == "input_required");
                (input && !allowed)
                    .then(|| asked.finding(format!("{} asks for input", asked.name()), answer.line))
            })
        },
    },
    Rule {
        slug: "server-info-in-results",
        chapter: Chapter::Lifecycle,
        sentence: "Each result names the server in _meta, under io.modelcontextprotocol/serverInfo.",
        sources: &[should("basic#meta")],
        judge: |seen| {
            each_result(seen, |asked, answer, result| {
                let info = member(result, "_meta").and_then(|meta| member(&meta, key::SERVER_INFO));
                let named = info
                    .is_some_and(|info| text(&info, "name").is_some() && text(&info, "version").is_some());
                (!named)
                    .then(|| asked.finding("_meta has no serverInfo with a name and a version", answer.line))
            })
        },
    },
    Rule {
        slug: "cache-ttl",
        chapter: Chapter::Lifecycle,
        sentence: "A result that may be kept says for how long: ttlMs is an integer, 0 or more.",
        sources: &[must("server/utilities/caching#time-to-live-ttl-field")],
        judge: |seen| {
            cacheable(seen, |asked, answer, result| {
                let given = member(result, "ttlMs");
                let value = given.as_ref().and_then(|ttl| ttl.as_str().parse::<f64>().ok());
                let good = value.is_some_and(|ttl| ttl >= 0.0 && ttl.fract() == 0.0);
                (!good).then(|| asked.finding("ttlMs is missing or no integer of 0 or more", answer.line))
            })
        },
    },
    Rule {
        slug: "cache-scope",
        chapter: Chapter::Lifecycle,
        sentence: "A result that may be kept says by whom: cacheScope is \"public\" or \"private\".",
        sources: &[must("server/utilities/caching#cache-scope-field")],
        judge: |seen| {
            cacheable(seen, |asked, answer, result| {
                let given = text(result, "cacheScope");
                let good = given.is_some_and(|scope| scope == "public" || scope == "private");
                (!good).then(|| asked.finding("cacheScope is missing or another word", answer.line))
            })
        },
    },
    Rule {
        slug: "missing-capabilities-refused",
        chapter: Chapter::Lifecycle,
        sentence: "A request without the client's capabilities in _meta is refused with the error -32602.",
        sources: &[must("basic#meta")],
        judge: |seen| refused(seen, Probe::NoCapabilities, "no such request was answered"),
    },
    Rule {
        slug: "missing-version-refused",
        chapter: Chapter::Lifecycle,
        sentence: "A request without its protocol version in _meta is refused with the error -32602.",
        sources: &[must("basic#meta")],
        judge: |seen| {
            if seen.speaks_legacy() {
                return Outcome::Skipped(
                    "the server also speaks the legacy era, in which requests have no version",
                );
            }
            refused(seen, Probe::NoVersion, "no such request was answered")
        },
    },
    Rule {
        slug: "missing-meta-refused",
        chapter: Chapter::Lifecycle,
        sentence: "A request without _meta is refused with the error -32602.",
        sources: &[must("basic#meta")],
        judge: |seen| {
            if seen.speaks_legacy() {
                return Outcome::Skipped(
                    "the server also speaks the legacy era, in which requests need no _meta",
                );
            }
            refused(seen, Probe::NoMeta, "no such request was answered")
        },
    },
    Rule {
        slug: "client-info-optional",
        chapter: Chapter::Lifecycle,
        sentence: "A request whose _meta does not name the client is answered like any other.",
        sources: &[must("basic#meta")],
        judge: |seen| {
            let judged = seen.probed(Probe::NoClientInfo).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                Some(outcome.is_err().then(|| asked.finding("the request was refused", answer.line)))
            });
            Outcome::of(judged, "no such request was answered")
        },
    },
    Rule {
        slug: "unsupported-version-code",
        chapter: Chapter::Lifecycle,
        sentence: "A request of a version that the server does not speak is refused with the error -32022.",
        sources: &[must("basic/versioning#protocol-version-negotiation")],
        judge: |seen| {
            let result =
                seen.probed(Probe::UnsupportedVersion).filter_map(|asked| {
                    let (answer, outcome) = asked.answer()?;
                    Some(outcome.is_ok().then(|| {
                        asked.finding("a version that does not exist brought a result", answer.line)
                    }))
                });
            let nothing = "no such request was answered";
            match Outcome::of(result, nothing) {
                Outcome::Passed => {
                    code_of(seen, Probe::UnsupportedVersion, code::UNSUPPORTED_PROTOCOL_VERSION, nothing)
                }
                outcome => outcome,
            }
        },
    },
    Rule {
        slug: "unsupported-version-list",
        chapter: Chapter::Lifecycle,
        sentence: "The error -32022 lists the versions that the server speaks in data.supported.",
        sources: &[must("basic/versioning#protocol-version-negotiation")],
        judge: |seen| {
            unsupported(
                seen,
                |_, data| {
                    let supported = member(data?, "supported").and_then(|list| strings(&list));
                    Some(supported.is_some_and(|list| !list.is_empty()))
                },
                "data.supported is no array of versions",
            )
        },
    },
    Rule {
        slug: "unsupported-version-requested",
        chapter: Chapter::Lifecycle,
        sentence: "The error -32022 repeats the version of the request in data.requested.",
        sources: &[must("schema#unsupportedprotocolversionerror")],
        judge: |seen| {
            unsupported(
                seen,
                |asked, data| {
                    let requested = text(data?, "requested");
                    Some(requested.is_some() && requested == version_of(asked))
                },
                "data.requested is not the version of the request",
            )
        },
    },
    Rule {
        slug: "initialize-error-names-versions",
        chapter: Chapter::Lifecycle,
        sentence: "A server without the legacy era names the versions that it speaks in its answer to initialize.",
        sources: &[should("basic/versioning#backward-compatibility-with-initialization-based-versions")],
        judge: |seen| {
            let judged = seen.probed(Probe::Initialize).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let error = outcome.as_ref().err()?;
                let data = error.data.as_ref().map_or("", Raw::as_str);
                let version = seen.run.version.as_str();
                let named = error.message.contains(version) || data.contains(version);
                Some(
                    (!named)
                        .then(|| asked.finding(format!("the error does not name {version}"), answer.line)),
                )
            });
            Outcome::of(judged, "initialize was not refused")
        },
    },
    Rule {
        slug: "removed-method-unknown",
        chapter: Chapter::Lifecycle,
        sentence: "Methods that this revision has no longer are answered with the error -32601.",
        sources: &[should("schema#methodnotfounderror")],
        judge: |seen| {
            let judged = seen.probed(Probe::RemovedMethod).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let problem = match outcome {
                    Ok(_) => format!("{} brought a result", asked.name()),
                    Err(error) if error.code == code::METHOD_NOT_FOUND => return Some(None),
                    Err(error) => format!("the code is {}, not {}", error.code, code::METHOD_NOT_FOUND),
                };
                Some(Some(asked.finding(problem, answer.line)))
            });
            Outcome::of(judged, "no such method was asked for")
        },
    },
    Rule {
        slug: "no-cancellation-by-server",
        chapter: Chapter::Lifecycle,
        sentence: "A server cancels nothing but a stream that it ends: notifications/cancelled has the id of a \
                   subscriptions/listen.",
        sources: &[must("basic/patterns/cancellation")],
        judge: |seen| {
            let listens = seen.asked.iter().filter(|asked| asked.method == Some(&Method::Listen));
            let streams: BTreeSet<&RequestId> = listens.filter_map(|asked| asked.id).collect();
            let told = seen.notifications.iter().map(|told| {
                if told.what.method != Method::Cancelled {
                    return None;
                }
                let params = told.what.params.as_ref().map(|params| params.raw());
                let id = params.and_then(|params| member(params, "requestId")?.decode::<RequestId>().ok());
                let named = id.is_some_and(|id| streams.contains(&id));
                (!named).then(|| Finding::new("it is of no stream of changes", None, Some(told.line.bytes())))
            });
            Outcome::of(told, "the server sent no notification")
        },
    },
];

/// Looks at the result of `server/discover`, when it is an object.
fn discovered(seen: &Seen<'_>, look: impl Fn(&Asked<'_>, &Answer<'_>, &Raw) -> Option<Finding>) -> Outcome {
    let results = seen.results().filter(|(asked, ..)| asked.probe == Probe::Discover);
    let judged = results
        .filter(|(.., result)| result.raw().kind() == Kind::Object)
        .map(|(asked, answer, result)| look(asked, answer, result.raw()));
    Outcome::of(judged, "server/discover brought no result")
}

/// Looks at every result that is an object.
fn each_result(seen: &Seen<'_>, look: impl Fn(&Asked<'_>, &Answer<'_>, &Raw) -> Option<Finding>) -> Outcome {
    let judged = seen
        .results()
        .filter(|(.., result)| result.raw().kind() == Kind::Object)
        .map(|(asked, answer, result)| look(asked, answer, result.raw()));
    Outcome::of(judged, "no result was seen")
}

/// Looks at every result that must say for how long and by whom it may be kept.
fn cacheable(seen: &Seen<'_>, look: impl Fn(&Asked<'_>, &Answer<'_>, &Raw) -> Option<Finding>) -> Outcome {
    let judged = seen
        .results()
        .filter(|(asked, _, result)| {
            asked.method.is_some_and(Method::is_cacheable)
                && result.raw().kind() == Kind::Object
                && text(result.raw(), "resultType").is_none_or(|kind| kind == "complete")
        })
        .map(|(asked, answer, result)| look(asked, answer, result.raw()));
    Outcome::of(judged, "no result was seen that may be kept")
}

/// The answer is an error with the code -32602.
fn refused(seen: &Seen<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    let judged = seen.probed(probe).filter_map(|asked| {
        let (answer, outcome) = asked.answer()?;
        let problem = match outcome {
            Ok(_) => "the request was accepted".to_owned(),
            Err(error) if error.code == code::INVALID_PARAMS => return Some(None),
            // Over HTTP, a version in the headers alone is one that differs.
            Err(error)
                if error.code == code::HEADER_MISMATCH
                    && asked.exchange.is_some()
                    && matches!(probe, Probe::NoVersion | Probe::NoMeta) =>
            {
                return Some(None);
            }
            Err(error) => format!("the code is {}, not {}", error.code, code::INVALID_PARAMS),
        };
        Some(Some(asked.finding(problem, answer.line)))
    });
    Outcome::of(judged, nothing)
}

/// Looks at the data of each error -32022.
fn unsupported(
    seen: &Seen<'_>,
    good: impl Fn(&Asked<'_>, Option<&Raw>) -> Option<bool>,
    problem: &str,
) -> Outcome {
    // An initialize, which names its version elsewhere, may bring this error too.
    let judged = seen.asked.iter().filter(|asked| version_of(asked).is_some()).filter_map(|asked| {
        let (answer, outcome) = asked.answer()?;
        let error =
            outcome.as_ref().err().filter(|error| error.code == code::UNSUPPORTED_PROTOCOL_VERSION)?;
        let good = good(asked, error.data.as_ref()).unwrap_or(false);
        Some((!good).then(|| asked.finding(problem, answer.line)))
    });
    Outcome::of(judged, "no error -32022 was seen")
}

/// The version that a request of ours names.
fn version_of(asked: &Asked<'_>) -> Option<String> {
    let meta = member(&member(&crate::seen::of_line(asked.line.bytes())?, "params")?, "_meta")?;
    text(&meta, key::PROTOCOL_VERSION)
}
