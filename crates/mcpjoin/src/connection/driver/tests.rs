//! Tests of the turns of a driver.

use mcpjoin_proto::session::{Limits, Origin, Outbound, Role, ServerRole, Session, TransportCaps};
use mcpjoin_proto::types::Implementation;
use mcpjoin_proto::{ErrorObject, Message, Method, Payload, Raw};

use super::*;
use crate::connection::tests::{opened, said};
use crate::handler::{Handler, Nothing};
use crate::transport::Link;

fn driver(core: &Arc<Core>, io: Box<dyn Transport>) -> Driver {
    let mut driver = Driver::new(core.clone(), io, Box::new(Arc::new(Nothing)), (None, None));
    driver.stage = Stage::Running;
    driver
}

/// Returns a notification with this many bytes.
fn notification(bytes: usize) -> Inbound {
    let params = Raw::parse(format!("{{\"x\":\"{}\"}}", "y".repeat(bytes))).expect("JSON");
    let notification = Notification { method: Method::parse("x/y"), params: Some(Payload::from_raw(params)) };
    Inbound::Message { message: Message::Notification(notification), origin: Arc::new(Origin::new("test")) }
}

#[test]
fn what_rests_gives_back_its_room_and_nothing_that_is_in_it() {
    let core = opened(Limits::default());
    let mut driver = driver(&core, Link::channel(TransportCaps::default()).0.into_transport());
    driver.inbound.reserve(8);
    driver.inbound.push_back(notification(1));
    driver.events.reserve(8);
    driver.events.push_back(Event::Opened);
    let never = Box::pin(std::future::pending());
    driver.keep_running(Work { method: Method::Ping, future: WorkFuture::Notification(never) });
    driver.shrink_buffers(&core);
    assert_eq!((driver.inbound.len(), driver.events.len()), (1, 1));
    assert!(driver.running.is_some());
    driver.inbound.clear();
    driver.events.clear();
    driver.running = Some(Box::new(HandlerTasks::new()));
    driver.shrink_buffers(&core);
    assert_eq!((driver.inbound.capacity(), driver.events.capacity()), (0, 0));
    assert!(driver.running.is_none());
}

#[tokio::test]
async fn large_messages_are_read_up_to_a_total_in_one_turn() {
    let core = opened(Limits::default());
    let (io, mut theirs) = Link::channel(TransportCaps::default());
    for _ in 0..4 {
        theirs.send(notification(100 * 1024)).await.expect("it is open");
    }
    let mut driver = driver(&core, io.into_transport());
    let mut cx = TaskContext::from_waker(Waker::noop());
    assert!(driver.read(&mut cx, &core, Time::ZERO), "more may be there");
    let left = std::iter::from_fn(|| match driver.io.poll_inbound(&mut cx) {
        Poll::Ready(inbound) => Some(inbound),
        Poll::Pending => None,
    });
    assert_eq!(left.count(), 1);
}

/// A transport that has sent everything and accepts nothing more.
#[derive(Default)]
struct Full {
    flushed: usize,
}

impl Transport for Full {
    fn caps(&self) -> TransportCaps {
        TransportCaps::default()
    }

    fn configure(&mut self, _: &Limits) {}

    fn poll_inbound(&mut self, _: &mut TaskContext<'_>) -> Poll<Inbound> {
        Poll::Pending
    }

    fn has_room(&self) -> bool {
        false
    }

    fn push(&mut self, _: Outbound) {}

    fn poll_flush(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), TransportEnd>> {
        self.flushed += 1;
        assert!(self.flushed < 10, "it is asked for ever");
        Poll::Ready(Ok(()))
    }

    fn sent(&self) -> u64 {
        0
    }

    fn poll_close(&mut self, _: &mut TaskContext<'_>) -> Poll<TransportEnd> {
        Poll::Pending
    }

    fn poll_reopen(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), TransportEnd>> {
        Poll::Pending
    }
}

#[test]
fn a_link_without_room_is_not_asked_for_ever() {
    let core = opened(Limits::default());
    let mut driver = driver(&core, Box::new(Full::default()));
    let mut cx = TaskContext::from_waker(Waker::noop());
    assert!(!driver.send(&mut cx, &core, Time::ZERO));
    assert!(core.lock().session.poll_transmit().is_some(), "there was something to send");
}

#[test]
fn a_link_that_is_made_afresh_is_waited_for() {
    let core = opened(Limits::default());
    let mut driver = driver(&core, Box::new(Full::default()));
    let mut cx = TaskContext::from_waker(Waker::noop());
    driver.stage = Stage::Reopening;
    assert!(!driver.reopen(&mut cx, &core));
    assert!(matches!(driver.stage, Stage::Reopening));
    // This transport cannot be reopened, so the connection ends.
    driver.io = Link::channel(TransportCaps::default()).0.into_transport();
    assert!(driver.reopen(&mut cx, &core));
    assert!(matches!(driver.stage, Stage::Flushing(..)));
}

/// A role that answers every request with this result.
struct Gives(Raw);

impl Handler for Gives {
    async fn request(&self, _: Request, _: Context) -> Result<Reply, ErrorObject> {
        Ok(Reply::Complete(self.0.clone()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_result_is_sent_where_each_answer_has_a_stream_of_its_own() {
    let caps = TransportCaps { exchanges: true, ..TransportCaps::default() };
    let capabilities = Raw::parse(r#"{"tools":{}}"#).expect("JSON").decode().expect("capabilities");
    let role = ServerRole::new(Implementation::new("s", "1"), capabilities);
    let core = Arc::new(Core::new(Session::new(Role::Server(role.into()), caps, Limits::default()), None));
    let result = Raw::parse(format!("{{\"content\":\"{}\"}}", "x".repeat(1024 * 1024))).expect("JSON");
    let (io, mut theirs) = Link::channel(caps);
    let handler = Box::new(Arc::new(Gives(result)));
    let driver = Driver::new(core.clone(), io.into_transport(), handler, (None, None));
    core.lock().session.open(Time::ZERO);
    said(
        &core,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},
            "io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    );
    let came = async {
        tokio::select! {
            outbound = theirs.recv() => outbound,
            () = driver => None,
        }
    };
    let outbound = tokio::time::timeout(Duration::from_secs(60), came).await.expect("an answer");
    let Some(Outbound::Message { message, .. }) = outbound else { panic!("{outbound:?}") };
    assert!(message.payload_len() > 1024 * 1024);
}
