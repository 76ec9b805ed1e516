//! What every dialect becomes once their syntax is understood: values with their places. Both members of a pair with
//! the same name stay, so that it can be told.

use std::time::Duration;

use super::called;
use super::source::Problem;

/// Nobody means to wait longer.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    /// As it is written.
    Number(String),
    Bool(bool),
    Null,
    List(Vec<Node>),
    Table(Vec<Member>),
    /// A date of TOML, which has no meaning here.
    Date,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// Where the name stands.
    pub(super) at: usize,
    pub(super) node: Node,
}

/// A text and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) at: usize,
    pub(super) text: String,
}

/// What a file holds, its entries not looked into yet: so none of them hides another.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<Entry>,
    /// What is wrong beside the entries, or not understood.
    pub(super) warnings: Vec<Problem>,
    /// For the entries that have none of their own.
    pub(super) timeout: Option<Duration>,
    /// So many of its servers are run at once.
    pub(super) at_once: Option<usize>,
    /// What VS Code asks its user for.
    pub(super) inputs: Vec<Input>,
}

/// A value that an entry names with `${input:ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) id: String,
    pub(super) description: Option<String>,
    pub(super) default: Option<String>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) at: usize,
    pub(super) node: Node,
}

impl Node {
    const fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a string",
            Value::Number(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Null => "null",
            Value::List(_) => "a list",
            Value::Table(_) => "an object",
            Value::Date => "a date",
        }
    }

    fn not(&self, name: &str, wanted: &str) -> Problem {
        Problem::new(self.at, format!("{name} must be {wanted}, and is {}", self.kind()))
    }

    pub(super) fn text(&self, name: &str) -> Result<Text, Problem> {
        match &self.value {
            Value::Text(text) => Ok(Text { at: self.at, text: text.clone() }),
            _ => Err(self.not(name, "a string")),
        }
    }

    pub(super) fn bool(&self, name: &str) -> Result<bool, Problem> {
        match self.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.not(name, "true or false")),
        }
    }

    pub(super) fn items(&self, name: &str) -> Result<&[Self], Problem> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.not(name, "a list")),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<Text>, Problem> {
        match &self.value {
            Value::List(items) => items.iter().map(|item| item.text(&format!("each of {name}"))).collect(),
            _ => Err(self.not(name, "a list of strings")),
        }
    }

    pub(super) fn members(&self, name: &str) -> Result<&[Member], Problem> {
        match &self.value {
            Value::Table(members) => Ok(members),
            _ => Err(self.not(name, "an object")),
        }
    }

    /// A whole number from 0 on.
    pub(super) fn whole(&self, name: &str) -> Result<u64, Problem> {
        match &self.value {
            Value::Number(number) => {
                number.parse().map_err(|_| Problem::new(self.at, format!("{name} must be a whole number")))
            }
            _ => Err(self.not(name, "a number")),
        }
    }

    /// A time in seconds, which may have a fraction: above nothing and up to a day.
    pub(super) fn seconds(&self, name: &str) -> Result<Duration, Problem> {
        let Value::Number(number) = &self.value else {
            return Err(self.not(name, "a number"));
        };
        let seconds = number.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds
            .filter(|time| !time.is_zero() && *time <= DAY)
            .ok_or_else(|| Problem::new(self.at, format!("{name} must be above 0 and at most a day")))
    }

    /// A time in units of so many milliseconds: above nothing and up to a day, as on the command line.
    pub(super) fn time(&self, name: &str, unit: u64) -> Result<Duration, Problem> {
        let time = self.whole(name)?.checked_mul(unit).map(Duration::from_millis);
        time.filter(|time| !time.is_zero() && *time <= DAY)
            .ok_or_else(|| Problem::new(self.at, format!("{name} must be from 1 on and at most a day")))
    }
}

/// The members of a table, taken one by one; what is left is not understood.
pub(super) struct Fields<'a> {
    members: &'a [Member],
    known: Vec<&'static str>,
    /// What may stand there and means nothing here.
    ignored: &'static [&'static str],
}

impl<'a> Fields<'a> {
    pub(super) const fn new(members: &'a [Member]) -> Self {
        Self { members, known: Vec::new(), ignored: &[] }
    }

    /// The member of that name, which has several spellings. What is null is not there.
    pub(super) fn take(&mut self, spellings: &[&'static str]) -> Result<Option<&'a Member>, Problem> {
        self.known.extend(spellings);
        let mut found = self.members.iter().filter(|member| spellings.contains(&member.name.as_str()));
        let first = found.next();
        if let Some(second) = found.next() {
            let first = first.map_or(second.name.as_str(), |first| first.name.as_str());
            let text = if first == second.name {
                format!("{} is given twice", called(first))
            } else {
                format!("{} and {} are the same", called(first), called(&second.name))
            };
            return Err(Problem::new(second.at, text));
        }
        Ok(first.filter(|member| !matches!(member.node.value, Value::Null)))
    }

    /// These mean nothing here, and are not told. Nobody is thought to have meant one of them.
    pub(super) const fn ignore(&mut self, names: &'static [&'static str]) {
        self.ignored = names;
    }

    /// What nobody has taken.
    pub(super) fn unknown(&self) -> impl Iterator<Item = Problem> {
        /// Comparing takes time, and who has so many of them has not mistyped.
        const COMPARED: usize = 10;
        let unknown = self.members.iter().filter(|member| {
            let name = member.name.as_str();
            !self.known.contains(&name) && !self.ignored.contains(&name)
        });
        unknown.enumerate().map(|(place, member)| {
            let mut text = format!("{} is not known and not used", called(&member.name));
            if place < COMPARED
                && let Some(meant) = similar(&member.name, self.known.iter().copied())
            {
                text.push_str(&format!("; did you mean {meant}?"));
            }
            Problem::new(member.at, text)
        })
    }
}

/// The known word that was probably meant.
pub(crate) fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Names are not compared beyond this length: it takes the product of both lengths.
    const LONGEST: usize = 128;
    /// As alike as clap wants it for its own suggestions.
    const ALIKE: f64 = 0.7;
    if word.len() > LONGEST {
        return None;
    }
    let alike = |known: &'a str| (strsim::jaro(&word.to_lowercase(), &known.to_lowercase()), known);
    known
        .into_iter()
        .filter(|known| known.len() <= LONGEST)
        .map(alike)
        .filter(|(alike, _)| *alike > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, known)| known)
}
