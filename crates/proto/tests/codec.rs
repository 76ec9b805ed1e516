//! Tests of framing with hostile and faulty peers: the cases of the adversarial catalogue about message boundaries, and a
//! property of every codec: its events do not depend on the split of the bytes.

use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use mcpjoin_proto::RequestId;
use mcpjoin_proto::codec::lines::{LineDecoder, LineEvent, write_line};
use mcpjoin_proto::codec::oversized::{OversizedKind, read_start};
use mcpjoin_proto::codec::prefixed::{FrameDecoder, FrameError, write_frame};
use mcpjoin_proto::codec::sse::{
    Event, FieldError, MAX_FIELD_BYTES, OutgoingEvent, SseDecoder, SseEvent, clamp_retry, write_comment,
    write_retry,
};
use mcpjoin_proto::codec::{HEAD_BYTES, READ_BYTES, WHOLE_BUFFER_BYTES};
use proptest::prelude::*;

const MIB: usize = 1 << 20;
/// The default limit of a message.
const LIMIT: usize = 10 * MIB;

/// The memory that a decoder may allocate beside its limit: one read that is being split, and the next one.
const SLACK: usize = 2 * READ_BYTES;

// --- Lines -------------------------------------------------------------------------------------------------------

/// Reads a piece as a link does: gets a buffer, reads, polls all events, and repeats.
fn read(decoder: &mut LineDecoder, mut piece: &[u8]) -> Vec<LineEvent> {
    let mut events = Vec::new();
    while !piece.is_empty() {
        let mut room = decoder.room();
        let count = piece.len().min(room.remaining_mut());
        room.put_slice(&piece[..count]);
        piece = &piece[count..];
        events.extend(std::iter::from_fn(|| decoder.poll_event()));
    }
    events
}

fn lines_of<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<LineEvent> {
    let mut decoder = LineDecoder::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(read(&mut decoder, piece));
        assert!(decoder.capacity() <= limit + SLACK + WHOLE_BUFFER_BYTES, "{}", decoder.capacity());
    }
    decoder.finish();
    events.extend(std::iter::from_fn(|| decoder.poll_event()));
    assert_eq!(decoder.poll_event(), None);
    events
}

fn line(text: &str) -> LineEvent {
    LineEvent::Line(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a1_a_gibibyte_without_a_line_feed_is_one_error_and_no_memory() {
    let piece = vec![b'x'; READ_BYTES];
    let mut decoder = LineDecoder::new(LIMIT);
    let mut events = Vec::new();
    let mut peak = 0;
    for _ in 0..(1 << 30) / READ_BYTES {
        events.extend(read(&mut decoder, &piece));
        peak = peak.max(decoder.capacity());
    }
    let [LineEvent::TooLong { head, length }] = &events[..] else { panic!("{} events", events.len()) };
    assert_eq!(head.len(), HEAD_BYTES);
    assert!(*length > LIMIT && *length <= LIMIT + SLACK, "{length}");
    assert!(peak <= LIMIT + SLACK, "{peak}");
    assert!(decoder.capacity() <= SLACK, "{}", decoder.capacity());
    assert_eq!(read(&mut decoder, b"the end\n{}\n"), [line("{}")], "alive after the next line feed");
}

#[test]
fn a2_the_limit_is_exact_and_line_ends_do_not_count() {
    for end in ["\n", "\r\n"] {
        for cut in [1, READ_BYTES] {
            let fits = format!("{}{end}{{}}\n", "x".repeat(1000));
            let events = lines_of(1000, fits.as_bytes().chunks(cut));
            assert_eq!(events, [line(&"x".repeat(1000)), line("{}")]);
            let too_long = format!("{}{end}{{}}\n", "x".repeat(1001));
            let events = lines_of(1000, too_long.as_bytes().chunks(cut));
            let head = Bytes::from("x".repeat(1001));
            assert_eq!(events, [LineEvent::TooLong { head, length: 1001 }, line("{}")]);
        }
    }
    let whole = vec![b'x'; LIMIT];
    assert_eq!(lines_of(LIMIT, [&whole[..], b"\r", b"\n"]), [LineEvent::Line(Bytes::from(whole))]);
}

#[test]
fn a2_the_limit_is_exact_at_the_end_of_the_stream() {
    assert_eq!(lines_of(2, [&b"{}"[..]]), [LineEvent::Last("{}".into())]);
    assert_eq!(lines_of(2, [&b"{}\r"[..]]), [LineEvent::Last("{}".into())]);
    assert_eq!(lines_of(2, [&b"{ }"[..]]), [LineEvent::TooLong { head: "{ }".into(), length: 3 }]);
}

#[test]
fn a3_the_id_of_a_request_that_is_too_long_is_found_in_its_beginning() {
    let request = |start: &str| {
        let text = format!("{start}{}\n", "A".repeat(20_000));
        let events = lines_of(10_000, [text.as_bytes()]);
        let [LineEvent::TooLong { head, .. }] = &events[..] else { panic!("{events:?}") };
        read_start(head).expect("an object")
    };
    let found = request(r#"{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"text":""#);
    assert_eq!(found.id, Some(RequestId::from("a-1")));
    assert_eq!(found.kind, OversizedKind::Request);
    let found = request(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"id":5,"text":""#);
    assert_eq!(found.id, None, "the id of something else");
    assert_eq!(found.kind, OversizedKind::Request);
}

#[test]
fn a4_the_id_of_a_response_that_is_too_long_is_found_in_its_beginning() {
    let head = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[{{"text":"{}"#, "A".repeat(5000));
    let found = read_start(&head.as_bytes()[..HEAD_BYTES]).expect("an object");
    assert_eq!((found.id, found.kind), (Some(RequestId::from(7)), OversizedKind::Response));
}

#[test]
fn a5_carriage_returns_before_line_feeds_are_accepted() {
    assert_eq!(lines_of(100, [&b"{}\r\n[]\r\n"[..]]), [line("{}"), line("[]")]);
}

#[test]
fn a6_a_carriage_return_inside_a_line_is_left_there() {
    assert_eq!(lines_of(100, [&b"{\r}\n\r{}\r\r\n"[..]]), [line("{\r}"), line("\r{}\r")]);
}

#[test]
fn a7_a_byte_order_mark_is_accepted_once_and_reported() {
    let text = b"\xEF\xBB\xBF{}\n\xEF\xBB\xBF{}\n";
    let expected = [LineEvent::ByteOrderMark, line("{}"), line("\u{FEFF}{}")];
    assert_eq!(lines_of(100, [&text[..]]), expected);
    assert_eq!(lines_of(100, text.chunks(1)), expected);
    assert_eq!(lines_of(100, [&b"\n\xEF\xBB\xBF{}\n"[..]]), [line("\u{FEFF}{}")]);
    assert_eq!(lines_of(100, [&b"\xEF\xBB"[..]]), [LineEvent::Last(Bytes::from_static(b"\xEF\xBB"))]);
}

#[test]
fn a8_the_bytes_of_utf_16_reach_the_decoder_that_names_it() {
    let events = lines_of(100, [&b"\xFF\xFE{\0}\0\n\0"[..]]);
    assert_eq!(events[0], LineEvent::Line(Bytes::from_static(b"\xFF\xFE{\0}\0")));
}

#[test]
fn a12_a_character_split_at_every_byte_is_whole_again() {
    let text = "{\"a\":\"é世😀\"}\n";
    for at in 0..=text.len() {
        let (start, end) = text.as_bytes().split_at(at);
        assert_eq!(lines_of(100, [start, end]), [line(text.trim_end())]);
    }
    assert_eq!(lines_of(100, text.as_bytes().chunks(1)), [line(text.trim_end())]);
}

#[test]
fn a13_a_raw_line_feed_in_a_string_makes_two_lines_and_the_next_is_whole() {
    let events = lines_of(100, [&b"{\"a\":\"x\ny\"}\n{}\n"[..]]);
    assert_eq!(events, [line("{\"a\":\"x"), line("y\"}"), line("{}")]);
}

#[test]
fn a14_a_million_blank_lines_cost_less_than_a_second() {
    let start = Instant::now();
    assert_eq!(lines_of(LIMIT, vec![b'\n'; MIB].chunks(READ_BYTES)), []);
    assert_eq!(lines_of(LIMIT, "\r\n".repeat(MIB).as_bytes().chunks(READ_BYTES)), []);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn a15_lines_of_white_space_are_skipped() {
    assert_eq!(lines_of(100, [&b" \t \n\r\r\n  \r\n{}\n \t"[..]]), [line("{}")]);
}

#[test]
fn a18_a19_what_stands_at_the_end_is_given_to_its_caller() {
    assert_eq!(lines_of(100, [&b"{}\n{\"id\":"[..]]), [line("{}"), LineEvent::Last("{\"id\":".into())]);
    assert_eq!(lines_of(100, [&b"{\"id\":1}"[..]]), [LineEvent::Last("{\"id\":1}".into())]);
}

#[test]
fn a20_two_messages_on_one_line_are_one_line() {
    assert_eq!(lines_of(100, [&b"{}{}\n{}\n"[..]]), [line("{}{}"), line("{}")]);
}

#[test]
fn a21_a_slow_writer_is_never_read_twice() {
    // A line that arrives byte by byte is searched once; a search from its start for each byte would take 34 billion
    // steps.
    let mut decoder = LineDecoder::new(LIMIT);
    let start = Instant::now();
    for _ in 0..MIB / 4 {
        assert_eq!(read(&mut decoder, b"x"), []);
    }
    let events = read(&mut decoder, b"\n");
    assert!(matches!(&events[..], [LineEvent::Line(line)] if line.len() == MIB / 4));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn a24_a_message_is_written_on_one_line_whatever_is_in_it() {
    let mut out = BytesMut::new();
    write_line("{\"a\":\"\u{2028}\\n\\u0000\",\r\n\t\"b\":1}".as_bytes(), &mut out);
    assert_eq!(lines_of(100, [&out[..]]), [line("{\"a\":\"\u{2028}\\n\\u0000\",  \t\"b\":1}")]);
}

#[test]
fn r39_r43_only_whole_lines_are_given_and_several_at_once_are_several() {
    let mut decoder = LineDecoder::new(100);
    assert_eq!(read(&mut decoder, b"{\"a\":1}"), []);
    assert_eq!(read(&mut decoder, b"\n{\"b\":2}\n{\"c\""), [line("{\"a\":1}"), line("{\"b\":2}")]);
}

#[test]
fn f12_one_bad_line_does_not_end_the_stream() {
    let mut text = vec![b'x'; 11 * MIB];
    text.extend_from_slice(b"\n\xFF\xFE\xFD\n{\"id\":1}\r\n");
    let events = lines_of(LIMIT, text.chunks(READ_BYTES));
    assert!(matches!(events[0], LineEvent::TooLong { .. }));
    assert_eq!(events[1..], [LineEvent::Line(Bytes::from_static(b"\xFF\xFE\xFD")), line("{\"id\":1}")]);
}

#[test]
fn a_large_line_leaves_no_memory_behind() {
    let mut decoder = LineDecoder::new(LIMIT);
    let text = vec![b'x'; 8 * MIB];
    for piece in text.chunks(READ_BYTES) {
        assert_eq!(read(&mut decoder, piece), []);
        assert!(decoder.capacity() <= LIMIT + SLACK, "{}", decoder.capacity());
    }
    let events = read(&mut decoder, b"\n");
    assert!(matches!(&events[..], [LineEvent::Line(line)] if line.len() == 8 * MIB));
    assert!(decoder.capacity() <= READ_BYTES, "{}", decoder.capacity());
}

#[test]
fn a_limit_of_one_byte_is_in_force() {
    let events = lines_of(1, [&b"1\n22\n3\n"[..]]);
    assert_eq!(events, [line("1"), LineEvent::TooLong { head: "22".into(), length: 2 }, line("3")]);
}

// --- Events ------------------------------------------------------------------------------------------------------

fn events_of<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        events.extend(std::iter::from_fn(|| decoder.poll_event()));
        assert!(decoder.capacity() <= 4 * (limit + MAX_FIELD_BYTES), "{}", decoder.capacity());
    }
    decoder.finish();
    events.extend(std::iter::from_fn(|| decoder.poll_event()));
    assert_eq!(decoder.poll_event(), None);
    events
}

/// The events of a text, which are the same for every split.
fn stream(text: &str) -> Vec<SseEvent> {
    let whole = events_of(1000, [text.as_bytes()]);
    for at in 0..=text.len() {
        let (start, end) = text.as_bytes().split_at(at);
        assert_eq!(events_of(1000, [start, end]), whole, "cut at {at}");
    }
    assert_eq!(events_of(1000, text.as_bytes().chunks(1)), whole, "cut everywhere");
    whole
}

fn data(data: &str) -> SseEvent {
    event(None, None, data)
}

fn event(name: Option<&str>, id: Option<&str>, data: &str) -> SseEvent {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    SseEvent::Event(Event { name: name.map(bytes), id: id.map(bytes), data: bytes(data) })
}

#[test]
fn f15_an_event_split_at_every_byte_is_the_same_event() {
    let text = "event: message\nid: 1-é\ndata: {\"jsonrpc\":\"2.0\",\ndata:\"id\":1,\"result\":{}}\n\n";
    let joined = "{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{}}";
    assert_eq!(stream(text), [event(Some("message"), Some("1-é"), joined)]);
}

#[test]
fn f15_the_priming_event_is_reported() {
    assert_eq!(stream("id: 1\ndata:\n\n"), [event(None, Some("1"), "")]);
    assert_eq!(stream("id: 1\ndata: \n\n"), [event(None, Some("1"), "")]);
    assert_eq!(stream("id: 1\ndata\n\n"), [event(None, Some("1"), "")]);
    assert_eq!(stream("id: 1\n\n"), [SseEvent::Id("1".into())]);
}

#[test]
fn f118_the_limit_of_an_event_is_exact() {
    assert_eq!(events_of(4, [&b"data: xxxx\n\ndata:yyyy\n\n"[..]]), [data("xxxx"), data("yyyy")]);
    assert_eq!(events_of(4, [&b"data: x\ndata: yy\n\n"[..]]), [data("x\nyy")]);
    assert_eq!(events_of(1, [&b"data\ndata\n\n"[..]]), [data("\n")]);
}

#[test]
fn f118_an_event_over_the_limit_is_one_error_and_the_next_is_read() {
    for text in [
        "id: 7\ndata: xxxxx\nid: 8\n\ndata: 1\n\n",
        "id: 7\ndata:xxxxx\n\ndata: 1\n\n",
        "id: 7\ndata: xx\ndata: xx\nevent: a\n\ndata: 1\n\n",
        "id: 7\ndata: xxxx\ndata\n\ndata: 1\n\n",
        "id: 7\rdata: xxxx\rdata:\r\rdata: 1\r\r",
    ] {
        for cut in 1..text.len() {
            let events = events_of(4, text.as_bytes().chunks(cut));
            let [SseEvent::TooLong { head, id }, rest @ ..] = &events[..] else {
                panic!("{text:?} {events:?}")
            };
            assert!(head.starts_with(b"xx"), "{head:?}");
            assert_eq!(id.as_deref(), Some(&b"7"[..]));
            assert_eq!(rest, [data("1")], "{text:?} cut by {cut}");
        }
    }
}

#[test]
fn f118_an_event_without_end_holds_no_memory() {
    let piece = Bytes::from(vec![b'x'; READ_BYTES]);
    let mut decoder = SseDecoder::new(MIB);
    decoder.push("id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":\"".into());
    let mut too_long = Vec::new();
    let mut peak = 0;
    for _ in 0..256 * MIB / READ_BYTES {
        too_long.extend(std::iter::from_fn(|| decoder.poll_event()));
        decoder.push(piece.clone());
        peak = peak.max(decoder.capacity());
    }
    too_long.extend(std::iter::from_fn(|| decoder.poll_event()));
    let [SseEvent::TooLong { head, id: Some(id) }] = &too_long[..] else { panic!("{too_long:?}") };
    assert_eq!(id, "1");
    assert_eq!(
        read_start(head).and_then(|found| found.id),
        Some(RequestId::from(3)),
        "the call fails at once"
    );
    assert!(peak <= 2 * MIB + SLACK, "{peak}");
    assert_eq!(decoder.capacity(), 0);
    decoder.push("\n\ndata: {}\n\n".into());
    assert_eq!(decoder.poll_event(), Some(data("{}")));
}

#[test]
fn f118_lines_without_data_are_bounded_too() {
    for field in ["id: ", "event: ", "retry: 1", "unknown: ", "no-colon"] {
        let text = format!("{field}{}\ndata: 1\n\ndata: 2\n\n", "1".repeat(MAX_FIELD_BYTES));
        let events = events_of(100, text.as_bytes().chunks(999));
        assert!(matches!(&events[..], [SseEvent::TooLong { .. }, last] if *last == data("2")), "{events:?}");
    }
}

#[test]
fn f119_a_stream_of_comments_is_alive_and_flat() {
    assert_eq!(stream(":\n\n: ping\n\n"), [SseEvent::Comment, SseEvent::Comment]);
    let mut decoder = SseDecoder::new(100);
    decoder.push(": ".into());
    assert_eq!(decoder.poll_event(), Some(SseEvent::Comment), "said as soon as it is seen");
    for _ in 0..1000 {
        decoder.push(Bytes::from_static(&[b'x'; READ_BYTES]));
        assert_eq!(decoder.poll_event(), None);
        assert_eq!(decoder.capacity(), 0);
    }
    decoder.push("\ndata: 1\n\n".into());
    assert_eq!(decoder.poll_event(), Some(data("1")));
}

#[test]
fn f15_a_line_that_belongs_into_no_event_stream_is_known() {
    // With and without a line end, and cut anywhere. The first such line counts.
    for (body, line) in [
        (r#"{"jsonrpc":"2.0"}"#, Some(r#"{"jsonrpc":"2.0"}"#)),
        ("{\n  \"jsonrpc\": 1\n}", Some("{")),
        ("\u{feff}<html>", Some("<html>")),
        (": x\ndata\nevent: y\nid:1\nid:\0\nretry: 9\n\n", None),
        ("", None),
    ] {
        for cut in 0..=body.len() {
            let mut decoder = SseDecoder::new(100);
            for piece in [&body.as_bytes()[..cut], &body.as_bytes()[cut..]] {
                decoder.push(Bytes::copy_from_slice(piece));
                while decoder.poll_event().is_some() {}
            }
            assert_eq!(decoder.unknown_line(), line.map(str::as_bytes), "{body:?} cut at {cut}");
            if line.is_none() {
                let mut decoder = SseDecoder::new(100);
                decoder.push(Bytes::copy_from_slice(&body.as_bytes()[..cut]));
                while decoder.poll_event().is_some() {}
                assert_eq!(decoder.unknown_line(), None, "{body:?} up to {cut}");
            }
        }
    }
    let mut decoder = SseDecoder::new(100);
    decoder.push(Bytes::from(format!("{}\n", "x".repeat(HEAD_BYTES + 1))));
    assert_eq!((decoder.poll_event(), decoder.unknown_line().map(<[u8]>::len)), (None, Some(HEAD_BYTES)));
}

#[test]
fn f120_all_line_ends_give_the_same_events() {
    let text = "id: 1\ndata: a\ndata: b\n\n: c\nevent: x\ndata: d\n\n";
    let expected = stream(text);
    assert_eq!(expected, [event(None, Some("1"), "a\nb"), SseEvent::Comment, event(Some("x"), None, "d")]);
    for end in ["\r", "\r\n"] {
        assert_eq!(stream(&text.replace('\n', end)), expected, "{end:?}");
    }
    assert_eq!(stream("data: a\r\rdata: b\n\rdata: c\r\n\n"), [data("a"), data("b"), data("c")]);
}

#[test]
fn f120_an_event_is_given_at_a_carriage_return_without_waiting_for_the_line_feed() {
    let mut decoder = SseDecoder::new(100);
    decoder.push("data: 1\r\n\r".into());
    assert_eq!(decoder.poll_event(), Some(data("1")));
    decoder.push("\ndata: 2\r\n\r\n".into());
    assert_eq!(decoder.poll_event(), Some(data("2")));
    assert_eq!(decoder.poll_event(), None);
}

#[test]
fn f121_fields_are_read_as_the_standard_says() {
    for (text, expected) in [
        ("\u{FEFF}data: 1\n\n", vec![data("1")]),
        ("\u{FEFF}: a\n\u{FEFF}data: 1\n\n", vec![SseEvent::Comment]),
        ("\u{FEFF}\u{FEFF}data: 1\n\n", vec![]),
        ("data:1\n\n", vec![data("1")]),
        ("data:  1 \n\n", vec![data(" 1 ")]),
        ("data: YHOO\ndata: +2\ndata: 10\n\n", vec![data("YHOO\n+2\n10")]),
        ("data\n\ndata\ndata\n\n", vec![data(""), data("\n")]),
        ("data: a\n\n\n\ndata: b\n\n", vec![data("a"), data("b")]),
        ("DATA: 1\n data: 2\ndata : 3\nfoo: 4\nfoo\n\n", vec![]),
        ("id: a\0b\ndata: 1\n\n", vec![data("1")]),
        ("id: a\nid: b\ndata: 1\n\n", vec![event(None, Some("b"), "1")]),
        ("id\ndata: 1\n\n", vec![event(None, Some(""), "1")]),
        ("event:\ndata: 1\n\n", vec![data("1")]),
        ("event: endpoint\ndata: /m\n\n", vec![event(Some("endpoint"), None, "/m")]),
        ("event: a\n\ndata: 1\n\n", vec![data("1")]),
        ("retry: 5\ndata: 1\n\n", vec![SseEvent::Retry(5), data("1")]),
        ("retry: 5", vec![SseEvent::Retry(5)]),
        ("data: :\n\n", vec![data(":")]),
        ("", vec![]),
        ("\n\n", vec![]),
    ] {
        assert_eq!(stream(text), expected, "{text:?}");
    }
}

#[test]
fn f121_an_event_without_its_blank_line_is_unfinished() {
    let unfinished = |data: &str, id: Option<&'static str>| {
        let data = Bytes::copy_from_slice(data.as_bytes());
        SseEvent::Unfinished(Event { name: None, data, id: id.map(Bytes::from) })
    };
    assert_eq!(stream("id: 1\ndata: 1\n"), [unfinished("1", Some("1"))]);
    assert_eq!(stream("data: 1\n\ndata: 2"), [data("1"), unfinished("2", None)]);
}

#[test]
fn f122_retry_is_clamped_and_text_is_ignored() {
    let asked = |value: &str| stream(&format!("retry: {value}\n"));
    assert_eq!(asked("0"), [SseEvent::Retry(0)]);
    assert_eq!(asked("1000000000000"), [SseEvent::Retry(1_000_000_000_000)]);
    assert_eq!(asked("99999999999999999999999"), [SseEvent::Retry(u64::MAX)]);
    for text in ["soon", "-1", "1.5", "", " 5", "5 ", "+5"] {
        assert_eq!(asked(text), [], "{text:?}");
    }
    assert_eq!(clamp_retry(0), Duration::from_millis(100));
    assert_eq!(clamp_retry(100), Duration::from_millis(100));
    assert_eq!(clamp_retry(3000), Duration::from_secs(3));
    assert_eq!(clamp_retry(60_001), Duration::from_secs(60));
    assert_eq!(clamp_retry(u64::MAX), Duration::from_secs(60));
}

#[test]
fn data_of_an_event_in_one_piece_is_not_copied() {
    let piece = Bytes::from("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n");
    let mut decoder = SseDecoder::new(1000);
    decoder.push(piece.clone());
    let Some(SseEvent::Event(event)) = decoder.poll_event() else { panic!("no event") };
    assert_eq!(event.data, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    assert!(piece.as_ptr_range().contains(&event.data.as_ptr()));
}

#[test]
fn written_events_are_read_back() {
    let mut out = BytesMut::new();
    let retry = Some(Duration::from_millis(1500));
    OutgoingEvent { id: Some("s-1"), data: b"", ..OutgoingEvent::default() }.write(&mut out).expect("clean");
    write_comment("keep\nalive", &mut out);
    let several =
        OutgoingEvent { name: Some("message"), retry, data: b"{\n\"a\":1,\r\n\"b\":2\r}", id: None };
    several.write(&mut out).expect("clean");
    write_retry(Duration::from_secs(2), &mut out);
    assert_eq!(
        stream(std::str::from_utf8(&out).expect("UTF-8")),
        [
            event(None, Some("s-1"), ""),
            SseEvent::Comment,
            SseEvent::Comment,
            SseEvent::Retry(1500),
            event(Some("message"), None, "{\n\"a\":1,\n\"b\":2\n}"),
            SseEvent::Retry(2000),
        ]
    );
}

#[test]
fn an_id_that_would_break_the_stream_is_not_written() {
    for id in ["a\nb", "a\rb", "a\0b"] {
        let mut out = BytesMut::new();
        let refused = OutgoingEvent { id: Some(id), data: b"1", ..OutgoingEvent::default() }.write(&mut out);
        assert_eq!(refused, Err(FieldError { field: "id" }));
        assert!(out.is_empty());
    }
}

// --- Frames ------------------------------------------------------------------------------------------------------

fn frames_of<'a>(
    limit: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Bytes>, Option<FrameError>) {
    let mut decoder = FrameDecoder::new(limit);
    let mut frames = Vec::new();
    let mut pull = |decoder: &mut FrameDecoder| {
        loop {
            match decoder.poll_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
        }
    };
    let mut error = None;
    for mut piece in pieces {
        while !piece.is_empty() && error.is_none() {
            let mut room = decoder.room();
            let count = piece.len().min(room.remaining_mut());
            room.put_slice(&piece[..count]);
            piece = &piece[count..];
            error = pull(&mut decoder);
        }
        assert!(decoder.capacity() <= limit + SLACK + WHOLE_BUFFER_BYTES, "{}", decoder.capacity());
    }
    decoder.finish();
    let error = error.or_else(|| pull(&mut decoder));
    (frames, error)
}

#[test]
fn h149_a_length_above_the_limit_is_refused_before_anything_is_allocated() {
    for (length, limit) in [(u32::MAX, LIMIT), (10_485_761, LIMIT), (1 << 31, 16 * MIB), (2, 1)] {
        let mut decoder = FrameDecoder::new(limit);
        decoder.push(&length.to_be_bytes());
        let error = FrameError::TooLong { length: length as usize, limit };
        assert_eq!(decoder.poll_frame(), Err(error));
        assert_eq!(decoder.capacity(), 0);
        assert_eq!(decoder.poll_frame(), Err(error), "for good");
        assert!(error.to_string().contains(&limit.to_string()), "{error}");
    }
    let mut text = 10_485_760_u32.to_be_bytes().to_vec();
    text.resize(4 + LIMIT, 7);
    let (frames, error) = frames_of(LIMIT, text.chunks(READ_BYTES));
    assert_eq!((frames.len(), frames[0].len(), error), (1, LIMIT, None));
}

#[test]
fn h150_a_length_and_then_silence_costs_no_more_than_what_came() {
    let mut decoder = FrameDecoder::new(LIMIT);
    let length = u32::try_from(LIMIT).expect("32 bits");
    decoder.room().put_slice(&length.to_be_bytes());
    assert_eq!(decoder.poll_frame(), Ok(None));
    let _room = decoder.room();
    assert!(decoder.capacity() <= READ_BYTES, "{}", decoder.capacity());
}

#[test]
fn h152_a_stream_that_ends_inside_a_frame_is_truncated() {
    let whole = b"\0\0\0\x05hello";
    for at in 1..whole.len() {
        let expected = if at < 4 { 4 } else { 9 };
        let error = Some(FrameError::Truncated { expected, received: at });
        assert_eq!(frames_of(100, [&whole[..at]]), (vec![], error));
    }
    assert_eq!(frames_of(100, [&whole[..]]), (vec!["hello".into()], None));
    assert_eq!(frames_of(100, []), (vec![], None));
}

#[test]
fn h153_an_empty_frame_is_a_frame() {
    assert_eq!(frames_of(1, [&[0; 8][..]]), (vec![Bytes::new(), Bytes::new()], None));
}

// --- Every cut ---------------------------------------------------------------------------------------------------

/// Byte sequences that matter to the codecs.
const TOKENS: [&[u8]; 23] = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\xEF\xBB\xBF",
    b"\xEF",
    b"data: ",
    b"data:",
    b"data",
    b"id: ",
    b"event: ",
    b"retry: ",
    b": ",
    b"7",
    b"{}",
    b"\0",
    b"\0\0\0\x03",
    b"\0\0\0\0",
    b" ",
    b"\t",
    b"xxxxxxxx",
    b"\xFF\xFE",
    b"\xC3\xA9",
];

/// The input bytes, and the sizes of the pieces.
fn cut_material() -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    let tokens = prop::collection::vec(prop::sample::select(&TOKENS[..]), 0..60);
    let bytes = prop_oneof![
        4 => tokens.prop_map(|tokens| tokens.concat()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ];
    (bytes, prop::collection::vec(1_usize..40, 0..80))
}

fn cut<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for size in sizes {
        let (piece, rest) = bytes.split_at((*size).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

/// How much of an oversized line was received depends on the split; that it is oversized does not.
fn without_lengths(events: Vec<LineEvent>) -> Vec<LineEvent> {
    let same = |event| match event {
        LineEvent::TooLong { .. } => LineEvent::TooLong { head: Bytes::new(), length: 0 },
        other => other,
    };
    events.into_iter().map(same).collect()
}

fn without_heads(events: Vec<SseEvent>) -> Vec<SseEvent> {
    let same = |event| match event {
        SseEvent::TooLong { id, .. } => SseEvent::TooLong { head: Bytes::new(), id },
        other => other,
    };
    events.into_iter().map(same).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn lines_do_not_depend_on_the_cuts((bytes, sizes) in cut_material(), limit in 0_usize..40) {
        let whole = without_lengths(lines_of(limit, [&bytes[..]]));
        prop_assert_eq!(without_lengths(lines_of(limit, cut(&bytes, &sizes))), &whole[..]);
        prop_assert_eq!(without_lengths(lines_of(limit, bytes.chunks(1))), whole);
    }

    #[test]
    fn events_do_not_depend_on_the_cuts((bytes, sizes) in cut_material(), limit in 0_usize..40) {
        let whole = without_heads(events_of(limit, [&bytes[..]]));
        prop_assert_eq!(without_heads(events_of(limit, cut(&bytes, &sizes))), &whole[..]);
        prop_assert_eq!(without_heads(events_of(limit, bytes.chunks(1))), whole);
    }

    #[test]
    fn frames_do_not_depend_on_the_cuts((bytes, sizes) in cut_material(), limit in 0_usize..40) {
        let whole = frames_of(limit, [&bytes[..]]);
        prop_assert_eq!(&frames_of(limit, cut(&bytes, &sizes)), &whole);
        prop_assert_eq!(frames_of(limit, bytes.chunks(1)), whole);
    }
}

proptest! {
    #[test]
    fn written_lines_are_read_back(texts in prop::collection::vec("\\{[^\r\n]*\\}", 0..20)) {
        let mut out = BytesMut::new();
        for text in &texts {
            write_line(text.as_bytes(), &mut out);
        }
        let expected: Vec<LineEvent> = texts.iter().map(|text| line(text)).collect();
        prop_assert_eq!(lines_of(10_000, [&out[..]]), expected);
    }

    #[test]
    fn written_events_are_read_back_whatever_they_hold(texts in prop::collection::vec("(?s).*", 1..10)) {
        let mut out = BytesMut::new();
        for text in &texts {
            OutgoingEvent { data: text.as_bytes(), ..OutgoingEvent::default() }.write(&mut out).expect("no id");
        }
        let normal = |text: &String| data(&text.replace("\r\n", "\n").replace('\r', "\n"));
        let expected: Vec<SseEvent> = texts.iter().map(normal).collect();
        prop_assert_eq!(events_of(10_000, [&out[..]]), expected);
    }

    #[test]
    fn written_frames_are_read_back(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
    ) {
        let mut out = BytesMut::new();
        for frame in &frames {
            write_frame(frame, 50, &mut out).expect("within the limit");
        }
        let expected: Vec<Bytes> = frames.into_iter().map(Bytes::from).collect();
        prop_assert_eq!(frames_of(50, [&out[..]]), (expected, None));
    }

    #[test]
    fn any_beginning_can_be_looked_through(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        text in "[{}\\[\\]:,\"\\\\idmethoresult0-9 ]*",
    ) {
        let _ = read_start(&bytes);
        let _ = read_start(text.as_bytes());
        let _ = read_start(format!("{{\"id\":1,{text}").as_bytes());
    }
}
