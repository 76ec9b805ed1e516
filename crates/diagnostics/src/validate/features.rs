//! Requests about the features of a server, in both eras and over every transport: lists to their ends, things that do
//! not exist, completion, levels of log messages; and, where the user has allowed it, calls.
//!
//! Otherwise **nothing that a server lists is called, read or got**: only things that do not exist are asked for.

mod calls;

use mcpjoin_proto::types::Members;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Raw, Version};
use mcpjoin_rules::{Probe, Revisions, template_variables};

pub(super) use self::calls::{Marked, marked};
use super::probes;
use crate::engine::Session;
use crate::engine::message::{self, Manner, Question};

/// The lists, with the capability that each needs.
const LISTS: [(&str, Method, &str); 3] = [
    ("tools", Method::ListTools, "tools"),
    ("prompts", Method::ListPrompts, "prompts"),
    ("resources", Method::ListResources, "resources"),
];
/// Pages of a list that are read.
const MAX_PAGES: usize = 20;
/// Tools, resources and prompts that are called, read or got, of each kind.
const MAX_CALLS: usize = 20;

/// The calls that the user has allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Consent {
    /// These tools, with these arguments.
    pub(super) calls: Vec<(String, Option<Raw>)>,
    /// Tools that say that they only read.
    pub(super) read_only: bool,
}

/// Looks at the declared features of a server. Returns its tools. `declared`: `None` when nothing is known about them.
pub(super) async fn look(
    session: &mut impl Session,
    version: &Version,
    declared: Option<&Members<Raw>>,
    consent: &Consent,
) -> Vec<Raw> {
    let Some(declared) = declared else { return Vec::new() };
    let has = |name: &str| declared.get(name).filter(|capability| capability.kind() == Kind::Object);
    let mut found = Found::default();
    for (capability, method, list) in LISTS {
        if declared.contains_key(capability) {
            *found.of(list) = pages(session, Probe::List, method, list).await;
        } else {
            session.question(Question::new(Probe::UndeclaredList, method)).await;
        }
    }
    if declared.contains_key("resources") {
        found.templates =
            pages(session, Probe::Templates, Method::ListResourceTemplates, "resourceTemplates").await;
        session
            .question(Question::new(Probe::NoResource, Method::ReadResource).text("uri", probes::NO_RESOURCE))
            .await;
        session
            .question(Question::new(Probe::BadUri, Method::ReadResource).text("uri", probes::NO_URI))
            .await;
    }
    if declared.contains_key("prompts") {
        session
            .question(Question::new(Probe::NoPrompt, Method::GetPrompt).text("name", probes::NO_PROMPT))
            .await;
    }
    if let Some(tasks) = has("tasks").filter(|_| Revisions::LAST_LEGACY.contains(version)) {
        session.question(Question::new(Probe::NoTask, Method::GetTask).text("taskId", probes::NO_TASK)).await;
        if tasks.member("list").is_some() {
            session
                .question(
                    Question::new(Probe::BadTaskCursor, Method::ListTasks).text("cursor", probes::NO_CURSOR),
                )
                .await;
        }
    }
    if Revisions::SINCE_SECOND.contains(version) {
        completions(session, declared.contains_key("completions"), &found).await;
    }
    if declared.contains_key("logging") {
        let bad = match session.state().manner {
            Manner::Legacy => {
                session
                    .question(Question::new(Probe::SetLevel, Method::SetLevel).text("level", "error"))
                    .await;
                Question::new(Probe::BadLevel, Method::SetLevel).text("level", probes::NO_LEVEL)
            }
            Manner::Modern(_) => Question::new(Probe::BadLevel, Method::Discover)
                .meta(key::LOG_LEVEL, Raw::string(probes::NO_LEVEL)),
        };
        session.question(bad).await;
    }
    if session.has_cancel() {
        let completed = session.last_id();
        notify(session, Probe::CompletedCancel, Some(&completed)).await;
        session.ask_control(Probe::AfterCompletedCancel).await;
        notify(session, Probe::MalformedCancel, None).await;
        session.ask_control(Probe::AfterMalformedCancel).await;
    }
    calls::named(session, version, consent, &found, declared.contains_key("tools")).await;
    if consent.read_only {
        if declared.contains_key("tools") {
            let asking = calls::reading(session, &found).await;
            if !session.state().manner.is_legacy() {
                calls::asking(session, &asking).await;
            }
        }
        reads(session, &found).await;
        if Revisions::LAST_LEGACY.contains(version) {
            calls::as_tasks(session, &found, has("tasks")).await;
        }
    }
    if declared.contains_key("tools") {
        session.list_elsewhere().await;
        session.question(Question::new(Probe::ListAgain, Method::ListTools)).await;
    }
    found.tools
}

/// Cancels a request, or none.
async fn notify(session: &mut impl Session, probe: Probe, id: Option<&str>) {
    if !session.is_over() {
        session.notify(probe, &message::cancel(id)).await;
    }
}

/// The listed items.
#[derive(Default)]
struct Found {
    tools: Vec<Raw>,
    prompts: Vec<Raw>,
    resources: Vec<Raw>,
    templates: Vec<Raw>,
}

impl Found {
    fn of(&mut self, list: &str) -> &mut Vec<Raw> {
        match list {
            "tools" => &mut self.tools,
            "prompts" => &mut self.prompts,
            _ => &mut self.resources,
        }
    }
}

/// Reads a list to its end, its second page twice, and a page by a cursor that was never given.
async fn pages(session: &mut impl Session, probe: Probe, method: Method, list: &str) -> Vec<Raw> {
    let mut items = Vec::new();
    let mut question = Question::new(probe, method.clone());
    let mut used: Vec<String> = Vec::new();
    for page in 0..MAX_PAGES {
        let Some(Ok(result)) = session.question(question).await else {
            // A list that does not exist has no other pages.
            if page == 0 {
                return items;
            }
            break;
        };
        let listed: Option<Vec<Raw>> = result.raw().member(list).and_then(|list| list.decode().ok());
        items.extend(listed.unwrap_or_default());
        let next = result.raw().member("nextCursor");
        let Some(next) = next.and_then(|next| next.to_string_value().map(std::borrow::Cow::into_owned))
        else {
            break;
        };
        if used.contains(&next) {
            break;
        }
        question = Question::new(Probe::NextPage, method.clone()).text("cursor", &next);
        used.push(next);
    }
    if let Some(first) = used.first() {
        session.question(Question::new(Probe::SamePage, method.clone()).text("cursor", first)).await;
    }
    session.question(Question::new(Probe::BadCursor, method).text("cursor", probes::NO_CURSOR)).await;
    items
}

async fn completions(session: &mut impl Session, declared: bool, found: &Found) {
    let of = |reference: Raw, argument: Option<&str>, probe: Probe| {
        let question = Question::new(probe, Method::Complete).with("ref", reference);
        match argument.and_then(|name| object(&[("name", name), ("value", "")])) {
            Some(argument) => question.with("argument", argument),
            None => question,
        }
    };
    let Some(unknown) = object(&[("type", "ref/prompt"), ("name", probes::NO_PROMPT)]) else { return };
    if !declared {
        session.question(of(unknown, Some("name"), Probe::UndeclaredCompletion)).await;
        return;
    }
    session.question(of(unknown, Some("name"), Probe::UnknownCompletion)).await;
    let prompts = found.prompts.iter().filter_map(|prompt| {
        let argument = elements(prompt, "arguments").first().and_then(|argument| text(argument, "name"))?;
        Some((object(&[("type", "ref/prompt"), ("name", &text(prompt, "name")?)])?, argument))
    });
    let templates = found.templates.iter().filter_map(|template| {
        let uri = text(template, "uriTemplate")?;
        let argument = template_variables(&uri).into_iter().next()?;
        Some((object(&[("type", "ref/resource"), ("uri", &uri)])?, argument))
    });
    if let Some((reference, argument)) = prompts.chain(templates).next() {
        session.question(of(reference.clone(), Some(&argument), Probe::Complete)).await;
        session.question(of(reference, None, Probe::NoArgument)).await;
    }
}

/// Reads the listed resources, and gets the prompts that need no argument.
async fn reads(session: &mut impl Session, found: &Found) {
    for uri in found.resources.iter().filter_map(|resource| text(resource, "uri")).take(MAX_CALLS) {
        session.question(Question::new(Probe::Read, Method::ReadResource).text("uri", &uri)).await;
    }
    let needs = |prompt: &&Raw| {
        let required =
            |argument: &Raw| argument.member("required").is_some_and(|flag| flag.as_str() == "true");
        elements(prompt, "arguments").iter().any(required)
    };
    let (needing, plain): (Vec<&Raw>, Vec<&Raw>) = found.prompts.iter().partition(needs);
    for name in plain.iter().filter_map(|prompt| text(prompt, "name")).take(MAX_CALLS) {
        session.question(Question::new(Probe::GetPrompt, Method::GetPrompt).text("name", &name)).await;
    }
    if let Some(name) = needing.iter().find_map(|prompt| text(prompt, "name")) {
        session.question(Question::new(Probe::MissingArgument, Method::GetPrompt).text("name", &name)).await;
    }
}

/// An object of strings.
fn object(members: &[(&str, &str)]) -> Option<Raw> {
    let members = members.iter().map(|(name, value)| format!("{}:{}", Raw::string(name), Raw::string(value)));
    let members: Vec<String> = members.collect();
    Raw::parse(format!("{{{}}}", members.join(","))).ok()
}

/// The items of an array in an object.
fn elements(object: &Raw, name: &str) -> Vec<Raw> {
    object.member(name).and_then(|list| list.decode().ok()).unwrap_or_default()
}

fn text(object: &Raw, name: &str) -> Option<String> {
    object.member(name)?.to_string_value().map(std::borrow::Cow::into_owned)
}

/// The capabilities that announce changes, and the member that subscribes to them.
const CHANGES: [(&str, &str); 3] =
    [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];

/// The request that subscribes to one kind of changes that the server declares; `None` when it declares none.
pub(super) fn listen(manner: &Manner, id: &str, declared: &Members<Raw>) -> Option<String> {
    let has = |name: &str| {
        let capability = declared.get(name).filter(|capability| capability.kind() == Kind::Object);
        let flag = capability.and_then(|capability| capability.member("listChanged"));
        flag.is_some_and(|flag| flag.as_str() == "true")
    };
    let (_, change) = CHANGES.iter().find(|(name, _)| has(name))?;
    let wanted = Raw::parse(format!("{{\"{change}\":true}}")).ok()?;
    Some(Question::new(Probe::Listen, Method::Listen).with("notifications", wanted).line(manner, id))
}
