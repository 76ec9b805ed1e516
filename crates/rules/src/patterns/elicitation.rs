//! Elicitation: what a server asks of the user.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>

use std::collections::BTreeSet;

use mcpjoin_proto::{Kind, Method, Raw, code};

use super::input::{Wanted, wanted, wanted_by};
use crate::base::goes_on;
use crate::grammar::is_uri;
use crate::json::{has_kind, has_path, list, member, members, object, text, text_param};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Outcome};
use crate::server_view::ServerView;
use crate::trace::Probe;

const SAFE_URLS: &str = "client/elicitation#safe-url-handling";

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "elicitation-mode-declared", [SINCE_FOURTH Must "client/elicitation#capabilities"],
        "A server asks a person in a mode that the client has declared; one that names none has form.",
        |view| elicited(view, |wanted, mode| {
            // Without the capability there is a rule of its own.
            let declared = member(wanted.client.as_ref()?, "elicitation")?;
            let is_empty = members(&declared).is_some_and(|modes| modes.is_empty());
            let is_known = has_path(&declared, mode) || mode == "form" && is_empty;
            (!is_known).then(|| format!("the client has not declared the mode {mode:?}"))
        });
    "elicitation-complete", [
        THIRD Must "client/elicitation#creating-elicitation-requests",
        SINCE_FOURTH Must "client/elicitation#elicitation-requests",
    ],
        "A question to a person has a message; a form has a requestedSchema, a URL its url.",
        |view| elicited(view, |wanted, mode| {
            if text(&wanted.params, "message").is_none() {
                return Some("it has no message".into());
            }
            if mode != "url" {
                return (!has_kind(&wanted.params, "requestedSchema", Kind::Object))
                    .then(|| "its requestedSchema is missing or no object".into());
            }
            if !text(&wanted.params, "url").is_some_and(|url| is_uri(&url)) {
                return Some("its url is missing or none".into());
            }
            let needs_id = Revisions::LAST_LEGACY.contains(&view.run.version);
            (needs_id && text(&wanted.params, "elicitationId").is_none())
                .then(|| "it has no elicitationId".into())
        });
    "elicitation-url-secure", [SINCE_FOURTH Should SAFE_URLS],
        "A URL to which a person is sent is one of HTTPS, but on this machine.",
        |view| elicited(view, |wanted, mode| {
            let url = text(&wanted.params, "url").filter(|url| mode == "url" && is_uri(url))?;
            let lower = url.to_ascii_lowercase();
            let secure = ["https://", "http://localhost", "http://127.", "http://[::1]"];
            let is_good = secure.iter().any(|start| lower.starts_with(start));
            (!is_good).then(|| format!("the url is {url:?}"))
        });
    "elicitation-form-without-links", [SINCE_FOURTH Should SAFE_URLS],
        "A form has no links in its message, its titles and its descriptions.",
        |view| elicited(view, |wanted, mode| {
            let schema = member(&wanted.params, "requestedSchema");
            let properties = schema.and_then(|schema| object(&schema, "properties")).into_iter().flatten();
            let texts = properties
                .flat_map(|(_, property)| ["title", "description"].map(|name| text(&property, name)));
            let is_link = |text: &String| text.contains("http://") || text.contains("https://");
            let mut texts = std::iter::once(text(&wanted.params, "message")).chain(texts).flatten();
            let found = texts.find(is_link).filter(|_| mode == "form")?;
            Some(format!("a link stands in {found:?}"))
        });
    "elicitation-error-complete", [LAST_LEGACY Must "client/elicitation#url-elicitation-required-error"],
        "The error -32042 lists what a person has to do first: each a URL with its elicitationId.",
        else "no error -32042 was seen",
        |view| view.errors_with(code::URL_ELICITATION_REQUIRED).map(|it| {
            let urls = it.error.data.as_ref().and_then(|data| list(data, "elicitations"));
            let is_good = |one: &Raw| {
                text(one, "mode").is_some_and(|mode| mode == "url") && text(one, "elicitationId").is_some()
            };
            let is_good = urls.is_some_and(|urls| !urls.is_empty() && urls.iter().all(is_good));
            it.finding_if(!is_good, "data.elicitations is no list of URLs with an elicitationId")
        });
    "elicitation-completion-known", [
        LAST_LEGACY Must "client/elicitation#completion-notifications-for-url-mode-elicitation",
    ],
        "What is told to be done has the elicitationId of something that a person was asked to do.",
        else "nothing was told to be done",
        |view| {
            let requests = wanted(view).into_iter().filter_map(|wanted| text(&wanted.params, "elicitationId"));
            let errors = view.errors().filter_map(|it| list(it.error.data.as_ref()?, "elicitations"));
            let errors = errors.flatten().filter_map(|one| text(&one, "elicitationId"));
            let known: BTreeSet<String> = requests.chain(errors).collect();
            view.notified(&Method::ElicitationComplete).map(move |notification| {
                let id = text_param(&notification.what.params, "elicitationId");
                let is_known = id.as_ref().is_some_and(|id| known.contains(id));
                notification.finding_if(
                    !is_known,
                    format_args!("the elicitationId is {id:?}, and nobody was asked for it"),
                )
            })
        };
    "elicitation-decline-handled", [MODERN Must "client/elicitation#error-handling"],
        "A server goes on when a person declines.",
        |view| {
            let nothing = "no tool has asked a person who could have declined: see --read-only-tools";
            goes_on(view, Probe::AfterDecline, nothing)
        };
}

/// Checks every question to the user: `check` takes it with its mode, and returns its problem.
fn elicited(view: &ServerView<'_>, check: impl Fn(&Wanted, &str) -> Option<String>) -> Outcome {
    let findings = wanted_by(view, &Method::Elicit).map(|wanted| {
        let mode = text(&wanted.params, "mode").unwrap_or_else(|| "form".into());
        check(&wanted, &mode).map(|problem| wanted.finding(problem))
    });
    Outcome::of(findings, "nothing was asked of a person")
}
