//! The attribute macros of `mcpjoin::server`: the methods of a type as tools, prompts, resources and completions.
//!
//! A program uses them through `mcpjoin` (feature `macros`), whose paths the generated code names.

mod expand;
mod method;
mod options;

use proc_macro::TokenStream;

/// The methods of an `impl` with `#[tool]`, `#[prompt]`, `#[resource("..")]` or `#[completion(..)]` become handlers of a
/// server, and `ServerBuilder::handlers` adds them to it. A type has at most one such `impl`; a server may have any number of
/// such types, and everything else that its builder can add.
///
/// # Methods
///
/// A handler is a `fn` or an `async fn` with `&self`, or with `self: Arc<Self>`, and returns what a handler of the builder
/// returns. Its name is the name of the tool, prompt or resource, and its doc comment the description.
///
/// # Parameters
///
/// - A parameter of the type `Context` is the context of the request.
/// - Every other parameter is an argument of its name: of the tool, of the prompt, or a variable of the template. Its type is
///   `Deserialize` and `JsonSchema`, its doc comment the description. An `Option` may be absent. Attributes of `serde` and
///   `schemars` are those of a field: `#[serde(default)]`, `#[schemars(range(min = 1))]`.
/// - A parameter with `#[arguments]` is a struct with all arguments, in place of arguments by name.
///
/// # Options
///
/// | option | of | meaning |
/// |---|---|---|
/// | `name = ".."`, `title = ".."`, `description = ".."` | tool, prompt, resource | in place of the method's name and doc comment |
/// | `describe = path` | tool, prompt, resource | a function that changes any other part of the description, as below |
/// | `blocking` | tool, prompt, resource, completion | runs a `fn` on the blocking pool |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | tool | annotations; `destructive = false` for their opposite |
/// | `as_task`, `requires_tasks`, `inline` | tool | see `TypedTool` |
/// | `validate` | tool | validates the arguments against the schema (feature `json-schema`) |
/// | the URI or its template, first and without a name | resource | `"note://{id}"` |
/// | `mime_type = ".."` | resource | the media type |
/// | `prompt = ".."` or `resource = ".."`, and `argument = ".."` | completion | what is completed; the method receives the text so far |
///
/// The function of `describe` takes and returns a type of `mcpjoin::proto::types`: `fn(Tool) -> Tool`, `fn(Prompt) -> Prompt`,
/// `fn(Resource) -> Resource` for a fixed URI, and `fn(ResourceTemplate) -> ResourceTemplate` for a template. It is called once,
/// after the other options.
#[proc_macro_attribute]
pub fn handlers(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::handlers(options.into(), item.into()).into()
}

/// Makes a method a tool, in an `impl` with [`macro@handlers`].
#[proc_macro_attribute]
pub fn tool(_: TokenStream, item: TokenStream) -> TokenStream {
    expand::misplaced("tool", item.into()).into()
}

/// Makes a method a prompt, in an `impl` with [`macro@handlers`].
#[proc_macro_attribute]
pub fn prompt(_: TokenStream, item: TokenStream) -> TokenStream {
    expand::misplaced("prompt", item.into()).into()
}

/// Makes a method a resource or a resource template, in an `impl` with [`macro@handlers`].
#[proc_macro_attribute]
pub fn resource(_: TokenStream, item: TokenStream) -> TokenStream {
    expand::misplaced("resource", item.into()).into()
}

/// Makes a method the completion of an argument, in an `impl` with [`macro@handlers`].
#[proc_macro_attribute]
pub fn completion(_: TokenStream, item: TokenStream) -> TokenStream {
    expand::misplaced("completion", item.into()).into()
}
