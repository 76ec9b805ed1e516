//! The floor: the least cost of an echo server over stdio. One thread, blocking reads and writes, one write for all
//! responses that are ready.
//!
//! `floor` reads the envelope with serde_json's `RawValue` and copies the payload unchanged. `floor --scan` reads it with
//! the scanner of `mcpjoin-proto`, with all its checks: the floor of a server that is as strict as ours. The other options
//! are those of [`Offer`].

use floor::answer;
use floor::offer::Offer;
use rustix::io::{Errno, read, write};
use rustix::stdio::{stdin, stdout};

/// The largest amount that is gathered for one write, in bytes.
const GATHERED: usize = 128 * 1024;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let own = if words.iter().any(|word| word == "--scan") { answer::scanned } else { answer::borrowed };
    let offer = (words.iter().any(|word| word != "--scan")).then(|| Offer::parse(&words));
    let answer = |line: &[u8], out: &mut Vec<u8>| {
        offer.as_ref().is_some_and(|offer| offer.answer(line, out, flush)) || own(line, out)
    };
    let mut input = vec![0; 256 * 1024];
    // The bytes that were read are between `start` and `end`; there is no line feed before `looked`.
    let (mut start, mut looked, mut end) = (0, 0, 0);
    let mut out = Vec::with_capacity(2 * GATHERED);
    loop {
        while let Some(at) = memchr::memchr(b'\n', &input[looked..end]) {
            let feed = looked + at;
            if feed > start && answer(&input[start..feed], &mut out) {
                out.push(b'\n');
            }
            start = feed + 1;
            looked = start;
            if out.len() >= GATHERED && !flush(&mut out) {
                return;
            }
        }
        looked = end;
        if !flush(&mut out) {
            return;
        }
        if start > 0 && (start == end || end == input.len()) {
            input.copy_within(start..end, 0);
            end -= start;
            (start, looked) = (0, end);
        } else if end == input.len() {
            input.resize(2 * end, 0);
        }
        match read(stdin(), &mut input[end..]) {
            Ok(0) => return,
            Ok(count) => end += count,
            Err(Errno::INTR) => {}
            Err(error) => panic!("standard input: {error}"),
        }
    }
}

/// Writes everything; false when the reader has closed the pipe.
fn flush(out: &mut Vec<u8>) -> bool {
    let mut rest = out.as_slice();
    while !rest.is_empty() {
        match write(stdout(), rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    out.clear();
    true
}
