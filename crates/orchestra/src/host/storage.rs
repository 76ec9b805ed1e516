//! Resources as documents in Orchestra's storage.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mcpjoin_proto::types::{ReadResourceResult, Resource, ResourceContents};
use mcpjoin_proto::{Raw, code as rpc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;

use super::Host;
use super::error::{RequestError, code};
use super::offer::Offer;
use crate::value::{Numbers, Struct};
use crate::wire::{
    StorageEntry, StorageListRequest, StorageListResponse, StorageReadRequest, StorageReadResponse,
};

/// The folder and extension under which Orchestra's clients find a document.
const FOLDER: &str = "docs/";
const EXTENSION: &str = ".md";

/// The bytes that are encoded in a path: all but letters, digits and `-._~`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The storage type whose paths are URIs.
const URI_STORAGE: &str = "mcp";

impl Host {
    pub(super) async fn storage_list(
        &self,
        list: StorageListRequest,
    ) -> Result<StorageListResponse, RequestError> {
        check(&list.storage_type)?;
        let inner = &*self.inner;
        let resources = inner.resources.list().await.any_items()?;
        let path = |uri: &str| if list.storage_type == URI_STORAGE { uri.to_owned() } else { path_of(uri) };
        let pattern = without_repeated_stars(list.pattern);
        let entries = resources.into_values().map(|resource| entry(path(&resource.uri), &resource));
        let entries = entries.filter(|entry| {
            let name = entry.path.rsplit('/').next().unwrap_or_default();
            let matches = |text: &str| matches(&pattern, text.as_bytes());
            entry.path.starts_with(&list.prefix)
                && (pattern.is_empty() || matches(&entry.path) || matches(name))
        });
        Ok(StorageListResponse { entries: entries.collect() })
    }

    pub(super) async fn storage_read(
        &self,
        read: StorageReadRequest,
    ) -> Result<StorageReadResponse, RequestError> {
        check(&read.storage_type)?;
        let inner = &*self.inner;
        let uri = uri_of(&read.path);
        let offers: Vec<&Offer> = match inner.resources.find(&uri).await? {
            Some(offer) => vec![offer],
            // The URI may belong to a template.
            None => inner.offers.iter().rev().collect(),
        };
        let mut last = None;
        for offer in offers {
            let client = offer.reached(inner.limits.restart_wait).await?;
            if client.peer().server_capabilities().is_none_or(|server| server.resources.is_none()) {
                continue;
            }
            match client.read_resource(uri.as_str()).await {
                Ok(result) => return contents(offer.name(), &uri, result),
                Err(error) => {
                    let failed = RequestError::of(offer.name(), &error);
                    let unknown = error.remote().is_some_and(|error| {
                        matches!(error.code, rpc::RESOURCE_NOT_FOUND | rpc::INVALID_PARAMS)
                    });
                    if !unknown {
                        last = Some(RequestError { code: storage_code(failed.code), ..failed });
                    }
                }
            }
        }
        Err(last
            .unwrap_or_else(|| RequestError::new(code::NOT_FOUND, format!("there is no resource {uri:?}"))))
    }
}

/// The code for an error of the server itself is that of the storage; other codes stay.
fn storage_code(original: &'static str) -> &'static str {
    if matches!(original, code::HANDLER | code::VALIDATION) { code::STORAGE } else { original }
}

fn check(storage_type: &str) -> Result<(), RequestError> {
    match storage_type {
        "" | "markdown" | URI_STORAGE => Ok(()),
        other => Err(RequestError::new(code::ROUTING, format!("no plugin provides storage {other:?}"))),
    }
}

fn entry(path: String, resource: &Resource) -> StorageEntry {
    StorageEntry { path, size: resource.size.unwrap_or_default(), version: 0, modified_at: None }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    uri: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    contents: &'a [ResourceContents],
}

fn contents(
    server: &str,
    uri: &str,
    result: ReadResourceResult,
) -> Result<StorageReadResponse, RequestError> {
    let invalid = |what: String| {
        RequestError::new(
            code::INVALID_RESPONSE,
            format!("the MCP server `{server}`: the resource {uri:?}: {what}"),
        )
    };
    let [first, rest @ ..] = &*result.contents else { return Err(invalid("it has no contents".to_owned())) };
    let (content, uri, mime_type) = match first {
        ResourceContents::Text(text) => {
            (Bytes::from(text.text.clone()), text.uri.as_str(), text.mime_type.as_deref())
        }
        ResourceContents::Blob(blob) => {
            let bytes =
                STANDARD.decode(&blob.blob).map_err(|error| invalid(format!("no base64: {error}")))?;
            (Bytes::from(bytes), blob.uri.as_str(), blob.mime_type.as_deref())
        }
        _ => return Err(invalid("it is neither text nor bytes".to_owned())),
    };
    let metadata = Raw::from_value(&Metadata { uri, mime_type, contents: rest });
    let metadata = metadata.map_err(|error| invalid(error.to_string()))?;
    let metadata =
        Struct::from_json(&metadata, Numbers::Lossy).map_err(|error| invalid(error.to_string()))?;
    Ok(StorageReadResponse { content, metadata: Some(metadata), version: 0 })
}

/// The storage path of a resource.
fn path_of(uri: &str) -> String {
    format!("{FOLDER}{}{EXTENSION}", utf8_percent_encode(uri, ENCODED))
}

/// The URI of a storage path. Any other path is the URI itself; so is a name that a client has already decoded.
fn uri_of(path: &str) -> String {
    let name = path.strip_prefix(FOLDER).and_then(|path| path.strip_suffix(EXTENSION));
    let Some(name) = name else { return path.to_owned() };
    if name.contains(':') {
        return name.to_owned();
    }
    percent_decode_str(name).decode_utf8().map_or_else(|_| name.to_owned(), Cow::into_owned)
}

/// The same pattern, of which a match reads no more than the text is long. As many stars as fill a frame would be read for
/// each path.
fn without_repeated_stars(pattern: String) -> Vec<u8> {
    let mut pattern = pattern.into_bytes();
    pattern.dedup_by(|one, other| *one == b'*' && *other == b'*');
    pattern
}

/// Matches `*` (any text) and `?` (any byte). The time is at most the product of both lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // The position of the last star, and of the text at that time.
    let mut last_star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                last_star = Some((at, read));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || text.get(read) == Some(wanted) => {
                at += 1;
                read += 1;
            }
            _ => match &mut last_star {
                Some((place, taken)) => {
                    *taken += 1;
                    (at, read) = (*place + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_what_is_no_encoding_stays() {
        const IN_PATHS: &AsciiSet = &ENCODED.remove(b'/').remove(b':').remove(b'@');
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
        for text in ["", "a/b", "with space é#?", "100%", "%41", "%2e%2e/", "\0\u{7f}\u{10ffff}"] {
            for set in [ENCODED, IN_PATHS] {
                assert_eq!(decoded(&utf8_percent_encode(text, set).to_string()).as_deref(), Some(text));
            }
        }
        assert_eq!(utf8_percent_encode("a/b é%", IN_PATHS).to_string(), "a/b%20%C3%A9%25");
        for (text, means) in [("100%", "100%"), ("%4", "%4"), ("%zz%+1", "%zz%+1"), ("%e9%C3%A9", "")] {
            assert_eq!(decoded(text).unwrap_or_default(), means, "{text}");
        }
    }

    #[test]
    fn a_path_is_a_uri_and_the_other_way_round() {
        for uri in ["file:///a b/ü.txt", "test://static-text", "a:%41", "note"] {
            assert_eq!(uri_of(&path_of(uri)), uri, "{}", path_of(uri));
        }
        assert_eq!(path_of("test://a.md"), "docs/test%3A%2F%2Fa.md.md");
        // A client may have decoded the name, or never encoded it.
        assert_eq!(uri_of("docs/test://a%20b.md"), "test://a%20b");
        assert_eq!(uri_of("test://a.md"), "test://a.md");
        assert_eq!(uri_of("docs/100%.md"), "100%");
        assert_eq!(uri_of("docs/%FF.md"), "%FF");
    }

    #[test]
    fn patterns_match_as_globs_do() {
        for (pattern, text, whether) in [
            ("*.md", "a.md", true),
            ("*.md", "a.mdx", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("", "", true),
            ("**", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), whether, "{pattern} {text}");
        }
        let stars = without_repeated_stars("*".repeat(1 << 24) + ".md" + &"*".repeat(1 << 20));
        assert!((0..1_000).all(|number| matches(&stars, format!("{number}.md").as_bytes())));
        assert_eq!(without_repeated_stars("a**b?*c".to_owned()), b"a*b?*c");
        // The maximum of backtracking ends in time.
        let (pattern, text) = ("*a".repeat(500) + "b", "a".repeat(5000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
