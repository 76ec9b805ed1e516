//! Faults of the HTTP+SSE of 2024-11-05.

use std::sync::atomic::{AtomicUsize, Ordering};

use ::http::Method;
use ::http::header::{HeaderValue, ORIGIN};

use super::super::fault::{Row, SSE, legacy};

pub(super) fn rows() -> Vec<Row> {
    let (posts, others) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let rows = [
        legacy("sse-origin-validated").before(|head, _| _ = head.headers.remove(ORIGIN)),
        legacy("sse-endpoint-first").frame(|frame| match frame.contains("endpoint") {
            true => format!("event: hello\ndata: there\n\n{frame}"),
            false => frame,
        }),
        legacy("sse-post-accepted").after(move |sent, status, _, _| {
            // After the session is open.
            if sent.method == Method::POST && posts.fetch_add(1, Ordering::Relaxed) == 5 {
                *status = 500;
            }
        }),
        legacy("sse-answers-on-stream").after(move |sent, status, headers, body| {
            let late = || others.fetch_add(1, Ordering::Relaxed) == 5;
            if sent.method == Method::POST && *status == 202 && late() {
                headers.insert("content-type", HeaderValue::from_static("application/json"));
                *body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into();
            }
        }),
        legacy("sse-events-named").frame(|frame| match frame.contains("endpoint") {
            true => frame,
            false => format!("event: reply\n{}", frame.replace("event: message\n", "")),
        }),
        legacy("sse-data-is-message").frame(|frame| frame.replace("\"tools\":[{", "\"tools\":{")),
        legacy("sse-session-ends").after(|sent, status, _, body| {
            if sent.method == Method::POST && *status == 404 {
                *status = 202;
                body.clear();
            }
        }),
    ];
    rows.into_iter().map(|row| row.over(SSE)).collect()
}
