//! A server that is started as a child: the program, its start, and how it ends.
//!
//! Called by [`Doctor::examine`](super::Doctor::examine).
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio>

use std::time::Duration;

use super::course::Course;
use super::opening::Opening;
use super::report::{Check, Phase};
use super::wire::Wire;
use super::{diagnosis, resolve};
use mcpjoin::client::ClientBuilder;
use mcpjoin::link::ChildCommand;

/// Does all of it.
pub(super) async fn examine(
    course: &mut Course,
    command: ChildCommand,
    client: ClientBuilder,
    slow: Duration,
) {
    let handle = command.handle();
    course.begin(Phase::Resolve);
    course.notes = resolve::notes(&command);
    let resolved = match resolve::resolve(&command).await {
        Ok(resolved) => resolved,
        Err(finding) => {
            if finding.check == Check::Runtime {
                course.pass(Check::Program);
            }
            return course.fail(*finding);
        }
    };
    course.resolved(&resolved);

    course.begin(Phase::Spawn);
    let wire = Wire::default();
    let link = match command.start().await {
        Ok(link) => link,
        Err(error) => {
            let interpreter = resolved.interpreter.as_deref();
            return course.fail(*diagnosis::unstarted(Phase::Spawn, &error, interpreter));
        }
    };
    course.pass(Check::Start);
    let pid = handle.pid();
    course.end(pid.map_or_else(String::new, |pid| format!("process {pid}")));

    let opening = Opening { began: course.since, child: Some((handle.clone(), pid)), slow };
    course.begin(Phase::Probe);
    match opening.connect(course, &wire, link, client).await {
        Ok(client) => {
            course.lists(&client, &wire).await;
            course.shut_down(client, &handle).await;
            course.heard(&wire.seen());
        }
        Err(error) => {
            let finding = diagnosis::unopened(course.phase, &error.cause, &wire.seen(), &handle.stderr());
            course.fail(finding);
        }
    }
    course.stderr = diagnosis::last_lines(&handle.stderr());
}
