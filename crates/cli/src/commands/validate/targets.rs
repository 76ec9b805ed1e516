//! Which servers are meant: the words, `--also`, or every entry of a configuration.

use std::ffi::OsString;

use crate::args::Validate;
use crate::commands::{misused, through_a_bridge};
use crate::config;
use crate::failure::Failure;
use crate::target::{self, Target};
use crate::ui::Ui;

/// What was typed.
pub(super) struct Named {
    pub(super) targets: Vec<Target>,
    /// More than one was asked for, or a whole configuration.
    pub(super) several: bool,
}

/// The servers in the order in which they are named. `escaped`: `--` stood before the first word.
pub(super) fn named(ui: &Ui, args: &mut Validate, escaped: bool) -> Result<Named, Failure> {
    let mut words = std::mem::take(&mut args.words);
    let also = std::mem::take(&mut args.also);
    let mut targets = Vec::new();
    let nobody = words.is_empty() && also.is_empty() && args.connect.server.is_none();
    if nobody && args.connect.configured.is_named() {
        return Ok(Named { targets: config::all(ui, &args.connect.configured)?, several: true });
    }
    let mut understood = |server: Option<&str>, words: Vec<OsString>, escaped: bool| {
        let invocation = target::without_operands("validate", server, words, escaped).map_err(misused)?;
        invocation.notes.iter().for_each(|note| ui.note(note));
        through_a_bridge(&invocation.target, "validate")?;
        targets.push(invocation.target);
        Ok::<(), Failure>(())
    };
    // What takes no words of its own ends where the next one begins.
    while !escaped && words.len() > 1 && follows(&words) {
        understood(None, vec![words.remove(0)], false)?;
    }
    if !words.is_empty() || args.connect.server.is_some() || also.is_empty() {
        understood(args.connect.server.as_deref(), words, escaped)?;
    }
    for word in also {
        understood(None, vec![word], false)?;
    }
    let several = targets.len() > 1;
    if several && args.connect.trace.is_some() {
        let problem = "--trace writes down what crosses to one server, and several are named";
        return Err(Failure::usage(problem, "leave out --trace, or name one server"));
    }
    Ok(Named { targets, several })
}

/// Whether the first word is a server all by itself, and what follows it is no option in the wrong place.
fn follows(words: &[OsString]) -> bool {
    let option = words.get(1).is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    !option && words.first().is_some_and(|word| target::stands_alone(word))
}
