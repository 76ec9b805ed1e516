//! Opening the conversation: at first in the way that worked the last time, and when that fails, as if nothing had
//! been remembered.

use mcpjoin::Link;
use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::link::ChildHandle;
use mcpjoin::proto::session::{CloseCause, OpeningFailure};

use crate::failure::{Failure, Phase};
use crate::ui::Ui;
use crate::verdict::Verdict;

/// What an earlier run has found out.
pub(crate) struct Remembered {
    pub(crate) verdict: Verdict,
    /// The client that asks for the legacy era alone, where that is what the verdict says.
    pub(crate) legacy: Option<ClientBuilder>,
}

/// Connects over what `link` makes: a server that has been started. `child` watches it where it is one of ours;
/// `first`: what `client` does first.
pub(super) async fn open(
    ui: &Ui,
    link: impl AsyncFn() -> Result<Link, Failure>,
    child: Option<&ChildHandle>,
    client: ClientBuilder,
    first: Phase,
    mut remembered: Option<Remembered>,
) -> Result<Client, Failure> {
    if let Some(legacy) = remembered.as_mut().and_then(|remembered| remembered.legacy.take()) {
        match legacy.connect(link().await?).await {
            Ok(client) => return Ok(client),
            Err(error) if !may_be_stale(&error.cause) => {
                return Err(Failure::closed(&error.cause, Phase::Initialize));
            }
            Err(_) => ui.detail("the legacy era, which it spoke the last time, does not work: asking again"),
        }
        // Two of them at once may stand in each other's way, and only the later one is looked after at the end.
        if let Some(child) = child {
            child.ended().await;
        }
    }
    let client = client.connect(link().await?).await.map_err(|error| Failure::closed(&error.cause, first))?;
    if let Some(mut remembered) = remembered {
        remembered.verdict.learn(client.peer().profile.initialize);
    }
    Ok(client)
}

/// Whether another way of asking could have worked.
fn may_be_stale(cause: &CloseCause) -> bool {
    match cause {
        CloseCause::Opening(failure) => {
            !matches!(failure, OpeningFailure::Garbage { .. } | OpeningFailure::Unsent { .. })
        }
        _ => false,
    }
}
