//! Job 5: tests of a server, and of a function that calls one.

use std::sync::{Arc, Mutex};

use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::*;
use rmcp::service::{ElicitationError, Peer, RequestContext, RunningService};
use rmcp::{
    ClientHandler, ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt, elicit_safe, object, tool,
    tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Numbers {
    a: f64,
    b: f64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Confirmation {
    sure: bool,
}

elicit_safe!(Confirmation);

#[derive(Clone)]
struct Calculator;

#[tool_router(server_handler)]
impl Calculator {
    /// Divides two numbers.
    #[tool]
    fn divide(&self, Parameters(Numbers { a, b }): Parameters<Numbers>) -> Result<Json<f64>, String> {
        if b == 0.0 { Err("division by zero".into()) } else { Ok(Json(a / b)) }
    }

    /// Clears the memory.
    #[tool]
    async fn clear(&self, peer: Peer<RoleServer>) -> Result<String, String> {
        match peer.elicit::<Confirmation>("Clear the memory?").await {
            Ok(Some(Confirmation { sure: true })) => Ok("cleared".into()),
            Ok(_) | Err(ElicitationError::UserDeclined | ElicitationError::UserCancelled) => {
                Ok("kept".into())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The function under test: half of a number, by the server.
async fn half<H: ClientHandler>(
    client: &RunningService<RoleClient, H>,
    a: f64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let call = CallToolRequestParams::new("divide").with_arguments(object!({ "a": a, "b": 2 }));
    Ok(client.call_tool(call).await?.into_typed()?)
}

/// Gives its answers in order.
struct Answers(Mutex<Vec<ElicitResult>>);

impl ClientHandler for Answers {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("test", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let answer = self.0.lock().unwrap().pop();
        answer.ok_or_else(|| ErrorData::internal_error("no answer is left", None))
    }
}

/// A server whose tool has a fixed result, and that keeps its calls.
#[derive(Clone, Default)]
struct Mock(Arc<Mutex<Vec<Value>>>);

impl ServerHandler for Mock {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.lock().unwrap().push(json!(request.arguments));
        Ok(CallToolResult::structured(json!(21.0)).into())
    }
}

async fn connect<S: ServerHandler, C: ClientHandler>(server: S, client: C) -> RunningService<RoleClient, C> {
    let (near, far) = tokio::io::duplex(65536);
    tokio::spawn(async move { server.serve(far).await.unwrap().waiting().await });
    client.serve(near).await.unwrap()
}

#[test]
fn divides() {
    let Json(quotient) = Calculator.divide(Parameters(Numbers { a: 1.0, b: 4.0 })).ok().unwrap();
    assert_eq!(quotient, 0.25);
}

#[test]
fn refuses_to_divide_by_zero() {
    let error = Calculator.divide(Parameters(Numbers { a: 1.0, b: 0.0 })).err().unwrap();
    assert_eq!(error, "division by zero");
}

#[tokio::test]
async fn asks_before_it_clears() {
    let accept = ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "sure": true }));
    let answers = vec![accept, ElicitResult::new(ElicitationAction::Decline)];
    let client = connect(Calculator, Answers(Mutex::new(answers))).await;
    for expected in ["kept", "cleared"] {
        let result = client.call_tool(CallToolRequestParams::new("clear")).await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap().text, expected);
    }
}

#[tokio::test]
async fn asks_the_server_for_a_half() {
    let mock = Mock::default();
    let client = connect(mock.clone(), ()).await;
    assert_eq!(half(&client, 42.0).await.unwrap(), 21.0);
    assert_eq!(*mock.0.lock().unwrap(), [json!({ "a": 42.0, "b": 2 })]);
}
