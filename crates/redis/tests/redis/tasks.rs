//! Tests of the tasks: written until they end, once; each for its owner; within limits; and what two servers make of it.

use std::time::{Duration, Instant};

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{ElicitFormParams, ElicitationSchema, Members};
use mcpjoin::proto::{Era, ErrorObject, Raw};
use mcpjoin::server::{
    Context, HandlerError, NoArguments, StateKey, TaskRecord, TaskStore as _, TaskStoreError, tool,
};
use mcpjoin::{Client, Link, Server as McpServer};
use mcpjoin_redis::{Redis, RedisTasks};
use serde_json::{Value, json};

use crate::{PATIENT, Server, Stranger, process, run, until};

const KEEP: Duration = Duration::from_secs(100);
const TASKS: &str = "mcpjoin:task:";

pub(crate) fn task(id: &str, owner: &str, content: &str) -> TaskRecord {
    let record = json!({
        "id": id, "owner": owner, "process": "p1", "created": { "secs": 10, "nanos": 0 }, "isOver": false,
        "listed": { "taskId": id }, "content": content
    });
    Raw::from_value(&record).unwrap().decode().unwrap()
}

fn ended(mut task: TaskRecord, content: &str) -> TaskRecord {
    (task.is_over, task.content) = (true, Some(Raw::string(content)));
    task
}

async fn found(store: &RedisTasks, id: &str, owner: &str) -> Option<TaskRecord> {
    store.open(id, owner).await.unwrap().map(|found| found.record)
}

async fn listed(store: &RedisTasks, owner: &str) -> Vec<String> {
    store.list(owner).await.unwrap().iter().map(|found| found.record.id.to_string()).collect()
}

#[test]
fn a_task_is_written_by_any_process_until_it_ends_and_read_by_its_owner() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let (one, other) = (process(&server, 1).await.tasks(), process(&server, 1).await.tasks());
        let first = task("one", "ada", "working");
        let mut second = task("two", "ada", "working");
        second.created = Duration::from_secs(9);
        one.create(&first, KEEP).await.unwrap();
        one.create(&second, 2 * KEEP).await.unwrap();
        for store in [&one, &other] {
            let open = store.open("one", "ada").await.unwrap().unwrap();
            assert_eq!((open.record, open.is_attended), (first.clone(), true));
            assert_eq!(listed(store, "ada").await, ["two", "one"], "in the order of their creation");
            for (id, owner) in [("one", "bob"), ("one", ""), ("three", "ada"), ("", "ada")] {
                assert_eq!(found(store, id, owner).await, None, "{id} {owner}");
            }
            assert_eq!(listed(store, "bob").await, [""; 0]);
        }
        assert_eq!(other.list("ada").await.unwrap()[0].record.content, None);
        assert_eq!(one.update(&task("one", "ada", "asking")).await, Ok(true));
        assert_eq!(found(&other, "one", "ada").await, Some(task("one", "ada", "asking")));
        let end = ended(task("one", "ada", ""), "cancelled");
        assert_eq!(other.update(&end).await, Ok(true));
        for late in [task("one", "ada", "working"), ended(task("one", "ada", ""), "completed")] {
            assert_eq!(one.update(&late).await, Ok(false), "it has ended");
            let mut unknown = late;
            unknown.id = "three".into();
            assert_eq!(one.update(&unknown).await, Ok(false), "it is not there");
        }
        assert!(one.create(&task("one", "ada", "again"), KEEP).await.is_err());
        assert_eq!(found(&one, "one", "ada").await, Some(end));
        let mut stranger = Stranger::at(&server).await;
        let keys = stranger.keys("").await;
        assert!(keys.len() == 6 && !keys.concat().contains("one"), "{keys:?}");
        let mut expiries = Vec::new();
        for key in keys {
            expiries.push(stranger.says::<i64>(&["PTTL", &key]).await.div_euclid(10_000));
        }
        expiries.sort_unstable();
        assert_eq!(
            expiries,
            [0, 0, 0, 9, 19, 19],
            "two processes, the one of the tasks, each task, the list as its longest task"
        );
    });
}

#[test]
fn a_task_of_others_is_refused_and_named() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let store = redis.tasks();
        store.create(&task("one", "ada", "secret"), KEEP).await.unwrap();
        let mut stranger = Stranger::at(&server).await;
        let at_one = stranger.key(TASKS).await;
        store.create(&task("two", "ada", "secret"), KEEP).await.unwrap();
        let at_two = stranger.keys(TASKS).await.into_iter().find(|key| *key != at_one).unwrap();
        let fields = ["p", "o", "s", "c"];
        let mut of_one = Vec::new();
        for field in fields {
            let value: String = stranger.says(&["HGET", &at_one, field]).await;
            assert!(!value.contains("secret") && !value.contains("ada"));
            of_one.push(value);
        }
        let of_two: String = stranger.says(&["HGET", &at_two, "c"]).await;
        let other_version = format!("C{}", &of_one[2][1..]);
        for (field, value) in [
            ("p", "0"),
            ("o", "1"),
            ("s", &*other_version),
            ("s", ""),
            ("s", &of_one[3]),
            ("c", &of_two),
            ("c", "garbage"),
            ("c", ""),
        ] {
            let before = redis.counts().foreign;
            let _: i64 = stranger.says(&["HSET", &at_one, field, value]).await;
            assert_eq!(found(&store, "one", "ada").await, None, "{field} {value}");
            assert_eq!(redis.counts().foreign, before + 1, "{field} {value}");
            let back = &of_one[fields.iter().position(|name| *name == field).unwrap()];
            let _: i64 = stranger.says(&["HSET", &at_one, field, back]).await;
            assert!(found(&store, "one", "ada").await.is_some());
        }
        // The task of one owner in the list of another, and the head of another task in a list.
        store.create(&task("three", "bob", ""), KEEP).await.unwrap();
        let lists = stranger.keys("mcpjoin:tasks:").await;
        for list in &lists {
            let _: i64 = stranger.says(&["ZADD", list, "1", &at_one[TASKS.len()..]]).await;
        }
        assert_eq!(listed(&store, "bob").await, ["three"]);
        let _: i64 = stranger.says(&["HSET", &at_two, "s", &of_one[2]]).await;
        assert_eq!(listed(&store, "ada").await, ["one"]);
        // More than we write, and other things.
        let _: i64 = stranger.says(&["HSET", &at_two, "c", &"x".repeat(5 * 1024 * 1024)]).await;
        assert_eq!(found(&store, "two", "ada").await, None);
        let _: i64 = stranger.says(&["HSET", &at_two, "s", &"x".repeat(5 * 1024 * 1024)]).await;
        assert_eq!(listed(&store, "ada").await, [""; 0]);
        for number in 0..2_100 {
            let _: i64 = stranger.says(&["ZADD", &lists[0], "1", &number.to_string()]).await;
            let _: i64 = stranger.says(&["ZADD", &lists[1], "1", &number.to_string()]).await;
        }
        let _: i64 = stranger.says(&["DEL", &at_two]).await;
        assert_eq!(listed(&store, "ada").await, [""; 0]);
        assert!(store.create(&task("four", "ada", ""), KEEP).await.is_err());
        let _: i64 = stranger.says(&["LPUSH", &at_two, "x"]).await;
        assert_eq!(found(&store, "two", "ada").await, None, "a list");
        let other = process(&server, 2).await;
        assert_eq!(found(&other.tasks(), "one", "ada").await, None, "other keys");
        assert_eq!(other.counts().foreign, 1);
    });
}

#[test]
fn the_tasks_and_bytes_of_an_owner_are_limited_and_the_oldest_ended_one_makes_room() {
    const MOST: usize = 1_024;
    run(async {
        let server = Server::start(&[]).unwrap();
        let store = process(&server, 1).await.tasks();
        let of = |number: usize, content: &str| {
            let mut task = task(&format!("task {number}"), "ada", content);
            task.created = Duration::from_secs(number as u64);
            task
        };
        for number in 0..MOST {
            store.create(&of(number, ""), KEEP).await.unwrap();
        }
        let refused = store.create(&of(MOST, ""), KEEP).await.unwrap_err().to_string();
        assert!(refused.starts_with("the task store takes no more: Redis has 1024 tasks"), "{refused}");
        store.create(&task("of bob", "bob", ""), KEEP).await.unwrap();
        for number in [5, 3] {
            assert_eq!(store.update(&ended(of(number, ""), "")).await, Ok(true));
        }
        store.create(&of(MOST, ""), KEEP).await.unwrap();
        assert_eq!(found(&store, "task 3", "ada").await, None);
        assert!(found(&store, "task 5", "ada").await.is_some());
        // One that runs is said to have all bytes but 3 MiB.
        let mut stranger = Stranger::at(&server).await;
        // The digest of `task 200`.
        let digest = "90a93215eb1be1ce14f66436828974a5";
        let bytes = (61 * 1024 * 1024).to_string();
        let _: i64 = stranger.says(&["HSET", &format!("{TASKS}{digest}"), "z", &bytes]).await;
        let large = "x".repeat(3 * 1024 * 1024 - 4096);
        for (number, gone) in [(100, 5), (101, 100)] {
            assert_eq!(store.update(&ended(of(number, ""), &large)).await, Ok(true), "a result is kept");
            assert_eq!(found(&store, &format!("task {gone}"), "ada").await, None);
        }
        // What runs makes no room: a task has no room for its questions, and nothing is removed for it.
        let refused = store.update(&of(300, &large)).await.unwrap_err();
        assert!(matches!(refused, TaskStoreError::Refused(_)), "{refused}");
        for number in [101, 300] {
            assert!(found(&store, &format!("task {number}"), "ada").await.is_some(), "{number}");
        }
    });
}

#[test]
fn a_task_above_4_mib_and_a_long_head_are_refused() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let store = process(&server, 1).await.tasks();
        let create = async |task: &TaskRecord| store.create(task, KEEP).await;
        let refused =
            create(&task("one", "ada", &"x".repeat(3 * 1024 * 1024))).await.unwrap_err().to_string();
        assert!(refused.starts_with("the task store takes no more: Redis keeps 4194304 bytes"), "{refused}");
        let mut long = task("one", "ada", "");
        long.listed = Raw::string(&"x".repeat(3 * 1024));
        assert!(matches!(create(&long).await, Err(TaskStoreError::Refused(_))));
        let large = task("one", "ada", &"x".repeat(3 * 1024 * 1024 - 4096));
        create(&large).await.unwrap();
        assert_eq!(found(&store, "one", "ada").await, Some(large));
    });
}

#[test]
fn messages_reach_their_process_in_order_and_no_other() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let (one, other) = (redis.tasks(), process(&server, 1).await.tasks());
        let text = |number: usize| Raw::string(&format!("secret {number}"));
        assert_eq!(one.attend("p1").await, Ok(vec![]));
        for number in 0..64 {
            other.send("p1", &text(number)).await.unwrap();
        }
        let full = other.send("p1", &text(64)).await.unwrap_err().to_string();
        assert!(full.contains("64 messages wait"), "{full}");
        let mut stranger = Stranger::at(&server).await;
        let key = stranger.key("mcpjoin:messages:").await;
        let expiry: i64 = stranger.says(&["PTTL", &key]).await;
        assert!((50_000..=60_000).contains(&expiry), "{expiry}");
        assert_eq!(one.attend("p2").await, Ok(vec![]));
        assert_eq!(one.attend("p1").await, Ok((0..64).map(text).collect()));
        assert_eq!(one.attend("p1").await, Ok(vec![]), "once");
        other.send("p1", &text(65)).await.unwrap();
        // Of another process, changed, and too large: only ours is delivered, and none comes again.
        other.send("p2", &text(66)).await.unwrap();
        let at_two = stranger.keys("mcpjoin:messages:").await.into_iter().find(|one| *one != key).unwrap();
        let entries: Vec<(String, Vec<String>)> = stranger.says(&["XRANGE", &at_two, "-", "+"]).await;
        assert!(!entries[0].1[1].contains("secret"));
        for message in [&*entries[0].1[1], "garbage", "", &"x".repeat(1024 * 1024 + 1)] {
            let _: String = stranger.says(&["XADD", &key, "*", "m", message]).await;
        }
        assert_eq!(one.attend("p1").await, Ok(vec![text(65)]));
        assert_eq!(redis.counts().foreign, 4);
        assert_eq!(one.attend("p1").await, Ok(vec![]));
        let large = other.send("p1", &Raw::string(&"x".repeat(1024 * 1024))).await;
        assert!(matches!(large, Err(TaskStoreError::Refused(_))), "{large:?}");
        // A part of what waits is taken at once, the rest with the next look.
        for number in 0..3 {
            other.send("p1", &Raw::string(&number.to_string().repeat(700 * 1024))).await.unwrap();
        }
        let lengths = [one.attend("p1").await, one.attend("p1").await].map(|read| read.unwrap().len());
        assert_eq!(lengths, [2, 1]);
    });
}

#[test]
fn a_process_is_gone_after_5_s_and_not_before_it_could_come_back_to_redis() {
    run(async {
        let mut server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let store = redis.tasks();
        let began = Instant::now();
        store.create(&task("one", "ada", ""), KEEP).await.unwrap();
        let is_there =
            async || store.open("one", "ada").await.ok().flatten().is_none_or(|one| one.is_attended);
        until(async || !is_there().await).await;
        let gone = began.elapsed();
        assert!(gone >= Duration::from_secs(5) && gone < PATIENT, "{gone:?}");
        assert!(!store.list("ada").await.unwrap()[0].is_attended);
        store.attend("p1").await.unwrap();
        assert!(is_there().await);
        server.kill();
        until(async || !redis.is_available()).await;
        server.start_again().unwrap();
        until(async || redis.is_available()).await;
        let mut stranger = Stranger::at(&server).await;
        let own = stranger.key("mcpjoin:process:").await;
        store.create(&task("one", "ada", ""), KEEP).await.unwrap();
        let key = stranger.keys("mcpjoin:process:").await.into_iter().find(|key| *key != own).unwrap();
        let began = Instant::now();
        let _: i64 = stranger.says(&["DEL", &key]).await;
        assert!(is_there().await, "it may not have reached Redis yet");
        until(async || !is_there().await).await;
        assert!(began.elapsed() > Duration::from_secs(3), "{:?}", began.elapsed());
    });
}

#[test]
fn a_task_of_no_process_says_of_none_that_it_is_there() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let store = process(&server, 1).await.tasks();
        let record = TaskRecord::new("one", "ada", Duration::from_secs(1), Raw::empty_object());
        store.create(&record, KEEP).await.unwrap();
        assert!(found(&store, "one", "ada").await.is_some());
        let mut stranger = Stranger::at(&server).await;
        assert_eq!(stranger.keys("mcpjoin:process:").await.len(), 1, "the process of this test");
    });
}

/// A process of a server, with a client.
async fn client(redis: &Redis) -> Client {
    let server = McpServer::builder("s", "1")
        .state_key(StateKey::from_bytes([7; 32]))
        .task_store(redis.tasks())
        .tool(tool("plain"), |_: NoArguments, _| async { "plain" })
        .tool(tool("quick").as_task(), |_: NoArguments, _| async { "done" })
        .tool(tool("never").as_task(), |_: NoArguments, _| std::future::pending::<()>())
        .tool(tool("asks").as_task(), |_: NoArguments, cx: Context| async move {
            let question = ElicitFormParams::new("Go on?", ElicitationSchema::new(Members::new()));
            Ok::<_, HandlerError>(cx.elicit(question).await?.action.as_str().to_owned())
        })
        .build()
        .unwrap();
    let (ours, theirs) = Link::memory();
    server.connect(theirs);
    let builder = Client::builder("c", "1").era(EraChoice::Only(Era::Modern)).tasks(true);
    let builder = builder.elicitation_form(|_| async { Err(ErrorObject::internal("nobody is there")) });
    builder.connect(ours).await.unwrap()
}

async fn ask(client: &Client, method: &str, params: Value) -> Result<Value, String> {
    let answer = client.send_request(method, Some(Raw::from_value(&params).unwrap())).await;
    answer.map(|result| result.decode().unwrap()).map_err(|error| error.to_string())
}

async fn begin(client: &Client, tool: &str) -> Value {
    ask(client, "tools/call", json!({ "name": tool })).await.unwrap()["taskId"].clone()
}

async fn status(client: &Client, task: &Value) -> String {
    let shown = ask(client, "tasks/get", json!({ "taskId": task })).await.unwrap();
    shown["status"].as_str().unwrap().to_owned()
}

#[test]
fn two_servers_answer_requests_about_the_tasks_of_each_other() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let (here, there) = (process(&server, 1).await, process(&server, 1).await);
        let (one, other) = (client(&here).await, client(&there).await);
        let (asks, quick, never) =
            (begin(&one, "asks").await, begin(&one, "quick").await, begin(&one, "never").await);
        until(async || status(&other, &asks).await == "input_required").await;
        let answers = json!({ "taskId": asks, "inputResponses": { "ask-1": { "action": "decline" } } });
        ask(&other, "tasks/update", answers).await.unwrap();
        until(async || status(&one, &asks).await == "completed").await;
        ask(&other, "tasks/cancel", json!({ "taskId": never })).await.unwrap();
        assert_eq!(status(&one, &never).await, "cancelled");
        until(async || status(&other, &quick).await == "completed").await;
        let lost = begin(&one, "never").await;
        // Its server, its connection and its tasks are gone.
        drop(one);
        assert_eq!(status(&other, &quick).await, "completed");
        until(async || status(&other, &lost).await == "failed").await;
        assert_eq!(there.counts(), mcpjoin_redis::RedisCounts::default());
    });
}

#[test]
fn without_redis_no_task_begins_and_calls_go_on() {
    run(async {
        let mut server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let client = client(&redis).await;
        let task = begin(&client, "never").await;
        server.kill();
        until(async || !redis.is_available()).await;
        let redis = redis.patience(Duration::from_millis(10));
        for (method, params) in
            [("tools/call", json!({ "name": "quick" })), ("tasks/get", json!({ "taskId": task }))]
        {
            let why = ask(&client, method, params).await.unwrap_err();
            assert!(why.contains("the task store is not available: Redis at 127.0.0.1:"), "{method}: {why}");
        }
        let plain = ask(&client, "tools/call", json!({ "name": "plain" })).await.unwrap();
        assert_eq!(plain["content"][0]["text"], "plain");
        let redis = redis.patience(PATIENT);
        server.start_again().unwrap();
        until(async || redis.is_available()).await;
        let why = ask(&client, "tasks/get", json!({ "taskId": task })).await.unwrap_err();
        assert!(why.contains("unknown task"), "Redis came back empty: {why}");
        let quick = begin(&client, "quick").await;
        until(async || status(&client, &quick).await == "completed").await;
    });
}
