//! The chapter of content: the blocks in results of tools and prompts, and the members that any item may have
//! (annotations, icons, `_meta`).
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result>

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Raw};

use crate::features::{LISTS, Part, blocks, contents, is_kind, items, label, listed};
use crate::grammar::{is_base64, is_media_type, is_trace_parent, is_uri, may_be_time, meta_key_fault};
use crate::json::{elements, has_kind, list, member, members, number, object, string, strings, text};
use crate::resources::contents_fault;
use crate::revisions::Revisions;
use crate::rule::{Evidence, Outcome, Source};
use crate::server_view::ServerView;

const BLOCKS: &[Source] = sources![ALL Must "server/tools#tool-result"];
const MEDIA: &[Source] = sources![ALL Must "server/prompts#image-content"];
const ICONS: &str = "basic#icons";

/// The kinds of blocks, each with the revisions that have it.
const KINDS: [(&str, Revisions); 5] = [
    ("text", Revisions::ALL),
    ("image", Revisions::ALL),
    ("audio", Revisions::SINCE_SECOND),
    ("resource_link", Revisions::SINCE_THIRD),
    ("resource", Revisions::ALL),
];

rules! {
    pub(crate) RULES for Server in Chapter::Content;

    "content-kind", BLOCKS,
        "Each content block is an object with a type of the revision.",
        |view| each_block(view, |kind, block| {
            if block.kind() != Kind::Object {
                return Some("a content block is not an object".into());
            }
            let known = KINDS.iter().find(|(known, _)| *known == kind);
            let is_known = known.is_some_and(|(_, revisions)| revisions.contains(&view.run.version));
            (!is_known).then(|| format!("this revision has no content of the type {kind:?}"))
        });
    "content-members", BLOCKS,
        "A content block has the members of its type: text has text, image and audio have data, a link has \
         uri and name.",
        |view| each_block(view, |kind, block| {
            let needed: &[&str] = match kind {
                "text" => &["text"],
                "image" | "audio" => &["data"],
                "resource_link" => &["uri", "name"],
                "resource" => {
                    return (!has_kind(block, "resource", Kind::Object))
                        .then(|| "a block of the type resource has no object `resource`".into());
                }
                _ => return None,
            };
            let missing = needed.iter().find(|name| text(block, name).is_none())?;
            Some(format!("in a block of the type {kind}, {missing} is missing or not a string"))
        });
    "content-in-base64", MEDIA,
        "The data of images and audio, and the blob of a resource, are in Base64.",
        else "no image, audio or blob was seen (see --call and --read-only-tools)",
        |view| {
            let media = media(view).filter_map(|part| Some((text(&part.value, "data")?, part)));
            let blobs = contents(view).filter_map(|part| Some((text(&part.value, "blob")?, part)));
            media
                .chain(blobs)
                .map(|(data, part)| part.finding_if(!is_base64(&data), "the data is not Base64"))
        };
    "content-mime-type", MEDIA,
        "Images and audio have a valid mimeType.",
        else "no image and no audio was seen (see --call and --read-only-tools)",
        |view| media(view).map(|part| {
            let is_good = text(&part.value, "mimeType").is_some_and(|given| is_media_type(&given));
            part.finding_if(!is_good, "mimeType is missing or invalid")
        });
    "embedded-resource-complete", [ALL Must "server/prompts#embedded-resources"],
        "A resource in a content block has a uri, and text or a blob; in a prompt, it also has a mimeType.",
        else "no resource was seen in content (see --call and --read-only-tools)",
        |view| contents(view).filter(|part| !part.is_of(&Method::ReadResource)).map(|part| {
            if let Some(problem) = contents_fault(&part.value) {
                return Some(part.finding(problem));
            }
            let is_untyped = part.is_of(&Method::GetPrompt) && member(&part.value, "mimeType").is_none();
            part.finding_if(is_untyped, "mimeType is missing")
        });
    "embedded-resource-declared", [SINCE_THIRD Should "server/tools#embedded-resources"],
        "A server whose tools return resources declares the capability resources.",
        else "no tool returned a resource (see --call and --read-only-tools)",
        |view| {
            let Some(declared) = view.declared() else { return Outcome::Skipped("nothing was declared") };
            let embedded = contents(view).filter(|part| part.is_of(&Method::CallTool));
            embedded
                .map(move |part| part.finding_if(!declared.contains_key("resources"), "resources is not declared"))
        };
    "resource-link-valid", [SINCE_THIRD Must "server/tools#resource-links"],
        "The uri of a resource link is a URI.",
        else "no resource link was seen (see --call and --read-only-tools)",
        |view| blocks(view).filter(|part| kind_of(&part.value) == "resource_link").filter_map(|part| {
            let uri = text(&part.value, "uri")?;
            Some(part.finding_if(!is_uri(&uri), format_args!("{uri:?} is not a URI")))
        });
    "annotations-valid", [
        FIRST Must "server/resources#resource",
        BATCHING Must "server/resources#resource",
        SINCE_THIRD Must "server/resources#annotations",
    ],
        "Annotations have an audience of user and assistant, a priority from 0 to 1, and a time.",
        else "no annotations were seen",
        |view| {
            let resources = items(view, &Method::ListResources).chain(items(view, &Method::ListResourceTemplates));
            resources.chain(blocks(view)).chain(contents(view)).filter_map(|part| {
                let annotations = member(&part.value, "annotations")?;
                Some(annotations_fault(view, &annotations).map(|problem| part.finding(problem)))
            })
        };
    "icons-valid", [SINCE_FOURTH Must ICONS],
        "Icons are an array of objects with a src; sizes are strings, and a theme is light or dark.",
        |view| each_icons(view, icons_fault);
    "icon-source", [SINCE_FOURTH Should ICONS],
        "The src of an icon is an http:, https: or data: URL.",
        |view| each_icons(view, |icons| {
            let is_good = |source: &String| {
                let scheme = source.split(':').next().unwrap_or_default().to_ascii_lowercase();
                is_uri(source) && ["http", "https", "data"].contains(&&*scheme)
            };
            let mut sources = elements(icons)?.into_iter().filter_map(|icon| text(&icon, "src"));
            let strange = sources.find(|source| !is_good(source))?;
            Some(format!("the src of an icon is {:?}", strange.chars().take(80).collect::<String>()))
        });
    "meta-key-names", [SINCE_THIRD Must "basic#meta"],
        "Names in _meta begin and end with a letter or digit, after an optional prefix of labels.",
        else "no message was seen that may have _meta",
        |view| {
            let results = view.results().map(|(reply, result)| {
                let (listed, _) = reply.request.method.map_or(("", ""), listed);
                let lists = [listed, "content", "contents", "messages"].into_iter();
                let inner = lists.filter_map(|name| list(result, name)).flatten();
                let fault = std::iter::once(result.clone()).chain(inner).find_map(|value| meta_fault(&value));
                fault.map(|problem| reply.finding(problem))
            });
            let notifications = view.notifications.iter().filter_map(|notification| {
                let params = notification.what.params.as_ref()?;
                Some(meta_fault(params.raw()).map(|problem| notification.finding(problem)))
            });
            results.chain(notifications)
        };
    "extension-names", [MODERN Must "basic/versioning#extension-negotiation"],
        "Names of extensions have a prefix, like names in _meta.",
        else "no extension was declared",
        |view| view.opening().and_then(|(reply, result)| {
            let extensions = object(&member(result, "capabilities")?, "extensions")?;
            let bare = extensions.keys().find(|key| !key.contains('/') || meta_key_fault(key).is_some());
            Some(bare.map(|bare| reply.finding(format_args!("{bare:?} is not a name with a prefix"))))
        });
    "trace-context-format", [MODERN Must "basic#meta"],
        "traceparent in _meta follows W3C Trace Context; tracestate and baggage are strings.",
        else "no trace context was seen",
        |view| {
            let results = view.results().filter_map(|(reply, result)| {
                Some(trace_fault(result)?.map(|problem| reply.finding(problem)))
            });
            let notifications = view.notifications.iter().filter_map(|notification| {
                let fault = trace_fault(notification.what.params.as_ref()?.raw())?;
                Some(fault.map(|problem| notification.finding(problem)))
            });
            results.chain(notifications)
        };
}

fn kind_of(block: &Raw) -> String {
    text(block, "type").unwrap_or_default()
}

/// Checks every content block: `check` returns the problem of one.
fn each_block(view: &ServerView<'_>, check: impl Fn(&str, &Raw) -> Option<String>) -> Outcome {
    let findings = blocks(view)
        .map(|part| check(&kind_of(&part.value), &part.value).map(|problem| part.finding(problem)));
    Outcome::of(findings, "no content was seen (see --call and --read-only-tools)")
}

/// Every image and every sound.
fn media<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = Part<'s, 'a>> {
    blocks(view).filter(|part| ["image", "audio"].contains(&&*kind_of(&part.value)))
}

fn annotations_fault(view: &ServerView<'_>, annotations: &Raw) -> Option<String> {
    let Some(annotations) = members(annotations) else { return Some("annotations is not an object".into()) };
    if let Some(audience) = annotations.get("audience") {
        let is_known = |one: &Raw| matches!(one.as_str(), "\"user\"" | "\"assistant\"");
        if !elements(audience).is_some_and(|audience| audience.iter().all(is_known)) {
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
    let is_good = string(time).is_some_and(|time| may_be_time(&time));
    (!is_good).then(|| format!("lastModified is {time}"))
}

/// Checks the icons of every listed item and of the server: `check` returns their problem.
fn each_icons(view: &ServerView<'_>, check: impl Fn(&Raw) -> Option<String>) -> Outcome {
    let listed = LISTS.iter().flat_map(|method| {
        items(view, method).filter_map(move |part| {
            let (_, kind) = listed(method);
            Some((label(kind, &part.value), part.reply, member(&part.value, "icons")?))
        })
    });
    let server = view.opening().and_then(|(reply, result)| {
        let meta = || member(&member(result, "_meta")?, key::SERVER_INFO);
        let icons = member(&member(result, "serverInfo").or_else(meta)?, "icons")?;
        Some(("the server".to_owned(), reply, icons))
    });
    let findings = listed.chain(server).map(|(owner, reply, icons)| {
        let problem = check(&icons)?;
        Some(reply.finding(format_args!("{owner}: {problem}")))
    });
    Outcome::of(findings, "no icons were seen")
}

fn icons_fault(icons: &Raw) -> Option<String> {
    let Some(icons) = elements(icons) else { return Some("icons is not an array".into()) };
    icons.iter().find_map(|icon| {
        if text(icon, "src").is_none() {
            return Some("an icon is not an object with `src`".into());
        }
        if member(icon, "sizes").is_some_and(|sizes| strings(&sizes).is_none()) {
            return Some("the sizes of an icon are not an array of strings".into());
        }
        let theme = member(icon, "theme").filter(|theme| !matches!(theme.as_str(), "\"light\"" | "\"dark\""));
        let theme = theme.map(|theme| format!("the theme of an icon is {theme}"));
        theme.or_else(|| Some(format!("of an icon, {}", is_kind(icon, "mimeType", Kind::String)?)))
    })
}

/// The first invalid name in the `_meta` of an object, with its problem.
fn meta_fault(value: &Raw) -> Option<String> {
    let meta = object(value, "_meta")?;
    let (key, fault) = meta.keys().find_map(|key| Some((key, meta_key_fault(key)?)))?;
    Some(format!("{key:?} in _meta: {fault}"))
}

/// The problem of the trace context of an object. `None` if it has no trace context.
fn trace_fault(value: &Raw) -> Option<Option<String>> {
    let meta = object(value, "_meta")?;
    let names = ["traceparent", "tracestate", "baggage"].into_iter();
    let mut given = names.filter_map(|name| Some((name, meta.get(name)?))).peekable();
    given.peek()?;
    Some(given.find_map(|(name, value)| {
        let is_good = string(value).is_some_and(|text| name != "traceparent" || is_trace_parent(&text));
        (!is_good).then(|| format!("{name} in _meta is {value}"))
    }))
}
