//! Tasks: requests whose result is fetched later. Two shapes that have little in common but their statuses.
//!
//! Part of the core in 2025-11-25:
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>; an extension of 2026-07-28,
//! [`EXTENSION`]: <https://modelcontextprotocol.io/seps/2663-tasks-extension>.

use alloc::string::String;
use alloc::vec::Vec;

use super::input::{InputRequests, InputResponses};
use super::meta::Meta;
use crate::{ErrorObject, Raw};

/// The name of the extension in the capabilities of 2026-07-28.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

open! {
    /// How a task stands.
    TaskStatus {
        /// It is being worked on.
        Working = "working",
        /// It waits for input from whoever asked for it.
        InputRequired = "input_required",
        /// It has a result.
        Completed = "completed",
        /// It has failed. In 2025-11-25 that may be a tool's own failure; in the extension it is an error, and a
        /// tool's own failure is a result.
        Failed = "failed",
        /// It was called off.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Whether it stays so.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

record! {
    /// A task of 2025-11-25. Also, with the members that they have in addition, the results of `tasks/get` and
    /// `tasks/cancel` and the parameters of `notifications/tasks/status`.
    Task {
        /// Its name, by which it is asked for.
        task_id: String as impl Into<String>,
        /// How it stands.
        status: TaskStatus,
        /// When it was created, in ISO 8601.
        created_at: String as impl Into<String>,
        /// When it last changed, in ISO 8601.
        last_updated_at: String as impl Into<String>,
        /// How long it is kept, in milliseconds from its creation; `None`, on the wire `null`, for ever.
        #[serde(default)]
        ttl: Option<i64>,
        ---
        /// How it stands, for a person.
        status_message: String => with_status_message,
        /// How long to wait before asking again, in milliseconds.
        poll_interval: i64 => with_poll_interval,
        /// Set by the session's envelope; `None` when written by hand.
        result_type: String,
        /// What is said beside the result or the notification.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}

/// Result of `tasks/get` in 2025-11-25.
pub type GetTaskResult = Task;

/// Result of `tasks/cancel` in 2025-11-25.
pub type CancelTaskResult = Task;

/// Parameters of `notifications/tasks/status`, 2025-11-25 alone.
pub type TaskStatusParams = Task;

record! {
    /// What a request says that asks for a task; 2025-11-25 alone.
    #[derive(Default)]
    TaskMetadata {
        ---
        /// How long the task is to be kept, in milliseconds from its creation.
        ttl: i64 => with_ttl,
    }
}

record! {
    /// The task that a message belongs to: the value of
    /// [`key::RELATED_TASK`](super::meta::key::RELATED_TASK) in its `_meta`; 2025-11-25 alone.
    RelatedTask {
        /// The task.
        task_id: String as impl Into<String>,
        ---
    }
}

record! {
    /// Result of a request that asked for a task; 2025-11-25 alone.
    CreateTaskResult [result] {
        /// The task.
        task: Task,
        ---
    }
}

record! {
    /// Result of `tasks/list`, 2025-11-25 alone.
    ListTasksResult [page result] {
        /// The tasks of this page.
        tasks: Vec<Task>,
        ---
    }
}

record! {
    /// Parameters that name a task and nothing else.
    TaskParams [request] {
        /// The task.
        task_id: String as impl Into<String>,
        ---
    }
}

/// Parameters of `tasks/get`.
pub type GetTaskParams = TaskParams;

/// Parameters of `tasks/result`, 2025-11-25 alone. Its result is that of the request that the task stands for.
pub type GetTaskPayloadParams = TaskParams;

/// Parameters of `tasks/cancel`.
pub type CancelTaskParams = TaskParams;

record! {
    /// A task of the extension: the result of `tools/call` (with the result type `task`) and of `tasks/get`, and
    /// the parameters of `notifications/tasks`.
    ExtensionTask {
        /// Its name, by which it is asked for.
        task_id: String as impl Into<String>,
        /// How it stands.
        status: TaskStatus,
        /// When it was created, in ISO 8601.
        created_at: String as impl Into<String>,
        /// When it last changed, in ISO 8601.
        last_updated_at: String as impl Into<String>,
        /// How long it is kept, in milliseconds from its creation; `None`, on the wire `null`, for ever.
        #[serde(default)]
        ttl_ms: Option<i64>,
        ---
        /// How it stands, for a person.
        status_message: String => with_status_message,
        /// How long to wait before asking again, in milliseconds.
        poll_interval_ms: i64 => with_poll_interval_ms,
        /// What it waits for, with [`TaskStatus::InputRequired`].
        input_requests: InputRequests => with_input_requests,
        /// The result of the request that it stands for, with [`TaskStatus::Completed`].
        result: Raw => with_result,
        /// Why there is none, with [`TaskStatus::Failed`].
        error: ErrorObject => with_error,
        /// Set by the session's envelope, or `task` by whoever answers with a task.
        result_type: String => with_result_type,
        /// What is said beside the result or the notification.
        #[serde(rename = "_meta")]
        meta: Meta => with_meta,
    }
}

record! {
    /// Parameters of `tasks/update`, in the extension: answers to what the task waits for.
    UpdateTaskParams [request] {
        /// The task.
        task_id: String as impl Into<String>,
        /// The answers, by the names of the questions.
        input_responses: InputResponses,
        ---
    }
}
