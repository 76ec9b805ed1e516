#![allow(unused, reason = "no method is called")]

use mcpjoin_macros::{completion, handlers, prompt, resource, tool};

struct Store;

impl Store {
    #[tool]
    fn add(&self) {}

    #[prompt]
    fn review(&self) {}

    #[resource("note://all")]
    fn all(&self) {}

    #[completion(prompt = "review", argument = "code")]
    fn codes(&self) {}
}

#[handlers]
impl Clone for Store {
    fn clone(&self) -> Self {
        Self
    }
}

struct Idle;

#[handlers]
impl Idle {
    fn nothing(&self) {}
}

#[handlers]
struct Fields;

struct Optional;

#[handlers(name = "store")]
impl Optional {
    #[tool]
    fn add(&self) {}
}

fn main() {}
