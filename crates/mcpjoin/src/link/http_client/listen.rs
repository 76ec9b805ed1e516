//! The stream on which a legacy server says what belongs to no request.
//!
//! Run by the link once `initialized` was accepted. It is optional: nothing that happens to it hurts the session.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server>

use std::sync::Arc;

use http::StatusCode;
use mcpjoin_proto::http::origin::MediaType;
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use super::again::asked_to_wait;
use super::exchange::News;
use super::legacy::LegacySession;
use super::reading::{Events, Next, compressed};
use super::resuming::{LONGEST_PAUSE, pause, resumption};
use super::wire::{Wire, media_type};

/// Opens the stream, reads it, and opens it again where it ended, for as long as the server has one.
pub(super) async fn listen(wire: Arc<Wire>, session: Arc<LegacySession>, news: Sender<News>) {
    let limits = &wire.limits;
    let mut events = Events::new(limits.message, &wire.marks);
    let mut failures = 0_u32;
    let mut opened = false;
    loop {
        let sending = resumption(&wire, &session, events.last());
        let mut asked = None;
        match wire.send(&sending).await {
            Ok(response) if is_stream(&response) => {
                let mut response = response;
                if opened {
                    events.next_body();
                }
                opened = true;
                loop {
                    match events.next(&mut response, &limits.decode, &wire.origin, None).await {
                        Next::Inbound(inbound, mark) => {
                            let came = match mark {
                                Some(mark) => News::Heard { inbound, mark, of: None },
                                None => News::Came(inbound),
                            };
                            if news.send(came).await.is_err() {
                                return;
                            }
                        }
                        Next::Other(_) => {}
                        Next::Ended => break,
                        Next::Broke(error) => {
                            tracing::debug!(target: "mcpjoin", error, "the stream of the session broke");
                            break;
                        }
                    }
                }
                failures = if events.fruitful { 0 } else { failures.saturating_add(1) };
            }
            Ok(response) => {
                let status = response.status();
                tracing::debug!(target: "mcpjoin", %status, "no stream of the session");
                if status == StatusCode::BAD_REQUEST && events.last().is_some() {
                    // What came behind the event may be kept no more. If the session is gone too, the next answer says so.
                    events = Events::new(limits.message, &wire.marks);
                    continue;
                }
                let forgotten = matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST);
                if opened && forgotten && session.id.is_some() {
                    let gone = News::Gone { generation: session.generation, again: None };
                    let _ = news.send(gone).await;
                    return;
                }
                let later = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                // 409: a stream of ours that broke is still open over there.
                let still_open = opened && status == StatusCode::CONFLICT;
                if !later && !still_open {
                    return;
                }
                asked = asked_to_wait(response.headers()).map(|asked| asked.min(LONGEST_PAUSE));
                failures = failures.saturating_add(1);
            }
            Err(unanswered) => {
                tracing::debug!(target: "mcpjoin", error = %unanswered.error, "no stream of the session");
                failures = failures.saturating_add(1);
            }
        }
        let wait = pause(events.retry(), failures.saturating_sub(1));
        sleep(asked.map_or(wait, |asked| asked.max(wait))).await;
    }
}

fn is_stream(response: &reqwest::Response) -> bool {
    response.status().is_success()
        && media_type(response) == MediaType::EventStream
        && compressed(response).is_none()
}
