//! Tests of tasks: the end of a task during its start, and the limits of their memory.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use mcpjoin_proto::session::EraChoice;
use mcpjoin_proto::{Era, Raw};
use tokio::sync::oneshot;

use super::super::{NoArguments, Server, Shared, tool};
use super::store::{Outcome, Task, Tasks};
use super::{MAX_BYTES, MAX_BYTES_PER_OWNER, Owner, Protocol, TaskScope};
use crate::{Client, Link};

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_while_its_handler_begins_is_aborted() {
    let shared: Arc<OnceLock<Weak<Shared>>> = Arc::default();
    let (known, (held, released)) = (shared.clone(), oneshot::channel::<()>());
    let held = Mutex::new(Some(held));
    let server = Server::builder("s", "1")
        .tool(tool("held").as_task(), move |_: NoArguments, _| {
            // The task can be found and ended now, before its work is spawned.
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
    let builder = Client::builder("c", "1").era(EraChoice::Only(Era::Modern)).tasks(true);
    let client = builder.connect(ours).await.expect("a connection");
    client.call_tool("held", ()).start().await.expect("a task");
    let dropped = tokio::time::timeout(Duration::from_secs(60), released).await;
    assert!(dropped.expect("the work runs on").is_err(), "the work was dropped");
}

fn scope(owner: Owner) -> TaskScope {
    TaskScope { protocol: Protocol::Extension, owner }
}

/// Creates a task whose parameters have this many bytes.
fn task(id: &str, owner: Owner, asked: usize) -> Arc<Task> {
    Arc::new(Task::new(id.to_owned(), scope(owner), None, Duration::from_secs(60), asked))
}

#[tokio::test(start_paused = true)]
async fn the_parameters_of_tasks_have_a_total_in_bytes_and_each_client_a_share() {
    let tasks = Tasks::default();
    let begins = |task: &Arc<Task>| tasks.insert(task).is_ok();
    let first = task("1", Owner::Session(1), MAX_BYTES_PER_OWNER - 1);
    assert!(begins(&first) && begins(&task("2", Owner::Session(1), 1)));
    assert!(!begins(&task("3", Owner::Session(1), 1)), "it has its share");
    assert!(begins(&task("4", Owner::Session(2), 1)));
    // A completed task has released the memory of its parameters.
    first.end(Outcome::Cancelled("by the test".into()));
    assert!(begins(&task("5", Owner::Session(1), 1)));
    assert!(begins(&task("6", Owner::Bearer, MAX_BYTES - 3)), "all of the rest");
    assert!(!begins(&task("7", Owner::Bearer, 1)), "there is no more");
}

#[tokio::test(start_paused = true)]
async fn the_results_of_tasks_that_are_over_have_a_total_in_bytes_and_the_newest_is_kept() {
    let tasks = Tasks::default();
    let ends = |id: &str, bytes: usize| {
        let task = task(id, Owner::Session(1), 0);
        tasks.insert(&task).expect("room");
        task.end(Outcome::Completed(Raw::string(&"x".repeat(bytes - 2))));
        tasks.keep_result(&task);
    };
    let kept = |id: &str| tasks.find(id, &scope(Owner::Session(1))).is_some();
    ends("1", MAX_BYTES_PER_OWNER / 2);
    ends("2", MAX_BYTES_PER_OWNER / 2);
    assert!(kept("1") && kept("2"));
    ends("3", 2);
    assert!(!kept("1") && kept("2") && kept("3"));
    ends("4", MAX_BYTES_PER_OWNER + 2);
    assert!(!kept("2") && !kept("3") && kept("4"), "one is always kept");
}
