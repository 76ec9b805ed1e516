//! The purpose of each message that we send.
//!
//! The program that records a trace sets it; a rule finds by it the messages that it checks.

named! {
    /// Why something was sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Probe {
        /// Opens a session of the legacy era.
        Initialize = "initialize",
        /// Opens a session with a version that does not exist.
        UnknownVersion = "unknown-version",
        /// The notification that the session is open.
        Initialized = "initialized",
        /// Requests the versions and the capabilities of a modern server.
        Discover = "discover",
        /// A ping after `initialized`.
        Ping = "ping",
        /// A ping before `initialized`.
        EarlyPing = "early-ping",
        /// A request with an id that is easily changed by a server.
        Id = "id",
        /// A request with a method that no revision has.
        UnknownMethod = "unknown-method",
        /// A notification with a method that no revision has.
        UnknownNotification = "unknown-notification",
        /// The cancellation of a request that was never sent.
        UnknownCancel = "unknown-cancel",
        /// A request after that, which shows whether the server goes on.
        AfterCancel = "after-cancel",
        /// A page of a list whose capability is declared.
        List = "list",
        /// The page of a list that follows another.
        NextPage = "next-page",
        /// A page of a list, by a cursor that the server never sent.
        BadCursor = "bad-cursor",
        /// A page of the resource templates, where resources are declared.
        Templates = "templates",
        /// Completes an argument of a listed prompt or template.
        Complete = "complete",
        /// A completion without an argument.
        NoArgument = "no-argument",
        /// Completes an argument of a prompt that does not exist.
        UnknownCompletion = "unknown-completion",
        /// A completion where the capability is not declared.
        UndeclaredCompletion = "undeclared-completion",
        /// Sets the level of log messages.
        SetLevel = "set-level",
        /// Sets a level of log messages that does not exist.
        BadLevel = "bad-level",
        /// Gets a prompt that does not exist.
        NoPrompt = "no-prompt",
        /// Reads a resource that does not exist.
        NoResource = "no-resource",
        /// Reads a resource whose URI is malformed.
        BadUri = "bad-uri",
        /// Gets a task that does not exist.
        NoTask = "no-task",
        /// A page of tasks, by a cursor that the server never sent.
        BadTaskCursor = "bad-task-cursor",
        /// Gets a prompt without a required argument, where that was allowed.
        MissingArgument = "missing-argument",
        /// Calls a tool without a required argument, where calls were allowed.
        BadArguments = "bad-arguments",
        /// The cancellation of a request that was answered.
        CompletedCancel = "completed-cancel",
        /// A request after that.
        AfterCompletedCancel = "after-completed-cancel",
        /// A cancellation without an id.
        MalformedCancel = "malformed-cancel",
        /// A request after that.
        AfterMalformedCancel = "after-malformed-cancel",
        /// Calls a tool, where that was allowed.
        Call = "call",
        /// Calls a tool without a task although the tool requires one, where calls were allowed.
        TaskRequired = "task-required",
        /// Calls a tool as a task although the tool forbids it, where calls were allowed.
        TaskForbidden = "task-forbidden",
        /// Calls a tool as a task, where calls were allowed.
        TaskCall = "task-call",
        /// Requests the result of that task.
        TaskResult = "task-result",
        /// Requests its status.
        TaskStatus = "task-status",
        /// Cancels it after its end.
        CancelEndedTask = "cancel-ended-task",
        /// Lists the tasks, page by page, while that one exists.
        TaskList = "task-list",
        /// Calls the tool as a second task, to cancel it.
        TaskAgain = "task-again",
        /// Cancels the second task.
        CancelTask = "cancel-task",
        /// Requests the status of the second task after its cancellation.
        CancelledTask = "cancelled-task",
        /// Calls a tool as a task where no tasks are declared and calls were allowed; or requests a client's roots as a task.
        UndeclaredTask = "undeclared-task",
        /// Calls a tool that needs an undeclared capability, with the capability declared, where calls were allowed.
        MayAsk = "may-ask",
        /// Repeats the call without the requested input.
        NoInput = "no-input",
        /// Repeats the call with malformed input.
        BadInput = "bad-input",
        /// Repeats the call with all input declined.
        Declined = "declined",
        /// A request after that, which shows whether the server goes on.
        AfterDecline = "after-decline",
        /// Repeats the call with all input declined, and with input that was not requested.
        UnknownInput = "unknown-input",
        /// Calls a tool that does not exist, where calls were allowed.
        UnknownTool = "unknown-tool",
        /// Calls a tool again, to cancel the call.
        CancelledCall = "cancelled-call",
        /// Cancels that call.
        Cancel = "cancel",
        /// Reads a resource, where that was allowed.
        Read = "read",
        /// Gets a prompt, where that was allowed.
        GetPrompt = "get-prompt",
        /// A page of a list whose capability is not declared.
        UndeclaredList = "undeclared-list",
        /// A method that the modern era no longer has.
        RemovedMethod = "removed-method",
        /// A modern request without the client's capabilities.
        NoCapabilities = "no-capabilities",
        /// A modern request without its version.
        NoVersion = "no-version",
        /// A request of the modern era without `_meta`.
        NoMeta = "no-meta",
        /// A modern request that does not name the client.
        NoClientInfo = "no-client-info",
        /// A modern request of a version that does not exist.
        UnsupportedVersion = "unsupported-version",
        /// Two lines in one write.
        TwoAtOnce = "two-at-once",
        /// One line in two writes.
        InPieces = "in-pieces",
        /// An array of requests: 2025-03-26.
        Batch = "batch",
        /// A line that is not JSON.
        BadJson = "bad-json",
        /// A line that is JSON and no request.
        InvalidRequest = "invalid-request",
        /// A request after such a line, which shows that the server goes on.
        AfterBadLine = "after-bad-line",
        /// Our response to a request of the server.
        Answer = "answer",
        /// A response to no request: HTTP.
        StrayAnswer = "stray-answer",
        /// A request with the `Origin` of another site: HTTP.
        ForeignOrigin = "foreign-origin",
        /// A request with another `Host`: HTTP.
        ForeignHost = "foreign-host",
        /// Opens the stream of the session, or the stream of HTTP+SSE.
        OpenStream = "open-stream",
        /// Resumes a stream after the event that `Last-Event-ID` names.
        Resume = "resume",
        /// Ends the session.
        EndSession = "end-session",
        /// A request in the ended session.
        EndedSession = "ended-session",
        /// A request in a session that never existed.
        UnknownSession = "unknown-session",
        /// A request without the session's id.
        NoSession = "no-session",
        /// A request with a version header that no revision has.
        BadVersionHeader = "bad-version-header",
        /// A request without the version header.
        NoVersionHeader = "no-version-header",
        /// A request with different versions in header and body.
        OtherVersionHeader = "other-version-header",
        /// A request without the method header.
        NoMethodHeader = "no-method-header",
        /// A request with different methods in header and body.
        OtherMethodHeader = "other-method-header",
        /// A request with the method in capitals in the header.
        CapitalMethodHeader = "capital-method-header",
        /// A request with header names in another case.
        HeaderLetters = "header-letters",
        /// A request with white space around the header values.
        HeaderSpace = "header-space",
        /// Gets a prompt that does not exist, without the name header.
        NoNameHeader = "no-name-header",
        /// Gets it with another name in the header.
        OtherNameHeader = "other-name-header",
        /// Gets it with its name in Base64 in the header.
        EncodedNameHeader = "encoded-name-header",
        /// Gets it with a name header that is marked as Base64 and is none.
        BadNameHeader = "bad-name-header",
        /// Calls a tool without the header that repeats an argument, where calls were allowed: HTTP.
        NoParamHeader = "no-param-header",
        /// Calls it with another value in the header.
        OtherParamHeader = "other-param-header",
        /// Calls it with a header that is marked as Base64 and is none.
        BadParamHeader = "bad-param-header",
        /// Calls it with the value in Base64 in the header.
        EncodedParamHeader = "encoded-param-header",
        /// Calls it with an integer that the header has as 1.0.
        NumberParamHeader = "number-param-header",
        /// Calls it without the header, and with null or no argument.
        NoParamExpected = "no-param-expected",
        /// A request with headers of earlier revisions: a session id, a last event id.
        EarlierHeaders = "earlier-headers",
        /// GET of earlier revisions.
        EarlierGet = "earlier-get",
        /// DELETE of earlier revisions.
        EarlierDelete = "earlier-delete",
        /// Subscribes to changes of lists.
        Listen = "listen",
        /// Cancels the subscription.
        StopListening = "stop-listening",
        /// Lists the tools again.
        ListAgain = "list-again",
        /// Lists them on another connection: HTTP.
        ListElsewhere = "list-elsewhere",
        /// The same page again.
        SamePage = "same-page",
        /// A request with an id that another client uses at the same time: HTTP.
        SameId = "same-id",
        /// A request whose response would come on a closed stream.
        AfterStream = "after-stream",
        /// One of many requests at once.
        Many = "many",
        /// A request of 1 MiB.
        Large = "large",
        /// A request after that, which shows whether the server goes on.
        AfterLarge = "after-large",
        /// One of many requests whose responses we do not read for a while.
        Unread = "unread",
        /// A request right before the end of the input.
        LastWords = "last-words",
        /// A request that is sent in pieces: HTTP.
        Pieces = "pieces",
        /// A request whose connection we close before the response: HTTP.
        HungUp = "hung-up",
        /// A request after that.
        AfterHangUp = "after-hang-up",
        /// Half of a request, and the end of its connection: HTTP.
        HalfRequest = "half-request",
        /// A request after that.
        AfterHalf = "after-half",
        /// Opens one of many sessions: HTTP.
        OneOfMany = "one-of-many",
        /// A request in one of many sessions.
        InOneOfMany = "in-one-of-many",
        /// A request in a session after many others have ended.
        AfterMany = "after-many",
        /// A request whose stream we close after an event with an id: HTTP.
        CutStream = "cut-stream",
        /// Resumes that stream.
        ResumeCut = "resume-cut",
        /// A request without a token: HTTP.
        NoToken = "no-token",
        /// The same request again.
        NoTokenAgain = "no-token-again",
        /// A request with an invalid token.
        BadToken = "bad-token",
        /// A request with a malformed `Authorization` header.
        BadAuthorization = "bad-authorization",
        /// A request with an invalid token in the query of its URL.
        TokenInQuery = "token-in-query",
        /// Opens a stream without a token.
        NoTokenGet = "no-token-get",
        /// Ends a session without a token.
        NoTokenDelete = "no-token-delete",
        /// Fetches the metadata of the protected resource from the address in the challenge.
        NamedMetadata = "named-metadata",
        /// Fetches the same metadata from a well-known address.
        WellKnownMetadata = "well-known-metadata",
        /// Fetches the metadata of an authorization server from a well-known address of its issuer.
        ServerMetadata = "server-metadata",
        /// Fetches the metadata of the authorization server from the root of the server: 2025-03-26.
        BaseMetadata = "base-metadata",
        /// Requests the authorization endpoint where there are no metadata: 2025-03-26.
        DefaultEndpoint = "default-endpoint",
        /// Tells a client that an unknown elicitation is complete.
        UnknownElicitation = "unknown-elicitation",
        /// Pings a client after that.
        AfterElicitation = "after-elicitation",
        /// Requests sampling with tools that the client has not declared.
        UndeclaredSamplingTools = "undeclared-sampling-tools",
        /// Requests sampling with the use of a tool without its result.
        MissingToolResult = "missing-tool-result",
        /// Requests sampling with the result of a tool among other content.
        MixedToolResult = "mixed-tool-result",
    }
}

impl Probe {
    /// Whether the rules of HTTP alone check the response.
    pub(crate) const fn is_about_http(self) -> bool {
        matches!(
            self,
            Self::ForeignOrigin
                | Self::ForeignHost
                | Self::EndedSession
                | Self::UnknownSession
                | Self::NoSession
                | Self::BadVersionHeader
                | Self::NoVersionHeader
                | Self::OtherVersionHeader
                | Self::NoMethodHeader
                | Self::OtherMethodHeader
                | Self::CapitalMethodHeader
                | Self::HeaderLetters
                | Self::HeaderSpace
                | Self::NoNameHeader
                | Self::OtherNameHeader
                | Self::EncodedNameHeader
                | Self::BadNameHeader
                | Self::NoParamHeader
                | Self::OtherParamHeader
                | Self::BadParamHeader
                | Self::EncodedParamHeader
                | Self::NumberParamHeader
                | Self::NoParamExpected
                | Self::EarlierHeaders
                | Self::Listen
                | Self::SameId
                | Self::AfterStream
        )
    }

    /// Whether the server may need a long time for it.
    pub(crate) const fn may_take_long(self) -> bool {
        matches!(
            self,
            Self::Call
                | Self::CancelledCall
                | Self::TaskCall
                | Self::TaskAgain
                | Self::UndeclaredTask
                | Self::MayAsk
                | Self::NoInput
                | Self::BadInput
                | Self::Declined
                | Self::UnknownInput
                | Self::TaskForbidden
                | Self::TaskRequired
                | Self::TaskResult
                | Self::BadArguments
                | Self::Read
                | Self::GetPrompt
        )
    }

    /// Whether a server may refuse it before reading the message: then the error has no id.
    pub(crate) const fn may_stay_unread(self) -> bool {
        self.may_be_taken_for_legacy() || matches!(self, Self::ForeignOrigin | Self::ForeignHost)
    }

    /// Whether a server of both eras may take it for a request of the legacy era.
    pub(crate) const fn may_be_taken_for_legacy(self) -> bool {
        matches!(
            self,
            Self::NoVersionHeader | Self::OtherVersionHeader | Self::EarlierGet | Self::EarlierDelete
        )
    }
}
