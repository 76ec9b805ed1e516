//! What Orchestra's programs say: the messages of `orchestra.plugin.v1`, and the frames that they travel in.
//!
//! The messages are made of `plugin.proto` beside this file, which was written from a table of names, tags and types, and
//! are checked in: who builds mcpjoin needs no Protobuf compiler. `cargo xtask wire` fails when the two differ. Their
//! form is that of <https://protobuf.dev/programming-guides/encoding/>.

mod frame;
#[rustfmt::skip]
#[allow(
    missing_docs,
    clippy::large_enum_variant,
    unused_qualifications,
    reason = "made by prost of plugin.proto, which says what a name does not"
)]
mod generated;

pub use frame::{FrameDecoder, MAX_FRAME, WireError, decode, encode, read, read_frame, write};
pub use generated::*;

/// `google.protobuf.Timestamp`: a moment, in seconds and nanoseconds since 1970 in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Timestamp {
    /// Whole seconds; before 1970 they are negative.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds behind them, 0 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}
