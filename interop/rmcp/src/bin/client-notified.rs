//! A client on the newest rmcp that listens to `mcpjoin serve demo --full`: `legacy|modern -- SERVER WORDS...`, or
//! `legacy|modern URL`. Prints what it was told, in one JSON object: `tools`, whether the tool `test_added_tool` was in the list
//! after each change of it, and `logs`. Used by `interop/tests/notifications.rs`, which judges it.
#![allow(deprecated, reason = "to its authors, log messages are")]

use std::time::Duration;

use interop_rmcp::{Checked, Failure, plain, taken};
use rmcp::model::{
    ClientConfig, Implementation, LoggingLevel, LoggingMessageNotificationParam, ProtocolVersion,
    ServerNotification, SetLevelRequestParams, SubscriptionFilter,
};
use rmcp::service::NotificationContext;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

/// The time limit of a wait: far more than it takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

struct User {
    changes: UnboundedSender<()>,
    logs: UnboundedSender<Value>,
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(Default::default(), Implementation::new("rmcp-notified", "0"))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.changes.send(());
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let logged = json!({ "level": message.level, "data": message.data, "logger": message.logger });
        let _ = self.logs.send(logged);
    }
}

async fn within<T>(era: &str, what: &str, waited: impl Future<Output = T>) -> Checked<T> {
    timeout(LIMIT, waited)
        .await
        .map_err(|_| Failure::Fault(format!("rmcp, {era}: {what}: nothing in {LIMIT:?}")))
}

async fn notified(era: &str, server: &[String]) -> Checked<Value> {
    let is_modern = era == "modern";
    let lifecycle = if is_modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let (tell_changes, mut changes) = unbounded_channel();
    let (tell_logs, mut logs) = unbounded_channel();
    let user = User { changes: tell_changes, logs: tell_logs };
    let client = match server {
        [dashes, program, args @ ..] if dashes == "--" => {
            let mut command = Command::new(program);
            command.args(args);
            let transport = TokioChildProcess::new(command).map_err(Failure::fault)?;
            user.serve_with_lifecycle(transport, lifecycle).await
        }
        [url] => {
            let transport = StreamableHttpClientTransport::from_uri(url.as_str());
            user.serve_with_lifecycle(transport, lifecycle).await
        }
        _ => return Err(Failure::fault("no server")),
    };
    let client = client.map_err(Failure::fault)?;
    let mut stream = None;
    if is_modern {
        let filter: SubscriptionFilter = taken(json!({ "toolsListChanged": true }))?;
        stream = Some(client.listen(filter).await.map_err(Failure::fault)?);
    } else {
        let level = SetLevelRequestParams::new(LoggingLevel::Info);
        client.set_level(level).await.map_err(Failure::fault)?;
    }
    let call = async |name: &str| {
        // In the modern era each call says which messages it wants.
        let meta = is_modern.then(|| json!({ "io.modelcontextprotocol/logLevel": "info" }));
        let mut params = json!({ "name": name });
        if let Some(meta) = meta {
            params["_meta"] = meta;
        }
        client.call_tool(taken(params)?).await.map_err(Failure::fault)
    };
    let mut tools = Vec::new();
    for _ in 0..2 {
        call("test_trigger_tool_change").await?;
        match &mut stream {
            Some(stream) => {
                let told = within(era, "list_changed", stream.next()).await?.map_err(Failure::fault)?;
                if !matches!(told, Some(ServerNotification::ToolListChangedNotification(_))) {
                    return Err(Failure::Fault(format!("{told:?} instead of list_changed")));
                }
            }
            None => drop(within(era, "list_changed", changes.recv()).await?),
        }
        let list = plain(&client.list_all_tools().await.map_err(Failure::fault)?)?;
        tools.push(
            list.as_array().is_some_and(|list| list.iter().any(|tool| tool["name"] == "test_added_tool")),
        );
    }
    call("test_logging_tool").await?;
    let mut received = Vec::new();
    for _ in 0..2 {
        received.push(within(era, "log messages", logs.recv()).await?);
    }
    // rmcp handles each notification in a task of its own, so their order is not that of the server.
    received.sort_by_key(|message| message.as_ref().map(|message| message["level"].to_string()));
    if let Some(mut stream) = stream {
        stream.cancel().await.map_err(Failure::fault)?;
    }
    client.cancel().await.map_err(Failure::fault)?;
    Ok(json!({ "tools": tools, "logs": received }))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [era, server @ ..] = words.as_slice() else { return Err("usage: CLIENT ERA SERVER".into()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = runtime.block_on(notified(era, server)).map_err(|failure| failure.to_string())?;
    println!("{told}");
    Ok(())
}
