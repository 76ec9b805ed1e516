//! `--header`: the headers that are sent with every request over HTTP, typed or kept in a file.
//!
//! Called by `connect::plan`. It puts no value into a message: it may be a secret.

use std::ffi::OsString;
use std::path::Path;

use super::file;
use crate::failure::Failure;
use crate::target::shown;

/// A file of headers is no larger: servers take no more than that together.
const LARGEST: u64 = 64 << 10;
const FORM: &str = "--header 'Name: value', or --header @FILE with one in each line";

/// Names and values, in the order in which they were given.
pub(super) fn headers(words: &[OsString]) -> Result<Vec<(String, String)>, Failure> {
    let mut headers = Vec::new();
    for word in words {
        let text = word.to_str().ok_or_else(|| Failure::usage("a header is not Unicode", FORM))?;
        match text.strip_prefix('@') {
            None => headers.push(header(text).ok_or_else(|| unusable("a header"))?),
            Some(file) => {
                let text = read(Path::new(file))?;
                for (place, line) in text.lines().enumerate() {
                    if !line.trim().is_empty() {
                        let place = format!("line {} of {}", place + 1, shown(file.as_ref()));
                        headers.push(header(line).ok_or_else(|| unusable(&place))?);
                    }
                }
            }
        }
    }
    Ok(headers)
}

fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let sound = !name.is_empty() && !name.contains(char::is_whitespace);
    let value = value.trim();
    (sound && !value.contains(char::is_control)).then(|| (name.to_owned(), value.to_owned()))
}

fn unusable(place: &str) -> Failure {
    Failure::usage(format!("{place} is not of the form Name: value"), FORM)
}

fn read(path: &Path) -> Result<String, Failure> {
    let file = shown(path.as_os_str());
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("the headers in {file} cannot be read: {why}"), FORM)
    };
    let bytes = file::read(path, LARGEST).map_err(|why| cannot(&why))?;
    String::from_utf8(bytes).map_err(|_| cannot(&"it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::headers;
    use crate::found::Zeros;

    #[test]
    fn headers_are_a_name_and_a_value() {
        let read = headers(&["A: b: c ".into(), "x-y:z".into(), "Empty:".into()]).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read, [pair("A", "b: c"), pair("x-y", "z"), pair("Empty", "")]);
    }

    #[test]
    fn what_is_no_header_is_refused_and_not_shown() {
        for word in ["hunter2", ": hunter2", "A B: hunter2", "A: hunter2\r\nB: c", "A : hunter2"] {
            let failure = headers(&[word.into()]).unwrap_err();
            assert!(!failure.message.contains("hunter2"), "{}", failure.message);
            assert!(failure.message.contains("Name: value"), "{}", failure.message);
        }
    }

    #[test]
    fn a_file_of_headers_has_64_kib_at_most() {
        // What is in it is no header; whether it is read is what counts.
        let why = |bytes: u64| {
            let file = Zeros::new("headers", bytes);
            headers(&[format!("@{}", file.0.display()).into()]).unwrap_err().message
        };
        assert!(why(65_536).starts_with("line 1 of "), "{}", why(65_536));
        assert!(why(65_537).ends_with("it has more than the 65536 bytes that are read"), "{}", why(65_537));
    }

    #[test]
    fn a_file_of_headers_is_read_line_by_line() {
        let path = std::env::temp_dir().join(format!("mcpjoin-headers-{}", std::process::id()));
        std::fs::write(&path, "A: b\n\nC: d\r\n").unwrap();
        let word = format!("@{}", path.display());
        let read = headers(&[word.clone().into()]);
        std::fs::write(&path, "A: b\nhunter2\n").unwrap();
        let failure = headers(&[word.into()]).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap().len(), 2);
        assert!(failure.message.starts_with("line 2 of "), "{}", failure.message);
        assert!(headers(&["@/nowhere/at/all".into()]).unwrap_err().message.contains("/nowhere/at/all"));
    }
}
