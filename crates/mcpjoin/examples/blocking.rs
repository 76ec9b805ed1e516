//! A tool that computes for long: `blocking` runs it on a thread for such work.
//!
//! Other requests are not delayed.
//!
//! ```console
//! $ cargo run -p mcpjoin --example blocking
//! the server answers meanwhile
//! 78498 primes
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::server::{Context, HandlerError, Json, blocking, tool};
use mcpjoin::{Client, Link, Server};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Below {
    limit: usize,
}

/// A plain function, which may block its thread.
fn count_primes(Below { limit }: Below, cx: Context) -> Result<Json<usize>, HandlerError> {
    if limit > 10_000_000 {
        return Err(HandlerError::new("the limit is above 10,000,000"));
    }
    let mut is_prime = vec![true; limit.max(2)];
    is_prime[..2].fill(false);
    for number in 2..limit {
        // A thread cannot be stopped from outside: it looks now and then whether its result is still needed.
        if number % 1000 == 0 && cx.is_cancelled() {
            return Err(HandlerError::new("cancelled"));
        }
        if is_prime[number] {
            (number * number..limit).step_by(number).for_each(|multiple| is_prime[multiple] = false);
        }
    }
    Ok(Json(is_prime.into_iter().filter(|is_prime| *is_prime).count()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("numbers", "1.0.0").tool(tool("primes"), blocking(count_primes)).build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let client = Client::builder("example", "1.0.0").connect(near).await?;
    let counted = client.call_tool("primes", json!({ "limit": 1_000_000 }));
    let pinged = async {
        client.ping().await?;
        println!("the server answers meanwhile");
        Ok(())
    };
    let (counted, ()) = tokio::try_join!(counted, pinged)?;
    println!("{} primes", counted.decode::<usize>()?);
    Ok(())
}
