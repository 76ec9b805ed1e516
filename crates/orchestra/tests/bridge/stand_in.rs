//! An orchestrator that behaves as the real one was observed to, from its first plugin to its end by a signal.

use std::net::SocketAddr;

use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::{Orchestrator, OrchestratorOptions};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::{PluginRequest, ToolRequest};
use tokio::sync::{mpsc, watch};

use crate::lossy::Lossy;
use crate::ports::Port;
use crate::support::{Act, Folder, Scripted, handle_with, refusal, tools, usual};

type Names = Vec<&'static str>;

/// An orchestrator on a fixed port. It listens before its plugins run; these start one by one. If it is killed, it
/// informs no peer, and after the restart it knows none of the earlier connections. The fixed port is that of a relay,
/// so each start is another endpoint, whose stateless resets are not accepted.
///
/// It responds as [`usual`] does, as far as the plugin of a tool is running.
pub(crate) struct StandIn {
    folder: Folder,
    port: Port,
    up: watch::Sender<Names>,
    running: Option<(Scripted, Lossy)>,
    killed: Vec<Scripted>,
}

impl StandIn {
    /// Starts without plugins.
    pub(crate) async fn start() -> Self {
        let port = Port::claim_udp().unwrap();
        let (up, _) = watch::channel(Names::new());
        let mut it = Self { folder: Folder::new(), port, up, running: None, killed: Vec::new() };
        it.start_again().await;
        it
    }

    fn certificates(&self) -> Certificates {
        Certificates::in_directory(self.folder.path())
    }

    /// A client of it.
    pub(crate) async fn client(&self, options: OrchestratorOptions) -> Orchestrator {
        handle_with(self.address(), &self.certificates(), options).await
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port.number()))
    }

    /// Starts a plugin with these tools.
    pub(crate) fn up(&self, tools: &[&'static str]) {
        self.up.send_modify(|up| up.extend(tools));
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) {
        let (scripted, relay) = self.running.take().unwrap();
        relay.close().await;
        self.up.send_replace(Names::new());
        self.killed.push(scripted);
    }

    /// Restarts it after it was killed, without plugins.
    pub(crate) async fn start_again(&mut self) {
        let scripted = Scripted::new(&self.certificates(), script(self.up.subscribe())).await;
        let relay = Lossy::at(self.address(), scripted.address).await;
        self.running = Some((scripted, relay));
    }

    /// SIGTERM: closes its connections with code 0, and then its port.
    pub(crate) async fn stop(&mut self) {
        let (scripted, relay) = self.running.take().unwrap();
        scripted.stop().await;
        relay.close().await;
        self.up.send_replace(Names::new());
    }

    /// Every request from now on except health, until it ends.
    pub(crate) fn arrivals(&self) -> mpsc::UnboundedReceiver<PluginRequest> {
        self.running.as_ref().unwrap().0.arrivals()
    }

    /// Every call that has arrived, also before it was killed.
    pub(crate) fn calls(&self) -> Vec<ToolRequest> {
        let running = self.running.iter().map(|(scripted, _)| scripted);
        self.killed.iter().chain(running).flat_map(Scripted::calls).collect()
    }
}

fn script(up: watch::Receiver<Names>) -> impl Fn(&PluginRequest) -> Act + Send + Sync + 'static {
    move |request| match &request.request {
        Some(Request::ListTools(_)) => Act::Say(tools(&up.borrow())),
        Some(Request::ToolCall(call)) if !up.borrow().contains(&&*call.tool_name) => {
            let said = format!("no plugin provides tool {:?}", call.tool_name);
            Act::Say(refusal("tool_not_found", &said))
        }
        _ => usual(request),
    }
}
