//! The ids of tasks at a joined endpoint.
//!
//! A client gets the id of a task as `base64url(MAC | target | id at the target)`. The MAC covers the owner too: the
//! principal of the client, otherwise its session or connection, otherwise its address. So an id leads to its target
//! without a table, cannot be guessed, and is unknown where another client presents it. The key lives as long as the
//! gateway, or is derived from those that several processes share. Which tasks a client has created is remembered here for `tasks/list`,
//! and in a [`TaskStore`] for the other processes. A task of the client itself, which a question of a target has created, keeps its
//! id, and is remembered for that target: the others may not ask for it. Used by `router`, by `legacy` and `modern`, and by
//! `pair` for what a server sends by itself. It never asks a server, and never reads a result of a tool.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks> and
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use mcpjoin::internal::{declares_tasks, tasks_undeclared, unix_time};
use mcpjoin::server::{SealingKeys, TaskRecord, TaskStore};
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::TasksCapability;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Kind, Method, Notification, Payload, Raw};
use memchr::memmem;
use parking_lot::Mutex;
use sha2::Sha256;

use crate::capacity::Caller;
use crate::errors::failure;
use mcpjoin::connection::Context;

/// Bytes of the longest id of a task at its target. Those of known servers have at most 64.
const MAX_ID_BYTES: usize = 1024;
/// Bytes of the MAC, which cannot be guessed.
const MAC_BYTES: usize = 16;
/// Bytes before the id at the target: the MAC, and the index of the target.
const HEADER_BYTES: usize = MAC_BYTES + size_of::<u32>();
/// Tasks of one session that `tasks/list` has. Beyond it, the oldest is left out. Its id stays valid. As many tasks of the client
/// itself are remembered. Beyond it, the target of the oldest may not ask for it any more.
const MAX_LISTED: usize = 1000;

/// How long other processes list a task at most: as long as the id of a session is accepted.
const MAX_LISTED_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes the ids of tasks at one gateway.
pub(super) struct TaskIds {
    keys: TaskKeys,
    /// Where the processes find which tasks a client has created at another one.
    store: Option<Arc<dyn TaskStore>>,
    /// A random name of this process: connections are numbered in each one, and processes may share the keys.
    process: [u8; 16],
    /// The number of the last session or connection.
    last_connection: AtomicU64,
}

/// The keys of the ids of tasks.
enum TaskKeys {
    /// `None` if the system provided no random numbers. Then no id can be made.
    Own(Option<[u8; 32]>),
    /// Those that several processes share. The first one makes ids.
    Shared(SealingKeys),
}

/// The purpose of the keys that are derived from shared ones.
const PURPOSE: &str = "joined task id";

/// The tasks of one client.
pub(super) struct ClientTasks {
    ids: Arc<TaskIds>,
    /// The owner, as the MAC covers it.
    owner: Vec<u8>,
    /// Whether no other client has the same owner in another process.
    is_owner_everywhere: bool,
    /// The tasks that were created in this session, with their targets, the oldest first: what `tasks/list` may contain,
    /// because a target may list the tasks of all clients that it takes for one.
    created: Mutex<VecDeque<Created>>,
    /// The tasks of the client itself, with the targets whose questions have created them, the oldest first.
    of_client: Mutex<VecDeque<Created>>,
}

/// A task: its target, and its id there.
type Created = (usize, Box<str>);

/// The tasks of one client at one target.
#[derive(Clone)]
pub(crate) struct TargetTasks {
    tasks: Arc<ClientTasks>,
    target: usize,
}

impl TaskIds {
    pub(super) fn new(shared: Option<SealingKeys>, store: Option<Arc<dyn TaskStore>>) -> Self {
        let (mut key, mut process) = ([0; 32], [0; 16]);
        let is_random = getrandom::fill(&mut key).and_then(|()| getrandom::fill(&mut process)).is_ok();
        let keys = match shared {
            Some(keys) if is_random => TaskKeys::Shared(keys),
            _ => TaskKeys::Own(is_random.then_some(key)),
        };
        Self { keys, store, process, last_connection: AtomicU64::new(0) }
    }

    /// Returns the keys, the one that makes ids first.
    fn keys(&self) -> Vec<[u8; 32]> {
        match &self.keys {
            TaskKeys::Own(key) => key.iter().copied().collect(),
            TaskKeys::Shared(keys) => keys.derived(PURPOSE),
        }
    }

    /// Returns the tasks of a client that sends requests without a session.
    pub(super) fn of(self: &Arc<Self>, caller: &Caller) -> Arc<ClientTasks> {
        let owner = match caller {
            Caller::Principal(principal) => [b"principal ", principal.as_bytes()].concat(),
            Caller::Address(address) => format!("address {address}").into_bytes(),
            Caller::Connection(number) => [b"connection ", &self.process[..], &number.to_be_bytes()].concat(),
            Caller::Local => b"local".to_vec(),
        };
        self.owned_by(owner, matches!(caller, Caller::Principal(_)))
    }

    fn owned_by(self: &Arc<Self>, owner: Vec<u8>, is_owner_everywhere: bool) -> Arc<ClientTasks> {
        let (created, of_client) = (Mutex::default(), Mutex::default());
        Arc::new(ClientTasks { ids: self.clone(), owner, is_owner_everywhere, created, of_client })
    }

    /// As [`TaskIds::of_connection`]. `name`: what names the session in every process, if it may be stored.
    pub(super) fn of_session(self: &Arc<Self>, caller: &Caller, name: Option<&str>) -> Arc<ClientTasks> {
        match (caller, name) {
            (Caller::Principal(_), _) | (_, None) => self.of_connection(caller),
            (_, Some(name)) => self.owned_by([b"session ", name.as_bytes()].concat(), true),
        }
    }

    /// Returns the tasks of a client with a session or a connection of its own, which belong to its principal if it has
    /// one.
    pub(super) fn of_connection(self: &Arc<Self>, caller: &Caller) -> Arc<ClientTasks> {
        match caller {
            Caller::Principal(_) => self.of(caller),
            _ => self.of(&Caller::Connection(self.last_connection.fetch_add(1, Ordering::Relaxed) + 1)),
        }
    }
}

impl ClientTasks {
    /// Returns the tasks of this client at one target.
    pub(super) fn at(self: &Arc<Self>, target: usize) -> TargetTasks {
        TargetTasks { tasks: self.clone(), target }
    }

    /// Returns the id that the client gets. `None` if the id at the target is too long.
    fn seal(&self, target: usize, id: &str) -> Option<String> {
        let target = u32::try_from(target).ok().filter(|_| id.len() <= MAX_ID_BYTES)?;
        let body = [&target.to_be_bytes()[..], id.as_bytes()].concat();
        let mac: [u8; 32] = self.mac(self.ids.keys().first()?, &body).finalize().into_bytes().into();
        Some(URL_SAFE_NO_PAD.encode([&mac[..MAC_BYTES], &body].concat()))
    }

    /// Returns the target of a task, and its id there. `None` if this client was not given the id.
    pub(super) fn open(&self, id: &str) -> Option<(usize, String)> {
        if id.len() > (HEADER_BYTES + MAX_ID_BYTES).div_ceil(3) * 4 {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (mac, body) = bytes.split_first_chunk::<MAC_BYTES>()?;
        let is_made_with = |key: &[u8; 32]| self.mac(key, body).verify_truncated_left(mac).is_ok();
        self.ids.keys().iter().any(is_made_with).then_some(())?;
        let (target, id) = body.split_first_chunk()?;
        let target = usize::try_from(u32::from_be_bytes(*target)).ok()?;
        Some((target, String::from_utf8(id.to_vec()).ok()?))
    }

    /// The length keeps two owners apart whose names and bodies are the same in sum.
    fn mac(&self, key: &[u8; 32], body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(&(self.owner.len() as u64).to_be_bytes());
        mac.update(&self.owner);
        mac.update(body);
        mac
    }

    /// Returns the target that a request about a task is for, and the id of the task there.
    ///
    /// # Errors
    /// Those of a server: the client does not declare tasks, or the id is unknown.
    pub(super) fn target(
        &self,
        params: Option<&Payload>,
        cx: &Context,
    ) -> Result<(usize, String), ErrorObject> {
        let is_core = cx.profile().is_some_and(|profile| profile.core_tasks);
        if !is_core && !declares(cx) {
            return Err(tasks_undeclared());
        }
        let id = params.and_then(|params| params.raw().member("taskId"));
        let id = id.as_ref().and_then(Raw::to_string_value);
        let id = id.ok_or_else(|| ErrorObject::invalid_params("`taskId` is missing"))?;
        self.open(&id).ok_or_else(|| {
            ErrorObject::invalid_params("unknown task: this server did not issue the id to this client")
        })
    }

    /// Returns the answer of a target with the ids that the client knows. `asked`: the parameters of the request. `is_core`:
    /// tasks are part of the core of the client's revision.
    ///
    /// # Errors
    /// The id of a new task is too long. The task runs on at the target.
    pub(super) async fn reply(
        &self,
        target: usize,
        method: &Method,
        asked: Option<&Payload>,
        is_core: bool,
        reply: Reply,
    ) -> Result<Reply, ErrorObject> {
        match reply {
            // What is translated has no task.
            Reply::Verbatim(result) if mentions(&result) => {
                let task = result.raw().member("task").filter(|_| *method == Method::CallTool && is_core);
                let result = self.result(target, method, asked, is_core, result)?;
                if let Some(task) = task {
                    self.share(target, &task).await;
                }
                Ok(Reply::Verbatim(result))
            }
            reply => Ok(reply),
        }
    }

    fn result(
        &self,
        target: usize,
        method: &Method,
        asked: Option<&Payload>,
        is_core: bool,
        result: Payload,
    ) -> Result<Payload, ErrorObject> {
        let asks_for_task = || asked.is_some_and(|params| params.raw().member("task").is_some());
        let result = match method {
            Method::CallTool if is_core => match result.raw().member("task") {
                Some(task) if task.kind() == Kind::Object && asks_for_task() => {
                    let shown =
                        self.with_id(target, &Payload::from_raw(task.clone())).ok_or_else(too_long)?;
                    remember(&self.created, target, &task);
                    result.with_member("task", shown.raw())
                }
                _ => result,
            },
            Method::CallTool if is_task(&result) => self.with_id(target, &result).ok_or_else(too_long)?,
            Method::GetTask | Method::CancelTask => self.with_id(target, &result).ok_or_else(too_long)?,
            _ => result,
        };
        Ok(self.with_related(target, result))
    }

    /// Returns the task with the id that the client gets for it. `None` if the id at the target is too long.
    fn with_id(&self, target: usize, task: &Payload) -> Option<Payload> {
        let id = task.raw().member("taskId");
        match id.as_ref().and_then(Raw::to_string_value) {
            Some(id) => Some(task.with_member("taskId", &Raw::string(&self.seal(target, &id)?))),
            None => Some(task.clone()),
        }
    }

    /// Returns a message of a target with the id that the client knows for the task that the message belongs to.
    fn with_related(&self, target: usize, message: Payload) -> Payload {
        related(&message, |id| self.seal(target, id)).unwrap_or(message)
    }

    /// Where other processes find the tasks of this client, and whose they are there.
    fn store(&self) -> Option<(&dyn TaskStore, String)> {
        let store = self.ids.store.as_deref().filter(|_| self.is_owner_everywhere)?;
        Some((store, format!("joined {}", String::from_utf8_lossy(&self.owner))))
    }

    /// Lets other processes list a task. It is the client's also where that fails.
    async fn share(&self, target: usize, task: &Raw) {
        let Some((store, owner)) = self.store() else { return };
        let id = task.member("taskId");
        let Some(id) = id.as_ref().and_then(Raw::to_string_value) else { return };
        let Some((shown, listed)) = self.seal(target, &id).zip(Raw::from_value(&(target, &*id)).ok()) else {
            return;
        };
        let mut record = TaskRecord::new(&shown, &owner, unix_time(), listed);
        // It runs in no process that the store knows, and may make room for a later one.
        record.is_over = true;
        if let Err(error) = store.create(&record, listed_time(task)).await {
            tracing::debug!(target: "mcpjoin", %error, "other processes do not list a task");
        }
    }

    /// Returns the tasks that this client has created: in this session, and in every process if they have a store.
    ///
    /// # Errors
    /// When the store does not answer, because a part of the list looks like all of it.
    pub(super) async fn created(&self) -> Result<HashSet<Created>, ErrorObject> {
        let mut created: HashSet<Created> = self.created.lock().iter().cloned().collect();
        if let Some((store, owner)) = self.store() {
            let found = store.list(&owner).await.map_err(|error| ErrorObject::internal(error.to_string()))?;
            created.extend(found.iter().filter_map(|found| found.record.listed.decode::<Created>().ok()));
        }
        Ok(created)
    }

    /// Returns the tasks in the list of a target that are among those of this client, with the ids that it knows.
    pub(super) fn listed(&self, target: usize, tasks: Vec<Raw>, created: &HashSet<Created>) -> Vec<Raw> {
        let is_own = |task: &Raw| {
            task.member("taskId")
                .and_then(|id| Some(created.contains(&(target, id.to_string_value()?.into()))))
                .unwrap_or(false)
        };
        let own = tasks.into_iter().filter(is_own);
        own.filter_map(|task| self.with_id(target, &Payload::from_raw(task)).map(Payload::into_raw)).collect()
    }
}

impl TargetTasks {
    /// Returns a notification of the target with the ids that the client knows.
    pub(crate) fn notification(&self, mut notification: Notification) -> Notification {
        let is_status = matches!(notification.method, Method::TaskStatus | Method::Tasks);
        notification.params = notification.params.map(|params| match mentions(&params) {
            true if is_status => self.tasks.with_id(self.target, &params).unwrap_or(params),
            true => self.tasks.with_related(self.target, params),
            false => params,
        });
        notification
    }

    /// Returns whether a task of the client was created by a question of this target.
    fn has_created(&self, task: Option<&str>) -> bool {
        task.is_some_and(|task| {
            let known = self.tasks.of_client.lock();
            known.iter().any(|(target, id)| *target == self.target && **id == *task)
        })
    }

    /// Refuses a request of the target about a task of the client that a question of another target has created: its result is the
    /// answer to that question.
    ///
    /// # Errors
    /// The error to answer the target with.
    pub(crate) fn check(&self, method: &Method, params: Option<&Payload>) -> Result<(), ErrorObject> {
        let is_about_task = matches!(method, Method::GetTask | Method::GetTaskResult | Method::CancelTask);
        if !is_about_task || self.has_created(params.and_then(|params| id_of(params.raw())).as_deref()) {
            return Ok(());
        }
        Err(ErrorObject::invalid_params("unknown task: this client did not issue the id to this server"))
    }

    /// Returns whether a notification of the client may be sent to this target.
    pub(crate) fn concerns(&self, notification: &Notification) -> bool {
        let params = notification.params.as_ref();
        notification.method != Method::TaskStatus
            || self.has_created(params.and_then(|params| id_of(params.raw())).as_deref())
    }

    /// Returns the parameters of a question of the target with the id that the client knows for the task that asks.
    pub(crate) fn question(&self, params: Payload) -> Payload {
        if mentions(&params) { self.tasks.with_related(self.target, params) } else { params }
    }

    /// Returns the answer of the client to a request of the target: with the id that the target knows for the task that has asked, and
    /// without tasks of the client that other targets have created.
    pub(crate) fn answer(&self, result: Payload) -> Payload {
        if !mentions(&result) {
            return result;
        }
        if let Some(task) = result.raw().member("task") {
            remember(&self.tasks.of_client, self.target, &task);
        }
        if let Some(tasks) = result.raw().member("tasks").and_then(|tasks| tasks.decode::<Vec<Raw>>().ok()) {
            let own: Vec<Raw> =
                tasks.into_iter().filter(|task| self.has_created(id_of(task).as_deref())).collect();
            let own = Raw::from_value(&own).unwrap_or_else(|_| Raw::null());
            return result.with_member("tasks", &own);
        }
        let own = |id: &str| self.tasks.open(id).filter(|(target, _)| *target == self.target);
        related(&result, |id| own(id).map(|(_, id)| id)).unwrap_or(result)
    }
}

/// Remembers a task of this target.
fn remember(tasks: &Mutex<VecDeque<Created>>, target: usize, task: &Raw) {
    let Some(id) = id_of(task) else { return };
    let mut tasks = tasks.lock();
    if tasks.len() >= MAX_LISTED {
        tasks.pop_front();
    }
    tasks.push_back((target, id.into()));
}

fn id_of(task: &Raw) -> Option<String> {
    Some(task.member("taskId")?.to_string_value()?.into_owned())
}

/// Returns whether the message may contain the id of a task. Much faster than reading it.
fn mentions(message: &Payload) -> bool {
    memmem::find(message.raw().as_bytes(), b"\"taskId\"").is_some()
}

/// Returns the message with another id for the task that it belongs to; `None` if there is no such id.
fn related(message: &Payload, other: impl FnOnce(&str) -> Option<String>) -> Option<Payload> {
    let related = message.meta()?.member(key::RELATED_TASK)?;
    let id = related.member("taskId")?;
    let id = other(&id.to_string_value()?)?;
    let related = Payload::from_raw(related).with_member("taskId", &Raw::string(&id));
    Some(message.with_meta_member(key::RELATED_TASK, related.raw()))
}

/// Returns how long other processes list a task: for its time, if it has one.
fn listed_time(task: &Raw) -> Duration {
    let time = task.member("ttl").and_then(|ttl| ttl.decode().ok()).map(Duration::from_millis);
    time.map_or(MAX_LISTED_TIME, |time| time.min(MAX_LISTED_TIME))
}

fn is_task(result: &Payload) -> bool {
    result.result_type().as_ref().and_then(Raw::to_string_value).as_deref() == Some("task")
}

/// Returns whether the client of a modern request declares tasks.
pub(super) fn declares(cx: &Context) -> bool {
    cx.client().is_some_and(|client| declares_tasks(client))
}

/// Returns what several targets declare of the tasks of 2025-11-25: what one of them can do.
pub(super) fn united<'a>(all: impl IntoIterator<Item = &'a TasksCapability>) -> Option<Box<TasksCapability>> {
    all.into_iter().fold(None, |united, one| {
        let mut united: Box<TasksCapability> = united.unwrap_or_default();
        united.list = united.list.or_else(|| one.list.clone());
        united.cancel = united.cancel.or_else(|| one.cancel.clone());
        united.requests = united.requests.or_else(|| one.requests.clone());
        Some(united)
    })
}

fn too_long() -> ErrorObject {
    let text =
        format!("the id of a task is above the limit `task_id_bytes` of {MAX_ID_BYTES} of this gateway");
    failure("tooLarge", &text, &[("limit", MAX_ID_BYTES.to_string())])
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mcpjoin::server::StateKey;

    use super::*;

    fn principal(name: &str) -> Caller {
        Caller::Principal(name.into())
    }

    fn payload(text: &str) -> Payload {
        Payload::from_raw(Raw::parse(text.to_owned()).expect("JSON"))
    }

    #[test]
    fn an_id_is_known_to_its_owner_alone() {
        let ids = Arc::new(TaskIds::new(None, None));
        let owners = [
            ids.of(&principal("a")),
            ids.of(&principal("b")),
            ids.of(&Caller::Address([10, 0, 0, 1].into())),
            ids.of(&Caller::Address([10, 0, 0, 2].into())),
            ids.of(&Caller::Local),
            ids.of_connection(&Caller::Local),
            ids.of_connection(&Caller::Local),
            // Another process.
            Arc::new(TaskIds::new(None, None)).of(&principal("a")),
        ];
        for (index, owner) in owners.iter().enumerate() {
            let id = owner.seal(3, "T-1").expect("short");
            assert_eq!(owner.seal(3, "T-1"), Some(id.clone()), "the same each time");
            for (other_index, other) in owners.iter().enumerate() {
                let known = (index == other_index).then(|| (3, "T-1".to_owned()));
                assert_eq!(other.open(&id), known, "{index} {other_index}");
            }
        }
        // A principal has its tasks in each of its sessions.
        let id = owners[0].seal(0, "T").expect("short");
        assert_eq!(ids.of_connection(&principal("a")).open(&id), Some((0, "T".to_owned())));
    }

    #[test]
    fn a_connection_of_another_process_with_the_same_key_and_number_has_other_tasks() {
        let key = || SealingKeys::new(StateKey::from_bytes([1; 32]), []);
        let [ours, theirs] = [(); 2].map(|()| Arc::new(TaskIds::new(Some(key()), None)));
        let id = ours.of_connection(&Caller::Local).seal(0, "T").expect("short");
        assert_eq!(theirs.of_connection(&Caller::Local).open(&id), None);
        // A principal is the same everywhere.
        let id = ours.of(&principal("a")).seal(0, "T").expect("short");
        assert_eq!(theirs.of(&principal("a")).open(&id), Some((0, "T".to_owned())));
    }

    #[test]
    fn an_id_that_was_changed_in_any_place_is_unknown() {
        let tasks = Arc::new(TaskIds::new(None, None)).of(&Caller::Local);
        let id = tasks.seal(0, "a task").expect("short");
        let bytes = URL_SAFE_NO_PAD.decode(&id).expect("base64url");
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 1;
            assert_eq!(tasks.open(&URL_SAFE_NO_PAD.encode(&other)), None, "{place}");
        }
        for other in ["", "a task", &id[1..], &format!("{id}A"), &format!("{id}=")] {
            assert_eq!(tasks.open(other), None, "{other}");
        }
    }

    #[test]
    fn the_id_of_a_task_has_a_limit_in_bytes() {
        let tasks = Arc::new(TaskIds::new(None, None)).of(&Caller::Local);
        let longest = "x".repeat(MAX_ID_BYTES);
        let id = tasks.seal(0, &longest).expect("it fits");
        assert_eq!(tasks.open(&id), Some((0, longest.clone())));
        assert_eq!(tasks.seal(0, &format!("{longest}x")), None);
        let created = payload(&format!(r#"{{"resultType":"task","taskId":"{longest}x"}}"#));
        let reply = tasks.reply(0, &Method::CallTool, None, false, Reply::Verbatim(created));
        let error = reply.now_or_never().expect("no store").expect_err("too long");
        assert!(error.message.contains("`task_id_bytes` of 1024"), "{}", error.message);
    }

    #[test]
    fn the_list_has_the_last_tasks_of_this_session_and_no_others() {
        let tasks = Arc::new(TaskIds::new(None, None)).of(&Caller::Local);
        let task = |id: usize| Raw::parse(format!(r#"{{"taskId":"{id}"}}"#)).expect("JSON");
        (0..=MAX_LISTED).for_each(|id| remember(&tasks.created, 1, &task(id)));
        let all = || (0..MAX_LISTED + 5).map(task).collect::<Vec<_>>();
        let created = tasks.created().now_or_never().expect("no store").expect("all");
        let listed = |target: usize, all: Vec<Raw>| tasks.listed(target, all, &created);
        assert_eq!(listed(1, all()).len(), MAX_LISTED);
        assert!(listed(1, vec![task(0)]).is_empty(), "the oldest");
        assert!(listed(0, all()).is_empty(), "another target");
        let last = listed(1, vec![task(MAX_LISTED)]).remove(0);
        let id = last.member("taskId").expect("an id");
        let id = id.to_string_value().expect("a string").into_owned();
        assert_eq!(tasks.open(&id), Some((1, MAX_LISTED.to_string())));
    }

    #[test]
    fn tasks_of_the_client_are_limited_and_known_only_to_the_target_that_created_them() {
        let tasks = Arc::new(TaskIds::new(None, None)).of(&Caller::Local);
        let task = |id: usize| format!(r#"{{"taskId":"{id}"}}"#);
        (0..=MAX_LISTED)
            .for_each(|id| drop(tasks.at(1).answer(payload(&format!(r#"{{"task":{}}}"#, task(id))))));
        let asks = |target: usize, id: usize| {
            tasks.at(target).check(&Method::GetTaskResult, Some(&payload(&task(id)))).is_ok()
        };
        assert!((1..=MAX_LISTED).all(|id| asks(1, id)) && !asks(1, 0) && !asks(0, 1));
        let listed = format!(r#"{{"tasks":[{}]}}"#, task(7));
        assert_eq!(tasks.at(0).answer(payload(&listed)).raw().as_str(), r#"{"tasks":[]}"#);
    }

    #[test]
    fn another_process_lists_a_task_for_its_time_and_a_day_at_most() {
        let day = 24 * 60 * 60;
        for (ttl, seconds) in [
            ("60000", 60),
            ("86400000", day),
            ("86400001", day),
            ("null", day),
            ("-1", day),
            ("1e99", day),
            ("\"x\"", day),
        ] {
            let task = Raw::parse(format!(r#"{{"taskId":"T","ttl":{ttl}}}"#)).expect("JSON");
            assert_eq!(listed_time(&task), Duration::from_secs(seconds), "{ttl}");
        }
    }

    #[test]
    fn a_question_of_a_task_and_its_answer_name_the_task_as_their_reader_knows_it() {
        let tasks = Arc::new(TaskIds::new(None, None)).of(&Caller::Local);
        let asked = r#"{"message":"m","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}}}"#;
        let (at, id) = (tasks.at(2), tasks.seal(2, "T").expect("short"));
        let shown = at.question(payload(asked));
        assert_eq!(shown.raw().as_str(), asked.replace("\"T\"", &format!("\"{id}\"")));
        assert_eq!(at.answer(shown.clone()).raw().as_str(), asked);
        assert_eq!(tasks.at(1).answer(shown.clone()).raw().as_str(), shown.raw().as_str());
        let result = Reply::Verbatim(payload(asked));
        let result = tasks.reply(2, &Method::GetTaskResult, None, true, result);
        let result = result.now_or_never().expect("no store").expect("a result");
        assert!(matches!(result, Reply::Verbatim(result) if result.raw().as_str() == shown.raw().as_str()));
        // Other members of that name belong to the server and the client.
        let own = r#"{"taskId":"T","_meta":{"taskId":"T"}}"#;
        assert_eq!(at.question(payload(own)).raw().as_str(), own);
        let log = Notification { method: Method::LogMessage, params: Some(payload(asked)) };
        assert_eq!(at.notification(log).params.map(|params| params.raw().clone()), Some(shown.raw().clone()));
    }
}
