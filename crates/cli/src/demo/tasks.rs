//! Tools that run as tasks: the client is given a task in place of the result, and fetches that later.
//!
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>. Only clients that say that they speak the extension are
//! given tasks, and at 2025-11-25 those that ask for one with their call
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>). All others wait for the result,
//! and never see a difference, except with tools that require it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use mcpjoin::proto::ErrorObject;
use mcpjoin::proto::types::{
    BooleanSchema, ElicitAction, ElicitFormParams, ElicitResult, ElicitationSchema, InputRequests, Members,
    StringSchema,
};
use mcpjoin::server::{Context, HandlerError, InputError, Json, NoArguments, ServerBuilder, ToolReply, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::PAUSE;
use super::rounds::{ask, form, text_of};

/// How long `slow_compute` may be told to take, in seconds: as long as the server keeps a task.
const LONGEST: u64 = 3600;
/// In how many steps it does so.
const STEPS: u32 = 10;
/// After how long `failing_job` fails.
const FAILS_AFTER: Duration = Duration::from_secs(1);

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

/// Counts one computation for as long as it exists: one that is cancelled is dropped where it waits.
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

/// Adds the chapter.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    let running = Arc::new(AtomicI32::new(0));
    let count = running.clone();
    server
        .tool(
            tool("greet").description("Greets somebody, and is never a task").read_only(),
            async |greet: Greet, _| format!("Hello, {}!", greet.name),
        )
        .tool(
            tool("slow_compute").description("Takes its time").read_only().as_task(),
            move |compute: Compute, cx: Context| {
                let counted = Counted::one_more(&count);
                async move {
                    let _counted = counted;
                    slow_compute(compute, cx).await
                }
            },
        )
        .tool(
            tool("running_computations")
                .description("Says how many slow_compute are running: to see that cancelling one stops it")
                .read_only(),
            move |_: NoArguments, _| {
                let running = running.load(Ordering::Relaxed);
                async move { Json(Computations { running }) }
            },
        )
        .tool(
            tool("failing_job")
                .description("Fails after a second, and runs only as a task")
                .read_only()
                .as_task()
                .requires_tasks(),
            async |_: NoArguments, _| {
                sleep(FAILS_AFTER).await;
                Err::<(), _>(HandlerError::new("This job fails, as it always does"))
            },
        )
        .tool(
            tool("protocol_error_job")
                .description("Ends with an error of the protocol")
                .read_only()
                .as_task(),
            async |_: NoArguments, _| {
                sleep(PAUSE).await;
                Err::<(), _>(HandlerError::protocol(ErrorObject::internal("This job has broken down")))
            },
        )
        .tool(
            tool("confirm_delete").description("Asks before it would delete a file").read_only().as_task(),
            confirm_delete,
        )
        .tool(tool("multi_input").description("Asks two things at once").read_only().as_task(), multi_input)
        .tool(
            tool("test_tool_with_task")
                .description("Asks first, and goes on as a task")
                .read_only()
                .requires_tasks(),
            with_task,
        )
}

async fn slow_compute(compute: Compute, cx: Context) -> Result<String, HandlerError> {
    if compute.seconds > LONGEST {
        return Err(HandlerError::new(format!("`seconds` is at most {LONGEST}")));
    }
    let time = Duration::from_secs(compute.seconds);
    for step in 1..=STEPS {
        sleep(time / STEPS).await;
        // A task of the extension has nobody to tell; whoever waits for the result may want to know.
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
