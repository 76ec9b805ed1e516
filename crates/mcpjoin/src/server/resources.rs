//! Resources and resource templates: listed and read.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources>. A URI is looked up in the resources
//! first. Otherwise the matching template with the most literal text is used.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{Resource, ResourceTemplate};
use mcpjoin_proto::{ErrorObject, Kind, Payload, Profile, Raw, code};

use super::input::run_in_rounds;
use super::list::List;
use super::output::write_offloaded;
use super::template::{Template, Variables};
use super::{BuildError, Context, HandlerError, ResourceOutput};

/// The resource to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadRequest {
    /// The requested URI.
    pub uri: String,
    /// The values of the template's variables; empty for a resource.
    pub variables: Variables,
}

impl ReadRequest {
    /// Returns the value of a variable, or an empty string if the template has no such variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }
}

type ReadFuture = Pin<Box<dyn Future<Output = Result<Reply, HandlerError>> + Send>>;
type Read = dyn Fn(ReadRequest, Context) -> ReadFuture + Send + Sync;

/// A registered resource.
pub(super) struct ResourceEntry {
    pub(super) shown: Raw,
    read: Box<Read>,
}

/// A registered resource template.
pub(super) struct TemplateEntry {
    pub(super) shown: Raw,
    template: Template,
    read: Box<Read>,
}

fn read_with<F, Fut>(mime_type: Option<String>, f: F) -> Box<Read>
where
    F: Fn(ReadRequest, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: ResourceOutput> + Send + 'static,
{
    let mime_type: Option<Arc<str>> = mime_type.map(Into::into);
    Box::new(move |request, cx| {
        let (uri, mime_type) = (request.uri.clone(), mime_type.clone());
        let future = f(request, cx.clone());
        Box::pin(async move {
            let output = future.await;
            match cx.offload_permit(output.size_hint()) {
                None => output.into_resource_reply(&uri, mime_type.as_deref()),
                Some(place) => {
                    let write = move || {
                        let written = output.into_resource_reply(&uri, mime_type.as_deref());
                        drop(place);
                        written
                    };
                    Box::pin(write_offloaded(write)).await
                }
            }
        })
    })
}

impl ResourceEntry {
    pub(super) fn new<F, Fut>(resource: &Resource, f: F) -> Result<Self, BuildError>
    where
        F: Fn(ReadRequest, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ResourceOutput> + Send + 'static,
    {
        let shown = super::description_json(&resource.uri, resource)?;
        Ok(Self { shown, read: read_with(resource.mime_type.clone(), f) })
    }
}

impl TemplateEntry {
    pub(super) fn new<F, Fut>(template: &ResourceTemplate, f: F) -> Result<Self, BuildError>
    where
        F: Fn(ReadRequest, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ResourceOutput> + Send + 'static,
    {
        let text = &template.uri_template;
        let parsed = Template::parse(text)
            .map_err(|problem| BuildError::Template { template: text.clone(), problem })?;
        let shown = super::description_json(text, template)?;
        Ok(Self { shown, template: parsed, read: read_with(template.mime_type.clone(), f) })
    }
}

/// The entry that reads a URI.
pub(super) enum Reader {
    Resource(Arc<ResourceEntry>),
    Template(Arc<TemplateEntry>, Variables),
}

impl Reader {
    pub(super) fn find(
        resources: &List<ResourceEntry>,
        templates: &List<TemplateEntry>,
        uri: &str,
    ) -> Option<Self> {
        if let Some(resource) = resources.get(uri) {
            return Some(Self::Resource(resource.clone()));
        }
        let mut found: Option<(&Arc<TemplateEntry>, Variables)> = None;
        for entry in templates.iter() {
            if found.as_ref().is_some_and(|(best, _)| best.template.literal() >= entry.template.literal()) {
                continue;
            }
            if let Some(variables) = entry.template.matches(uri) {
                found = Some((entry, variables));
            }
        }
        found.map(|(entry, variables)| Self::Template(entry.clone(), variables))
    }

    pub(super) async fn read(self, uri: String, cx: Context) -> Result<Reply, ErrorObject> {
        let (read, variables) = match &self {
            Self::Resource(entry) => (&entry.read, Variables::new()),
            Self::Template(entry, variables) => (&entry.read, variables.clone()),
        };
        let request = ReadRequest { uri, variables };
        let read = async |cx| read(request.clone(), cx).await.or_else(HandlerError::into_reply);
        run_in_rounds(cx, read).await
    }
}

/// Returns the error for a resource that does not exist, with the code of the legacy era. The session replaces the code
/// in the modern era.
pub(super) fn not_found(uri: &str) -> ErrorObject {
    let data = Raw::from_value(&std::collections::BTreeMap::from([("uri", uri)]));
    let error = ErrorObject::new(code::RESOURCE_NOT_FOUND, "resource not found");
    match data {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

/// Returns the same error with the code of the revision.
pub(super) fn not_found_in(profile: &Profile, uri: &str) -> ErrorObject {
    ErrorObject { code: profile.resource_not_found, ..not_found(uri) }
}

/// Returns the URI of a request about one resource.
pub(super) fn uri(params: Option<&Payload>) -> Result<String, ErrorObject> {
    let uri = params.and_then(Payload::uri).ok_or_else(|| ErrorObject::invalid_params("`uri` is missing"))?;
    match uri.to_string_value() {
        Some(text) if uri.kind() == Kind::String => Ok(text.into_owned()),
        _ => Err(ErrorObject::invalid_params("`uri` is not a string")),
    }
}
