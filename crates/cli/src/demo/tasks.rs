//! Tools that run as tasks: the client gets a task in place of the result, and fetches the result later.
//!
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>. Clients get tasks only when they declare the extension, or at
//! 2025-11-25 when they ask for one with the call
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>). All others wait for the result, except of tools
//! that require a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use mcpjoin::proto::ErrorObject;
use mcpjoin::proto::types::{
    BooleanSchema, ElicitAction, ElicitFormParams, ElicitResult, ElicitationSchema, InputRequests, Members,
    StringSchema,
};
use mcpjoin::server::{Context, HandlerError, InputError, Json, NoArguments, ServerBuilder, ToolReply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::rounds::{ask, form, text_of};
use super::{PAUSE, read_only};

/// The longest time of `slow_compute`: as long as the server keeps a task.
const MAX_SECONDS: u64 = 3600;
/// The steps of `slow_compute`.
const STEPS: u32 = 10;
/// The time after which `failing_job` fails.
const FAILURE_DELAY: Duration = Duration::from_secs(1);

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Whom to greet
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Compute {
    /// How long to take, in seconds
    #[schemars(range(max = 3600))]
    seconds: u64,
    /// What to call it
    #[serde(default)]
    #[schemars(with = "String")]
    label: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Delete {
    /// The file that would be deleted
    filename: String,
}

#[derive(Serialize, JsonSchema)]
struct Computations {
    /// How many have begun and neither ended nor been cancelled
    running: i32,
}

/// Counts one computation while it exists. A cancelled one is dropped.
struct Counted(Arc<AtomicI32>);

impl Counted {
    fn one_more(count: &Arc<AtomicI32>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adds the tools.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    let running = Arc::new(AtomicI32::new(0));
    let count = running.clone();
    server
        .tool(read_only("greet", "Greets somebody, and is never a task"), async |greet: Greet, _| {
            format!("Hello, {}!", greet.name)
        })
        .tool(read_only("slow_compute", "Takes its time").as_task(), move |compute: Compute, cx: Context| {
            let counted = Counted::one_more(&count);
            async move {
                let _counted = counted;
                slow_compute(compute, cx).await
            }
        })
        .tool(
            read_only(
                "running_computations",
                "Says how many slow_compute are running: to see that cancelling one stops it",
            ),
            move |_: NoArguments, _| {
                let running = running.load(Ordering::Relaxed);
                async move { Json(Computations { running }) }
            },
        )
        .tool(
            read_only("failing_job", "Fails after a second, and runs only as a task")
                .as_task()
                .requires_tasks(),
            async |_: NoArguments, _| {
                sleep(FAILURE_DELAY).await;
                Err::<(), _>(HandlerError::new("This job fails, as it always does"))
            },
        )
        .tool(
            read_only("protocol_error_job", "Ends with an error of the protocol").as_task(),
            async |_: NoArguments, _| {
                sleep(PAUSE).await;
                Err::<(), _>(HandlerError::protocol(ErrorObject::internal("This job has broken down")))
            },
        )
        .tool(read_only("confirm_delete", "Asks before it would delete a file").as_task(), confirm_delete)
        .tool(read_only("multi_input", "Asks two things at once").as_task(), multi_input)
        .tool(
            read_only("test_tool_with_task", "Asks first, and goes on as a task").requires_tasks(),
            with_task,
        )
}

async fn slow_compute(compute: Compute, cx: Context) -> Result<String, HandlerError> {
    if compute.seconds > MAX_SECONDS {
        return Err(HandlerError::new(format!("`seconds` is at most {MAX_SECONDS}")));
    }
    let time = Duration::from_secs(compute.seconds);
    for step in 1..=STEPS {
        sleep(time / STEPS).await;
        // There is no progress of a task of the extension. A client that waits for the result may have asked for it.
        cx.progress(step.into(), Some(STEPS.into()), compute.label.as_deref());
    }
    let label = compute.label.as_deref().unwrap_or("The result");
    Ok(format!("{label} is there, after {} s", compute.seconds))
}

async fn confirm_delete(delete: Delete, cx: Context) -> Result<String, InputError> {
    let confirm = ElicitationSchema::new(Members::new().with("confirm", BooleanSchema::default().into()));
    let question = ElicitFormParams::new(format!("Delete {}?", delete.filename), confirm);
    let answer = cx.elicit(question).await?;
    let content = answer.content.as_ref().filter(|_| answer.action == ElicitAction::Accept);
    let confirmed = content.and_then(|content| content.get("confirm")?.decode().ok()).unwrap_or(false);
    Ok(if confirmed {
        format!("{} would be gone now", delete.filename)
    } else {
        format!("{} stays", delete.filename)
    })
}

async fn multi_input(_: NoArguments, cx: Context) -> Result<String, InputError> {
    let question = |message: &str| {
        let name = ElicitationSchema::new(Members::new().with("name", StringSchema::default().into()));
        cx.elicit(ElicitFormParams::new(message, name))
    };
    let (first, second) = tokio::join!(question("Who comes first?"), question("Who comes second?"));
    Ok(format!("{}, then {}", text_of(&first?, "name"), text_of(&second?, "name")))
}

async fn with_task(_: NoArguments, cx: Context) -> Result<ToolReply, HandlerError> {
    let Some(answer) = cx.input_response::<ElicitResult>("user_name")? else {
        let name = form("What is your name?", "name", StringSchema::default().into());
        return Err(ask(InputRequests::new().with("user_name", name)));
    };
    let name = text_of(&answer, "name");
    cx.start_task(async move |_| {
        sleep(PAUSE).await;
        format!("Hello, {name}!")
    })
    .await
}
