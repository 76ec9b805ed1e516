//! The stream of a legacy session, for messages that belong to no request.
//!
//! Started by the transport once `initialized` was accepted. It is optional: no failure of it ends the session.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server>

use std::sync::Arc;

use http::StatusCode;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::http::response_head::forgets_session;
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use super::body::compressed;
use super::event_stream::{EventStream, StreamItem};
use super::exchange_event::ExchangeEvent;
use super::requester::{Requester, media_type};
use super::response_error;
use super::response_stream::{MAX_RECONNECT_DELAY, reconnect_delay, stream_request};
use super::retry::{is_temporary, retry_after_of};
use super::session::LegacySession;
use crate::http::Response;
use crate::transport::UpstreamSession;

/// Opens the stream, delivers its messages, and resumes it when it ends, until the server refuses it.
pub(super) async fn listen(
    requester: Arc<Requester>,
    session: Arc<LegacySession>,
    held: UpstreamSession,
    reports: Sender<ExchangeEvent>,
) {
    let limits = &requester.limits;
    let mut events = EventStream::new(limits.message, &requester.event_hash);
    let mut failures = 0_u32;
    // Whether there was a stream, and whether the next one continues it.
    let (mut opened, mut continues) = (false, false);
    loop {
        let http_request = stream_request(&requester, &session, events.last());
        let mut asked = None;
        match requester.send(&http_request).await {
            Ok(response) if is_stream(&response) => {
                let mut response = response;
                if continues {
                    events.next_body();
                }
                (opened, continues) = (true, true);
                loop {
                    match events.next(&mut response, &limits.decode, &requester.origin, None).await {
                        StreamItem::Inbound(inbound, key) => {
                            let message = match key {
                                Some(key) => ExchangeEvent::StreamMessage { inbound, key, request: None },
                                None => ExchangeEvent::Message(inbound),
                            };
                            if reports.send(message).await.is_err() {
                                return;
                            }
                        }
                        StreamItem::Other(_) => {}
                        StreamItem::Ended => break,
                        StreamItem::Broken(error) => {
                            tracing::debug!(target: "mcpjoin", error, "the stream of the session was cut \
                                off");
                            break;
                        }
                    }
                }
                failures = if events.has_new_events { 0 } else { failures.saturating_add(1) };
            }
            Ok(response) => {
                let status = response.status();
                asked = retry_after_of(response.headers()).map(|asked| asked.min(MAX_RECONNECT_DELAY));
                let page = response_error::read_page(response).await;
                tracing::debug!(target: "mcpjoin", page = page.text, "no stream of the session");
                if status == StatusCode::BAD_REQUEST && events.last().is_some() {
                    // The server may not have stored the events. If it has lost the session, the next response says so.
                    events = EventStream::new(limits.message, &requester.event_hash);
                    continues = false;
                    continue;
                }
                let is_lost = matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST);
                // Where the session is new, the server may just have no such stream.
                let is_known = opened || held.is_shared() && forgets_session(status.as_u16(), page.error());
                if is_known && is_lost && session.id.is_some() {
                    if session.generation > 0 {
                        // A server that loses each session with its stream would be asked for sessions without a pause.
                        let losses = u32::try_from(session.generation).unwrap_or(u32::MAX);
                        sleep(reconnect_delay(events.retry(), losses)).await;
                    }
                    let lost = ExchangeEvent::SessionLost { generation: session.generation, refused: None };
                    let _ = reports.send(lost).await;
                    return;
                }
                // 409: for the server the broken stream is still open, or that of another link to the session.
                let still_open = (opened || held.is_shared()) && status == StatusCode::CONFLICT;
                if !is_temporary(status) && !still_open {
                    return;
                }
                failures = failures.saturating_add(1);
            }
            Err(failure) => {
                tracing::debug!(target: "mcpjoin", error = %failure.error, "no stream of the session");
                failures = failures.saturating_add(1);
            }
        }
        let wait = reconnect_delay(events.retry(), failures.saturating_sub(1));
        sleep(asked.map_or(wait, |asked| asked.max(wait))).await;
    }
}

fn is_stream(response: &Response) -> bool {
    response.status().is_success()
        && media_type(response) == MediaType::EventStream
        && compressed(response).is_none()
}
