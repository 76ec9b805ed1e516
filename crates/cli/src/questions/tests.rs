//! Tests of what is declared.

use mcpjoin::client::Client;

use super::{Answering, root};
use crate::args::Questions;
use crate::ui::Ui;

/// Whether a client with these options declares elicitation, roots and sampling.
fn declared(options: &Questions) -> Vec<&'static str> {
    let answering = Answering::new(&Ui::plain(), options, "demo:").unwrap();
    let client = format!("{:?}", answering.declare(Client::builder("t", "1")));
    let names = ["elicitation", "roots", "sampling"];
    names.into_iter().filter(|name| client.contains(&format!("{name}: Some("))).collect()
}

#[test]
fn what_can_be_answered_is_declared_and_nothing_else() {
    // Standard input of a test is no terminal.
    assert_eq!(declared(&Questions::default()), [""; 0]);
    let answer = Questions { answer: Some("{}".into()), ..Questions::default() };
    assert_eq!(declared(&answer), ["elicitation"]);
    assert_eq!(declared(&Questions { no_input: true, ..Questions::default() }), ["elicitation"]);
    assert_eq!(declared(&Questions { root: vec!["/".into()], ..Questions::default() }), ["roots"]);
    assert_eq!(declared(&Questions { sampler: Some("cat".into()), ..Questions::default() }), ["sampling"]);
}

#[test]
fn a_root_is_a_folder_that_exists() {
    let folder = std::env::temp_dir().join(format!("mcpjoin roots {}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let found = root(&folder.join("../.").join(folder.file_name().unwrap())).unwrap();
    assert!(found.uri.starts_with("file:///") && found.uri.contains("mcpjoin%20roots"), "{}", found.uri);
    assert!(!found.uri.contains(".."), "{}", found.uri);
    assert_eq!(found.name.as_deref(), folder.file_name().unwrap().to_str());
    std::fs::write(folder.join("file"), "").unwrap();
    assert!(root(&folder.join("file")).unwrap_err().message.contains("not a folder"));
    assert!(root(&folder.join("none")).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}
