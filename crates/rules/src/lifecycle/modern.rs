//! The era without sessions: each request carries its version and capabilities, and the server handles it by itself.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

use std::collections::BTreeSet;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Raw, RequestId, code};

use crate::base::code_of;
use crate::json::{member, strings, text};
use crate::rule::{Finding, Outcome};
use crate::server_view::{OurRequest, ReceivedResponse, ServerView};
use crate::trace::Probe;

rules! {
    pub(crate) RULES for Server in Chapter::Lifecycle;

    "discover-implemented", [MODERN Must "server/discover"],
        "server/discover is answered with a result.",
        |view| {
            let findings = view.probed(Probe::Discover).filter_map(|request| {
                let (response, outcome) = request.response()?;
                Some(
                    outcome
                        .is_err()
                        .then(|| request.finding("server/discover brought an error", response.line)),
                )
            });
            Outcome::of(findings, "server/discover was not answered")
        };
    "discover-versions", [MODERN Must "server/discover#discoverresult"],
        "The result of server/discover has supportedVersions: strings, and the version of the request is one of \
         them.",
        |view| {
            discovered(view, |request, response, result| {
                let versions = member(result, "supportedVersions").and_then(|versions| strings(&versions));
                let problem = match versions {
                    None => "supportedVersions is no array of strings".to_owned(),
                    Some(versions) if versions.iter().any(|version| version == view.run.version.as_str()) => {
                        return None;
                    }
                    Some(_) => format!(
                        "supportedVersions lacks {}, in which the server has answered",
                        view.run.version
                    ),
                };
                Some(request.finding(problem, response.line))
            })
        };
    "discover-capabilities", [MODERN Must "server/discover#discoverresult"],
        "The result of server/discover has the server's capabilities.",
        |view| {
            discovered(view, |request, response, result| {
                let given = member(result, "capabilities").map(|value| value.kind());
                (given != Some(Kind::Object))
                    .then(|| request.finding("capabilities are missing or no object", response.line))
            })
        };
    "result-type-present", [MODERN Must "basic#result-responses"],
        "Each result says its resultType.",
        |view| {
            each_result(view, |request, response, result| {
                let given = member(result, "resultType").map(|value| value.kind());
                (given != Some(Kind::String))
                    .then(|| request.finding("resultType is missing or no string", response.line))
            })
        };
    "result-type-known", [MODERN Must "basic#resulttype"],
        "A resultType is one of the specification, or of an extension that both sides have declared.",
        |view| {
            let findings = view.results().filter_map(|(request, response, result)| {
                let given = text(result.raw(), "resultType")?;
                let known = ["complete", "input_required"].contains(&&*given);
                Some((!known).then(|| {
                    request.finding(format!("no revision has the resultType {given:?}"), response.line)
                }))
            });
            Outcome::of(findings, "no result has a resultType")
        };
    "input-required-where-allowed", [MODERN Must "basic/patterns/mrtr#supported-requests"],
        "Nothing but tools/call, prompts/get and resources/read is answered with the resultType input_required.",
        |view| {
            each_result(view, |request, response, result| {
                let allowed = matches!(
                    request.method,
                    Some(Method::CallTool | Method::GetPrompt | Method::ReadResource) | None
                );
                let input = text(result, "resultType").is_some_and(|kind| kind == "input_required");
                (input && !allowed)
                    .then(|| request.finding(format!("{} asks for input", request.name()), response.line))
            })
        };
    "server-info-in-results", [MODERN Should "basic#meta"],
        "Each result names the server in _meta, under io.modelcontextprotocol/serverInfo.",
        |view| {
            each_result(view, |request, response, result| {
                let info = member(result, "_meta").and_then(|meta| member(&meta, key::SERVER_INFO));
                let named = info
                    .is_some_and(|info| text(&info, "name").is_some() && text(&info, "version").is_some());
                (!named).then(|| {
                    request.finding("_meta has no serverInfo with a name and a version", response.line)
                })
            })
        };
    "cache-ttl", [MODERN Must "server/utilities/caching#time-to-live-ttl-field"],
        "A result that may be kept says for how long: ttlMs is an integer, 0 or more.",
        |view| {
            cacheable(view, |request, response, result| {
                let given = member(result, "ttlMs");
                let value = given.as_ref().and_then(|ttl| ttl.as_str().parse::<f64>().ok());
                let good = value.is_some_and(|ttl| ttl >= 0.0 && ttl.fract() == 0.0);
                (!good).then(|| request.finding("ttlMs is missing or no integer of 0 or more", response.line))
            })
        };
    "cache-scope", [MODERN Must "server/utilities/caching#cache-scope-field"],
        "A result that may be kept says by whom: cacheScope is \"public\" or \"private\".",
        |view| {
            cacheable(view, |request, response, result| {
                let given = text(result, "cacheScope");
                let good = given.is_some_and(|scope| scope == "public" || scope == "private");
                (!good).then(|| request.finding("cacheScope is missing or another word", response.line))
            })
        };
    "missing-capabilities-refused", [MODERN Must "basic#meta"],
        "A request without the client's capabilities in _meta is refused with the error -32602.",
        |view| refused(view, Probe::NoCapabilities, "no such request was answered");
    "missing-version-refused", [MODERN Must "basic#meta"],
        "A request without its protocol version in _meta is refused with the error -32602.",
        |view| {
            if view.speaks_legacy() {
                return Outcome::Skipped(
                    "the server also speaks the legacy era, in which requests have no version",
                );
            }
            refused(view, Probe::NoVersion, "no such request was answered")
        };
    "missing-meta-refused", [MODERN Must "basic#meta"],
        "A request without _meta is refused with the error -32602.",
        |view| {
            if view.speaks_legacy() {
                return Outcome::Skipped(
                    "the server also speaks the legacy era, in which requests need no _meta",
                );
            }
            refused(view, Probe::NoMeta, "no such request was answered")
        };
    "client-info-optional", [MODERN Must "basic#meta"],
        "A request whose _meta does not name the client is answered like any other.",
        |view| {
            let findings = view.probed(Probe::NoClientInfo).filter_map(|request| {
                let (response, outcome) = request.response()?;
                Some(outcome.is_err().then(|| request.finding("the request was refused", response.line)))
            });
            Outcome::of(findings, "no such request was answered")
        };
    "unsupported-version-code", [MODERN Must "basic/versioning#protocol-version-negotiation"],
        "A request of a version that the server does not speak is refused with the error -32022.",
        |view| {
            let result = view.probed(Probe::UnsupportedVersion).filter_map(|request| {
                let (response, outcome) = request.response()?;
                Some(outcome.is_ok().then(|| {
                    request.finding("a version that does not exist brought a result", response.line)
                }))
            });
            let nothing = "no such request was answered";
            match Outcome::of(result, nothing) {
                Outcome::Passed => {
                    code_of(view, Probe::UnsupportedVersion, code::UNSUPPORTED_PROTOCOL_VERSION, nothing)
                }
                outcome => outcome,
            }
        };
    "unsupported-version-list", [MODERN Must "basic/versioning#protocol-version-negotiation"],
        "The error -32022 lists the versions that the server speaks in data.supported.",
        |view| {
            unsupported(
                view,
                |_, data| {
                    let supported = member(data?, "supported").and_then(|list| strings(&list));
                    Some(supported.is_some_and(|list| !list.is_empty()))
                },
                "data.supported is no array of versions",
            )
        };
    "unsupported-version-requested", [MODERN Must "schema#unsupportedprotocolversionerror"],
        "The error -32022 repeats the version of the request in data.requested.",
        |view| {
            unsupported(
                view,
                |request, data| {
                    let requested = text(data?, "requested");
                    Some(requested.is_some() && requested == version_of(request))
                },
                "data.requested is not the version of the request",
            )
        };
    "initialize-error-names-versions", [
        MODERN Should "basic/versioning#backward-compatibility-with-initialization-based-versions",
    ],
        "A server without the legacy era names the versions that it speaks in its answer to initialize.",
        |view| {
            let findings =
                view.probed(Probe::Initialize).filter_map(|request| {
                    let (response, outcome) = request.response()?;
                    let error = outcome.as_ref().err()?;
                    let data = error.data.as_ref().map_or("", Raw::as_str);
                    let version = view.run.version.as_str();
                    let named = error.message.contains(version) || data.contains(version);
                    Some((!named).then(|| {
                        request.finding(format!("the error does not name {version}"), response.line)
                    }))
                });
            Outcome::of(findings, "initialize was not refused")
        };
    "removed-method-unknown", [MODERN Should "schema#methodnotfounderror"],
        "Methods that this revision has no longer are answered with the error -32601.",
        |view| {
            let findings = view.probed(Probe::RemovedMethod).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let problem = match outcome {
                    Ok(_) => format!("{} brought a result", request.name()),
                    Err(error) if error.code == code::METHOD_NOT_FOUND => return Some(None),
                    Err(error) => format!("the code is {}, not {}", error.code, code::METHOD_NOT_FOUND),
                };
                Some(Some(request.finding(problem, response.line)))
            });
            Outcome::of(findings, "no such method was asked for")
        };
    "no-cancellation-by-server", [MODERN Must "basic/patterns/cancellation"],
        "A server cancels nothing but a stream that it ends: notifications/cancelled has the id of a \
         subscriptions/listen.",
        |view| {
            let listens = view.our_requests.iter().filter(|request| request.method == Some(&Method::Listen));
            let streams: BTreeSet<&RequestId> = listens.filter_map(|request| request.id).collect();
            let notification = view.notifications.iter().map(|notification| {
                if notification.what.method != Method::Cancelled {
                    return None;
                }
                let params = notification.what.params.as_ref().map(|params| params.raw());
                let id = params.and_then(|params| member(params, "requestId")?.decode::<RequestId>().ok());
                let named = id.is_some_and(|id| streams.contains(&id));
                (!named).then(|| {
                    Finding::new("it is of no stream of changes", None, Some(notification.line.bytes()))
                })
            });
            Outcome::of(notification, "the server sent no notification")
        };
}

/// Looks at the result of `server/discover`, when it is an object.
fn discovered(
    view: &ServerView<'_>,
    look: impl Fn(&OurRequest<'_>, &ReceivedResponse<'_>, &Raw) -> Option<Finding>,
) -> Outcome {
    let results = view.results().filter(|(request, ..)| request.probe == Probe::Discover);
    let findings = results
        .filter(|(.., result)| result.raw().kind() == Kind::Object)
        .map(|(request, response, result)| look(request, response, result.raw()));
    Outcome::of(findings, "server/discover brought no result")
}

/// Looks at every result that is an object.
fn each_result(
    view: &ServerView<'_>,
    look: impl Fn(&OurRequest<'_>, &ReceivedResponse<'_>, &Raw) -> Option<Finding>,
) -> Outcome {
    let findings = view
        .results()
        .filter(|(.., result)| result.raw().kind() == Kind::Object)
        .map(|(request, response, result)| look(request, response, result.raw()));
    Outcome::of(findings, "no result was seen")
}

/// Looks at every result that must say for how long and by whom it may be kept.
fn cacheable(
    view: &ServerView<'_>,
    look: impl Fn(&OurRequest<'_>, &ReceivedResponse<'_>, &Raw) -> Option<Finding>,
) -> Outcome {
    let findings = view
        .results()
        .filter(|(request, _, result)| {
            request.method.is_some_and(Method::is_cacheable)
                && result.raw().kind() == Kind::Object
                && text(result.raw(), "resultType").is_none_or(|kind| kind == "complete")
        })
        .map(|(request, response, result)| look(request, response, result.raw()));
    Outcome::of(findings, "no result was seen that may be kept")
}

/// The answer is an error with the code -32602.
fn refused(view: &ServerView<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    let findings = view.probed(probe).filter_map(|request| {
        let (response, outcome) = request.response()?;
        let problem = match outcome {
            Ok(_) => "the request was accepted".to_owned(),
            Err(error) if error.code == code::INVALID_PARAMS => return Some(None),
            // Over HTTP, a version in the headers alone is one that differs.
            Err(error)
                if error.code == code::HEADER_MISMATCH
                    && request.exchange.is_some()
                    && matches!(probe, Probe::NoVersion | Probe::NoMeta) =>
            {
                return Some(None);
            }
            Err(error) => format!("the code is {}, not {}", error.code, code::INVALID_PARAMS),
        };
        Some(Some(request.finding(problem, response.line)))
    });
    Outcome::of(findings, nothing)
}

/// Looks at the data of each error -32022.
fn unsupported(
    view: &ServerView<'_>,
    good: impl Fn(&OurRequest<'_>, Option<&Raw>) -> Option<bool>,
    problem: &str,
) -> Outcome {
    // An initialize, which names its version elsewhere, may bring this error too.
    let findings =
        view.our_requests.iter().filter(|request| version_of(request).is_some()).filter_map(|request| {
            let (response, outcome) = request.response()?;
            let error =
                outcome.as_ref().err().filter(|error| error.code == code::UNSUPPORTED_PROTOCOL_VERSION)?;
            let good = good(request, error.data.as_ref()).unwrap_or(false);
            Some((!good).then(|| request.finding(problem, response.line)))
        });
    Outcome::of(findings, "no error -32022 was seen")
}

/// The version that a request of ours names.
fn version_of(request: &OurRequest<'_>) -> Option<String> {
    let meta = member(&member(&crate::json::of_line(request.line.bytes())?, "params")?, "_meta")?;
    text(&meta, key::PROTOCOL_VERSION)
}
