//! The numbers with which streams are reset or stopped and connections closed: the table in `docs/quic.md`.

use quinn::VarInt;

/// Everything is said.
pub(super) const NO_ERROR: u32 = 0;
/// The request is given up by who made it, or by who should have answered it.
pub(super) const CANCELLED: u32 = 1;
/// A rule of the transport was broken.
pub(super) const PROTOCOL: u32 = 2;
/// A message is larger than the one who reads takes.
pub(super) const TOO_LARGE: u32 = 3;
/// Nothing has moved for too long.
pub(super) const STALLED: u32 = 4;
/// There are as many connections as there may be.
pub(super) const BUSY: u32 = 5;

pub(super) const fn number(code: u32) -> VarInt {
    VarInt::from_u32(code)
}
