//! From words to the arguments of a tool or a prompt, or to the refusal that says what to type.
//!
//! For a tool: [`Typed::read`] parses the words, and [`Typed::checked`] makes the object that is sent, with the tool's input
//! schema: `k=v` takes the type in the schema, a repeated `k=` is an array, `k=@FILE` is the content of a file, and `k:=JSON`,
//! `{...}`, `@FILE` and `-` are JSON. No number and no text is changed. Arguments that break the schema are refused with the words
//! of the schema. Where it is not known whether they do, they are sent, and the server decides. For a prompt: [`Typed::read`] and
//! [`Typed::texts`].
//!
//! Called by `commands::call` and `commands::prompt`. It prints nothing and asks no server.

mod function_call;
mod kinds;
mod verdict;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::Read;

use mcpjoin::proto::{Kind, Raw};
use serde_json::Value;

use crate::config::similar;
use crate::found;
use crate::object::{self, Object};
use crate::schema::Schema;
use crate::target::{exact, shown};
use crate::visible;
pub(crate) use function_call::of_function_call;
use kinds::{Declared, InputSchema, Kinds};
use verdict::Verdict;

/// The undeclared names that are noted and compared with those of the schema: an object from a file may have many.
const MAX_NOTED_NAMES: usize = 10;
/// The most characters of a value in a message.
const MAX_VALUE_CHARS: usize = 80;
/// The most characters of a proposed word: a longer one is not read.
const MAX_PROPOSED_CHARS: usize = 300;

/// Arguments as typed, parsed as far as possible without the tool.
#[derive(Debug, PartialEq)]
pub(crate) struct Typed {
    /// In the order of the words. A name may be there several times, where all but one come from objects.
    members: Vec<(String, Typing)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Typing {
    /// The values of one name: several make an array.
    Named(Vec<Named>),
    /// A member of an object.
    Member(Raw),
}

#[derive(Clone, Debug, PartialEq)]
enum Named {
    /// `k=v` or `k=@FILE`: the schema decides its type.
    Word(String),
    /// `k:=JSON` or `k:=@FILE`
    Json(Raw),
}

/// The arguments of a call.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The object that is sent.
    pub(crate) object: Raw,
    /// What the user should know of it.
    pub(crate) notes: Vec<String>,
}

impl Typed {
    /// Parses the words after the tool's name, and `--args`. Files and standard input are read here, at most `limit` bytes each.
    pub(crate) fn read(object: Option<&str>, words: &[OsString], limit: usize) -> Result<Self, String> {
        let mut typed = Self { members: Vec::new() };
        if let Some(text) = object {
            typed.object("--args", text.as_bytes().to_vec())?;
        }
        for word in words {
            typed.word(word, limit)?;
        }
        Ok(typed)
    }

    fn word(&mut self, word: &OsStr, limit: usize) -> Result<(), String> {
        if word == "-" {
            let bytes =
                bounded(std::io::stdin().lock(), limit).map_err(|e| format!("standard input: {e}"))?;
            return self.object("standard input", bytes);
        }
        // The name of a file need not be Unicode.
        if word.as_encoded_bytes().first() == Some(&b'@') {
            let path = file(word).ok_or_else(|| format!("{} names no file", shown(word)))?;
            let bytes = content(&path, limit)?;
            return self.object(&shown(&path), bytes);
        }
        let text = word.to_str().ok_or_else(|| format!("{} is not valid Unicode", shown(word)))?;
        if text.starts_with('{') {
            return self.object("the object", text.as_bytes().to_vec());
        }
        let Some((name, value)) = text.split_once('=') else {
            return Err(no_argument(text));
        };
        let (name, value) = match name.strip_suffix(':') {
            None => (name, Named::Word(self::text(name, value, limit)?)),
            Some(name) => (name, Named::Json(json(name, value, limit)?)),
        };
        if name.is_empty() {
            return Err(format!("{} has no name before the =", shown(word)));
        }
        let known = self.members.iter_mut().find_map(|(known, typing)| match typing {
            Typing::Named(values) if known == name => Some(values),
            _ => None,
        });
        match known {
            Some(values) => values.push(value),
            None => self.members.push((name.to_owned(), Typing::Named(vec![value]))),
        }
        Ok(())
    }

    fn object(&mut self, from: &str, bytes: Vec<u8>) -> Result<(), String> {
        let object = Raw::parse(bytes).map_err(|error| format!("{from} is not JSON: {error}"))?;
        let object = Object::of(&object)
            .ok_or_else(|| format!("{from} must be a JSON object without duplicate names"))?;
        self.members.extend(object.into_iter().map(|(name, value)| (name, Typing::Member(value))));
        Ok(())
    }

    /// Whether the object depends on the schema of the tool.
    pub(crate) fn need_schema(&self) -> bool {
        self.members.iter().any(|(_, typing)| match typing {
            Typing::Named(values) => values.len() > 1 || matches!(values[..], [Named::Word(_)]),
            Typing::Member(_) => false,
        })
    }

    /// The words that send those values as JSON that are JSON. A form of such a word where there is none.
    pub(crate) fn as_json(&self) -> String {
        let words = self.members.iter().filter_map(|(name, typing)| match typing {
            Typing::Named(values) => match &values[..] {
                [Named::Word(word)] if Raw::parse(word.as_bytes().to_vec()).is_ok() => {
                    Some(format!("{name}:={word}"))
                }
                _ => None,
            },
            Typing::Member(_) => None,
        });
        let words = words.filter(|word| word.chars().count() <= MAX_PROPOSED_CHARS).take(MAX_NOTED_NAMES);
        let words: Vec<String> = words.map(|word| exact(&word)).collect();
        if words.is_empty() { "NAME:=JSON".into() } else { words.join(" ") }
    }

    /// The arguments as one object. Without a schema, or beyond the limits of reading it, every word is a string.
    ///
    /// # Errors
    /// The arguments break the schema, unless `force`: then they are sent, and a note says what is wrong.
    pub(crate) fn checked(self, schema: Option<&Raw>, force: bool) -> Result<Checked, String> {
        let value: Option<Value> = schema.and_then(|schema| serde_json::from_str(schema.as_str()).ok());
        let mut input = value.as_ref().map(InputSchema::new);
        let mut notes = Vec::new();
        let members = self.merged(|name, typing| match typing {
            Typing::Member(value) => Ok(value.to_string()),
            Typing::Named(values) => {
                let declared = input.as_mut().and_then(|input| input.declared(name));
                match typed_value(name, &values, declared.unwrap_or(Declared::NOTHING)) {
                    Err(problem) if force => {
                        notes.push(format!("sent because of --force: {problem}"));
                        Ok(as_typed(&values))
                    }
                    Err(problem) => Err(problem + &proposed(schema, name)),
                    Ok(value) => Ok(value),
                }
            }
        })?;
        let names: Vec<String> = members.iter().map(|(name, _)| name.clone()).collect();
        // Parsed again, since the object may be one level too deep.
        let object = Raw::parse(object::write(members))
            .map_err(|error| format!("the arguments cannot be sent: {error}"))?;
        let (Some(schema), Some(value)) = (schema, value) else { return Ok(Checked { object, notes }) };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let verdict = verdict::of(schema, &value, &object, &names);
        if let Verdict::Refused(problem) = &verdict {
            if !force {
                return Err(problem.clone());
            }
            if notes.is_empty() {
                notes.push(format!("sent because of --force: {problem}"));
            }
        }
        notes.extend(undeclared(&value, &names, matches!(verdict, Verdict::Conforms)));
        Ok(Checked { object, notes })
    }

    /// The arguments of a prompt, which are texts.
    pub(crate) fn texts(self) -> Result<BTreeMap<String, String>, String> {
        let members = self.merged(|name, typing| {
            let value = match typing {
                Typing::Member(value) => Named::Json(value),
                Typing::Named(mut values) => match values.pop() {
                    Some(value) if values.is_empty() => value,
                    _ => return Err(format!("{} is given twice", quoted(name))),
                },
            };
            match value {
                Named::Word(word) => Ok(word),
                Named::Json(value) => match value.to_string_value() {
                    Some(text) => Ok(text.into_owned()),
                    None => Err(format!(
                        "{} must be a text, got {}. {}=VALUE sends VALUE as it is",
                        quoted(name),
                        excerpt(value.as_str()),
                        visible::line(name),
                    )),
                },
            }
        })?;
        Ok(members.into_iter().collect())
    }

    /// Each name once. A named argument wins over a member of an object, and a later object over an earlier one.
    fn merged<T>(
        self,
        mut value: impl FnMut(&str, Typing) -> Result<T, String>,
    ) -> Result<Vec<(String, T)>, String> {
        let mut members: Vec<(String, T)> = Vec::with_capacity(self.members.len());
        let mut is_named: Vec<bool> = Vec::with_capacity(self.members.len());
        // A file may have hundreds of thousands of names.
        let mut places: HashMap<String, usize> = HashMap::with_capacity(self.members.len());
        for (name, typing) in self.members {
            let named = matches!(typing, Typing::Named(_));
            match places.get(&name).copied() {
                None => {
                    let value = value(&name, typing)?;
                    places.insert(name.clone(), members.len());
                    members.push((name, value));
                    is_named.push(named);
                }
                Some(place) if named || !is_named[place] => {
                    members[place].1 = value(&name, typing)?;
                    is_named[place] = named;
                }
                Some(_) => {}
            }
        }
        Ok(members)
    }
}

/// The values of one name as JSON.
fn typed_value(name: &str, values: &[Named], declared: Declared) -> Result<String, String> {
    let takes_array = declared.kinds().has(Kinds::ARRAY);
    let item = |value: &Named| match value {
        Named::Json(value) => Some(value.clone()),
        Named::Word(word) => declared.items().value(word),
    };
    let value = match values {
        [Named::Json(value)] => Some(value.to_string()),
        [Named::Word(word)] => match declared.kinds().value(word) {
            None if takes_array => item(&values[0]).map(|item| array(&[item])),
            value => value.map(|value| value.to_string()),
        },
        _ if !takes_array => {
            let proposed = propose(name, &as_typed(values));
            return Err(format!(
                "{} is given twice, but is not declared as an array{proposed}",
                quoted(name)
            ));
        }
        _ => values.iter().map(item).collect::<Option<Vec<Raw>>>().map(|items| array(&items)),
    };
    value.ok_or_else(|| {
        let wrong = values.iter().find_map(|value| match value {
            Named::Word(word) if item(value).is_none() || !takes_array => Some(word.as_str()),
            _ => None,
        });
        let wrong = Raw::string(wrong.unwrap_or_default());
        let mut must = declared.kinds().names();
        if takes_array {
            must = must.replace("an array", &format!("an array, each item {}", declared.items().names()));
        }
        format!("{} must be {must}, got {}", quoted(name), excerpt(wrong.as_str()))
    })
}

/// The values without a schema: words are texts, and several values are an array.
fn as_typed(values: &[Named]) -> String {
    let values: Vec<Raw> = values
        .iter()
        .map(|value| match value {
            Named::Word(word) => Raw::string(word),
            Named::Json(value) => value.clone(),
        })
        .collect();
    match &values[..] {
        [one] => one.to_string(),
        several => array(several),
    }
}

fn array(items: &[Raw]) -> String {
    let items: Vec<&str> = items.iter().map(Raw::as_str).collect();
    format!("[{}]", items.join(","))
}

/// The word that passes this value, as a sentence; empty where it is too long to be read.
fn propose(name: &str, json: &str) -> String {
    let word = format!("{name}:={json}");
    if word.chars().count() > MAX_PROPOSED_CHARS {
        return String::new();
    }
    format!(". Pass JSON: {}", exact(&word))
}

/// The word that passes an array or an object for an argument, as [`propose`] writes it; empty for another argument.
fn proposed(schema: Option<&Raw>, name: &str) -> String {
    let example = schema.and_then(Schema::read).and_then(|schema| schema.example_of(name));
    let example = example.filter(|example| example.starts_with(['[', '{']));
    example.map_or_else(String::new, |example| propose(name, &example))
}

/// The words for arguments whose values are JSON: `k=v` where that means the same, otherwise `k:=JSON`. All in one object where
/// a name cannot be a word.
pub(crate) fn words(schema: &Raw, arguments: &[(String, String)]) -> Vec<String> {
    let value: Value = serde_json::from_str(schema.as_str()).unwrap_or_default();
    let mut input = InputSchema::new(&value);
    let is_word = |name: &str| {
        !name.is_empty() && !name.contains('=') && !name.ends_with(':') && !name.starts_with(['{', '@', '-'])
    };
    if !arguments.iter().all(|(name, _)| is_word(name)) {
        return vec![object::write(arguments.iter().map(|(name, value)| (name, value)))];
    }
    let word = |(name, json): &(String, String)| {
        let declared = input.declared(name).unwrap_or(Declared::NOTHING);
        // The value, or the one item of an array. Objects show their form as JSON.
        let item = Raw::parse(json.clone()).ok().map(|value| match value.decode::<Vec<Raw>>() {
            Ok(items) if items.len() == 1 => items[0].clone(),
            _ => value,
        });
        let item = item.filter(|item| !matches!(item.kind(), Kind::Object | Kind::Array));
        let text = item
            .map(|item| item.to_string_value().map_or_else(|| item.to_string(), |text| text.into_owned()));
        let text = text.filter(|text| {
            let value = typed_value(name, &[Named::Word(text.clone())], declared);
            !text.starts_with('@') && value.as_ref() == Ok(json)
        });
        text.map_or_else(|| format!("{name}:={json}"), |text| format!("{name}={text}"))
    };
    arguments.iter().map(word).collect()
}

/// Notes on names that the schema does not declare. `is_valid`: it is known that the arguments conform to the schema; otherwise
/// only names that are similar to a declared one are noted.
fn undeclared(schema: &Value, names: &[&str], is_valid: bool) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let given: HashSet<&str> = names.iter().copied().collect();
    let mut input = InputSchema::new(schema);
    // A schema that describes other members expects them.
    let is_open = schema.get("additionalProperties").is_some_and(|open| open != false)
        || schema.get("patternProperties").is_some();
    let unknown =
        names.iter().filter(|name| input.declared(name).is_some_and(|declared| !declared.is_property));
    unknown
        .take(MAX_NOTED_NAMES)
        .filter_map(|name| {
            let missing = properties.into_iter().flat_map(|properties| properties.keys());
            let missing = missing.map(String::as_str).filter(|known| !given.contains(known));
            match similar(name, missing) {
                Some(meant) => Some(format!(
                    "the tool declares no argument {}; did you mean {}?",
                    quoted(name),
                    quoted(meant)
                )),
                None if is_valid && !is_open => {
                    Some(format!("the tool declares no argument {}; it is sent", quoted(name)))
                }
                None => None,
            }
        })
        .collect()
}

/// A name in a message.
fn quoted(name: &str) -> String {
    format!("`{}`", visible::cut_chars(&visible::line(name), MAX_VALUE_CHARS))
}

/// The beginning of a value in a message.
fn excerpt(json: &str) -> String {
    visible::cut_chars(&visible::line(json), MAX_VALUE_CHARS)
}

/// The message for a word that is not an argument. It names the argument that the user probably meant.
fn no_argument(word: &str) -> String {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    let spelled = word.trim_start_matches('-');
    let instead = match spelled.split_once(':') {
        Some((name, value)) if is_name(name) && !value.is_empty() && !value.starts_with("//") => {
            format!("write {}", exact(&format!("{name}={}", value.trim_start())))
        }
        _ if spelled.len() < word.len() && is_name(spelled) => format!("write {}=VALUE", exact(spelled)),
        // A value alone, as other programs take it.
        _ if serde_json::from_str::<serde_json::Number>(word).is_ok() => {
            return format!("{} has no name; write NAME={}", quoted(word), exact(word));
        }
        _ if is_name(word) => format!("write {0}=VALUE, {0}:=JSON, @FILE or -", exact(word)),
        _ => "write NAME=VALUE, NAME:=JSON, @FILE or -".into(),
    };
    format!("{} is not an argument; {instead}", quoted(word))
}

/// The text of `k=v`: of `k=@FILE` the content of the file, and of `k=@@x` the text `@x`.
fn text(name: &str, value: &str, limit: usize) -> Result<String, String> {
    let Some(path) = value.strip_prefix('@') else { return Ok(value.to_owned()) };
    if path.starts_with('@') {
        return Ok(path.to_owned());
    }
    let bytes = named_content(name, "=", path, limit)?;
    String::from_utf8(bytes).map_err(|_| format!("{}: this file is not text in UTF-8", shown(path.as_ref())))
}

/// The value of `k:=JSON`, and of `k:=@FILE`.
fn json(name: &str, value: &str, limit: usize) -> Result<Raw, String> {
    match value.strip_prefix('@') {
        None => Raw::parse(value.as_bytes().to_vec()).map_err(|error| {
            let text = shown(format!("{name}={value}").as_ref());
            format!("the value of {} is not JSON: {error}; as a text it is {text}", quoted(name))
        }),
        Some(path) => {
            let bytes = named_content(name, ":=", path, limit)?;
            Raw::parse(bytes).map_err(|error| format!("{} is not JSON: {error}", shown(path.as_ref())))
        }
    }
}

/// The content of the file behind the `@` of an argument.
fn named_content(name: &str, sign: &str, path: &str, limit: usize) -> Result<Vec<u8>, String> {
    let literal = || {
        let text = if sign == "=" { format!("@@{path}") } else { format!("\"@{path}\"") };
        format!("for the text @{} write {}", visible::line(path), exact(&format!("{name}{sign}{text}")))
    };
    if path.is_empty() {
        return Err(format!("{} names no file after the @; {}", quoted(name), literal()));
    }
    content(OsStr::new(path), limit).map_err(|problem| format!("{problem}; {}", literal()))
}

/// The path after the `@`.
fn file(operand: &OsStr) -> Option<OsString> {
    #[cfg(unix)]
    let path = {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        OsString::from_vec(operand.as_bytes().get(1..)?.to_vec())
    };
    #[cfg(not(unix))]
    let path = OsString::from(operand.to_str()?.get(1..)?);
    Some(path).filter(|path| !path.is_empty())
}

fn content(path: &OsStr, limit: usize) -> Result<Vec<u8>, String> {
    std::fs::File::open(path)
        .and_then(|file| bounded(file, limit))
        .map_err(|error| format!("{}: {error}", shown(path)))
}

/// Reads to the end. Fails where there are more than `limit` bytes.
fn bounded(from: impl Read, limit: usize) -> std::io::Result<Vec<u8>> {
    let too_long = || format!("longer than the limit of {limit} bytes (--max-message-size)");
    found::bounded(from, limit as u64)?.ok_or_else(|| std::io::Error::other(too_long()))
}

#[cfg(test)]
mod tests;
