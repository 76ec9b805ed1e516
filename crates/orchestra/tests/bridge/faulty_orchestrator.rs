//! An orchestrator that does not keep to the wire: it resets, stalls, truncates and lies about lengths. For the tests of
//! whatever is a client of one.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::host::{self, Host};
use mcpjoin_orchestra::wire::{self, PluginRequest};
use mcpjoin_orchestra::{ALPN, SERVER_NAME};
use mcpjoin_quic::endpoint::{Connection, Listener, RecvStream, SendStream};
use tokio::task::JoinSet;

/// What it does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Answers as it should.
    None,
    /// Resets the stream before the request has been read.
    ResetAtOnce,
    /// Reads the request and resets the stream.
    ResetAfterRequest,
    /// Writes half of the answer and resets the stream.
    ResetInAnswer,
    /// Refuses to read: STOP_SENDING, and the end of its own side.
    Stop,
    /// Takes the request and says nothing, for ever.
    Stall,
    /// Writes half of the answer and then nothing, for ever.
    StallInAnswer,
    /// Ends its side without a byte: how the original answers what it cannot read.
    Empty,
    /// Ends its side inside the length.
    HalfALength,
    /// Ends its side inside the answer.
    Truncate,
    /// Says a length of 2^32-1 and writes the answer.
    LongLength,
    /// Says one byte more than there are.
    OneMore,
    /// Says one byte less than there are.
    OneLess,
    /// A frame that is no message.
    Garbage,
    /// A frame without a byte in it: an answer without an id and without an answer.
    NoAnswer,
    /// The right answer under the id of another request.
    AnotherId,
    /// The right answer twice on one stream.
    Twice,
    /// Closes the whole connection with an error of its own, the request read.
    CloseConnection,
}

impl Fault {
    /// All that are faults.
    pub(crate) const ALL: [Self; 17] = [
        Self::ResetAtOnce,
        Self::ResetAfterRequest,
        Self::ResetInAnswer,
        Self::Stop,
        Self::Stall,
        Self::StallInAnswer,
        Self::Empty,
        Self::HalfALength,
        Self::Truncate,
        Self::LongLength,
        Self::OneMore,
        Self::OneLess,
        Self::Garbage,
        Self::NoAnswer,
        Self::AnotherId,
        Self::Twice,
        Self::CloseConnection,
    ];
}

/// Says what to do with a request, given its number (from 0) and itself.
type Script = dyn Fn(usize, &PluginRequest) -> Fault + Send + Sync;

/// The orchestrator. Gone when this is dropped.
pub(crate) struct FaultyOrchestrator {
    /// `host:port`
    pub(crate) address: String,
    /// How many requests it has read to their end.
    pub(crate) requests: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl FaultyOrchestrator {
    /// Listens on a free port of the loopback interface. What is answered is what `host` says.
    pub(crate) async fn start(
        certificates: Certificates,
        host: Host,
        script: impl Fn(usize, &PluginRequest) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let tls = move || certificates.server(SERVER_NAME, true, ALPN);
        let listener = Listener::bind("127.0.0.1:0", tls, host::quic_options()).await.unwrap();
        let address = listener.address().to_string();
        let requests = Arc::new(AtomicUsize::new(0));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, host, Arc::new(script), requests.clone()));
        Self { address, requests, _serving: serving }
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn serve(listener: Listener, host: Host, script: Arc<Script>, requests: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    while let Some(incoming) = listener.accept().await {
        let (host, script, requests) = (host.clone(), script.clone(), requests.clone());
        connections.spawn(async move {
            let Ok(connection) = incoming.establish().await else { return };
            let mut exchanges = JoinSet::new();
            while let Ok((send, receive)) = connection.accept().await {
                let (connection, host) = (connection.clone(), host.clone());
                exchanges.spawn(exchange(connection, send, receive, host, script.clone(), requests.clone()));
            }
        });
    }
}

async fn exchange(
    connection: Connection,
    mut send: SendStream,
    mut receive: RecvStream,
    host: Host,
    script: Arc<Script>,
    requests: Arc<AtomicUsize>,
) {
    // Those that are about not reading: of them the script is asked with an empty request.
    let number = requests.load(Ordering::SeqCst);
    match script(number, &PluginRequest::default()) {
        Fault::ResetAtOnce => {
            let _ = receive.stop(1_u32.into());
            let _ = send.reset(1_u32.into());
            return;
        }
        Fault::Stop => {
            let _ = receive.stop(1_u32.into());
            let _ = send.finish();
            return;
        }
        _ => {}
    }
    let Ok(request) = wire::read::<PluginRequest>(&mut receive).await else { return };
    let number = requests.fetch_add(1, Ordering::SeqCst);
    let fault = script(number, &request);
    let answer = match fault {
        Fault::ResetAfterRequest | Fault::Stall | Fault::Empty | Fault::CloseConnection => Vec::new(),
        Fault::AnotherId => {
            let mut answer = host.answer(request).await;
            answer.request_id.push_str("-another");
            wire::encode(&answer).unwrap().to_vec()
        }
        _ => wire::encode(&host.answer(request).await).unwrap().to_vec(),
    };
    let length = u32::try_from(answer.len().saturating_sub(4)).unwrap();
    let with_length = |length: u32| [&length.to_be_bytes()[..], answer.get(4..).unwrap_or_default()].concat();
    let half = answer.len().div_ceil(2);
    let bytes = match fault {
        Fault::HalfALength => answer[..2].to_vec(),
        Fault::Truncate | Fault::ResetInAnswer | Fault::StallInAnswer => answer[..half].to_vec(),
        Fault::LongLength => with_length(u32::MAX),
        Fault::OneMore => with_length(length + 1),
        Fault::OneLess => with_length(length - 1),
        Fault::Garbage => vec![0, 0, 0, 3, 0xff, 0xff, 0xff],
        Fault::NoAnswer => vec![0; 4],
        Fault::Twice => [&answer[..], &answer[..]].concat(),
        _ => answer,
    };
    // Who does not want it any more does not get it.
    let _ = send.write_all(&bytes).await;
    match fault {
        Fault::ResetAfterRequest | Fault::ResetInAnswer => {
            let _ = send.reset(1_u32.into());
        }
        Fault::Stall | Fault::StallInAnswer => std::future::pending().await,
        Fault::CloseConnection => connection.close(7, "a fault"),
        _ => {
            let _ = send.finish();
        }
    }
}
