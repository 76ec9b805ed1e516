//! A client on the newest rmcp, written as its users write one, against `mcpjoin serve demo --full`: both eras. In the modern era
//! the client detects the era by itself.
#![allow(deprecated, reason = "to its authors, the legacy era's subscriptions, sampling and roots are")]

use std::sync::Arc;

use interop_rmcp::{Checked, Desk, Era, Failure, List, Server, Session, plain, taken};
use rmcp::model::{
    CallToolRequest, ClientConfig, ClientRequest, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, Implementation, ListRootsResult, ProgressNotificationParam,
    ProtocolVersion, ResourceUpdatedNotificationParam, ServerNotification, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RunningService, Subscription,
};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, ServiceError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::Command;

struct User(Arc<Desk>);

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let capabilities = serde_json::from_value(self.0.capabilities()).unwrap_or_default();
        ClientConfig::new(capabilities, Implementation::new("rmcp-client", "0"))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        answer(self.0.ask(self.0.sampling, plain(&params).unwrap_or_default()))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        answer(self.0.ask(self.0.elicitation, plain(&params).unwrap_or_default()))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        answer(self.0.ask(self.0.roots, Value::Null))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.progress(plain(&params).unwrap_or_default());
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.update(params.uri);
    }
}

fn answer<T: DeserializeOwned>(answered: Option<Value>) -> Result<T, ErrorData> {
    let answered = answered.ok_or_else(|| ErrorData::internal_error("nobody was to ask this", None))?;
    serde_json::from_value(answered).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn failure(error: ServiceError) -> Failure {
    let said = error.to_string();
    match error {
        ServiceError::McpError(error) => {
            Failure::Refused { code: error.code.0.into(), data: error.data.unwrap_or_default(), said }
        }
        _ => Failure::Fault(said),
    }
}

struct Current {
    client: RunningService<RoleClient, User>,
    era: Era,
    desk: Arc<Desk>,
}

struct Call {
    token: Value,
    handle: RequestHandle<RoleClient>,
}

impl interop_rmcp::Call for Call {
    fn token(&self) -> &Value {
        &self.token
    }

    async fn answer(self) -> Checked<Value> {
        plain(&self.handle.await_response().await.map_err(failure)?)
    }

    async fn cancel(self) -> Checked {
        self.handle.cancel(None).await.map_err(failure)
    }
}

impl Session for Current {
    const MAJOR: &'static str = "3";
    type Call = Call;
    /// In the legacy era updates arrive at the handler, so there is no subscription to keep.
    type Watch = Option<Subscription>;

    async fn open(server: &Server, era: Era, desk: Arc<Desk>) -> Checked<Self> {
        let lifecycle = match era {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Modern => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: None,
            },
        };
        let user = User(desk.clone());
        let client = match server {
            Server::Words(words) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                let transport = TokioChildProcess::new(command).map_err(Failure::fault)?;
                user.serve_with_lifecycle(transport, lifecycle).await
            }
            Server::Url(url) => {
                let transport = StreamableHttpClientTransport::from_uri(url.as_str());
                user.serve_with_lifecycle(transport, lifecycle).await
            }
        };
        Ok(Self { client: client.map_err(Failure::fault)?, era, desk })
    }

    fn opened(&self) -> Checked<Value> {
        let server = self.client.peer_info().ok_or_else(|| Failure::fault("it knows no server"))?;
        plain(&*server)
    }

    async fn list(&self, list: List) -> Checked<Value> {
        match list {
            List::Prompts => plain(&self.client.list_all_prompts().await.map_err(failure)?),
            List::Resources => plain(&self.client.list_all_resources().await.map_err(failure)?),
            List::Templates => plain(&self.client.list_all_resource_templates().await.map_err(failure)?),
            List::Tools => plain(&self.client.list_all_tools().await.map_err(failure)?),
        }
    }

    async fn call(&self, name: &str, arguments: Value) -> Checked<Value> {
        let params = taken(json!({ "name": name, "arguments": arguments }))?;
        plain(&self.client.call_tool(params).await.map_err(failure)?)
    }

    async fn begin(&self, name: &str, arguments: Value) -> Checked<Call> {
        let params = taken(json!({ "name": name, "arguments": arguments }))?;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let handle = self.client.send_cancellable_request(request, options).await.map_err(failure)?;
        Ok(Call { token: plain(&handle.progress_token)?, handle })
    }

    async fn read(&self, uri: &str) -> Checked<Value> {
        let params = taken(json!({ "uri": uri }))?;
        plain(&self.client.read_resource(params).await.map_err(failure)?)
    }

    async fn watch(&self, uri: &str) -> Checked<Self::Watch> {
        match self.era {
            Era::Legacy => {
                let params = SubscribeRequestParams::new(uri);
                self.client.subscribe(params).await.map(|()| None).map_err(failure)
            }
            Era::Modern => {
                let filter: SubscriptionFilter = taken(json!({ "resourceSubscriptions": [uri] }))?;
                self.client.listen(filter).await.map(Some).map_err(failure)
            }
        }
    }

    async fn updated(&self, watch: &mut Self::Watch) -> Checked<String> {
        let Some(subscription) = watch else { return Ok(self.desk.updated().await) };
        match subscription.next().await.map_err(failure)? {
            Some(ServerNotification::ResourceUpdatedNotification(updated)) => Ok(updated.params.uri),
            other => Err(Failure::Fault(format!("{other:?} instead of an update"))),
        }
    }

    async fn unwatch(&self, uri: &str, watch: Self::Watch) -> Checked {
        match watch {
            Some(mut subscription) => subscription.cancel().await.map_err(failure),
            None => {
                let params: UnsubscribeRequestParams = taken(json!({ "uri": uri }))?;
                self.client.unsubscribe(params).await.map_err(failure)
            }
        }
    }

    async fn prompt(&self, name: &str, arguments: Value) -> Checked<Value> {
        let params = taken(json!({ "name": name, "arguments": arguments }))?;
        plain(&self.client.get_prompt(params).await.map_err(failure)?)
    }

    async fn complete_prompt(&self, name: &str, argument: &str, value: &str) -> Checked<Vec<String>> {
        self.client.complete_prompt_simple(name, argument, value).await.map_err(failure)
    }

    async fn complete_template(&self, uri: &str, variable: &str, value: &str) -> Checked<Vec<String>> {
        self.client.complete_resource_simple(uri, variable, value).await.map_err(failure)
    }

    async fn close(self) -> Checked {
        self.client.cancel().await.map(drop).map_err(Failure::fault)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    interop_rmcp::run::<Current>()
}
