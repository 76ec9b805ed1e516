//! Invalid requests: the host ends the stream without a byte, like the original.

use std::time::Duration;

use mcpjoin::server::{NoArguments, Server, tool};
use mcpjoin_orchestra::host::{Host, HostLimits};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::{self, HealthRequest, PluginRequest, PluginResponse};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::{Stage, bytes, json, offer, run};

fn server() -> Server {
    Server::builder("plain", "1").tool(tool("who"), |_: NoArguments, _| async { "me" }).build().unwrap()
}

/// Bytes that are not a frame with a request.
fn none() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("nothing", Vec::new()),
        ("half a length", vec![0, 0]),
        ("b149: a length of 2^32-1", vec![0xff; 4]),
        ("b149: one byte above the limit", vec![1, 0, 0, 1]),
        ("b149: a length above the limit, and bytes", [&[0x80, 0, 0, 0][..], &[0; 10_000]].concat()),
        ("b152: the end inside a frame", vec![0, 0, 0, 9, 10, 1]),
        ("b153: no Protobuf", vec![0, 0, 0, 3, 0xff, 0xff, 0xff]),
        ("b153: a field of another type", vec![0, 0, 0, 2, 0xa8, 0x01]),
        ("b153: text that is not UTF-8", vec![0, 0, 0, 3, 10, 1, 0xff]),
    ]
}

async fn lives(stage: &Stage) {
    assert_eq!(json(&stage.call("who", "{}").await.result), json!({ "text": "me" }));
}

#[test]
fn h149_h152_h153_what_is_no_request_is_answered_with_nothing_and_the_connection_goes_on() {
    run(async {
        let stage = Stage::of(&server()).await;
        for (what, sent) in none() {
            assert_eq!(bytes(&stage.connection, &sent).await, b"", "{what}");
            lives(&stage).await;
        }
    });
}

#[test]
fn h151_a_stream_that_is_reset_inside_a_frame_harms_no_other() {
    run(async {
        let stage = Stage::of(&server()).await;
        for _ in 0..300 {
            let (mut send, mut receive) = stage.connection.open().await.unwrap();
            send.write_all(&[0, 0, 0, 9, 10]).await.unwrap();
            send.reset(7_u32.into()).unwrap();
            assert_eq!(receive.read_to_end(100).await.unwrap(), b"");
        }
        lives(&stage).await;
    });
}

#[test]
fn h150_a_length_and_then_silence_ends_in_time() {
    run(async {
        let mut limits = HostLimits::default();
        limits.read = Duration::from_millis(100);
        let stage = Stage::with([offer("one", &server()).await], limits).await;
        let (mut send, mut receive) = stage.connection.open().await.unwrap();
        send.write_all(&[0, 0, 0, 9]).await.unwrap();
        assert_eq!(
            receive.read_to_end(100).await.unwrap(),
            b"",
            "within the limit and not the deadline of the test"
        );
        lives(&stage).await;
    });
}

#[test]
fn an_answer_that_is_not_taken_ends_its_stream_and_no_other() {
    run(async {
        let mut limits = HostLimits::default();
        limits.write = Duration::from_millis(100);
        let stage = Stage::with([offer("one", &server()).await], limits).await;
        let (mut send, mut receive) = stage.connection.open().await.unwrap();
        // The id is repeated in the response, and exceeds what is sent before the client reads.
        let health = Some(Request::Health(HealthRequest {}));
        wire::write(&mut send, &PluginRequest { request_id: "x".repeat(8 << 20), request: health })
            .await
            .unwrap();
        assert!(receive.received_reset().await.unwrap().is_some());
        lives(&stage).await;
    });
}

#[test]
fn a_request_that_is_not_ended_is_answered_all_the_same() {
    run(async {
        let stage = Stage::of(&server()).await;
        let (mut send, mut receive) = stage.connection.open().await.unwrap();
        let request =
            PluginRequest { request_id: "open".to_owned(), request: Some(Request::Health(HealthRequest {})) };
        // One byte at a time, more slowly than in any packet, without an end.
        for byte in wire::encode(&request).unwrap() {
            send.write_all(&[byte]).await.unwrap();
        }
        let answer: PluginResponse = wire::read(&mut receive).await.unwrap();
        assert_eq!(answer.request_id, "open");
        lives(&stage).await;
    });
}

#[test]
fn over_tcp_each_connection_is_one_exchange() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let host = Host::new([offer("one", &server()).await], HostLimits::default());
        let (end, ends) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move { host.serve_tcp(listener, async { drop(ends.await) }).await });
        let asked = async |sent: &[u8], whole: bool| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(sent).await.unwrap();
            if whole {
                stream.shutdown().await.unwrap();
            }
            let mut answer = Vec::new();
            // Unread bytes cause a reset; no response arrived either way.
            let _ = stream.read_to_end(&mut answer).await;
            answer
        };
        for (what, sent) in none() {
            assert_eq!(asked(&sent, true).await, b"", "{what}");
        }
        let health =
            PluginRequest { request_id: "h1".to_owned(), request: Some(Request::Health(HealthRequest {})) };
        for whole in [true, false] {
            let answer = asked(&wire::encode(&health).unwrap(), whole).await;
            let answer: PluginResponse = wire::decode(answer[4..].to_vec().into()).unwrap();
            assert_eq!(answer.request_id, "h1");
        }
        end.send(()).unwrap();
        serving.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    });
}
