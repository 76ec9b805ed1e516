//! Tests of links over byte streams and of in-memory links: the cases A of the adversarial catalogue that a link handles.

use mcpjoin_test_support as support;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mcpjoin::proto::decode::Shape;
use mcpjoin::proto::session::{Inbound, Limits, Origin, Outbound, TransportCaps, TransportEndKind};
use mcpjoin::proto::{DecodeErrorKind, Message, Method, Notification, Payload, Request, RequestId, Response};
use mcpjoin::transport::{Direction, Inspected, Link, RawLink};
use support::{bare, big, end, note, params, raw, run};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};

/// Limits with this maximum size of a message.
fn limit(message: usize) -> Limits {
    let mut limits = Limits::default();
    limits.message = message;
    limits
}

/// A link, and the other end of its stream.
fn over(buffer: usize, limits: &Limits) -> (RawLink, DuplexStream) {
    let (ours, theirs) = duplex(buffer);
    let (reader, writer) = split(ours);
    (Link::stream(reader, writer, "test").raw(limits), theirs)
}

/// The items that a link reads from these bytes, without the end.
async fn read(bytes: &[u8], limits: &Limits) -> Vec<Inbound> {
    let mut link = Link::stream(io::Cursor::new(bytes.to_vec()), tokio::io::sink(), "test").raw(limits);
    let mut all = Vec::new();
    loop {
        match link.recv().await {
            Inbound::Closed { cause } => {
                assert_eq!(cause.kind, TransportEndKind::EndOfStream);
                return all;
            }
            inbound => all.push(inbound),
        }
    }
}

fn messages(inbound: &[Inbound]) -> usize {
    inbound.iter().filter(|inbound| matches!(inbound, Inbound::Message { .. })).count()
}

const NOTE: &str = r#"{"jsonrpc":"2.0","method":"m","params":{"x":1}}"#;

#[test]
fn a1_a_line_without_end_is_dropped_at_the_limit_and_the_next_is_read() {
    run(async {
        let limits = limit(1024 * 1024);
        let (mut link, mut far) = over(64 * 1024, &limits);
        let flood = async {
            let piece = vec![b'x'; 64 * 1024];
            for _ in 0..1024 {
                far.write_all(&piece).await.unwrap();
            }
            far.write_all(format!("\n{NOTE}\n").as_bytes()).await.unwrap();
        };
        let look = async {
            let Inbound::Malformed { error, excerpt, .. } = link.recv().await else { panic!("no error") };
            assert!(matches!(error.kind, DecodeErrorKind::TooLarge { limit: 1_048_576, .. }), "{error}");
            assert!(error.to_string().contains("1048576"), "{error}");
            assert_eq!(excerpt.len(), 200);
            assert_eq!(params(&mut link).await["x"], 1);
        };
        tokio::join!(flood, look);
    });
}

/// The items that a link reads from these bytes, and the kind of its end.
async fn read_to(bytes: impl AsRef<[u8]>) -> (Vec<Inbound>, TransportEndKind) {
    let bytes = bytes.as_ref().to_vec();
    let mut link = Link::stream(io::Cursor::new(bytes), tokio::io::sink(), "test").raw(&Limits::default());
    let mut all = Vec::new();
    loop {
        match link.recv().await {
            Inbound::Closed { cause } => return (all, cause.kind),
            inbound => all.push(inbound),
        }
    }
}

#[test]
fn a_last_line_that_is_cut_off_ends_the_link_and_fails_no_call() {
    run(async {
        // Also split inside a character of two, three and four bytes.
        let reply = r#"{"jsonrpc":"2.0","id":1,"result":{"x":["é€😀"]}}"#;
        for length in 1..reply.len() {
            let (all, end) = read_to([NOTE.as_bytes(), b"\n", &reply.as_bytes()[..length]].concat()).await;
            assert_eq!(end, TransportEndKind::CutOff { received: length });
            assert_eq!(messages(&all), 1);
            let names_a_call =
                |inbound: &Inbound| matches!(inbound, Inbound::Malformed { error, .. } if error.id.is_some());
            assert!(!all.iter().any(names_a_call), "{length}: {all:?}");
        }
        // A complete message, without and with its line feed, and a line that is no message.
        for (bytes, count) in [(reply.to_owned(), 1), (format!("{reply}\n"), 1), ("hello".to_owned(), 0)] {
            let (all, end) = read_to(&bytes).await;
            assert_eq!((messages(&all), end), (count, TransportEndKind::EndOfStream), "{bytes}");
        }
        let (all, end) = read_to(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"#).await;
        assert_eq!(end, TransportEndKind::EndOfStream);
        let [Inbound::Malformed { error, .. }] = &all[..] else { panic!("{all:?}") };
        assert_eq!((error.shape, error.id.clone()), (Shape::Request, Some(RequestId::from(1))));
    });
}

#[test]
fn a2_the_limit_is_exact() {
    run(async {
        let limits = limit(NOTE.len());
        let all = read(format!("{NOTE}\r\n{NOTE} \n{NOTE}\n").as_bytes(), &limits).await;
        assert!(matches!(
            &all[..],
            [Inbound::Message { .. }, Inbound::Malformed { .. }, Inbound::Message { .. }]
        ));
    });
}

#[test]
fn a3_a4_the_sender_of_a_message_above_the_limit_is_named() {
    run(async {
        let limits = limit(1000);
        let filler = "y".repeat(2000);
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"method\":\"m\",\"params\":{{\"x\":\"{filler}\"}}}}\n\
             {{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{{\"x\":\"{filler}\"}}}}\n"
        );
        let all = read(text.as_bytes(), &limits).await;
        let [Inbound::Malformed { error: first, .. }, Inbound::Malformed { error: second, .. }] = &all[..]
        else {
            panic!("{all:?}")
        };
        assert_eq!((first.id.clone(), first.shape), (Some(RequestId::from("seven")), Shape::Request));
        assert_eq!((second.id.clone(), second.shape), (Some(RequestId::from(8)), Shape::Response));
        assert_eq!(first.code(), -32600);
    });
}

#[test]
fn r43_a5_a7_a15_line_ends_byte_order_marks_and_blank_lines_are_taken() {
    run(async {
        let text = format!("\u{feff}{NOTE}\r\n\r\n \t \n{NOTE}\n\n{NOTE}\n{NOTE}\n");
        assert_eq!(messages(&read(text.as_bytes(), &Limits::default()).await), 4);
    });
}

#[test]
fn a9_a10_a11_a13_a16_a20_what_is_no_message_costs_one_line() {
    run(async {
        for bad in [
            &b"Starting server on port 80"[..],
            b"\0",
            b"\x1b[32mok\x1b[0m {}",
            b"\xff\xfe{\0}\0",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}{\"jsonrpc\":\"2.0\",\"method\":\"m\"}",
            b"{\"jsonrpc\":\"2.0\",\"method\":\"m",
            b"null",
        ] {
            let text = [NOTE.as_bytes(), bad, NOTE.as_bytes(), b""].join(&b'\n');
            let all = read(&text, &Limits::default()).await;
            let [Inbound::Message { .. }, Inbound::Malformed { excerpt, .. }, Inbound::Message { .. }] =
                &all[..]
            else {
                panic!("{all:?}")
            };
            assert_eq!(&excerpt[..], bad);
        }
    });
}

#[test]
fn a12_a21_bytes_that_come_one_by_one_make_the_same_message() {
    run(async {
        let text = "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"x\":\"é€😀\"}}\n";
        let (mut link, mut far) = over(1, &Limits::default());
        let send = async {
            for byte in text.as_bytes() {
                far.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let ((), said) = tokio::join!(send, params(&mut link));
        assert_eq!(said["x"], "é€😀");
    });
}

#[test]
fn a14_a_million_blank_lines_are_nothing() {
    run(async {
        let start = Instant::now();
        let text = "\n".repeat(1_000_000) + NOTE;
        assert_eq!(messages(&read(text.as_bytes(), &Limits::default()).await), 1);
        // One second is the limit for the optimised build.
        let most = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });
        assert!(start.elapsed() < most, "{:?}", start.elapsed());
    });
}

#[test]
fn a18_a19_the_last_line_needs_no_end_but_must_be_whole() {
    run(async {
        let all = read(format!("{NOTE}\n{NOTE}").as_bytes(), &Limits::default()).await;
        assert_eq!((all.len(), messages(&all)), (2, 2));
        let (all, end) = read_to(&format!("{NOTE}\n{}", &NOTE[..20])).await;
        assert_eq!(end, TransportEndKind::CutOff { received: 20 });
        let [Inbound::Message { .. }, Inbound::Malformed { error, .. }] = &all[..] else { panic!("{all:?}") };
        assert!(error.to_string().contains("end"), "{error}");
    });
}

#[test]
fn a22_full_pipes_both_ways_do_not_lock() {
    run(async {
        let (ours, theirs) = duplex(4096);
        let link = |stream| {
            let (reader, writer) = split(stream);
            bare(Link::stream(reader, writer, "test"))
        };
        let talk = async |mut link: RawLink| {
            let (mut pushed, mut received) = (0, 0);
            while received < 50 {
                while pushed < 50 && link.has_room() {
                    link.push(big(64 * 1024));
                    pushed += 1;
                }
                params(&mut link).await;
                received += 1;
            }
            link.flush().await.expect("a reader");
        };
        tokio::join!(talk(link(ours)), talk(link(theirs)));
    });
}

#[test]
fn r39_r76_a24_a_message_is_one_line_whatever_it_holds() {
    run(async {
        let (mut link, mut far) = over(1024 * 1024, &Limits::default());
        let odd = format!("{{\n\"a\":\r\n\"\u{2028}\\n\\u0000\",\n\"b\":\"{}\"}}", "z".repeat(40_000));
        link.send(note(&odd)).await.unwrap();
        link.close().await;
        drop(link);
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        assert_eq!(text.matches(['\n', '\r']).count(), 1);
        assert!(text.ends_with("}\n"));
        let said: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(said["params"], raw(&odd).decode::<serde_json::Value>().unwrap());
    });
}

/// Records the bytes of each single write.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<Vec<u8>>>>);

impl AsyncWrite for Writes {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().expect("unpoisoned").push(bytes.to_vec());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>();
        let count = all.len();
        self.0.lock().expect("unpoisoned").push(all);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn r10_everything_that_is_ready_leaves_with_one_write() {
    run(async {
        let writes = Writes::default();
        let mut link = bare(Link::stream(tokio::io::empty(), writes.clone(), "test"));
        for _ in 0..50 {
            link.push(note(r#"{"x":1}"#));
        }
        link.push(big(100_000));
        link.push(note(r#"{"x":2}"#));
        link.flush().await.unwrap();
        let written = writes.0.lock().unwrap();
        assert_eq!(written.len(), 1);
        assert_eq!(written[0].iter().filter(|byte| **byte == b'\n').count(), 52);
        assert_eq!(link.sent(), written[0].len() as u64);
    });
}

#[test]
fn a_batch_is_one_line_and_comes_back_as_a_batch() {
    run(async {
        let (ours, theirs) = duplex(1024);
        let link = |stream| {
            let (reader, writer) = split(stream);
            bare(Link::stream(reader, writer, "test"))
        };
        let (mut left, mut right) = (link(ours), link(theirs));
        let messages = vec![
            Message::Request(Request { id: RequestId::from(1), method: Method::parse("ping"), params: None }),
            Message::Response(Response {
                id: Some(RequestId::from("a")),
                outcome: Ok(Payload::from_raw(raw("{}"))),
            }),
        ];
        left.send(Outbound::Batch { messages: messages.clone(), exchange: None }).await.unwrap();
        let Inbound::Batch { parts, exchange: None, origin } = right.recv().await else { panic!("no batch") };
        assert_eq!(parts.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), messages);
        assert_eq!(origin.link, "test");
    });
}

#[test]
fn a_tap_sees_the_bytes_of_a_stream_and_the_messages_of_a_memory_link() {
    run(async {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let inspector = |name: &'static str| {
            let seen = Arc::clone(&seen);
            move |way: Direction, inspected: Inspected<'_>| {
                let what = match inspected {
                    Inspected::Line(line) => String::from_utf8_lossy(line).into_owned(),
                    Inspected::Inbound(Inbound::Message { .. })
                    | Inspected::Outbound(Outbound::Message { .. }) => "message".to_owned(),
                    other => format!("{other:?}"),
                };
                seen.lock().unwrap().push((name, way, what));
            }
        };
        let (ours, mut far) = duplex(4096);
        let (reader, writer) = split(ours);
        let mut link = bare(
            Link::stream(reader, writer, "test").inspected(inspector("first")).inspected(inspector("second")),
        );
        far.write_all(b" {} \r\n").await.unwrap();
        assert!(matches!(link.recv().await, Inbound::Malformed { .. }));
        link.send(note(r#"{"x":1}"#)).await.unwrap();
        let (left, right) = Link::memory();
        let (mut left, mut right) =
            (bare(left.inspected(inspector("left"))), bare(right.inspected(inspector("right"))));
        left.send(note("{}")).await.unwrap();
        params(&mut right).await;
        let sent = r#"{"jsonrpc":"2.0","method":"test/note","params":{"x":1}}"#.to_owned();
        assert_eq!(
            *seen.lock().unwrap(),
            [
                ("first", Direction::In, " {} ".to_owned()),
                ("second", Direction::In, " {} ".to_owned()),
                ("first", Direction::Out, sent.clone()),
                ("second", Direction::Out, sent),
                ("left", Direction::Out, "message".to_owned()),
                ("right", Direction::In, "message".to_owned()),
            ]
        );
    });
}

#[test]
fn bytes_are_sent_as_they_are_and_a_tap_sees_their_lines() {
    run(async {
        let (ours, mut far) = duplex(4096);
        let (reader, writer) = split(ours);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let link = Link::stream(reader, writer, "test").inspected(move |way, inspected| {
            if let (Direction::Out, Inspected::Line(line)) = (way, inspected) {
                noted.lock().unwrap().push(line.to_vec());
            }
        });
        let mut link = bare(link);
        assert!(link.push_bytes("no message\n{\"half\""));
        link.flush().await.unwrap();
        assert!(link.push_bytes(vec![b':', 0xff, b'\n']));
        link.flush().await.unwrap();
        let mut came = [0; 21];
        far.read_exact(&mut came).await.unwrap();
        assert_eq!(&came, b"no message\n{\"half\":\xff\n");
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen, [b"no message".to_vec(), b"{\"half\"".to_vec(), b":\xff".to_vec()]);

        let (left, _right) = Link::memory();
        assert!(!bare(left).push_bytes("a message is no bytes there"));
    });
}

#[test]
fn the_pair_in_memory_keeps_order_is_bounded_and_reports_the_end() {
    run(async {
        let (left, right) = Link::memory();
        let (mut left, mut right) = (bare(left), bare(right));
        let send = async {
            for number in 0..5000 {
                left.send(note(&format!("{{\"x\":{number}}}"))).await.unwrap();
            }
            drop(left);
        };
        let receive = async {
            for number in 0..5000 {
                assert_eq!(params(&mut right).await["x"], number);
            }
            assert_eq!(end(&mut right).await.kind, TransportEndKind::EndOfStream);
            assert!(right.send(note("{}")).await.is_err());
        };
        tokio::join!(send, receive);

        let (left, _right) = Link::memory();
        let mut left = bare(left);
        let mut pushed = 0;
        while left.has_room() {
            left.push(note("{}"));
            pushed += 1;
            let _ = support::poll_once(&mut Box::pin(left.flush()));
        }
        assert!(pushed <= 1024, "{pushed}");
        assert_eq!(left.sent(), 0);
    });
}

#[test]
fn a_custom_transport_is_pumped_by_hand() {
    run(async {
        let (link, mut driver) =
            Link::channel(TransportCaps { exchanges: true, reopens: true, ..TransportCaps::default() });
        assert_eq!(link_caps(&link), "exchanges");
        let mut link = bare(link);
        link.send(Outbound::Abort { id: RequestId::from(7) }).await.unwrap();
        assert_eq!(driver.recv().await, Some(Outbound::Abort { id: RequestId::from(7) }));
        let origin = Arc::new(Origin::new("custom"));
        let message = Message::Notification(Notification { method: Method::parse("m"), params: None });
        driver.send(Inbound::Message { message, origin }).await.unwrap();
        driver.send(Inbound::Detached { id: RequestId::from(8) }).await.unwrap();
        drop(driver);
        assert!(matches!(link.recv().await, Inbound::Message { .. }));
        assert!(matches!(link.recv().await, Inbound::Detached { .. }));
        end(&mut link).await;
        assert!(link.reopen().await.is_err());

        let (link, mut driver) = Link::channel(TransportCaps::default());
        let mut link = bare(link);
        link.push(note("{}"));
        link.close().await;
        assert!(driver.recv().await.is_some());
        assert_eq!(driver.recv().await, None);
        drop(link);
        assert!(driver.send(Inbound::Detached { id: RequestId::from(8) }).await.is_err());
    });
}

fn link_caps(link: &Link) -> &'static str {
    let text = format!("{link:?}");
    match (text.contains("exchanges: true"), text.contains("reopens: true")) {
        (true, false) => "exchanges",
        _ => "something else",
    }
}
