//! Job 4: a client over HTTP: `mcpjoin-login URL FILE`, with the token of the variable `TOKEN`, or with a login in a browser
//! whose tokens are kept in the file.

use mcpjoin::{Client, Link};
use mcpjoin_auth::{ClientIdentity, FileStore, LocalBrowser, OAuth};

#[tokio::main]
async fn main() -> Result<(), mcpjoin::BoxError> {
    let [url, file] = std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "URL FILE")?;
    let link = Link::http(&url).header("x-program", "desk");
    let link = if let Ok(token) = std::env::var("TOKEN") {
        link.header("Authorization", format!("Bearer {token}"))
    } else {
        let oauth = OAuth::builder(&url)
            .client(ClientIdentity::Dynamic { name: "Desk".into() })
            .store(FileStore::at(file))
            .user_agent(LocalBrowser::new().on_url(|url| println!("log in at {url}")))
            .build()?;
        link.credentials(oauth)
    };
    match Client::builder("desk", "1.0.0").connect(link.build()?).await {
        Ok(client) => println!("{}", client.call_tool("whoami", ()).await?.to_text()),
        Err(error) if error.is_unauthorized() => println!("refused"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
