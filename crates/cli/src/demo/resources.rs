//! Resources, and a template that makes any number of them.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/resources>

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{
    BlobResourceContents, CompleteParams, Resource, ResourceTemplate, ResourceTemplateReference,
    TextResourceContents,
};
use mcpjoin::server::{ReadRequest, ServerBuilder};

use super::PICTURE;

/// The template.
pub(crate) const TEMPLATE: &str = "test://template/{id}/data";

/// Adds the chapter.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .resource(
            Resource::new("test://static-text", "static-text")
                .with_description("A text that does not change")
                .with_mime_type("text/plain"),
            async |_, _| "This is the content of the static text resource.",
        )
        .resource(
            Resource::new("test://static-binary", "static-binary")
                .with_description("A picture that does not change")
                .with_mime_type("image/png"),
            async |read: ReadRequest, _| {
                BlobResourceContents::new(read.uri, PICTURE).with_mime_type("image/png")
            },
        )
        .resource_template(
            ResourceTemplate::new(TEMPLATE, "template")
                .with_description("Data for any id")
                .with_mime_type("application/json"),
            async |read: ReadRequest, _| {
                // The id is the peer's word: it goes into JSON as a string, whatever is in it.
                let id = read.variable("id");
                let (id, data) = (Raw::string(id), Raw::string(&format!("Data for ID: {id}")));
                let text = format!(r#"{{"id":{id},"templateTest":true,"data":{data}}}"#);
                TextResourceContents::new(read.uri, text).with_mime_type("application/json")
            },
        )
        .completion(ResourceTemplateReference::new(TEMPLATE), async |asked: CompleteParams, _| {
            (1..=100)
                .map(|id| id.to_string())
                .filter(|id| id.starts_with(&asked.argument.value))
                .collect::<Vec<String>>()
        })
}
