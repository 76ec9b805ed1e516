//! Calls over HTTP/2: all on one connection without TLS, with prior knowledge.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::reply::Reply;
use super::{CHECKED, Listening, Mode};
use crate::latency::Latencies;
use crate::messages::{check, id};
use crate::plan::Plan;
use crate::server::{cpu, own_cpu};

/// One client, which makes one call after the other, in a session of its own if the mode has sessions.
#[derive(Clone)]
struct Client {
    url: String,
    /// A name and a value for each header.
    headers: Vec<(String, String)>,
    /// A call before and behind its id.
    call: [Vec<u8>; 2],
    text: String,
}

/// Calls by as many clients at once as `plan` says, and returns what [`measure`](super::measure) does.
pub(super) fn measure(server: &Listening, mode: Mode, plan: &Plan) -> Result<Value, String> {
    let endpoint = server.endpoint(mode);
    let clients = (0..plan.at_once)
        .map(|_| {
            let (headers, call) = Connection::open(&endpoint)?.prepared(&plan.text);
            let url = format!("http://{}{}", endpoint.address, endpoint.path);
            Ok(Client { url, headers, call, text: plan.text.clone() })
        })
        .collect::<Result<Vec<_>, String>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let socket = TcpStream::connect(endpoint.address).await.map_err(|error| error.to_string())?;
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        let (requests, connection) =
            h2::client::handshake(socket).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        calls(&requests, &clients, plan.warm).await?;
        let (began, spent, own) = (Instant::now(), cpu(server.pid()), own_cpu());
        let times = calls(&requests, &clients, plan.measured).await?;
        let (wall, spent) = (began.elapsed().as_secs_f64(), cpu(server.pid()) - spent);
        let calls = times.len() as f64;
        let mut latencies = Latencies::default();
        times.into_iter().for_each(|(sent, now)| latencies.push(sent, now));
        Ok(json!({
            "calls": calls,
            "per_second": calls / wall,
            "p50_us": latencies.below(0.5),
            "p99_us": latencies.below(0.99),
            "cpu_us": spent.as_secs_f64() * 1e6 / calls,
            "generator_cpu_us": (own_cpu() - own).as_secs_f64() * 1e6 / calls,
        }))
    })
}

/// Calls for this time; returns the beginning and the end of each call.
async fn calls(
    requests: &SendRequest<Bytes>,
    clients: &[Client],
    time: Duration,
) -> Result<Vec<(Instant, Instant)>, String> {
    let mut tasks = JoinSet::new();
    let end = Instant::now() + time;
    for client in clients.iter().cloned() {
        let requests = requests.clone();
        tasks.spawn(async move {
            let (mut times, mut length) = (Vec::new(), 0);
            for number in 1.. {
                let sent = Instant::now();
                let message = client.call(requests.clone(), number).await?;
                times.push((sent, Instant::now()));
                let message = message.message();
                if number <= CHECKED || message.len() + 8 < length {
                    check(message, &client.text)?;
                    length = message.len();
                }
                if id(message) != Some(number) {
                    return Err("a reply to another call".to_owned());
                }
                if Instant::now() >= end {
                    break;
                }
            }
            Ok(times)
        });
    }
    Ok(tasks.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
}

impl Client {
    async fn call(&self, requests: SendRequest<Bytes>, number: u64) -> Result<Reply, String> {
        let mut requests = requests.ready().await.map_err(|error| error.to_string())?;
        let head = self
            .headers
            .iter()
            .fold(Request::post(&self.url), |head, (name, value)| head.header(name, value));
        let head = head.body(()).map_err(|error| error.to_string())?;
        let [before, behind] = &self.call;
        let body = [before, number.to_string().as_bytes(), behind].concat();
        let (response, mut stream) = requests.send_request(head, false).map_err(|error| error.to_string())?;
        stream.send_data(body.into(), true).map_err(|error| error.to_string())?;
        let response = response.await.map_err(|error| error.to_string())?;
        if response.status() != 200 {
            return Err(format!("HTTP {}", response.status()));
        }
        let mut reply = Reply::default();
        let mut body = response.into_body();
        while let Some(piece) = body.data().await {
            let piece = piece.map_err(|error| error.to_string())?;
            reply.body.extend_from_slice(&piece);
            body.flow_control().release_capacity(piece.len()).map_err(|error| error.to_string())?;
        }
        Ok(reply)
    }
}
