//! Prompts: listed, and returned with their arguments filled in.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/prompts>. Arguments are strings. A missing required
//! argument is an error (-32602) that names it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::Prompt;
use mcpjoin_proto::{ErrorObject, Raw};

use super::input::run_in_rounds;
use super::{BuildError, Context, HandlerError, PromptOutput};

/// The arguments of a prompt, by name.
pub type PromptArguments = BTreeMap<String, String>;

type PromptFuture = Pin<Box<dyn Future<Output = Result<Reply, HandlerError>> + Send>>;

/// A registered prompt.
pub(super) struct PromptEntry {
    pub(super) shown: Raw,
    required: Vec<Box<str>>,
    get: Box<dyn Fn(PromptArguments, Context) -> PromptFuture + Send + Sync>,
}

impl PromptEntry {
    pub(super) fn new<F, Fut>(prompt: &Prompt, f: F) -> Result<Self, BuildError>
    where
        F: Fn(PromptArguments, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: PromptOutput> + Send + 'static,
    {
        let required = prompt
            .arguments
            .iter()
            .flatten()
            .filter(|argument| argument.required == Some(true))
            .map(|argument| argument.name.as_str().into())
            .collect();
        let get = Box::new(move |arguments: PromptArguments, cx: Context| -> PromptFuture {
            let future = f(arguments, cx);
            Box::pin(async move { future.await.into_prompt_reply() })
        });
        Ok(Self { shown: super::description_json(&prompt.name, prompt)?, required, get })
    }

    pub(super) async fn get(&self, arguments: PromptArguments, cx: Context) -> Result<Reply, ErrorObject> {
        if let Some(missing) = self.required.iter().find(|name| !arguments.contains_key(&***name)) {
            return Err(ErrorObject::invalid_params(format!("the argument `{missing}` is missing")));
        }
        let get = async |cx| (self.get)(arguments.clone(), cx).await.or_else(HandlerError::into_reply);
        run_in_rounds(cx, get).await
    }
}
