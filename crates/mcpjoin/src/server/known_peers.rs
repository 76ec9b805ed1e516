//! Equal descriptions of clients, which sessions share.
//!
//! Most sessions of a server come from a few programs. An idle session over HTTP takes 3 KiB, and its description of the
//! client would be a fifth of that.

use std::sync::{Arc, Weak};

use mcpjoin_proto::session::Peer;

/// How many different clients are remembered: as many as there are usual programs, few enough to compare each.
const KNOWN_PEERS: usize = 8;

/// The clients that opened a session last, the newest first. It keeps none of them.
#[derive(Default)]
pub(super) struct KnownPeers([Weak<Peer>; KNOWN_PEERS]);

impl KnownPeers {
    /// Returns an equal description that a session has. Otherwise remembers this one.
    pub(super) fn equal(&mut self, peer: &Arc<Peer>) -> Option<Arc<Peer>> {
        let at = self.0.iter().position(|known| known.upgrade().is_some_and(|known| known == *peer));
        self.0[..=at.unwrap_or(KNOWN_PEERS - 1)].rotate_right(1);
        let known = at.and_then(|_| self.0[0].upgrade());
        if known.is_none() {
            self.0[0] = Arc::downgrade(peer);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::decode::{Decoded, decode};
    use mcpjoin_proto::session::{ClientInfo, Inbound, Origin, PeerCapabilities, TransportCaps};
    use mcpjoin_proto::types::Implementation;
    use mcpjoin_proto::{DecodeLimits, Era, Profile};

    use super::*;
    use crate::server::Server;
    use crate::transport::Link;

    fn client(name: &str) -> Arc<Peer> {
        let info = Some(Arc::new(Implementation::new(name, "1")));
        let client = ClientInfo { info: info.clone(), ..ClientInfo::default() };
        Arc::new(Peer {
            profile: Profile::newest(Era::Legacy),
            info,
            capabilities: PeerCapabilities::Client(Arc::new(client)),
            instructions: None,
            supported_versions: Vec::new(),
            presented: None,
        })
    }

    #[test]
    fn equal_clients_share_their_description_as_long_as_one_has_it() {
        let mut known = KnownPeers::default();
        let first = client("a");
        assert!(known.equal(&first).is_none());
        assert!(Arc::ptr_eq(&known.equal(&client("a")).expect("known"), &first));
        assert!(known.equal(&client("b")).is_none(), "another client");
        drop(first);
        assert!(known.equal(&client("a")).is_none(), "it is not kept");
    }

    #[test]
    fn the_clients_that_came_last_are_known() {
        let mut known = KnownPeers::default();
        let all: Vec<_> = (0..=KNOWN_PEERS).map(|number| client(&number.to_string())).collect();
        for peer in &all[..KNOWN_PEERS] {
            assert!(known.equal(peer).is_none());
        }
        assert!(known.equal(&all[0]).is_some());
        assert!(known.equal(&all[KNOWN_PEERS]).is_none());
        assert!(known.equal(&all[1]).is_none(), "the oldest was forgotten");
        assert!(known.equal(&all[0]).is_some());
    }

    #[tokio::test]
    async fn sessions_of_equal_clients_have_one_description_of_them() {
        let server = Server::builder("s", "1").build().expect("a server");
        let mut sessions = Vec::new();
        for name in ["a", "a", "b"] {
            let initialize = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"{name}","version":"1"}}}}}}"#
            );
            let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
            let (link, mut theirs) =
                Link::channel(TransportCaps { exchanges: true, ..TransportCaps::default() });
            for line in [initialize, initialized] {
                let Ok(Decoded::Message(message)) = decode(&line.into(), &DecodeLimits::default()) else {
                    panic!("it is a message")
                };
                let origin = Arc::new(Origin::new("test"));
                theirs.send(Inbound::Message { message, origin }).await.expect("it is open");
            }
            let (connection, mut serving) = server.open(link, true);
            tokio::select! {
                () = &mut serving => panic!("it goes on"),
                opened = connection.opened() => assert!(opened.is_ok()),
            }
            sessions.push((connection, serving, theirs));
        }
        let [one, equal, other] = [0, 1, 2].map(|at| sessions[at].0.peer().expect("it is open"));
        assert!(Arc::ptr_eq(&one, &equal));
        assert!(one != other && other.info.as_ref().is_some_and(|info| info.name == "b"));
    }
}
