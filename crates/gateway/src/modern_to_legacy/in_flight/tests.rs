use std::cell::RefCell;

use mcpjoin_proto::types::{InputResponse, ListRootsParams};
use mcpjoin_proto::{Method, Payload};

use super::*;

type Names = Arc<InFlight<&'static str>>;

/// The requests at a server of one client (`false`) or of several, which can be asked something.
fn of(shared: bool) -> Names {
    Arc::new(InFlight::new(shared, true, || {}))
}

fn by(client: &'static str, log_level: Option<LoggingLevel>) -> Requester<&'static str> {
    Requester { client, log_level }
}

fn claimed(requests: &Names, requester: Requester<&'static str>) -> RequestGuard<&'static str> {
    let guard = requests.claim(requester).expect("no call owns the server");
    guard.sent();
    guard
}

fn begun(
    requests: &Names,
    client: &'static str,
    log_level: Option<LoggingLevel>,
) -> RequestGuard<&'static str> {
    let guard = requests.begin(Some(by(client, log_level)));
    guard.sent();
    guard
}

fn question() -> InputRequest {
    ListRootsParams::default().into()
}

fn ask(requests: &Names) -> Result<PendingQuestion<&'static str>, String> {
    requests.ask(question(), 1).map_err(|error| error.message)
}

fn refusal(requests: &Names) -> String {
    ask(requests).err().expect("refused")
}

fn keys(guard: &RequestGuard<&'static str>) -> Vec<String> {
    guard.suspend().0.keys().map(ToOwned::to_owned).collect()
}

fn answers(keys: &[&str]) -> InputResponses {
    let answer = |key: &&str| {
        let raw = Raw::parse(format!("{{\"to\":\"{key}\"}}")).expect("JSON");
        ((*key).to_owned(), InputResponse::from_raw(raw).expect("an object"))
    };
    keys.iter().map(answer).collect()
}

fn log(text: &str) -> Notification {
    let params = Raw::parse(format!("{{\"level\":\"error\",\"data\":\"{text}\"}}")).expect("JSON");
    Notification { method: Method::LogMessage, params: Some(Payload::from_raw(params)) }
}

#[tokio::test]
async fn a_question_belongs_to_the_only_call_that_can_be_asked() {
    let requests = of(false);
    assert!(refusal(&requests).contains("none of them is in flight"));
    let list = begun(&requests, "list", None);
    assert!(ask(&requests).is_err());
    let call = claimed(&requests, by("call", None));
    let asked = ask(&requests).expect("a call is in flight");
    call.asked().await;
    assert!(!list.is_asked());
    assert_eq!(keys(&call), ["ask-1"]);
    assert!(call.resume(by("call", None), &answers(&["ask-1", "ask-7"])).is_empty());
    assert_eq!(asked.answer().await.expect("answered").as_str(), r#"{"to":"ask-1"}"#);
    assert!(!call.is_asked());
}

#[tokio::test]
async fn one_call_owns_the_server_and_its_questions_move_to_no_other() {
    for shared in [false, true] {
        let requests = of(shared);
        let first = claimed(&requests, by("a", None));
        assert!(requests.claim(by("b", None)).is_none());
        let asked: Vec<_> = (0..3).map(|_| ask(&requests).expect("a call is in flight")).collect();
        assert_eq!(keys(&first), ["ask-1", "ask-2", "ask-3"]);
        assert!(requests.claim(by("b", None)).is_none(), "its client is away and returns");
        first.answered();
        drop(first);
        for asked in asked {
            let error = asked.answer().await.expect_err("the call is over");
            assert!(error.message.contains("none of them is in flight"), "{}", error.message);
        }
        let second = claimed(&requests, by("b", None));
        assert!(!second.is_asked());
        let asked = ask(&requests).expect("a call is in flight");
        assert_eq!(keys(&second), ["ask-1"]);
        drop(asked);
    }
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_has_several_calls_and_none_of_them_is_asked() {
    let requests: Names = Arc::new(InFlight::new(true, false, || {}));
    let _calls = ["a", "b"].map(|name| claimed(&requests, by(name, None)));
    assert!(refusal(&requests).contains("none of them is in flight"));
    assert!(!requests.is_left_unanswered());
}

#[tokio::test]
async fn what_has_no_answer_stays_open_and_what_is_withdrawn_does_not() {
    let requests = of(false);
    let call = claimed(&requests, by("a", None));
    let asked: Vec<_> = (0..3).map(|_| requests.ask(question(), 2).expect("a call is in flight")).collect();
    assert_eq!(call.suspend().1, 6);
    let mut asked = asked.into_iter();
    let (first, second, third) = (asked.next(), asked.next(), asked.next());
    drop(first);
    call.resume(by("a", None), &answers(&["ask-2", "ask-1"]));
    assert_eq!(second.expect("asked").answer().await.expect("answered").as_str(), r#"{"to":"ask-2"}"#);
    assert_eq!(keys(&call), ["ask-3"]);
    call.fail(&ErrorObject::internal("no"));
    assert_eq!(third.expect("asked").answer().await.expect_err("failed").message, "no");
}

#[test]
fn a_call_that_is_repeated_later_owns_the_server_and_is_not_asked_meanwhile() {
    let requests = of(true);
    let call = claimed(&requests, by("a", None));
    call.answered();
    call.set_requester(None);
    assert!(refusal(&requests).contains("none of them is in flight"));
    assert!(requests.claim(by("b", None)).is_none());
    call.set_requester(Some(by("a", None)));
    call.sent();
    assert!(ask(&requests).is_ok());
}

#[test]
fn a_question_beside_the_request_of_another_client_is_refused_at_once() {
    let requests = of(true);
    let call = claimed(&requests, by("a", None));
    let list = requests.begin(Some(by("b", None)));
    assert!(ask(&requests).is_ok(), "the server has not received it yet");
    list.sent();
    assert!(refusal(&requests).contains("another client"));
    list.answered();
    assert!(ask(&requests).is_ok(), "the server has answered it");
    drop(list);
    // A server of one client asks that client in any case.
    let requests = of(false);
    let own = claimed(&requests, by("a", None));
    let _list = begun(&requests, "a", None);
    assert!(ask(&requests).is_ok());
    drop((call, own));
}

#[test]
fn after_a_request_of_a_shared_server_was_left_unanswered_no_call_that_can_be_asked_begins() {
    for is_call in [false, true] {
        let requests = of(true);
        let left = if is_call { claimed(&requests, by("a", None)) } else { begun(&requests, "a", None) };
        let other = (!is_call).then(|| claimed(&requests, by("b", None)));
        drop(left);
        assert!(requests.is_left_unanswered() && requests.claim(by("c", None)).is_none());
        let wanted = if other.is_some() { "another client" } else { "none of them is in flight" };
        assert!(refusal(&requests).contains(wanted), "{is_call}");
        // The one client of a server may leave a call and make another.
        let requests = of(false);
        drop(claimed(&requests, by("a", None)));
        let _next = claimed(&requests, by("a", None));
        assert!(!requests.is_left_unanswered() && ask(&requests).is_ok());
    }
}

#[test]
fn of_a_shared_server_only_a_call_that_was_alone_from_its_beginning_gets_log_messages() {
    let (all, error) = (Some(LoggingLevel::Debug), LoggingLevel::Error);
    for can_be_asked in [false, true] {
        let requests: Names = Arc::new(InFlight::new(true, can_be_asked, || {}));
        let first = claimed(&requests, by("a", all));
        assert_eq!(requests.log_recipient(error, &log("1")), Some("a"));
        let second = requests.begin(Some(by("b", all)));
        assert_eq!(requests.log_recipient(error, &log("2")), None);
        second.answered();
        drop(second);
        assert_eq!(requests.log_recipient(error, &log("3")), None, "it may be about the second one");
        assert_eq!(requests.only_client(), None);
        first.answered();
        drop(first);
        let left = claimed(&requests, by("c", all));
        assert_eq!(requests.log_recipient(error, &log("4")), Some("c"));
        drop(left);
        // The server may still handle the request that was left.
        let last = requests.begin(Some(by("d", all)));
        assert_eq!(requests.log_recipient(error, &log("5")), None);
        drop(last);
        assert_eq!(requests.is_left_unanswered(), can_be_asked);
    }
}

#[test]
fn a_log_message_goes_to_the_oldest_that_wants_it_and_waits_for_one_that_is_away() {
    let requests = of(false);
    assert_eq!(requests.lowest_log_level(), None);
    let _silent = begun(&requests, "silent", None);
    let warned = claimed(&requests, by("warned", Some(LoggingLevel::Warning)));
    let all = begun(&requests, "all", Some(LoggingLevel::Debug));
    assert_eq!(requests.lowest_log_level(), Some(LoggingLevel::Debug));
    assert_eq!(requests.log_recipient(LoggingLevel::Info, &log("1")), Some("all"));
    assert_eq!(requests.log_recipient(LoggingLevel::Error, &log("2")), Some("warned"));
    warned.suspend();
    assert_eq!(requests.log_recipient(LoggingLevel::Error, &log("3")), Some("all"));
    drop(all);
    assert_eq!(requests.lowest_log_level(), Some(LoggingLevel::Warning));
    assert_eq!(requests.log_recipient(LoggingLevel::Info, &log("4")), None);
    for number in 0..MAX_STORED_LOGS + 6 {
        assert_eq!(requests.log_recipient(LoggingLevel::Error, &log(&number.to_string())), None);
    }
    let stored = warned.resume(by("warned", None), &InputResponses::new());
    assert_eq!(stored.len(), MAX_STORED_LOGS);
    assert_eq!(stored.front(), Some(&log("6")));
    // Its client returned without a log level.
    assert_eq!(requests.log_recipient(LoggingLevel::Error, &log("5")), None);
}

#[test]
fn log_messages_that_are_held_for_a_call_have_a_total_in_bytes() {
    let requests = of(false);
    let call = claimed(&requests, by("away", Some(LoggingLevel::Debug)));
    let of = |bytes: usize| log(&"x".repeat(bytes - log("").params.expect("params").raw().len()));
    let (half, little) = (of(MAX_STORED_LOG_BYTES / 2), of(100));
    let stored = |messages: &[&Notification]| {
        call.suspend();
        for message in messages {
            assert_eq!(requests.log_recipient(LoggingLevel::Error, message), None);
        }
        let stored = call.resume(by("away", Some(LoggingLevel::Debug)), &InputResponses::new());
        stored.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(stored(&[&half, &half]), [half.clone(), half.clone()]);
    assert_eq!(stored(&[&half, &half, &little]), [half, little.clone()]);
    assert_eq!(stored(&[&little, &of(MAX_STORED_LOG_BYTES + 1)]), []);
    assert_eq!(stored(&[&little]), [little]);
}

#[tokio::test]
async fn the_server_is_notified_of_changes_and_not_asked_again_when_it_refuses() {
    let (level, sent) = (SessionLogLevel::default(), RefCell::new(Vec::new()));
    let wants = [
        (None, true),
        (Some(LoggingLevel::Warning), true),
        (Some(LoggingLevel::Warning), true),
        (Some(LoggingLevel::Debug), true),
        (None, true),
        (Some(LoggingLevel::Error), false),
        (Some(LoggingLevel::Debug), true),
    ];
    for (wanted, accepts) in wants {
        let send = |level: LoggingLevel| {
            sent.borrow_mut().push(level.as_str());
            async move { accepts }
        };
        level.update(|| wanted, send).await;
    }
    assert_eq!(*sent.borrow(), ["warning", "debug", "error"]);
}
