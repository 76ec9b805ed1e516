//! Tests that the typed result of a tool arrives as that type, in every revision.

use mcpjoin::Server;
use mcpjoin::proto::types::{CallToolResult, ToolValueError};
use mcpjoin::proto::{Era, Version};
use mcpjoin::server::{HandlerError, Json, NoArguments, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{in_era, in_version, run};

#[derive(Serialize, Deserialize, JsonSchema, Debug, PartialEq)]
struct Holds {
    result: i64,
}

fn server() -> Server {
    Server::builder("s", "1")
        .tool(tool("number"), |_: NoArguments, _| async { Json(42) })
        .tool(tool("text"), |_: NoArguments, _| async { Json("a \"text\"".to_owned()) })
        .tool(tool("list"), |_: NoArguments, _| async { Json(vec![1, 2]) })
        .tool(tool("nothing"), |_: NoArguments, _| async { Json(None::<i64>) })
        .tool(tool("holds"), |_: NoArguments, _| async { Json(Holds { result: 7 }) })
        .tool(tool("maybe"), |_: NoArguments, _| async { Json(Some(Holds { result: 7 })) })
        .tool(tool("words"), |_: NoArguments, _| async { "no JSON" })
        .tool(tool("fails"), |_: NoArguments, _| async {
            Err::<Json<i64>, _>(HandlerError::new("out of luck"))
        })
        .build()
        .unwrap()
}

#[test]
fn a_typed_result_is_the_same_in_all_five_revisions() {
    run(async {
        for version in Version::ALL {
            let server = server();
            let client = if version.era() == Some(Era::Modern) {
                in_era(&server, Era::Modern).await
            } else {
                in_version(&server, version.clone()).await
            };
            assert_eq!(client.profile().version, version);
            let call = async |tool: &str| client.call_tool(tool, ()).await.unwrap();
            assert_eq!(call("number").await.decode(), Ok(42), "{version}");
            assert_eq!(call("text").await.decode(), Ok("a \"text\"".to_owned()), "{version}");
            assert_eq!(call("list").await.decode(), Ok(vec![1, 2]), "{version}");
            assert_eq!(call("nothing").await.decode(), Ok(None::<i64>), "{version}");
            assert_eq!(call("holds").await.decode(), Ok(Holds { result: 7 }), "{version}");
            assert_eq!(call("maybe").await.decode(), Ok(Some(Holds { result: 7 })), "{version}");
            // The same for a caller that accepts any value.
            for (tool, value) in [
                ("number", json!(42)),
                ("text", json!("a \"text\"")),
                ("list", json!([1, 2])),
                ("nothing", Value::Null),
                ("holds", json!({ "result": 7 })),
                ("maybe", json!({ "result": 7 })),
            ] {
                assert_eq!(call(tool).await.decode(), Ok(value), "{version} {tool}");
            }
            assert_eq!(call("words").await.decode(), Ok("no JSON".to_owned()), "{version}");
            assert_eq!(call("words").await.decode::<i64>(), Err(ToolValueError::Absent), "{version}");
            let unfit = call("text").await.decode::<i64>();
            assert!(matches!(unfit, Err(ToolValueError::Unfit(_))), "{version} {unfit:?}");
            let failed = call("fails").await.decode::<i64>().unwrap_err();
            assert_eq!(failed, ToolValueError::Failed("out of luck".into()), "{version}");
            assert_eq!(failed.to_string(), "out of luck");
        }
    });
}

#[test]
fn a_value_that_another_server_has_wrapped_is_found() {
    let result = |value: Value| -> CallToolResult {
        crate::raw(&json!({ "content": [], "structuredContent": value })).decode().unwrap()
    };
    assert_eq!(result(json!({ "result": 42 })).decode(), Ok(42));
    assert_eq!(result(json!({ "result": 42 })).decode(), Ok(Holds { result: 42 }));
    assert_eq!(result(json!({ "result": 42 })).decode(), Ok(json!({ "result": 42 })));
    for other in [json!({ "result": 42, "more": 1 }), json!({ "value": 42 }), json!([42])] {
        assert!(matches!(result(other).decode::<i64>(), Err(ToolValueError::Unfit(_))));
    }
    let two: CallToolResult = crate::raw(&json!({ "content": [
        { "type": "text", "text": "1" }, { "type": "text", "text": "2" }
    ] }))
    .decode()
    .unwrap();
    assert_eq!(two.decode::<i64>(), Err(ToolValueError::Absent), "which of them?");
}
