//! An orchestrator that violates the protocol: it resets, stalls, truncates and announces wrong lengths. For tests of
//! its clients.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::host::{self, Host};
use mcpjoin_orchestra::wire::{self, PluginRequest};
use mcpjoin_orchestra::{ALPN, SERVER_NAME};
use mcpjoin_quic::endpoint::{Connection, Listener, RecvStream, SendStream};
use tokio::task::JoinSet;

/// The fault in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None: a valid response.
    None,
    /// Resets the stream before the request is read.
    ResetAtOnce,
    /// Reads the request and resets the stream.
    ResetAfterRequest,
    /// Writes half of the response and resets the stream.
    ResetInAnswer,
    /// Does not read: sends STOP_SENDING and ends its side.
    Stop,
    /// Reads the request and never responds.
    Stall,
    /// Writes half of the response, and never the rest.
    StallInAnswer,
    /// Ends its side without a byte, as the original does when it cannot read a request.
    Empty,
    /// Ends its side inside the length prefix.
    HalfALength,
    /// Ends its side inside the response.
    Truncate,
    /// Announces a length of 2^32-1 and writes the response.
    LongLength,
    /// Announces one byte too many.
    OneMore,
    /// Announces one byte too few.
    OneLess,
    /// A frame that is not a message.
    Garbage,
    /// An empty frame: a response without id and content.
    NoAnswer,
    /// A valid response with the id of another request.
    AnotherId,
    /// A valid response, twice on one stream.
    Twice,
    /// Reads the request and closes the whole connection with an error code.
    CloseConnection,
}

impl Fault {
    /// All faults.
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

/// Selects the fault for a request, given its number from 0.
type Script = dyn Fn(usize, &PluginRequest) -> Fault + Send + Sync;

/// The orchestrator. Dropping it stops it.
pub(crate) struct FaultyOrchestrator {
    /// `host:port`
    pub(crate) address: String,
    /// The number of requests that were read completely.
    pub(crate) requests: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl FaultyOrchestrator {
    /// Listens on a free loopback port. Valid responses come from `host`.
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
    // For faults without reading, the script gets an empty request.
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
    // The client may have stopped reading.
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
