//! Tests of tasks that several processes know through one task store. A process is a server of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::request::Parts;
use mcpjoin::Server;
use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{ElicitFormParams, ElicitationSchema, Members};
use mcpjoin::server::{
    BuildError, Context, FoundTask, HandlerError, NoArguments, ServerBuilder, StateKey, TaskRecord,
    TaskStore, TaskStoreError, TaskStored, tool,
};
use mcpjoin::transport::HttpOptions;
use mcpjoin_test_support::events::{Told, hearing};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::support::{LEGACY, Peer, run, text};

/// After how long without a sign a process is regarded as gone.
const LEASE: Duration = Duration::from_secs(5);

/// The largest record of the store.
const MAX_CONTENT: usize = 2_000;

#[derive(Default)]
struct Kept {
    tasks: HashMap<String, (TaskRecord, Instant)>,
    seen: HashMap<String, Instant>,
    messages: HashMap<String, Vec<Raw>>,
}

/// What all processes share.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Kept>>);

/// The way of one process to it.
#[derive(Clone)]
struct Way {
    memory: Memory,
    is_cut: Arc<AtomicBool>,
    /// Permits for writing new tasks.
    takes: Arc<Semaphore>,
}

impl Memory {
    fn way(&self) -> Way {
        Way { memory: self.clone(), is_cut: Arc::default(), takes: Arc::new(Semaphore::new(1_000)) }
    }

    fn records(&self) -> Vec<TaskRecord> {
        self.0.lock().tasks.values().map(|(record, _)| record.clone()).collect()
    }
}

impl Kept {
    fn found(&self, record: &TaskRecord) -> FoundTask {
        let is_there = self.seen.get(&*record.process).is_some_and(|seen| seen.elapsed() < LEASE);
        FoundTask::new(record.clone(), is_there)
    }

    fn purge(&mut self) {
        self.tasks.retain(|_, (_, until)| Instant::now() < *until);
    }
}

impl Way {
    fn kept<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> Result<T, TaskStoreError> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(TaskStoreError::Unavailable("the test's memory is cut off".into()));
        }
        let mut kept = self.memory.0.lock();
        kept.purge();
        Ok(act(&mut kept))
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

impl TaskStore for Way {
    fn create<'a>(&'a self, task: &'a TaskRecord, keep: Duration) -> TaskStored<'a, ()> {
        Box::pin(async move {
            self.kept(|kept| {
                kept.seen.insert(task.process.to_string(), Instant::now());
                kept.tasks.insert(task.id.to_string(), (task.clone(), Instant::now() + keep));
            })?;
            // The answer comes later than the record is written.
            self.takes.acquire().await.unwrap().forget();
            Ok(())
        })
    }

    fn update<'a>(&'a self, task: &'a TaskRecord) -> TaskStored<'a, bool> {
        Box::pin(async move {
            let length = task.content.as_ref().map_or(0, Raw::len);
            if length > MAX_CONTENT {
                return Err(TaskStoreError::Refused(format!("{length} bytes are too many").into()));
            }
            self.kept(|kept| match kept.tasks.get_mut(&*task.id) {
                Some((record, _)) if !record.is_over => {
                    *record = task.clone();
                    true
                }
                _ => false,
            })
        })
    }

    fn open<'a>(&'a self, id: &'a str, owner: &'a str) -> TaskStored<'a, Option<FoundTask>> {
        Box::pin(async move {
            self.kept(|kept| {
                let (record, _) = kept.tasks.get(id).filter(|(record, _)| *record.owner == *owner)?;
                Some(kept.found(record))
            })
        })
    }

    fn list<'a>(&'a self, owner: &'a str) -> TaskStored<'a, Vec<FoundTask>> {
        Box::pin(async move {
            self.kept(|kept| {
                let records = kept.tasks.values().map(|(record, _)| record);
                let mut of_owner: Vec<_> =
                    records.filter(|record| *record.owner == *owner).cloned().collect();
                for record in &mut of_owner {
                    record.content = None;
                }
                of_owner.iter().map(|record| kept.found(record)).collect()
            })
        })
    }

    fn send<'a>(&'a self, process: &'a str, message: &'a Raw) -> TaskStored<'a, ()> {
        Box::pin(async move {
            self.kept(|kept| kept.messages.entry(process.to_owned()).or_default().push(message.clone()))
        })
    }

    fn attend<'a>(&'a self, process: &'a str) -> TaskStored<'a, Vec<Raw>> {
        Box::pin(async move {
            self.kept(|kept| {
                kept.seen.insert(process.to_owned(), Instant::now());
                kept.messages.remove(process).unwrap_or_default()
            })
        })
    }
}

fn bearer(parts: &Parts) -> Option<String> {
    parts.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned())
}

struct Running(watch::Sender<i32>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// A process, with a client of the principal Ada.
struct Process {
    ada: Peer,
    way: Way,
    /// The tasks that run here.
    running: watch::Receiver<i32>,
    /// Lets `wait` go on.
    gate: Arc<Semaphore>,
    started: Arc<AtomicUsize>,
}

fn builder(name: &str, way: &Way) -> ServerBuilder {
    Server::builder(name, "1").state_key(StateKey::from_bytes([7; 32])).task_store(way.clone())
}

impl Process {
    fn of(memory: &Memory, name: &str) -> Self {
        let (way, (count, running)) = (memory.way(), watch::channel(0));
        let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (gated, begun) = (gate.clone(), started.clone());
        let server = builder(name, &way)
            .tool(tool("plain"), |_: NoArguments, _| async { "plain" })
            .tool(tool("quick").as_task(), |_: NoArguments, _| async { "done" })
            .tool(tool("long").as_task(), |_: NoArguments, _| async { "x".repeat(2 * MAX_CONTENT) })
            .tool(tool("asks-long").as_task(), |_: NoArguments, cx: Context| async move {
                let schema = ElicitationSchema::new(Members::new());
                cx.elicit(ElicitFormParams::new("x".repeat(2 * MAX_CONTENT), schema)).await?;
                Ok::<_, HandlerError>("answered")
            })
            .tool(tool("wait").as_task(), move |_: NoArguments, _| {
                begun.fetch_add(1, Ordering::Relaxed);
                count.send_modify(|count| *count += 1);
                let (running, gate) = (Running(count.clone()), gated.clone());
                async move {
                    let _running = running;
                    gate.acquire().await.unwrap().forget();
                    "waited"
                }
            })
            .tool(tool("asks").as_task(), |_: NoArguments, cx: Context| async move {
                let question = ElicitFormParams::new("Go on?", ElicitationSchema::new(Members::new()));
                let answer = cx.elicit(question).await?;
                Ok::<_, HandlerError>(answer.action.as_str().to_owned())
            })
            .build()
            .unwrap();
        let peer = Peer::new(&server, HttpOptions::new().principal(bearer));
        Self { ada: peer.with("authorization", "Bearer ada"), way, running, gate, started }
    }

    fn two(memory: &Memory) -> (Self, Self) {
        (Self::of(memory, "s"), Self::of(memory, "s"))
    }

    async fn runs(&mut self, tasks: i32) {
        self.running.wait_for(|count| *count == tasks).await.unwrap();
    }
}

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A request of 2026-07-28.
async fn ask(peer: &Peer, method: &str, mut params: Value) -> Value {
    let name = params["name"].as_str().or_else(|| params["taskId"].as_str()).unwrap().to_owned();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": { "form": {} }, "extensions": { "io.modelcontextprotocol/tasks": {} }
        }
    });
    peer.modern(method, &name).post(request(1, method, params)).await.message_or_json().await
}

async fn begin(peer: &Peer, tool: &str) -> Value {
    let answer = ask(peer, "tools/call", json!({ "name": tool })).await;
    assert_eq!(answer["result"]["status"], "working", "{answer}");
    answer["result"]["taskId"].clone()
}

async fn get(peer: &Peer, task: &Value) -> Value {
    ask(peer, "tasks/get", json!({ "taskId": task })).await
}

/// Asks for a task until it has this status.
async fn until(peer: &Peer, task: &Value, status: &str) -> Value {
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    loop {
        let shown = get(peer, task).await["result"].clone();
        if shown["status"] == status {
            return shown;
        }
        assert!(!["completed", "failed", "cancelled"].iter().any(|end| shown["status"] == *end), "{shown}");
        pace.tick().await;
    }
}

/// A request of a session of 2025-11-25.
async fn in_session(session: &Peer, method: &str, params: Value) -> Value {
    session.post(request(1, method, params)).await.message_or_json().await
}

async fn begin_in(session: &Peer, tool: &str) -> Value {
    let answer = in_session(session, "tools/call", json!({ "name": tool, "task": {} })).await;
    assert_eq!(answer["result"]["task"]["status"], "working", "{answer}");
    answer["result"]["task"]["taskId"].clone()
}

async fn listed(session: &Peer) -> Vec<(Value, Value)> {
    let tasks = in_session(session, "tasks/list", json!({})).await["result"]["tasks"].clone();
    let tasks: Vec<Value> = serde_json::from_value(tasks).unwrap();
    tasks.iter().map(|task| (task["taskId"].clone(), task["status"].clone())).collect()
}

/// Lets this much time pass on the paused clock.
async fn pass(time: Duration) {
    let never = tokio::time::timeout(time, std::future::pending::<()>()).await;
    assert!(never.is_err());
}

#[test]
fn a_task_is_answered_in_one_process_and_fetched_in_any() {
    run(async {
        let memory = Memory::default();
        let (one, other) = Process::two(&memory);
        let task = begin(&one.ada, "asks").await;
        let shown = until(&other.ada, &task, "input_required").await;
        assert_eq!(shown["inputRequests"]["ask-1"]["params"]["message"], "Go on?");
        let began = Instant::now();
        let update = json!({ "taskId": task, "inputResponses": {
            "ask-1": { "action": "decline" }, "ask-9": { "is": "passed over" }
        } });
        let answer = ask(&other.ada, "tasks/update", update).await;
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        for process in [&one, &other, &Process::of(&memory, "s")] {
            assert_eq!(text(&until(&process.ada, &task, "completed").await), "decline");
        }
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    });
}

#[test]
fn the_result_of_a_task_of_2025_is_waited_for_in_any_process() {
    run(async {
        let (one, other) = Process::two(&Memory::default());
        let (here, there) = (one.ada.open(LEGACY).await, other.ada.open(LEGACY).await);
        let task = begin_in(&here, "asks").await;
        let mut result = there.post(request(2, "tasks/result", json!({ "taskId": task }))).await;
        let question = result.message().await.unwrap();
        assert_eq!(question["params"]["message"], "Go on?");
        assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task);
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } });
        assert_eq!(there.post(answer).await.status, 202);
        let last = result.message().await.unwrap();
        assert_eq!(text(&last), "accept", "asked once: {last}");
        // An answer that is an error reaches the task as such.
        let task = begin_in(&here, "asks").await;
        let mut result = there.post(request(3, "tasks/result", json!({ "taskId": task }))).await;
        let question = result.message().await.unwrap();
        let error = json!({ "code": -1, "message": "nobody is there" });
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "error": error });
        assert_eq!(there.post(answer).await.status, 202);
        let last = result.message().await.unwrap();
        assert!(text(&last).contains("nobody is there"), "{last}");
        for session in [&here, &there] {
            let again = in_session(session, "tasks/result", json!({ "taskId": task })).await;
            assert_eq!(again["result"], last["result"]);
        }
    });
}

#[test]
fn a_task_that_is_cancelled_elsewhere_is_cancelled_everywhere_at_once() {
    run(async {
        let (mut one, other) = Process::two(&Memory::default());
        let (here, there) = (one.ada.open(LEGACY).await, other.ada.open(LEGACY).await);
        let task = begin_in(&here, "wait").await;
        one.runs(1).await;
        let params = json!({ "taskId": task });
        assert_eq!(in_session(&there, "tasks/get", params.clone()).await["result"]["status"], "working");
        let cancelled = in_session(&there, "tasks/cancel", params.clone()).await;
        assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
        for session in [&here, &there] {
            assert_eq!(
                in_session(session, "tasks/get", params.clone()).await["result"]["status"],
                "cancelled"
            );
            let again = in_session(session, "tasks/cancel", params.clone()).await;
            assert!(again["error"]["message"].as_str().unwrap().contains("`cancelled`"), "{again}");
        }
        let began = Instant::now();
        one.runs(0).await;
        assert!(began.elapsed() < Duration::from_secs(1));
        // Of the extension, and in the process that runs it.
        let task = begin(&one.ada, "wait").await;
        one.runs(1).await;
        ask(&one.ada, "tasks/cancel", json!({ "taskId": task })).await;
        one.runs(0).await;
        assert_eq!(get(&other.ada, &task).await["result"]["status"], "cancelled");
    });
}

#[test]
fn a_result_outlives_its_process_for_the_time_of_its_task() {
    run(async {
        let memory = Memory::default();
        let (one, other) = Process::two(&memory);
        let task = begin(&one.ada, "quick").await;
        until(&one.ada, &task, "completed").await;
        drop(one);
        pass(Duration::from_secs(3_500)).await;
        assert_eq!(text(&get(&other.ada, &task).await["result"]), "done");
        pass(Duration::from_secs(101)).await;
        let gone = get(&other.ada, &task).await;
        assert_eq!(gone["error"]["code"], -32602, "{gone}");
        assert!(gone["error"]["message"].as_str().unwrap().contains("no longer stored"), "{gone}");
    });
}

#[test]
fn a_task_whose_process_dies_fails_and_is_not_run_again() {
    run(async {
        let (one, other) = Process::two(&Memory::default());
        let session = other.ada.open(LEGACY).await;
        let task = begin(&one.ada, "wait").await;
        let of_2025 = begin_in(&one.ada.open(LEGACY).await, "wait").await;
        let waiting = in_session(&session, "tasks/result", json!({ "taskId": of_2025 }));
        let started = one.started.clone();
        let dies = async {
            pass(Duration::from_secs(1)).await;
            drop(one);
            assert_eq!(get(&other.ada, &task).await["result"]["status"], "working", "nobody knows it yet");
        };
        let (result, ()) = tokio::join!(waiting, dies);
        let why = result["error"]["message"].as_str().unwrap();
        assert!(why.contains("the process of this task has ended"), "{result}");
        let shown = get(&other.ada, &task).await["result"].clone();
        assert_eq!(shown["status"], "failed");
        assert_eq!(shown["error"]["message"], why);
        assert_eq!(listed(&session).await, [(of_2025, json!("failed"))]);
        assert_eq!((started.load(Ordering::Relaxed), other.started.load(Ordering::Relaxed)), (2, 0));
    });
}

#[test]
fn a_list_finds_a_task_whose_process_is_gone() {
    run(async {
        let (one, other) = Process::two(&Memory::default());
        let task = begin_in(&one.ada.open(LEGACY).await, "wait").await;
        let session = other.ada.open(LEGACY).await;
        assert_eq!(listed(&session).await, [(task.clone(), json!("working"))]);
        drop(one);
        pass(LEASE).await;
        assert_eq!(listed(&session).await, [(task, json!("failed"))]);
    });
}

#[test]
fn what_a_process_writes_that_was_taken_for_dead_is_refused() {
    run(async {
        let (mut one, other) = Process::two(&Memory::default());
        let (finished, endless) = (begin(&one.ada, "wait").await, begin(&one.ada, "wait").await);
        one.runs(2).await;
        one.way.cut(true);
        pass(LEASE + Duration::from_secs(1)).await;
        for task in [&finished, &endless] {
            assert_eq!(get(&other.ada, task).await["result"]["status"], "failed");
        }
        one.gate.add_permits(1);
        one.runs(1).await;
        one.way.cut(false);
        // The store tells the first process that its task has failed, and the process aborts the work.
        one.runs(0).await;
        pass(Duration::from_secs(2)).await;
        for process in [&one, &other] {
            for task in [&finished, &endless] {
                assert_eq!(get(&process.ada, task).await["result"]["status"], "failed");
            }
        }
    });
}

#[test]
fn without_the_store_nothing_begins_and_what_ends_is_kept_until_it_is_back() {
    run(async {
        let (mut one, other) = Process::two(&Memory::default());
        let task = begin(&one.ada, "wait").await;
        one.runs(1).await;
        one.way.cut(true);
        for refused in [
            ask(&one.ada, "tools/call", json!({ "name": "quick" })).await,
            get(&one.ada, &task).await,
            ask(&one.ada, "tasks/cancel", json!({ "taskId": task })).await,
        ] {
            assert_eq!(refused["error"]["code"], -32603);
            let why = refused["error"]["message"].as_str().unwrap();
            assert_eq!(why, "the task store is not available: the test's memory is cut off");
        }
        assert_eq!(text(&ask(&one.ada, "tools/call", json!({ "name": "plain" })).await), "plain");
        one.gate.add_permits(1);
        one.runs(0).await;
        pass(Duration::from_secs(2)).await;
        assert_eq!(get(&other.ada, &task).await["result"]["status"], "working");
        one.way.cut(false);
        assert_eq!(text(&until(&other.ada, &task, "completed").await), "waited");
        assert_eq!(one.started.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_result_or_a_question_that_the_store_refuses_fails_its_task_everywhere() {
    run(async {
        let (one, other) = Process::two(&Memory::default());
        for tool in ["long", "asks-long"] {
            let task = begin(&one.ada, tool).await;
            for process in [&other, &one] {
                let shown = until(&process.ada, &task, "failed").await;
                let why = shown["error"]["message"].as_str().unwrap();
                assert!(why.starts_with("the task store takes no more: 4"), "{tool}: {why}");
            }
        }
    });
}

#[test]
fn a_request_that_is_dropped_while_its_task_is_stored_leaves_no_task() {
    run(async {
        let memory = Memory::default();
        let (one, _) = Process::two(&memory);
        one.way.takes.forget_permits(1_000);
        let call = ask(&one.ada, "tools/call", json!({ "name": "wait" }));
        assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        while !memory.records().iter().all(|record| record.is_over) {
            pace.tick().await;
        }
        assert_eq!((memory.records().len(), one.started.load(Ordering::Relaxed)), (1, 0));
    });
}

#[test]
fn a_shared_task_is_of_its_principal_its_protocol_and_its_server() {
    run(async {
        let memory = Memory::default();
        let (one, other) = Process::two(&memory);
        let (modern, task) =
            (begin(&one.ada, "wait").await, begin_in(&one.ada.open(LEGACY).await, "wait").await);
        let ada = other.ada.open(LEGACY).await;
        assert_eq!(listed(&ada).await, [(task.clone(), json!("working"))]);
        let bob = other.ada.with("authorization", "Bearer bob");
        let namesake = Process::of(&memory, "another");
        for (session, task) in [
            (bob.open(LEGACY).await, &task),
            (other.ada.with("authorization", "").open(LEGACY).await, &task),
            (namesake.ada.open(LEGACY).await, &task),
            (ada, &modern),
        ] {
            for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
                let answer = in_session(&session, method, json!({ "taskId": task })).await;
                assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
            }
        }
        assert_eq!(listed(&bob.open(LEGACY).await).await, []);
        for (peer, task) in [(&bob, &modern), (&namesake.ada, &modern), (&other.ada, &task)] {
            assert_eq!(get(peer, task).await["error"]["code"], -32602);
        }
        assert_eq!(get(&other.ada, &modern).await["result"]["status"], "working");
        // Without a principal, any client with the id may ask; in a session only the client of that session.
        let anyone = other.ada.with("authorization", "");
        let of_anyone = begin(&anyone, "wait").await;
        assert_eq!(get(&one.ada.with("authorization", ""), &of_anyone).await["result"]["status"], "working");
        let session = anyone.open(LEGACY).await;
        let of_session = begin_in(&session, "wait").await;
        assert_eq!(listed(&session).await, [(of_session, json!("working"))]);
        assert_eq!(memory.records().len(), 3);
    });
}

#[test]
fn a_record_of_another_version_is_no_task_and_named_in_the_log() {
    let (tell, mut told) = unbounded_channel();
    hearing(Told(tell), || {
        run(async {
            let memory = Memory::default();
            let (one, other) = Process::two(&memory);
            let task = begin(&one.ada, "quick").await;
            until(&one.ada, &task, "completed").await;
            for (record, _) in memory.0.lock().tasks.values_mut() {
                record.content = Some(Raw::empty_object());
            }
            assert_eq!(get(&other.ada, &task).await["error"]["code"], -32602);
            let line = told.recv().await.unwrap();
            assert!(line.contains("another version has written"), "{line}");
            assert!(!line.contains(task.as_str().unwrap()), "the id is a secret: {line}");
        });
    });
}

#[test]
fn a_mounted_server_shares_its_tasks() {
    run(async {
        let memory = Memory::default();
        let mounted = || {
            let part = builder("part", &memory.way())
                .tool(tool("quick").as_task(), |_: NoArguments, _| async { "done" })
                .build()
                .unwrap();
            let whole = Server::builder("whole", "1").mount("p", part).build().unwrap();
            Peer::new(&whole, HttpOptions::new().principal(bearer)).with("authorization", "Bearer ada")
        };
        let (one, other) = (mounted(), mounted());
        let task = begin(&one, "p__quick").await;
        assert_eq!(text(&until(&other, &task, "completed").await), "done");
    });
}

#[test]
fn a_task_store_needs_a_key() {
    let built = Server::builder("s", "1").task_store(Memory::default().way()).build();
    let Err(BuildError::TaskStore { problem }) = built else { panic!("{built:?}") };
    assert!(problem.contains("state_key"), "{problem}");
}
