//! The line of progress on a terminal: a bar where there is a total, a counter where there is none, and the elapsed time where the
//! server sends no progress. The line is removed when the wait ends, also when it is cancelled.
//!
//! Used by the commands and by `connect` around each wait. The text is made here, and `ui` prints it.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use mcpjoin::proto::types::{ExtensionTask, ProgressParams};
use tokio::time::{Instant, sleep_until};

use crate::ui::Ui;

/// The time before the line is first shown, and the interval at which it is drawn without a notification.
const DRAW_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest interval between two drawings, since drawing takes time from the work.
const MIN_DRAW_INTERVAL: Duration = Duration::from_millis(30);
/// The columns of a bar.
const BAR_COLUMNS: usize = 20;

/// The line. It is removed when this is dropped.
pub(crate) struct Waiting<'a> {
    ui: &'a Ui,
    /// The text while there is no progress.
    what: &'a str,
    began: Instant,
    drawn: Option<Instant>,
    /// When it is drawn next; `None` where no line is shown.
    due: Option<Instant>,
    latest: Option<ProgressParams>,
    /// The status of a task, in place of `what`.
    task: Option<String>,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(ui: &'a Ui, what: &'a str) -> Self {
        let began = Instant::now();
        Self {
            ui,
            what,
            began,
            drawn: None,
            due: ui.has_line().then(|| began + DRAW_INTERVAL),
            latest: None,
            task: None,
        }
    }

    /// Waits for the future and shows the elapsed time.
    pub(crate) async fn wait<T>(mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                outcome = &mut future => return outcome,
                () = self.tick() => {}
            }
        }
    }

    /// Shows progress.
    pub(crate) fn progress(&mut self, progress: ProgressParams) {
        if self.due.is_none() {
            self.ui.detail(&words(&progress));
            return;
        }
        self.latest = Some(progress);
        self.draw_soon();
    }

    /// Shows the status of a task.
    pub(crate) fn task(&mut self, task: &ExtensionTask) {
        let status = status(task);
        if self.due.is_none() {
            self.ui.detail(&status);
            return;
        }
        self.task = Some(status);
        self.draw_soon();
    }

    fn draw_soon(&mut self) {
        match self.drawn {
            Some(drawn) if drawn.elapsed() < MIN_DRAW_INTERVAL => self.due = Some(drawn + MIN_DRAW_INTERVAL),
            _ => self.draw(),
        }
    }

    /// Waits until the line has been drawn again; forever where no line is shown. Cancel-safe.
    pub(crate) async fn tick(&mut self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
        self.draw();
    }

    fn draw(&mut self) {
        let now = Instant::now();
        self.drawn = Some(now);
        self.due = Some(now + DRAW_INTERVAL);
        let what = self.task.as_deref().unwrap_or(self.what);
        self.ui.line(&text(what, self.latest.as_ref(), now - self.began));
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.ui.line_over();
    }
}

/// The text of the line: the progress, the elapsed time, and the message, which `ui` truncates first.
fn text(what: &str, progress: Option<&ProgressParams>, took: Duration) -> String {
    let seconds = if took < DRAW_INTERVAL { String::new() } else { format!(" {} s", took.as_secs()) };
    let Some(progress) = progress else {
        return format!("{what}{seconds}");
    };
    let share = progress.total.map(|total| (progress.progress / total).clamp(0.0, 1.0));
    let mut text = match share {
        // A total of 0 has no share.
        Some(share) if share.is_finite() => {
            format!("{} {:>3}%{seconds}", bar(share), whole(share * 100.0))
        }
        _ => format!("{} so far{seconds}", progress.progress),
    };
    if let Some(message) = &progress.message {
        text.push_str("  ");
        text.push_str(message);
    }
    text
}

/// A share, from 0 to 1, as a bar.
pub(crate) fn bar(share: f64) -> String {
    let full = whole(share * BAR_COLUMNS as f64);
    format!("[{}{}]", "#".repeat(full), "-".repeat(BAR_COLUMNS.saturating_sub(full)))
}

/// The whole part of a number from 0 to 100.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
const fn whole(number: f64) -> usize {
    number as usize
}

/// The status of a task: the word of the specification, then the message of the server.
fn status(task: &ExtensionTask) -> String {
    match &task.status_message {
        Some(message) => format!("{}: {message}", task.status.as_str()),
        None => task.status.as_str().to_owned(),
    }
}

/// The progress as a sentence.
fn words(progress: &ProgressParams) -> String {
    let mut text = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    if let Some(message) = &progress.message {
        text.push_str(": ");
        text.push_str(message);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcpjoin::proto::Raw;
    use mcpjoin::proto::types::ProgressParams;

    use super::{text, words};

    fn progress(json: &str) -> ProgressParams {
        let json = format!(r#"{{"progressToken":1,{json}}}"#);
        Raw::parse(json).unwrap().decode().unwrap()
    }

    #[test]
    fn how_far_it_is_takes_one_line() {
        for (json, seconds, line, said) in [
            (r#""progress":0,"total":100"#, 0, "[--------------------]   0%", "0 of 100"),
            (
                r#""progress":50,"total":100,"message":"Half done""#,
                7,
                "[##########----------]  50% 7 s  Half done",
                "50 of 100: Half done",
            ),
            (r#""progress":3,"total":3"#, 0, "[####################] 100%", "3 of 3"),
            (r#""progress":0.5,"message":"m""#, 61, "0.5 so far 61 s  m", "0.5: m"),
        ] {
            let progress = progress(json);
            assert_eq!(text("waiting", Some(&progress), Duration::from_secs(seconds)), line, "{json}");
            assert_eq!(words(&progress), said, "{json}");
        }
        assert_eq!(text("waiting", None, Duration::from_millis(3_900)), "waiting 3 s");
    }

    #[test]
    fn numbers_that_make_no_sense_make_a_line() {
        for (json, line) in [
            (r#""progress":5,"total":0"#, "[####################] 100%"),
            (r#""progress":0,"total":0"#, "0 so far"),
            (r#""progress":-5,"total":10"#, "[--------------------]   0%"),
            (r#""progress":15,"total":10"#, "[####################] 100%"),
            (r#""progress":1e308,"total":1e-308"#, "[####################] 100%"),
            (r#""progress":5,"total":-10"#, "[--------------------]   0%"),
        ] {
            assert_eq!(text("waiting", Some(&progress(json)), Duration::ZERO), line, "{json}");
        }
    }
}
