//! Group A of the adversarial catalogue, and the byte-level cases of groups C, E and F, for the server: raw bytes into the
//! real binary, `mcpjoin serve demo`. (For the client: `crates/mcpjoin/tests/framing.rs`.)
//!
//! After each case the same connection answers a ping.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Ran, Running, command, start};

/// The timeout of a response.
const NEVER: Duration = Duration::from_secs(20);
const LIMIT: usize = 10 * 1024 * 1024;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn initialize(id: u32, version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
    )
}

fn ping(id: impl std::fmt::Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

/// A ping of this many bytes without its line feed. Its id comes first or last.
fn long_ping(id: u32, id_first: bool, length: usize) -> String {
    let (first, last) = if id_first {
        (format!(r#""id":{id},"#), String::new())
    } else {
        (String::new(), format!(r#","id":{id}"#))
    };
    let begin = format!(r#"{{"jsonrpc":"2.0",{first}"method":"ping","params":{{"x":""#);
    let end = format!(r#""}}{last}}}"#);
    let filler = "x".repeat(length - begin.len() - end.len());
    format!("{begin}{filler}{end}")
}

/// The demonstration server with a pipe for arbitrary bytes.
struct Served {
    running: Running,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    reading: JoinHandle<()>,
    pings: u32,
}

impl Served {
    /// A server that has received nothing yet.
    fn fresh() -> Self {
        let mut serve = command(["serve", "demo", "--full"]);
        serve.stdin(Stdio::piped());
        let mut running = start(serve);
        let stdin = running.child.stdin.take();
        let stdout = BufReader::new(running.child.stdout.take().unwrap());
        let (read, lines) = channel();
        let reading = std::thread::spawn(move || {
            for line in stdout.lines() {
                // The receiver is gone if the test has failed.
                let _ = read.send(line.unwrap());
            }
        });
        Self { running, stdin, lines, reading, pings: 1_000_000 }
    }

    /// A server with an open session.
    fn opened() -> Self {
        let mut served = Self::fresh();
        let answer = served.ask(&initialize(0, "2025-11-25"));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        served.raw(INITIALIZED.as_bytes());
        served.raw(b"\n");
        served
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next line, parsed as JSON.
    #[track_caller]
    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(NEVER).expect("a line in time");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends a line, and returns the next line of the server.
    #[track_caller]
    fn ask(&mut self, line: &str) -> Value {
        self.raw(line.as_bytes());
        self.raw(b"\n");
        self.next()
    }

    /// Asserts that the response to a ping is the next line: the server has sent nothing else before.
    #[track_caller]
    fn is_alive(&mut self) {
        self.pings += 1;
        let id = self.pings;
        assert_eq!(self.ask(&ping(id)), json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }

    /// Sends bytes that are refused `times` times with this code and id. Then asserts that the server answers a ping.
    #[track_caller]
    fn refuses(&mut self, bytes: &[u8], code: i64, id: &Value, times: usize) -> String {
        self.raw(bytes);
        self.raw(b"\n");
        let mut said = String::new();
        for _ in 0..times {
            let answer = self.next();
            assert_eq!(answer["error"]["code"], code, "{answer}");
            assert_eq!(answer.get("id"), Some(id), "{answer}");
            let _ = writeln!(said, "{}", answer["error"]["message"].as_str().unwrap());
        }
        self.is_alive();
        said
    }

    /// A number of `/proc/PID/status`; sizes are in KiB.
    fn status(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.running.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Resets the peak of its memory to the current value, and returns this value.
    fn forget_peak(&self) -> u64 {
        std::fs::write(format!("/proc/{}/clear_refs", self.running.child.id()), "5").unwrap();
        self.status("VmHWM")
    }

    /// Closes its input, and returns the lines up to its exit.
    fn finish(mut self) -> (Vec<Value>, Ran) {
        drop(self.stdin.take());
        let ran = self.running.finish();
        self.reading.join().unwrap();
        let rest = self.lines.iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
        (rest, ran)
    }

    /// Closes its input, and asserts that it exits without another message.
    fn leaves(self) {
        let (rest, ran) = self.finish();
        assert_eq!(rest, [Value::Null; 0]);
        ran.exits(0);
    }
}

#[test]
fn a1_a_gibibyte_without_a_line_feed_is_one_error_and_no_memory() {
    let mut served = Served::opened();
    served.is_alive();
    let before = served.forget_peak();
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..1024 {
        served.raw(&piece);
    }
    let said = served.refuses(b"", -32600, &Value::Null, 1);
    assert!(said.contains("10485760"), "{said}");
    let grown = served.status("VmHWM") - before;
    // The limit, plus 16 MiB.
    assert!(grown < 26 * 1024, "{grown} KiB");
    served.leaves();
}

#[test]
fn a2_a3_a_request_of_exactly_the_limit_is_answered_and_one_byte_more_is_refused_by_its_id() {
    let mut served = Served::opened();
    assert_eq!(served.ask(&long_ping(1, true, LIMIT)), json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    let said = served.refuses(long_ping(2, true, LIMIT + 1).as_bytes(), -32600, &json!(2), 1);
    assert!(said.contains("limit of 10485760 bytes"), "{said}");
    // The id comes too late in the message to be found.
    served.refuses(long_ping(3, false, LIMIT + 1).as_bytes(), -32600, &Value::Null, 1);
    served.leaves();
}

#[test]
fn a5_a6_a7_a14_a15_line_ends_marks_and_blank_lines_are_taken() {
    let mut served = Served::fresh();
    served.raw(b"\xef\xbb\xbf");
    assert_eq!(served.ask(&format!("{}\r", initialize(0, "2025-11-25")))["id"], 0);
    assert_eq!(served.ask("{\"jsonrpc\":\"2.0\",\r\"id\":1,\r \"method\":\"ping\"}\r")["result"], json!({}));
    let began = Instant::now();
    served.raw(&b"\n".repeat(1_000_000));
    served.raw(&b" \t \n\r\n".repeat(1000));
    served.is_alive();
    // The requirement of one second applies to the optimised build.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    served.leaves();
}

#[test]
fn a8_a9_a10_a11_a13_a16_a17_a20_f12_what_is_no_message_is_one_error_and_harms_nothing() {
    let mut served = Served::opened();
    let utf_16: Vec<u8> = ping(1).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let glued = format!("INFO {}", ping(1));
    let two = format!("{}{}", ping(1), ping(2));
    for (bytes, words) in [
        (&[&b"\xff\xfe"[..], &utf_16].concat()[..], "UTF-16"),
        (&utf_16, "UTF-16"),
        (b"\0", "not JSON"),
        (b"\0{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", "not JSON"),
        (b"{\"jsonrpc\":\"2.0\",\xff\"id\":1,\"method\":\"ping\"}", "UTF-8"),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"\xc3(\"}", "UTF-8"),
        (b"\x1b[32mStarting server ...\x1b[0m", "not JSON"),
        (glued.as_bytes(), "not JSON"),
    ] {
        let said = served.refuses(bytes, -32700, &Value::Null, 1);
        assert!(said.contains(words), "{bytes:?}: {said}");
    }
    // The error has the id that could be read.
    served.refuses(two.as_bytes(), -32700, &json!(1), 1);
    // The line feed inside the message splits it into two lines.
    served.refuses(b"{\"jsonrpc\":\"2.0\",\"method\":\"one\ntwo\"}", -32700, &Value::Null, 2);
    served.leaves();
}

#[test]
fn a11_a_request_whose_text_is_no_utf_8_is_refused_and_never_repaired() {
    let mut served = Served::opened();
    served.raw(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"message\":\"a\xffb\"}}}\n");
    let answer = served.next();
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    served.is_alive();
    served.leaves();
}

#[test]
fn a12_a21_bytes_that_come_one_by_one_make_the_same_message_and_burn_nothing() {
    let mut served = Served::opened();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"message": "é€😀"}}});
    let before = served.status("voluntary_ctxt_switches");
    let bytes = format!("{call}\n").into_bytes();
    for byte in &bytes {
        let slept = served.status("voluntary_ctxt_switches");
        served.raw(&[*byte]);
        // Each byte is read separately: the next one is written when the server sleeps again.
        while served.status("voluntary_ctxt_switches") == slept {
            std::thread::yield_now();
        }
    }
    assert_eq!(served.next()["result"]["content"][0]["text"], "é€😀");
    let woken = served.status("voluntary_ctxt_switches") - before;
    assert!(woken < 20 * bytes.len() as u64, "woken {woken} times for {} bytes", bytes.len());
    served.leaves();
}

#[test]
fn a18_half_a_line_at_the_end_of_the_input_is_reported_and_the_end_is_clean() {
    let mut served = Served::opened();
    served.is_alive();
    served.raw(&ping(1).as_bytes()[..20]);
    let (rest, ran) = served.finish();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["error"]["code"], -32700);
    assert_eq!(rest[0].get("id"), Some(&Value::Null));
    ran.exits(0);
}

#[test]
fn a19_a_whole_request_without_a_line_feed_at_the_end_is_answered() {
    let mut served = Served::opened();
    served.raw(ping(1).as_bytes());
    let (rest, ran) = served.finish();
    assert_eq!(rest, [json!({ "jsonrpc": "2.0", "id": 1, "result": {} })]);
    ran.exits(0);
}

#[test]
fn a24_what_could_end_a_line_leaves_on_one() {
    let mut served = Served::opened();
    let odd = "\u{2028}\u{2029}\u{85}\n\r\u{0}\u{7f}";
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"message": odd}}});
    assert_eq!(served.ask(&call.to_string())["result"]["content"][0]["text"], odd);
    served.leaves();
}

#[test]
fn c54_c55_c56_c64_the_opening_is_asked_for_once_and_a_ping_always() {
    let mut served = Served::fresh();
    served.is_alive();
    let list = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
    let early = served.ask(&list(1));
    assert_eq!(early["id"], 1);
    assert!(early["error"]["code"].is_i64(), "{early}");
    // An unknown version is answered with a supported one.
    let opened = served.ask(&initialize(2, "1999-01-01"));
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    // `initialized` has not been sent.
    served.is_alive();
    served.raw(INITIALIZED.as_bytes());
    served.raw(b"\n");
    let again = served.ask(&initialize(3, "2024-11-05"));
    assert!(again["error"]["code"].is_i64(), "{again}");
    let listed = served.ask(&list(4));
    assert!(listed["result"]["tools"].as_array().unwrap().len() > 5, "{listed}");
    served.is_alive();
    served.leaves();
}

#[test]
fn c56_every_version_that_is_spoken_is_agreed_to() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut served = Served::fresh();
        assert_eq!(served.ask(&initialize(0, version))["result"]["protocolVersion"], version);
        served.leaves();
    }
}

#[test]
fn f13_ids_of_every_kind_come_back_as_they_were() {
    let mut served = Served::opened();
    for id in
        ["-1", "0", "9007199254740993", "9223372036854775807", "18446744073709551616", r#""""#, r#""1""#]
    {
        served.raw(ping(id).as_bytes());
        served.raw(b"\n");
        let line = served.lines.recv_timeout(NEVER).unwrap();
        assert!(line.contains(&format!(r#""id":{id},"#)), "{id}: {line}");
    }
    for id in ["null", "true", "1.5", "{}", "[]"] {
        served.refuses(ping(id).as_bytes(), -32600, &Value::Null, 1);
    }
    served.leaves();
}

fn slow_call(id: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"test_tool_with_progress"}}}}"#
    )
}

#[test]
fn f34_e98_three_slow_calls_in_flight_at_the_end_of_the_input_are_answered() {
    let mut served = Served::opened();
    let call = |id: u32| {
        let progress = format!(r#""params":{{"_meta":{{"progressToken":{id}}},"#);
        slow_call(id).replace(r#""params":{"#, &progress)
    };
    // The last request has no line feed.
    served.raw(format!("{}\n{}\n{}", call(1), call(2), call(3)).as_bytes());
    let (rest, ran) = served.finish();
    for id in 1..=3 {
        let of_call = |said: &&Value| said["id"] == id || said["params"]["progressToken"] == id;
        let said: Vec<&Value> = rest.iter().filter(of_call).collect();
        // The progress notifications are also sent, and the response comes last.
        let (reply, progress) = said.split_last().unwrap();
        assert!(reply["result"]["content"].is_array(), "{said:?}");
        let progress: Vec<&Value> = progress.iter().map(|said| &said["params"]["progress"]).collect();
        assert_eq!(progress, [0, 50, 100], "{said:?}");
    }
    ran.exits(0);
}

#[test]
fn e96_a_thousand_calls_in_flight_at_the_end_of_the_input_are_all_answered() {
    let mut served = Served::opened();
    let calls: String = (1..=1000).map(|id| slow_call(id) + "\n").collect();
    served.raw(calls.as_bytes());
    let (rest, ran) = served.finish();
    let mut answered: Vec<_> = rest.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    answered.sort_unstable();
    assert_eq!(answered, (1..=1000).collect::<Vec<_>>());
    ran.exits(0);
}

#[test]
fn e92_a_client_that_reads_late_gets_everything_and_the_server_holds_little_meanwhile() {
    // Each request has a few dozen bytes, and its response some kilobytes.
    const CALLS: u32 = 8_000;
    let mut serve = command(["serve", "demo", "--full"]);
    serve.stdin(Stdio::piped());
    let mut running = start(serve);
    let mut stdin = running.child.stdin.take().unwrap();
    let mut stdout = BufReader::new(running.child.stdout.take().unwrap());
    let mut line = String::new();
    writeln!(stdin, "{}\n{INITIALIZED}", initialize(0, "2025-11-25")).unwrap();
    stdout.read_line(&mut line).unwrap();
    let status = |name: &str| {
        let path = format!("/proc/{}/status", running.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = status("VmRSS");

    // The server reads all of them. The responses wait until the client reads them.
    for id in 1..=CALLS {
        writeln!(stdin, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#).unwrap();
    }
    let mut bytes = 0;
    for id in 1..=CALLS {
        line.clear();
        bytes += stdout.read_line(&mut line).unwrap();
        let beginning = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#);
        assert!(line.starts_with(&beginning), "{:.100}", line);
    }
    assert!(bytes > 30 << 20, "{bytes} bytes are too few to fill anything");
    let grown = status("VmHWM") - before;
    assert!(grown < 32 * 1024, "{grown} KiB");
    drop(stdin);
    running.finish().exits(0);
}
