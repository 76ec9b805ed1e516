//! Resources and resource templates: listed and read.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources>. A URI is looked up in the resources
//! first. Otherwise the matching template with the most literal text is used.

use std::fmt;
use std::future::{Future, ready};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{Members, ProtocolType, Resource, ResourceTemplate};
use mcpjoin_proto::{ErrorObject, Kind, Payload, Profile, Raw, code};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::input::run_in_rounds;
use super::list::List;
use super::output::write_offloaded;
use super::template::{Template, Variables};
use super::{BuildError, Context, HandlerError, ResourceOutput, texts};

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

/// Describes resources whose URIs match a template
/// ([`ServerBuilder::resource_template`](super::ServerBuilder::resource_template)) and whose variables are the Rust type
/// `V`, a struct, usually inferred from the first parameter of the handler.
///
/// Each field has the name of a variable, and is a text, a number, a boolean or an enum without values. A URI whose values
/// do not fit never reaches the handler: the client receives -32602 with the name of the variable. A client chooses the
/// values: a text may contain `../`.
///
/// ```
/// use mcpjoin::server::{Server, resource_template};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct NoteId { id: u64 }
///
/// let note = resource_template("note://{id}", "note").description("A note").mime_type("text/plain");
/// let server = Server::builder("notes", "1.0.0")
///     .resource_template(note, |NoteId { id }, _| async move { format!("the text of note {id}") })
///     .build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
#[must_use]
pub fn resource_template<V>(
    uri_template: impl Into<String>,
    name: impl Into<String>,
) -> TypedResourceTemplate<V> {
    TypedResourceTemplate { template: ResourceTemplate::new(uri_template, name), variables: PhantomData }
}

/// The description of resources with typed variables in their URIs. Created by [`resource_template`].
pub struct TypedResourceTemplate<V> {
    template: ResourceTemplate,
    variables: PhantomData<fn(V)>,
}

impl<V> TypedResourceTemplate<V> {
    /// Sets the description.
    #[must_use]
    pub fn description(self, description: impl Into<String>) -> Self {
        self.describe(|template| template.with_description(description))
    }

    /// Sets the display name.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        self.describe(|template| template.with_title(title))
    }

    /// Sets the media type of all these resources.
    #[must_use]
    pub fn mime_type(self, mime_type: impl Into<String>) -> Self {
        self.describe(|template| template.with_mime_type(mime_type))
    }

    /// Changes any other part of the description: icons, annotations, `_meta`.
    #[must_use]
    pub fn describe(mut self, change: impl FnOnce(ResourceTemplate) -> ResourceTemplate) -> Self {
        self.template = change(self.template);
        self
    }
}

impl<V> fmt::Debug for TypedResourceTemplate<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.template.fmt(f)
    }
}

/// What describes a resource template to
/// [`ServerBuilder::resource_template`](super::ServerBuilder::resource_template): [`resource_template`] with the type of
/// its variables, or a [`ResourceTemplate`] whose handler receives a [`ReadRequest`]. Implemented by these two; its functions
/// are called by the builder alone.
pub trait ResourceTemplateDescription {
    /// What the handler receives.
    type Input: 'static;

    /// Returns the description for clients, and the names of the variables that the handler needs.
    ///
    /// # Errors
    /// [`BuildError`] if the type of the variables is no struct.
    #[doc(hidden)]
    fn into_template(self) -> Result<(ResourceTemplate, Vec<String>), BuildError>;

    /// Decodes the variables of a URI.
    ///
    /// # Errors
    /// [`ErrorObject`] for the client, if a value does not fit.
    #[doc(hidden)]
    fn decode(request: ReadRequest) -> Result<Self::Input, ErrorObject>;
}

impl ResourceTemplateDescription for ResourceTemplate {
    type Input = ReadRequest;

    fn into_template(self) -> Result<(ResourceTemplate, Vec<String>), BuildError> {
        Ok((self, Vec::new()))
    }

    fn decode(request: ReadRequest) -> Result<ReadRequest, ErrorObject> {
        Ok(request)
    }
}

impl<V: DeserializeOwned + JsonSchema + 'static> ResourceTemplateDescription for TypedResourceTemplate<V> {
    type Input = V;

    fn into_template(self) -> Result<(ResourceTemplate, Vec<String>), BuildError> {
        match texts::fields::<V>() {
            Some(fields) => Ok((self.template, fields.into_iter().map(|field| field.name).collect())),
            None => Err(BuildError::VariablesAreNoStruct { template: self.template.uri_template }),
        }
    }

    fn decode(request: ReadRequest) -> Result<V, ErrorObject> {
        texts::decode(request.variables).map_err(ErrorObject::invalid_params)
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
    uri_template: String,
    template: Template,
    read: Box<Read>,
}

fn read_with<I, F, Fut>(
    mime_type: Option<String>,
    decode: fn(ReadRequest) -> Result<I, ErrorObject>,
    f: F,
) -> Box<Read>
where
    I: 'static,
    F: Fn(I, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: ResourceOutput> + Send + 'static,
{
    let mime_type: Option<Arc<str>> = mime_type.map(Into::into);
    Box::new(move |request, cx| {
        let (uri, mime_type) = (request.uri.clone(), mime_type.clone());
        let input = match decode(request) {
            Ok(input) => input,
            Err(error) => return Box::pin(ready(Err(HandlerError::protocol(error)))),
        };
        let future = f(input, cx.clone());
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
        Ok(Self { shown, read: read_with(resource.mime_type.clone(), Ok, f) })
    }
}

impl TemplateEntry {
    pub(super) fn new<T, F, Fut>(template: T, f: F) -> Result<Self, BuildError>
    where
        T: ResourceTemplateDescription,
        F: Fn(T::Input, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ResourceOutput> + Send + 'static,
    {
        let (description, needed) = template.into_template()?;
        let shown = super::description_json(&description.uri_template, &description)?;
        let (uri_template, mime_type) = (description.uri_template, description.mime_type);
        let template = match Template::parse(&uri_template) {
            Ok(template) => template,
            Err(problem) => return Err(BuildError::Template { template: uri_template, problem }),
        };
        if let Some(variable) = needed.into_iter().find(|name| !template.has(name)) {
            return Err(BuildError::UnknownVariable { template: uri_template, variable });
        }
        Ok(Self { shown, uri_template, template, read: read_with(mime_type, T::decode, f) })
    }

    pub(super) fn uri_template(&self) -> &str {
        &self.uri_template
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
            if found.as_ref().is_some_and(|(best, _)| best.template.precision() >= entry.template.precision())
            {
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
    let data = Members::new().with("uri", Raw::string(uri)).to_raw();
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
