//! What the floor over stdio offers beside echo: a list of tools, a resource, and progress. Each is asked for by an option, so that the
//! other measurements do not pay for it.

use std::fs::{self, File};
use std::io::Read as _;

use memchr::memchr3_iter;

use crate::answer::after;

/// How much of the resource is read at once, in bytes.
const PIECE: usize = 64 * 1024;

/// What is offered.
#[derive(Default)]
pub struct Offer {
    /// The list of tools in JSON.
    tools: Option<String>,
    /// The path of the file with the resource.
    resource: Option<String>,
    progress: bool,
}

impl Offer {
    /// Reads `--tools FILE`, `--resource FILE` and `--progress`.
    pub fn parse(words: &[String]) -> Self {
        let file = |option| words.iter().position(|word| word == option).and_then(|at| words.get(at + 1));
        Self {
            tools: file("--tools").map(|path| fs::read_to_string(path).expect("the list of tools")),
            resource: file("--resource").cloned(),
            progress: words.iter().any(|word| word == "--progress"),
        }
    }

    /// Answers a request for what is offered, and flushes pieces of a long answer; false for another request, which may still be
    /// given its progress.
    pub fn answer(&self, line: &[u8], out: &mut Vec<u8>, flush: impl Fn(&mut Vec<u8>) -> bool) -> bool {
        if let Some(tools) = self.tools.as_ref().filter(|_| after(line, b"\"tools/list\"").is_some()) {
            begin(line, out);
            out.extend_from_slice(br#","result":{"tools":"#);
            out.extend_from_slice(tools.as_bytes());
            out.extend_from_slice(b"}}");
            return true;
        }
        if let Some(path) = self.resource.as_ref().filter(|_| after(line, b"\"resources/read\"").is_some()) {
            begin(line, out);
            out.extend_from_slice(br#","result":{"contents":[{"uri":"bench://file","text":""#);
            let mut file = File::open(path).expect("the file of the resource");
            let mut piece = vec![0; PIECE];
            loop {
                let count = file.read(&mut piece).expect("the file of the resource");
                if count == 0 || !flush(out) {
                    break;
                }
                escape(&piece[..count], out);
            }
            out.extend_from_slice(br#""}]}}"#);
            return true;
        }
        if let Some(token) = after(line, b"\"progressToken\":").filter(|_| self.progress) {
            out.extend_from_slice(
                br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#,
            );
            out.extend_from_slice(digits(token));
            out.extend_from_slice(b",\"progress\":1}}\n");
        }
        false
    }
}

fn begin(line: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(digits(after(line, b"\"id\":").expect("a request has an id")));
}

fn digits(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()]
}

/// Writes a text into a string of JSON. Of the characters that need it, a text of the generator has line feeds alone.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    for at in memchr3_iter(b'\n', b'"', b'\\', text) {
        out.extend_from_slice(&text[copied..at]);
        out.extend_from_slice(if text[at] == b'\n' { b"\\n" } else { b"\\" });
        copied = at + usize::from(text[at] == b'\n');
    }
    out.extend_from_slice(&text[copied..]);
}
