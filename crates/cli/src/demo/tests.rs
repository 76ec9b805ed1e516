//! The server as a client of each era sees it, over a link in memory.

use std::collections::BTreeMap;
use std::future::ready;

use mcpjoin::proto::session::{Ask, Limits};
use mcpjoin::proto::types::{
    CompleteArgument, CompleteParams, Content, CreateMessageResult, ElicitAction, ElicitResult, Members,
    PromptReference, ResourceContents, ResourceTemplateReference, Role, SamplingContent,
};
use mcpjoin::proto::{Era, Raw};
use mcpjoin::{Client, Link};

async fn client(era: Era) -> Client {
    let (ours, theirs) = Link::memory();
    super::server(Limits::default()).unwrap().connect(theirs);
    Client::builder("test", "1")
        .ask(Ask::Only(era))
        .sampling(|_| {
            ready(Ok(CreateMessageResult::new(Role::Assistant, SamplingContent::text("because"), "none")))
        })
        .elicitation(|_| {
            let mut content = Members::new();
            content.insert("username", Raw::string("ada"));
            ready(Ok(ElicitResult::new(ElicitAction::Accept).with_content(content)))
        })
        .connect(ours)
        .await
        .unwrap()
}

async fn text(client: &Client, tool: &str, arguments: &str) -> String {
    let arguments = Raw::parse(arguments.to_owned()).unwrap();
    let result = client.call_tool(tool, Some(arguments)).await.unwrap();
    result.content.first().and_then(Content::as_text).unwrap().to_owned()
}

async fn read(client: &Client, uri: &str) -> String {
    match client.read_resource(uri).await.unwrap().contents.remove(0) {
        ResourceContents::Text(text) => text.text,
        ResourceContents::Blob(blob) => blob.blob,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn questions_are_asked_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let client = client(era).await;
        assert_eq!(text(&client, "test_sampling", r#"{"prompt":"why"}"#).await, "LLM response: because");
        assert_eq!(
            text(&client, "test_elicitation", r#"{"message":"who"}"#).await,
            r#"User response: action: accept, content: {"username":"ada"}"#
        );
        client.close().await;
    }
}

#[tokio::test]
async fn resources_are_read_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let client = client(era).await;
        assert_eq!(
            read(&client, "test://static-text").await,
            "This is the content of the static text resource."
        );
        assert_eq!(read(&client, "test://static-binary").await, super::PICTURE);
        let data: serde_json::Value =
            serde_json::from_str(&read(&client, "test://template/1%222/data").await).unwrap();
        assert_eq!(data["id"], "1\"2");
        assert!(client.read_resource("test://nothing").await.is_err());
        client.close().await;
    }
}

#[tokio::test]
async fn prompts_are_filled_in_and_completed_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let client = client(era).await;
        let arguments =
            BTreeMap::from([("arg1", "a"), ("arg2", "b")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        let prompt = client.get_prompt(super::offers::PROMPT, Some(arguments)).await.unwrap();
        assert_eq!(prompt.messages[0].content.as_text(), Some("Prompt with arguments: arg1='a', arg2='b'"));
        assert!(client.get_prompt(super::offers::PROMPT, None).await.is_err(), "arguments are missing");

        let asked = CompleteParams::new(
            PromptReference::new(super::offers::PROMPT),
            CompleteArgument::new("arg1", "he"),
        );
        assert_eq!(client.complete(asked).await.unwrap().completion.values, ["hello", "help"]);
        let asked = CompleteParams::new(
            ResourceTemplateReference::new(super::offers::TEMPLATE),
            CompleteArgument::new("id", "10"),
        );
        assert_eq!(client.complete(asked).await.unwrap().completion.values, ["10", "100"]);
        client.close().await;
    }
}
