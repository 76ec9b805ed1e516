//! Fuzz target of the rules: for any messages of a peer, each rule has a result, and the same one every time.
//!
//! The first line is two digits: a revision, and the channel and side to check. Each line after it is `PROBE > MESSAGE` for a
//! message that we sent, and `< MESSAGE` or any other text for one that we received.

use crate::Input;
use mcpjoin_proto::Version;
use mcpjoin_rules::{Channel, Probe, Run, Selection, Trace, check_client, check_server};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let version = input.pick(&Version::ALL.each_ref()).clone();
    let (channel, is_client) = input.pick(&[
        (Channel::Stdio, false),
        (Channel::Stdio, true),
        (Channel::HttpSse, false),
        (Channel::StreamableHttp, true),
    ]);
    let check = if is_client { check_client } else { check_server };
    input.line();
    let mut run = Run::new("fuzz", version).over(channel);
    for line in input.rest().split(|byte| *byte == b'\n') {
        match sent(line) {
            Some((probe, message)) => run.sent(probe, message.to_vec()),
            None => run.received(line.strip_prefix(b"< ").unwrap_or(line).to_vec()),
        }
    }
    let trace = Trace { runs: vec![run], ..Trace::default() };
    let report = check(&trace, &Selection::default());
    let results = report.passed().count() + report.failed().count() + report.skipped().count();
    assert_eq!(results, report.results.len());
    assert_eq!(format!("{report:?}"), format!("{:?}", check(&trace, &Selection::default())));
}

fn sent(line: &[u8]) -> Option<(Probe, &[u8])> {
    let at = line.windows(3).take(32).position(|part| part == b" > ")?;
    let probe = Probe::ALL.iter().find(|probe| probe.as_str().as_bytes() == &line[..at])?;
    Some((*probe, &line[at + 3..]))
}
