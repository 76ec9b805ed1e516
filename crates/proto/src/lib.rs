//! The Model Context Protocol without I/O.
//!
//! This crate decodes, encodes and frames messages and contains the session state machine, for all five revisions of
//! the [specification](https://modelcontextprotocol.io/specification). It opens no file, socket or thread and reads no
//! clock: time is an argument ([`Time`]), and bytes are values. It is `no_std`, so the compiler verifies this.
//!
//! Start with [`Message`], a message, and [`session::Session`], which decides what may be sent when.
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
#[doc(hidden)]
pub mod sorted_map;
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
