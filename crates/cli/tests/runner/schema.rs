//! Tests of the JSON Schemas of tools: they are shown unchanged, and never cause a network request.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use serde_json::json;

use super::support::{Ran, run};

/// A listener that counts connections.
struct Listening {
    port: u16,
    counting: JoinHandle<usize>,
}

/// The test's own message on the last connection.
const LAST: &[u8] = b"the last one";

impl Listening {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let counting = std::thread::spawn(move || {
            for count in 0.. {
                let (mut stream, _) = listener.accept().unwrap();
                let mut said = [0; LAST.len()];
                if stream.read_exact(&mut said).is_ok() && said == LAST {
                    return count;
                }
            }
            unreachable!()
        });
        Self { port, counting }
    }

    /// The number of connections before this call. Connections are accepted in order.
    fn count(self) -> usize {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap().write_all(LAST).unwrap();
        self.counting.join().unwrap()
    }
}

/// A server of the legacy era whose tool has this schema, for any number of requests.
fn server(schema: &str) -> String {
    format!(
        r#"reply() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
while read -r line; do
    id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
    case "$line" in
    *'"initialize"'*) reply '{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}';;
    *'"tools/list"'*) reply '{{"tools":[{{"name":"t","description":"d","inputSchema":{schema},"outputSchema":{schema}}}]}}';;
    *'"tools/call"'*) reply '{{"content":[{{"type":"text","text":"called"}}],"structuredContent":{{"a":7}}}}';;
    *'"ping"'*) reply '{{}}';;
    *'"id"'*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"unknown"}}}}\n' "$id";;
    esac
done
"#
    )
}

fn ask(words: &[&str], schema: &str) -> Ran {
    run([words, &["--", "sh", "-c", &server(schema)]].concat())
}

#[test]
fn cve_2026_116686_no_reference_of_a_schema_is_ever_fetched() {
    let listening = Listening::start();
    let to = |path: &str| format!("http://127.0.0.1:{}/{path}", listening.port);
    let schema = json!({
        "$schema": to("dialect"), "$id": to("id"), "type": "object", "$ref": to("root.json"),
        "properties": {"a": {"$ref": to("a.json")}, "b": {"$dynamicRef": to("b.json#x")}, "c": {"type": "integer"}},
        "additionalProperties": {"$recursiveRef": to("c.json")},
    })
    .to_string();
    ask(&["list", "--era", "legacy"], &schema).exits(0);
    let listed = ask(&["list", "--era", "legacy", "--json"], &schema).exits(0);
    assert!(listed.stdout.contains(&to("a.json")), "{}", listed.stdout);
    // The schema decides the types of the arguments, as far as it is understood.
    let called = ask(&["call", "--era", "legacy", "t", "a=1", "b=true", "c=3"], &schema).exits(0);
    assert_eq!(called.stdout, "called\n");
    ask(&["call", "--era", "legacy", "t", "c=three"], &schema).exits(2).says(&["must be an integer"]);
    let validated = ask(&["validate"], &schema);
    assert!(
        validated.code.is_some_and(|code| code < 2),
        "it was validated: {} {}",
        validated.stdout,
        validated.stderr
    );
    let examined = ask(&["doctor"], &schema);
    assert!(
        examined.code.is_some_and(|code| code < 2),
        "it was examined: {} {}",
        examined.stdout,
        examined.stderr
    );
    assert_eq!(listening.count(), 0, "somebody has followed a reference");
}

#[test]
fn s10_the_json_of_a_list_has_schemas_as_they_are() {
    let schema = concat!(
        r#"{"z":1.50,"type":"object","properties":{"n":{"maximum":1E400,"const":9007199254740993},"a":{"$ref":"file:///etc/passwd"}},"#,
        r#""$defs":{"b":true},"unevaluatedProperties":false,"x-own":[-0]}"#
    );
    let ran = ask(&["list", "--era", "legacy", "--json"], schema).exits(0);
    // Only indentation was added. Whitespace can be removed because no string in the schema has a space.
    let text: String = ran.stdout.split_whitespace().collect();
    for key in ["inputSchema", "outputSchema"] {
        assert!(text.contains(&format!(r#""{key}":{schema}"#)), "{key}: {text}");
    }
}
