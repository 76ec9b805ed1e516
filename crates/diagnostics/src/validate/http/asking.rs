//! What is asked about features, over HTTP.

use mcpjoin_proto::Method;
use mcpjoin_rules::{CallNote, Probe};

use super::super::features::{Ask, Question, Reply};
use super::super::live::Opened;
use super::super::probes::{self, Manner};
use super::live::{Live, Until};
use super::runs::Runs;
use super::wire::Head;

/// A run in which something can be asked.
pub(super) struct Asking<'r, 'w> {
    pub(super) runs: &'r mut Runs,
    pub(super) live: &'r mut Live<'w>,
    pub(super) manner: &'r Manner,
}

impl Ask for Asking<'_, '_> {
    async fn ask(&mut self, question: Question<'_>) -> Reply {
        self.runs.tell(self.live, question.probe);
        let line = question.line(self.manner, &self.live.id());
        let head =
            question.headers.iter().fold(self.live.post(&line), |head, (name, value)| head.and(name, value));
        let within = self.runs.answer();
        let reply = self.live.exchange(question.probe, head, Some(&line), Until::Ended, within).await;
        match reply.opened {
            Opened::Result(result) => Some(Ok(result)),
            Opened::Error(error) => Some(Err(error)),
            Opened::Broken(_) | Opened::Echo | Opened::Other(_) | Opened::Nothing => None,
        }
    }

    async fn tell(&mut self, probe: Probe, line: String) {
        self.live.ask(probe, &line).await;
    }

    async fn cancelled(&mut self, _: Question<'_>) {
        // One request waits for its end here before the next is sent.
    }

    async fn elsewhere(&mut self) {
        if matches!(self.manner, Manner::Modern(_)) {
            self.runs.tell(self.live, Probe::ListElsewhere);
            let line = probes::request(self.manner, &self.live.id(), Method::ListTools.as_str());
            let head = Head { other_letters: true, ..self.live.post(&line) };
            self.runs.send(self.live, Probe::ListElsewhere, head, &line).await;
        }
    }

    fn note(&mut self, note: CallNote) {
        self.runs.note(note);
    }

    fn last_id(&self) -> String {
        self.live.last_id()
    }

    fn cancels(&self) -> bool {
        matches!(self.manner, Manner::Legacy)
    }
}
