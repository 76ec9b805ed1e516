//! The chapter of tools: their list, their schemas, and the results of calls where the user allowed calls.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools>

use std::collections::BTreeMap;

use mcpjoin_proto::{Kind, Method, Raw, code};
use mcpjoin_schema::{fault, lost_reference, nonconformity, value};

use crate::base::code_of;
use crate::features::{Definitions, answered, are_unique, each, has_texts, is_kind, is_list, pages};
use crate::json::{has_kind, is_true, list, member, members, string, text};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Outcome, Source};
use crate::server_view::{Reply, ServerView};
use crate::trace::Probe;

const TOOL: &[Source] = sources![ALL Must "server/tools#tool"];
const NAMES: &[Source] = sources![SINCE_FOURTH Should "server/tools#tool-names"];
const RESULT: &[Source] = sources![ALL Must "server/tools#tool-result"];
const OUTPUT: &[Source] = sources![SINCE_THIRD Must "server/tools#output-schema"];
const NOTHING: &str = "no tool was listed";
const NO_RESULT: &str = "tools/list returned no result";
const NOT_CALLED: &str = "no tool was called (see --call and --read-only-tools)";

/// The hints about what a tool does.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// How many output schemas a tool may have in one run; with more, its results are not checked.
const MAX_DEFINITIONS: usize = 4;

rules! {
    pub(crate) RULES for Server in Chapter::Tools;

    "tools-listed", [ALL Must "server/tools#listing-tools"],
        "The result of tools/list has an array `tools`.",
        |view| is_list(view, &Method::ListTools, NO_RESULT);
    "tool-has-name", TOOL,
        "Each tool is an object with a string `name`.",
        |view| has_texts(view, &Method::ListTools, &["name"], NOTHING);
    "tool-names-unique", [FIRST_THREE Should "server/tools#tool", SINCE_FOURTH Should "server/tools#tool-names"],
        "No two tools of a server have the same name.",
        |view| are_unique(view, &Method::ListTools, "name", NO_RESULT);
    "tool-name-length", NAMES,
        "The name of a tool has 1 to 128 characters.",
        |view| each_tool(view, |tool| {
            let count = text(tool, "name")?.chars().count();
            (!(1..=128).contains(&count)).then(|| format!("its name has {count} characters"))
        });
    "tool-name-characters", NAMES,
        "The name of a tool contains only the letters A to Z and a to z, digits, underscores, hyphens and \
         dots.",
        |view| each_tool(view, |tool| {
            let name = text(tool, "name")?;
            let strange = name.chars().find(|one| !one.is_ascii_alphanumeric() && !"_-.".contains(*one))?;
            Some(format!("its name contains {strange:?}"))
        });
    "tool-members", TOOL,
        "The members of a tool have their types: title and description are strings, annotations is an \
         object.",
        |view| each_tool(view, |tool| {
            let known = [
                ("description", Kind::String, Revisions::ALL),
                ("annotations", Kind::Object, Revisions::SINCE_SECOND),
                ("title", Kind::String, Revisions::SINCE_THIRD),
                ("execution", Kind::Object, Revisions::LAST_LEGACY),
            ];
            let mut known = known.into_iter().filter(|(.., revisions)| revisions.contains(&view.run.version));
            known.find_map(|(name, kind, _)| is_kind(tool, name, kind))
        });
    "tool-annotations", [SINCE_SECOND Must "server/tools#tool"],
        "In the annotations of a tool, hints are true or false, and title is a string.",
        |view| each(view, &Method::ListTools, "no tool was listed that has annotations", |tool| {
            let annotations = member(tool, "annotations").filter(|value| members(value).is_some())?;
            let hint = HINTS.into_iter().find_map(|name| is_kind(&annotations, name, Kind::Bool));
            let found = hint.or_else(|| is_kind(&annotations, "title", Kind::String))?;
            Some(format!("in its annotations, {found}"))
        });
    "tool-task-support", [LAST_LEGACY Must "basic/utilities/tasks#tool-level-negotiation"],
        "execution.taskSupport of a tool is forbidden, optional or required.",
        |view| each_tool(view, |tool| {
            let given = member(&member(tool, "execution")?, "taskSupport")?;
            let is_good = matches!(string(&given).as_deref(), Some("forbidden" | "optional" | "required"));
            (!is_good).then(|| format!("execution.taskSupport is {given}"))
        });
    "tools-in-order", [MODERN Should "server/tools#capabilities"],
        "The tools are listed in the same order each time, also on different connections.",
        else "the tools were not listed twice",
        |view| {
            let first = first_names(view);
            let again = view
                .results()
                .filter(|(reply, _)| matches!(reply.request.probe, Probe::ListAgain | Probe::ListElsewhere));
            again.filter_map(move |(reply, result)| {
                let (first, again) = (first.as_ref()?, names_of(result)?);
                // Other tools are no other order.
                let is_same = sorted(first) == sorted(&again);
                is_same.then(|| reply.finding_if(*first != again, "the order differs from the previous one"))
            })
        };
    "list-not-by-connection", [MODERN Must "server/tools#capabilities"],
        "The list of tools is the same on each connection.",
        else "the tools were not listed on two connections",
        |view| {
            // Lists may change in time: this one is the same before and after.
            let first = first_names(view).map(|names| sorted(&names));
            let again = sorted_names(view, Probe::ListAgain).next().map(|(_, names)| names);
            sorted_names(view, Probe::ListElsewhere).filter_map(move |(reply, names)| {
                let differs = first.as_ref() != Some(&names);
                (first.is_some() && first == again)
                    .then(|| reply.finding_if(differs, "the tools differ from those on the previous \
                        connection"))
            })
        };
    "list-change-told", [LEGACY Should "server/tools#list-changed-notification"],
        "A server that declares listChanged sends a notification when its tools change.",
        else "no list changed during the check",
        |view| {
            let declares =
                view.declared().is_some_and(|it| it.get("tools").is_some_and(|it| is_true(it, "listChanged")));
            let is_notified = view.notified(&Method::ToolListChanged).next().is_some();
            let first = first_names(view).map(|names| sorted(&names));
            sorted_names(view, Probe::ListAgain).filter_map(move |(reply, again)| {
                let has_changed = declares && first.as_ref().is_some_and(|first| *first != again);
                has_changed
                    .then(|| reply.finding_if(!is_notified, "the list changed without a notification"))
            })
        };
    "input-schema-valid", [ALL Must "server/tools#tool"],
        "Each tool has an inputSchema of the type \"object\" that is valid JSON Schema: 2020-12 by default.",
        |view| each_tool(view, |tool| {
            let Some(schema) = member(tool, "inputSchema") else { return Some("inputSchema is missing".into()) };
            is_of_objects(&schema, "inputSchema").or_else(|| invalid(view, "inputSchema", &schema))
        });
    "output-schema-valid", [THIRD Must "server/tools#output-schema", SINCE_FOURTH Must "basic#schema-validation"],
        "An outputSchema is valid JSON Schema, up to 2025-11-25 of the type \"object\".",
        |view| each(view, &Method::ListTools, "no tool was listed that has an outputSchema", |tool| {
            let schema = member(tool, "outputSchema")?;
            let shape = if view.run.is_legacy() {
                is_of_objects(&schema, "outputSchema")
            } else {
                (schema.kind() != Kind::Object).then(|| "outputSchema is not an object".into())
            };
            shape.or_else(|| invalid(view, "outputSchema", &schema))
        });
    "tool-schema-references", [LAST_LEGACY Advice "basic#json-schema-usage", MODERN Advice "basic#ref-resolution"],
        "A $ref in a tool's schema points into that schema: clients fetch no others.",
        |view| each_tool(view, |tool| {
            let known = [("inputSchema", Revisions::ALL), ("outputSchema", Revisions::SINCE_THIRD)];
            let mut known = known.into_iter().filter(|(_, revisions)| revisions.contains(&view.run.version));
            known.find_map(|(name, _)| {
                let lost = lost_reference(&value(&member(tool, name)?)?)?;
                Some(format!("in its {name}, the $ref {lost:?} points to nothing"))
            })
        });
    "call-has-content", RESULT,
        "The result of a call has an array `content`; it may be empty.",
        else NOT_CALLED,
        |view| answered(view, &Method::CallTool).map(|(reply, result)| {
            reply.finding_if(!has_kind(result, "content", Kind::Array), "content is missing or not an array")
        });
    "call-members", RESULT,
        "In the result of a call isError is true or false, and structuredContent, up to 2025-11-25, is an \
         object.",
        else NOT_CALLED,
        |view| answered(view, &Method::CallTool).map(|(reply, result)| {
            let is_limited = Revisions::LEGACY_SINCE_THIRD.contains(&view.run.version);
            let structured = || is_kind(result, "structuredContent", Kind::Object).filter(|_| is_limited);
            let problem = is_kind(result, "isError", Kind::Bool).or_else(structured)?;
            Some(reply.finding(problem))
        });
    "structured-content-conforms", OUTPUT,
        "A tool with an outputSchema returns structuredContent that conforms to it, unless the result is \
         an error.",
        else "no tool was called that has an outputSchema",
        |view| with_schemas(view).map(|(reply, result, schemas)| {
            let Some(content) = member(result, "structuredContent") else {
                return Some(reply.finding("structuredContent is missing"));
            };
            // Up to 2025-11-25 anything but an object has a rule of its own.
            if view.run.is_legacy() && content.kind() != Kind::Object {
                return None;
            }
            let faults: Option<Vec<_>> = schemas.iter().map(|schema| nonconformity(schema, &content)).collect();
            let why = faults?.into_iter().next()?;
            Some(reply.finding(format_args!("structuredContent does not conform: {why}")))
        });
    "structured-content-as-text", [SINCE_THIRD Should "server/tools#structured-content"],
        "A result with structuredContent also has the same JSON in a text block, for older clients.",
        else "no call returned structuredContent",
        |view| answered(view, &Method::CallTool).filter_map(|(reply, result)| {
            let structured = value(&member(result, "structuredContent")?)?;
            // JSON that is not read, because it is too large for example, may be the same.
            let may_be_same = |block: &Raw| {
                let json = text(block, "text").and_then(|text| Raw::parse(text).ok());
                json.is_some_and(|json| value(&json).is_none_or(|json| json == structured))
            };
            let is_missing = !list(result, "content")?.iter().any(may_be_same);
            Some(reply.finding_if(is_missing, "no text block contains it"))
        });
    "bad-arguments-refused", [ALL Must "server/tools#security-considerations"],
        "A call without a required argument returns an error, or a result with isError.",
        else "no tool was called without a required argument (see --read-only-tools)",
        |view| {
            let definitions = Definitions::of(view);
            let asked = view.answers(Probe::BadArguments);
            asked.filter(move |(reply, _)| !definitions.may_differ(reply.request)).map(|(reply, outcome)| {
            let is_accepted = outcome.as_ref().is_ok_and(|result| {
                let kind = text(result.raw(), "resultType");
                kind.is_none_or(|kind| kind == "complete") && !is_true(result.raw(), "isError")
            });
            reply.finding_if(is_accepted, "the call was executed without it")
            })
        };
    "unknown-tool-refused", [ALL Should "server/tools#error-handling"],
        "A call of an unknown tool returns a protocol error, and not a tool result.",
        else NOT_CALLED,
        |view| view.answers(Probe::UnknownTool).map(|(reply, outcome)| {
            reply.finding_if(outcome.is_ok(), "an unknown tool returned a result")
        });
    "unknown-tool-code", [LEGACY Advice "server/tools#error-handling", MODERN Should "schema#invalidparamserror"],
        "The error for an unknown tool has the code -32602.",
        |view| code_of(view, Probe::UnknownTool, code::INVALID_PARAMS, "no unknown tool was rejected");
}

/// Checks every tool: `check` returns the problem of one.
fn each_tool(view: &ServerView<'_>, check: impl Fn(&Raw) -> Option<String>) -> Outcome {
    each(view, &Method::ListTools, NOTHING, check)
}

/// The names of the tools on a page.
fn names_of(result: &Raw) -> Option<Vec<Option<String>>> {
    Some(list(result, "tools")?.iter().map(|tool| text(tool, "name")).collect())
}

/// The names of the tools on the first page.
fn first_names(view: &ServerView<'_>) -> Option<Vec<Option<String>>> {
    let first = pages(view, &Method::ListTools).find(|(reply, _)| reply.request.probe == Probe::List);
    first.and_then(|(_, page)| names_of(page))
}

/// The results of a probe, with the sorted names of the tools.
fn sorted_names<'s, 'a>(
    view: &'s ServerView<'a>,
    probe: Probe,
) -> impl Iterator<Item = (Reply<'s, 'a>, Vec<Option<String>>)> {
    view.results_of(probe).filter_map(|(reply, result)| Some((reply, sorted(&names_of(result)?))))
}

fn sorted(names: &[Option<String>]) -> Vec<Option<String>> {
    let mut names = names.to_vec();
    names.sort();
    names
}

/// The problem of a schema that must have the type `object`.
fn is_of_objects(schema: &Raw, name: &str) -> Option<String> {
    if schema.kind() != Kind::Object {
        return Some(format!("{name} is not an object"));
    }
    match member(schema, "type") {
        None => Some(format!("{name} has no type")),
        Some(kind) if string(&kind).as_deref() == Some("object") => None,
        Some(kind) => Some(format!("the type of {name} is {kind}, not \"object\"")),
    }
}

/// The problem of `properties` and `required`, as the schemas of the legacy revisions define them.
fn properties_fault(name: &str, schema: &Raw) -> Option<String> {
    if let Some(properties) = member(schema, "properties") {
        let Some(properties) = members(&properties) else {
            return Some(format!("`properties` of {name} is not an object"));
        };
        if let Some((property, value)) = properties.iter().find(|(_, value)| value.kind() != Kind::Object) {
            return Some(format!("in its {name}, the property {property:?} is {value}, not an object"));
        }
    }
    member(schema, "required")?;
    let names = list(schema, "required");
    let is_good = names.is_some_and(|names| names.iter().all(|name| name.kind() == Kind::String));
    (!is_good).then(|| format!("`required` of {name} is not an array of strings"))
}

/// The problem of a schema that is an object: by the revision's own schema, and by its draft if the revision defines one.
fn invalid(view: &ServerView<'_>, name: &str, schema: &Raw) -> Option<String> {
    if let Some(problem) = properties_fault(name, schema).filter(|_| view.run.is_legacy()) {
        return Some(problem);
    }
    let schema = value(schema).filter(|_| Revisions::SINCE_FOURTH.contains(&view.run.version))?;
    if schema.get("$schema").is_some_and(|named| !named.is_string()) {
        return Some(format!("$schema of {name} is not a string"));
    }
    fault(&schema).map(|problem| format!("{name} is not valid {problem}"))
}

/// The results of tools that are no errors, with the `outputSchema` of each definition of the tool: every definition has one.
fn with_schemas<'s, 'a>(
    view: &'s ServerView<'a>,
) -> impl Iterator<Item = (Reply<'s, 'a>, &'a Raw, Vec<Raw>)> {
    let definitions = Definitions::of(view);
    // Looked up once for each call, which may have many responses.
    let mut schemas = BTreeMap::new();
    answered(view, &Method::CallTool).filter_map(move |(reply, result)| {
        let schemas = schemas.entry(reply.request.place).or_insert_with(|| {
            let schemas = definitions.of_call(reply.request)?.iter().map(|tool| member(tool, "outputSchema"));
            let mut schemas: Vec<Raw> = schemas.collect::<Option<_>>()?;
            schemas.dedup();
            (schemas.len() <= MAX_DEFINITIONS).then_some(schemas)
        });
        let schemas = schemas.clone().filter(|_| !is_true(result, "isError"))?;
        Some((reply, result, schemas))
    })
}
