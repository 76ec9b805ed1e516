//! The text of a file of fish, as statements with their words
//! (<https://fishshell.com/docs/current/language.html#syntax>).
//!
//! Called by `fish`. It expands nothing.

/// A command, or the head of a block.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) line: usize,
    pub(super) joint: Joint,
    pub(super) words: Vec<Word>,
    /// What it says is read by the next one.
    pub(super) piped: bool,
    /// As it is written.
    pub(super) text: String,
}

/// When it is run, by how the one before went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    Always,
    And,
    Or,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Word(pub(super) Vec<Part>);

#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(String),
    Home,
    Variable {
        name: String,
        quoted: bool,
    },
    /// What a command says; its text.
    Output(String),
    /// Something that is not computed here.
    Unknown,
}

impl Statement {
    pub(super) fn head(&self) -> &str {
        self.words.first().and_then(Word::text).unwrap_or_default()
    }
}

impl Word {
    /// The word, where it is a plain text.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.0[..] {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    fn push(&mut self, character: char) {
        match self.0.last_mut() {
            Some(Part::Text(text)) => text.push(character),
            _ => self.0.push(Part::Text(character.into())),
        }
    }
}

/// All of them, and the line of what could not be read, where there is such a thing.
pub(super) fn statements(text: &str) -> (Vec<Statement>, Option<usize>) {
    let mut reader = Reader { chars: text.chars().collect(), at: 0, line: 1, all: Vec::new() };
    let unread = reader.read().is_none().then_some(reader.line);
    (reader.all, unread)
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
    all: Vec<Statement>,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += 1;
        if character == '\n' {
            self.line += 1;
        }
        Some(character)
    }

    fn looks_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(place, character)| self.chars.get(self.at + place) == Some(&character))
    }

    /// `None`: a quote or a bracket has no end.
    fn read(&mut self) -> Option<()> {
        let mut words: Vec<Word> = Vec::new();
        let (mut joint, mut line, mut from) = (Joint::Always, 1, 0);
        loop {
            let end = self.at;
            let (over, next, piped) = match self.peek() {
                None => (true, Joint::Always, false),
                Some('\n' | ';') => (true, Joint::Always, false),
                Some('&') if self.looks_at("&&") => (true, Joint::And, false),
                Some('|') if self.looks_at("||") => (true, Joint::Or, false),
                Some('|') => (true, Joint::Always, true),
                Some('&') => (true, Joint::Always, false),
                _ => (false, Joint::Always, false),
            };
            if over {
                self.statement(std::mem::take(&mut words), joint, line, piped, from..end);
                joint = next;
                if self.looks_at("&&") || self.looks_at("||") {
                    self.at += 1;
                }
                if self.next().is_none() {
                    return Some(());
                }
                continue;
            }
            match self.peek() {
                Some(' ' | '\t' | '\r') => _ = self.next(),
                Some('\\') if matches!(self.chars.get(self.at + 1), Some('\n')) => self.skip(2),
                Some('#') => {
                    while self.peek().is_some_and(|character| character != '\n') {
                        self.at += 1;
                    }
                }
                // Where something is written to or read from matters to nobody here.
                Some('<' | '>') => {
                    self.next();
                    while matches!(self.peek(), Some('>' | '&' | '?' | ' ')) {
                        self.next();
                    }
                    self.word()?;
                }
                _ => {
                    if words.is_empty() {
                        (line, from) = (self.line, self.at);
                    }
                    let word = self.word()?;
                    // `2>/dev/null` begins with a number.
                    let number =
                        word.text().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                    if !(number && matches!(self.peek(), Some('<' | '>'))) {
                        words.push(word);
                    }
                }
            }
        }
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.next();
        }
    }

    fn statement(
        &mut self,
        mut words: Vec<Word>,
        mut joint: Joint,
        line: usize,
        piped: bool,
        text: std::ops::Range<usize>,
    ) {
        loop {
            let own = match words.first().and_then(Word::text) {
                Some("and") => Joint::And,
                Some("or") => Joint::Or,
                // Blocks of which each line stands for itself.
                Some("time" | "builtin") => joint,
                _ => break,
            };
            joint = own;
            words.remove(0);
        }
        if words.is_empty() {
            return;
        }
        let text = self.chars[text].iter().collect();
        self.all.push(Statement { line, joint, words, piped, text });
    }

    fn word(&mut self) -> Option<Word> {
        let mut word = Word::default();
        let start = self.at;
        while let Some(character) = self.peek() {
            match character {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' => break,
                '\\' => {
                    self.next();
                    match self.next()? {
                        '\n' => {}
                        character => word.push(character),
                    }
                }
                '\'' => {
                    self.next();
                    word.0.push(Part::Text(String::new()));
                    loop {
                        match self.next()? {
                            '\'' => break,
                            '\\' if matches!(self.peek(), Some('\'' | '\\')) => word.push(self.next()?),
                            character => word.push(character),
                        }
                    }
                }
                '"' => self.double(&mut word)?,
                '$' => self.dollar(&mut word, false)?,
                '(' => word.0.push(Part::Output(self.balanced()?)),
                '~' if self.at == start
                    && self.chars.get(self.at + 1).is_none_or(|next| " \t\r\n;/".contains(*next)) =>
                {
                    self.next();
                    word.0.push(Part::Home);
                }
                '{' | '}' | '*' => {
                    self.next();
                    word.0.push(Part::Unknown);
                }
                character => {
                    self.next();
                    word.push(character);
                }
            }
        }
        if self.at == start {
            // A sign that stands nowhere in the grammar.
            self.next()?;
            return Some(Word(vec![Part::Unknown]));
        }
        // Pieces of text that touch are one.
        let mut joined = Word::default();
        for part in word.0 {
            match (joined.0.last_mut(), part) {
                (Some(Part::Text(text)), Part::Text(more)) => text.push_str(&more),
                (_, part) => joined.0.push(part),
            }
        }
        Some(joined)
    }

    fn double(&mut self, word: &mut Word) -> Option<()> {
        self.next();
        word.0.push(Part::Text(String::new()));
        loop {
            match self.peek()? {
                '"' => {
                    self.next();
                    return Some(());
                }
                '\\' => {
                    self.next();
                    match self.next()? {
                        '\n' => {}
                        character @ ('"' | '$' | '\\') => word.push(character),
                        character => {
                            word.push('\\');
                            word.push(character);
                        }
                    }
                }
                '$' => self.dollar(word, true)?,
                character => {
                    self.next();
                    word.push(character);
                }
            }
        }
    }

    fn dollar(&mut self, word: &mut Word, quoted: bool) -> Option<()> {
        self.next();
        if self.peek() == Some('(') {
            let command = self.balanced()?;
            word.0.push(Part::Output(command));
            return Some(());
        }
        let braces = self.peek() == Some('{');
        if braces {
            self.next();
        }
        let mut name = String::new();
        while let Some(character) =
            self.peek().filter(|character| character.is_alphanumeric() || *character == '_')
        {
            name.push(character);
            self.next();
        }
        if braces && self.next()? != '}' {
            return None;
        }
        // An element of it, a variable by the name in another, or a `$` alone.
        if name.is_empty() || self.peek() == Some('[') {
            word.0.push(Part::Unknown);
        } else {
            word.0.push(Part::Variable { name, quoted });
        }
        Some(())
    }

    /// What is between brackets.
    fn balanced(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut depth = 0_usize;
        loop {
            let character = self.next()?;
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\\' => {
                    text.push(character);
                    text.push(self.next()?);
                    continue;
                }
                '\'' | '"' => {
                    text.push(character);
                    loop {
                        let inner = self.next()?;
                        text.push(inner);
                        match inner {
                            '\\' => text.push(self.next()?),
                            inner if inner == character => break,
                            _ => {}
                        }
                    }
                    continue;
                }
                _ => {}
            }
            text.push(character);
            if depth == 0 {
                // Without the brackets themselves.
                let inner = text.get(1..text.len() - 1).unwrap_or_default();
                return Some(inner.to_owned());
            }
        }
    }
}
