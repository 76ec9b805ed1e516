//! What the shell completes: verbs, tools with their arguments and values, prompts, resources, levels.
//!
//! Filled by the parent from the lists of the server, and asked by the editor's thread. It sends no request. Names with characters that
//! a terminal hides or obeys are left out: they could show something else than they type.

use std::sync::{Mutex, PoisonError};

use mcpjoin::client::Client;
use mcpjoin::proto::types::LoggingLevel;
use mcpjoin::proto::{Kind, Raw};

use crate::commands::lists::{MAX_PAGES, PROMPTS, RESOURCES, Section, TEMPLATES, TOOLS};
use crate::object::Object;
use crate::target::exact;
use crate::visible;

/// The most items of one list.
const MAX_ITEMS: usize = 2000;
/// The most arguments of one item, and values of one argument.
const MAX_ARGUMENTS: usize = 100;
/// The longest name.
const MAX_NAME_BYTES: usize = 256;

/// The verbs of the shell, each with its operands and what it does.
pub(super) const VERBS: [(&str, &str, &str); 15] = [
    ("list", "", "tools, resources, templates and prompts of the server"),
    ("tools", "", "its tools; likewise resources, prompts"),
    ("resources", "", ""),
    ("prompts", "", ""),
    ("tool", "NAME", "one tool with its parameters"),
    ("call", "TOOL [name=value]...", "calls a tool"),
    ("read", "URI", "reads a resource"),
    ("prompt", "NAME [name=value]...", "fills in a prompt"),
    ("complete", "prompt:NAME ARGUMENT=VALUE", "completes an argument"),
    ("ping", "", "checks that the server responds, and how fast"),
    ("info", "", "name, version and capabilities of the server"),
    ("watch", "URI", "shows a resource at each change, until Ctrl-C"),
    ("log", "LEVEL", "the lowest level of the server's log messages: debug ... emergency"),
    ("help", "", "this list; `VERB --help` shows the options of a verb"),
    ("exit", "", "ends the session (Ctrl-D, too)"),
];

/// The names that are completed.
#[derive(Default)]
pub(super) struct Catalogue(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    tools: Vec<Item>,
    prompts: Vec<Item>,
    resources: Vec<Item>,
    templates: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    name: String,
    arguments: Vec<Argument>,
}

#[derive(Debug)]
struct Argument {
    name: String,
    values: Vec<String>,
}

impl Catalogue {
    /// Reads the lists of the server. A list that fails is not completed.
    pub(super) async fn read(&self, client: &Client) {
        let names = Names {
            tools: items(client, &TOOLS, arguments_of_tool).await,
            prompts: items(client, &PROMPTS, arguments_of_prompt).await,
            resources: items(client, &RESOURCES, |_| Vec::new()).await,
            templates: items(client, &TEMPLATES, |_| Vec::new()).await,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Where the last word of the line begins, and what it may become.
    pub(super) fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let start = last_word(line);
        let typed = &line[start..];
        let before: Vec<&str> = line[..start].split_whitespace().collect();
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = match before.as_slice() {
            [] => VERBS.iter().map(|(verb, ..)| format!("{verb} ")).collect(),
            ["tool" | "call"] => words(&names.tools, " "),
            ["prompt"] => words(&names.prompts, " "),
            ["read" | "watch"] => words(&names.resources, " "),
            ["log"] => LoggingLevel::ALL.iter().map(|level| level.as_str().to_owned()).collect(),
            ["help"] => VERBS.iter().map(|(verb, ..)| (*verb).to_owned()).collect(),
            ["complete"] => {
                let prompts = names.prompts.iter().map(|prompt| exact(&format!("prompt:{}", prompt.name)));
                let prompts = prompts.map(|word| format!("{word} "));
                prompts.chain(words(&names.templates, " ")).collect()
            }
            ["call", tool, given @ ..] => arguments(&names.tools, tool, given, typed),
            ["prompt", prompt, given @ ..] => arguments(&names.prompts, prompt, given, typed),
            _ => Vec::new(),
        };
        (start, all.into_iter().filter(|word: &String| word.starts_with(typed)).collect())
    }
}

/// The arguments of the item that were not given, or the values of the one that is being typed.
fn arguments(items: &[Item], name: &str, given: &[&str], typed: &str) -> Vec<String> {
    let Some(item) = items.iter().find(|item| exact(&item.name) == name) else { return Vec::new() };
    if let Some((name, _)) = typed.split_once('=') {
        let argument = item.arguments.iter().find(|argument| argument.name == name);
        let values = argument.map(|argument| argument.values.as_slice()).unwrap_or_default();
        return values.iter().map(|value| exact(&format!("{name}={value}")) + " ").collect();
    }
    let is_given = |name: &str| {
        given
            .iter()
            .any(|word| word.split_once('=').is_some_and(|(given, _)| given.trim_end_matches(':') == name))
    };
    let missing = item.arguments.iter().filter(|argument| !is_given(&argument.name));
    missing.map(|argument| format!("{}=", argument.name)).collect()
}

fn words(items: &[Item], end: &str) -> Vec<String> {
    items.iter().map(|item| exact(&item.name) + end).collect()
}

/// Where the last word begins. A blank in quotes does not end a word.
fn last_word(line: &str) -> usize {
    let (mut start, mut quote) = (0, None);
    for (place, character) in line.char_indices() {
        match (quote, character) {
            (Some(open), end) if open == end => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, blank) if blank.is_whitespace() => start = place + blank.len_utf8(),
            _ => {}
        }
    }
    start
}

/// The items of a list that the server declares.
async fn items(
    client: &Client,
    section: &'static Section,
    arguments: impl Fn(&Object) -> Vec<Argument>,
) -> Vec<Item> {
    let mut found = Vec::new();
    if !section.is_declared(client) {
        return found;
    }
    let mut pages = section.pages(client, MAX_PAGES);
    while let Some(Ok(page)) = pages.next().await {
        add(&mut found, section, &page, &arguments);
        if found.len() == MAX_ITEMS {
            break;
        }
    }
    found
}

/// Adds the items of a page that can be completed.
fn add(found: &mut Vec<Item>, section: &Section, page: &[Raw], arguments: impl Fn(&Object) -> Vec<Argument>) {
    let left = MAX_ITEMS.saturating_sub(found.len());
    let item = |item: &Raw| {
        let item = Object::of(item)?;
        let name = item.text(section.name).filter(|name| is_plain(name))?;
        Some(Item { arguments: arguments(&item), name })
    };
    found.extend(page.iter().filter_map(item).take(left));
}

fn arguments_of_tool(tool: &Object) -> Vec<Argument> {
    let properties = tool.value("inputSchema").and_then(Object::of);
    let properties = properties.and_then(|schema| schema.value("properties").and_then(Object::of));
    let argument = |(name, schema): (String, Raw)| {
        let schema = Object::of(&schema);
        let values = schema.as_ref().and_then(|schema| schema.items("enum")).unwrap_or_default();
        let is_boolean = schema.and_then(|schema| schema.text("type")).is_some_and(|kind| kind == "boolean");
        let mut values: Vec<String> = values.iter().take(MAX_ARGUMENTS).filter_map(word).collect();
        if is_boolean && values.is_empty() {
            values = vec!["true".into(), "false".into()];
        }
        is_plain(&name).then_some(Argument { name, values })
    };
    properties.into_iter().flatten().take(MAX_ARGUMENTS).filter_map(argument).collect()
}

/// A value of an `enum`, as it is typed.
fn word(value: &Raw) -> Option<String> {
    let word = match value.kind() {
        Kind::String => value.to_string_value()?.into_owned(),
        _ => value.as_str().to_owned(),
    };
    is_plain(&word).then_some(word)
}

fn arguments_of_prompt(prompt: &Object) -> Vec<Argument> {
    let arguments = prompt.items("arguments").unwrap_or_default();
    let names =
        arguments.iter().take(MAX_ARGUMENTS).filter_map(|argument| Object::of(argument)?.text("name"));
    names.filter(|name| is_plain(name)).map(|name| Argument { name, values: Vec::new() }).collect()
}

/// Whether a name is shown as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && visible::line(name) == name
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::{Argument, Catalogue, Item, MAX_ARGUMENTS, MAX_ITEMS, TOOLS, is_plain};

    fn catalogue() -> Catalogue {
        let argument = |name: &str, values: &[&str]| Argument {
            name: name.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let item = |name: &str, arguments| Item { name: name.into(), arguments };
        let catalogue = Catalogue::default();
        let mut names = catalogue.0.lock().unwrap();
        names.tools = vec![
            item("add", vec![argument("a", &[]), argument("b", &[])]),
            item(
                "paint",
                vec![argument("colour", &["red", "dark red"]), argument("fast", &["true", "false"])],
            ),
            item("two words", Vec::new()),
        ];
        names.prompts = vec![item("greet", vec![argument("name", &[])])];
        names.resources = vec![item("test://a", Vec::new())];
        names.templates = vec![item("test://{id}", Vec::new())];
        drop(names);
        catalogue
    }

    #[test]
    fn words_are_completed_by_their_place() {
        let catalogue = catalogue();
        for (line, start, words) in [
            ("ca", 0, &["call "][..]),
            ("re", 0, &["resources ", "read "]),
            ("call ", 5, &["add ", "paint ", "'two words' "]),
            ("tool p", 5, &["paint "]),
            ("call add ", 9, &["a=", "b="]),
            ("call add a=1 ", 13, &["b="]),
            ("call add b:=1 ", 14, &["a="]),
            ("call paint fast=", 11, &["fast=true ", "fast=false "]),
            ("call paint colour=r", 11, &["colour=red "]),
            ("call nothing ", 13, &[]),
            ("call add a='x y' ", 17, &["b="]),
            ("call add 'a b", 9, &[]),
            ("prompt gr", 7, &["greet "]),
            ("prompt greet n", 13, &["name="]),
            ("read t", 5, &["test://a "]),
            ("watch ", 6, &["test://a "]),
            ("complete ", 9, &["prompt:greet ", "'test://{id}' "]),
            ("log e", 4, &["error", "emergency"]),
            ("list x", 5, &[]),
        ] {
            assert_eq!(
                catalogue.candidates(line),
                (start, words.iter().map(|word| (*word).to_owned()).collect()),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_completed_is_bounded() {
        let properties: Vec<String> =
            (0..=MAX_ARGUMENTS).map(|n| format!(r#""p{n}":{{"type":"boolean"}}"#)).collect();
        let tool = format!(r#"{{"name":"t","inputSchema":{{"properties":{{{}}}}}}}"#, properties.join(","));
        let page = vec![Raw::parse(tool).unwrap(); MAX_ITEMS];
        let mut found = Vec::new();
        for _ in 0..2 {
            super::add(&mut found, &TOOLS, &page, super::arguments_of_tool);
        }
        assert_eq!(found.len(), MAX_ITEMS);
        assert_eq!(found[0].arguments.len(), MAX_ARGUMENTS);
        assert_eq!(found[0].arguments[0].values, ["true", "false"]);
    }

    #[test]
    fn a_name_that_a_terminal_obeys_is_not_completed() {
        assert!(is_plain("änd_1") && !is_plain("a\u{1b}[2J") && !is_plain("") && !is_plain("a\nb"));
        assert!(!is_plain(&"x".repeat(super::MAX_NAME_BYTES + 1)));
    }
}
