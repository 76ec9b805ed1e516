//! The scanning pass: a position in a text, and what must be there.

use wide::u8x16;

use super::block::{self, Block, Wide};
use super::keys::{Key, Keys};
use super::walk::hex4;
use super::{Encoding, MAX_DEPTH, MAX_LENGTH, ScanError, ScanErrorKind};

type Scanned = Result<(), ScanError>;

/// A repeated key of an object, and the depth of that object (1: the outermost).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duplicate {
    pub(crate) key: Key,
    pub(crate) depth: usize,
}

/// A position in a text. Everything before it was validated.
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    limit: usize,
    duplicate: Option<Duplicate>,
}

impl<'a> Scanner<'a> {
    /// Starts at the beginning of a text. Nesting deeper than `depth` (at most [`MAX_DEPTH`]) is an error.
    pub(crate) fn new(text: &'a [u8], depth: usize) -> Result<Self, ScanError> {
        if text.len() > MAX_LENGTH {
            return Err(ScanError { kind: ScanErrorKind::TooLong, at: MAX_LENGTH });
        }
        if let Some(encoding) = Encoding::of(text) {
            return Err(ScanError { kind: ScanErrorKind::Encoding(encoding), at: 0 });
        }
        Ok(Self { text, at: 0, limit: depth.min(MAX_DEPTH), duplicate: None })
    }

    #[inline(always)]
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips one byte that the caller has checked.
    #[inline(always)]
    pub(crate) const fn pass(&mut self) {
        self.at += 1;
    }

    /// Skips white space.
    #[inline(always)]
    pub(crate) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The first repeated key since the last call.
    pub(crate) const fn take_duplicate(&mut self) -> Option<Duplicate> {
        self.duplicate.take()
    }

    /// Skips white space up to the end of the text.
    pub(crate) fn end(&mut self) -> Scanned {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(ScanError { kind: ScanErrorKind::Trailing, at: self.at }),
        }
    }

    /// The error for a byte that is not allowed here.
    #[cold]
    pub(crate) fn unexpected(&self) -> ScanError {
        let kind = match self.peek() {
            None => ScanErrorKind::Truncated,
            Some(byte) if byte.is_ascii() => ScanErrorKind::Unexpected(byte),
            Some(byte) => {
                // A UTF-8 character has at most four bytes.
                let end = self.text.len().min(self.at + 4);
                match core::str::from_utf8(&self.text[self.at..end]) {
                    Err(error) if error.valid_up_to() == 0 => ScanErrorKind::Utf8,
                    _ => ScanErrorKind::Unexpected(byte),
                }
            }
        };
        ScanError { kind, at: self.at }
    }

    /// Scans an object whose keys must be unique, at its brace. `depth` is 1 for the outermost.
    ///
    /// `known` returns a number below 32 for the keys that the caller looks for. `member` is called for each member
    /// with that number, at the value, which it must scan.
    #[inline]
    pub(crate) fn object<K: Copy + Into<u8>>(
        &mut self,
        depth: usize,
        known: impl Fn(&[u8]) -> Option<K>,
        mut member: impl FnMut(&mut Self, Option<K>) -> Scanned,
    ) -> Scanned {
        if depth > self.limit {
            return Err(fault(ScanErrorKind::Depth(self.limit), self.at));
        }
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        // Known keys are recorded as bits, other keys as positions.
        let mut seen = 0_u32;
        let mut repeated = None;
        let mut keys = None;
        loop {
            let key = self.key()?;
            let which = match key.plain(self.text) {
                Some(name) => known(name),
                None => known(key.unescaped(self.text).as_bytes()),
            };
            if let Some(which) = which {
                let bit = 1 << which.into();
                if seen & bit != 0 && repeated.is_none() {
                    repeated = Some(key);
                }
                seen |= bit;
            } else {
                keys.get_or_insert_with(Keys::new).add(self.text, key);
            }
            member(self, which)?;
            self.space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.space();
                }
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                _ => return Err(self.unexpected()),
            }
        }
        if repeated.is_some() || keys.is_some() {
            let other = keys.and_then(|mut keys| keys.duplicate(self.text));
            self.note(repeated, depth);
            self.note(other, depth);
        }
        Ok(())
    }

    /// Records a repeated key, if it is the first in the order of the text.
    #[inline]
    fn note(&mut self, key: Option<Key>, depth: usize) {
        let Some(key) = key else { return };
        if self.duplicate.is_none_or(|duplicate| key.at() < duplicate.key.at()) {
            self.duplicate = Some(Duplicate { key, depth });
        }
    }

    /// Scans a key, its colon and the white space around it.
    #[inline(always)]
    fn key(&mut self) -> Result<Key, ScanError> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        self.at += 1;
        let start = self.at;
        let escaped = self.string()?;
        let key = Key::new(start, self.at - 1, escaped);
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected());
        }
        self.at += 1;
        self.space();
        Ok(key)
    }

    /// The same as [`Scanner::value`], for members that are usually strings: those need no stack of brackets.
    #[inline(always)]
    pub(crate) fn member_value(&mut self, depth: usize) -> Scanned {
        if self.peek() != Some(b'"') {
            return self.value(depth);
        }
        self.at += 1;
        self.string().map(drop)
    }

    /// Scans a value within `depth` arrays and objects, at its first byte.
    ///
    /// The kind of each open bracket is one bit, so a deep value takes no stack and no allocation.
    pub(crate) fn value(&mut self, depth: usize) -> Scanned {
        let room = self.limit.saturating_sub(depth);
        let mut open = 0_usize;
        // 1: an object, 0: an array; the innermost is the lowest bit.
        let mut kinds = 0_u128;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    self.string()?;
                }
                Some(b'{') => {
                    if open == room {
                        return Err(fault(ScanErrorKind::Depth(self.limit), self.at));
                    }
                    self.at += 1;
                    self.space();
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                    } else {
                        open += 1;
                        kinds = kinds << 1 | 1;
                        self.key()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    if open == room {
                        return Err(fault(ScanErrorKind::Depth(self.limit), self.at));
                    }
                    self.at += 1;
                    self.space();
                    if self.peek() == Some(b']') {
                        self.at += 1;
                    } else {
                        open += 1;
                        kinds <<= 1;
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => return Err(self.unexpected()),
            }
            // A value has ended, and the arrays and objects around it may end too.
            loop {
                if open == 0 {
                    return Ok(());
                }
                self.space();
                match (self.peek(), kinds & 1 == 1) {
                    (Some(b','), true) => {
                        self.at += 1;
                        self.space();
                        self.key()?;
                        break;
                    }
                    (Some(b','), false) => {
                        self.at += 1;
                        self.space();
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        open -= 1;
                        kinds >>= 1;
                    }
                    _ => return Err(self.unexpected()),
                }
            }
        }
    }

    #[inline]
    fn literal(&mut self, word: &'static [u8]) -> Scanned {
        for &byte in word {
            if self.peek() != Some(byte) {
                return Err(self.unexpected());
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Scans a number: `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`.
    fn number(&mut self) -> Scanned {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(fault(ScanErrorKind::Number, self.at));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Scanned {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at > start {
            return Ok(());
        }
        let kind = if self.peek().is_none() { ScanErrorKind::Truncated } else { ScanErrorKind::Number };
        Err(fault(kind, self.at))
    }

    /// Scans a string behind its opening quote. Returns whether it has escapes.
    #[inline(always)]
    fn string(&mut self) -> Result<bool, ScanError> {
        // Most strings are short and plain, so one block is enough.
        if let Some(block) = u8x16::load(self.text, self.at) {
            let stops = block.stops();
            if stops != 0 {
                let length = stops.trailing_zeros();
                let high = block.move_mask() & ((1 << length) - 1);
                let end = self.at + length as usize;
                if high == 0 && self.text[end] == b'"' {
                    self.at = end + 1;
                    return Ok(false);
                }
            }
        }
        self.long_string()
    }

    #[inline(never)]
    fn long_string(&mut self) -> Result<bool, ScanError> {
        let start = self.at;
        let mut at = start;
        let mut escaped = false;
        // Bytes behind the closing quote may be included, which costs a check and is never an error.
        let mut merged = u8x16::splat(0);
        if self.blocks::<Wide>(start, &mut at, &mut escaped, &mut merged)?
            || self.blocks::<u8x16>(start, &mut at, &mut escaped, &mut merged)?
        {
            return self.finish_string(start, at, block::is_high(merged), escaped);
        }
        let mut high = block::is_high(merged);
        loop {
            match self.text.get(at) {
                Some(b'"') => return self.finish_string(start, at, high, escaped),
                Some(b'\\' | 0..=0x1f) => {
                    at += self.escape(start, at)?;
                    escaped = true;
                }
                Some(byte) => {
                    high |= !byte.is_ascii();
                    at += 1;
                }
                None => return Err(self.string_error(start, self.text.len(), ScanErrorKind::Truncated)),
            }
        }
    }

    /// Scans whole blocks of a string that starts at `start`. Returns whether its closing quote is at `at`; otherwise
    /// no whole block is left there.
    #[inline(always)]
    fn blocks<B: Block>(
        &self,
        start: usize,
        at: &mut usize,
        escaped: &mut bool,
        merged: &mut u8x16,
    ) -> Result<bool, ScanError> {
        while let Some(block) = B::load(self.text, *at) {
            let mut stops = block.stops();
            *merged |= block.merged();
            let mut next = *at + B::WIDTH;
            // Several escapes in one block are handled without loading it again.
            while stops != 0 {
                let place = *at + stops.trailing_zeros() as usize;
                if self.text[place] == b'"' {
                    *at = place;
                    return Ok(true);
                }
                let end = place + self.escape(start, place)?;
                *escaped = true;
                if end >= next {
                    next = end;
                    break;
                }
                stops &= u64::MAX << (end - *at);
            }
            *at = next;
        }
        Ok(false)
    }

    #[inline]
    fn finish_string(
        &mut self,
        start: usize,
        end: usize,
        high: bool,
        escaped: bool,
    ) -> Result<bool, ScanError> {
        if high && simdutf8::basic::from_utf8(&self.text[start..end]).is_err() {
            return Err(self.string_error(start, end, ScanErrorKind::Utf8));
        }
        self.at = end + 1;
        Ok(escaped)
    }

    /// The length of the escape at `at`; an error for a control character, which also ends a run.
    #[inline(always)]
    fn escape(&self, start: usize, at: usize) -> Result<usize, ScanError> {
        match (self.text[at], self.text.get(at + 1)) {
            (b'\\', Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => Ok(2),
            (b'\\', Some(b'u')) => self.unicode_escape(start, at),
            (b'\\', Some(_)) => Err(self.string_error(start, at, ScanErrorKind::Escape)),
            (b'\\', None) => Err(self.string_error(start, self.text.len(), ScanErrorKind::Truncated)),
            (control, _) => Err(self.string_error(start, at, ScanErrorKind::Control(control))),
        }
    }

    #[inline(never)]
    fn unicode_escape(&self, start: usize, at: usize) -> Result<usize, ScanError> {
        let Some(first) = hex4(self.text, at + 2) else {
            return Err(self.bad_hex(start, at));
        };
        match first {
            0xd800..=0xdbff => {
                if self.text.get(at + 6..at + 8) == Some(b"\\u") {
                    match hex4(self.text, at + 8) {
                        Some(0xdc00..=0xdfff) => return Ok(12),
                        Some(_) => {}
                        None => return Err(self.bad_hex(start, at + 6)),
                    }
                } else if self.text.len() < at + 8 && !self.text[at + 6..].contains(&b'"') {
                    return Err(self.string_error(start, self.text.len(), ScanErrorKind::Truncated));
                }
                Err(self.string_error(start, at, ScanErrorKind::Surrogate))
            }
            0xdc00..=0xdfff => Err(self.string_error(start, at, ScanErrorKind::Surrogate)),
            _ => Ok(6),
        }
    }

    #[cold]
    fn bad_hex(&self, start: usize, at: usize) -> ScanError {
        let digits = self.text.get(at + 2..).unwrap_or_default();
        if digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit) {
            return self.string_error(start, self.text.len(), ScanErrorKind::Truncated);
        }
        self.string_error(start, at, ScanErrorKind::Escape)
    }

    /// The error at `at` in the string that starts at `start`, or the UTF-8 error before it.
    #[cold]
    fn string_error(&self, start: usize, at: usize, kind: ScanErrorKind) -> ScanError {
        match core::str::from_utf8(&self.text[start..at]) {
            // A character that the end of the text truncates is not a UTF-8 error.
            Err(error) if error.error_len().is_some() || kind != ScanErrorKind::Truncated => {
                ScanError { kind: ScanErrorKind::Utf8, at: start + error.valid_up_to() }
            }
            _ => ScanError { kind, at },
        }
    }
}

#[cold]
const fn fault(kind: ScanErrorKind, at: usize) -> ScanError {
    ScanError { kind, at }
}
