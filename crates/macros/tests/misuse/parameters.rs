#![allow(unused, reason = "no method is called")]

use mcpjoin_macros::handlers;

struct Store;
struct Context;
struct Note;
struct NoArguments;

#[handlers]
impl Store {
    #[tool]
    fn borrowed(&self, text: &str) {}

    #[tool]
    fn borrowed_context(&self, cx: &Context) {}

    #[tool]
    fn pattern(&self, (a, b): (i64, i64)) {}

    #[tool]
    fn none(&self, _arguments: NoArguments) {}

    #[tool]
    fn mixed(&self, #[arguments] note: Note, id: u64) {}

    #[tool]
    fn contexts(&self, one: Context, two: Context) {}

    #[resource("note://{id}/{+path}")]
    fn misspelt(&self, idd: u64, path: String) {}

    #[resource("note://all")]
    fn fixed(&self, id: u64) {}

    #[resource("note://first")]
    fn first(&self, #[arguments] note: Note) {}

    #[completion(prompt = "review", argument = "code")]
    fn completed(&self) {}
}

fn main() {}
