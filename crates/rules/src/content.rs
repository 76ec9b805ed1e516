//! The chapter of content: the blocks in results of tools and prompts, and the members that any item may have
//! (annotations, icons, `_meta`).
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result>

use mcpjoin_proto::{Kind, Method, Raw};

use crate::features::{Part, blocks, contents, is_kind, items, label, listed};
use crate::grammar::{is_base64, is_media_type, is_trace_parent, is_uri, may_be_time, meta_key_fault};
use crate::json::{elements, member, members, number, text};
use crate::resources::contents_fault;
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::ServerView;

const BLOCKS: &[Source] = sources![ALL Must "server/tools#tool-result"];
const MEDIA: &[Source] = sources![ALL Must "server/prompts#image-content"];
const ICONS: &str = "basic#icons";
const NONE_SEEN: &str = "no content was seen: see --call and --read-only-tools";

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

rules! {
    pub(crate) RULES for Server in Chapter::Content;

    "content-kind", BLOCKS,
        "Each block of content is an object whose type is one that the revision has.",
        |view| {
            each_block(view, |kind, block| {
                if block.kind() != Kind::Object {
                    return Some("a block of content is no object".into());
                }
                let known = KINDS.iter().find(|(known, _)| *known == kind);
                let known = known.is_some_and(|(_, revisions)| revisions.contains(&view.run.version));
                (!known).then(|| format!("this revision has no content of the type {kind:?}"))
            })
        };
    "content-members", BLOCKS,
        "A block has what its type demands: text a text, image and audio data, a link a uri and a name.",
        |view| {
            each_block(view, |kind, block| {
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
        };
    "content-in-base64", MEDIA,
        "The data of images and sounds, and the blob of a resource, are in Base64.",
        |view| {
            let blobs =
                contents(view).into_iter().filter_map(|part| Some((text(&part.value, "blob")?, part)));
            let media = media(view).filter_map(|part| Some((text(&part.value, "data")?, part)));
            let findings = media
                .chain(blobs)
                .map(|(data, part)| (!is_base64(&data)).then(|| part.finding("it is not in Base64")));
            Outcome::of(findings, "no image, no sound and no blob was seen: see --call and --read-only-tools")
        };
    "content-mime-type", MEDIA,
        "Images and sounds have a mimeType, which is a valid one.",
        |view| {
            let findings = media(view).map(|part| {
                let good = text(&part.value, "mimeType").is_some_and(|given| is_media_type(&given));
                (!good).then(|| part.finding("its mimeType is missing or none"))
            });
            Outcome::of(findings, "no image and no sound was seen: see --call and --read-only-tools")
        };
    "embedded-resource-complete", [ALL Must "server/prompts#embedded-resources"],
        "A resource in a block has a uri, and a text or a blob; in a prompt, it has a mimeType too.",
        |view| {
            let embedded =
                contents(view).into_iter().filter(|part| part.request.method != Some(&Method::ReadResource));
            let findings = embedded.map(|part| {
                let prompt = part.request.method == Some(&Method::GetPrompt);
                let untyped = || {
                    let missing = prompt && member(&part.value, "mimeType").is_none();
                    missing.then(|| "mimeType is missing".to_owned())
                };
                let problem = contents_fault(&part.value).or_else(untyped)?;
                Some(part.finding(problem))
            });
            Outcome::of(findings, "no resource was seen in content: see --call and --read-only-tools")
        };
    "embedded-resource-declared", [SINCE_THIRD Should "server/tools#embedded-resources"],
        "A server whose tools give resources declares resources.",
        |view| {
            let Some(declared) = view.declared() else { return Outcome::Skipped("nothing was declared") };
            let embedded =
                contents(view).into_iter().filter(|part| part.request.method == Some(&Method::CallTool));
            let findings = embedded.map(|part| {
                (!declared.contains_key("resources")).then(|| part.finding("resources is not declared"))
            });
            Outcome::of(findings, "no tool gave a resource: see --call and --read-only-tools")
        };
    "resource-link-valid", [SINCE_THIRD Must "server/tools#resource-links"],
        "The uri of a link to a resource is a URI.",
        |view| {
            let links = blocks(view).into_iter().filter(|part| kind_of(&part.value) == "resource_link");
            let findings = links.filter_map(|part| {
                let uri = text(&part.value, "uri")?;
                Some((!is_uri(&uri)).then(|| part.finding(format!("{uri:?} is no URI"))))
            });
            Outcome::of(findings, "no link to a resource was seen: see --call and --read-only-tools")
        };
    "annotations-valid", [
        FIRST Must "server/resources#resource",
        BATCHING Must "server/resources#resource",
        SINCE_THIRD Must "server/resources#annotations",
    ],
        "Annotations have an audience of user and assistant, a priority from 0 to 1, and a time.",
        |view| {
            let described = [Method::ListResources, Method::ListResourceTemplates];
            let listed = described.iter().flat_map(|method| items(view, method));
            let annotated = listed.chain(blocks(view)).chain(contents(view));
            let findings = annotated.filter_map(|part| {
                let annotations = member(&part.value, "annotations")?;
                Some(annotations_fault(view, &annotations).map(|problem| part.finding(problem)))
            });
            Outcome::of(findings, "no annotations were seen")
        };
    "icons-valid", [SINCE_FOURTH Must ICONS],
        "Icons are an array of objects with a src; sizes are strings, and a theme is light or dark.",
        |view| each_icons(view, icons_fault);
    "icon-source", [SINCE_FOURTH Should ICONS],
        "The src of an icon is an address of HTTP or HTTPS, or a data: URI.",
        |view| {
            each_icons(view, |icons| {
                let sources = elements(icons)?.into_iter().filter_map(|icon| text(&icon, "src"));
                let is_good = |source: &String| {
                    let scheme = source.split(':').next().unwrap_or_default().to_ascii_lowercase();
                    is_uri(source) && ["http", "https", "data"].contains(&&*scheme)
                };
                let strange = sources.into_iter().find(|source| !is_good(source))?;
                Some(format!("an icon's src is {:?}", strange.chars().take(80).collect::<String>()))
            })
        };
    "meta-key-names", [SINCE_THIRD Must "basic#meta"],
        "Names in _meta are a name that begins and ends with a letter or digit, after a prefix of labels or none.",
        |view| {
            let results = view.results().map(|(request, response, result)| {
                let listed = request.method.and_then(listed).map_or("", |(name, _)| name);
                let lists = [listed, "content", "contents", "messages"];
                let inner = lists
                    .iter()
                    .filter(|name| !name.is_empty())
                    .filter_map(|name| member(result.raw(), name));
                let inner = inner.filter_map(|list| elements(&list)).flatten();
                let fault =
                    std::iter::once(result.raw().clone()).chain(inner).find_map(|value| meta_fault(&value));
                fault.map(|problem| request.finding(problem, response.line))
            });
            let notifications = view.notifications.iter().filter_map(|notification| {
                let params = notification.what.params.as_ref()?;
                Some(
                    meta_fault(params.raw())
                        .map(|problem| Finding::new(problem, None, Some(notification.line.bytes()))),
                )
            });
            Outcome::of(results.chain(notifications), "no message was seen that may have _meta")
        };
    "extension-names", [MODERN Must "basic/versioning#extension-negotiation"],
        "The names of extensions have a prefix, as names in _meta do.",
        |view| {
            let declared = view.opening().and_then(|(request, response, result)| {
                let capabilities = member(result.raw(), "capabilities")?;
                Some((members(&member(&capabilities, "extensions")?)?, request, response))
            });
            let findings = declared.map(|(extensions, request, response)| {
                let bare = |key: &&str| !key.contains('/') || meta_key_fault(key).is_some();
                let bare = extensions.keys().find(bare)?;
                Some(request.finding(format!("{bare:?} is no name with a prefix"), response.line))
            });
            Outcome::of(findings, "no extension was declared")
        };
    "trace-context-format", [MODERN Must "basic#meta"],
        "A traceparent in _meta is one by W3C Trace Context; tracestate and baggage are strings.",
        |view| {
            let results = view.results().filter_map(|(request, response, result)| {
                let problem = trace_fault(result.raw())?;
                Some(problem.map(|problem| request.finding(problem, response.line)))
            });
            let notifications = view.notifications.iter().filter_map(|notification| {
                let problem = trace_fault(notification.what.params.as_ref()?.raw())?;
                Some(problem.map(|problem| Finding::new(problem, None, Some(notification.line.bytes()))))
            });
            Outcome::of(results.chain(notifications), "no trace context was seen")
        };
}

fn kind_of(block: &Raw) -> String {
    text(block, "type").unwrap_or_default()
}

/// Looks at every block of content.
fn each_block(view: &ServerView<'_>, look: impl Fn(&str, &Raw) -> Option<String>) -> Outcome {
    let findings = blocks(view).into_iter().map(|part| {
        let kind = kind_of(&part.value);
        look(&kind, &part.value).map(|problem| part.finding(problem))
    });
    Outcome::of(findings, NONE_SEEN)
}

/// Every image and every sound.
fn media<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = Part<'s, 'a>> {
    blocks(view).into_iter().filter(|part| ["image", "audio"].contains(&&*kind_of(&part.value)))
}

fn annotations_fault(view: &ServerView<'_>, annotations: &Raw) -> Option<String> {
    let Some(annotations) = members(annotations) else { return Some("annotations is no object".into()) };
    if let Some(audience) = annotations.get("audience") {
        let known = |one: &Raw| matches!(one.as_str(), "\"user\"" | "\"assistant\"");
        if !elements(audience).is_some_and(|audience| audience.iter().all(known)) {
            return Some(format!("audience is {audience}"));
        }
    }
    if let Some(priority) = annotations.get("priority")
        && !number(priority).is_some_and(|number| (0.0..=1.0).contains(&number))
    {
        return Some(format!("priority is {priority}"));
    }
    let time =
        annotations.get("lastModified").filter(|_| Revisions::SINCE_THIRD.contains(&view.run.version))?;
    let good = time.to_string_value().is_some_and(|time| may_be_time(&time));
    (!good).then(|| format!("lastModified is {time}"))
}

/// Looks at the icons of everything that was listed, and of the server.
fn each_icons(view: &ServerView<'_>, look: impl Fn(&Raw) -> Option<String>) -> Outcome {
    let listed = LISTS.iter().flat_map(|method| {
        items(view, method).filter_map(move |part| {
            let icons = member(&part.value, "icons")?;
            let kind = listed(method).map_or("item", |(_, kind)| kind);
            Some((label(kind, &part.value), Part { value: icons, ..part }))
        })
    });
    let server = view.opening().and_then(|(request, response, result)| {
        let meta = || member(&member(result.raw(), "_meta")?, mcpjoin_proto::types::meta::key::SERVER_INFO);
        let icons = member(&member(result.raw(), "serverInfo").or_else(meta)?, "icons")?;
        Some(("the server".to_owned(), Part { request, response, value: icons }))
    });
    let findings = listed.chain(server).map(|(whose, part)| {
        let problem = look(&part.value)?;
        Some(part.finding(format!("{whose}: {problem}")))
    });
    Outcome::of(findings, "no icons were seen")
}

fn icons_fault(icons: &Raw) -> Option<String> {
    let Some(icons) = elements(icons) else { return Some("icons is no array".into()) };
    icons.iter().find_map(|icon| {
        if text(icon, "src").is_none() {
            return Some("an icon is no object with a src".into());
        }
        let sizes = member(icon, "sizes");
        if sizes.is_some_and(|sizes| crate::json::strings(&sizes).is_none()) {
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
