//! The table of our types for the definitions of the five schemas.

use mcpjoin_proto::types::*;
use mcpjoin_proto::{ErrorObject, Method, ProgressToken, Raw, RequestId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::message::{Payloads, RoundTrip};

/// How the schema tests decode and encode instances of a definition.
pub(crate) enum Row {
    /// The instances have this type.
    Type(RoundTrip),
    /// The same; members that no schema names are kept too.
    Open(RoundTrip),
    /// A part that several definitions share: decoded as a type that contains it, with these required members added.
    Part(RoundTrip, Value),
    /// The instances are messages, or the part of a message that the schema defines.
    Message(Payloads),
    /// The same, with params or a result of any type.
    AnyMessage,
    /// The instances belong to one of the named definitions. The receiver knows from its request to which one.
    Branches,
}

/// The row of a definition.
pub(crate) fn row(revision: &str, name: &str) -> Option<Row> {
    use Row::{AnyMessage, Branches, Message, Open, Part, Type};

    Some(match name {
        // JSON-RPC
        "JSONRPCRequest"
        | "JSONRPCNotification"
        | "JSONRPCResponse"
        | "JSONRPCResultResponse"
        | "JSONRPCErrorResponse"
        | "JSONRPCError"
        | "JSONRPCMessage"
        | "JSONRPCBatchRequest"
        | "JSONRPCBatchResponse"
        | "Request"
        | "Notification" => AnyMessage,
        "RequestId" => Type(typed::<RequestId>),
        "Error"
        | "ParseError"
        | "InvalidRequestError"
        | "MethodNotFoundError"
        | "InvalidParamsError"
        | "InternalError" => Type(typed::<ErrorObject>),
        "HeaderMismatchError" => Message(MESSAGE),
        "UnsupportedProtocolVersionError" => error(typed::<UnsupportedVersionData>),
        "MissingRequiredClientCapabilityError" => error(typed::<MissingCapabilityData>),
        "URLElicitationRequiredError" => error(typed::<UrlElicitationRequiredData>),

        // Every message of a method
        "ClientRequest" | "ServerRequest" | "ClientNotification" | "ServerNotification" => Message(MESSAGE),
        "PaginatedRequest" => Message(Payloads { params: |_| Some(typed::<PageParams>), ..MESSAGE }),
        "InitializeRequest"
        | "PingRequest"
        | "DiscoverRequest"
        | "ListToolsRequest"
        | "CallToolRequest"
        | "ListResourcesRequest"
        | "ListResourceTemplatesRequest"
        | "ReadResourceRequest"
        | "SubscribeRequest"
        | "UnsubscribeRequest"
        | "ListPromptsRequest"
        | "GetPromptRequest"
        | "CompleteRequest"
        | "SetLevelRequest"
        | "SubscriptionsListenRequest"
        | "CreateMessageRequest"
        | "ElicitRequest"
        | "ListRootsRequest"
        | "GetTaskRequest"
        | "GetTaskPayloadRequest"
        | "ListTasksRequest"
        | "CancelTaskRequest" => Message(MESSAGE),
        "InitializedNotification"
        | "CancelledNotification"
        | "ProgressNotification"
        | "ToolListChangedNotification"
        | "ResourceListChangedNotification"
        | "ResourceUpdatedNotification"
        | "PromptListChangedNotification"
        | "LoggingMessageNotification"
        | "RootsListChangedNotification"
        | "ElicitationCompleteNotification"
        | "TaskStatusNotification"
        | "SubscriptionsAcknowledgedNotification" => Message(MESSAGE),

        // Every response of a method
        "DiscoverResultResponse" => response(typed::<DiscoverResult>),
        "ListToolsResultResponse" => response(typed::<ListToolsResult>),
        "CallToolResultResponse" => response(result::<CallToolResult>),
        "ListResourcesResultResponse" => response(typed::<ListResourcesResult>),
        "ListResourceTemplatesResultResponse" => response(typed::<ListResourceTemplatesResult>),
        "ReadResourceResultResponse" => response(result::<ReadResourceResult>),
        "ListPromptsResultResponse" => response(typed::<ListPromptsResult>),
        "GetPromptResultResponse" => response(result::<GetPromptResult>),
        "CompleteResultResponse" => response(typed::<CompleteResult>),
        "SubscriptionsListenResultResponse" => response(typed::<ListenResult>),

        // Common to all messages
        "Result" | "GetTaskPayloadResult" => Open(typed::<Raw>),
        "ClientResult" if revision == "2026-07-28" => Open(typed::<Raw>),
        "ClientResult" | "ServerResult" => Branches,
        "EmptyResult" => Type(typed::<EmptyResult>),
        "ResultType" | "Cursor" => Type(typed::<String>),
        "RequestParams" => Type(typed::<RequestParams>),
        "NotificationParams" => Type(typed::<NotificationParams>),
        "ResourceRequestParams" => Type(typed::<ReadResourceParams>),
        "PaginatedRequestParams" => Type(typed::<PageParams>),
        "PaginatedResult" | "CacheableResult" => Part(typed::<ListToolsResult>, json!({ "tools": [] })),
        "TaskAugmentedRequestParams" | "InputResponseRequestParams" => {
            Part(typed::<CallToolParams>, json!({ "name": "" }))
        }
        "MetaObject"
        | "RequestMetaObject"
        | "NotificationMetaObject"
        | "ResultMetaObject"
        | "SubscriptionsListenResultMetaObject" => Type(meta),
        "JSONValue" => Type(typed::<Raw>),
        "JSONObject" => Type(typed::<Members<Raw>>),
        "JSONArray" => Type(typed::<Vec<Raw>>),
        "BaseMetadata" => Type(typed::<Prompt>),
        "Icons" => Part(typed::<Implementation>, json!({ "name": "", "version": "" })),
        "Icon" => Type(typed::<Icon>),
        "Implementation" => Type(typed::<Implementation>),
        "Annotated" => Part(typed::<TextContent>, json!({ "type": "text", "text": "" })),
        "Annotations" => Type(typed::<Annotations>),
        "Role" => Type(typed::<Role>),

        // Lifecycle and utilities
        "ClientCapabilities" => Type(typed::<ClientCapabilities>),
        "ServerCapabilities" => Type(typed::<ServerCapabilities>),
        "InitializeRequestParams" => Type(typed::<InitializeParams>),
        "InitializeResult" => Type(typed::<InitializeResult>),
        "DiscoverResult" => Type(typed::<DiscoverResult>),
        "CancelledNotificationParams" => Type(typed::<CancelledParams>),
        "ProgressToken" => Type(typed::<ProgressToken>),
        "ProgressNotificationParams" => Type(typed::<ProgressParams>),
        "LoggingLevel" => Type(typed::<LoggingLevel>),
        "SetLevelRequestParams" => Type(typed::<SetLevelParams>),
        "LoggingMessageNotificationParams" => Type(typed::<LogMessageParams>),
        "SubscriptionFilter" => Type(typed::<SubscriptionFilter>),
        "SubscriptionsListenRequestParams" => Type(typed::<ListenParams>),
        "SubscriptionsListenResult" => Type(typed::<ListenResult>),
        "SubscriptionsAcknowledgedNotificationParams" => Type(typed::<AcknowledgedParams>),

        // Content
        "ContentBlock" => Type(typed::<Content>),
        "TextContent" => Type(typed::<TextContent>),
        "ImageContent" => Type(typed::<ImageContent>),
        "AudioContent" => Type(typed::<AudioContent>),
        "EmbeddedResource" => Type(typed::<EmbeddedResource>),
        "ResourceLink" => Type(typed::<ResourceLink>),
        "ResourceContents" => Part(typed::<ResourceContents>, json!({ "text": "" })),
        "TextResourceContents" => Type(typed::<TextResourceContents>),
        "BlobResourceContents" => Type(typed::<BlobResourceContents>),

        // Tools
        "Tool" => Type(typed::<Tool>),
        "ToolAnnotations" => Type(typed::<ToolAnnotations>),
        "ToolExecution" => Type(typed::<ToolExecution>),
        "ListToolsResult" => Type(typed::<ListToolsResult>),
        "CallToolRequestParams" => Type(typed::<CallToolParams>),
        "CallToolResult" => Type(typed::<CallToolResult>),

        // Resources
        "Resource" => Type(typed::<Resource>),
        "ResourceTemplate" => Type(typed::<ResourceTemplate>),
        "ListResourcesResult" => Type(typed::<ListResourcesResult>),
        "ListResourceTemplatesResult" => Type(typed::<ListResourceTemplatesResult>),
        "ReadResourceRequestParams" => Type(typed::<ReadResourceParams>),
        "ReadResourceResult" => Type(typed::<ReadResourceResult>),
        "SubscribeRequestParams" => Type(typed::<SubscribeParams>),
        "UnsubscribeRequestParams" => Type(typed::<UnsubscribeParams>),
        "ResourceUpdatedNotificationParams" => Type(typed::<ResourceUpdatedParams>),

        // Prompts and completion
        "Prompt" => Type(typed::<Prompt>),
        "PromptArgument" => Type(typed::<PromptArgument>),
        "PromptMessage" => Type(typed::<PromptMessage>),
        "ListPromptsResult" => Type(typed::<ListPromptsResult>),
        "GetPromptRequestParams" => Type(typed::<GetPromptParams>),
        "GetPromptResult" => Type(typed::<GetPromptResult>),
        "PromptReference" => Type(typed::<PromptReference>),
        "ResourceReference" | "ResourceTemplateReference" => Type(typed::<ResourceTemplateReference>),
        "CompleteRequestParams" => Type(typed::<CompleteParams>),
        "CompleteResult" => Type(typed::<CompleteResult>),

        // Roots and sampling
        "Root" => Type(typed::<Root>),
        "ListRootsResult" => Type(typed::<ListRootsResult>),
        "ModelHint" => Type(typed::<ModelHint>),
        "ModelPreferences" => Type(typed::<ModelPreferences>),
        "SamplingMessage" => Type(typed::<SamplingMessage>),
        "SamplingMessageContentBlock" => Type(typed::<SamplingContent>),
        "ToolChoice" => Type(typed::<ToolChoice>),
        "ToolUseContent" => Type(typed::<ToolUseContent>),
        "ToolResultContent" => Type(typed::<ToolResultContent>),
        "CreateMessageRequestParams" => Type(typed::<CreateMessageParams>),
        "CreateMessageResult" => Type(typed::<CreateMessageResult>),

        // Elicitation
        "StringSchema" => Type(typed::<StringSchema>),
        "NumberSchema" => Type(typed::<NumberSchema>),
        "BooleanSchema" => Type(typed::<BooleanSchema>),
        "UntitledSingleSelectEnumSchema" => Type(typed::<UntitledSingleSelectEnumSchema>),
        "TitledSingleSelectEnumSchema" => Type(typed::<TitledSingleSelectEnumSchema>),
        "UntitledMultiSelectEnumSchema" => Type(typed::<UntitledMultiSelectEnumSchema>),
        "TitledMultiSelectEnumSchema" => Type(typed::<TitledMultiSelectEnumSchema>),
        "LegacyTitledEnumSchema" => Type(typed::<LegacyTitledEnumSchema>),
        "EnumSchema" | "SingleSelectEnumSchema" | "MultiSelectEnumSchema" | "PrimitiveSchemaDefinition" => {
            Type(typed::<PrimitiveSchema>)
        }
        "ElicitRequestParams" => Type(typed::<ElicitParams>),
        "ElicitRequestFormParams" => Type(typed::<ElicitFormParams>),
        "ElicitRequestURLParams" => Type(typed::<ElicitUrlParams>),
        "ElicitResult" => Type(typed::<ElicitResult>),

        // Input that a request needs
        "InputRequest" => Type(typed::<InputRequest>),
        "InputRequests" => Type(typed::<InputRequests>),
        "InputRequiredResult" => Type(typed::<InputRequired>),
        "InputResponse" => Type(input_response),
        "InputResponses" => Type(typed::<InputResponses>),

        // Tasks
        "Task" => Type(typed::<Task>),
        "TaskMetadata" => Type(typed::<TaskMetadata>),
        "TaskStatus" => Type(typed::<TaskStatus>),
        "RelatedTaskMetadata" => Type(typed::<RelatedTask>),
        "CreateTaskResult" => Type(typed::<CreateTaskResult>),
        "GetTaskResult" => Type(typed::<GetTaskResult>),
        "CancelTaskResult" => Type(typed::<CancelTaskResult>),
        "ListTasksResult" => Type(typed::<ListTasksResult>),
        "TaskStatusNotificationParams" => Type(typed::<TaskStatusParams>),
        _ => return None,
    })
}

/// The type of a method's params.
fn params(method: &Method) -> Option<RoundTrip> {
    Some(match method {
        Method::Initialize => typed::<InitializeParams>,
        Method::Ping | Method::Discover => typed::<RequestParams>,
        Method::Initialized
        | Method::ToolListChanged
        | Method::ResourceListChanged
        | Method::PromptListChanged
        | Method::RootsListChanged => typed::<NotificationParams>,
        Method::Listen => typed::<ListenParams>,
        Method::SubscriptionsAcknowledged => typed::<AcknowledgedParams>,
        Method::Cancelled => typed::<CancelledParams>,
        Method::Progress => typed::<ProgressParams>,
        Method::ListTools
        | Method::ListResources
        | Method::ListResourceTemplates
        | Method::ListPrompts
        | Method::ListTasks => typed::<PageParams>,
        Method::CallTool => typed::<CallToolParams>,
        Method::ReadResource => typed::<ReadResourceParams>,
        Method::Subscribe => typed::<SubscribeParams>,
        Method::Unsubscribe => typed::<UnsubscribeParams>,
        Method::ResourceUpdated => typed::<ResourceUpdatedParams>,
        Method::GetPrompt => typed::<GetPromptParams>,
        Method::Complete => typed::<CompleteParams>,
        Method::SetLevel => typed::<SetLevelParams>,
        Method::LogMessage => typed::<LogMessageParams>,
        Method::CreateMessage => typed::<CreateMessageParams>,
        Method::Elicit => typed::<ElicitParams>,
        Method::ElicitationComplete => typed::<ElicitationCompleteParams>,
        Method::ListRoots => typed::<ListRootsParams>,
        Method::GetTask => typed::<GetTaskParams>,
        Method::GetTaskResult => typed::<GetTaskPayloadParams>,
        Method::CancelTask => typed::<CancelTaskParams>,
        Method::TaskStatus => typed::<TaskStatusParams>,
        _ => return None,
    })
}

const MESSAGE: Payloads = Payloads { params, result: None, error: None };

const fn response(result: RoundTrip) -> Row {
    Row::Message(Payloads { result: Some(result), ..MESSAGE })
}

const fn error(data: RoundTrip) -> Row {
    Row::Message(Payloads { error: Some(data), ..MESSAGE })
}

/// Decodes a text as a `T` and encodes it, twice: the second time must not change it.
pub(crate) fn typed<T: Serialize + DeserializeOwned>(text: &Raw) -> Result<Raw, String> {
    let value: T = text.decode().map_err(|error| error.to_string())?;
    let once = Raw::from_value(&value).map_err(|error| error.to_string())?;
    let value: T = once.decode().map_err(|error| format!("read again: {error}"))?;
    let twice = Raw::from_value(&value).map_err(|error| error.to_string())?;
    if once != twice {
        return Err(format!("{once} is {twice} the second time"));
    }
    Ok(once)
}

/// A result, or a request for input in its place.
fn result<T: Serialize + DeserializeOwned>(text: &Raw) -> Result<Raw, String> {
    let object: Members<Raw> = text.decode().map_err(|error| error.to_string())?;
    match object.get("resultType").map(Raw::as_str) {
        Some(r#""input_required""#) => typed::<InputRequired>(text),
        _ => typed::<T>(text),
    }
}

/// An input response, decoded by its members; a receiver knows the type from its own request.
fn input_response(text: &Raw) -> Result<Raw, String> {
    let answer: InputResponse = text.decode().map_err(|error| error.to_string())?;
    let members: Members<Raw> = text.decode().map_err(|error| error.to_string())?;
    let written = if members.contains_key("action") {
        answer.to_elicit().map(|result| InputResponse::from_elicit(&result))
    } else if members.contains_key("roots") {
        answer.to_list_roots().map(|result| InputResponse::from_list_roots(&result))
    } else {
        answer.to_create_message().map(|result| InputResponse::from_create_message(&result))
    };
    let answer = written.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    typed::<InputResponse>(answer.raw())
}

/// `_meta`, with its typed keys decoded as their types.
fn meta(text: &Raw) -> Result<Raw, String> {
    use mcpjoin_proto::types::meta::key;

    fn put<T: Serialize>(meta: &mut Meta, key: &str, value: Option<T>) -> Result<(), String> {
        if meta.member(key).is_some() {
            let value = value.ok_or_else(|| format!("{key} does not read"))?;
            meta.insert(key, Raw::from_value(&value).map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    let mut meta: Meta = text.decode().map_err(|error| error.to_string())?;
    let read = meta.clone();
    put(&mut meta, key::PROTOCOL_VERSION, read.protocol_version().map(|version| version.to_string()))?;
    put(&mut meta, key::CLIENT_CAPABILITIES, read.client_capabilities())?;
    put(&mut meta, key::CLIENT_INFO, read.client_info())?;
    put(&mut meta, key::SERVER_INFO, read.server_info())?;
    put(&mut meta, key::LOG_LEVEL, read.log_level())?;
    put(&mut meta, key::SUBSCRIPTION_ID, read.subscription_id())?;
    put(&mut meta, key::PROGRESS_TOKEN, read.progress_token())?;
    typed::<Meta>(&Raw::from_value(&meta).map_err(|error| error.to_string())?)
}
