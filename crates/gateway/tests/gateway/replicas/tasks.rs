//! `tasks/list` at another process than the one at which a task was created.

use mcpjoin::proto::Raw;
use mcpjoin::server::{FoundTask, TaskRecord, TaskStore, TaskStoreError, TaskStored};

use super::*;

/// A store of all processes.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<Vec<TaskRecord>>>, Arc<Mutex<bool>>);

impl Tasks {
    fn answers<T: Send + 'static>(&self, answer: T) -> TaskStored<'_, T> {
        let is_gone = *self.1.lock().unwrap();
        let answer = if is_gone { Err(TaskStoreError::Unavailable("it is gone".into())) } else { Ok(answer) };
        Box::pin(std::future::ready(answer))
    }
}

impl TaskStore for Tasks {
    fn create<'a>(&'a self, task: &'a TaskRecord, keep: Duration) -> TaskStored<'a, ()> {
        assert_eq!(keep, Duration::from_secs(60), "the time of the task");
        self.0.lock().unwrap().push(task.clone());
        self.answers(())
    }

    fn update<'a>(&'a self, _: &'a TaskRecord) -> TaskStored<'a, bool> {
        self.answers(false)
    }

    fn open<'a>(&'a self, _: &'a str, _: &'a str) -> TaskStored<'a, Option<FoundTask>> {
        self.answers(None)
    }

    fn list<'a>(&'a self, owner: &'a str) -> TaskStored<'a, Vec<FoundTask>> {
        let all = self.0.lock().unwrap();
        let own = all.iter().filter(|task| *task.owner == *owner);
        self.answers(own.map(|task| FoundTask::new(task.clone(), false)).collect())
    }

    fn send<'a>(&'a self, _: &'a str, _: &'a Raw) -> TaskStored<'a, ()> {
        self.answers(())
    }

    fn attend<'a>(&'a self, _: &'a str) -> TaskStored<'a, Vec<Raw>> {
        self.answers(Vec::new())
    }
}

/// Creates a task, and returns its id.
async fn created(peer: &Peer, name: &str) -> String {
    let params = json!({ "name": name, "arguments": {}, "task": { "ttl": 60_000 } });
    let (status, created) = peer.ask("tools/call", params).await;
    assert_eq!(status, 200, "{created}");
    created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

/// The ids of all pages of the list of tasks.
async fn listed(peer: &Peer) -> BTreeSet<String> {
    let (mut ids, mut params) = (BTreeSet::new(), json!({}));
    loop {
        let (_, page) = peer.ask("tasks/list", params).await;
        let tasks = page["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{page}"));
        ids.extend(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        match page["result"]["nextCursor"].as_str() {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return ids,
        }
    }
}

fn set<const N: usize>(ids: [&String; N]) -> BTreeSet<String> {
    ids.map(Clone::clone).into()
}

#[test]
fn the_tasks_of_a_client_are_listed_at_every_process_and_those_of_others_are_not() {
    run(async {
        let (a, b) = (Target::new("a").await, Target::new("b").await);
        let store = Tasks::default();
        let process = |_| {
            let keys = keys(&[1]);
            builder(&[&a, &b], &keys).task_store(store.clone()).build().http(options(&keys))
        };
        let [one, other] = [0, 1].map(process);
        let client = |name: &str| Peer::new(one.clone()).with("authorization", name);
        let (ada, bob) = (client("ada").open().await, client("bob").open().await);
        let (nobody, somebody) = (Peer::new(one.clone()).open().await, Peer::new(one.clone()).open().await);
        let (first, second) = (created(&ada, "a__job").await, created(&ada.at(&other), "b__job").await);
        let (of_bob, of_nobody) =
            (created(&bob, "a__job").await, created(&nobody.at(&other), "a__job").await);
        for service in [&one, &other] {
            assert_eq!(listed(&ada.at(service)).await, set([&first, &second]));
            assert_eq!(listed(&bob.at(service)).await, set([&of_bob]));
            assert_eq!(listed(&nobody.at(service)).await, set([&of_nobody]));
            assert_eq!(listed(&somebody.at(service)).await, set([]));
        }
        // What the store has is no permission: the target lists the tasks of its own session.
        assert_eq!(listed(&client("ada").open().await).await, set([]));
        let owners: BTreeSet<Box<str>> =
            store.0.lock().unwrap().iter().map(|task| task.owner.clone()).collect();
        assert_eq!(owners.len(), 3);
        // Without the store the list is an error, because a part of it looks like all of it. The task goes on.
        *store.1.lock().unwrap() = true;
        let third = created(&ada, "a__job").await;
        for service in [&one, &other] {
            let (status, refused) = ada.at(service).ask("tasks/list", json!({})).await;
            assert_eq!((status, &refused["error"]["code"]), (200, &json!(-32603)), "{refused}");
            assert!(refused["error"]["message"].as_str().unwrap().contains("it is gone"), "{refused}");
            let (_, task) = ada.at(service).ask("tasks/get", json!({ "taskId": third })).await;
            assert_eq!(task["result"]["taskId"], json!(third), "{task}");
        }
    });
}

#[test]
fn without_a_store_a_process_lists_the_tasks_that_were_created_there() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(2, &[&target]);
        let session = replicas.peer(0).open().await;
        let other = session.at(&replicas.services[1]);
        let (first, second) = (created(&session, "a__job").await, created(&other, "a__job").await);
        assert_eq!(listed(&session).await, set([&first]));
        assert_eq!(listed(&other).await, set([&second]));
    });
}
