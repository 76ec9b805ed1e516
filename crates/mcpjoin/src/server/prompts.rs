//! Prompts: listed, and returned with their arguments filled in.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/prompts>. Arguments are strings. A missing required
//! argument is an error (-32602) that names it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, ready};
use std::marker::PhantomData;
use std::pin::Pin;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{Prompt, PromptArgument};
use mcpjoin_proto::{ErrorObject, Raw};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::input::run_in_rounds;
use super::{BuildError, Context, HandlerError, PromptOutput, texts};

/// The arguments of a prompt, by name.
pub type PromptArguments = BTreeMap<String, String>;

/// Describes a prompt whose arguments are the Rust type `A`, a struct, usually inferred from the first parameter of its
/// handler.
///
/// The names, the descriptions and which arguments are required come from the schema of the type. A client sends every
/// value as a text, so a field is a text, a number, a boolean, an enum without values, or an [`Option`] of these. Values
/// that do not fit never reach the handler: the client receives -32602 with the name of the argument.
///
/// ```
/// use mcpjoin::server::{Server, prompt};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Review {
///     /// The code to review.
///     code: String,
///     /// The maximum number of remarks.
///     limit: Option<u32>,
/// }
///
/// let server = Server::builder("reviewer", "1.0.0")
///     .prompt(prompt("review").description("Reviews code"), |review: Review, _| async move {
///         format!("Review this code with at most {} remarks: {}", review.limit.unwrap_or(10), review.code)
///     })
///     .build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
#[must_use]
pub fn prompt<A>(name: impl Into<String>) -> TypedPrompt<A> {
    TypedPrompt { prompt: Prompt::new(name), arguments: PhantomData }
}

/// The description of a prompt with typed arguments. Created by [`prompt`].
pub struct TypedPrompt<A> {
    prompt: Prompt,
    arguments: PhantomData<fn(A)>,
}

impl<A> TypedPrompt<A> {
    /// Sets the description.
    #[must_use]
    pub fn description(self, description: impl Into<String>) -> Self {
        self.describe(|prompt| prompt.with_description(description))
    }

    /// Sets the display name.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        self.describe(|prompt| prompt.with_title(title))
    }

    /// Changes any other part of the description: icons, `_meta`.
    #[must_use]
    pub fn describe(mut self, change: impl FnOnce(Prompt) -> Prompt) -> Self {
        self.prompt = change(self.prompt);
        self
    }
}

impl<A> fmt::Debug for TypedPrompt<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.prompt.fmt(f)
    }
}

/// What describes a prompt to [`ServerBuilder::prompt`](super::ServerBuilder::prompt): [`prompt`] with the type of its
/// arguments, or a [`Prompt`] whose handler receives texts ([`PromptArguments`]). Implemented by these two; its functions are
/// called by the builder alone.
pub trait PromptDescription {
    /// What the handler receives.
    type Arguments: 'static;

    /// Returns the description for clients.
    ///
    /// # Errors
    /// [`BuildError`] if the type of the arguments is no struct.
    #[doc(hidden)]
    fn into_prompt(self) -> Result<Prompt, BuildError>;

    /// Decodes the arguments.
    ///
    /// # Errors
    /// [`ErrorObject`] for the client, if a value does not fit.
    #[doc(hidden)]
    fn decode(arguments: PromptArguments) -> Result<Self::Arguments, ErrorObject>;
}

impl PromptDescription for Prompt {
    type Arguments = PromptArguments;

    fn into_prompt(self) -> Result<Prompt, BuildError> {
        Ok(self)
    }

    fn decode(arguments: PromptArguments) -> Result<PromptArguments, ErrorObject> {
        Ok(arguments)
    }
}

impl<A: DeserializeOwned + JsonSchema + 'static> PromptDescription for TypedPrompt<A> {
    type Arguments = A;

    fn into_prompt(self) -> Result<Prompt, BuildError> {
        let Some(fields) = texts::fields::<A>() else {
            return Err(BuildError::PromptArgumentsAreNoStruct { prompt: self.prompt.name });
        };
        let argument = |field: texts::Field| {
            let mut argument = PromptArgument::new(field.name).with_required(field.is_required);
            (argument.title, argument.description) = (field.title, field.description);
            argument
        };
        let arguments: Vec<PromptArgument> = fields.into_iter().map(argument).collect();
        Ok(if arguments.is_empty() { self.prompt } else { self.prompt.with_arguments(arguments) })
    }

    fn decode(arguments: PromptArguments) -> Result<A, ErrorObject> {
        texts::decode(arguments).map_err(ErrorObject::invalid_params)
    }
}

type PromptFuture = Pin<Box<dyn Future<Output = Result<Reply, HandlerError>> + Send>>;

/// A registered prompt.
pub(super) struct PromptEntry {
    pub(super) shown: Raw,
    name: String,
    required: Vec<Box<str>>,
    get: Box<dyn Fn(PromptArguments, Context) -> PromptFuture + Send + Sync>,
}

impl PromptEntry {
    pub(super) fn new<P, F, Fut>(prompt: P, f: F) -> Result<Self, BuildError>
    where
        P: PromptDescription,
        F: Fn(P::Arguments, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: PromptOutput> + Send + 'static,
    {
        let prompt = prompt.into_prompt()?;
        let required = prompt
            .arguments
            .iter()
            .flatten()
            .filter(|argument| argument.required == Some(true))
            .map(|argument| argument.name.as_str().into())
            .collect();
        let get = Box::new(move |arguments: PromptArguments, cx: Context| -> PromptFuture {
            match P::decode(arguments) {
                Ok(arguments) => {
                    let future = f(arguments, cx);
                    Box::pin(async move { future.await.into_prompt_reply() })
                }
                Err(error) => Box::pin(ready(Err(HandlerError::protocol(error)))),
            }
        });
        Ok(Self { shown: super::description_json(&prompt.name, &prompt)?, name: prompt.name, required, get })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn get(&self, arguments: PromptArguments, cx: Context) -> Result<Reply, ErrorObject> {
        if let Some(missing) = self.required.iter().find(|name| !arguments.contains_key(&***name)) {
            return Err(ErrorObject::invalid_params(format!("the argument `{missing}` is missing")));
        }
        let get = async |cx| (self.get)(arguments.clone(), cx).await.or_else(HandlerError::into_reply);
        run_in_rounds(cx, get).await
    }
}
