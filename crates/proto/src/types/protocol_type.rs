//! Types of the protocol that are read by code that is compiled once, in this crate.
//!
//! [`Raw::decode`] is generic, so each crate that reads one of these types with it compiles the code for it, and for everything in
//! it, again. Used by the clients and servers of other crates; reads nothing that `decode` would not read.

use crate::Raw;
use crate::json::ReadError;

/// A type of the protocol that this crate reads.
pub trait ProtocolType: Sized {
    /// Reads the text, as [`Raw::decode`] does.
    ///
    /// # Errors
    /// When the text does not match the type; the error says where.
    fn read(raw: &Raw) -> Result<Self, ReadError>;
}

/// Any value.
impl ProtocolType for Raw {
    fn read(raw: &Raw) -> Result<Self, ReadError> {
        Ok(raw.clone())
    }
}

macro_rules! read_here {
    ($($name:ident,)*) => { $(
        impl ProtocolType for super::$name {
            fn read(raw: &Raw) -> Result<Self, ReadError> {
                raw.decode()
            }
        }
    )* };
}

read_here! {
    AcknowledgedParams, CallToolResult, CancelledParams, ClientCapabilities, CompleteParams,
    CompleteResult, CreateMessageResult, CreateTaskResult, DiscoverResult, ElicitResult, EmptyResult,
    ExtensionTask, GetPromptParams, GetPromptResult, Implementation, InitializeResult, InputRequired,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListRootsResult,
    ListTasksResult, ListToolsResult, ListenParams, LogMessageParams, PageParams, ReadResourceResult,
    ResourceUpdatedParams, SetLevelParams, Task, TaskMetadata, TaskParams, UpdateTaskParams,
}
