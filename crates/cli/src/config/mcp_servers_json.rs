//! `mcpServers` in JSON: the dialect of claude_desktop_config.json, .mcp.json, .cursor/mcp.json, mcp_servers.json and
//! many more (<https://modelcontextprotocol.io/docs/develop/connect-local-servers>). What people add to it by
//! hand is read, too: comments, trailing commas, and the rest of JSON5.

use jsonc_parser::ast::{Object, Value as Ast};
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::source::{Problem, Source};
use super::tree::{Contents, Entry, Member, Node, Value, similar};

/// The member that holds the entries.
const SERVERS: &str = "mcpServers";
/// What holds them in dialects that this version does not read.
const OTHERS: [&str; 3] = ["servers", "mcp", "context_servers"];

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: true,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: true,
    allow_hexadecimal_numbers: true,
    allow_unary_plus_numbers: true,
    allow_bare_decimal_point_numbers: true,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: true,
};

pub(super) fn read(source: &Source) -> Result<Contents, Problem> {
    let root = parse_to_ast(source.text(), &CollectOptions::default(), &OPTIONS)
        .map_err(|error| syntax(&error))?
        .value;
    let Some(Ast::Object(root)) = root else {
        return Err(Problem::new(0, format!("this must be an object with {SERVERS}")));
    };
    let mut servers = root.properties.iter().filter(|member| member.name.as_str() == SERVERS);
    let (first, second) = (servers.next(), servers.next());
    if let Some(second) = second {
        return Err(Problem::new(second.range.start, format!("{SERVERS} is given twice")));
    }
    let Some(first) = first else {
        return Err(missing(&root));
    };
    let node = node(first.value.clone());
    let Value::Table(members) = node.value else {
        return Err(Problem::new(node.at, format!("{SERVERS} must be an object: a name and what it starts")));
    };
    let entries =
        members.into_iter().map(|member| Entry { name: member.name, at: member.at, node: member.node });
    Ok(Contents { entries: entries.collect(), ..Contents::default() })
}

/// Nothing of the text is repeated: it may be a part of a secret.
fn syntax(error: &ParseError) -> Problem {
    let text = match error.kind() {
        ParseErrorKind::String(_) => "a string is not well-formed".to_owned(),
        kind => kind.to_string(),
    };
    Problem::new(error.range().start, format!("this is not JSON: {text}"))
}

/// There is no member with the entries: says what there is.
fn missing(root: &Object<'_>) -> Problem {
    let find = |wanted: &str| root.properties.iter().find(|member| member.name.as_str() == wanted);
    if let Some(other) = OTHERS.into_iter().find_map(find) {
        let text = format!("there is no {SERVERS}, and {} is not read in this version", other.name.as_str());
        return Problem::new(other.range.start, text);
    }
    let meant = similar(SERVERS, root.properties.iter().map(|member| member.name.as_str()));
    match meant.and_then(find) {
        Some(member) => {
            let text = format!("there is no {SERVERS}; is {} meant to be it?", member.name.as_str());
            Problem::new(member.range.start, text)
        }
        None => Problem::new(0, format!("there is no {SERVERS}")),
    }
}

fn node(ast: Ast<'_>) -> Node {
    match ast {
        Ast::StringLit(text) => Node { at: text.range.start, value: Value::Text(text.value.into_owned()) },
        Ast::NumberLit(number) => {
            Node { at: number.range.start, value: Value::Number(number.value.to_owned()) }
        }
        Ast::BooleanLit(value) => Node { at: value.range.start, value: Value::Bool(value.value) },
        Ast::NullKeyword(null) => Node { at: null.range.start, value: Value::Null },
        Ast::Array(array) => {
            Node { at: array.range.start, value: Value::List(array.elements.into_iter().map(node).collect()) }
        }
        Ast::Object(object) => Node {
            at: object.range.start,
            value: Value::Table(
                object
                    .properties
                    .into_iter()
                    .map(|member| Member {
                        name: member.name.as_str().to_owned(),
                        at: member.range.start,
                        node: node(member.value),
                    })
                    .collect(),
            ),
        },
    }
}
