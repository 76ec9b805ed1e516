//! Tests of result parts that are too large to print and are written to files.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::support::{answering, command, legacy, line, run, scratch, start};
use super::terminal::{remaining, seen};

/// A folder for the files of a test, removed at its end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = Self(scratch(name));
        std::fs::create_dir_all(&place.0).unwrap();
        place
    }

    /// The paths of the files that were written.
    fn written(&self) -> Vec<PathBuf> {
        let below = |path: &Path| -> Vec<PathBuf> {
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let mut files: Vec<PathBuf> =
            below(&self.0).iter().filter(|path| path.is_dir()).flat_map(|folder| below(folder)).collect();
        files.sort();
        files
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_part_that_is_too_large_goes_to_a_private_file() {
    let place = Place::new("spill-parts");
    let mut call = command(["call", "--spill", "20", "demo:full", "test_multiple_content_types"]);
    call.env("TMPDIR", &place.0);
    let ran = start(call).finish().exits(0);
    let files = place.written();
    assert!(!files.is_empty(), "{}", ran.stdout);
    for file in &files {
        let path = file.to_str().unwrap();
        assert!(ran.stdout.contains(&format!(", in {path}]")), "{path} is not in {}", ran.stdout);
        assert!(ran.stderr.contains(&format!(" bytes written to {path}")), "{}", ran.stderr);
        let mode = std::fs::metadata(file.parent().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    let picture = files.iter().find(|file| file.extension().is_some_and(|end| end == "png")).unwrap();
    assert!(std::fs::read(picture).unwrap().starts_with(b"\x89PNG"));
    line("call --spill 20 --json demo: echo message=hi").exits(2).says(&["--spill", "--json"]);
}

#[test]
fn what_is_no_base64_is_kept_as_it_came_and_reported() {
    let place = Place::new("spill-undecoded");
    let data = "!not-base64!".repeat(4);
    let script = legacy(&answering(&format!(
        r#"{{"content":[{{"type":"text","text":"seen"}},{{"type":"image","mimeType":"image/png","data":"{data}"}}]}}"#
    )));
    let words = ["call", "--spill", "20", "--era", "legacy", "--force", "x", "--", "sh", "-c", &script];
    let mut call = command(words);
    call.env("TMPDIR", &place.0);
    let ran = start(call).finish().exits(5);
    let files = place.written();
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), data);
    let path = files[0].to_str().unwrap();
    assert!(ran.stdout.starts_with("seen\n[image, image/png, "), "{}", ran.stdout);
    assert!(ran.stdout.contains(&format!("not base64, unchanged in {path}]")), "{}", ran.stdout);
    let ran = ran.says(&["(E_BAD_REPLY)", "the data of the image is not base64", path]);
    assert!(!ran.stderr.contains(&data), "{}", ran.stderr);
    // Without decoding, the base64 is not checked.
    run(words.into_iter().filter(|word| !matches!(*word, "--spill" | "20"))).exits(0);
}

#[test]
fn a_terminal_has_a_limit_and_a_pipe_has_none() {
    let place = Place::new("spill-terminal");
    let (tmp, file) = (place.0.to_str().unwrap(), place.0.join("arguments"));
    let long = "x".repeat((1 << 20) + 1);
    std::fs::write(&file, format!(r#"{{"message":"{long}"}}"#)).unwrap();
    let at = format!("@{}", file.display());
    let mut call = command(["call", "demo:", "echo", &at]);
    call.env("TMPDIR", tmp);
    let piped = start(call).finish().exits(0);
    assert!(piped.stdout.trim_end() == long && piped.stderr.is_empty(), "{}", piped.stderr);
    assert_eq!(place.written(), Vec::<PathBuf>::new());
    let shown = seen(&[("TMPDIR", tmp), ("NO_COLOR", "1")], "", "", &["call", "demo:", "echo", &at]);
    assert_eq!(shown.exit, 0, "{:?}", shown.shown);
    let files = place.written();
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), long);
    let said = remaining(&shown.shown);
    let path = files[0].to_str().unwrap();
    // The terminal wraps words that do not fit on a line.
    let said: Vec<&str> = said.split_whitespace().collect();
    let expected = format!("1048577 bytes written to {path} [text, 1048577 characters, in {path}]");
    assert_eq!(said.join(" "), expected);
    // If no file can be written, the command says so and prints the part.
    let mut call = command(["call", "--spill", "1", "demo:", "echo", "message=hi"]);
    call.env("TMPDIR", "/nowhere");
    let ran = start(call).finish().exits(0);
    assert_eq!(ran.stdout, "hi\n");
    ran.says(&["cannot be written to /nowhere", "TMPDIR"]);
    // What was asked for has failed if it is not written.
    let ran = line("call --output /proc/nowhere demo:full test_image_content").exits(2);
    ran.says(&["(E_OUTPUT)", "/proc/nowhere could not be written"]);
}
