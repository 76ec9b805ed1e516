//! serde over Raw.
use alloc::string::String;
use alloc::borrow::Cow;
use core::fmt;
use serde::{Serialize, Serializer, Deserializer, de::DeserializeOwned};
use crate::Raw;
/// Why not written.
#[derive(Debug)]
pub struct WriteError;
/// Why not read.
#[derive(Debug)]
pub struct ReadError;
pub(crate) fn to_raw<T: Serialize + ?Sized>(_value: &T) -> Result<Raw, WriteError> { Err(WriteError) }
pub(crate) fn from_raw<T: DeserializeOwned>(_raw: &Raw) -> Result<T, ReadError> { Err(ReadError) }
pub(crate) fn serialize_raw<S: Serializer>(_raw: &Raw, s: S) -> Result<S::Ok, S::Error> { s.serialize_unit() }
pub(crate) fn deserialize_raw<'de, D: Deserializer<'de>>(_d: D) -> Result<Raw, D::Error> { unreachable!() }
pub(crate) fn push_string(_s: &str, _out: &mut String) { }
pub(crate) fn write_string(_s: &str, _out: &mut dyn fmt::Write) -> fmt::Result { Ok(()) }
pub(crate) fn string_value(_raw: &Raw) -> Option<Cow<'_, str>> { None }
