//! `mcpjoin validate --format sarif` and `--format junit`: whether other programs accept the documents.
//!
//! Microsoft's `sarif-multitool` checks SARIF, with GitHub's additional rules; a JSON Schema validator checks it against
//! the schema in that package, because the tool does not enforce all of it. `junitparser` reads the XML of JUnit.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// A configuration with a published server, one with a fault, and one that cannot be started.
struct Servers(PathBuf);

impl Servers {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mcpjoin-reports-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let binary = interop::mcpjoin().unwrap();
        let fault = format!(
            r#"'{}' serve demo --full | sed -u 's/"id":2,"result":{{}}/"id":2,"result":{{"a":"]]> {{0}} [x](http:\/\/e) \\u0000\\u001b"}}/'"#,
            binary.display()
        );
        let servers = json!({ "mcpServers": {
            "everything": { "command": interop::server("node_modules/.bin/mcp-server-everything").unwrap() },
            "faulty <&\"": { "command": "sh", "args": ["-c", fault] },
            "missing": { "command": "/nowhere/mcpjoin-no-such-program" },
        }});
        std::fs::write(folder.join("mcp.json"), servers.to_string()).unwrap();
        Self(folder)
    }

    /// The report in that format, written to a file of that name.
    fn report(&self, format: &str, name: &str) -> (PathBuf, String) {
        let output = Command::new(interop::mcpjoin().unwrap())
            .args(["validate", "--era", "legacy", "--config", "mcp.json", "--format", format])
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        (self.file(name, &text), text)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The output of a Python program that gets this file as its argument.
#[track_caller]
fn python(program: &str, words: &[&std::path::Path]) -> Value {
    let mut command = Command::new(interop::server("venv/bin/python").unwrap());
    let output = command.args(["-c", program]).args(words).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Prints every place where a document violates its schema.
const SCHEMA: &str = r#"
import json, sys
from jsonschema import Draft202012Validator as Validator
schema, document = (json.load(open(path, encoding="utf-8-sig")) for path in sys.argv[1:])
Validator.check_schema(schema)
print(json.dumps([error.json_path + ": " + error.message for error in Validator(schema).iter_errors(document)]))
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn sarif_is_what_the_sarif_multitool_and_the_schema_take() {
    let servers = Servers::new("sarif");
    let (file, text) = servers.report("sarif", "report.sarif");
    let folder = "node_modules/@microsoft/sarif-multitool-linux";
    let tool = interop::server(&format!("{folder}/Sarif.Multitool")).unwrap();
    // Its notes check whether every address can be reached: they use a proxy that does not exist, so that nothing is sent.
    let nobody = "http://127.0.0.1:1";
    let accusations = |file: &PathBuf| -> Vec<String> {
        let output = Command::new(&tool)
            .args(["validate", "--rule-kind", "Sarif;Ghas", "--level", "Error;Warning"])
            .arg(file)
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|variable| (variable, nobody)))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 files scanned"), "{said} {}", String::from_utf8_lossy(&output.stderr));
        let accuses = |line: &&str| line.contains(": error ") || line.contains(": warning ");
        said.lines().filter(accuses).map(str::to_owned).collect()
    };
    assert_eq!(accusations(&file), [""; 0]);
    let schema = interop::server(&format!("{folder}/sarif-2.1.0.json")).unwrap();
    assert_eq!(python(SCHEMA, &[&schema, &file]), json!([]));

    // Both find the fault.
    let bad = servers.file("places.sarif", &text.replace("\"locations\"", "\"places\""));
    assert!(accusations(&bad).iter().any(|line| line.contains("GH1015")), "{:?}", accusations(&bad));
    let bad = servers.file("level.sarif", &text.replace("\"level\": \"error\"", "\"level\": \"bad\""));
    assert_ne!(python(SCHEMA, &[&schema, &bad]), json!([]));

    let report: Value = serde_json::from_str(&text).unwrap();
    let rules: BTreeSet<&str> = report["runs"][0]["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|result| result["properties"]["server"] == "faulty <&\"")
        .map(|result| result["ruleId"].as_str().unwrap())
        .collect();
    assert_eq!(rules, BTreeSet::from(["ping-empty"]));
}

/// Prints the counts of all suites as `junitparser` reads them, in the attributes and counted, and the failures.
const JUNIT: &str = r#"
import json, sys
from junitparser import Error, Failure, JUnitXml, Skipped
xml = JUnitXml.fromfile(sys.argv[1])
cases = [(suite.name, case) for suite in xml for case in suite]
having = lambda kind: [[suite, case.name, result.message, result.text] for suite, case in cases for result in case.result if isinstance(result, kind)]
print(json.dumps({
    "said": [xml.tests, xml.failures, xml.errors, xml.skipped],
    "suites": [sum(getattr(suite, name) for suite in xml) for name in ("tests", "failures", "errors", "skipped")],
    "counted": [len(cases), len(having(Failure)), len(having(Error)), len(having(Skipped))],
    "failed": having(Failure), "errors": having(Error), "skipped": having(Skipped),
}))
"#;

#[test]
fn junit_is_what_junitparser_reads() {
    let servers = Servers::new("junit");
    let (file, _) = servers.report("junit", "report.xml");
    let read = python(JUNIT, &[&file]);
    assert_eq!(read["said"], read["counted"], "{read:#}");
    assert_eq!(read["suites"], read["counted"], "{read:#}");
    let errors = read["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!((&errors[0][0], &errors[0][1]), (&json!("missing"), &json!("connect")));
    let failed: Vec<&Value> =
        read["failed"].as_array().unwrap().iter().filter(|case| case[1] == "ping-empty").collect();
    let [case] = failed[..] else { panic!("one case of one server: {read:#}") };
    assert_eq!(case[0], "faulty <&\": Lifecycle and versions");
    assert!(case[3].as_str().unwrap().contains("]]> {0} [x](http://e)"), "{case:#}");
    assert!(read["skipped"].as_array().unwrap().iter().all(|case| !case[2].as_str().unwrap().is_empty()));
}
