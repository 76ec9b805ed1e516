//! A prompt with typed arguments, and suggestions for the value of one of them.
//!
//! ```console
//! $ cargo run -p mcpjoin --example prompts
//! review: code (required), language
//! Dutch
//! Review in Dutch: 1 + 1
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::proto::types::{CompleteParams, PromptReference};
use mcpjoin::server::prompt;
use mcpjoin::{Client, Link, Server};
use serde_json::json;

/// The arguments of the prompt. The optional ones are those with an `Option`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Review {
    /// The code to review.
    code: String,
    /// The language of the remarks.
    language: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("reviewer", "1.0.0")
        .prompt(prompt("review").description("Reviews code"), |review: Review, _| async move {
            format!("Review in {}: {}", review.language.as_deref().unwrap_or("English"), review.code)
        })
        .completion(PromptReference::new("review"), |params: CompleteParams, _| async move {
            let typed = params.argument;
            let languages: &[&'static str] =
                if typed.name == "language" { &["Dutch", "English"] } else { &[] };
            languages
                .iter()
                .copied()
                .filter(|language| language.starts_with(&typed.value))
                .collect::<Vec<_>>()
        })
        .build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let client = Client::builder("example", "1.0.0").connect(near).await?;
    for prompt in client.list_prompts().all().await? {
        let arguments: Vec<String> = prompt
            .arguments
            .unwrap_or_default()
            .into_iter()
            .map(|argument| argument.name + if argument.required == Some(true) { " (required)" } else { "" })
            .collect();
        println!("{}: {}", prompt.name, arguments.join(", "));
    }
    // The user has typed a "D" so far.
    let completed = client.complete_prompt("review", "language", "D").await?;
    println!("{}", completed.completion.values.join(", "));
    let filled = client.get_prompt("review", json!({ "code": "1 + 1", "language": "Dutch" })).await?;
    println!("{}", filled.to_text());
    Ok(())
}
