//! A transport of your own: messages travel over two queues, which stand for a bus, a port or a WebSocket.
//!
//! Timeouts, ids, cancellation and everything else of a session stay in the library.
//!
//! ```console
//! $ cargo run -p mcpjoin --example own_transport
//! the server has the name far
//! the connection is closed
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use mcpjoin::proto::decode::{DecodeLimits, Decoded, decode};
use mcpjoin::proto::encode;
use mcpjoin::proto::session::{Inbound, Origin, Outbound, TransportCaps};
use mcpjoin::transport::ChannelDriver;
use mcpjoin::{Client, Link, Server};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Carries the messages of one side until either side closes.
async fn carry(mut driver: ChannelDriver, out: Sender<Bytes>, mut incoming: Receiver<Bytes>) {
    // Where messages come from: part of errors, and visible to the handlers of a server.
    let origin = Arc::new(Origin::new("bus"));
    loop {
        tokio::select! {
            outbound = driver.recv() => {
                // `None`: our side has closed the connection.
                let Some(outbound) = outbound else { return };
                if let Outbound::Message { message, .. } = outbound {
                    let mut text = BytesMut::new();
                    encode::message(&message, &mut text);
                    // An error: the peer is gone. Dropping the driver reports it to the connection.
                    let Ok(()) = out.send(text.freeze()).await else { return };
                }
            }
            text = incoming.recv() => {
                let Some(text) = text else { return };
                let Ok(()) = driver.send(received(&text, &origin)).await else { return };
            }
        }
    }
}

/// What the session makes of a text: it also answers or reports those that are malformed.
fn received(text: &Bytes, origin: &Arc<Origin>) -> Inbound {
    let origin = origin.clone();
    match decode(text, &DecodeLimits::default()) {
        Ok(Decoded::Message(message)) => Inbound::Message { message, origin },
        Ok(Decoded::Batch(parts)) => Inbound::Batch { parts, exchange: None, origin },
        // The excerpt is for people: 200 bytes are enough.
        Err(error) => Inbound::Malformed { error, excerpt: text.slice(..text.len().min(200)), origin },
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ((to_far, at_far), (to_near, at_near)) = (channel(16), channel(16));
    let (near, near_driver) = Link::channel(TransportCaps::default());
    let (far, far_driver) = Link::channel(TransportCaps::default());
    tokio::spawn(carry(near_driver, to_far, at_near));
    tokio::spawn(carry(far_driver, to_near, at_far));

    let serving = Server::builder("far", "1.0.0").build()?.connect(far);
    let client = Client::builder("near", "1.0.0").connect(near).await?;
    println!("the server has the name {}", client.server_name().unwrap_or_default());
    client.close().await;
    serving.closed().await;
    println!("the connection is closed");
    Ok(())
}
