//! From operands to the arguments of a tool or a prompt: `k=v` takes the type in the tool's input schema; `k:=JSON`, `@FILE` and `-`
//! are JSON. No number and no text is changed.
//!
//! Called by `commands::call` and `commands::prompt`. The schema only decides the kind of JSON for a word. The server validates the
//! values.

mod schema;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::Read;

use mcpjoin::proto::Raw;

use crate::config::similar;
use crate::found;
use crate::object::{self, Object};
use crate::target::shown;
use schema::Kinds;
pub(crate) use schema::Schema;

/// The unknown names that are compared with those of the schema: an object from a file may have many.
const MAX_COMPARED_NAMES: usize = 10;

/// Arguments as typed, checked as far as possible without the tool.
#[derive(Debug, PartialEq)]
pub(crate) struct Typed {
    /// In the order of the operands. A name may be there several times, where all but one come from objects.
    members: Vec<(String, Typing)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Typing {
    /// `k=v`: the schema decides its type.
    Word(String),
    /// `k:=JSON`
    Json(Raw),
    /// A member of an object.
    Member(Raw),
}

impl Typed {
    /// Parses the operands after the tool's name, and `--args`. Files and standard input are read here, at most `limit` bytes each.
    pub(crate) fn read(object: Option<&str>, operands: &[OsString], limit: usize) -> Result<Self, String> {
        let mut typed = Self { members: Vec::new() };
        if let Some(text) = object {
            typed.object("--args", text.as_bytes().to_vec())?;
        }
        for operand in operands {
            typed.operand(operand, limit)?;
        }
        Ok(typed)
    }

    fn operand(&mut self, operand: &OsStr, limit: usize) -> Result<(), String> {
        if operand == "-" {
            let bytes =
                bounded(std::io::stdin().lock(), limit).map_err(|e| format!("standard input: {e}"))?;
            return self.object("standard input", bytes);
        }
        // The name of a file need not be Unicode.
        if operand.as_encoded_bytes().first() == Some(&b'@') {
            let path = file(operand).ok_or_else(|| format!("{} names no file", shown(operand)))?;
            let bytes = std::fs::File::open(&path)
                .and_then(|file| bounded(file, limit))
                .map_err(|error| format!("{}: {error}", shown(&path)))?;
            return self.object(&shown(&path), bytes);
        }
        let word = operand.to_str().ok_or_else(|| format!("{} is not Unicode", shown(operand)))?;
        if word.starts_with('{') {
            return Err("an object as a whole is given with --args '{...}', @FILE or -".into());
        }
        let Some((name, value)) = word.split_once('=') else {
            return Err(format!(
                "{} is no argument: name=value, name:=JSON, @FILE and - are",
                shown(operand)
            ));
        };
        let (name, typing) = match name.strip_suffix(':') {
            None => (name, Typing::Word(value.to_owned())),
            Some(name) => {
                let json = Raw::parse(value.as_bytes().to_vec())
                    .map_err(|error| format!("the value of {} is not JSON: {error}", shown(name.as_ref())))?;
                (name, Typing::Json(json))
            }
        };
        if name.is_empty() {
            return Err(format!("{} has no name before the =", shown(operand)));
        }
        let again =
            self.members.iter().any(|(known, typing)| known == name && !matches!(typing, Typing::Member(_)));
        if again {
            return Err(format!("{} is given twice", shown(name.as_ref())));
        }
        self.members.push((name.to_owned(), typing));
        Ok(())
    }

    fn object(&mut self, from: &str, bytes: Vec<u8>) -> Result<(), String> {
        let object = Raw::parse(bytes).map_err(|error| format!("{from} is not JSON: {error}"))?;
        let object = Object::of(&object)
            .ok_or_else(|| format!("{from} must be a JSON object without a name twice"))?;
        self.members.extend(object.into_iter().map(|(name, value)| (name, Typing::Member(value))));
        Ok(())
    }

    /// Whether the schema of the tool is needed.
    pub(crate) fn need_schema(&self) -> bool {
        self.members.iter().any(|(_, typing)| matches!(typing, Typing::Word(_)))
    }

    /// The names that the schema does not have, each with a similar name of the schema that was not given.
    pub(crate) fn mistyped(&self, schema: &serde_json::Value) -> Vec<(&str, String)> {
        let Some(properties) = schema.get("properties").and_then(|properties| properties.as_object()) else {
            return Vec::new();
        };
        let given: HashSet<&str> = self.members.iter().map(|(name, _)| name.as_str()).collect();
        // A name in a part of the schema is known, too.
        let mut schema = Schema::new(schema);
        let mut is_known = |name: &str| properties.contains_key(name) || schema.may_have(name);
        let unknown = self.members.iter().filter(|(name, _)| !is_known(name));
        unknown
            .take(MAX_COMPARED_NAMES)
            .filter_map(|(name, _)| {
                let missing = properties.keys().map(String::as_str).filter(|known| !given.contains(known));
                similar(name, missing).map(|meant| (name.as_str(), meant.to_owned()))
            })
            .collect()
    }

    /// The arguments as one object. Without a schema every word is a string.
    pub(crate) fn object_for(self, schema: Option<&serde_json::Value>) -> Result<Raw, String> {
        let mut schema = schema.map(Schema::new);
        let members = self.merged(|name, typing| match typing {
            Typing::Json(value) | Typing::Member(value) => Ok(value),
            Typing::Word(word) => {
                let kinds = schema.as_mut().map_or(Kinds::UNKNOWN, |schema| schema.kinds(name));
                kinds.value(&word).ok_or_else(|| {
                    format!(
                        "the tool wants {} for {}, which {} is not; {}:=JSON says exactly what to send",
                        kinds.names(),
                        shown(name.as_ref()),
                        shown(word.as_ref()),
                        shown(name.as_ref()),
                    )
                })
            }
        })?;
        // Parsed again, since the object may be one level too deep.
        let text = object::write(members);
        Raw::parse(text).map_err(|error| format!("the arguments cannot be sent: {error}"))
    }

    /// The arguments of a prompt, which are texts.
    pub(crate) fn texts(self) -> Result<BTreeMap<String, String>, String> {
        let members = self.merged(|name, typing| match typing {
            Typing::Word(word) => Ok(word),
            Typing::Json(value) | Typing::Member(value) => match value.to_string_value() {
                Some(text) => Ok(text.into_owned()),
                None => Err(format!(
                    "{} must be a text, which {} is not; {}=VALUE sends VALUE as it stands",
                    shown(name.as_ref()),
                    shown(value.as_str().as_ref()),
                    shown(name.as_ref()),
                )),
            },
        })?;
        Ok(members.into_iter().collect())
    }

    /// Each name once. A single argument wins over a member of an object, and a later object over an earlier one.
    fn merged<T>(
        self,
        mut value: impl FnMut(&str, Typing) -> Result<T, String>,
    ) -> Result<Vec<(String, T)>, String> {
        let mut members: Vec<(String, T)> = Vec::with_capacity(self.members.len());
        let mut is_single: Vec<bool> = Vec::with_capacity(self.members.len());
        // A file may have hundreds of thousands of names.
        let mut places: HashMap<String, usize> = HashMap::with_capacity(self.members.len());
        for (name, typing) in self.members {
            let single = !matches!(typing, Typing::Member(_));
            match places.get(&name).copied() {
                None => {
                    let value = value(&name, typing)?;
                    places.insert(name.clone(), members.len());
                    members.push((name, value));
                    is_single.push(single);
                }
                Some(place) if single || !is_single[place] => {
                    members[place].1 = value(&name, typing)?;
                    is_single[place] = single;
                }
                Some(_) => {}
            }
        }
        Ok(members)
    }
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

/// Reads to the end. Fails where there are more than `limit` bytes.
fn bounded(from: impl Read, limit: usize) -> std::io::Result<Vec<u8>> {
    let too_long = || format!("longer than the limit of {limit} bytes (--max-message-size)");
    found::bounded(from, limit as u64)?.ok_or_else(|| std::io::Error::other(too_long()))
}

#[cfg(test)]
mod tests;
