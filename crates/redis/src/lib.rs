//! Legacy sessions, the events of their streams, and tasks in Redis or Valkey, so that any of several processes serves them.
//!
//! [`RedisSessions`] is a [`SessionStore`](mcpjoin::transport::SessionStore), [`RedisEvents`] an
//! [`EventStore`](mcpjoin::transport::EventStore). Servers of the crate `mcpjoin` and the gateway of `mcpjoin-gateway` use them
//! through [`HttpOptions`](mcpjoin::transport::HttpOptions). [`RedisTasks`] is a [`TaskStore`](mcpjoin::server::TaskStore) of such
//! servers. Every record is encrypted and authenticated with the keys that the
//! processes share, and bound to its session or task, its place and its client: who can write to Redis can lose records, but cannot make
//! one, move one to another place, or read one.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcpjoin::server::{NoArguments, SealingKeys, Server, StateKey, tool};
//! use mcpjoin::transport::HttpOptions;
//! use mcpjoin_redis::Redis;
//!
//! # let secret = [7; 32];
//! let keys = SealingKeys::new(StateKey::from_bytes(secret), []);
//! let redis = Redis::new("redis://127.0.0.1:6379/0", keys)?;
//! let idle = Duration::from_secs(30 * 60);
//! let options = HttpOptions::new().session_idle(idle).session_store(redis.sessions(idle)).event_store(redis.events(idle));
//! // Tasks belong to the server, whose key signs their ids.
//! let server = Server::builder("reports", "1.0.0")
//!     .state_key(StateKey::from_bytes(secret))
//!     .task_store(redis.tasks())
//!     .tool(tool("report").as_task(), |_: NoArguments, _| async { "the report" })
//!     .build()?;
//! # drop((options, server));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here keeps a request waiting for long: an answer of Redis counts if it comes within [`PATIENCE`].

mod connection;
mod events;
mod sessions;
mod tasks;

pub use connection::{PATIENCE, Redis, RedisCounts, Unavailable, UrlError};
pub use events::RedisEvents;
pub use sessions::RedisSessions;
pub use tasks::RedisTasks;
