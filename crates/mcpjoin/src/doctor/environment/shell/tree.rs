//! What a file of settings says, as a tree: made by `syntax`, followed by `shell`.

use std::rc::Rc;

/// Commands one after the other.
pub(super) type List = Vec<Item>;
/// A word, in pieces.
pub(super) type Word = Vec<Piece>;

/// One command with those that depend on how it went.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) line: usize,
    pub(super) chain: Vec<(Joint, Command)>,
}

/// When a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    Always,
    And,
    Or,
}

#[derive(Debug)]
pub(super) enum Command {
    Simple {
        assignments: Vec<Assignment>,
        words: Vec<Word>,
    },
    Not(Box<Self>),
    If {
        arms: Vec<(List, List)>,
        otherwise: List,
    },
    Case {
        word: Word,
        arms: Vec<(Vec<Word>, List)>,
    },
    For {
        name: String,
        words: Vec<Word>,
        body: List,
    },
    Group(List),
    Function(String, Rc<List>),
    /// What is between `[[` and `]]`.
    Condition(Vec<Word>),
    /// It changes nothing that outlives it, and how it went is not known: a pipeline, a subshell, arithmetic.
    Apart,
    /// A loop, of which nobody knows how often it is gone through.
    Loop(List),
}

#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) append: bool,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Text(Word),
    Array(Vec<Word>),
}

#[derive(Debug, Clone)]
pub(super) enum Piece {
    Text {
        text: String,
        quoted: bool,
    },
    Variable {
        name: String,
        how: How,
        quoted: bool,
    },
    /// What a command says; its text.
    Output(String),
}

/// What stands in the place of a variable.
#[derive(Debug, Clone)]
pub(super) enum How {
    Plain,
    /// This, when it is not set (or empty, too).
    Or {
        empty: bool,
        word: Word,
    },
    /// This, when it is set (and not empty).
    Instead {
        empty: bool,
        word: Word,
    },
    /// Something that is not computed here.
    Opaque,
}
