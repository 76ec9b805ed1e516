//! Elicitation: what a server asks of the user.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>

use std::collections::BTreeSet;

use mcpjoin_proto::{Kind, Method, Raw, code};

use super::input::{Wanted, wanted};
use crate::base::goes_on;
use crate::grammar::is_uri;
use crate::json::{elements, has_path, member, members, text};
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome};
use crate::server_view::ServerView;
use crate::trace::Probe;

const NOT_ASKED: &str = "nothing was asked of a person";

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "elicitation-mode-declared", [SINCE_FOURTH Must "client/elicitation#capabilities"],
        "A server asks a person in a mode that the client has declared; one that names none has form.",
        |view| {
            elicited(view, |wanted, mode| {
                // Without the capability there is a rule of its own.
                let declared = member(wanted.client.as_ref()?, "elicitation")?;
                let empty = members(&declared).is_some_and(|modes| modes.is_empty());
                let known = has_path(&declared, mode) || mode == "form" && empty;
                (!known).then(|| format!("the client has not declared the mode {mode:?}"))
            })
        };
    "elicitation-complete", [
        THIRD Must "client/elicitation#creating-elicitation-requests",
        SINCE_FOURTH Must "client/elicitation#elicitation-requests",
    ],
        "A question to a person has a message; a form has a requestedSchema, a URL its url.",
        |view| {
            elicited(view, |wanted, mode| {
                if text(&wanted.params, "message").is_none() {
                    return Some("it has no message".into());
                }
                if mode == "url" {
                    if !text(&wanted.params, "url").is_some_and(|url| is_uri(&url)) {
                        return Some("its url is missing or none".into());
                    }
                    let id = text(&wanted.params, "elicitationId").is_none();
                    let missing = id && Revisions::LAST_LEGACY.contains(&view.run.version);
                    return missing.then(|| "it has no elicitationId".into());
                }
                let schema = member(&wanted.params, "requestedSchema");
                (!schema.is_some_and(|schema| schema.kind() == Kind::Object))
                    .then(|| "its requestedSchema is missing or no object".into())
            })
        };
    "elicitation-url-secure", [SINCE_FOURTH Should "client/elicitation#safe-url-handling"],
        "A URL to which a person is sent is one of HTTPS, but on this machine.",
        |view| {
            elicited(view, |wanted, mode| {
                let url = text(&wanted.params, "url").filter(|url| mode == "url" && is_uri(url))?;
                let lower = url.to_ascii_lowercase();
                let local = ["http://localhost", "http://127.", "http://[::1]"];
                let good =
                    lower.starts_with("https://") || local.iter().any(|start| lower.starts_with(start));
                (!good).then(|| format!("the url is {url:?}"))
            })
        };
    "elicitation-form-without-links", [SINCE_FOURTH Should "client/elicitation#safe-url-handling"],
        "A form has no links in its message, its titles and its descriptions.",
        |view| {
            elicited(view, |wanted, mode| {
                let mut texts: Vec<String> = text(&wanted.params, "message").into_iter().collect();
                let properties =
                    || members(&member(&member(&wanted.params, "requestedSchema")?, "properties")?);
                for (_, property) in properties().iter().flat_map(|properties| properties.iter()) {
                    texts
                        .extend(["title", "description"].into_iter().filter_map(|name| text(property, name)));
                }
                let link = |text: &String| text.contains("http://") || text.contains("https://");
                let found = texts.into_iter().find(link).filter(|_| mode == "form")?;
                Some(format!("a link stands in {found:?}"))
            })
        };
    "elicitation-error-complete", [LAST_LEGACY Must "client/elicitation#url-elicitation-required-error"],
        "The error -32042 lists what a person has to do first: each a URL with its elicitationId.",
        |view| {
            let errors = view.errors().filter(|(.., error)| error.code == code::URL_ELICITATION_REQUIRED);
            let findings = errors.map(|(request, line, error)| {
                let list = error.data.as_ref().and_then(|data| elements(&member(data, "elicitations")?));
                let good = |one: &Raw| {
                    text(one, "mode").is_some_and(|mode| mode == "url")
                        && text(one, "elicitationId").is_some()
                };
                let good = list.is_some_and(|list| !list.is_empty() && list.iter().all(good));
                let problem = "data.elicitations is no list of URLs with an elicitationId";
                (!good).then(|| {
                    Finding::new(problem, request.map(|request| request.line.bytes()), Some(line.bytes()))
                })
            });
            Outcome::of(findings, "no error -32042 was seen")
        };
    "elicitation-completion-known", [
        LAST_LEGACY Must "client/elicitation#completion-notifications-for-url-mode-elicitation",
    ],
        "What is told to be done has the elicitationId of something that a person was asked to do.",
        |view| {
            let request = wanted(view).into_iter().filter_map(|wanted| text(&wanted.params, "elicitationId"));
            let errors = view
                .errors()
                .filter_map(|(.., error)| elements(&member(error.data.as_ref()?, "elicitations")?));
            let errors = errors.flatten().filter_map(|one| text(&one, "elicitationId"));
            let known: BTreeSet<String> = request.chain(errors).collect();
            let notifications = view
                .notifications
                .iter()
                .filter(|notification| notification.what.method == Method::ElicitationComplete);
            let findings = notifications.map(|notification| {
                let id =
                    notification.what.params.as_ref().and_then(|params| text(params.raw(), "elicitationId"));
                let good = id.as_ref().is_some_and(|id| known.contains(id));
                let problem = || format!("the elicitationId is {id:?}, and nobody was asked for it");
                (!good).then(|| Finding::new(problem(), None, Some(notification.line.bytes())))
            });
            Outcome::of(findings, "nothing was told to be done")
        };
    "elicitation-decline-handled", [MODERN Must "client/elicitation#error-handling"],
        "A server goes on when a person declines.",
        |view| {
            let nothing = "no tool has asked a person who could have declined: see --read-only-tools";
            goes_on(view, Probe::AfterDecline, nothing)
        };
}

/// Looks at every question to a person, with its mode.
fn elicited(view: &ServerView<'_>, look: impl Fn(&Wanted, &str) -> Option<String>) -> Outcome {
    let questions = wanted(view).into_iter().filter(|wanted| wanted.method == Method::Elicit.as_str());
    let findings = questions.map(|wanted| {
        let mode = text(&wanted.params, "mode").unwrap_or_else(|| "form".into());
        look(&wanted, &mode).map(|problem| wanted.finding(problem))
    });
    Outcome::of(findings, NOT_ASKED)
}
