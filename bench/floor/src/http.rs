//! The floor over HTTP: `floor-http PORT [--http2]`. hyper on one thread reads the whole body and answers with JSON; a session is a
//! number.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use floor::answer;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use memchr::memmem;
use tokio::net::TcpListener;

static SESSIONS: AtomicU64 = AtomicU64::new(0);

async fn serve(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::default());
    if request.method() != Method::POST {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return Ok(response);
    }
    let Ok(body) = request.into_body().collect().await else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let body = body.to_bytes();
    let mut out = Vec::with_capacity(body.len() + 64);
    if !answer::borrowed(&body, &mut out) {
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, "application/json".parse().expect("a header"));
    if memmem::find(&body[..body.len().min(64)], b"\"initialize\"").is_some() {
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
        headers.insert("mcp-session-id", format!("{number:032x}").parse().expect("a header"));
    }
    *response.body_mut() = Full::new(out.into());
    Ok(response)
}

fn main() {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("floor-http PORT");
    let multiplexed = std::env::args().nth(2).is_some_and(|word| word == "--http2");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("the port is free");
        loop {
            let Ok((socket, _)) = listener.accept().await else { continue };
            let _ = socket.set_nodelay(true);
            tokio::spawn(async move {
                // A client of HTTP/2 opens its sessions over HTTP/1.1.
                let begins_http2 = multiplexed && {
                    let mut first = [0; 3];
                    socket.peek(&mut first).await.is_ok_and(|count| first[..count] == *b"PRI")
                };
                let (socket, service) = (TokioIo::new(socket), service_fn(serve));
                if begins_http2 {
                    drop(http2::Builder::new(TokioExecutor::new()).serve_connection(socket, service).await);
                } else {
                    drop(http1::Builder::new().serve_connection(socket, service).await);
                }
            });
        }
    });
}
