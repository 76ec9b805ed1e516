use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use mcpjoin_proto::Era;
use mcpjoin_proto::session::Ask;
use tokio::sync::oneshot;

use super::super::{NoArguments, Server, Shared, tool};
use crate::{Client, Link};

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_while_its_handler_begins_is_aborted() {
    let shared: Arc<OnceLock<Weak<Shared>>> = Arc::default();
    let (known, (held, released)) = (shared.clone(), oneshot::channel::<()>());
    let held = Mutex::new(Some(held));
    let server = Server::builder("s", "1")
        .tool(tool("held").as_task(), move |_: NoArguments, _| {
            // The task can be found and ended by now, and its work has not been spawned yet.
            known.get().and_then(Weak::upgrade).expect("a server").tasks.server_ended();
            let held = held.lock().expect("no panic").take();
            async move {
                let _held = held;
                std::future::pending::<()>().await;
            }
        })
        .build()
        .expect("a server");
    shared.set(Arc::downgrade(&server.0)).expect("once");
    let (ours, theirs) = Link::memory();
    server.connect(theirs);
    let builder = Client::builder("c", "1").ask(Ask::Only(Era::Modern)).tasks(true);
    let client = builder.connect(ours).await.expect("a connection");
    client.call_tool("held", None).begin().await.expect("a task");
    let dropped = tokio::time::timeout(Duration::from_secs(60), released).await;
    assert!(dropped.expect("the work runs on").is_err(), "the work was dropped");
}
