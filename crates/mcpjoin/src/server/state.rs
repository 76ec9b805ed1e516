//! Handlers that share a state.
//!
//! A handler is a function of its input and its context. These two make one from a function that takes a state before
//! them. They serve tools, prompts, resources, templates and completions, which all have this shape. The attribute macro
//! `handlers` generates calls of them.

use std::future::Future;

use super::blocking::{Offloaded, blocking};
use super::{Context, ServerBuilder};

/// Makes a handler from `f`, which takes a clone of `state` before its other parameters: an [`Arc`](std::sync::Arc), or
/// a type that is as cheap to clone.
///
/// ```
/// use std::sync::Arc;
/// use mcpjoin::server::{Context, Json, NoArguments, Result, Server, tool, with};
/// use tokio::sync::Mutex;
///
/// #[derive(Default)]
/// struct Store { notes: Mutex<Vec<String>> }
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct AddNote { text: String }
///
/// impl Store {
///     async fn add(self: Arc<Self>, note: AddNote, _: Context) -> Result<Json<usize>> {
///         let mut notes = self.notes.lock().await;
///         notes.push(note.text);
///         Ok(Json(notes.len()))
///     }
/// }
///
/// let store = Arc::new(Store::default());
/// let server = Server::builder("notes", "1.0.0")
///     .tool(tool("add_note"), with(&store, Store::add))
///     .tool(tool("count"), with(&store, |store, _: NoArguments, _| async move {
///         Json(store.notes.lock().await.len())
///     }))
///     .build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
pub fn with<S, I, F, Fut>(
    state: &S,
    f: F,
) -> impl Fn(I, Context) -> Fut + Send + Sync + 'static + use<S, I, F, Fut>
where
    S: Clone + Send + Sync + 'static,
    I: 'static,
    F: Fn(S, I, Context) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
{
    let state = state.clone();
    move |input, cx| f(state.clone(), input, cx)
}

/// As [`with`], for a function that blocks or computes for long: it runs on a thread of the runtime's blocking pool, as
/// with [`blocking`].
///
/// ```
/// use std::path::PathBuf;
/// use mcpjoin::server::{NoArguments, Server, blocking_with, tool};
///
/// let file = PathBuf::from("/etc/hostname");
/// let server = Server::builder("files", "1.0.0")
///     .tool(tool("host"), blocking_with(&file, |file, _: NoArguments, _| std::fs::read_to_string(file)))
///     .build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
pub fn blocking_with<S, I, O, F>(
    state: &S,
    f: F,
) -> impl Fn(I, Context) -> Offloaded<O> + Send + Sync + 'static + use<S, I, O, F>
where
    S: Clone + Send + Sync + 'static,
    I: Send + 'static,
    O: Send + 'static,
    F: Fn(S, I, Context) -> O + Clone + Send + Sync + 'static,
{
    let state = state.clone();
    blocking(move |input, cx| f(state.clone(), input, cx))
}

/// A type whose methods are handlers. Implemented by the attribute macro `handlers` (feature `macros`), and added to a
/// server by [`ServerBuilder::handlers`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handlers",
    note = "put `#[handlers]` (`mcpjoin::server::handlers`) on the `impl` whose methods are marked with `#[tool]`, `#[prompt]` or `#[resource]`"
)]
pub trait Handlers: Send + Sync + 'static {
    /// Adds what the methods serve.
    #[doc(hidden)]
    fn register(self: std::sync::Arc<Self>, builder: ServerBuilder) -> ServerBuilder;
}

impl<T: Handlers> Handlers for std::sync::Arc<T> {
    fn register(self: std::sync::Arc<Self>, builder: ServerBuilder) -> ServerBuilder {
        Self::clone(&self).register(builder)
    }
}
