//! The chapter of tools: their list, their schemas, and the results of calls where the user allowed calls.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools>

use std::collections::BTreeMap;

use mcpjoin_proto::{Kind, Method, Raw, code};

use crate::features::{Page, answered, are_unique, each, has_texts, is_kind, is_list, pages, tool_of};
use crate::json::{elements, member, members, text, value};
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::schema::{fault, lost_reference, misfit};
use crate::server_view::ServerView;
use crate::trace::Probe;

const TOOL: &[Source] = sources![ALL Must "server/tools#tool"];
const NAMES: &[Source] = sources![SINCE_FOURTH Should "server/tools#tool-names"];
const NOTHING: &str = "no tool was listed";

/// The hints about what a tool does.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

const RESULT: &[Source] = sources![ALL Must "server/tools#tool-result"];
const OUTPUT: &[Source] = sources![SINCE_THIRD Must "server/tools#output-schema"];
const NOT_CALLED: &str = "no tool was called: see --call and --read-only-tools";

rules! {
    pub(crate) RULES for Server in Chapter::Tools;

    "tools-listed", [ALL Must "server/tools#listing-tools"],
        "The result of tools/list has an array of tools.",
        |view| is_list(view, &Method::ListTools, "tools/list brought no result");
    "tool-has-name", TOOL,
        "Each tool is an object with a name, which is a string.",
        |view| has_texts(view, &Method::ListTools, &["name"], NOTHING);
    "tool-names-unique", [FIRST_THREE Should "server/tools#tool", SINCE_FOURTH Should "server/tools#tool-names"],
        "No two tools of a server have the same name.",
        |view| are_unique(view, &Method::ListTools, "name", "tools/list brought no result");
    "tool-name-length", NAMES,
        "The name of a tool has 1 to 128 characters.",
        |view| {
            each(view, &Method::ListTools, NOTHING, |tool| {
                let count = text(tool, "name")?.chars().count();
                (!(1..=128).contains(&count)).then(|| format!("its name has {count} characters"))
            })
        };
    "tool-name-characters", NAMES,
        "The name of a tool is of the letters A to Z and a to z, digits, underscores, hyphens and dots.",
        |view| {
            each(view, &Method::ListTools, NOTHING, |tool| {
                let name = text(tool, "name")?;
                let strange =
                    name.chars().find(|one| !one.is_ascii_alphanumeric() && !"_-.".contains(*one))?;
                Some(format!("{strange:?} stands in its name"))
            })
        };
    "tool-members", TOOL,
        "What describes a tool has its type: title and description are strings, annotations an object.",
        |view| {
            each(view, &Method::ListTools, NOTHING, |tool| {
                let version = &view.run.version;
                let known = [
                    ("description", Kind::String, Revisions::ALL),
                    ("annotations", Kind::Object, Revisions::SINCE_SECOND),
                    ("title", Kind::String, Revisions::SINCE_THIRD),
                    ("execution", Kind::Object, Revisions::LAST_LEGACY),
                ];
                let mut known = known.into_iter().filter(|(.., revisions)| revisions.contains(version));
                known.find_map(|(name, kind, _)| is_kind(tool, name, kind))
            })
        };
    "tool-annotations", [SINCE_SECOND Must "server/tools#tool"],
        "Of a tool's annotations the hints are true or false, and the title is a string.",
        |view| {
            each(view, &Method::ListTools, "no tool was listed that has annotations", |tool| {
                let annotations = member(tool, "annotations").filter(|value| members(value).is_some())?;
                let hint = HINTS.into_iter().find_map(|name| is_kind(&annotations, name, Kind::Bool));
                let found = hint.or_else(|| is_kind(&annotations, "title", Kind::String))?;
                Some(format!("of its annotations, {found}"))
            })
        };
    "tool-task-support", [LAST_LEGACY Must "basic/utilities/tasks#tool-level-negotiation"],
        "What a tool says of tasks in execution.taskSupport is forbidden, optional or required.",
        |view| {
            each(view, &Method::ListTools, NOTHING, |tool| {
                let given = member(&member(tool, "execution")?, "taskSupport")?;
                let word = given.to_string_value();
                let good = word.is_some_and(|word| ["forbidden", "optional", "required"].contains(&&*word));
                (!good).then(|| format!("execution.taskSupport is {given}"))
            })
        };
    "tools-in-order", [MODERN Should "server/tools#capabilities"],
        "The tools are listed in the same order each time, on whatever connection they are asked for.",
        |view| {
            let first = pages(view, &Method::ListTools).find(|page| page.request.probe == Probe::List);
            let first = first.and_then(|page| names_of(page.result));
            let again = view
                .results()
                .filter(|(request, ..)| matches!(request.probe, Probe::ListAgain | Probe::ListElsewhere));
            let findings = again.filter_map(|(request, response, result)| {
                let (first, again) = (first.as_ref()?, names_of(result.raw())?);
                // Other tools are no other order.
                let same = sorted(first) == sorted(&again);
                let differs = *first != again;
                same.then(|| {
                    differs.then(|| request.finding("the order differs from the one before", response.line))
                })
            });
            Outcome::of(findings, "the tools were not listed twice")
        };
    "list-not-by-connection", [MODERN Must "server/tools#capabilities"],
        "What is listed does not depend on the connection on which it is asked for.",
        |view| {
            // Lists may change in time: this one is the same before and after.
            let first = pages(view, &Method::ListTools).find(|page| page.request.probe == Probe::List);
            let first = first.and_then(|page| names_of(page.result)).map(|names| sorted(&names));
            let named = |probe: Probe| {
                let results = view.results().filter(move |(request, ..)| request.probe == probe);
                results.filter_map(|(request, response, result)| {
                    Some((request, response, sorted(&names_of(result.raw())?)))
                })
            };
            let again = named(Probe::ListAgain).next().map(|(.., names)| names);
            let findings = named(Probe::ListElsewhere).filter_map(|(request, response, names)| {
                let same = first.is_some() && first == again;
                let differs = first.as_ref() != Some(&names);
                same.then(|| {
                    differs
                        .then(|| request.finding("other tools than on the connection before", response.line))
                })
            });
            Outcome::of(findings, "the tools were not listed on two connections")
        };
    "list-change-told", [LEGACY Should "server/tools#list-changed-notification"],
        "A server that declares listChanged tells when its list of tools has changed.",
        |view| {
            let declared = view.declared();
            let flag = declared.as_ref().and_then(|declared| member(declared.get("tools")?, "listChanged"));
            let declares = flag.is_some_and(|flag| flag.as_str() == "true");
            let is_notified = view
                .notifications
                .iter()
                .any(|notification| notification.what.method == Method::ToolListChanged);
            let first = pages(view, &Method::ListTools).find(|page| page.request.probe == Probe::List);
            let first = first.and_then(|page| names_of(page.result)).map(|names| sorted(&names));
            let again = view.results().filter(|(request, ..)| request.probe == Probe::ListAgain);
            let findings = again.filter_map(|(request, response, result)| {
                let again = sorted(&names_of(result.raw())?);
                let changed = declares && first.as_ref().is_some_and(|first| *first != again);
                changed.then(|| {
                    (!is_notified)
                        .then(|| request.finding("the list has changed, and nothing was told", response.line))
                })
            });
            Outcome::of(findings, "no list has changed while it was looked at")
        };
    "input-schema-valid", [ALL Must "server/tools#tool"],
        "Each tool has an inputSchema of the type \"object\", valid in its draft of JSON Schema: 2020-12 by default.",
        |view| {
            each(view, &Method::ListTools, NOTHING, |tool| match member(tool, "inputSchema") {
                None => Some("it has no inputSchema".into()),
                Some(schema) => {
                    is_of_objects(&schema, "inputSchema").or_else(|| broken(view, "inputSchema", &schema))
                }
            })
        };
    "output-schema-valid", [THIRD Must "server/tools#output-schema", SINCE_FOURTH Must "basic#schema-validation"],
        "An outputSchema is an object, up to 2025-11-25 of the type \"object\", and valid in its draft of JSON \
         Schema.",
        |view| {
            each(view, &Method::ListTools, "no tool was listed that has an outputSchema", |tool| {
                let schema = member(tool, "outputSchema")?;
                let shape = if Revisions::LEGACY.contains(&view.run.version) {
                    is_of_objects(&schema, "outputSchema")
                } else {
                    (schema.kind() != Kind::Object).then(|| "outputSchema is no object".into())
                };
                shape.or_else(|| broken(view, "outputSchema", &schema))
            })
        };
    "tool-schema-references", [LAST_LEGACY Advice "basic#json-schema-usage", MODERN Advice "basic#ref-resolution"],
        "A $ref in a tool's schema leads to a place in that schema: clients do not fetch others.",
        |view| {
            each(view, &Method::ListTools, NOTHING, |tool| {
                schemas(view, tool).into_iter().find_map(|(name, schema)| {
                    let lost = lost_reference(&value(&schema)?)?;
                    Some(format!("in its {name}, the $ref {lost:?} leads to nothing in it"))
                })
            })
        };
    "call-has-content", RESULT,
        "The result of a call has content, an array; it may be empty.",
        |view| {
            called(view, |page| {
                let good =
                    member(page.result, "content").is_some_and(|content| content.kind() == Kind::Array);
                (!good).then(|| "content is missing or no array".into())
            })
        };
    "call-members", RESULT,
        "In the result of a call isError is true or false, and structuredContent, up to 2025-11-25, an object.",
        |view| {
            called(view, |page| {
                let structured = Revisions::LEGACY_SINCE_THIRD.contains(&view.run.version);
                let structured =
                    || is_kind(page.result, "structuredContent", Kind::Object).filter(|_| structured);
                is_kind(page.result, "isError", Kind::Bool).or_else(structured)
            })
        };
    "structured-content-conforms", OUTPUT,
        "A tool with an outputSchema gives structuredContent that conforms to it, unless the result is an error.",
        |view| {
            with_schema(view, |page, schema| {
                let Some(content) = member(page.result, "structuredContent") else {
                    return Some("structuredContent is missing".into());
                };
                // Up to 2025-11-25 anything but an object has a rule of its own.
                if Revisions::LEGACY.contains(&view.run.version) && content.kind() != Kind::Object {
                    return None;
                }
                misfit(schema, &content).map(|why| format!("structuredContent does not conform: {why}"))
            })
        };
    "structured-content-as-text", [SINCE_THIRD Should "server/tools#structured-content"],
        "A result with structuredContent has the same as JSON in a block of text, for older clients.",
        |view| {
            let structured = answered(view, &Method::CallTool)
                .filter_map(|page| Some((member(page.result, "structuredContent")?, page)));
            let findings = structured.filter_map(|(structured, page)| {
                let structured = value(&structured)?;
                let content = elements(&member(page.result, "content")?)?;
                // JSON that is not read, because it is too large for example, may be the same.
                let may_be_same = |block: &Raw| {
                    let json = text(block, "text").and_then(|text| Raw::parse(text).ok());
                    json.is_some_and(|json| value(&json).is_none_or(|json| json == structured))
                };
                let missing = !content.iter().any(may_be_same);
                Some(missing.then(|| page.request.finding("no block of text has it", page.response.line)))
            });
            Outcome::of(findings, "no call brought structuredContent")
        };
    "bad-arguments-refused", [ALL Must "server/tools#security-considerations"],
        "A call without an argument that its tool must have brings an error, or a result that is one.",
        |view| {
            let findings = view.probed(Probe::BadArguments).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let accepted = outcome.as_ref().is_ok_and(|result| {
                    let done = text(result.raw(), "resultType").is_none_or(|kind| kind == "complete");
                    done && member(result.raw(), "isError").is_none_or(|flag| flag.as_str() != "true")
                });
                Some(accepted.then(|| request.finding("the call was made without it", response.line)))
            });
            Outcome::of(findings, "no tool was called without what it must have: see --read-only-tools")
        };
    "unknown-tool-refused", [ALL Should "server/tools#error-handling"],
        "Calling a tool that does not exist is an error of the protocol, and no result of a tool.",
        |view| {
            let findings =
                view.probed(Probe::UnknownTool).filter_map(|request| {
                    let (response, outcome) = request.response()?;
                    Some(outcome.is_ok().then(|| {
                        request.finding("a tool that does not exist brought a result", response.line)
                    }))
                });
            Outcome::of(findings, NOT_CALLED)
        };
    "unknown-tool-code", [LEGACY Advice "server/tools#error-handling", MODERN Should "schema#invalidparamserror"],
        "The error for a tool that does not exist has the code -32602.",
        |view| {
            crate::base::code_of(
                view,
                Probe::UnknownTool,
                code::INVALID_PARAMS,
                "no unknown tool was refused",
            )
        };
}

/// The names of the tools on a page.
fn names_of(result: &Raw) -> Option<Vec<Option<String>>> {
    let tools = elements(&member(result, "tools")?)?;
    Some(tools.iter().map(|tool| text(tool, "name")).collect())
}

fn sorted(names: &[Option<String>]) -> Vec<Option<String>> {
    let mut names = names.to_vec();
    names.sort();
    names
}

/// The schemas of a tool that a revision knows.
fn schemas(view: &ServerView<'_>, tool: &Raw) -> Vec<(&'static str, Raw)> {
    let known = [("inputSchema", Revisions::ALL), ("outputSchema", Revisions::SINCE_THIRD)];
    let known = known.into_iter().filter(|(_, revisions)| revisions.contains(&view.run.version));
    known.filter_map(|(name, _)| Some((name, member(tool, name)?))).collect()
}

/// What is wrong with a schema that must be one of objects.
fn is_of_objects(schema: &Raw, name: &str) -> Option<String> {
    if schema.kind() != Kind::Object {
        return Some(format!("{name} is no object"));
    }
    let kind = text(schema, "type");
    (kind.as_deref() != Some("object")).then(|| match member(schema, "type") {
        Some(kind) => format!("the type of its {name} is {kind}, not \"object\""),
        None => format!("its {name} has no type"),
    })
}

/// What the schemas of the legacy revisions demand of `properties` and `required`.
fn properties_fault(name: &str, schema: &Raw) -> Option<String> {
    if let Some(properties) = member(schema, "properties") {
        let Some(properties) = members(&properties) else {
            return Some(format!("properties of its {name} is no object"));
        };
        if let Some((property, value)) = properties.iter().find(|(_, value)| value.kind() != Kind::Object) {
            return Some(format!("in its {name}, the property {property:?} is {value}, and no object"));
        }
    }
    let required = member(schema, "required")?;
    let strings =
        elements(&required).is_some_and(|names| names.iter().all(|name| name.kind() == Kind::String));
    (!strings).then(|| format!("required of its {name} is no array of strings"))
}

/// What is wrong with a schema that is an object: by the revision's own schema, and by its draft where the revision says
/// what draft it is of.
fn broken(view: &ServerView<'_>, name: &str, schema: &Raw) -> Option<String> {
    let version = &view.run.version;
    if Revisions::LEGACY.contains(version)
        && let Some(problem) = properties_fault(name, schema)
    {
        return Some(problem);
    }
    let schema = value(schema).filter(|_| Revisions::SINCE_FOURTH.contains(version))?;
    if let Some(named) = schema.get("$schema")
        && !named.is_string()
    {
        return Some(format!("$schema of its {name} is no string"));
    }
    fault(&schema).map(|problem| format!("its {name} is not valid {problem}"))
}

/// Looks at every result of a call.
fn called(view: &ServerView<'_>, look: impl Fn(&Page<'_, '_>) -> Option<String>) -> Outcome {
    let findings = answered(view, &Method::CallTool).map(|page| found(&page, look(&page)));
    Outcome::of(findings, NOT_CALLED)
}

/// Looks at every result of a tool with an `outputSchema` that is no error.
fn with_schema(view: &ServerView<'_>, look: impl Fn(&Page<'_, '_>, &Raw) -> Option<String>) -> Outcome {
    // Looked for once: one call may have many answers.
    let mut schemas = BTreeMap::new();
    let findings = answered(view, &Method::CallTool).filter_map(|page| {
        let failed = member(page.result, "isError").is_some_and(|flag| flag.as_str() == "true");
        let schema = schemas
            .entry(page.request.place)
            .or_insert_with(|| member(&tool_of(view, page.request)?, "outputSchema"));
        let schema = schema.as_ref().filter(|_| !failed)?;
        Some(found(&page, look(&page, schema)))
    });
    Outcome::of(findings, "no tool was called that has an outputSchema")
}

fn found(page: &Page<'_, '_>, problem: Option<String>) -> Option<Finding> {
    problem.map(|problem| page.request.finding(problem, page.response.line))
}
