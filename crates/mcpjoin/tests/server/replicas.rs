//! Tests of several replicas of one server: one replica requests input, and another one accepts the response.

use std::time::Duration;

use mcpjoin::Server;
use mcpjoin::proto::types::{
    ElicitFormParams, ElicitResult, ElicitationSchema, InputRequests, InputRequired, Members,
};
use mcpjoin::server::{Context, HandlerError, InputError, StateKey, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input::Rounds;
use crate::run;

/// The number of bytes of state that the tool `by-hand` stores at its client.
const LARGE: usize = 5 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Greet {
    name: String,
}

fn form(message: &str) -> ElicitFormParams {
    ElicitFormParams::new(message, ElicitationSchema::new(Members::new()))
}

async fn greet(arguments: Greet, cx: Context) -> Result<String, InputError> {
    let first = cx.elicit(form("May I?")).await?;
    let second = cx.elicit(form("Sure?")).await?;
    Ok(format!("{}: {}, {}", arguments.name, first.action.as_str(), second.action.as_str()))
}

async fn by_hand(_: Greet, cx: Context) -> Result<String, HandlerError> {
    if let Some(state) = cx.open_request_state::<String>()? {
        let answer: Option<ElicitResult> = cx.input_response("sure")?;
        let action = answer.map_or_else(|| "nothing".into(), |answer| answer.action.as_str().to_owned());
        return Ok(format!("{action} after {} bytes", state.len()));
    }
    let state = cx.seal_request_state(&"x".repeat(LARGE))?;
    let questions = InputRequests::new().with("sure", form("Sure?").into());
    Err(HandlerError::need_input(
        InputRequired::default().with_input_requests(questions).with_request_state(state),
    ))
}

/// A replica that seals with the first of these keys, and accepts the others.
fn replica(keys: &[u8]) -> Server {
    let mut builder = Server::builder("s", "1")
        .tool(tool("greet"), greet)
        .tool(tool("other"), greet)
        .tool(tool("by-hand"), by_hand);
    if let Some((own, accepted)) = keys.split_first() {
        builder = builder.state_key(StateKey::from_bytes([*own; 32]));
        for key in accepted {
            builder = builder.accept_state_key(StateKey::from_bytes([*key; 32]));
        }
    }
    builder.build().unwrap()
}

fn ada() -> Value {
    json!({ "name": "Ada" })
}

fn accept(question: &str) -> Value {
    json!({ question: { "action": "accept" } })
}

/// The state of the first input request of `greet`.
async fn asked(replica: &mut Rounds) -> Value {
    let asked = replica.tool("greet", ada(), Value::Null, Value::Null).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    asked["requestState"].clone()
}

/// Whether the replica accepts the state of the first input request, and sends the second one.
async fn takes(replica: &mut Rounds, tool: &str, arguments: Value, state: &Value) -> bool {
    let answer = replica.tool(tool, arguments, accept("ask-1"), state.clone()).await;
    if answer["error"]["code"] == -32602 {
        return false;
    }
    assert!(answer["result"]["inputRequests"]["ask-2"].is_object(), "{answer}");
    true
}

#[test]
fn replicas_with_one_key_take_each_others_states() {
    run(async {
        let (mut one, mut two) = (Rounds::new(&replica(&[1])), Rounds::new(&replica(&[1])));
        let first = asked(&mut one).await;
        let second = two.tool("greet", ada(), accept("ask-1"), first).await["result"].clone();
        let decline = json!({ "ask-2": { "action": "decline" } });
        let last = one.tool("greet", ada(), decline, second["requestState"].clone()).await;
        assert_eq!(crate::text(&last["result"]), "Ada: accept, decline");
    });
}

#[test]
fn a_state_of_five_kibibytes_travels_between_replicas() {
    run(async {
        let (mut one, mut two) = (Rounds::new(&replica(&[1])), Rounds::new(&replica(&[1])));
        let asked = one.tool("by-hand", ada(), Value::Null, Value::Null).await["result"].clone();
        let state = asked["requestState"].clone();
        assert!(!state.as_str().unwrap().contains("xxxx"), "encrypted");
        let last = two.tool("by-hand", ada(), accept("sure"), state).await;
        assert_eq!(crate::text(&last["result"]), "accept after 5120 bytes");
    });
}

#[test]
fn a_replica_refuses_the_states_of_other_keys_tools_and_arguments() {
    run(async {
        let mut one = Rounds::new(&replica(&[1]));
        let state = asked(&mut one).await;
        for keys in [&[][..], &[2], &[2, 3]] {
            assert!(!takes(&mut Rounds::new(&replica(keys)), "greet", ada(), &state).await, "{keys:?}");
        }
        let mut two = Rounds::new(&replica(&[1]));
        assert!(!takes(&mut two, "other", ada(), &state).await);
        assert!(!takes(&mut two, "greet", json!({ "name": "Eve" }), &state).await);
        let cut = state.as_str().unwrap();
        assert!(!takes(&mut two, "greet", ada(), &json!(cut[..cut.len() - 4])).await);
        // A handler that requests input by hand does not accept this state as its own.
        let by_hand = two.tool("by-hand", ada(), accept("sure"), state.clone()).await;
        assert_eq!(by_hand["error"]["code"], -32602);
        assert!(takes(&mut two, "greet", ada(), &state).await);
    });
}

#[test]
fn a_key_is_replaced_without_refusing_anybody() {
    run(async {
        let (mut before, mut rotated) = (Rounds::new(&replica(&[1, 2])), Rounds::new(&replica(&[2, 1])));
        let (old, new) = (asked(&mut before).await, asked(&mut rotated).await);
        assert!(takes(&mut rotated, "greet", ada(), &old).await);
        assert!(takes(&mut before, "greet", ada(), &new).await);
        let mut after = Rounds::new(&replica(&[2]));
        assert!(!takes(&mut after, "greet", ada(), &old).await);
        assert!(takes(&mut after, "greet", ada(), &new).await);
    });
}

#[test]
fn a_state_expires_at_every_replica() {
    run(async {
        let state = asked(&mut Rounds::new(&replica(&[1]))).await;
        tokio::time::advance(Duration::from_secs(590)).await;
        // This replica was started nine minutes after the other one: its own age does not count.
        let mut late = Rounds::new(&replica(&[1]));
        assert!(takes(&mut late, "greet", ada(), &state).await);
        tokio::time::advance(Duration::from_secs(11)).await;
        let answer = late.tool("greet", ada(), accept("ask-1"), state).await;
        assert_eq!(answer["error"]["code"], -32602);
        assert!(answer["error"]["message"].as_str().unwrap().contains("expired"), "{answer}");
    });
}
