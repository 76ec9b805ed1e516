use mcpjoin_proto::types::{InputResponse, ListRootsParams};
use mcpjoin_proto::{Method, Payload};

use super::*;

type Names = Arc<Flights<&'static str>>;

fn flights() -> Names {
    of(false)
}

fn of(shared: bool) -> Names {
    Arc::new(Flights::new(shared, true, || {}))
}

fn here(client: &'static str, level: Option<LoggingLevel>) -> Here<&'static str> {
    Here { client, level }
}

fn some(client: &'static str, level: Option<LoggingLevel>) -> Option<Here<&'static str>> {
    Some(here(client, level))
}

fn claimed(flights: &Names, here: Here<&'static str>) -> Flight<&'static str> {
    let flight = flights.claim(here).expect("its turn");
    flight.sent();
    flight
}

fn question() -> InputRequest {
    ListRootsParams::default().into()
}

fn keys(flight: &Flight<&'static str>) -> Vec<String> {
    flight.leave().0.keys().map(ToOwned::to_owned).collect()
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
    let flights = flights();
    let error = flights.ask(question(), 1).err().expect("nobody is there");
    assert!(error.message.contains("none of them is under way"), "{}", error.message);
    let list = flights.begin(some("list", None));
    assert!(flights.ask(question(), 1).is_err());
    let tool = claimed(&flights, here("tool", None));
    let asked = flights.ask(question(), 1).expect("a call is there");
    tool.asked().await;
    assert!(!list.is_asked());
    assert_eq!(keys(&tool), ["ask-1"]);
    assert!(tool.come_back(here("tool", None), &answers(&["ask-1", "ask-7"])).is_empty());
    assert_eq!(asked.answer().await.expect("answered").as_str(), r#"{"to":"ask-1"}"#);
    assert!(!tool.is_asked());
}

#[tokio::test]
async fn of_several_calls_the_oldest_that_waits_for_nothing_is_asked() {
    let flights = flights();
    let [first, second] = ["first", "second"].map(|name| claimed(&flights, here(name, None)));
    let asked: Vec<_> = (0..3).map(|_| flights.ask(question(), 1).expect("calls are there")).collect();
    assert_eq!(keys(&first), ["ask-1", "ask-2"]);
    assert_eq!(keys(&second), ["ask-1"]);
    // A question of a call that ends is another call's, and in the end nobody's.
    drop(second);
    assert_eq!(keys(&first), ["ask-1", "ask-2", "ask-3"]);
    drop(first);
    for asked in asked {
        let error = asked.answer().await.expect_err("nobody is left");
        assert!(error.message.contains("none of them is under way"), "{}", error.message);
    }
}

#[tokio::test]
async fn what_has_no_answer_stays_open_and_what_is_withdrawn_does_not() {
    let flights = flights();
    let call = claimed(&flights, here("a", None));
    let asked: Vec<_> = (0..3).map(|_| flights.ask(question(), 2).expect("a call is there")).collect();
    assert_eq!(call.leave().1, 6);
    let mut asked = asked.into_iter();
    let (first, second, third) = (asked.next(), asked.next(), asked.next());
    drop(first);
    call.come_back(here("a", None), &answers(&["ask-2", "ask-1"]));
    assert_eq!(second.expect("asked").answer().await.expect("answered").as_str(), r#"{"to":"ask-2"}"#);
    assert_eq!(keys(&call), ["ask-3"]);
    call.fail(&ErrorObject::internal("no"));
    assert_eq!(third.expect("asked").answer().await.expect_err("failed").message, "no");
}

#[tokio::test]
async fn where_clients_share_a_server_one_call_has_its_turn_and_what_is_asked_is_about_it() {
    {
        let flights = of(true);
        let first = claimed(&flights, here("a", None));
        assert!(flights.claim(here("b", None)).is_none());
        let asked = flights.ask(question(), 1).expect("it is the only one");
        assert_eq!(keys(&first), ["ask-1"]);
        assert!(flights.claim(here("b", None)).is_none(), "its client is away and comes back");
        first.answered();
        drop(first);
        assert!(asked.answer().await.is_err());
        let second = claimed(&flights, here("b", None));
        assert!(!second.is_asked());
        // Left before it was answered: whoever comes now might be asked what was meant for it.
        drop(second);
        assert!(flights.is_abandoned() && flights.claim(here("c", None)).is_none());
        let error = flights.ask(question(), 1).err().expect("nobody is there");
        assert!(error.message.contains("none of them is under way"), "{}", error.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_may_be_anothers_is_held_until_that_one_is_answered() {
    let flights = of(true);
    let call = claimed(&flights, here("a", None));
    let [first, second] = ["b", "c"].map(|name| flights.begin(some(name, None)));
    first.sent();
    second.sent();
    let asked = flights.ask(question(), 1).expect("it may be the call's");
    let later = flights.begin(some("d", None));
    later.sent();
    for list in [first, second] {
        assert!(!call.is_asked());
        list.answered();
    }
    call.asked().await;
    call.come_back(here("a", None), &answers(&["ask-1"]));
    assert!(asked.answer().await.is_ok());
    // One that stays in doubt is refused, and so is one whose doubt is never settled.
    let begun = Instant::now();
    let error = flights.ask(question(), 1).expect("it may be the call's").answer().await;
    assert!(error.expect_err("doubtful").message.contains("another client"));
    assert_eq!(begun.elapsed(), DOUBT);
    let asked = flights.ask(question(), 1).expect("it may be the call's");
    drop(later);
    assert!(asked.answer().await.is_err() && !call.is_asked());
    let error = flights.ask(question(), 1).err().expect("whose is it?");
    assert!(error.message.contains("another client"), "{}", error.message);
}

#[test]
fn of_a_shared_server_only_a_call_that_was_alone_from_its_beginning_gets_log_messages() {
    let (all, error) = (Some(LoggingLevel::Debug), LoggingLevel::Error);
    for can_be_asked in [false, true] {
        let flights: Names = Arc::new(Flights::new(true, can_be_asked, || {}));
        let first = claimed(&flights, here("a", all));
        assert_eq!(flights.hearer(error, &log("1")), Some("a"));
        let second = flights.begin(some("b", all));
        assert_eq!(flights.hearer(error, &log("2")), None);
        second.answered();
        drop(second);
        assert_eq!(flights.hearer(error, &log("3")), None, "it may be the second one's");
        assert_eq!(flights.only_client(), None);
        first.answered();
        drop(first);
        let left = claimed(&flights, here("c", all));
        assert_eq!(flights.hearer(error, &log("4")), Some("c"));
        drop(left);
        // The server may still be at what was left.
        let last = flights.begin(some("d", all));
        assert_eq!(flights.hearer(error, &log("5")), None);
        drop(last);
        assert_eq!(flights.is_abandoned(), can_be_asked);
    }
}

#[test]
fn a_log_message_goes_to_the_oldest_that_wants_it_and_waits_for_one_that_is_away() {
    let flights = flights();
    assert_eq!(flights.lowest_level(), None);
    let _deaf = claimed(&flights, here("deaf", None));
    let warned = claimed(&flights, here("warned", Some(LoggingLevel::Warning)));
    let all = flights.begin(some("all", Some(LoggingLevel::Debug)));
    assert_eq!(flights.lowest_level(), Some(LoggingLevel::Debug));
    assert_eq!(flights.hearer(LoggingLevel::Info, &log("1")), Some("all"));
    assert_eq!(flights.hearer(LoggingLevel::Error, &log("2")), Some("warned"));
    warned.leave();
    assert_eq!(flights.hearer(LoggingLevel::Error, &log("3")), Some("all"));
    drop(all);
    assert_eq!(flights.lowest_level(), Some(LoggingLevel::Warning));
    assert_eq!(flights.hearer(LoggingLevel::Info, &log("4")), None);
    for number in 0..HELD + 6 {
        assert_eq!(flights.hearer(LoggingLevel::Error, &log(&number.to_string())), None);
    }
    let held = warned.come_back(here("warned", None), &InputResponses::new());
    assert_eq!(held.len(), HELD);
    assert_eq!(held.front(), Some(&log("6")));
    // It has no longer asked for any.
    assert_eq!(flights.hearer(LoggingLevel::Error, &log("5")), None);
}

#[tokio::test]
async fn a_question_in_doubt_that_is_withdrawn_is_not_asked_and_the_next_one_is() {
    let flights = of(true);
    let call = claimed(&flights, here("a", None));
    let list = flights.begin(some("b", None));
    list.sent();
    let [withdrawn, kept] = [(); 2].map(|()| flights.ask(question(), 1).expect("it may be the call's"));
    drop(withdrawn);
    assert!(!call.is_asked());
    list.answered();
    drop(list);
    assert_eq!(keys(&call), ["ask-1"]);
    call.come_back(here("a", None), &answers(&["ask-1"]));
    assert_eq!(kept.answer().await.expect("answered").as_str(), r#"{"to":"ask-1"}"#);
}

#[test]
fn log_messages_that_are_held_for_a_call_have_a_total_in_bytes() {
    let flights = flights();
    let call = claimed(&flights, here("away", Some(LoggingLevel::Debug)));
    let of = |bytes: usize| log(&"x".repeat(bytes - log("").params.expect("params").raw().len()));
    let (half, little) = (of(HELD_BYTES / 2), of(100));
    let held = |messages: &[&Notification]| {
        call.leave();
        for message in messages {
            assert_eq!(flights.hearer(LoggingLevel::Error, message), None);
        }
        let held = call.come_back(here("away", Some(LoggingLevel::Debug)), &InputResponses::new());
        held.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(held(&[&half, &half]), [half.clone(), half.clone()]);
    assert_eq!(held(&[&half, &half, &little]), [half, little.clone()]);
    assert_eq!(held(&[&little, &of(HELD_BYTES + 1)]), []);
    assert_eq!(held(&[&little]), [little]);
}
