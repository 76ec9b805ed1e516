//! Tests of the wires that the service keeps between exchanges.

use super::*;
use crate::Server;

#[tokio::test]
async fn pooled_connections_are_limited_and_one_more_is_closed() {
    let service = Server::builder("s", "1").build().expect("a server").http(HttpOptions::new());
    let shared = &service.0;
    let open = |routing: fn() -> Routing| -> Vec<Arc<Entry>> {
        (0..=MAX_POOLED).map(|_| shared.open(routing()).unwrap_or_else(|_| panic!("it is opened"))).collect()
    };
    let waiting = |entries: &[Arc<Entry>]| entries.iter().filter(|entry| !entry.wire.is_closed()).count();

    let entries = open(|| Routing::Exchange);
    entries.iter().for_each(|entry| shared.give_back(entry));
    assert_eq!((shared.pool.lock().len(), waiting(&entries)), (MAX_POOLED, MAX_POOLED));
    assert!(entries[MAX_POOLED].wire.is_closed());
    let taken = shared.take().unwrap_or_else(|_| panic!("it waits"));
    shared.give_back(&taken);
    assert!(!taken.wire.is_closed());

    // The pool for legacy requests without a session has the same size, however many kinds of such requests there are. The one
    // that was not used for the longest time makes room, because its client may never come back.
    let entries = open(|| Routing::Session);
    let kinds = [Version::V2025_06_18, Version::V2025_11_25]
        .map(|version| stateless::Kind::of(shared, &version, &Origin::new("test")));
    for (entry, of) in entries.iter().zip(kinds.iter().cycle()) {
        stateless::give_back(shared, entry, of);
    }
    assert_eq!(waiting(&entries), MAX_POOLED);
    assert!(entries[0].wire.is_closed());
}
