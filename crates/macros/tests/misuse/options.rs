#![allow(unused, reason = "no method is called")]

use mcpjoin_macros::handlers;

struct Store;

#[handlers]
impl Store {
    #[tool(readonly)]
    fn unknown(&self) {}

    #[prompt(read_only)]
    fn of_another_kind(&self) {}

    #[tool = "name"]
    fn no_list(&self) {}

    #[tool(name = 7)]
    fn no_text(&self) {}

    #[tool(title = "a", title = "b")]
    fn twice(&self) {}

    #[resource]
    fn no_uri(&self) {}

    #[resource(name = "note")]
    fn no_uri_first(&self) {}

    #[tool]
    #[prompt]
    fn two_things(&self) {}
}

fn main() {}
