//! Resources: one with a fixed URI, and a template whose variables have types.
//!
//! ```console
//! $ cargo run -p mcpjoin --example resources
//! note://all
//! note://{id}
//! note 1 and note 2
//! the text of note 2
//! JSON-RPC error -32602: resource not found
//! JSON-RPC error -32602: `id`: invalid type: string "three", expected u64
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::proto::types::Resource;
use mcpjoin::server::{HandlerError, ReadRequest, resource_template};
use mcpjoin::{Client, Link, Server};

/// The variables of the template. A URI whose values do not fit never reaches the handler.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoteId {
    id: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let note = resource_template("note://{id}", "note").description("A note").mime_type("text/plain");
    let server = Server::builder("notes", "1.0.0")
        .resource(Resource::new("note://all", "all"), |_: ReadRequest, _| async { "note 1 and note 2" })
        .resource_template(note, |NoteId { id }, _| async move {
            match id {
                1 | 2 => Ok(format!("the text of note {id}")),
                _ => Err(HandlerError::resource_not_found(&format!("note://{id}"))),
            }
        })
        .build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let client = Client::builder("example", "1.0.0").connect(near).await?;
    for resource in client.list_resources().all().await? {
        println!("{}", resource.uri);
    }
    for template in client.list_resource_templates().all().await? {
        println!("{}", template.uri_template);
    }
    for uri in ["note://all", "note://2"] {
        println!("{}", client.read_resource(uri).await?.to_text());
    }
    for uri in ["note://3", "note://three"] {
        if let Err(error) = client.read_resource(uri).await {
            println!("{error}");
        }
    }
    Ok(())
}
