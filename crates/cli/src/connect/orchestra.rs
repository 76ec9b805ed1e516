//! An orchestrator as a server: our bridge to it runs in this process, over a link in memory.
//!
//! Made by `connect::plan`. `Endpoint` opens links to it. Each link has a bridge of its own, which ends with the link and then closes its
//! connection.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::{Bridge, BridgeOptions, Orchestrator, OrchestratorOptions};
use tokio::sync::watch;
use tokio::time::timeout;

use super::network;
use crate::args::Connect;
use crate::failure::Failure;
use crate::target::Quic;

/// How long closing a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What connects to an orchestrator. Cheap to clone.
#[derive(Clone)]
pub(super) struct OrchestraConnect {
    address: String,
    certificates: Certificates,
    bridges: Arc<Bridges>,
}

#[derive(Default)]
struct Bridges {
    /// Each bridge that runs has a receiver.
    running: watch::Sender<()>,
    /// Why the last bridge has ended, if one of the two sides rejects the other.
    rejection: Mutex<Option<Failure>>,
}

impl OrchestraConnect {
    pub(super) fn new(Quic(address): &Quic, connect: &Connect) -> Result<Self, Failure> {
        let certificates = network::orchestra_certificates(connect)?;
        Ok(Self { address: address.clone(), certificates, bridges: Arc::default() })
    }

    /// A link to a new bridge. The bridge connects in the background.
    pub(super) async fn link(&self) -> Result<Link, Failure> {
        let options = OrchestratorOptions::default();
        let orchestrator = Orchestrator::quic(&self.address, self.certificates.clone(), options).await;
        let orchestrator = orchestrator.map_err(|error| Failure::orchestra(&error))?;
        let bridge = Bridge::new(orchestrator.clone(), BridgeOptions::default())
            .map_err(|error| Failure::orchestra_bridge(&error))?;
        let (ours, theirs) = Link::memory();
        let (bridges, running) = (self.bridges.clone(), self.bridges.running.subscribe());
        tokio::spawn(async move {
            let rejection = bridge.serve(theirs).await.err().map(|error| Failure::orchestra(&error));
            *bridges.rejection.lock().unwrap_or_else(PoisonError::into_inner) = rejection;
            orchestrator.close(CLOSE_TIMEOUT).await;
            drop(running);
        });
        Ok(ours)
    }

    /// Waits until every bridge has closed its connection.
    pub(super) async fn ended(&self) {
        // A bridge that does not end is dropped with the runtime.
        let _ = timeout(CLOSE_TIMEOUT * 2, self.bridges.running.closed()).await;
    }

    /// In place of the failure of the link, the reason for which its bridge has ended.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        let rejection = self.bridges.rejection.lock().unwrap_or_else(PoisonError::into_inner).clone();
        rejection.unwrap_or(failure).over_a_socket()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use mcpjoin_orchestra::certs::Certificates;

    use super::{Bridges, OrchestraConnect};
    use crate::exit::Exit;
    use crate::failure::{Failure, Phase};

    #[test]
    fn the_reason_of_a_bridge_takes_the_place_of_the_end_of_its_link() {
        let connect = |rejection| OrchestraConnect {
            address: "h:1".into(),
            certificates: Certificates::in_directory("/no/such/folder"),
            bridges: Arc::new(Bridges { rejection: Mutex::new(rejection), ..Bridges::default() }),
        };
        let end = || Failure::new("E_SERVER_EXITED", Exit::Connection, Phase::List, "the server exited");
        let failure = connect(None).explain(end());
        assert_eq!((failure.id, failure.seen.listening), ("E_CLOSED", true));
        let rejection = Failure::new("E_CERTIFICATE", Exit::Usage, Phase::Connect, "it is not trusted");
        let failure = connect(Some(rejection)).explain(end());
        assert_eq!((failure.id, failure.exit, failure.seen.listening), ("E_CERTIFICATE", Exit::Usage, true));
    }
}
