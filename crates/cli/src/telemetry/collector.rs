//! Sends the batches of spans to the collector, with the HTTP client that the program has for everything else: its TLS, its
//! trusted authorities, its proxies.
//!
//! Used by `exporting`. The exporter calls it in a thread of its own that has no runtime, so it has one.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use mcpjoin::internal::http::{Client, ClientOptions, Proxies, describe, root, tls_config};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use url::Url;

use crate::ui::Ui;

/// How long one attempt to send a batch may take: the default of the specification.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a response: it has a number and a message.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// The collector cannot be reached, or refuses the spans. The first such failure is a warning.
pub(super) struct Outage {
    ui: Ui,
    /// The URL of the collector without its query.
    shown: String,
    is_told: AtomicBool,
}

impl Outage {
    pub(super) fn new(ui: &Ui, shown: String) -> Self {
        Self { ui: ui.clone(), shown, is_told: AtomicBool::new(false) }
    }

    /// Warns if it is the first failure.
    pub(super) fn tell(&self, why: &str) {
        let text = format!("traces cannot be sent to {}: {why}; calls go on", self.shown);
        match self.is_told.swap(true, Ordering::Relaxed) {
            false => self.ui.warning(&text),
            true => self.ui.detail(&text),
        }
    }
}

/// The client of one collector.
pub(super) struct Collector {
    url: Url,
    /// How long one attempt may take.
    timeout: Duration,
    client: Client,
    runtime: Runtime,
    outage: Arc<Outage>,
}

impl Collector {
    pub(super) fn new(url: Url, timeout: Duration, outage: Arc<Outage>) -> Result<Self, Box<dyn Error>> {
        let mut options = ClientOptions::new(tls_config(&[])?, timeout);
        options.proxies = Some(Proxies::from_system());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { url, timeout, client: Client::new(options), runtime, outage })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (head, body) = request.into_parts();
        let sent = self.client.send(head.method, &self.url, head.headers, body).await;
        let mut response = sent.map_err(|error| describe(&error, &self.url, self.timeout, false).message)?;
        let mut body = BytesMut::new();
        while let Some(part) = response.chunk().await.map_err(|error| root(&error))? {
            if body.len() + part.len() > MAX_RESPONSE_BYTES {
                return Err(format!("its response is longer than {MAX_RESPONSE_BYTES} bytes"));
            }
            body.extend_from_slice(&part);
        }
        let mut whole = Response::new(body.freeze());
        *whole.status_mut() = response.status();
        *whole.headers_mut() = response.headers().clone();
        Ok(whole)
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sending = async { timeout(self.timeout, self.send(request)).await };
        let late = |_| Err(format!("no response within {} ms", self.timeout.as_millis()));
        let response = self.runtime.block_on(sending).unwrap_or_else(late);
        match &response {
            Ok(response) if !response.status().is_success() => {
                self.outage.tell(&format!("it answers {}", response.status()));
            }
            Ok(_) => {}
            Err(why) => self.outage.tell(why),
        }
        Ok(response?)
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Sends a request to a collector that answers with this, and reads until the client leaves. Returns why it failed.
    fn sent_to(writes: Vec<u8>, timeout: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}/v1/traces", listener.local_addr().unwrap())).unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert_ne!(stream.read(&mut [0; 4096]).unwrap(), 0);
            // The client may leave before it has read everything.
            let _ = stream.write_all(&writes);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let request = Request::post(url.as_str()).body(Bytes::new()).unwrap();
        let outage = Arc::new(Outage::new(&Ui::plain(), url.to_string()));
        let collector = Collector::new(url, timeout, outage).unwrap();
        let mut sending = collector.send_bytes(request);
        let sent = sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(why)) = sent else { panic!("it has not failed in place") };
        drop(sending);
        drop(collector);
        answering.join().unwrap();
        why.to_string()
    }

    #[test]
    fn a_collector_has_so_much_time() {
        let why = sent_to(Vec::new(), Duration::from_millis(20));
        assert_eq!(why, "no response within 20 ms");
    }

    #[test]
    fn the_size_of_a_response_of_a_collector_is_limited() {
        let response = |bytes: usize| {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
            [head.into_bytes(), vec![b'x'; bytes]].concat()
        };
        let why = sent_to(response(MAX_RESPONSE_BYTES + 1), SEND_TIMEOUT);
        assert_eq!(why, "its response is longer than 65536 bytes");
    }
}
