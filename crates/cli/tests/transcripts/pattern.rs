//! Matches a message of the server with the pattern in a line of a transcript.

use std::collections::BTreeMap;

use serde_json::Value;

/// The values stored under a name: `"$=name"` in one line stores a value, `"$name"` in later lines is replaced by it.
pub(crate) type Kept = BTreeMap<String, Value>;

/// In an object: it may have more members. At the end of an array: it may have more items.
const MORE: &str = "...";

/// Compares a message with a pattern. The error names the place that differs.
pub(crate) fn matches(pattern: &Value, seen: &Value, kept: &mut Kept) -> Result<(), String> {
    let mut found = kept.clone();
    at("", pattern, seen, &mut found)?;
    *kept = found;
    Ok(())
}

fn at(path: &str, pattern: &Value, seen: &Value, kept: &mut Kept) -> Result<(), String> {
    match (pattern, seen) {
        (Value::String(word), _) if word.starts_with('$') => placeholder(path, word, seen, kept),
        (Value::Object(expected), Value::Object(there)) => {
            for (name, value) in expected.iter().filter(|(name, _)| *name != MORE) {
                let member = there.get(name).ok_or_else(|| format!("{path}: `{name}` is missing"))?;
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                at(&path, value, member, kept)?;
            }
            let extra =
                there.keys().find(|name| !expected.contains_key(*name) && !expected.contains_key(MORE));
            extra.map_or(Ok(()), |name| Err(format!("{path}: `{name}` is too much")))
        }
        (Value::Array(expected), Value::Array(there)) => {
            if let [Value::String(each), every] = &expected[..]
                && each == "$each"
            {
                let mut items = there.iter().enumerate();
                return match there.is_empty() {
                    true => Err(format!("{path} is empty")),
                    false => {
                        items.try_for_each(|(place, item)| at(&format!("{path}[{place}]"), every, item, kept))
                    }
                };
            }
            if let [Value::String(some), one] = &expected[..]
                && some == "$some"
            {
                let found = there.iter().any(|item| at(path, one, item, kept).is_ok());
                return if found { Ok(()) } else { Err(format!("{path}: no item is {one}")) };
            }
            let (expected, more) = match expected.split_last() {
                Some((Value::String(word), rest)) if word == MORE => (rest, true),
                _ => (&expected[..], false),
            };
            if there.len() < expected.len() || (there.len() > expected.len() && !more) {
                return Err(format!("{path}: {} items instead of {}", there.len(), expected.len()));
            }
            let mut pairs = expected.iter().zip(there).enumerate();
            pairs.try_for_each(|(place, (value, item))| at(&format!("{path}[{place}]"), value, item, kept))
        }
        _ if pattern == seen => Ok(()),
        _ => Err(format!("{path}: {seen} instead of {pattern}")),
    }
}

fn placeholder(path: &str, word: &str, seen: &Value, kept: &mut Kept) -> Result<(), String> {
    let fits = match word {
        "$any" => true,
        "$string" => seen.is_string(),
        "$number" => seen.is_number(),
        "$time" => seen.as_str().is_some_and(|time| time.len() >= 20 && time.ends_with('Z')),
        _ => {
            if let Some(name) = word.strip_prefix("$=") {
                kept.insert(name.to_owned(), seen.clone());
                return Ok(());
            }
            let known = kept.get(&word[1..]).ok_or_else(|| format!("{path}: nothing is kept as {word}"))?;
            known == seen
        }
    };
    if fits { Ok(()) } else { Err(format!("{path}: {seen} instead of {word}")) }
}

/// The line with the names replaced by the stored values.
pub(crate) fn filled_in(line: &Value, kept: &Kept) -> Value {
    match line {
        Value::String(word) => {
            let known = word.strip_prefix('$').and_then(|name| kept.get(name));
            known.unwrap_or(line).clone()
        }
        Value::Array(items) => items.iter().map(|item| filled_in(item, kept)).collect(),
        Value::Object(members) => {
            // The name of a member may also be a stored value: that of an input request.
            let member = |(name, value): (&String, &Value)| {
                let known = name.strip_prefix('$').and_then(|name| kept.get(name)?.as_str());
                (known.unwrap_or(name).to_owned(), filled_in(value, kept))
            };
            members.iter().map(member).collect()
        }
        _ => line.clone(),
    }
}
