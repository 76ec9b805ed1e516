//! `resources/list`, `resources/templates/list` and `resources/read`: the documents that Orchestra stores.
//!
//! The URI of a document is `orchestra://FOLDER/NAME`, with each part of NAME percent-encoded ([RFC 3986,
//! 3.3](https://www.rfc-editor.org/rfc/rfc3986#section-3.3)). A URI to read is decoded once, and an invalid escape
//! stays as it is. So a name without `%HH` can also be read in the form in which Orchestra's own bridge lists it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::try_join_all;
use mcpjoin_proto::types::{
    BlobResourceContents, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    TextResourceContents,
};
use mcpjoin_proto::{ErrorObject, Raw};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::super::super::wire::{StorageEntry, StorageListRequest, StorageReadRequest, StorageReadResponse};
use super::handler::{Call, exchange_error, to_raw, with_member};
use super::lists;

const SCHEME: &str = "orchestra://";
const MARKDOWN_TYPE: &str = "text/markdown";
const EXTENSION: &str = ".md";
/// The bytes that are encoded in a path: all but letters, digits, `-._~` and `!$&'()*+,;=:@/`.
const ENCODED_IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');

/// The folders of documents, with their titles in Orchestra's own bridge.
const FOLDERS: [(&str, &str); 3] =
    [("features", "Project Features"), ("notes", "Project Notes"), ("docs", "Project Documentation")];

pub(super) async fn list(call: Call<'_>) -> Result<Raw, ErrorObject> {
    let folders = FOLDERS.map(|(folder, _)| async move {
        let prefix = format!("{folder}/");
        let request = StorageListRequest { prefix, ..StorageListRequest::default() };
        let listed = call.shared.orchestrator.storage_list(request).await;
        Ok((folder, listed.map_err(|error| exchange_error("storage_list", &error))?))
    });
    let mut entries = Vec::new();
    for (folder, listed) in try_join_all(folders).await? {
        for resource in listed.iter().filter_map(|entry| resource_of(folder, entry)) {
            let json = to_raw(&resource)?;
            entries.push((resource.uri, json));
        }
    }
    lists::page(&lists::sorted(entries), call.request, "resources", call.shared.page)
}

/// A document as a resource; `None` if it is not in that folder.
fn resource_of(folder: &str, entry: &StorageEntry) -> Option<Resource> {
    let name = entry.path.strip_prefix(folder)?.strip_prefix('/')?;
    let name = name.strip_suffix(EXTENSION).unwrap_or(name);
    if name.is_empty() {
        return None;
    }
    // `size` is omitted: the entry has the size of the file, and its head is not part of the contents.
    let mut resource =
        Resource::new(format!("{SCHEME}{folder}/{}", utf8_percent_encode(name, ENCODED_IN_PATHS)), name);
    resource.mime_type = Some(MARKDOWN_TYPE.to_owned());
    Some(resource)
}

pub(super) fn templates(call: Call<'_>) -> Result<Raw, ErrorObject> {
    let entries = FOLDERS
        .iter()
        .map(|(folder, title)| {
            let uri = format!("{SCHEME}{folder}/{{id}}");
            let template = ResourceTemplate::new(uri.as_str(), *title)
                .with_description(format!("Access {title} by ID"))
                .with_mime_type(MARKDOWN_TYPE);
            Ok((uri, to_raw(&template)?))
        })
        .collect::<Result<Vec<_>, ErrorObject>>()?;
    lists::page(&lists::sorted(entries), call.request, "resourceTemplates", call.shared.page)
}

pub(super) async fn read(call: Call<'_>) -> Result<Raw, ErrorObject> {
    let uri = call.text("uri")?;
    let path = path(&call, &uri)?;
    let request = StorageReadRequest { path: path.clone(), storage_type: String::new() };
    let stored = match call.shared.orchestrator.storage_read(request).await {
        Ok(stored) => stored,
        // The error of our own host.
        Err(error) if error.is_remote("not_found") => {
            return Err(not_found(&call, &uri, "resource not found"));
        }
        Err(error) => return Err(exchange_error("storage_read", &error)),
    };
    // Orchestra's own orchestrator responds like this to documents that do not exist, cannot be read, or are empty.
    if stored == StorageReadResponse::default() {
        let request = StorageListRequest { prefix: path.clone(), ..StorageListRequest::default() };
        let listed = call.shared.orchestrator.storage_list(request).await;
        let listed = listed.map_err(|error| exchange_error("storage_list", &error))?;
        match listed.iter().find(|entry| entry.path == path) {
            None => return Err(not_found(&call, &uri, "resource not found")),
            Some(entry) if entry.size > 0 => {
                let what = format!("the storage has {path:?} and has not read it: it may be malformed");
                return Err(ErrorObject::internal(what));
            }
            Some(_) => {}
        }
    }
    let result = ReadResourceResult::new(vec![contents(&uri, stored)]);
    to_raw(&result)
}

/// The contents: text, or bytes if they are not UTF-8.
fn contents(uri: &str, stored: StorageReadResponse) -> ResourceContents {
    let metadata_type = stored.metadata.and_then(|metadata| metadata.to_json().ok());
    let metadata_type = metadata_type.and_then(|metadata| metadata.json.member("mimeType"));
    let metadata_type = metadata_type.and_then(|kind| kind.to_string_value().map(|kind| kind.into_owned()));
    match String::from_utf8(stored.content.into()) {
        Ok(text) => {
            let kind = metadata_type.unwrap_or_else(|| MARKDOWN_TYPE.to_owned());
            ResourceContents::Text(TextResourceContents::new(uri, text).with_mime_type(kind))
        }
        Err(bytes) => {
            let mut blob = BlobResourceContents::new(uri, STANDARD.encode(bytes.as_bytes()));
            blob.mime_type = metadata_type;
            ResourceContents::Blob(blob)
        }
    }
}

/// The storage path of a URI.
fn path(call: &Call<'_>, uri: &str) -> Result<String, ErrorObject> {
    let invalid = || Err(ErrorObject::invalid_params(format!("invalid resource URI: {uri:?}")));
    let Some(rest) = uri.strip_prefix(SCHEME) else {
        let what = format!("unsupported URI scheme: {uri:?} (expected {SCHEME})");
        return Err(not_found(call, uri, &what));
    };
    let Some((folder, written)) = rest.split_once('/') else { return invalid() };
    if !FOLDERS.iter().any(|(known, _)| *known == folder) {
        return Err(not_found(call, uri, &format!("unknown resource type: {folder:?}")));
    }
    let Ok(name) = percent_decode_str(written).decode_utf8() else { return invalid() };
    // The path must not leave the folder, on any system.
    let leads_out = name.split(['/', '\\']).any(|part| matches!(part, "." | ".."));
    if leads_out || name.starts_with('/') || written.split('/').any(str::is_empty) {
        return invalid();
    }
    Ok(format!("{folder}/{name}{EXTENSION}"))
}

fn not_found(call: &Call<'_>, uri: &str, what: &str) -> ErrorObject {
    with_member(ErrorObject::new(call.profile.resource_not_found, what), "uri", uri)
}
