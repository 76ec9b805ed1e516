//! An orchestrator as the real one was seen to behave, from the first of its plugins to its end by a signal.

use std::net::SocketAddr;

use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::{PluginRequest, ToolRequest};
use tokio::sync::{mpsc, watch};

use crate::lossy::Lossy;
use crate::ports::Port;
use crate::support::{Act, Scripted, refusal, tools, usual};

type Names = Vec<&'static str>;

/// A program on a port that stays the same. It listens before its plugins are up; these come one by one. Killed, it says
/// nothing to anybody, and started again it knows nothing of the connections of before: what is its port is a relay's, so
/// that it is another endpoint each time, whose stateless resets nobody believes.
///
/// What it does with a request is what [`usual`] says, as far as the plugin of that tool is up.
pub(crate) struct StandIn {
    certificates: Certificates,
    port: Port,
    up: watch::Sender<Names>,
    running: Option<(Scripted, Lossy)>,
    killed: Vec<Scripted>,
}

impl StandIn {
    /// Without a plugin yet.
    pub(crate) async fn start(certificates: &Certificates) -> Self {
        let port = Port::claim_udp().unwrap();
        let (up, _) = watch::channel(Names::new());
        let mut it = Self { certificates: certificates.clone(), port, up, running: None, killed: Vec::new() };
        it.start_again().await;
        it
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port.number()))
    }

    /// A plugin is up, and has these tools.
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

    /// It has been killed, and is started again: its plugins are not up yet.
    pub(crate) async fn start_again(&mut self) {
        let scripted = Scripted::new(&self.certificates, script(self.up.subscribe())).await;
        let relay = Lossy::at(self.address(), scripted.address).await;
        self.running = Some((scripted, relay));
    }

    /// SIGTERM: its connections are closed with code 0, and then its port.
    pub(crate) async fn stop(&mut self) {
        let (scripted, relay) = self.running.take().unwrap();
        scripted.stop().await;
        relay.close().await;
        self.up.send_replace(Names::new());
    }

    /// Every request from now on, health aside, until it ends.
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
