//! Tests of prompts and resource templates whose arguments and variables are Rust types.

use mcpjoin::proto::types::{Prompt, PromptArgument, Resource};
use mcpjoin::proto::{Era, Raw};
use mcpjoin::server::{BuildError, HandlerError, NoArguments, Server, prompt, resource_template};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{BOTH_ERAS, ask, in_era, run};

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// The code to review.
    code: String,
    /// The maximum number of remarks.
    limit: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct Commit {
    path: String,
    number: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Word(#[expect(dead_code, reason = "only its schema matters")] String);

fn server() -> Server {
    Server::builder("s", "1")
        .dynamic_prompts()
        .dynamic_resources()
        .prompt(
            prompt("review").title("Review").description("Reviews code"),
            |review: Review, _| async move { format!("{} {:?}", review.code, review.limit) },
        )
        .prompt(prompt("plain"), |_: NoArguments, _| async { "plain" })
        .resource_template(
            resource_template("git://{+path}@{number}", "commit").mime_type("text/x-diff").title("Commit"),
            |Commit { path, number }, _| async move { format!("{path} at {number}").into_bytes() },
        )
        .build()
        .unwrap()
}

#[test]
fn a_resource_that_is_none_is_not_found_as_the_era_says() {
    run(async {
        let server = Server::builder("s", "1")
            .resource(Resource::new("note://none", "none"), |_, _| async { None::<&str> })
            .resource(Resource::new("note://some", "some"), |_, _| async { Some("a note") })
            .resource(Resource::new("note://ok", "ok"), |_, _| async {
                Ok::<_, HandlerError>(None::<Vec<u8>>)
            })
            .build()
            .unwrap();
        for (era, code) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
            let client = in_era(&server, era).await;
            assert_eq!(client.read_resource("note://some").await.unwrap().to_text(), "a note");
            for uri in ["note://none", "note://ok"] {
                let error = client.read_resource(uri).await.unwrap_err();
                let error = error.remote().expect("an error of the server");
                assert_eq!(error.code, code, "{era:?} {uri}");
                assert_eq!(error.data.as_ref().map(Raw::as_str), Some(&*format!(r#"{{"uri":"{uri}"}}"#)));
            }
        }
    });
}

#[test]
fn a_prompt_has_the_arguments_of_its_type() {
    run(async {
        for era in BOTH_ERAS {
            let server = server();
            server.handle().add_prompt(prompt("added"), |review: Review, _| async { review.code }).unwrap();
            let client = in_era(&server, era).await;
            let prompts = client.list_prompts().all().await.unwrap();
            let arguments = vec![
                PromptArgument::new("code").with_required(true).with_description("The code to review."),
                PromptArgument::new("limit")
                    .with_required(false)
                    .with_description("The maximum number of remarks."),
            ];
            let expected = [
                Prompt::new("review")
                    .with_title("Review")
                    .with_description("Reviews code")
                    .with_arguments(arguments.clone()),
                Prompt::new("plain"),
                Prompt::new("added").with_arguments(arguments),
            ];
            assert_eq!(prompts, expected);
            let get =
                |arguments| ask(&client, "prompts/get", json!({ "name": "review", "arguments": arguments }));
            let got = get(json!({ "code": "x", "limit": "3" })).await.unwrap();
            assert_eq!(got["messages"][0]["content"]["text"], "x Some(3)");
            let got = get(json!({ "code": "x" })).await.unwrap();
            assert_eq!(got["messages"][0]["content"]["text"], "x None");
            for (arguments, said) in [
                (json!({}), "the argument `code` is missing"),
                (
                    json!({ "code": "x", "limit": "many" }),
                    "`limit`: invalid type: string \"many\", expected u32",
                ),
            ] {
                let error = get(arguments).await.unwrap_err();
                assert_eq!((error.code, &*error.message), (-32602, said));
            }
            ask(&client, "prompts/get", json!({ "name": "plain" })).await.unwrap();
        }
    });
}

#[test]
fn a_template_has_the_variables_of_its_type() {
    run(async {
        for era in BOTH_ERAS {
            let client = in_era(&server(), era).await;
            let read = ask(&client, "resources/read", json!({ "uri": "git://a/b%20c@7" })).await.unwrap();
            let blob = "YS9iIGMgYXQgNw==";
            let contents = json!([{ "uri": "git://a/b%20c@7", "mimeType": "text/x-diff", "blob": blob }]);
            assert_eq!(read["contents"], contents, "bytes are sent in base64");
            let error = ask(&client, "resources/read", json!({ "uri": "git://a@b" })).await.unwrap_err();
            let said = "`number`: invalid type: string \"b\", expected u32";
            assert_eq!((error.code, &*error.message), (-32602, said));
        }
    });
}

#[test]
fn what_does_not_fit_its_type_is_an_error_of_the_description() {
    let builder = || Server::builder("s", "1");
    let template = |text: &str| {
        builder()
            .resource_template(resource_template(text, "commit"), |_: Commit, _| async { "" })
            .build()
            .err()
    };
    let unknown = BuildError::UnknownVariable { template: "git://{path}".into(), variable: "number".into() };
    assert_eq!(template("git://{path}"), Some(unknown));
    assert_eq!(template("git://{path}@{number}/{more}"), None);
    let no_struct = builder().prompt(prompt("word"), |_: Word, _| async { "" }).build().err();
    assert_eq!(no_struct, Some(BuildError::PromptArgumentsAreNoStruct { prompt: "word".into() }));
    let no_struct = builder()
        .resource_template(resource_template("x://{a}", "word"), |_: Word, _| async { "" })
        .build()
        .err();
    assert_eq!(no_struct, Some(BuildError::VariablesAreNoStruct { template: "x://{a}".into() }));
}
