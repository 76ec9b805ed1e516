//! The Model Context Protocol without I/O.
//!
//! This crate decodes, encodes and frames messages and holds the state of a session, for all five revisions
//! of the [specification](https://modelcontextprotocol.io/specification). It opens no file, no socket and no
//! thread and reads no clock: time comes in as an argument ([`Time`]), bytes come in and go out as values.
//! It is `no_std`, so the compiler proves that on every machine.
//!
//! Two names to start with: [`Message`] (what is said) and [`session::Session`] (who may say it when).
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

pub mod codec;
pub mod decode;
mod edit;
pub mod encode;
pub mod error;
pub mod http;
mod id;
pub mod json;
mod message;
mod method;
mod profile;
mod raw;
pub mod scan;
pub mod session;
pub mod text;
mod time;
pub mod types;
mod version;
mod walk;

pub use decode::{DecodeError, DecodeErrorKind, DecodeLimits};
pub use error::{ErrorObject, code};
pub use id::{ProgressToken, RequestId};
pub use message::{Message, Notification, Payload, Request, Response};
pub use method::{Direction, Method, MethodFacts, MethodKind, Needs};
pub use profile::Profile;
pub use raw::{Kind, Raw};
pub use time::Time;
pub use version::{Era, Version};
pub use walk::Walk;
