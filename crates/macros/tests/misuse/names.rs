#![allow(unused, reason = "no method is called")]

use mcpjoin_macros::handlers;

struct Tools;

#[handlers]
impl Tools {
    #[tool]
    fn add(&self) {}

    #[tool(name = "add")]
    fn put(&self) {}
}

struct Resources;

#[handlers]
impl Resources {
    #[resource("note://{id}")]
    fn note(&self, id: u64) {}

    #[resource("note://{id}")]
    fn other(&self) {}
}

struct Completions;

#[handlers]
impl Completions {
    #[completion(prompt = "review", argument = "code")]
    fn one(&self, typed: String) {}

    #[completion(prompt = "review", argument = "code")]
    fn two(&self, typed: String) {}
}

struct Nameless;

#[handlers]
impl Nameless {
    #[completion(argument = "code")]
    fn nothing(&self, typed: String) {}
}

struct Argumentless;

#[handlers]
impl Argumentless {
    #[completion(resource = "note://{id}")]
    fn everything(&self, typed: String) {}
}

fn main() {}
