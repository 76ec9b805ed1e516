#![allow(unused, reason = "no method is called")]

use mcpjoin_macros::handlers;

struct Store;

#[handlers]
impl Store {
    #[tool]
    async fn without_self() {}

    #[tool]
    fn changes(&mut self) {}

    #[prompt]
    fn consumes(self) {}

    #[tool]
    fn generic<T>(&self, value: T) {}

    #[tool]
    fn implied(&self, value: impl Into<String>) {}

    #[tool(blocking)]
    async fn both(&self) {}
}

fn main() {}
