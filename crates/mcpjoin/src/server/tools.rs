//! Tools: a name, arguments and a function. Listed and called.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/tools>. A call with invalid arguments returns a
//! result with `isError`, for the model to read. A call of an unknown tool is an error (-32602).

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, ready};
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "http-server")]
use mcpjoin_proto::http::params::{HeaderMark, header_marks};
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{
    CallToolResult, Content, InputRequired, ProtocolType, TaskSupport, Tool, ToolAnnotations, ToolExecution,
    meta::key,
};
use mcpjoin_proto::{ErrorObject, Kind, Payload, Profile, Raw};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::input::emulate_rounds;
use super::output::write_offloaded;
use super::schema_profile::{ChosenProfile, MAX_PROFILES};
use super::task::{self, TaskMethods};
#[cfg(feature = "json-schema")]
use super::validation::{Refused, Validator};
use super::{BuildError, Context, HandlerError, ToolOutput, ToolReply, encode, schema};
use crate::handler::ResponseFuture;

/// Describes a tool whose arguments are the Rust type `A`, usually inferred from the first parameter of its handler.
///
/// ```
/// use mcpjoin::server::tool;
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
/// let add = tool::<Add>("add").description("Adds two numbers").read_only();
/// # drop(add);
/// ```
#[must_use]
pub fn tool<A>(name: impl Into<String>) -> TypedTool<A> {
    let tool = Tool::new(name, Raw::empty_object());
    TypedTool { tool, mode: ToolMode::default(), arguments: PhantomData }
}

/// The description of a tool. Created by [`tool`].
pub struct TypedTool<A> {
    tool: Tool,
    mode: ToolMode,
    arguments: PhantomData<fn(A)>,
}

/// How a tool is called.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ToolMode {
    pub(super) tasks: TaskMode,
    /// The handler runs in the task of its connection on every runtime.
    pub(super) inline: bool,
    /// The arguments are validated against the schema.
    #[cfg(feature = "json-schema")]
    validates: bool,
}

/// How a tool uses tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TaskMode {
    /// Set if it does: the server must declare tasks for this tool.
    pub(super) methods: Option<&'static TaskMethods>,
    /// Each call is a task from its start.
    pub(super) whole: bool,
    /// Clients without tasks are refused.
    pub(super) required: bool,
}

impl TaskMode {
    /// Returns the declared support where a client asks for a task with its call. A tool that requires tasks and starts
    /// them itself is a task from its start there.
    pub(super) const fn support(self) -> Option<TaskSupport> {
        match (self.required, self.whole) {
            (true, _) => Some(TaskSupport::Required),
            (false, true) => Some(TaskSupport::Optional),
            (false, false) => None,
        }
    }
}

/// The arguments of a tool that takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, JsonSchema)]
pub struct NoArguments {}

impl<A> TypedTool<A> {
    /// Sets the description, for the model.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.tool = self.tool.with_description(description);
        self
    }

    /// Sets the display name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.tool = self.tool.with_title(title);
        self
    }

    /// Sets the annotations: what the tool does to its environment.
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.tool = self.tool.with_annotations(annotations);
        self
    }

    /// Declares that the tool changes nothing: the annotation `readOnlyHint`.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        let annotations = self.tool.annotations.take().unwrap_or_default();
        self.annotations(annotations.with_read_only_hint(true))
    }

    /// Changes any other part of the description: icons, `_meta`.
    #[must_use]
    pub fn describe(mut self, change: impl FnOnce(Tool) -> Tool) -> Self {
        self.tool = change(self.tool);
        self
    }

    /// Runs the handler in the task of its connection on every runtime, for a handler that neither blocks nor computes for
    /// long. See [`ServerBuilder::inline_handlers`](super::ServerBuilder::inline_handlers).
    #[must_use]
    pub const fn inline(mut self) -> Self {
        self.mode.inline = true;
        self
    }

    /// Validates the arguments of each call against the tool's schema, before they are decoded: ranges, lengths and patterns
    /// (`#[schemars(range(min = 1))]`) are promises to the model that decoding does not check. See
    /// [`ServerBuilder::validate_arguments`](super::ServerBuilder::validate_arguments), which does so for all tools.
    ///
    /// ```
    /// use mcpjoin::server::{Server, tool};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Page {
    ///     #[schemars(range(min = 1))]
    ///     number: u32,
    /// }
    ///
    /// let server = Server::builder("book", "1.0.0")
    ///     .tool(tool("read").validate_arguments(), |page: Page, _| async move { page.number.to_string() })
    ///     .build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    #[cfg(feature = "json-schema")]
    #[must_use]
    pub const fn validate_arguments(mut self) -> Self {
        self.mode.validates = true;
        self
    }

    /// Runs each call as a task, for clients that accept tasks: those with the extension
    /// `io.modelcontextprotocol/tasks`, and those of 2025-11-25 that ask for a task (`execution.taskSupport` is
    /// `optional`). All other clients wait for the result.
    ///
    /// A tool that first has to ask its client for input starts its task itself: [`Context::start_task`].
    #[must_use]
    pub const fn as_task(mut self) -> Self {
        self.mode.tasks.methods = Some(&task::METHODS);
        self.mode.tasks.whole = true;
        self
    }

    /// Refuses clients that could only wait for the result, for a tool that takes too long for that.
    ///
    /// A client of the modern era without the extension for tasks gets the error -32021. A client of 2025-11-25 that
    /// does not ask for a task (`execution.taskSupport` is `required`) gets -32601. Clients of older revisions, which
    /// have no tasks, wait.
    #[must_use]
    pub const fn requires_tasks(mut self) -> Self {
        self.mode.tasks.methods = Some(&task::METHODS);
        self.mode.tasks.required = true;
        self
    }
}

impl<A: JsonSchema + 'static> TypedTool<A> {
    /// Adds the schemas of the arguments and of the output.
    fn finish<O: ToolOutput>(&mut self, inputs: &mut schema::Inputs) -> Result<schema::Input, BuildError> {
        if self.tool.output_schema.is_none() {
            self.tool.output_schema = O::output_schema();
        }
        inputs.of::<A>().ok_or_else(|| BuildError::ArgumentsAreNoObject { tool: self.tool.name.clone() })
    }
}

impl<A> fmt::Debug for TypedTool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tool.fmt(f)
    }
}

/// Whether the client of a request may see and call a tool.
pub(super) type VisibleTools = dyn Fn(&Context, &Tool) -> bool + Send + Sync;

type ToolCall = dyn Fn(Arc<ToolEntry>, Context) -> ResponseFuture + Send + Sync;

/// A registered tool.
pub(super) struct ToolEntry {
    /// Its description.
    tool: Tool,
    /// The schema of its arguments, if it was derived and is not part of `tool`.
    input: Option<schema::Input>,
    call: Box<ToolCall>,
    pub(super) mode: ToolMode,
    /// Structured results are wrapped in an object, where the revision requires an object.
    wraps: bool,
    /// The arguments that clients repeat in headers over HTTP. Computed when they are first needed.
    #[cfg(feature = "http-server")]
    header_marks: OnceLock<Arc<[HeaderMark]>>,
    /// Its compiled schema. Compiled when arguments are first validated.
    #[cfg(feature = "json-schema")]
    validator: Validator,
    /// Its entries in lists. Encoded when they are first needed.
    listings: OnceLock<Listings>,
    /// The same for each profile of schemas that is in use.
    simpler_listings: OnceLock<Box<[OnceLock<Listings>; MAX_PROFILES]>>,
}

/// The entry of a tool in the list, for each kind of revision.
struct Listings {
    /// Structured results may be any value.
    any: Raw,
    /// Structured results are objects.
    objects: Raw,
    /// Structured results are objects, and there is support for tasks.
    as_task: Raw,
    /// There are no structured results.
    none: Raw,
}

impl ToolEntry {
    pub(super) fn new<F, Fut>(tool: Tool, f: F) -> Result<Self, BuildError>
    where
        F: Fn(Raw, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        if !schema::is_of_object(&tool.input_schema) {
            return Err(BuildError::ArgumentsAreNoObject { tool: tool.name });
        }
        let call = Box::new(move |entry, cx: Context| {
            let future = f(arguments(cx.params()), cx.clone());
            Self::answer(entry, cx, future)
        });
        Ok(Self::of(tool, None, ToolMode::default(), call))
    }

    pub(super) fn typed<A, F, Fut>(
        mut tool: TypedTool<A>,
        inputs: &mut schema::Inputs,
        f: F,
    ) -> Result<Self, BuildError>
    where
        A: DeserializeOwned + JsonSchema + 'static,
        F: Fn(A, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        let input = tool.finish::<Fut::Output>(inputs)?;
        let call = Box::new(move |entry: Arc<Self>, cx: Context| -> ResponseFuture {
            let arguments = match cx.params() {
                Some(params) => params.decode_arguments::<A>(),
                None => Raw::empty_object().decode::<A>(),
            };
            match arguments {
                Ok(arguments) => {
                    let future = f(arguments, cx.clone());
                    Self::answer(entry, cx, future)
                }
                Err(problem) => Box::pin(ready(entry.refuse_arguments(&cx, &problem))),
            }
        });
        Ok(Self::of(tool.tool, Some(input), tool.mode, call))
    }

    fn of(tool: Tool, input: Option<schema::Input>, mode: ToolMode, call: Box<ToolCall>) -> Self {
        let wraps = tool.output_schema.as_ref().is_some_and(|output| !schema::is_of_object(output));
        Self {
            tool,
            input,
            call,
            mode,
            wraps,
            #[cfg(feature = "http-server")]
            header_marks: OnceLock::new(),
            #[cfg(feature = "json-schema")]
            validator: Validator::default(),
            listings: OnceLock::new(),
            simpler_listings: OnceLock::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.tool.name
    }

    /// Returns its description, without a derived schema.
    pub(super) const fn description(&self) -> &Tool {
        &self.tool
    }

    /// Returns the schema of its arguments.
    fn input_schema(&self) -> Raw {
        self.input.as_ref().map_or_else(|| self.tool.input_schema.clone(), schema::Input::write)
    }

    /// Encodes the list entries. Done on demand, so that a server with many tools starts fast.
    fn write_listings(&self, schemas: Option<ChosenProfile>) -> Listings {
        let mut tool = self.tool.clone();
        tool.input_schema = self.input_schema();
        if let Some(schemas) = schemas {
            tool.input_schema = schemas.input(&tool.input_schema);
        }
        let mut with = |output: Option<Raw>, execution: Option<ToolExecution>| {
            tool.output_schema = match schemas {
                Some(schemas) => output.map(|output| schemas.output(&output)),
                None => output,
            };
            tool.execution = execution;
            tool.to_raw().expect("a tool is texts, JSON and booleans, which all have a text")
        };
        let own = self.tool.execution.clone();
        let none = with(None, own.clone());
        let output = self.tool.output_schema.as_ref();
        let object =
            output.and_then(|output| if self.wraps { schema::wrapped(output) } else { Some(output.clone()) });
        let any = output.map_or_else(|| none.clone(), |output| with(Some(output.clone()), own.clone()));
        let objects = match &object {
            Some(object) if self.wraps => with(Some(object.clone()), own),
            Some(_) => any.clone(),
            None => none.clone(),
        };
        let as_task = match self.mode.tasks.support() {
            Some(support) => with(object, Some(ToolExecution::default().with_task_support(support))),
            None => objects.clone(),
        };
        Listings { any, objects, as_task, none }
    }

    /// Returns the arguments that clients repeat in headers over HTTP: none if the marks are invalid, because clients
    /// skip such a tool.
    #[cfg(feature = "http-server")]
    pub(super) fn header_marks(&self) -> &Arc<[HeaderMark]> {
        self.header_marks.get_or_init(|| header_marks(&self.input_schema()).unwrap_or_default().into())
    }

    /// Returns its list entry for a revision, with schemas of this profile.
    pub(super) fn show(&self, profile: &Profile, schemas: Option<ChosenProfile>) -> Raw {
        let listings = match schemas {
            None => &self.listings,
            Some(schemas) => {
                let all =
                    self.simpler_listings.get_or_init(|| Box::new([const { OnceLock::new() }; MAX_PROFILES]));
                &all[schemas.number()]
            }
        };
        let listings = listings.get_or_init(|| self.write_listings(schemas));
        match profile {
            profile if profile.structured_any => listings.any.clone(),
            profile if profile.core_tasks => listings.as_task.clone(),
            profile if profile.structured_content => listings.objects.clone(),
            _ => listings.none.clone(),
        }
    }

    /// Calls the tool, and emulates rounds if it requests input and the client does not repeat its request.
    pub(super) fn call(self: Arc<Self>, cx: Context) -> ResponseFuture {
        let entry = self.clone();
        #[cfg(feature = "json-schema")]
        if (self.mode.validates || cx.0.server.validates_arguments) && cx.0.emulated.is_none() {
            // In the future and not before, so that it runs in the task of the handler.
            return Box::pin(async move {
                match entry.validator.check(|| entry.input_schema(), &arguments(cx.params())) {
                    Ok(()) => (self.call)(entry, cx).await,
                    Err(Refused::Arguments(problem)) => entry.refuse_arguments(&cx, &problem),
                    Err(Refused::Schema(problem)) => {
                        Err(ErrorObject::internal(format!("the tool {}: {problem}", entry.name())))
                    }
                }
            });
        }
        (self.call)(entry, cx)
    }

    /// Returns the result for arguments that are not valid, for the model to read.
    fn refuse_arguments(&self, cx: &Context, problem: &dyn fmt::Display) -> Result<Reply, ErrorObject> {
        let failed = CallToolResult::error(format!("invalid arguments: {problem}"));
        self.finish(cx.profile(), Ok(ToolReply::Result(failed)))
    }

    /// Turns the handler's future into a response. One box for everything, as each call needs one.
    fn answer<Fut>(entry: Arc<Self>, cx: Context, future: Fut) -> ResponseFuture
    where
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        Box::pin(async move {
            let (output, profile) = (future.await, cx.profile());
            let written = match cx.offload_permit(output.size_hint()) {
                None => entry.finish(profile, output.into_tool_reply()),
                Some(place) => {
                    // Boxed: few calls come here, and the others do not need the memory.
                    let entry = entry.clone();
                    let write = move || {
                        let written = entry.finish(profile, output.into_tool_reply());
                        drop(place);
                        written
                    };
                    Box::pin(write_offloaded(write)).await
                }
            };
            match written {
                // Boxed: few calls come here, and the others do not need the memory.
                Ok(Reply::NeedInput(input)) if cx.starts_emulated_rounds() => {
                    Box::pin(entry.emulate_rounds(cx, *input)).await
                }
                outcome => outcome,
            }
        })
    }

    async fn emulate_rounds(
        self: Arc<Self>,
        cx: Context,
        input: InputRequired,
    ) -> Result<Reply, ErrorObject> {
        let profile = cx.profile();
        let emulated_rounds = emulate_rounds(cx, input, |cx| self.clone().call(cx)).await;
        emulated_rounds.or_else(|error| self.finish(profile, Err(error)))
    }

    /// Encodes the output of a handler for the revision.
    fn finish(
        &self,
        profile: &Profile,
        outcome: Result<ToolReply, HandlerError>,
    ) -> Result<Reply, ErrorObject> {
        written(outcome.map(|mut reply| {
            if let ToolReply::Result(result) = &mut reply {
                self.adapt(profile, result);
            }
            reply
        }))
    }

    /// Replaces what only newer revisions have.
    fn adapt(&self, profile: &Profile, result: &mut CallToolResult) {
        if let Some(value) = &result.structured_content {
            if !profile.structured_content {
                result.structured_content = None;
            } else if !profile.structured_any && (self.wraps || value.kind() != Kind::Object) {
                result.structured_content = schema::wrap(value);
                if let Ok(yes) = Raw::from_value(&true) {
                    let meta = result.meta.take().unwrap_or_default();
                    result.meta = Some(meta.with(key::WRAPPED_RESULT, yes));
                }
            }
        }
        adapt_content(profile, &mut result.content);
    }
}

/// Replaces content that the revision does not have with a text that describes it.
pub fn adapt_content(profile: &Profile, content: &mut [Content]) {
    if profile.audio && profile.resource_links {
        return;
    }
    for content in content {
        let text = match content {
            Content::ResourceLink(link) if !profile.resource_links => link.uri.clone(),
            Content::Audio(audio) if !profile.audio => format!("[sound of type {}]", audio.mime_type),
            _ => continue,
        };
        *content = Content::text(text);
    }
}

/// Encodes the output of a handler for the newest revision, which has everything.
pub(crate) fn written(outcome: Result<ToolReply, HandlerError>) -> Result<Reply, ErrorObject> {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(error) => error.into_tool_reply()?,
    };
    match reply {
        ToolReply::Reply(reply) => Ok(reply),
        ToolReply::Result(result) => encode(&result).map(Reply::Complete),
    }
}

/// Returns the name of the called tool, after checking that the arguments are an object.
pub(super) fn name(params: Option<&Payload>) -> Result<Cow<'_, str>, ErrorObject> {
    let params = params.ok_or_else(|| ErrorObject::invalid_params("`params` is missing"))?;
    let name = params.name_string().ok_or_else(|| {
        let problem = if params.name().is_some() { "`name` is not a string" } else { "`name` is missing" };
        ErrorObject::invalid_params(problem)
    })?;
    match params.arguments_kind() {
        None | Some(Kind::Object | Kind::Null) => Ok(name),
        Some(_) => Err(ErrorObject::invalid_params("`arguments` is not an object")),
    }
}

/// Returns the arguments of a call. Without arguments, or with `null`, an empty object.
fn arguments(params: Option<&Payload>) -> Raw {
    let arguments = params.and_then(Payload::arguments);
    arguments.filter(|arguments| arguments.kind() == Kind::Object).unwrap_or_else(Raw::empty_object)
}
