//! The messages of `orchestra.plugin.v1` and their frames.
//!
//! The message types are generated from `plugin.proto` in this directory, which was written from a table of names, tags
//! and types. They are checked in, so that a build needs no Protobuf compiler; `cargo xtask wire` fails if the two
//! differ. The encoding is <https://protobuf.dev/programming-guides/encoding/>.

mod frame;
#[rustfmt::skip]
#[allow(
    missing_docs,
    clippy::large_enum_variant,
    unused_qualifications,
    reason = "made by prost of plugin.proto, which says what a name does not"
)]
mod generated;

pub(crate) use frame::next_frame;
pub use frame::{FrameDecoder, MAX_FRAME, WireError, decode, encode, read, read_frame, write};
pub use generated::*;

/// `google.protobuf.Timestamp`: a time since 1970 in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Additional nanoseconds, 0 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}
