//! Types of the protocol that are read and written by code that is compiled once, in this crate.
//!
//! [`Raw::decode`] and [`Raw::from_value`] are generic, so each crate that reads or writes one of these types with them compiles
//! the code for it, and for everything in it, again. Used by the clients and servers of other crates; the result is the same.

use alloc::vec::Vec;

use super::*;
use crate::Raw;
use crate::json::{ReadError, WriteError};

/// A type of the protocol that this crate reads and writes.
pub trait ProtocolType: Sized {
    /// Reads the text, as [`Raw::decode`] does.
    ///
    /// # Errors
    /// When the text does not match the type; the error says where.
    fn read(raw: &Raw) -> Result<Self, ReadError>;

    /// Writes the value, as [`Raw::from_value`] does.
    ///
    /// # Errors
    /// As [`Raw::from_value`].
    fn to_raw(&self) -> Result<Raw, WriteError>;
}

/// Any value.
impl ProtocolType for Raw {
    fn read(raw: &Raw) -> Result<Self, ReadError> {
        Ok(raw.clone())
    }

    fn to_raw(&self) -> Result<Raw, WriteError> {
        Ok(self.clone())
    }
}

macro_rules! compiled_here {
    ($($type:ty,)*) => { $(
        impl ProtocolType for $type {
            fn read(raw: &Raw) -> Result<Self, ReadError> {
                raw.decode()
            }

            fn to_raw(&self) -> Result<Raw, WriteError> {
                Raw::from_value(self)
            }
        }
    )* };
}

compiled_here! {
    AcknowledgedParams, CallToolParams, CallToolResult, CancelledParams, ClientCapabilities,
    CompleteParams, CompleteResult, CreateMessageResult, CreateTaskResult, DiscoverResult,
    ElicitResult, ElicitationSchema, EmptyResult, ExtensionTask, GetPromptParams, GetPromptResult, Implementation,
    InitializeResult, InputRequired, InputResponses, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListRootsResult, ListTasksResult, ListToolsResult, ListenParams,
    LogMessageParams, Meta, PageParams, ProgressParams, Prompt, ReadResourceParams, ReadResourceResult,
    RelatedTask, Resource, ResourceTemplate, ResourceUpdatedParams, ServerCapabilities, SetLevelParams,
    SubscribeParams, Task, TaskMetadata, TaskParams, Tool, UnsubscribeParams, UpdateTaskParams,
    Members<Raw>, Vec<Raw>,
}
