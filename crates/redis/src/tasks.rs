//! The task store in Redis: one hash for each task, one sorted set for the tasks of each owner, and for each process that runs tasks
//! a key that says that it is there and a stream of messages.
//!
//! A task is written by one script, which refuses it once it has ended. So the end is written once, and fences off a process that
//! was taken for dead and comes back. The same script holds the limits of an owner. A record is sealed for its task, its owner and
//! whether the task has ended, its content for the head that stands beside it, and a message for its process. The keys are digests.

use std::fmt;
use std::time::Duration;

use mcpjoin::server::{FoundTask, TaskRecord, TaskStore, TaskStoreError, TaskStored};
use mcpjoin_proto::Raw;
use redis::{FromRedisValue as _, Value};
use sha2::{Digest as _, Sha256};

use crate::connection::{Problem, Redis, Script, code};
use crate::events::is_about_record;
use crate::sessions::{hex, millis};

/// Bytes of a sealed task: 4 MiB, which is 3 MiB of result or questions.
const MAX_TASK_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of the sealed part of it that a list shows.
const MAX_HEAD_BYTES: usize = 4 * 1024;

/// Tasks of one owner. Beyond that the oldest ended one is removed; if none has ended, a new one is refused.
const MAX_TASKS: usize = 1_024;

/// Bytes of the sealed tasks of one owner, by the same rule: 64 MiB. Beside them the result of the task that has ended last.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Messages that wait for one process.
const MAX_MESSAGES: usize = 64;

/// Bytes of a sealed message: 1 MiB.
const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// How long a process is regarded as there after its last sign, and a sign of this process takes to be seen after an outage.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// How long a message waits for its process.
const MESSAGE_TIME: Duration = Duration::from_secs(60);

const TASK_PURPOSE: &str = "task in Redis";
const MESSAGE_PURPOSE: &str = "message about a task in Redis";

const TASK_KEY: &str = "mcpjoin:task:";
const OWNER_KEY: &str = "mcpjoin:tasks:";
const PROCESS_KEY: &str = "mcpjoin:process:";
const MESSAGES_KEY: &str = "mcpjoin:messages:";

/// Writes a task if it has not ended. Returns 1; 0 if it has ended or is not there; -1 if its owner has too much.
pub(crate) const PUT: &str = "
local is_new, is_over = ARGV[1] == '1', ARGV[2] == '1'
local was = redis.call('HGET', KEYS[1], 'o')
if (is_new and was) or (not is_new and was ~= '0') then return 0 end
local most, bytes_most, size = tonumber(ARGV[9]), tonumber(ARGV[10]), #ARGV[6] + #ARGV[7]
if redis.call('ZCARD', KEYS[2]) > 2 * most then return redis.error_reply('TOOLARGE beyond the limits') end
local number, bytes, ended, ended_bytes = 1, size, {}, 0
for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  local key = ARGV[12] .. name
  if key ~= KEYS[1] then
    local other = redis.call('HMGET', key, 'o', 'z')
    if other[1] then
      local of_other = tonumber(other[2]) or 0
      number, bytes = number + 1, bytes + of_other
      if other[1] == '1' then
        ended[#ended + 1], ended_bytes = {key, name, of_other}, ended_bytes + of_other
      end
    else
      redis.call('ZREM', KEYS[2], name)
    end
  end
end
if not is_over and (number - #ended > most or bytes - ended_bytes > bytes_most) then return -1 end
for _, other in ipairs(ended) do
  if number <= most and bytes <= bytes_most then break end
  redis.call('UNLINK', other[1])
  redis.call('ZREM', KEYS[2], other[2])
  number, bytes = number - 1, bytes - other[3]
end
redis.call('HSET', KEYS[1], 'p', ARGV[8], 'o', ARGV[2], 's', ARGV[6], 'c', ARGV[7], 'z', size)
if is_new then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('ZADD', KEYS[2], ARGV[5], ARGV[11])
  redis.call('PEXPIRE', KEYS[2], math.max(redis.call('PTTL', KEYS[2]), tonumber(ARGV[3])))
  if ARGV[4] ~= '0' then redis.call('SET', KEYS[3], '1', 'PX', ARGV[4]) end
end
return 1";

/// Returns whether the process of a task is there, and the task.
pub(crate) const OPEN: &str = "
local size = 0
for _, field in ipairs({'p', 'o', 's', 'c'}) do size = size + redis.call('HSTRLEN', KEYS[1], field) end
if size == 0 then return false end
if size > tonumber(ARGV[2]) then return redis.error_reply('TOOLARGE beyond the limits') end
local task = redis.call('HMGET', KEYS[1], 'p', 'o', 's', 'c')
return {redis.call('EXISTS', ARGV[1] .. (task[1] or '')), task[1] or '', task[2] or '', task[3] or '', task[4] or ''}";

/// Returns the same of all tasks of an owner, without their contents, each after its name.
pub(crate) const LIST: &str = "
if redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[3]) then return redis.error_reply('TOOLARGE beyond the limits') end
local found, size = {}, 0
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local key = ARGV[1] .. name
  for _, field in ipairs({'p', 'o', 's'}) do size = size + redis.call('HSTRLEN', key, field) end
  if size > tonumber(ARGV[4]) then return redis.error_reply('TOOLARGE beyond the limits') end
  local task = redis.call('HMGET', key, 'p', 'o', 's')
  if task[1] then
    found[#found + 1] = {name, redis.call('EXISTS', ARGV[2] .. task[1]), task[1], task[2] or '', task[3] or ''}
  end
end
return found";

/// Leaves a message. Returns 0 if too many wait.
pub(crate) const SEND: &str = "
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('XADD', KEYS[1], '*', 'm', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1";

/// Says that a process is there, and returns its first messages with their ids: one that is too large is empty.
pub(crate) const ATTEND: &str = "
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
local found, bytes, start = {}, 0, '-'
while #found < tonumber(ARGV[2]) and bytes < tonumber(ARGV[3]) do
  local entry = redis.call('XRANGE', KEYS[2], start, '+', 'COUNT', 1)[1]
  if not entry then break end
  local message = entry[2][2] or ''
  if #message > tonumber(ARGV[3]) then message = '' end
  start, bytes = '(' .. entry[1], bytes + #message
  found[#found + 1] = {entry[1], message}
end
return found";

/// Stores tasks in Redis or Valkey, so that any process with the same keys answers requests about them:
/// [`ServerBuilder::task_store`](mcpjoin::server::ServerBuilder::task_store).
///
/// A task is stored for its time. Its sealed record has 4 MiB at most: a result or a question beyond that fails the task with an error
/// that says so. One principal of a server has at most 1,024 tasks with 64 MiB, and so have all clients without a principal
/// together: then the oldest ended ones are removed, and a new one is refused where none has ended. If Redis is not available, new
/// tasks are refused, and requests about tasks end with an error.
#[derive(Clone)]
pub struct RedisTasks(Redis);

/// A task as the scripts return it: whether its process is there, the digest of its process, whether it is over, its head.
type Read = (u8, Vec<u8>, Vec<u8>, Vec<u8>);

impl RedisTasks {
    pub(crate) const fn new(redis: Redis) -> Self {
        Self(redis)
    }

    /// Runs a script. `Ok(None)`: what stands there is not ours, which is logged.
    async fn run(
        &self,
        script: Script,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Option<Value>, TaskStoreError> {
        let redis = &self.0;
        let answers = redis.run(redis.waits(), |pipeline, name| {
            let command = pipeline.cmd("EVALSHA").arg(&*name(script)).arg(keys.len()).arg(keys);
            command.arg(arguments);
        });
        let answer = answers.await.map_err(|error| unavailable(error.to_string()))?.pop();
        match answer {
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(error)) if is_about_record(&error) => {
                redis.warn(Problem::Record("task"), &error);
                Ok(None)
            }
            Some(Err(error)) => {
                redis.warn(Problem::Refused, &error);
                Err(unavailable(format!("Redis has refused a command: {}", code(&error))))
            }
            None => Err(unavailable("Redis has not answered".to_owned())),
        }
    }

    fn sealed(&self, purpose: &str, owner: &[u8], text: &Raw) -> Result<String, TaskStoreError> {
        let sealed = self.0.keys().seal(purpose, owner, text.as_bytes());
        sealed.map_err(|error| unavailable(error.message))
    }

    /// Writes a task. Returns what the script returns.
    async fn put(&self, task: &TaskRecord, keep: Option<Duration>) -> Result<i64, TaskStoreError> {
        let name = digest(task.id.as_bytes());
        let mut head = task.clone();
        // The owner need not be in the text, because it is sealed for the owner.
        (head.owner, head.content) = ("".into(), None);
        let head = Raw::from_value(&head).map_err(|error| refused(error.to_string()))?;
        let head = self.sealed(TASK_PURPOSE, &place(&name, task.is_over, &task.owner), &head)?;
        let content = task.content.clone().unwrap_or_else(Raw::empty_object);
        let content = self.sealed(TASK_PURPOSE, &place_of_content(&head), &content)?;
        let bytes = head.len() + content.len();
        if bytes > MAX_TASK_BYTES || head.len() > MAX_HEAD_BYTES {
            self.0.warn(Problem::TooLarge, &format_args!("a task with {bytes} bytes"));
            return Err(refused(format!(
                "Redis keeps {MAX_TASK_BYTES} bytes of a task, and this one has {bytes}"
            )));
        }
        let process = digest(task.process.as_bytes());
        let keys = [
            format!("{TASK_KEY}{name}"),
            format!("{OWNER_KEY}{}", digest(task.owner.as_bytes())),
            process_key(&task.process),
        ];
        let arguments = [
            u8::from(keep.is_some()).to_string(),
            u8::from(task.is_over).to_string(),
            millis(keep.unwrap_or_default()).max(1).to_string(),
            // A task of no process says of none that it is there.
            if task.process.is_empty() { 0 } else { millis(LEASE) }.to_string(),
            task.created.as_micros().to_string(),
            head,
            content,
            process,
            MAX_TASKS.to_string(),
            MAX_BYTES.to_string(),
            name,
            TASK_KEY.to_owned(),
        ];
        let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
        match self.run(Script::PutTask, &keys, &arguments).await? {
            Some(Value::Int(-1)) => Err(refused(format!(
                "Redis has {MAX_TASKS} tasks of this client that have not ended, or {MAX_BYTES} bytes of them"
            ))),
            Some(Value::Int(written)) => Ok(written),
            Some(_) | None => Ok(0),
        }
    }

    /// Opens the head of a task. `None` if it is not ours.
    fn opened(&self, name: &str, owner: &str, read: &Read) -> Option<FoundTask> {
        let (is_there, process, is_over, head) = read;
        let refused = |why: &dyn fmt::Display| {
            self.0.warn(Problem::Record("task"), why);
            None
        };
        let Ok(head) = str::from_utf8(head) else { return refused(&"it is not text") };
        let is_over = is_over == b"1";
        let text = match self.0.keys().open(TASK_PURPOSE, &place(name, is_over, owner), head) {
            Ok(text) => text,
            Err(why) => return refused(&why),
        };
        let Some(mut record) = Raw::parse(text).ok().and_then(|text| text.decode::<TaskRecord>().ok()) else {
            return refused(&"it has another form");
        };
        if digest(record.process.as_bytes()).as_bytes() != process {
            return refused(&"it names another process");
        }
        record.owner = owner.into();
        // After an outage the others have as much time to say that they are there as they have otherwise.
        Some(FoundTask::new(record, *is_there == 1 || !self.0.is_open_for(LEASE)))
    }

    async fn look(&self, id: &str, owner: &str) -> Result<Option<FoundTask>, TaskStoreError> {
        let name = digest(id.as_bytes());
        let most = (MAX_TASK_BYTES + 64).to_string();
        let arguments = [PROCESS_KEY.as_bytes(), most.as_bytes()];
        let found = self.run(Script::OpenTask, &[format!("{TASK_KEY}{name}")], &arguments).await?;
        let Some(value) = found.filter(|value| *value != Value::Nil) else { return Ok(None) };
        let Ok((is_there, process, is_over, head, content)) =
            <(u8, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>)>::from_redis_value(value)
        else {
            self.0.warn(Problem::Record("task"), &"it has another form");
            return Ok(None);
        };
        let place = place_of_content(&String::from_utf8_lossy(&head));
        let Some(mut found) = self.opened(&name, owner, &(is_there, process, is_over, head)) else {
            return Ok(None);
        };
        let opened = str::from_utf8(&content).map_err(|_| "it is not text".to_owned()).and_then(|content| {
            self.0.keys().open(TASK_PURPOSE, &place, content).map_err(|why| why.to_string())
        });
        match opened {
            Ok(text) => found.record.content = Raw::parse(text).ok(),
            Err(why) => {
                self.0.warn(Problem::Record("task"), &why);
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    async fn all(&self, owner: &str) -> Result<Vec<FoundTask>, TaskStoreError> {
        let most = [MAX_TASKS, MAX_TASKS * (MAX_HEAD_BYTES + 64)].map(|number| number.to_string());
        let arguments = [TASK_KEY.as_bytes(), PROCESS_KEY.as_bytes(), most[0].as_bytes(), most[1].as_bytes()];
        let keys = [format!("{OWNER_KEY}{}", digest(owner.as_bytes()))];
        let Some(value) = self.run(Script::ListTasks, &keys, &arguments).await? else {
            return Ok(Vec::new());
        };
        let Ok(read) = <Vec<(String, u8, Vec<u8>, Vec<u8>, Vec<u8>)>>::from_redis_value(value) else {
            self.0.warn(Problem::Record("task"), &"a list has another form");
            return Ok(Vec::new());
        };
        let read = read.into_iter();
        Ok(read
            .filter_map(|(name, is_there, process, is_over, head)| {
                self.opened(&name, owner, &(is_there, process, is_over, head))
            })
            .collect())
    }

    async fn leave(&self, process: &str, message: &Raw) -> Result<(), TaskStoreError> {
        let sealed = self.sealed(MESSAGE_PURPOSE, process.as_bytes(), message)?;
        if sealed.len() > MAX_MESSAGE_BYTES {
            self.0
                .warn(Problem::TooLarge, &format_args!("a message about a task with {} bytes", sealed.len()));
            return Err(refused(format!(
                "Redis keeps {MAX_MESSAGE_BYTES} bytes of an answer for a task, and this one has {}",
                sealed.len()
            )));
        }
        let [most, time] = [MAX_MESSAGES.to_string(), millis(MESSAGE_TIME).to_string()];
        let arguments = [sealed.as_bytes(), most.as_bytes(), time.as_bytes()];
        match self.run(Script::SendMessage, &[messages_key(process)], &arguments).await? {
            Some(Value::Int(1)) => Ok(()),
            _ => Err(unavailable(format!("{MAX_MESSAGES} messages wait for the process of this task"))),
        }
    }

    async fn messages(&self, process: &str) -> Result<Vec<Raw>, TaskStoreError> {
        let keys = [process_key(process), messages_key(process)];
        let [lease, most, bytes] =
            [millis(LEASE).to_string(), MAX_MESSAGES.to_string(), MAX_MESSAGE_BYTES.to_string()];
        let arguments = [lease.as_bytes(), most.as_bytes(), bytes.as_bytes()];
        let read = self.run(Script::Attend, &keys, &arguments).await?;
        let read =
            read.and_then(|read| <Vec<(String, Vec<u8>)>>::from_redis_value(read).ok()).unwrap_or_default();
        let Some((last, _)) = read.last() else { return Ok(Vec::new()) };
        // What is delivered twice, because this fails, has no effect.
        if let Some((time, number)) = last.split_once('-') {
            let next = number.parse::<u64>().map_or(0, |number| number.saturating_add(1));
            let trimmed = self.0.run(self.0.waits(), |pipeline, _| {
                pipeline.cmd("XTRIM").arg(&keys[1]).arg("MINID").arg(format!("{time}-{next}"));
            });
            let _ = trimmed.await;
        }
        let opened = read.iter().filter_map(|(_, sealed)| {
            let text = str::from_utf8(sealed).map_err(|_| "it is not text".to_owned());
            let keys = self.0.keys();
            let open =
                |text| keys.open(MESSAGE_PURPOSE, process.as_bytes(), text).map_err(|why| why.to_string());
            match text.and_then(open) {
                Ok(text) => Raw::parse(text).ok(),
                Err(why) => {
                    self.0.warn(Problem::Record("message about a task"), &why);
                    None
                }
            }
        });
        Ok(opened.collect())
    }
}

impl TaskStore for RedisTasks {
    fn create<'a>(&'a self, task: &'a TaskRecord, keep: Duration) -> TaskStored<'a, ()> {
        Box::pin(async move {
            match self.put(task, Some(keep)).await? {
                1 => Ok(()),
                _ => Err(unavailable("Redis has another value under the key of this task".to_owned())),
            }
        })
    }

    fn update<'a>(&'a self, task: &'a TaskRecord) -> TaskStored<'a, bool> {
        Box::pin(async move { Ok(self.put(task, None).await? == 1) })
    }

    fn open<'a>(&'a self, id: &'a str, owner: &'a str) -> TaskStored<'a, Option<FoundTask>> {
        Box::pin(self.look(id, owner))
    }

    fn list<'a>(&'a self, owner: &'a str) -> TaskStored<'a, Vec<FoundTask>> {
        Box::pin(self.all(owner))
    }

    fn send<'a>(&'a self, process: &'a str, message: &'a Raw) -> TaskStored<'a, ()> {
        Box::pin(self.leave(process, message))
    }

    fn attend<'a>(&'a self, process: &'a str) -> TaskStored<'a, Vec<Raw>> {
        Box::pin(self.messages(process))
    }
}

impl fmt::Debug for RedisTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTasks").field("redis", &self.0).finish_non_exhaustive()
    }
}

fn unavailable(why: String) -> TaskStoreError {
    TaskStoreError::Unavailable(why.into())
}

fn refused(why: String) -> TaskStoreError {
    TaskStoreError::Refused(why.into())
}

/// The name of something in Redis.
fn digest(text: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(text).into();
    hex(&digest[..16])
}

/// The key that says that a process is there.
pub(crate) fn process_key(process: &str) -> String {
    format!("{PROCESS_KEY}{}", digest(process.as_bytes()))
}

fn messages_key(process: &str) -> String {
    format!("{MESSAGES_KEY}{}", digest(process.as_bytes()))
}

/// What the head of a task is sealed for. Each part but the last has a fixed length.
fn place(name: &str, is_over: bool, owner: &str) -> Vec<u8> {
    [b"head ", name.as_bytes(), &[b' ', b'0' + u8::from(is_over), b' '], owner.as_bytes()].concat()
}

/// What the content of a task is sealed for.
fn place_of_content(head: &str) -> Vec<u8> {
    [b"content ".as_slice(), &Sha256::digest(head.as_bytes())].concat()
}
