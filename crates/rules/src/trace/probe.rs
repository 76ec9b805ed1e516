//! The purpose of each message that we send, and what is known of it before a response comes.
//!
//! The program that records a trace names it; a rule finds the messages that it checks by it.

named! {
    /// Why something was sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Probe {
        /// Opens a session of the legacy era.
        Initialize = "initialize",
        /// Opens one with a version that does not exist.
        UnknownVersion = "unknown-version",
        /// Tells the server that the session is open.
        Initialized = "initialized",
        /// Asks a modern server what it is.
        Discover = "discover",
        /// Asks whether the server is there, after `initialized`.
        Ping = "ping",
        /// Asks so before `initialized`.
        EarlyPing = "early-ping",
        /// A request with an id that is easily changed on the way.
        Id = "id",
        /// A request with a method that no revision knows.
        UnknownMethod = "unknown-method",
        /// A notification with a method that no revision knows.
        UnknownNotification = "unknown-notification",
        /// The cancellation of a request that was never sent.
        UnknownCancel = "unknown-cancel",
        /// A request after that, which shows that the server goes on.
        AfterCancel = "after-cancel",
        /// A page of a list whose capability is declared.
        List = "list",
        /// The page of a list that follows another.
        NextPage = "next-page",
        /// A page of a list, by a cursor that no server has given.
        BadCursor = "bad-cursor",
        /// A page of the templates of resources, where resources are declared.
        Templates = "templates",
        /// Asks for the completion of an argument of a prompt or a template that was listed.
        Complete = "complete",
        /// Asks for a completion without saying of what.
        NoArgument = "no-argument",
        /// Asks for the completion of an argument of a prompt that does not exist.
        UnknownCompletion = "unknown-completion",
        /// Asks for a completion where none is declared.
        UndeclaredCompletion = "undeclared-completion",
        /// Asks for log messages of a level.
        SetLevel = "set-level",
        /// Asks for log messages of a level that does not exist.
        BadLevel = "bad-level",
        /// Asks for a prompt that does not exist.
        NoPrompt = "no-prompt",
        /// Asks for a resource that does not exist.
        NoResource = "no-resource",
        /// Asks for a resource by something that is no address.
        BadUri = "bad-uri",
        /// Asks for a task that does not exist.
        NoTask = "no-task",
        /// Asks for a page of tasks by a cursor that no server has given.
        BadTaskCursor = "bad-task-cursor",
        /// Asks for a prompt without an argument that it must have, where that was allowed.
        MissingArgument = "missing-argument",
        /// Calls a tool without what it must have, where calls were allowed.
        BadArguments = "bad-arguments",
        /// The cancellation of a request that was answered.
        CompletedCancel = "completed-cancel",
        /// A request after that.
        AfterCompletedCancel = "after-completed-cancel",
        /// A cancellation that does not say of what.
        MalformedCancel = "malformed-cancel",
        /// A request after that.
        AfterMalformedCancel = "after-malformed-cancel",
        /// Calls a tool, where that was allowed.
        Call = "call",
        /// Calls a tool that must be called as a task, as a plain one, where calls were allowed.
        TaskRequired = "task-required",
        /// Calls a tool as a task that it is not, where calls were allowed.
        TaskForbidden = "task-forbidden",
        /// Calls a tool as a task, where calls were allowed.
        TaskCall = "task-call",
        /// Asks for the result of that task.
        TaskResult = "task-result",
        /// Asks how it is.
        TaskStatus = "task-status",
        /// Cancels it when it has ended.
        CancelEndedTask = "cancel-ended-task",
        /// Lists the tasks, page by page, while that one is there.
        TaskList = "task-list",
        /// Calls the tool as a task once more, to cancel that.
        TaskAgain = "task-again",
        /// Cancels the second task.
        CancelTask = "cancel-task",
        /// Asks how the second task is when it was cancelled.
        CancelledTask = "cancelled-task",
        /// Calls a tool as a task where no tasks are declared, where calls were allowed; or asks a client for its roots as one.
        UndeclaredTask = "undeclared-task",
        /// Calls a tool that needs what we have not declared, with that declared, where calls were allowed.
        MayAsk = "may-ask",
        /// Calls it again without what it has asked for.
        NoInput = "no-input",
        /// Calls it again with something that is no answer at all.
        BadInput = "bad-input",
        /// Calls it again with everything declined.
        Declined = "declined",
        /// A request after that, which shows that the server goes on.
        AfterDecline = "after-decline",
        /// Calls it again with everything declined, and with an answer to what it has not asked.
        UnknownInput = "unknown-input",
        /// Calls a tool that does not exist, where calls were allowed.
        UnknownTool = "unknown-tool",
        /// Calls a tool once more, to cancel it.
        CancelledCall = "cancelled-call",
        /// Cancels that call.
        Cancel = "cancel",
        /// Reads a resource, where that was allowed.
        Read = "read",
        /// Gets a prompt, where that was allowed.
        GetPrompt = "get-prompt",
        /// A page of a list whose capability is not declared.
        UndeclaredList = "undeclared-list",
        /// A method that the modern era has no longer.
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
        /// Our answer to a request of the server.
        Answer = "answer",
        /// A response to nothing that was asked: HTTP.
        StrayAnswer = "stray-answer",
        /// Asks as a page of another origin would: HTTP.
        ForeignOrigin = "foreign-origin",
        /// Asks for another host: HTTP.
        ForeignHost = "foreign-host",
        /// Opens the stream of the session, or the stream of HTTP+SSE.
        OpenStream = "open-stream",
        /// Resumes a stream after the event that `Last-Event-ID` names.
        Resume = "resume",
        /// Ends the session.
        EndSession = "end-session",
        /// Asks in the session that was ended.
        EndedSession = "ended-session",
        /// Asks in a session that never was.
        UnknownSession = "unknown-session",
        /// Asks without the session's id.
        NoSession = "no-session",
        /// Asks with a version in the header that does not exist.
        BadVersionHeader = "bad-version-header",
        /// Asks without the version in the header.
        NoVersionHeader = "no-version-header",
        /// Asks with another version in the header than in the body.
        OtherVersionHeader = "other-version-header",
        /// Asks without the method in the header.
        NoMethodHeader = "no-method-header",
        /// Asks with another method in the header than in the body.
        OtherMethodHeader = "other-method-header",
        /// Asks with the method in the header in capitals.
        CapitalMethodHeader = "capital-method-header",
        /// Asks with the names of the headers in other letters.
        HeaderLetters = "header-letters",
        /// Asks with white space around the values of the headers.
        HeaderSpace = "header-space",
        /// Asks for a prompt that does not exist, without its name in the header.
        NoNameHeader = "no-name-header",
        /// Asks for it with another name in the header.
        OtherNameHeader = "other-name-header",
        /// Asks for it with its name in Base64.
        EncodedNameHeader = "encoded-name-header",
        /// Asks for it with something in its place that is no Base64.
        BadNameHeader = "bad-name-header",
        /// Calls a tool without the header that repeats an argument, where calls were allowed: HTTP.
        NoParamHeader = "no-param-header",
        /// Calls it with another value there.
        OtherParamHeader = "other-param-header",
        /// Calls it with something there that is no Base64.
        BadParamHeader = "bad-param-header",
        /// Calls it with the value there in Base64.
        EncodedParamHeader = "encoded-param-header",
        /// Calls it with an integer there that is written as 1.0.
        NumberParamHeader = "number-param-header",
        /// Calls it without the argument, or with null in its place, and without the header.
        NoParamExpected = "no-param-expected",
        /// Asks with headers of earlier revisions: a session's id, a last event.
        EarlierHeaders = "earlier-headers",
        /// GET of earlier revisions.
        EarlierGet = "earlier-get",
        /// DELETE of earlier revisions.
        EarlierDelete = "earlier-delete",
        /// Asks for the changes of lists.
        Listen = "listen",
        /// Asks for them no longer.
        StopListening = "stop-listening",
        /// Lists the tools once more.
        ListAgain = "list-again",
        /// Lists them on another connection: HTTP.
        ListElsewhere = "list-elsewhere",
        /// The same page once more.
        SamePage = "same-page",
        /// Asks with the id that another client uses at the same time: HTTP.
        SameId = "same-id",
        /// Sends what would be answered on a stream that is closed.
        AfterStream = "after-stream",
        /// One of many requests at once.
        Many = "many",
        /// A request of 1 MiB.
        Large = "large",
        /// A request after that, which shows that the server goes on.
        AfterLarge = "after-large",
        /// One of many requests whose answers are not read for a while.
        Unread = "unread",
        /// A request right before the end of the input.
        LastWords = "last-words",
        /// A request that comes in pieces: HTTP.
        Pieces = "pieces",
        /// A request whose connection we close before its answer has come: HTTP.
        HungUp = "hung-up",
        /// A request after that.
        AfterHangUp = "after-hang-up",
        /// Half of a request, and the end of its connection: HTTP.
        HalfRequest = "half-request",
        /// A request after that.
        AfterHalf = "after-half",
        /// Opens one of many sessions: HTTP.
        OneOfMany = "one-of-many",
        /// Asks in one of many sessions.
        InOneOfMany = "in-one-of-many",
        /// Asks in a session when many others have been ended.
        AfterMany = "after-many",
        /// A request whose stream we cut behind an event that has an id: HTTP.
        CutStream = "cut-stream",
        /// Asks for the rest of that stream.
        ResumeCut = "resume-cut",
        /// Asks without a token: HTTP.
        NoToken = "no-token",
        /// Asks so once more.
        NoTokenAgain = "no-token-again",
        /// Asks with a token that nobody has given.
        BadToken = "bad-token",
        /// Asks with an `Authorization` that is malformed.
        BadAuthorization = "bad-authorization",
        /// Asks with a token that nobody has given in the query of the address.
        TokenInQuery = "token-in-query",
        /// Opens a stream without a token.
        NoTokenGet = "no-token-get",
        /// Ends a session without a token.
        NoTokenDelete = "no-token-delete",
        /// Fetches the metadata of the protected resource from where the challenge says.
        NamedMetadata = "named-metadata",
        /// Fetches them from a well-known address.
        WellKnownMetadata = "well-known-metadata",
        /// Fetches the metadata of an authorization server from a well-known address of its issuer.
        ServerMetadata = "server-metadata",
        /// Fetches the metadata of the authorization server from the root of the server: 2025-03-26.
        BaseMetadata = "base-metadata",
        /// Asks for the authorization endpoint where there are no metadata: 2025-03-26.
        DefaultEndpoint = "default-endpoint",
        /// Tells a client that somebody has done what no question has asked for.
        UnknownElicitation = "unknown-elicitation",
        /// Pings a client after that.
        AfterElicitation = "after-elicitation",
        /// Asks a client's model with tools that the client has not declared.
        UndeclaredSamplingTools = "undeclared-sampling-tools",
        /// Asks it with the use of a tool that has no result.
        MissingToolResult = "missing-tool-result",
        /// Asks it with the result of a tool among other content.
        MixedToolResult = "mixed-tool-result",
    }
}

impl Probe {
    /// Whether it is about HTTP and not about what is asked: what is made of it is checked there.
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

    /// Whether it makes a server do something that takes its time.
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

    /// Whether a server may refuse it before it has read what is asked: its error has no id then.
    pub(crate) const fn may_stay_unread(self) -> bool {
        self.may_be_taken_for_legacy() || matches!(self, Self::ForeignOrigin | Self::ForeignHost)
    }

    /// Whether it is a request of the modern era that a server of both eras may take for one of the other.
    pub(crate) const fn may_be_taken_for_legacy(self) -> bool {
        matches!(
            self,
            Self::NoVersionHeader | Self::OtherVersionHeader | Self::EarlierGet | Self::EarlierDelete
        )
    }
}
