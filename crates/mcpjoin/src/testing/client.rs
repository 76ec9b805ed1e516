//! A client for the test of a server: connected in memory, and with scripted answers to the questions of the server.

use std::collections::VecDeque;
use std::fmt;
use std::future::ready;
use std::ops::Deref;
use std::sync::Arc;

use crate::sync::Mutex;
use mcpjoin_proto::text::Line;
use mcpjoin_proto::types::{CreateMessageResult, ElicitResult, InputRequest, Root};
use mcpjoin_proto::{ErrorObject, Raw, Version};
use serde::Serialize;

use crate::client::{Client, ClientBuilder};
use crate::server::{Handlers, Server};
use crate::transport::Link;

/// How much of an unexpected question a message shows.
const MAX_QUESTION_CHARS: usize = 500;

/// A connected client with scripted answers. It has all methods of [`Client`], to which it dereferences.
///
/// Dropping it fails the test if the server has asked something that the script does not answer, or if an answer of the script
/// was not asked for; unless the test has failed already.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcpjoin::server::BuildError> {
/// use mcpjoin::proto::types::{ElicitFormParams, ElicitationSchema, Members, StringSchema};
/// use mcpjoin::proto::{Raw, Version};
/// use mcpjoin::server::{Context, HandlerError, NoArguments, Server, tool};
/// use mcpjoin::testing::{ExpectTool as _, TestClient};
///
/// async fn greet(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
///     let fields = Members::new().with("name", StringSchema::default().into());
///     let answer = cx.elicit(ElicitFormParams::new("Who are you?", ElicitationSchema::new(fields))).await?;
///     let name = answer.content.and_then(|content| content.get("name")?.decode::<String>().ok());
///     Ok(format!("Hello, {}!", name.as_deref().unwrap_or("stranger")))
/// }
///
/// let server = Server::builder("greeter", "1.0.0").tool(tool("greet"), greet).build()?;
/// for version in [Version::V2025_06_18, Version::V2026_07_28] {
///     let name = Members::new().with("name", "Ada");
///     let client = TestClient::script().version(version).accepts(name).declines().connect(&server).await;
///     client.call_tool("greet", ()).await.expect_text("Hello, Ada!");
///     client.call_tool("greet", ()).await.expect_text("Hello, stranger!");
///     assert_eq!(client.questions().len(), 2);
/// }
/// # Ok(())
/// # }
/// ```
pub struct TestClient {
    client: Client,
    script: Arc<Mutex<Script>>,
}

/// The version and the answers of a [`TestClient`], before it is connected. Created by [`TestClient::script`].
///
/// Answers are used in the order in which they are added. The client declares elicitation if there is an answer of a user,
/// and sampling if there is one of a model; a server must not ask for more.
#[must_use = "a script does nothing before it is connected"]
pub struct ClientScript {
    builder: ClientBuilder,
    answers: VecDeque<Answer>,
}

enum Answer {
    OfUser(Box<ElicitResult>),
    OfModel(Box<CreateMessageResult>),
}

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    questions: Vec<InputRequest>,
    /// The first question without an answer.
    problem: Option<String>,
}

impl ClientScript {
    /// Sets the protocol version. Default: the newest that the server has.
    pub fn version(mut self, version: Version) -> Self {
        self.builder = self.builder.protocol_version(version);
        self
    }

    /// Changes anything else of the client: limits, tasks, observers.
    pub fn configure(mut self, change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Sets the directories that the client tells the server. Declares `roots`.
    pub fn roots(self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.configure(|builder| builder.roots(roots))
    }

    /// Adds the answer of a user who accepts, with the values of the form: an object, or `()` where nothing is filled in, as for
    /// `Context::confirm`.
    ///
    /// # Panics
    /// If the values are no object.
    #[track_caller]
    pub fn accepts(self, values: impl Serialize) -> Self {
        match ElicitResult::accept(values) {
            Ok(answer) => self.elicits(answer),
            Err(problem) => panic!("the values of a form are an object: {}", problem.message),
        }
    }

    /// Adds the answer of a user who declines.
    pub fn declines(self) -> Self {
        self.elicits(ElicitResult::decline())
    }

    /// Adds any answer to a question for the user, such as `ElicitResult::cancel()`.
    pub fn elicits(mut self, answer: ElicitResult) -> Self {
        self.answers.push_back(Answer::OfUser(answer.into()));
        self
    }

    /// Adds the text that a model answers.
    pub fn generates(self, text: impl Into<String>) -> Self {
        self.samples(CreateMessageResult::text(text, "scripted"))
    }

    /// Adds any answer of a model.
    pub fn samples(mut self, answer: CreateMessageResult) -> Self {
        self.answers.push_back(Answer::OfModel(answer.into()));
        self
    }

    /// Connects to a server in this process, in memory.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::server::{Context, HandlerError, NoArguments, tool};
    /// use mcpjoin::testing::{ExpectTool as _, TestClient};
    ///
    /// let server = mcpjoin::Server::builder("files", "1.0.0")
    ///     .tool(tool("clear"), |_: NoArguments, cx: Context| async move {
    ///         Ok::<_, HandlerError>(if cx.confirm("Clear everything?").await? { "cleared" } else { "kept" })
    ///     })
    ///     .build()?;
    /// let client = TestClient::script().declines().accepts(()).connect(&server).await;
    /// client.call_tool("clear", ()).await.expect_text("kept");
    /// client.call_tool("clear", ()).await.expect_text("cleared");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the two do not agree, and outside of a tokio runtime with time enabled.
    pub async fn connect(self, server: &Server) -> TestClient {
        let (near, far) = Link::memory();
        server.connect(far);
        self.connect_over(near).await
    }

    /// Connects to a server with nothing but these handlers: a type with the attribute macro
    /// [`handlers`](crate::server::handlers), or an [`Arc`] of one.
    ///
    /// # Panics
    /// If they are no valid server, and as [`connect`](Self::connect).
    pub async fn connect_handlers(self, handlers: impl Handlers) -> TestClient {
        match Server::builder("test-server", "1.0.0").handlers(handlers).build() {
            Ok(server) => self.connect(&server).await,
            Err(error) => panic!("the handlers are no valid server: {error}"),
        }
    }

    /// Connects over any link: to a child process, over HTTP.
    ///
    /// ```no_run
    /// use mcpjoin::testing::{TestClient, snapshot};
    /// use mcpjoin::transport::ChildCommand;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let link = ChildCommand::new("./target/debug/my-server").start().await?;
    /// let client = TestClient::script().connect_over(link).await;
    /// println!("{}", snapshot(&client).await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    pub async fn connect_over(self, link: Link) -> TestClient {
        let Self { mut builder, answers } = self;
        let asks_user = answers.iter().any(|answer| matches!(answer, Answer::OfUser(_)));
        let asks_model = answers.iter().any(|answer| matches!(answer, Answer::OfModel(_)));
        let script = Arc::new(Mutex::new(Script { answers, ..Script::default() }));
        if asks_user {
            let script = script.clone();
            builder = builder.elicitation(move |params| {
                let answer = script.lock().answer(InputRequest::Elicit(params), |answer| match answer {
                    Answer::OfUser(answer) => Ok(*answer),
                    other => Err(other),
                });
                ready(answer)
            });
        }
        if asks_model {
            let script = script.clone();
            builder = builder.sampling(move |params| {
                let answer = script.lock().answer(params.into(), |answer| match answer {
                    Answer::OfModel(answer) => Ok(*answer),
                    other => Err(other),
                });
                ready(answer)
            });
        }
        match builder.connect(link).await {
            Ok(client) => TestClient { client, script },
            Err(error) => panic!("the client could not be connected: {error}"),
        }
    }
}

impl Script {
    /// The next answer, if it is one to this kind of question.
    fn answer<T>(
        &mut self,
        question: InputRequest,
        of_kind: impl FnOnce(Answer) -> Result<T, Answer>,
    ) -> Result<T, ErrorObject> {
        let method = question.method().to_owned();
        let params = question.params().ok().flatten();
        self.questions.push(question);
        let next = match self.answers.pop_front().map(of_kind) {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(other)) => {
                self.answers.push_front(other);
                "has another kind of answer next"
            }
            None => "has no answer left",
        };
        let params = params.as_ref().map_or("", Raw::as_str);
        let asked = Line::of(params).truncated(MAX_QUESTION_CHARS);
        let problem = format!("the server asked {method} {asked}, and the script {next}");
        self.problem.get_or_insert_with(|| problem.clone());
        Err(ErrorObject::internal(problem))
    }

    /// Why the test has failed, if it has.
    fn failure(&self) -> Option<String> {
        let left = self.answers.len();
        let unused = || format!("{left} of the scripted answers were not asked for");
        self.problem.clone().or_else(|| (left > 0).then(unused))
    }
}

impl TestClient {
    /// Returns an empty script. Without answers, the client declares neither elicitation nor sampling.
    pub fn script() -> ClientScript {
        ClientScript { builder: Client::builder("test-client", "1.0.0"), answers: VecDeque::new() }
    }

    /// Connects to a server in this process, in memory, in its newest version and without scripted answers.
    ///
    /// # Panics
    /// As [`ClientScript::connect`].
    pub async fn connect(server: &Server) -> Self {
        Self::script().connect(server).await
    }

    /// Connects to a server with nothing but these handlers, without scripted answers.
    ///
    /// ```
    /// # #[cfg(feature = "macros")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use mcpjoin::server::{Json, handlers};
    /// use mcpjoin::testing::{ExpectTool as _, TestClient};
    /// use serde_json::json;
    ///
    /// struct Calculator;
    ///
    /// #[handlers]
    /// impl Calculator {
    ///     #[tool]
    ///     fn add(&self, a: i64, b: i64) -> Json<i64> {
    ///         Json(a + b)
    ///     }
    /// }
    ///
    /// let client = TestClient::connect_handlers(Calculator).await;
    /// client.call_tool("add", json!({ "a": 2, "b": 40 })).await.expect_value(42);
    /// # }
    /// # #[cfg(not(feature = "macros"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Panics
    /// As [`ClientScript::connect_handlers`].
    pub async fn connect_handlers(handlers: impl Handlers) -> Self {
        Self::script().connect_handlers(handlers).await
    }

    /// Returns what the server has asked the user and the model so far, in its order.
    #[must_use]
    pub fn questions(&self) -> Vec<InputRequest> {
        self.script.lock().questions.clone()
    }
}

impl Deref for TestClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        let failure = self.script.lock().failure();
        if let Some(failure) = failure.filter(|_| !std::thread::panicking()) {
            panic!("{failure}");
        }
    }
}

impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

impl fmt::Debug for ClientScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientScript").field("answers", &self.answers.len()).finish_non_exhaustive()
    }
}
