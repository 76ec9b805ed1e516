//! Tests of servers that are restarted when they exit: scripted servers under virtual time, and real processes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use mcpjoin_test_support::scripted;
use std::future::{Ready, pending, ready};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::client::{ClientBuilder, Restart, RestartError, RestartingClient, RunEvent, RunExit};
use mcpjoin::proto::session::{CloseCause, EraChoice, Limits, State};
use mcpjoin::proto::types::Root;
use mcpjoin::proto::{Era, ErrorObject, Method};
use mcpjoin::transport::Link;
use scripted::{Scripted, builder, text, value};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, advance};

/// The scripted servers in the order of their starts, the number of starts to fail, and the pauses as they begin.
struct Stage {
    servers: UnboundedReceiver<Scripted>,
    failing: Arc<Mutex<(usize, usize)>>,
    received: Arc<Mutex<Vec<String>>>,
    pauses: Arc<Mutex<Vec<Duration>>>,
}

impl Stage {
    fn set() -> (Self, Restart, impl Fn() -> Ready<Result<Link, io::Error>> + Send + Sync + 'static) {
        let (started, servers) = unbounded_channel();
        // The starts so far, and how many of the next ones fail.
        let failing = Arc::new(Mutex::new((0, 0)));
        let received = Arc::new(Mutex::new(Vec::new()));
        let pauses = Arc::new(Mutex::new(Vec::new()));
        let (notes, noted) = (received.clone(), pauses.clone());
        let restart = Restart::default().on_event(move |event| {
            let note = match event {
                RunEvent::Started { run } => format!("run {run}"),
                RunEvent::Ended { end, next: None } => format!("given up: {end}"),
                RunEvent::Ended { end, next: Some(pause) } => {
                    noted.lock().unwrap().push(*pause);
                    format!("ended: {end}")
                }
                other => panic!("{other:?}"),
            };
            notes.lock().unwrap().push(note);
        });
        let fails = failing.clone();
        let start = move || {
            let mut state = fails.lock().unwrap();
            state.0 += 1;
            if state.1 > 0 {
                state.1 -= 1;
                return ready(Err(io::Error::new(io::ErrorKind::NotFound, "no such program")));
            }
            let (link, server) = Scripted::pair();
            let _ = started.send(server);
            ready(Ok(link))
        };
        (Self { servers, failing, received, pauses }, restart, start)
    }

    async fn server(&mut self) -> Scripted {
        self.servers.recv().await.unwrap()
    }

    /// The next server with its connection opened; it runs until the test drops it.
    async fn open(&mut self, era: Era) -> Scripted {
        let mut far = self.server().await;
        open(&mut far, era).await;
        far
    }

    fn starts(&self) -> usize {
        self.failing.lock().unwrap().0
    }

    fn fail(&self, starts: usize) {
        self.failing.lock().unwrap().1 = starts;
    }

    fn received(&self) -> Vec<String> {
        std::mem::take(&mut self.received.lock().unwrap())
    }
}

/// A server in its first run.
async fn running(builder: ClientBuilder, era: Era) -> (RestartingClient, Scripted, Stage) {
    let (mut stage, restart, start) = Stage::set();
    let (server, far) = tokio::join!(builder.restarting(restart, start), stage.open(era));
    assert_eq!(stage.received(), ["run 1"]);
    (server.unwrap(), far, stage)
}

async fn open(far: &mut Scripted, era: Era) {
    match era {
        Era::Legacy => far.open_legacy("2025-11-25").await,
        Era::Modern => far.open_modern().await,
    }
}

const GONE: &str = "the peer closed the connection";

#[tokio::test(start_paused = true)]
async fn f21_calls_in_flight_fail_and_are_never_repeated() {
    for era in [Era::Legacy, Era::Modern] {
        let (server, mut far, mut stage) = running(builder(), era).await;
        let client = server.client().await.unwrap();
        let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
            far.expect("tools/call").await;
            drop(far);
        });
        let error = result.unwrap_err();
        assert!(error.is_fatal() && error.to_string() == GONE, "{error}");
        let mut far = stage.open(era).await;
        let client = server.client().await.unwrap();
        // The new server's first request is this call, and no earlier one.
        let (result, ()) = tokio::join!(client.call_tool("u", ()), async {
            let request = far.expect("tools/call").await;
            assert_eq!(value(request.params.as_ref())["name"], "u");
            far.result(request.id, text("ok")).await;
        });
        result.unwrap();
        assert_eq!(stage.received(), [format!("ended: {GONE}"), "run 2".to_owned()]);
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_meanwhile_waits_within_its_own_time() {
    let (server, far, mut stage) = running(builder(), Era::Modern).await;
    let client = server.client().await.unwrap();
    drop(far);
    client.closed().await;
    let died = Instant::now();
    let error = server.client_within(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(died.elapsed(), Duration::from_millis(50));
    assert!(
        matches!(error, RestartError::TimedOut { last: RunExit::Ended(CloseCause::Link(_)), .. }),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        format!("the server is restarting and was not ready within 50 ms; before: {GONE}")
    );
    let (client, _far) = tokio::join!(server.client(), stage.open(Era::Modern));
    assert_eq!(client.unwrap().connection().state(), State::Ready);
    let waited = died.elapsed();
    assert!(waited >= Duration::from_millis(100) && waited <= Duration::from_millis(160), "{waited:?}");

    // By default the wait is as long as the timeout of a request.
    let mut limits = Limits::default();
    limits.request = Duration::from_millis(1);
    let (server, far, _stage) = running(builder().limits(limits), Era::Modern).await;
    let client = server.client().await.unwrap();
    drop(far);
    client.closed().await;
    let error = server.client().await.unwrap_err();
    assert!(
        matches!(error, RestartError::TimedOut { after, .. } if after == Duration::from_millis(1)),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn d88_a_server_that_dies_at_once_is_started_five_times_and_ever_more_slowly() {
    let (server, far, mut stage) = running(builder(), Era::Modern).await;
    let mut runs = server.runs();
    assert!(runs.next().await.is_some());
    drop(far);
    let began = Instant::now();
    for run in 2..=5 {
        let _far = stage.open(Era::Modern).await;
        assert!(runs.next().await.is_some());
        assert_eq!(runs.run(), run);
    }
    let why = server.closed().await;
    let took = began.elapsed();
    let pauses = stage.pauses.lock().unwrap().clone();
    assert_eq!(pauses.len(), 4);
    for (pause, least) in pauses.iter().zip([100, 200, 400, 800].map(Duration::from_millis)) {
        assert!(*pause >= least && *pause <= least * 3 / 2, "{pauses:?}");
    }
    assert!(took >= pauses.iter().sum::<Duration>(), "{took:?} {pauses:?}");
    let RestartError::GivenUp { starts: 5, last: RunExit::Ended(CloseCause::Link(_)) } = &why else {
        panic!("{why:?}")
    };
    assert_eq!(
        why.to_string(),
        format!(
            "the server is no longer restarted after 5 starts in a row that failed or ended early; the last: {GONE}"
        )
    );
    // A later caller gets the error at once, and no further start is tried.
    let now = Instant::now();
    assert_eq!(server.client().await.unwrap_err().to_string(), why.to_string());
    assert_eq!(server.close().await.to_string(), why.to_string());
    assert!(runs.next().await.is_none());
    assert_eq!(now.elapsed(), Duration::ZERO);
    advance(Duration::from_secs(3600)).await;
    assert_eq!(stage.starts(), 5);
    assert_eq!(stage.received().last().unwrap(), &format!("given up: {GONE}"));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_counts_and_the_first_is_made_once() {
    let (server, far, stage) = running(builder(), Era::Modern).await;
    stage.fail(usize::MAX);
    drop(far);
    let why = server.closed().await;
    assert!(matches!(why, RestartError::GivenUp { starts: 5, last: RunExit::NotStarted(_) }), "{why:?}");
    assert!(why.to_string().ends_with("the last: no such program"), "{why}");
    assert_eq!(stage.starts(), 5, "the first, which did not last, and four in vain");

    let (stage, restart, start) = Stage::set();
    stage.fail(usize::MAX);
    let began = Instant::now();
    let end = builder().restarting(restart, start).await.unwrap_err();
    assert!(matches!(&end, RunExit::NotStarted(_)) && end.exit().is_none(), "{end:?}");
    assert_eq!((stage.starts(), began.elapsed()), (1, Duration::ZERO));

    // The peers do not agree on a version, at the first start and at a later one.
    let (mut stage, restart, start) = Stage::set();
    let refuse = async |far: &mut Scripted| {
        let request = far.expect("initialize").await;
        far.say(request.id, Err(ErrorObject::new(-32000, "licence expired"))).await;
    };
    let legacy = || builder().era(EraChoice::Only(Era::Legacy));
    let (end, ()) = tokio::join!(legacy().restarting(restart.clone(), start), async {
        refuse(&mut stage.server().await).await;
    });
    assert!(matches!(end, Err(RunExit::NotOpened(_))), "{end:?}");
    let (server, far, mut stage) = running(legacy(), Era::Legacy).await;
    drop(far);
    for _ in 0..4 {
        refuse(&mut stage.server().await).await;
    }
    let why = server.closed().await;
    assert!(why.to_string().contains("licence expired"), "{why}");

    // The smallest number of starts.
    let (mut stage, restart, start) = Stage::set();
    let restart = restart.starts(0);
    let (server, far) = tokio::join!(builder().restarting(restart, start), stage.open(Era::Modern));
    drop(far);
    assert!(matches!(server.unwrap().closed().await, RestartError::GivenUp { starts: 1, .. }));
    assert_eq!(stage.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lasts_begins_the_count_anew() {
    let (server, mut far, mut stage) = running(builder(), Era::Modern).await;
    for _ in 0..20 {
        advance(Duration::from_secs(30)).await;
        drop(far);
        far = stage.open(Era::Modern).await;
        server.client().await.unwrap();
    }
    let pauses = stage.pauses.lock().unwrap().clone();
    assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(150)), "{pauses:?}");
    // A slightly shorter run does not count.
    for left in (0..5).rev() {
        advance(Duration::from_secs(29)).await;
        drop(far);
        if left == 0 {
            break;
        }
        far = stage.open(Era::Modern).await;
        server.client().await.unwrap();
    }
    assert!(matches!(server.closed().await, RestartError::GivenUp { starts: 5, .. }));
    assert_eq!(stage.starts(), 25);
}

#[tokio::test(start_paused = true)]
async fn closing_ends_a_run_a_pause_and_a_start_at_once() {
    // During a run.
    let (server, mut far, stage) = running(builder(), Era::Modern).await;
    let client = server.client().await.unwrap();
    assert!(matches!(server.close().await, RestartError::Closed));
    assert_eq!(client.close_cause(), Some(CloseCause::Local));
    assert!(far.message().await.is_none());
    assert!(matches!(server.client().await, Err(RestartError::Closed)));
    assert_eq!((stage.starts(), stage.received().len()), (1, 0));

    // During a pause.
    let (server, far, stage) = running(builder(), Era::Modern).await;
    drop(far);
    while stage.pauses.lock().unwrap().is_empty() {
        yield_now().await;
    }
    let now = Instant::now();
    let (why, waiting) = tokio::join!(server.close(), server.client());
    assert!(matches!((why, waiting), (RestartError::Closed, Err(RestartError::Closed))));
    assert_eq!((now.elapsed(), stage.starts()), (Duration::ZERO, 1));

    // During a start whose opening has not finished.
    let (server, far, mut stage) = running(builder(), Era::Modern).await;
    drop(far);
    let mut far = stage.server().await;
    far.expect("server/discover").await;
    let now = Instant::now();
    assert!(matches!(server.close().await, RestartError::Closed));
    assert_eq!(now.elapsed(), Duration::ZERO);
    assert!(far.message().await.is_none());

    // During a start that has no link yet.
    let (mut stage, restart, start) = Stage::set();
    let (began, mut begins) = unbounded_channel();
    let first = Mutex::new(true);
    let start = move || {
        let link = std::mem::take(&mut *first.lock().unwrap()).then(&start);
        let began = began.clone();
        async move {
            match link {
                Some(link) => link.await,
                None => {
                    began.send(()).unwrap();
                    pending().await
                }
            }
        }
    };
    let (server, far) = tokio::join!(builder().restarting(restart, start), stage.open(Era::Modern));
    let server = server.unwrap();
    drop(far);
    begins.recv().await.unwrap();
    let now = Instant::now();
    assert!(matches!(server.close().await, RestartError::Closed));
    assert_eq!(now.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_once_the_end_was_asked_for() {
    // Without a pause, the end and the next start are due together.
    for _ in 0..64 {
        let (mut stage, restart, start) = Stage::set();
        let (ending, _) = watch::channel(false);
        let asks = ending.clone();
        let restart = restart.pauses(Duration::ZERO, Duration::ZERO).also_on_event(move |event| {
            if matches!(event, RunEvent::Ended { .. }) {
                asks.send_replace(true);
            }
        });
        let (server, far) =
            tokio::join!(builder().restarting_until(restart, start, ending), stage.open(Era::Modern));
        drop(far);
        assert!(matches!(server.unwrap().closed().await, RestartError::Closed));
        assert_eq!(stage.starts(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_the_client_of_a_run_and_dropping_the_last_handle_end_it_too() {
    let (server, mut far, stage) = running(builder(), Era::Legacy).await;
    server.client().await.unwrap().close().await;
    assert!(matches!(server.closed().await, RestartError::Closed));
    assert!(far.message().await.is_none());
    assert_eq!(stage.starts(), 1);

    let (server, mut far, stage) = running(builder(), Era::Legacy).await;
    let mut runs = server.runs();
    assert!(runs.next().await.is_some());
    let other = server.clone();
    drop(server);
    other.client().await.unwrap();
    drop(other);
    assert!(far.message().await.is_none());
    assert!(runs.next().await.is_none(), "it keeps nothing running");
    assert_eq!(stage.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_era_of_the_last_run_is_tried_first_and_not_insisted_on() {
    let (server, far, mut stage) = running(builder(), Era::Legacy).await;
    drop(far);
    let mut far = stage.server().await;
    let request = far.expect("initialize").await;
    far.say(request.id, Err(ErrorObject::method_not_found("initialize"))).await;
    // The restarted server is a different program.
    let _far = stage.open(Era::Modern).await;
    assert_eq!(server.client().await.unwrap().profile().era, Era::Modern);

    // A client that has chosen an era keeps it.
    let (_server, far, mut stage) = running(builder().era(EraChoice::Only(Era::Modern)), Era::Modern).await;
    drop(far);
    for _ in 0..2 {
        let mut far = stage.server().await;
        let request = far.expect("server/discover").await;
        far.say(request.id, Err(ErrorObject::method_not_found("server/discover"))).await;
        assert!(far.message().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_watches_the_runs_subscribes_again_in_each() {
    for era in [Era::Legacy, Era::Modern] {
        let (server, mut far, mut stage) = running(builder(), era).await;
        let mut runs = server.runs();
        let renewing = tokio::spawn(async move {
            let mut renewed = 0;
            while let Some(client) = runs.next().await {
                if client.subscribe("file:///a").await.is_ok() {
                    renewed += 1;
                }
            }
            renewed
        });
        for last in [false, false, true] {
            let request = far.request().await;
            let params = value(request.params.as_ref());
            match era {
                Era::Legacy => {
                    assert_eq!((request.method, &params["uri"]), (Method::Subscribe, &json!("file:///a")));
                    far.result(request.id, json!({})).await;
                }
                Era::Modern => {
                    assert_eq!(request.method, Method::Listen);
                    let mut acknowledged = json!({"notifications": params["notifications"]});
                    acknowledged["_meta"] =
                        json!({"io.modelcontextprotocol/subscriptionId": request.id.as_i64()});
                    far.notify("notifications/subscriptions/acknowledged", acknowledged).await;
                }
            }
            // The client has received the response before the server ended.
            while server.client().await.unwrap().connection().in_flight().0 > usize::from(era == Era::Modern)
            {
                yield_now().await;
            }
            for _ in 0..8 {
                yield_now().await;
            }
            if last {
                break;
            }
            drop(far);
            far = stage.open(era).await;
        }
        server.close().await;
        assert_eq!(renewing.await.unwrap(), 3, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_registered_holds_for_every_run() {
    let (received, mut receiver) = unbounded_channel();
    let builder = builder()
        .roots(vec![Root::new("file:///a")])
        .on_notification(move |notification| received.send(notification.method).unwrap());
    let (server, mut far, mut stage) = running(builder, Era::Legacy).await;
    let (changed, told) = tokio::join!(
        async { server.client().await.unwrap().set_roots(vec![Root::new("file:///b")]) },
        far.notification()
    );
    changed.unwrap();
    assert_eq!(told.method, Method::RootsListChanged);
    drop(far);
    let mut far = stage.open(Era::Legacy).await;
    let roots = far.ask(1, "roots/list", json!({})).await.outcome.unwrap();
    assert_eq!(value(Some(&roots))["roots"], json!([{"uri": "file:///b"}]));
    far.notify("notifications/tools/list_changed", json!({})).await;
    assert_eq!(receiver.recv().await, Some(Method::ToolListChanged));
}

#[cfg(target_os = "linux")]
mod real {
    use std::path::PathBuf;

    use mcpjoin::proto::session::ProcessExit;
    use mcpjoin::server::{NoArguments, Server, tool};
    use mcpjoin::transport::{ChildCommand, Listener};

    use super::*;
    use crate::support::{lives, run, sh, zombies};

    /// A file that is removed at the end of the test, also when the test fails.
    struct Notes(PathBuf);

    impl Notes {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("mcpjoin-{name}-{}", std::process::id())))
        }

        fn lines(&self) -> Vec<u32> {
            let text = std::fs::read_to_string(&self.0).unwrap();
            text.lines().map(|line| line.parse().unwrap()).collect()
        }
    }

    impl Drop for Notes {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// A child that writes its process id to the file, opens a legacy session, and goes on with `then`.
    fn child(notes: &Notes, then: &str) -> ChildCommand {
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}});
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        sh(&format!(
            "echo $$ >> '{}'; read -r initialize; echo '{answer}'; read -r initialized; {then}",
            notes.0.display()
        ))
    }

    async fn restarting(command: ChildCommand) -> RestartingClient {
        builder()
            .era(EraChoice::Only(Era::Legacy))
            .restarting(Restart::default(), move || command.clone().start())
            .await
            .unwrap()
    }

    #[test]
    fn d88_a_child_that_crashes_at_once_is_started_five_times_and_nothing_of_it_is_left() {
        run(async {
            let notes = Notes::new("crashes");
            let began = std::time::Instant::now();
            let server = restarting(child(&notes, "echo out of luck >&2; exit 7")).await;
            let why = server.closed().await;
            assert!(began.elapsed() >= Duration::from_millis(1500), "{:?}", began.elapsed());
            let RestartError::GivenUp { starts: 5, last } = &why else { panic!("{why:?}") };
            assert_eq!(last.exit(), Some(ProcessExit::Code(7)));
            assert!(
                why.to_string().ends_with("(exit code 7); its last line on stderr: out of luck"),
                "{why}"
            );
            let pids = notes.lines();
            assert_eq!(pids.len(), 5);
            assert!(!pids.into_iter().any(lives));
            assert_eq!(zombies(), 0);
        });
    }

    #[test]
    fn a_child_that_is_killed_in_a_call_ends_that_call_and_the_next_one_is_answered() {
        run(async {
            let notes = Notes::new("killed");
            let answer = json!({"jsonrpc": "2.0", "id": 2, "result": {"content": []}});
            // The first run is killed during the call, the second one answers.
            let then = format!(
                "read -r call; if [ $(wc -l < '{}') = 1 ]; then echo working >&2; kill -9 $$; fi; \
                 echo '{answer}'; read -r end",
                notes.0.display()
            );
            let server = restarting(child(&notes, &then)).await;
            let client = server.client().await.unwrap();
            let error = client.call_tool("t", ()).await.unwrap_err();
            assert!(error.is_fatal(), "{error}");
            assert!(error.to_string().ends_with("(signal 9); its last line on stderr: working"), "{error}");
            let result = server.client().await.unwrap().call_tool("t", ()).await.unwrap();
            assert!(result.content.is_empty());
            assert!(matches!(server.close().await, RestartError::Closed));
            let pids = notes.lines();
            assert_eq!(pids.len(), 2);
            assert!(!pids.into_iter().any(lives));
        });
    }

    #[test]
    fn a_server_behind_a_socket_is_connected_to_again() {
        run(async {
            let server = Server::builder("s", "1")
                .tool(tool("hello"), |_: NoArguments, _| async { "hello" })
                .build()
                .unwrap();
            let mut listener = Listener::tcp("127.0.0.1:0").await.unwrap();
            let address = listener.address().socket_addr().unwrap().to_string();
            let connecting = builder().restarting(Restart::default(), move || Link::tcp(address.clone()));
            let accept = async { server.connect(listener.accept().await) };
            let (client, first) = tokio::join!(connecting, accept);
            let client = client.unwrap();
            client.client().await.unwrap().call_tool("hello", ()).await.unwrap();
            first.close();
            let _second = server.connect(listener.accept().await);
            client.client().await.unwrap().call_tool("hello", ()).await.unwrap();
            client.close().await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_caller_gets_an_error_when_the_runtime_drops_the_task() {
    // A panic in a listener ends the task that starts servers.
    let (mut stage, restart, start) = Stage::set();
    let restart = restart.on_event(|event| assert!(matches!(event, RunEvent::Started { .. })));
    let (server, far) = tokio::join!(builder().restarting(restart, start), stage.open(Era::Modern));
    let server = server.unwrap();
    drop(far);
    assert!(matches!(server.closed().await, RestartError::Closed));
    assert!(matches!(server.client().await, Err(RestartError::Closed)));
    assert!(matches!(server.close().await, RestartError::Closed));
}
