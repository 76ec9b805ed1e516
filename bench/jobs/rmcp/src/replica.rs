//! Job 3: a replica of a server in an axum application: `rmcp-replica PORT`. It ends when its standard input is closed.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use rmcp::handler::server::common::Extension;
use rmcp::handler::server::tool::{InputResponses, RequestState};
use rmcp::model::*;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

/// What the middleware finds out about a request.
#[derive(Clone)]
struct User(String);

async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let user = request.headers().get("x-user").and_then(|user| user.to_str().ok());
    let user = User(user.ok_or(StatusCode::UNAUTHORIZED)?.to_owned());
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

#[derive(Deserialize, JsonSchema)]
struct Persons {
    count: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Time {
    hour: u8,
}

/// What a replica tells the next one, through the client.
#[derive(Default, Serialize, Deserialize)]
struct Booking {
    count: Option<u8>,
}

#[derive(Clone)]
struct Restaurant {
    codec: RequestStateCodec,
}

fn user(parts: &Parts) -> Result<&str, ErrorData> {
    let user = parts.extensions.get::<User>();
    user.map(|User(name)| &**name).ok_or_else(|| ErrorData::internal_error("nobody", None))
}

/// The accepted answer to the question of the round before.
fn answer<T: serde::de::DeserializeOwned>(
    InputResponses(responses): InputResponses,
) -> Result<Option<T>, ErrorData> {
    let invalid = |_| ErrorData::invalid_params("the answer does not fit", None);
    let response = responses.and_then(|mut responses| responses.remove("answer"));
    let response = response.ok_or_else(|| ErrorData::invalid_params("the answer is missing", None))?;
    let result: ElicitResult = serde_json::from_value(response).map_err(invalid)?;
    match (result.action, result.content) {
        (ElicitationAction::Accept, Some(content)) => serde_json::from_value(content).map_err(invalid),
        _ => Ok(None),
    }
}

impl Restaurant {
    fn ask<T: JsonSchema>(
        &self,
        question: &str,
        booking: &Booking,
        user: &str,
    ) -> Result<CallToolResponse, ErrorData> {
        let schema = ElicitationSchema::from_type::<T>()
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let question = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: question.into(),
            requested_schema: schema,
        };
        let question = InputRequest::Elicitation(ElicitRequest::new(question));
        let options = SealOptions::new().associated_data(user.as_bytes());
        let state = self.codec.seal_json_with(booking, &options);
        let state = state.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let questions = InputRequests::from([("answer".to_owned(), question)]);
        Ok(InputRequiredResult::new(Some(questions), Some(state)).into())
    }
}

fn booked(text: String) -> Result<CallToolResponse, ErrorData> {
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
}

#[tool_router]
impl Restaurant {
    /// Names the user and the program of the request.
    #[tool]
    fn whoami(&self, Extension(parts): Extension<Parts>) -> Result<String, ErrorData> {
        let program = parts.headers.get("x-program").and_then(|program| program.to_str().ok());
        Ok(format!("{} with {}", user(&parts)?, program.unwrap_or("something")))
    }

    /// Books a table, after two questions.
    #[tool]
    async fn book(
        &self,
        Extension(parts): Extension<Parts>,
        RequestState(state): RequestState,
        responses: InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        let user = user(&parts)?;
        let Some(state) = state else {
            return self.ask::<Persons>("How many persons?", &Booking::default(), user);
        };
        let booking: Booking = self
            .codec
            .open_json_with(&state, user.as_bytes())
            .map_err(|_| ErrorData::invalid_params("the state is not of this server", None))?;
        let Some(count) = booking.count else {
            let Some(Persons { count }) = answer(responses)? else {
                return booked("no table is booked".into());
            };
            return self.ask::<Time>("At what hour?", &Booking { count: Some(count) }, user);
        };
        let Some(Time { hour }) = answer(responses)? else {
            return booked("no table is booked".into());
        };
        booked(format!("a table for {count} at {hour}"))
    }

    /// Takes half a second.
    #[tool]
    async fn cook(&self) -> String {
        tokio::time::sleep(Duration::from_millis(500)).await;
        "cooked".into()
    }
}

#[tool_handler(name = "restaurant", version = "1.0.0")]
impl ServerHandler for Restaurant {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: rmcp-replica PORT")?.parse()?;
    let restaurant = Restaurant { codec: RequestStateCodec::try_new([7; 32])? };
    let service = StreamableHttpService::new(
        move || Ok(restaurant.clone()),
        LocalSessionManager::default().into(),
        StreamableHttpServerConfig::default().with_legacy_session_mode(false),
    );
    let application = Router::new()
        .nest_service("/mcp", service)
        .layer(from_fn(authenticate))
        .route("/health", get(|| async { "ok" }));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let ended = async { drop(tokio::io::stdin().read_u8().await) };
    axum::serve(listener, application).with_graceful_shutdown(ended).await?;
    println!("ended");
    Ok(())
}
