//! The chapter of content: the blocks in results of tools and prompts, and what may stand beside any item: annotations,
//! icons, `_meta`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result>

use mcpjoin_proto::{Kind, Method, Raw};

use crate::features::{Part, blocks, contents, is_kind, items, label, listed};
use crate::grammar::{is_base64, is_media_type, is_trace_parent, is_uri, may_be_time, meta_key_fault};
use crate::json::Json;
use crate::resources::contents_fault;
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, elements, member, members, text};

const BLOCKS: &[Source] = &[Source::new(Revisions::ALL, Must, "server/tools#tool-result")];
const MEDIA: &[Source] = &[Source::new(Revisions::ALL, Must, "server/prompts#image-content")];
const ICONS: &str = "basic#icons";
const NONE_SEEN: &str = "no content was seen: see --call and --read-only-tools";

/// The rules, file by file.
pub(crate) static RULES: [&[Rule]; 1] = [&ALL];

/// The kinds of blocks, each with the revisions that have it.
const KINDS: [(&str, Revisions); 5] = [
    ("text", Revisions::ALL),
    ("image", Revisions::ALL),
    ("audio", Revisions::SINCE_SECOND),
    ("resource_link", Revisions::SINCE_THIRD),
    ("resource", Revisions::ALL),
];
/// The lists whose items have annotations, icons and `_meta`.
const LISTS: [Method; 4] =
    [Method::ListTools, Method::ListPrompts, Method::ListResources, Method::ListResourceTemplates];

static ALL: [Rule; 13] = [
    Rule {
        slug: "content-kind",
        chapter: Chapter::Content,
        sentence: "Each block of content is an object whose type is one that the revision has.",
        sources: BLOCKS,
        judge: |seen| {
            each_block(seen, |kind, block| {
                if block.kind() != Kind::Object {
                    return Some("a block of content is no object".into());
                }
                let known = KINDS.iter().find(|(known, _)| *known == kind);
                let known = known.is_some_and(|(_, revisions)| revisions.contains(&seen.run.version));
                (!known).then(|| format!("this revision has no content of the type {kind:?}"))
            })
        },
    },
    Rule {
        slug: "content-members",
        chapter: Chapter::Content,
        sentence: "A block has what its type demands: text a text, image and audio data, a link a uri and a name.",
        sources: BLOCKS,
        judge: |seen| {
            each_block(seen, |kind, block| {
                let needed: &[&str] = match kind {
                    "text" => &["text"],
                    "image" | "audio" => &["data"],
                    "resource_link" => &["uri", "name"],
                    "resource" => {
                        let resource = member(block, "resource");
                        let good = resource.is_some_and(|resource| resource.kind() == Kind::Object);
                        return (!good)
                            .then(|| "a block of the type resource has no object of that name".into());
                    }
                    _ => return None,
                };
                let missing = needed.iter().find(|name| text(block, name).is_none())?;
                Some(format!("in a block of the type {kind}, {missing} is missing or no string"))
            })
        },
    },
    Rule {
        slug: "content-in-base64",
        chapter: Chapter::Content,
        sentence: "The data of images and sounds, and the blob of a resource, are in Base64.",
        sources: MEDIA,
        judge: |seen| {
            let blobs =
                contents(seen).into_iter().filter_map(|part| Some((text(&part.value, "blob")?, part)));
            let media = media(seen).filter_map(|part| Some((text(&part.value, "data")?, part)));
            let judged = media
                .chain(blobs)
                .map(|(data, part)| (!is_base64(&data)).then(|| part.finding("it is not in Base64")));
            Outcome::of(judged, "no image, no sound and no blob was seen: see --call and --read-only-tools")
        },
    },
    Rule {
        slug: "content-mime-type",
        chapter: Chapter::Content,
        sentence: "Images and sounds have a mimeType, which is a valid one.",
        sources: MEDIA,
        judge: |seen| {
            let judged = media(seen).map(|part| {
                let good = text(&part.value, "mimeType").is_some_and(|given| is_media_type(&given));
                (!good).then(|| part.finding("its mimeType is missing or none"))
            });
            Outcome::of(judged, "no image and no sound was seen: see --call and --read-only-tools")
        },
    },
    Rule {
        slug: "embedded-resource-complete",
        chapter: Chapter::Content,
        sentence: "A resource in a block has a uri, and a text or a blob; in a prompt, it has a mimeType too.",
        sources: &[Source::new(Revisions::ALL, Must, "server/prompts#embedded-resources")],
        judge: |seen| {
            let embedded =
                contents(seen).into_iter().filter(|part| part.asked.method != Some(&Method::ReadResource));
            let judged = embedded.map(|part| {
                let prompt = part.asked.method == Some(&Method::GetPrompt);
                let untyped = || {
                    let missing = prompt && member(&part.value, "mimeType").is_none();
                    missing.then(|| "mimeType is missing".to_owned())
                };
                let problem = contents_fault(&part.value).or_else(untyped)?;
                Some(part.finding(problem))
            });
            Outcome::of(judged, "no resource was seen in content: see --call and --read-only-tools")
        },
    },
    Rule {
        slug: "embedded-resource-declared",
        chapter: Chapter::Content,
        sentence: "A server whose tools give resources declares resources.",
        sources: &[Source::new(Revisions::SINCE_THIRD, Should, "server/tools#embedded-resources")],
        judge: |seen| {
            let Some(declared) = seen.declared() else { return Outcome::Skipped("nothing was declared") };
            let embedded =
                contents(seen).into_iter().filter(|part| part.asked.method == Some(&Method::CallTool));
            let judged = embedded.map(|part| {
                (!declared.contains_key("resources")).then(|| part.finding("resources is not declared"))
            });
            Outcome::of(judged, "no tool gave a resource: see --call and --read-only-tools")
        },
    },
    Rule {
        slug: "resource-link-valid",
        chapter: Chapter::Content,
        sentence: "The uri of a link to a resource is a URI.",
        sources: &[Source::new(Revisions::SINCE_THIRD, Must, "server/tools#resource-links")],
        judge: |seen| {
            let links = blocks(seen).into_iter().filter(|part| kind_of(&part.value) == "resource_link");
            let judged = links.filter_map(|part| {
                let uri = text(&part.value, "uri")?;
                Some((!is_uri(&uri)).then(|| part.finding(format!("{uri:?} is no URI"))))
            });
            Outcome::of(judged, "no link to a resource was seen: see --call and --read-only-tools")
        },
    },
    Rule {
        slug: "annotations-valid",
        chapter: Chapter::Content,
        sentence: "Annotations have an audience of user and assistant, a priority from 0 to 1, and a time.",
        sources: &[
            Source::new(Revisions::FIRST, Must, "server/resources#resource"),
            Source::new(Revisions::BATCHING, Must, "server/resources#resource"),
            Source::new(Revisions::SINCE_THIRD, Must, "server/resources#annotations"),
        ],
        judge: |seen| {
            let described = [Method::ListResources, Method::ListResourceTemplates];
            let listed = described.iter().flat_map(|method| items(seen, method));
            let annotated = listed.chain(blocks(seen)).chain(contents(seen));
            let judged = annotated.filter_map(|part| {
                let annotations = member(&part.value, "annotations")?;
                Some(annotations_fault(seen, &annotations).map(|problem| part.finding(problem)))
            });
            Outcome::of(judged, "no annotations were seen")
        },
    },
    Rule {
        slug: "icons-valid",
        chapter: Chapter::Content,
        sentence: "Icons are an array of objects with a src; sizes are strings, and a theme is light or dark.",
        sources: &[Source::new(Revisions::SINCE_FOURTH, Must, ICONS)],
        judge: |seen| each_icons(seen, icons_fault),
    },
    Rule {
        slug: "icon-source",
        chapter: Chapter::Content,
        sentence: "The src of an icon is an address of HTTP or HTTPS, or a data: URI.",
        sources: &[Source::new(Revisions::SINCE_FOURTH, Should, ICONS)],
        judge: |seen| {
            each_icons(seen, |icons| {
                let sources = elements(icons)?.into_iter().filter_map(|icon| text(&icon, "src"));
                let is_good = |source: &String| {
                    let scheme = source.split(':').next().unwrap_or_default().to_ascii_lowercase();
                    is_uri(source) && ["http", "https", "data"].contains(&&*scheme)
                };
                let strange = sources.into_iter().find(|source| !is_good(source))?;
                Some(format!("an icon's src is {:?}", strange.chars().take(80).collect::<String>()))
            })
        },
    },
    Rule {
        slug: "meta-key-names",
        chapter: Chapter::Content,
        sentence: "Names in _meta are a name that begins and ends with a letter or digit, after a prefix of labels or none.",
        sources: &[Source::new(Revisions::SINCE_THIRD, Must, "basic#meta")],
        judge: |seen| {
            let results = seen.results().map(|(asked, answer, result)| {
                let listed = asked.method.and_then(listed).map_or("", |(name, _)| name);
                let lists = [listed, "content", "contents", "messages"];
                let inner = lists
                    .iter()
                    .filter(|name| !name.is_empty())
                    .filter_map(|name| member(result.raw(), name));
                let inner = inner.filter_map(|list| elements(&list)).flatten();
                let fault =
                    std::iter::once(result.raw().clone()).chain(inner).find_map(|value| meta_fault(&value));
                fault.map(|problem| asked.finding(problem, answer.line))
            });
            let told = seen.notifications.iter().filter_map(|told| {
                let params = told.what.params.as_ref()?;
                Some(
                    meta_fault(params.raw())
                        .map(|problem| Finding::new(problem, None, Some(told.line.bytes()))),
                )
            });
            Outcome::of(results.chain(told), "no message was seen that may have _meta")
        },
    },
    Rule {
        slug: "extension-names",
        chapter: Chapter::Content,
        sentence: "The names of extensions have a prefix, as names in _meta do.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/versioning#extension-negotiation")],
        judge: |seen| {
            let declared = seen.opening().and_then(|(asked, answer, result)| {
                let capabilities = member(result.raw(), "capabilities")?;
                Some((members(&member(&capabilities, "extensions")?)?, asked, answer))
            });
            let judged = declared.map(|(extensions, asked, answer)| {
                let bare = |key: &&str| !key.contains('/') || meta_key_fault(key).is_some();
                let bare = extensions.keys().find(bare)?;
                Some(asked.finding(format!("{bare:?} is no name with a prefix"), answer.line))
            });
            Outcome::of(judged, "no extension was declared")
        },
    },
    Rule {
        slug: "trace-context-format",
        chapter: Chapter::Content,
        sentence: "A traceparent in _meta is one by W3C Trace Context; tracestate and baggage are strings.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic#meta")],
        judge: |seen| {
            let results = seen.results().filter_map(|(asked, answer, result)| {
                let problem = trace_fault(result.raw())?;
                Some(problem.map(|problem| asked.finding(problem, answer.line)))
            });
            let told = seen.notifications.iter().filter_map(|told| {
                let problem = trace_fault(told.what.params.as_ref()?.raw())?;
                Some(problem.map(|problem| Finding::new(problem, None, Some(told.line.bytes()))))
            });
            Outcome::of(results.chain(told), "no trace context was seen")
        },
    },
];

fn kind_of(block: &Raw) -> String {
    text(block, "type").unwrap_or_default()
}

/// Looks at every block of content.
fn each_block(seen: &Seen<'_>, look: impl Fn(&str, &Raw) -> Option<String>) -> Outcome {
    let judged = blocks(seen).into_iter().map(|part| {
        let kind = kind_of(&part.value);
        look(&kind, &part.value).map(|problem| part.finding(problem))
    });
    Outcome::of(judged, NONE_SEEN)
}

/// Every image and every sound.
fn media<'s, 'a>(seen: &'s Seen<'a>) -> impl Iterator<Item = Part<'s, 'a>> {
    blocks(seen).into_iter().filter(|part| ["image", "audio"].contains(&&*kind_of(&part.value)))
}

fn annotations_fault(seen: &Seen<'_>, annotations: &Raw) -> Option<String> {
    let Some(annotations) = members(annotations) else { return Some("annotations is no object".into()) };
    if let Some(audience) = annotations.get("audience") {
        let known = |one: &Raw| matches!(one.as_str(), "\"user\"" | "\"assistant\"");
        if !elements(audience).is_some_and(|audience| audience.iter().all(known)) {
            return Some(format!("audience is {audience}"));
        }
    }
    if let Some(priority) = annotations.get("priority") {
        let number = Json::of(priority).and_then(|priority| priority.as_number());
        if !number.is_some_and(|number| (0.0..=1.0).contains(&number)) {
            return Some(format!("priority is {priority}"));
        }
    }
    let time =
        annotations.get("lastModified").filter(|_| Revisions::SINCE_THIRD.contains(&seen.run.version))?;
    let good = time.to_string_value().is_some_and(|time| may_be_time(&time));
    (!good).then(|| format!("lastModified is {time}"))
}

/// Looks at the icons of everything that was listed, and of the server.
fn each_icons(seen: &Seen<'_>, look: impl Fn(&Raw) -> Option<String>) -> Outcome {
    let listed = LISTS.iter().flat_map(|method| {
        items(seen, method).filter_map(move |part| {
            let icons = member(&part.value, "icons")?;
            let kind = listed(method).map_or("item", |(_, kind)| kind);
            Some((label(kind, &part.value), Part { value: icons, ..part }))
        })
    });
    let server = seen.opening().and_then(|(asked, answer, result)| {
        let meta = || member(&member(result.raw(), "_meta")?, mcpjoin_proto::types::meta::key::SERVER_INFO);
        let icons = member(&member(result.raw(), "serverInfo").or_else(meta)?, "icons")?;
        Some(("the server".to_owned(), Part { asked, answer, value: icons }))
    });
    let judged = listed.chain(server).map(|(whose, part)| {
        let problem = look(&part.value)?;
        Some(part.finding(format!("{whose}: {problem}")))
    });
    Outcome::of(judged, "no icons were seen")
}

fn icons_fault(icons: &Raw) -> Option<String> {
    let Some(icons) = elements(icons) else { return Some("icons is no array".into()) };
    icons.iter().find_map(|icon| {
        if text(icon, "src").is_none() {
            return Some("an icon is no object with a src".into());
        }
        let sizes = member(icon, "sizes");
        if sizes.is_some_and(|sizes| crate::seen::strings(&sizes).is_none()) {
            return Some("the sizes of an icon are no array of strings".into());
        }
        let theme = member(icon, "theme").filter(|theme| !matches!(theme.as_str(), "\"light\"" | "\"dark\""));
        let theme = theme.map(|theme| format!("the theme of an icon is {theme}"));
        theme.or_else(|| Some(format!("of an icon, {}", is_kind(icon, "mimeType", Kind::String)?)))
    })
}

/// The first name in the `_meta` of an object that is none.
fn meta_fault(value: &Raw) -> Option<String> {
    let meta = members(&member(value, "_meta")?)?;
    let (key, fault) = meta.keys().find_map(|key| Some((key, meta_key_fault(key)?)))?;
    Some(format!("{key:?} in _meta: {fault}"))
}

/// What is wrong with the trace context of an object; `None` when it has none.
fn trace_fault(value: &Raw) -> Option<Option<String>> {
    let meta = members(&member(value, "_meta")?)?;
    let given: Vec<(&str, &Raw)> = ["traceparent", "tracestate", "baggage"]
        .iter()
        .filter_map(|name| Some((*name, meta.get(name)?)))
        .collect();
    if given.is_empty() {
        return None;
    }
    Some(given.into_iter().find_map(|(name, value)| {
        let text = value.to_string_value();
        let good = text.is_some_and(|text| name != "traceparent" || is_trace_parent(&text));
        (!good).then(|| format!("{name} in _meta is {value}"))
    }))
}
