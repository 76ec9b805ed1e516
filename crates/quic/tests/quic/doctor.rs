//! The doctor examines a server over QUIC: a healthy one, and each problem with its advice. Time is virtual.

use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::{Server, server::NoArguments, server::tool};
use mcpjoin_diagnostics::doctor::{Check, Doctor, Outcome, Report};
use mcpjoin_quic::endpoint::{self as quic, ClientAuth, Identity, QuicOptions, ServerTls, Trust};
use mcpjoin_quic::{ALPN, QuicConnect};
use tokio::net::UdpSocket;

use crate::endpoint::run;
use crate::ports::Closed;
use crate::trust::Authority;
use crate::{BOTH, Gate, Up, builder};

async fn examined(connect: QuicConnect) -> Report {
    Doctor::new(connect.timeout(Duration::from_secs(3)), Client::builder("doctor", "1")).examine().await
}

/// The parts that ran, the only finding, and its text.
#[track_caller]
fn fault(report: &Report) -> (Vec<&'static str>, &'static str, String) {
    assert!(!report.is_healthy());
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    let ran =
        report.steps.iter().filter(|step| step.took.is_some()).map(|step| step.phase.as_str()).collect();
    assert_eq!(report.steps.len(), 6, "every part is told");
    let failed: Vec<Check> =
        report.checks.iter().filter(|(_, how)| *how == Outcome::Failed).map(|(check, _)| *check).collect();
    assert_eq!(failed, [finding.check]);
    assert!(!finding.meaning.is_empty() && !finding.advice.is_empty());
    (ran, finding.id, format!("{} / {}", finding.seen, finding.advice))
}

#[test]
fn a_server_without_faults_is_described_part_by_part() {
    run(async {
        for era in BOTH {
            let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
            let client = Client::builder("doctor", "1").era(EraChoice::Only(era));
            let report = Doctor::new(up.link(), client).examine().await;
            assert!(report.is_healthy(), "{:?}", report.findings);
            let parts: Vec<_> = report.steps.iter().map(|step| step.phase.as_str()).collect();
            assert_eq!(parts, ["resolve", "connect", "probe", "initialize", "list", "shut down"]);
            let opened = if era == Era::Modern { 2 } else { 3 };
            for (place, step) in report.steps.iter().enumerate() {
                let ran = place != 5 - opened;
                assert_eq!((step.outcome == Outcome::Passed, step.took.is_some()), (ran, ran), "{step:?}");
            }
            assert_eq!(report.addresses, [up.address]);
            assert_eq!(report.certificate.unwrap().key_hash, up.pin);
            assert_eq!((report.lists.len(), report.lists[0].items), (1, 6));
            assert!(report.steps[1].detail.contains("verified by its key"), "{}", report.steps[1].detail);
            assert!(report.steps[opened].detail.starts_with("quic "), "{}", report.steps[opened].detail);
        }
    });
}

#[test]
fn each_reason_for_no_connection_has_an_id_and_an_advice() {
    run(async {
        let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
        let address = up.address.to_string();
        // Another key.
        let report = examined(mcpjoin_quic::connect(&address, Trust::Key([7; 32]))).await;
        let (ran, id, text) = fault(&report);
        assert_eq!((ran, id), (vec!["resolve", "connect"], "server-certificate"));
        let hash: String = up.pin.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(text.contains(&hash) && text.contains("--pin"), "{text}");
        // An authority that has not signed it.
        let authority = Authority::new("a");
        let report = examined(mcpjoin_quic::connect(&address, Trust::Authorities(authority.trusted()))).await;
        let (_, id, text) = fault(&report);
        assert_eq!(id, "server-certificate");
        assert!(text.contains("--ca FILE"), "{text}");
        // First the port is closed, then it does not respond.
        let mute = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = mute.local_addr().unwrap();
        let (ran, id, text) = {
            let report = examined(mcpjoin_quic::connect(port.to_string(), Trust::Key(up.pin))).await;
            fault(&report)
        };
        assert_eq!((ran, id), (vec!["resolve", "connect"], "unreached"));
        assert!(text.contains("no response") && text.contains("UDP"), "{text}");
        let closed = Closed::udp();
        let (_, id, text) =
            fault(&examined(mcpjoin_quic::connect(closed.to_string(), Trust::Key(up.pin))).await);
        assert_eq!(id, "unreached");
        assert!(text.contains("refused"), "{text}");
        // An unknown name, and an invalid address.
        let (ran, id, _) =
            fault(&examined(mcpjoin_quic::connect("no-such-host.invalid:1", Trust::Key(up.pin))).await);
        assert_eq!((ran, id), (vec!["resolve"], "unresolved"));
        let (_, id, text) = fault(&examined(mcpjoin_quic::connect("localhost", Trust::Key(up.pin))).await);
        assert_eq!(id, "no-address");
        assert!(text.contains("quic://host:port"), "{text}");
    });
}

#[test]
fn a_server_that_requires_a_client_certificate_is_recognized() {
    run(async {
        let authority = Authority::new("a");
        let (theirs, trusted) = (authority.signs("s", &["127.0.0.1"]), authority.trusted());
        let listener = mcpjoin_quic::listen("127.0.0.1:0", move || {
            Ok((theirs.clone(), ClientAuth::Required(trusted.clone())))
        })
        .await
        .unwrap();
        let address = listener.address().socket_addr().unwrap().to_string();
        let server = builder(&Gate::default()).build().unwrap();
        let serving = tokio::spawn(async move { server.serve_all(listener, std::future::pending()).await });
        let connect = || mcpjoin_quic::connect(&address, Trust::Authorities(authority.trusted()));
        let (ran, id, text) = fault(&examined(connect()).await);
        assert_eq!((ran, id), (vec!["resolve", "connect"], "client-certificate"));
        assert!(text.contains("--cert FILE"), "{text}");
        let report = examined(connect().identity(authority.signs("ada", &[]))).await;
        assert!(report.is_healthy(), "{:?}", report.findings);
        assert!(report.steps[1].detail.contains("verified by an authority"), "{}", report.steps[1].detail);
        serving.abort();
    });
}

#[test]
fn another_protocol_and_a_silent_server_are_distinguished() {
    run(async {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let pin = identity.facts().unwrap().key_hash;
        for (alpn, expected) in [("h3", "other-protocol"), (ALPN, "silent")] {
            let tls = ServerTls::new(identity.clone(), &ClientAuth::Anybody, alpn).unwrap();
            let listener =
                quic::Listener::bind("127.0.0.1:0", move || Ok(tls.clone()), QuicOptions::default());
            let listener = listener.await.unwrap();
            let address = listener.address().to_string();
            let listening = tokio::spawn(async move {
                let mut there = Vec::new();
                while let Some(incoming) = listener.accept().await {
                    there.extend(incoming.establish().await);
                }
            });
            let (_, id, text) = fault(&examined(mcpjoin_quic::connect(address, Trust::Key(pin))).await);
            assert_eq!(id, expected, "{text}");
            listening.abort();
        }
        let up = Up::new(Server::builder("empty", "1").build().unwrap()).await;
        let (ran, id, _) = fault(&examined(up.link()).await);
        assert_eq!((ran.len(), id), (5, "nothing-offered"), "one of the two ways of opening is not run");
        let up = Up::new(
            Server::builder("one", "1").tool(tool("t"), |_: NoArguments, _| async { "x" }).build().unwrap(),
        )
        .await;
        let client = Client::builder("doctor", "1").era(EraChoice::Only(Era::Modern));
        assert!(Doctor::new(up.link(), client).examine().await.is_healthy());
    });
}
