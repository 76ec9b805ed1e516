//! Completions of an argument of a prompt, or of a variable of a resource template.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion>. A response has at most 100
//! values. A prompt or template without a handler has no completions.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use mcpjoin_proto::ErrorObject;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{CompleteParams, CompleteResult, Completion, Reference};

use super::{CompletionOutput, Context, HandlerError, encode};

type CompletionFuture = Pin<Box<dyn Future<Output = Result<Completion, HandlerError>> + Send>>;
type Propose = dyn Fn(CompleteParams, Context) -> CompletionFuture + Send + Sync;

/// The handlers, by what they complete.
#[derive(Default)]
pub(super) struct Completions(HashMap<Key, Box<Propose>>);

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Prompt(String),
    Template(String),
}

impl Key {
    fn of(reference: &Reference) -> Option<Self> {
        match reference {
            Reference::Prompt(prompt) => Some(Self::Prompt(prompt.name.clone())),
            Reference::Resource(template) => Some(Self::Template(template.uri.clone())),
            _ => None,
        }
    }
}

impl Completions {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a handler. Returns whether there was none yet.
    pub(super) fn insert<F, Fut>(&mut self, reference: &Reference, f: F) -> bool
    where
        F: Fn(CompleteParams, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: CompletionOutput> + Send + 'static,
    {
        let Some(key) = Key::of(reference) else { return false };
        let propose = Box::new(move |params: CompleteParams, cx: Context| -> CompletionFuture {
            let future = f(params, cx);
            Box::pin(async move { future.await.into_completion() })
        });
        self.0.insert(key, propose).is_none()
    }

    pub(super) async fn complete(&self, params: CompleteParams, cx: Context) -> Result<Reply, ErrorObject> {
        let propose = Key::of(&params.reference).and_then(|key| self.0.get(&key));
        let completion = match propose {
            None => Completion::new(Vec::new()),
            Some(propose) => match propose(params, cx).await {
                Ok(completion) => completion,
                Err(error) => return error.into_reply(),
            },
        };
        encode(&CompleteResult::new(completion)).map(Reply::Complete)
    }
}
