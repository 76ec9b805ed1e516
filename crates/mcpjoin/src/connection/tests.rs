use std::future::Future;
use std::pin::pin;
use std::task::{Context as TaskContext, Waker};

use mcpjoin_proto::session::{ClientRole, LinkCaps};
use mcpjoin_proto::types::{ClientCapabilities, Implementation};

use super::*;

#[test]
fn who_does_not_wait_for_the_end_any_more_leaves_nothing_behind() {
    let role = ClientRole::new(Implementation::new("c", "1"), ClientCapabilities::default());
    let session = Session::new(Role::Client(role.into()), LinkCaps::default(), Limits::default());
    let connection = Connection::from_core(Arc::new(Core::new(session)));
    let mut cx = TaskContext::from_waker(Waker::noop());
    let watchers = || connection.core.lock().watchers();
    {
        let mut closed = pin!(connection.closed());
        let mut opened = pin!(connection.opened());
        for _ in 0..3 {
            assert!(closed.as_mut().poll(&mut cx).is_pending());
            assert!(opened.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(watchers(), 2);
    }
    assert_eq!(watchers(), 0);
}
