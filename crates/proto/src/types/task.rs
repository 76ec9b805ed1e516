//! Tasks: requests whose result is fetched later. The two forms have little in common but the statuses.
//!
//! 2025-11-25 has tasks in its core: <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>.
//! 2026-07-28 has them as an extension, [`EXTENSION`]: <https://modelcontextprotocol.io/seps/2663-tasks-extension>.

use alloc::string::String;
use alloc::vec::Vec;

use super::input::{InputRequests, InputResponses};
use super::meta::Meta;
use crate::{ErrorObject, Raw};

/// The name of the extension in the capabilities of 2026-07-28.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

open! {
    /// The status of a task.
    TaskStatus {
        /// The task runs.
        Working = "working",
        /// The task waits for input.
        InputRequired = "input_required",
        /// The task has a result.
        Completed = "completed",
        /// The task failed. In 2025-11-25 this includes a result with `isError`; in the extension it is an error, and a
        /// result with `isError` completes the task.
        Failed = "failed",
        /// The task was cancelled.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Whether the status is final.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

record! {
    /// A task of 2025-11-25. Also the results of `tasks/get` and `tasks/cancel` and the params of
    /// `notifications/tasks/status`.
    Task {
        /// The id of the task.
        task_id: String as impl Into<String>,
        /// The status.
        status: TaskStatus,
        /// The time of creation, in ISO 8601.
        created_at: String as impl Into<String>,
        /// The time of the last change, in ISO 8601.
        last_updated_at: String as impl Into<String>,
        /// How long the task is kept, in milliseconds from its creation; `None` (`null` in JSON): without limit.
        ttl: Option<i64> | default,
        ---
        /// The status, for a person.
        status_message: String => with_status_message,
        /// The recommended polling interval, in milliseconds.
        poll_interval: i64 => with_poll_interval,
        /// Set by the session; leave it `None` when you build a result.
        result_type: String,
        /// Metadata of the result or the notification.
        meta "_meta": Meta => with_meta,
    }
}

/// Result of `tasks/get` in 2025-11-25.
pub type GetTaskResult = Task;

/// Result of `tasks/cancel` in 2025-11-25.
pub type CancelTaskResult = Task;

/// Parameters of `notifications/tasks/status`, 2025-11-25 alone.
pub type TaskStatusParams = Task;

record! {
    /// The member of a request that asks for a task; 2025-11-25 alone.
    #[derive(Default)]
    TaskMetadata {
        ---
        /// How long to keep the task, in milliseconds from its creation.
        ttl: i64 => with_ttl,
    }
}

record! {
    /// The task that a message belongs to: the value of [`key::RELATED_TASK`](super::meta::key::RELATED_TASK) in its
    /// `_meta`; 2025-11-25 alone.
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
    /// Parameters that only name a task.
    TaskParams [request] {
        /// The task.
        task_id: String as impl Into<String>,
        ---
    }
}

/// Parameters of `tasks/get`.
pub type GetTaskParams = TaskParams;

/// Parameters of `tasks/result`, 2025-11-25 alone. Its result is the result of the original request.
pub type GetTaskPayloadParams = TaskParams;

/// Parameters of `tasks/cancel`.
pub type CancelTaskParams = TaskParams;

record! {
    /// A task of the extension: the result of `tools/call` (with the result type `task`) and of `tasks/get`, and the
    /// params of `notifications/tasks`.
    ExtensionTask {
        /// The id of the task.
        task_id: String as impl Into<String>,
        /// The status.
        status: TaskStatus,
        /// The time of creation, in ISO 8601.
        created_at: String as impl Into<String>,
        /// The time of the last change, in ISO 8601.
        last_updated_at: String as impl Into<String>,
        /// How long the task is kept, in milliseconds from its creation; `None` (`null` in JSON): without limit.
        ttl_ms: Option<i64> | default,
        ---
        /// The status, for a person.
        status_message: String => with_status_message,
        /// The recommended polling interval, in milliseconds.
        poll_interval_ms: i64 => with_poll_interval_ms,
        /// The input requests, with [`TaskStatus::InputRequired`].
        input_requests: InputRequests => with_input_requests,
        /// The result of the original request, with [`TaskStatus::Completed`].
        result: Raw => with_result,
        /// The error, with [`TaskStatus::Failed`].
        error: ErrorObject => with_error,
        /// Set by the session, or to `task` by a handler that responds with a task.
        result_type: String => with_result_type,
        /// Metadata of the result or the notification.
        meta "_meta": Meta => with_meta,
    }
}

record! {
    /// Parameters of `tasks/update`, in the extension: the responses to the input requests of a task.
    UpdateTaskParams [request] {
        /// The task.
        task_id: String as impl Into<String>,
        /// The responses by the keys of the input requests.
        input_responses: InputResponses,
        ---
    }
}
