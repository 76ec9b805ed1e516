//! The scanner.
use core::ops::Range;
/// stub
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanError { }
/// Checks that a text is exactly one JSON value; where it lies.
pub fn value(_text: &[u8]) -> Result<Range<usize>, ScanError> { Err(ScanError{}) }
