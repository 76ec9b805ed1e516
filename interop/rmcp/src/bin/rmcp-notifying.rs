//! A server on the newest rmcp that notifies its client and asks it, in both eras. Without arguments it uses stdio; with
//! `http` it uses Streamable HTTP, with sessions in the legacy era, and prints its address for the client.
//!
//! It has the tools of the other notifying servers in `interop/servers`: `change_tools`, `update_resource`, `log`, `ask` and
//! `elicit`. rmcp sends a change to `subscriptions/listen` streams only through the sinks that a server keeps by itself, and it
//! applies no level to log messages, so both are done here.
#![allow(deprecated, reason = "to its authors, the legacy era's subscriptions and log messages are")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use interop_rmcp::{plain, taken};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, InputRequest,
    InputRequests, InputRequiredResult, JsonObject, ListResourcesResult, ListToolsResult, LoggingLevel,
    LoggingMessageNotificationParam, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceUpdatedNotificationParam, ServerCapabilities,
    ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::sync::watch;

const RESOURCE: &str = "test://counter";
const TOOLS: [&str; 5] = ["change_tools", "update_resource", "log", "ask", "elicit"];

/// The server. Over HTTP each session of the legacy era and each request of the modern era has its own, with the same state.
#[derive(Clone, Default)]
struct Notifying(Arc<State>);

#[derive(Default)]
struct State {
    /// How many streams have been accepted, and have no sink yet.
    opening: watch::Sender<usize>,
    has_added: AtomicBool,
    has_level: AtomicBool,
    version: Mutex<u32>,
    /// The open streams of the modern era.
    sinks: Mutex<Vec<SubscriptionSink>>,
    /// The resources that clients of the legacy era have subscribed to.
    subscribed: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version == ProtocolVersion::V_2026_07_28)
}

/// The question for the user's name.
fn question() -> Value {
    json!({
        "mode": "form",
        "message": "Who are you?",
        "requestedSchema": {
            "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"]
        }
    })
}

fn greeting(answer: &Value) -> CallToolResult {
    let name = answer["content"]["name"].as_str().unwrap_or("nobody");
    CallToolResult::success(vec![ContentBlock::text(format!("Hello, {name}"))])
}

impl Notifying {
    /// The streams of the modern era. rmcp acknowledges a stream before it hands over its sink, so a client may call before the
    /// sink is here: this waits for it.
    async fn sinks(&self) -> Result<Vec<SubscriptionSink>, ErrorData> {
        self.0.opening.subscribe().wait_for(|opening| *opening == 0).await.map_err(internal)?;
        Ok(lock(&self.0.sinks).clone())
    }

    async fn change_tools(&self, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.0.has_added.fetch_not(Ordering::Relaxed);
        if !is_modern(context) {
            return context.peer.notify_tool_list_changed().await.map_err(internal);
        }
        for sink in self.sinks().await? {
            if sink.accepted().tools_list_changed == Some(true) {
                sink.notify_tool_list_changed().await.map_err(internal)?;
            }
        }
        Ok(())
    }

    async fn update_resource(&self, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        *lock(&self.0.version) += 1;
        if !is_modern(context) {
            let is_subscribed = lock(&self.0.subscribed).iter().any(|uri| uri == RESOURCE);
            if is_subscribed {
                let updated = ResourceUpdatedNotificationParam::new(RESOURCE);
                context.peer.notify_resource_updated(updated).await.map_err(internal)?;
            }
            return Ok(());
        }
        for sink in self.sinks().await? {
            let uris = sink.accepted().resource_subscriptions.iter().flatten();
            if uris.into_iter().any(|uri| uri == RESOURCE) {
                sink.notify_resource_updated(RESOURCE).await.map_err(internal)?;
            }
        }
        Ok(())
    }

    /// Sends a message if the client has asked for messages.
    async fn log(&self, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let is_wanted = if is_modern(context) {
            context.meta.log_level().is_some()
        } else {
            self.0.has_level.load(Ordering::Relaxed)
        };
        if is_wanted {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Warning, json!("It is hot"));
            context.peer.notify_logging_message(message).await.map_err(internal)?;
        }
        Ok(())
    }

    /// Asks in the way of the era: with the result in the modern one, with a request in the legacy one.
    async fn ask(
        &self,
        call: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !is_modern(context) {
            return self.elicit(context).await.map(Into::into);
        }
        if let Some(answer) = call.input_responses.as_ref().and_then(|answers| answers.get("user")) {
            return Ok(greeting(answer).into());
        }
        let request = json!({ "method": "elicitation/create", "params": question() });
        let request: InputRequest = taken(request).map_err(internal)?;
        let requests = InputRequests::from([("user".to_owned(), request)]);
        Ok(InputRequiredResult::from_input_requests(requests).into())
    }

    /// Asks with a request, which rmcp refuses in the modern era.
    async fn elicit(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let params = taken(question()).map_err(internal)?;
        match context.peer.create_elicitation(params).await {
            Ok(answer) => Ok(greeting(&plain(&answer).map_err(internal)?)),
            Err(error) => Ok(CallToolResult::error(vec![ContentBlock::text(error.to_string())])),
        }
    }
}

impl ServerHandler for Notifying {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::default();
        info.capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_logging()
            .build();
        info.server_info = Implementation::new("rmcp-notifying", "0");
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema: Arc<JsonObject> = Arc::new(JsonObject::from_iter([("type".to_owned(), json!("object"))]));
        let added = self.0.has_added.load(Ordering::Relaxed).then_some("added");
        let names = TOOLS.into_iter().chain(added);
        Ok(ListToolsResult::with_all_items(names.map(|name| Tool::new(name, name, schema.clone())).collect()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*call.name {
            "change_tools" => self.change_tools(&context).await?,
            "update_resource" => self.update_resource(&context).await?,
            "log" => self.log(&context).await?,
            "ask" => return self.ask(&call, &context).await,
            "elicit" => return self.elicit(&context).await.map(Into::into),
            _ => return Err(ErrorData::invalid_params("there is no such tool", None)),
        }
        Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let list = json!({ "resources": [{ "uri": RESOURCE, "name": "counter" }] });
        taken(list).map_err(internal)
    }

    async fn read_resource(
        &self,
        read: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let version = *lock(&self.0.version);
        let contents = json!({ "contents": [{ "uri": read.uri, "text": format!("version {version}") }] });
        let result: ReadResourceResult = taken(contents).map_err(internal)?;
        Ok(result.into())
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.has_level.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        lock(&self.0.subscribed).push(params.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        lock(&self.0.subscribed).retain(|uri| *uri != params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.0.opening.send_modify(|opening| *opening += 1);
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let id = context.sink().id().clone();
        lock(&self.0.sinks).push(context.sink().clone());
        self.0.opening.send_modify(|opening| *opening -= 1);
        context.cancelled().await;
        lock(&self.0.sinks).retain(|sink| *sink.id() != id);
        Ok(())
    }
}

async fn listen() -> Result<(), Box<dyn std::error::Error>> {
    let server = Notifying::default();
    let manager = Arc::new(LocalSessionManager::default());
    let config = StreamableHttpServerConfig::default();
    let service = StreamableHttpService::new(move || Ok(server.clone()), manager, config);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        if std::env::args().nth(1).as_deref() == Some("http") {
            return listen().await;
        }
        Notifying::default().serve(stdio()).await?.waiting().await?;
        Ok(())
    })
}
