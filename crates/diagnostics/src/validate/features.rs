//! What is asked about features, in both eras and over every transport: lists to their ends, things that do not exist,
//! completion, levels of log messages; and, where it was allowed, calls.
//!
//! Without that, **nothing that a server lists is called, read or got**: what is asked for then does not exist.

mod calls;
mod rounds;
mod tasks;

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{ErrorObject, Kind, Method, Payload, Raw, Version};
use mcpjoin_rules::{CallNote, Probe, Revisions, template_variables};

pub(super) use self::calls::{Marked, marked};
use super::probes::{self, Manner};
use super::runs::{control, member};

/// The lists, with the capability that each needs.
const LISTS: [(&str, Method, &str); 3] = [
    ("tools", Method::ListTools, "tools"),
    ("prompts", Method::ListPrompts, "prompts"),
    ("resources", Method::ListResources, "resources"),
];
/// So many pages of a list are looked at.
const MOST_PAGES: usize = 20;
/// Of what only reads, so many are called, read or got of each kind.
const MOST_CALLS: usize = 20;

/// What may be called.
#[derive(Clone, Debug, Default)]
pub(super) struct Consent {
    /// These tools, with these arguments.
    pub(super) calls: Vec<(String, Option<Raw>)>,
    /// What says that it only reads.
    pub(super) read_only: bool,
}

/// A request, but for its id.
pub(super) struct Question<'q> {
    pub(super) probe: Probe,
    pub(super) method: Method,
    pub(super) members: Vec<(&'q str, Raw)>,
    /// More in `_meta`.
    pub(super) meta: Vec<(&'q str, Raw)>,
    /// More headers: HTTP.
    pub(super) headers: Vec<(String, String)>,
    /// What it declares of us, in the modern era.
    capabilities: &'static str,
}

impl<'q> Question<'q> {
    pub(super) fn new(probe: Probe, method: Method) -> Self {
        Self {
            probe,
            method,
            members: Vec::new(),
            meta: Vec::new(),
            headers: Vec::new(),
            capabilities: probes::NOTHING,
        }
    }

    fn with(mut self, name: &'q str, value: Raw) -> Self {
        self.members.push((name, value));
        self
    }

    fn text(self, name: &'q str, value: &str) -> Self {
        self.with(name, Raw::string(value))
    }

    fn meta(mut self, name: &'q str, value: Raw) -> Self {
        self.meta.push((name, value));
        self
    }

    /// The line that it is.
    pub(super) fn line(&self, manner: &Manner, id: &str) -> String {
        if self.members.is_empty() && self.meta.is_empty() {
            return probes::request(manner, id, self.method.as_str());
        }
        let method = self.method.as_str();
        probes::request_with(manner, id, method, &self.members, &self.meta, self.capabilities)
    }
}

/// What came of it.
pub(super) type Reply = Option<Result<Payload, ErrorObject>>;

/// A run in which something can be asked.
pub(super) trait Ask {
    /// Asks, and waits for the answer; `None` when there is none.
    async fn ask(&mut self, question: Question<'_>) -> Reply;

    /// Sends a notification.
    async fn tell(&mut self, probe: Probe, line: String);

    /// Calls a tool, cancels that, and looks at what comes of it.
    async fn cancelled(&mut self, question: Question<'_>);

    /// Lists the tools on another connection, where there are several.
    async fn elsewhere(&mut self);

    /// Tells whoever has asked for a call what is the matter with it.
    fn note(&mut self, note: CallNote);

    /// The last id that was used, as JSON.
    fn last_id(&self) -> String;

    /// Whether a request is cancelled by a notification.
    fn cancels(&self) -> bool;
}

/// Looks at what a server declares, and gives its tools. `declared`: nothing is known of it where there is none.
pub(super) async fn look(
    run: &mut impl Ask,
    manner: &Manner,
    version: &Version,
    declared: Option<&Members<Raw>>,
    consent: &Consent,
) -> Vec<Raw> {
    let Some(declared) = declared else { return Vec::new() };
    let has = |name: &str| declared.get(name).filter(|capability| capability.kind() == Kind::Object);
    let mut found = Found::default();
    for (capability, method, list) in LISTS {
        if declared.contains_key(capability) {
            *found.of(list) = pages(run, Probe::List, method, list).await;
        } else {
            run.ask(Question::new(Probe::UndeclaredList, method)).await;
        }
    }
    if declared.contains_key("resources") {
        found.templates =
            pages(run, Probe::Templates, Method::ListResourceTemplates, "resourceTemplates").await;
        run.ask(Question::new(Probe::NoResource, Method::ReadResource).text("uri", probes::NO_RESOURCE))
            .await;
        run.ask(Question::new(Probe::BadUri, Method::ReadResource).text("uri", probes::NO_URI)).await;
    }
    if declared.contains_key("prompts") {
        run.ask(Question::new(Probe::NoPrompt, Method::GetPrompt).text("name", probes::NO_PROMPT)).await;
    }
    if let Some(tasks) = has("tasks").filter(|_| Revisions::LAST_LEGACY.contains(version)) {
        run.ask(Question::new(Probe::NoTask, Method::GetTask).text("taskId", probes::NO_TASK)).await;
        if tasks.member("list").is_some() {
            run.ask(Question::new(Probe::BadTaskCursor, Method::ListTasks).text("cursor", probes::NO_CURSOR))
                .await;
        }
    }
    if Revisions::SINCE_SECOND.contains(version) {
        completions(run, declared.contains_key("completions"), &found).await;
    }
    if declared.contains_key("logging") {
        let bad = match manner {
            Manner::Legacy => {
                run.ask(Question::new(Probe::SetLevel, Method::SetLevel).text("level", "error")).await;
                Question::new(Probe::BadLevel, Method::SetLevel).text("level", probes::NO_LEVEL)
            }
            Manner::Modern(_) => Question::new(Probe::BadLevel, Method::Discover)
                .meta(mcpjoin_proto::types::meta::key::LOG_LEVEL, Raw::string(probes::NO_LEVEL)),
        };
        run.ask(bad).await;
    }
    if run.cancels() {
        let answered = run.last_id();
        run.tell(Probe::CompletedCancel, probes::cancel(Some(&answered))).await;
        run.ask(Question::new(Probe::AfterCompletedCancel, Method::parse(control(manner)))).await;
        run.tell(Probe::MalformedCancel, probes::cancel(None)).await;
        run.ask(Question::new(Probe::AfterMalformedCancel, Method::parse(control(manner)))).await;
    }
    calls::named(run, version, consent, &found, declared.contains_key("tools")).await;
    if consent.read_only {
        if declared.contains_key("tools") {
            let asking = calls::reading(run, &found).await;
            if let Manner::Modern(_) = manner {
                rounds::look(run, manner, &asking).await;
            }
        }
        reads(run, &found).await;
        if Revisions::LAST_LEGACY.contains(version) {
            tasks::look(run, &found, has("tasks")).await;
        }
    }
    if declared.contains_key("tools") {
        run.elsewhere().await;
        run.ask(Question::new(Probe::ListAgain, Method::ListTools)).await;
    }
    found.tools
}

/// What was listed.
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

/// A list to its end, the second page twice, and a page by a cursor that was never given.
async fn pages(run: &mut impl Ask, probe: Probe, method: Method, list: &str) -> Vec<Raw> {
    let mut items = Vec::new();
    let mut question = Question::new(probe, method.clone());
    let mut used: Vec<String> = Vec::new();
    for page in 0..MOST_PAGES {
        let Some(Ok(result)) = run.ask(question).await else {
            // A list that is not there has no other pages.
            if page == 0 {
                return items;
            }
            break;
        };
        let listed: Option<Vec<Raw>> = member(result.raw(), list).and_then(|list| list.decode().ok());
        items.extend(listed.unwrap_or_default());
        let next = member(result.raw(), "nextCursor");
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
        run.ask(Question::new(Probe::SamePage, method.clone()).text("cursor", first)).await;
    }
    run.ask(Question::new(Probe::BadCursor, method).text("cursor", probes::NO_CURSOR)).await;
    items
}

async fn completions(run: &mut impl Ask, declared: bool, found: &Found) {
    let of = |reference: Raw, argument: Option<&str>, probe: Probe| {
        let question = Question::new(probe, Method::Complete).with("ref", reference);
        match argument.and_then(|name| object(&[("name", name), ("value", "")])) {
            Some(argument) => question.with("argument", argument),
            None => question,
        }
    };
    let Some(unknown) = object(&[("type", "ref/prompt"), ("name", probes::NO_PROMPT)]) else { return };
    if !declared {
        run.ask(of(unknown, Some("name"), Probe::UndeclaredCompletion)).await;
        return;
    }
    run.ask(of(unknown, Some("name"), Probe::UnknownCompletion)).await;
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
        run.ask(of(reference.clone(), Some(&argument), Probe::Complete)).await;
        run.ask(of(reference, None, Probe::NoArgument)).await;
    }
}

/// Reads what is listed, and gets what needs no argument.
async fn reads(run: &mut impl Ask, found: &Found) {
    for uri in found.resources.iter().filter_map(|resource| text(resource, "uri")).take(MOST_CALLS) {
        run.ask(Question::new(Probe::Read, Method::ReadResource).text("uri", &uri)).await;
    }
    let needs = |prompt: &&Raw| {
        let required =
            |argument: &Raw| member(argument, "required").is_some_and(|flag| flag.as_str() == "true");
        elements(prompt, "arguments").iter().any(required)
    };
    let (needing, plain): (Vec<&Raw>, Vec<&Raw>) = found.prompts.iter().partition(needs);
    for name in plain.iter().filter_map(|prompt| text(prompt, "name")).take(MOST_CALLS) {
        run.ask(Question::new(Probe::GetPrompt, Method::GetPrompt).text("name", &name)).await;
    }
    if let Some(name) = needing.iter().find_map(|prompt| text(prompt, "name")) {
        run.ask(Question::new(Probe::MissingArgument, Method::GetPrompt).text("name", &name)).await;
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
    member(object, name).and_then(|list| list.decode().ok()).unwrap_or_default()
}

fn text(object: &Raw, name: &str) -> Option<String> {
    member(object, name)?.to_string_value().map(std::borrow::Cow::into_owned)
}

/// The capabilities that tell of changes, and how the changes are asked for.
const CHANGES: [(&str, &str); 3] =
    [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];

/// Asks for one kind of changes that the server declares; `None` when it declares none.
pub(super) fn listen(manner: &Manner, id: &str, declared: &Members<Raw>) -> Option<String> {
    let has = |name: &str| {
        let capability = declared.get(name).filter(|capability| capability.kind() == Kind::Object);
        let flag = capability.and_then(|capability| capability.member("listChanged"));
        flag.is_some_and(|flag| flag.as_str() == "true")
    };
    let (_, change) = CHANGES.iter().find(|(name, _)| has(name))?;
    let wanted = Raw::parse(format!("{{\"{change}\":true}}")).ok()?;
    Some(probes::request_with(
        manner,
        id,
        Method::Listen.as_str(),
        &[("notifications", wanted)],
        &[],
        probes::NOTHING,
    ))
}
