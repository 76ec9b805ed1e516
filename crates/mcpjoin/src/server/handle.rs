//! Changes what a server offers while it runs.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcpjoin_proto::types::{Resource, Tool};
use mcpjoin_proto::{Method, Raw};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::prompts::PromptEntry;
use super::resources::{ResourceEntry, TemplateEntry};
use super::schema::Inputs;
use super::subscription::ChangedList;
use super::tools::ToolEntry;
use super::{
    BuildError, Context, Offer, PromptDescription, PromptOutput, ReadRequest, ResourceOutput,
    ResourceTemplateDescription, Shared, ToolOutput, TypedTool,
};

/// Changes what a server offers, and notifies the clients that listen for changes. Cheap to clone. Returned by
/// [`Server::handle`](super::Server::handle) and [`Context::server`].
///
/// A list can be changed only if the server declares that it changes
/// ([`ServerBuilder::dynamic_tools`](super::ServerBuilder::dynamic_tools) and its siblings): clients may keep any other
/// list.
///
/// ```
/// use mcpjoin::server::{NoArguments, Server, tool};
///
/// let server = Server::builder("plugins", "1.0.0").dynamic_tools().build()?;
/// server.handle().add_tool(tool("new"), |_: NoArguments, _| async { "added while the server runs" })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ServerHandle(Arc<Shared>);

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The server does not declare that this list changes.
    #[error("the server does not declare that its list of {0} changes")]
    Fixed(&'static str),
    /// The new entry is not valid.
    #[error(transparent)]
    Entry(#[from] BuildError),
}

impl ServerHandle {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    fn check(&self, list: ChangedList) -> Result<(), ChangeError> {
        let capabilities = &self.0.role.capabilities;
        let (declared, name) = match list {
            ChangedList::Tools => (capabilities.tools.as_ref().and_then(|c| c.list_changed), "tools"),
            ChangedList::Resources => {
                (capabilities.resources.as_ref().and_then(|c| c.list_changed), "resources")
            }
            ChangedList::Prompts => (capabilities.prompts.as_ref().and_then(|c| c.list_changed), "prompts"),
        };
        if declared == Some(true) { Ok(()) } else { Err(ChangeError::Fixed(name)) }
    }

    fn notify(&self, list: ChangedList) {
        self.0.changes.fetch_add(1, Ordering::Release);
        self.0.each_connection(&|outbox| outbox.list_changed(list));
    }

    /// Removes an entry, and notifies clients if it existed.
    fn remove(
        &self,
        list: ChangedList,
        remove: impl FnOnce(&mut Offer) -> bool,
    ) -> Result<bool, ChangeError> {
        self.check(list)?;
        let removed = remove(&mut self.0.offer.write());
        if removed {
            self.notify(list);
        }
        Ok(removed)
    }

    /// Adds a tool, or replaces the tool with its name.
    ///
    /// # Errors
    /// [`ChangeError`] if the server does not declare that its tools change, or if the arguments are not an object.
    pub fn add_tool<A, F, Fut>(&self, tool: TypedTool<A>, f: F) -> Result<(), ChangeError>
    where
        A: DeserializeOwned + JsonSchema + 'static,
        F: Fn(A, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        self.check(ChangedList::Tools)?;
        self.put_tool(ToolEntry::typed(tool, &mut Inputs::default(), f)?)
    }

    /// Adds a tool whose arguments stay JSON, or replaces the tool with its name.
    ///
    /// # Errors
    /// [`ChangeError`] if the server does not declare that its tools change, or if the schema is not that of an object.
    pub fn add_raw_tool<F, Fut>(&self, tool: Tool, f: F) -> Result<(), ChangeError>
    where
        F: Fn(Raw, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        self.check(ChangedList::Tools)?;
        self.put_tool(ToolEntry::new(tool, f)?)
    }

    fn put_tool(&self, entry: ToolEntry) -> Result<(), ChangeError> {
        if entry.mode.tasks.methods.is_some() && !self.0.offers_tasks() {
            return Err(ChangeError::Fixed("extensions (tasks)"));
        }
        let name = entry.name().to_owned();
        self.0.offer.write().tools.insert(&name, entry);
        self.notify(ChangedList::Tools);
        Ok(())
    }

    /// Removes a tool, and returns whether it existed. Calls in progress continue.
    ///
    /// # Errors
    /// [`ChangeError`] if the server does not declare that its tools change.
    pub fn remove_tool(&self, name: &str) -> Result<bool, ChangeError> {
        self.remove(ChangedList::Tools, |offer| offer.tools.remove(name))
    }

    /// Adds a resource, or replaces the resource with its URI.
    ///
    /// # Errors
    /// [`ChangeError`] if the server does not declare that its resources change.
    pub fn add_resource<F, Fut>(&self, resource: Resource, f: F) -> Result<(), ChangeError>
    where
        F: Fn(ReadRequest, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ResourceOutput> + Send + 'static,
    {
        self.check(ChangedList::Resources)?;
        let entry = ResourceEntry::new(&resource, f)?;
        self.0.offer.write().resources.insert(&resource.uri, entry);
        self.notify(ChangedList::Resources);
        Ok(())
    }

    /// Adds a resource template, or replaces the same template.
    ///
    /// # Errors
    /// [`ChangeError`] if the server does not declare that its resources change, or if the template is not valid.
    pub fn add_resource_template<T, F, Fut>(&self, template: T, f: F) -> Result<(), ChangeError>
    where
        T: ResourceTemplateDescription,
        F: Fn(T::Input, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ResourceOutput> + Send + 'static,
    {
        self.check(ChangedList::Resources)?;
        let entry = TemplateEntry::new(template, f)?;
        let uri_template = entry.uri_template().to_owned();
        self.0.offer.write().templates.insert(&uri_template, entry);
        self.notify(ChangedList::Resources);
        Ok(())
    }

    /// Removes a resource or a resource template, and returns whether it existed.
    ///
    /// # Errors
    /// [`ChangeError`] if the server does not declare that its resources change.
    pub fn remove_resource(&self, uri: &str) -> Result<bool, ChangeError> {
        self.remove(ChangedList::Resources, |offer| {
            offer.resources.remove(uri) || offer.templates.remove(uri)
        })
    }

    /// Adds a prompt, or replaces the prompt with its name.
    ///
    /// # Errors
    /// [`ChangeError`] if the server does not declare that its prompts change, or if the arguments are no struct.
    pub fn add_prompt<P, F, Fut>(&self, prompt: P, f: F) -> Result<(), ChangeError>
    where
        P: PromptDescription,
        F: Fn(P::Arguments, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: PromptOutput> + Send + 'static,
    {
        self.check(ChangedList::Prompts)?;
        let entry = PromptEntry::new(prompt, f)?;
        let name = entry.name().to_owned();
        self.0.offer.write().prompts.insert(&name, entry);
        self.notify(ChangedList::Prompts);
        Ok(())
    }

    /// Removes a prompt, and returns whether it existed.
    ///
    /// # Errors
    /// [`ChangeError`] if the server does not declare that its prompts change.
    pub fn remove_prompt(&self, name: &str) -> Result<bool, ChangeError> {
        self.remove(ChangedList::Prompts, |offer| offer.prompts.remove(name))
    }

    /// Notifies all listening clients that the list of tools has changed, for a server with a
    /// [`handler`](super::ServerBuilder::handler) of its own. Several changes may be sent as one.
    ///
    /// # Errors
    /// [`ChangeError`] if the server does not declare that its tools change.
    pub fn notify_tools_changed(&self) -> Result<(), ChangeError> {
        self.check(ChangedList::Tools)?;
        self.notify(ChangedList::Tools);
        Ok(())
    }

    /// Returns whether any client would be notified of changed tools: a legacy client with an open session, or a modern
    /// one that listens.
    #[doc(hidden)]
    #[must_use]
    pub fn has_tool_listeners(&self) -> bool {
        self.0.any_connection(&|connection| connection.has_listener(&Method::ToolListChanged, None))
    }

    /// Notifies all clients that are subscribed to this resource, or to one that contains it, of a change. Several
    /// changes of one resource may be sent as one. Does nothing if the server was built without
    /// [`subscriptions`](super::ServerBuilder::subscriptions).
    pub fn notify_resource_updated(&self, uri: &str) {
        self.0.resource_updated(uri);
    }
}

impl std::fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.role.info.name.fmt(f)
    }
}
