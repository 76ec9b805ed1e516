//! Tests of the time of the checks for a peer that sends as much as is recorded: with every rule of both books, the time
//! is proportional to the number of messages.
//!
//! The limit is on the processor time of this thread, where the system reports it. It is more than ten times the time
//! that an unoptimised build needs. Reading all our requests again for each message would take minutes.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use mcpjoin_proto::Version;
use mcpjoin_rules::{Channel, Probe, Report, Run, Selection, Trace, check_client, check_server};

/// The number of recorded lines of a run: `MOST_LINES` in the code that records runs.
const LINES: usize = 20_000;
/// The number of lines of a mixture, for which fewer are enough.
const SOME: usize = 5_000;
/// The number of our requests: more than one run ever sends.
const OURS: usize = 300;
const BOUND: Duration = Duration::from_secs(40);

/// The processor time of this thread; where the system does not report it, the elapsed time.
fn spent() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = || {
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        statistics.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    told().unwrap_or_else(|| START.elapsed())
}

/// Checks a trace with every rule, and fails if that takes longer than the limit.
fn is_checked_soon(trace: &Trace, check: impl Fn(&Trace, &Selection) -> Report) {
    let before = spent();
    let report = check(trace, &Selection::default());
    let took = spent() - before;
    assert!(took < BOUND, "{took:?}");
    assert!(report.failed().next().is_some(), "nothing of this is in order");
}

fn session(revision: &str) -> Run {
    let mut run = Run::new("flood", Version::parse(revision));
    run.sent(Probe::Initialize, r#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{}}"#);
    run.received(r#"{"jsonrpc":"2.0","id":"open","result":{"capabilities":{}}}"#);
    run
}

/// Requests that ask for progress and log messages, and that get no response.
fn asks(run: &mut Run) {
    for id in 0..OURS {
        let meta = format!(r#"{{"progressToken":"ours-{id}"}}"#);
        run.sent(
            Probe::Ping,
            format!(r#"{{"jsonrpc":"2.0","id":"ours-{id}","method":"ping","params":{{"_meta":{meta}}}}}"#),
        );
    }
}

/// Adds messages of these kinds in turn, each with its own number in place of `#`.
fn tells(run: &mut Run, lines: usize, kinds: &[&str]) {
    for place in 0..lines {
        let kind = kinds[place % kinds.len()];
        run.received(format!(r#"{{"jsonrpc":"2.0",{}}}"#, kind.replace('#', &place.to_string())));
    }
}

const PROGRESS: &str = r##""method":"notifications/progress","params":{"progressToken":"#","progress":1}"##;
const CANCELLED: &str = r##""method":"notifications/cancelled","params":{"requestId":"#"}"##;
const LOG: &str = r##""method":"notifications/message","params":{"level":"info","data":"#"}"##;
const DONE: &str = r##""method":"notifications/elicitation/complete","params":{"elicitationId":"#"}"##;
const ASKS: &str = r##""id":"id-#","method":"ping","params":{"_meta":{"progressToken":"#"}}"##;
const ANSWERS: &str = r##""id":"stray-#","result":{}"##;
const REFUSES: &str = r##""error":{"code":-32603,"message":"#"}"##;

#[test]
fn a_flood_of_progress_with_unknown_tokens_is_checked_soon() {
    let mut trace = Trace::default();
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut run = session(revision);
        asks(&mut run);
        tells(&mut run, LINES, &[PROGRESS]);
        trace.runs.push(run);
    }
    is_checked_soon(&trace, check_server);
    is_checked_soon(&trace, check_client);
}

#[test]
fn a_flood_of_all_that_a_server_may_say_is_checked_soon() {
    let mut trace = Trace::default();
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut run = session(revision);
        asks(&mut run);
        tells(&mut run, SOME, &[CANCELLED, LOG, DONE, ASKS, ANSWERS, REFUSES]);
        trace.runs.push(run);
    }
    is_checked_soon(&trace, check_server);
}

#[test]
fn a_flood_of_all_that_a_client_may_say_is_checked_soon() {
    let calls = r##""id":"id-#","method":"tools/call","params":{"name":"a","requestState":"s","_meta":{}}"##;
    let mut trace = Trace::default();
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut run = Run::new("flood", Version::parse(revision));
        asks(&mut run);
        tells(&mut run, SOME, &[PROGRESS, CANCELLED, ASKS, ANSWERS, REFUSES, calls]);
        // Each call has a late response that it refers to; all these responses are sent at once.
        for place in 0..SOME {
            let kind = r##""id":"id-#","result":{"resultType":"input_required","requestState":"state-#"}"##;
            let kind = kind.replace('#', &place.to_string());
            run.sent(Probe::Answer, format!(r#"{{"jsonrpc":"2.0",{kind}}}"#));
        }
        tells(&mut run, SOME, &[calls]);
        trace.runs.push(run);
    }
    is_checked_soon(&trace, check_client);
}

/// Each call has another name, and all were refused for their headers.
#[test]
fn a_flood_of_calls_with_wrong_headers_is_checked_soon() {
    let call = r##""id":"id-#","method":"tools/call","params":{"name":"tool-#"}"##;
    let mut run = Run::new("flood", Version::parse("2026-07-28")).over(Channel::StreamableHttp);
    tells(&mut run, 1, &[ASKS]);
    for place in 0..LINES / 2 {
        let line = call.replace('#', &place.to_string());
        run.received(format!(r#"{{"jsonrpc":"2.0",{line}}}"#));
        let error = r#""error":{"code":-32020,"message":"no"}"#;
        run.sent(Probe::Answer, format!(r#"{{"jsonrpc":"2.0","id":"id-{place}",{error}}}"#));
    }
    let trace = Trace { runs: vec![run], ..Trace::default() };
    is_checked_soon(&trace, check_client);
}

/// The capabilities of the client are as large as a message may be.
#[test]
fn a_flood_of_changed_roots_is_checked_soon() {
    let mut run = Run::new("flood", Version::parse("2025-11-25"));
    let capabilities = format!(r#"{{"experimental":{{"x":[{}0]}}}}"#, "0,".repeat(500_000));
    let params = format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities}}}"#);
    run.received(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#));
    tells(&mut run, LINES, &[r#""method":"notifications/roots/list_changed""#]);
    let trace = Trace { runs: vec![run], ..Trace::default() };
    is_checked_soon(&trace, check_client);
}
