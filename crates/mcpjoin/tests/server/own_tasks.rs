//! Tests of where handlers run: in tasks of their own on a runtime with several threads, in the task of the connection
//! elsewhere.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::Server;
use mcpjoin::proto::types::{Prompt, Resource};
use mcpjoin::server::{NoArguments, ServerBuilder, tool};
use tokio::task;

use crate::{BOTH_ERAS, in_era};

/// Blocks its thread until `free` was called.
fn blocking_and_free(builder: ServerBuilder) -> ServerBuilder {
    let (free, freed) = mpsc::channel::<()>();
    let freed = Arc::new(Mutex::new(freed));
    builder
        .tool(tool("block"), move |_: NoArguments, _| {
            let freed = freed.clone();
            async move {
                freed.lock().unwrap().recv().unwrap();
                "freed"
            }
        })
        .tool(tool("free"), move |_: NoArguments, _| {
            let free = free.clone();
            async move { free.send(()).map_err(|_| std::fmt::Error) }
        })
}

#[test]
fn a_handler_that_blocks_its_thread_delays_no_other_call_of_the_client() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        for era in BOTH_ERAS {
            let server = blocking_and_free(Server::builder("test", "0")).build().unwrap();
            let client = in_era(&server, era).await;
            let calls = async {
                let block = tokio::spawn(client.call_tool("block", None).into_future());
                let free = client.call_tool("free", None).await.unwrap();
                assert_ne!(free.is_error, Some(true), "{free:?}");
                block.await.unwrap().unwrap()
            };
            let freed = tokio::time::timeout(Duration::from_secs(60), calls).await;
            assert_eq!(freed.expect("the blocked handler delayed the other one").is_error, None);
        }
    });
}

/// A server whose handlers report the task that they run in.
fn reporting_tasks(builder: ServerBuilder) -> ServerBuilder {
    let id = || async { task::try_id().map(|id| id.to_string()).unwrap_or_default() };
    builder
        .tool(tool("one"), move |_: NoArguments, _| id())
        .tool(tool("inline").inline(), move |_: NoArguments, _| id())
        .prompt(Prompt::new("prompt"), move |_, _| id())
        .resource(Resource::new("test://resource", "resource"), move |_, _| id())
}

/// The tasks in which the handlers of two calls, an inline call, a prompt and a resource ran.
async fn tasks_of(server: &Server) -> [String; 5] {
    let client = in_era(server, mcpjoin::proto::Era::Modern).await;
    let text = |result: mcpjoin::proto::types::CallToolResult| format!("{:?}", result.content);
    let [one, two, inline] = ["one", "one", "inline"].map(|name| client.call_tool(name, None));
    let (one, two, inline) =
        (text(one.await.unwrap()), text(two.await.unwrap()), text(inline.await.unwrap()));
    let prompt = client.get_prompt("prompt", None).await.unwrap();
    let resource = client.read_resource("test://resource").await.unwrap();
    let digits = |text: String| text.chars().filter(char::is_ascii_digit).collect::<String>();
    [
        digits(one),
        digits(two),
        digits(inline),
        digits(format!("{:?}", prompt.messages)),
        digits(format!("{:?}", resource.contents)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_handler_has_a_task_of_its_own_except_inline_ones() {
    let server = reporting_tasks(Server::builder("test", "0")).build().unwrap();
    let [one, two, inline, prompt, resource] = tasks_of(&server).await;
    let mut own = vec![&one, &two, &prompt, &resource];
    own.dedup();
    assert_eq!(own.len(), 4, "{own:?}");
    assert!(!own.contains(&&inline), "the connection's task runs no other handler");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_inline_handlers_runs_them_in_the_task_of_the_connection() {
    let server = reporting_tasks(Server::builder("test", "0")).inline_handlers().build().unwrap();
    let tasks = tasks_of(&server).await;
    assert!(tasks.iter().all(|task| *task == tasks[0]), "{tasks:?}");
}

#[test]
fn a_runtime_with_one_thread_runs_handlers_in_the_task_of_the_connection() {
    crate::run(async {
        let server = reporting_tasks(Server::builder("test", "0")).build().unwrap();
        let tasks = tasks_of(&server).await;
        assert!(tasks.iter().all(|task| *task == tasks[0]), "{tasks:?}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_task_of_its_own_fails_its_call_and_nothing_else() {
    let server = Server::builder("test", "0")
        .tool(tool("panic"), |_: NoArguments, _| async {
            if true {
                panic!("secret")
            }
        })
        .tool(tool("fine"), |_: NoArguments, _| async { "fine" })
        .build()
        .unwrap();
    for era in BOTH_ERAS {
        let client = in_era(&server, era).await;
        let error = client.call_tool("panic", None).await.unwrap_err().to_string();
        assert!(error.contains("-32603") && !error.contains("secret"), "{error}");
        assert_eq!(client.call_tool("fine", None).await.unwrap().is_error, None);
    }
}
