//! A schema as an indented tree: a line for each property, with its type and its rules, its description below it, and then what
//! is inside it.

use std::fmt::Write;

use mcpjoin::proto::Walk;

use super::kind::Notation;
use super::{MAX_DEPTH, MAX_STEPS, MAX_VALUE_CHARS, MAX_VALUES, Node, Schema, View, named};
use crate::ui::NAME;
use crate::visible;

/// The most lines of a tree.
pub(super) const MAX_LINES: usize = 400;
/// The most lines of one description.
const MAX_DESCRIPTION_LINES: usize = 40;

struct Tree<'a> {
    schema: &'a Schema,
    out: String,
    lines_left: usize,
    walk: Walk,
    /// The addresses of the schemas around the place, to find one that contains itself.
    open: Vec<usize>,
}

impl Schema {
    /// The properties of the schema as a tree, behind this indentation. Empty where it has none.
    pub(crate) fn tree(&self, indent: usize) -> String {
        let mut tree = Tree {
            schema: self,
            out: String::new(),
            lines_left: MAX_LINES,
            walk: Walk::new(MAX_STEPS),
            open: Vec::new(),
        };
        let view = self.view(&self.root, &mut tree.walk);
        tree.inside(&view, indent, 0);
        tree.out
    }
}

impl<'a> Notation<'a> for Tree<'a> {
    const OR: &'static str = " or ";
    const DEPTH: usize = MAX_DEPTH + 1;

    fn schema(&self) -> &'a Schema {
        self.schema
    }

    fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }

    /// They are among the rules behind the kind.
    fn values(&self, _: &View<'a>) -> Vec<String> {
        Vec::new()
    }

    fn of_type(&mut self, name: &str, view: &View<'a>, depth: usize) -> String {
        if name == "array" { self.array(view, depth) } else { named(name) }
    }

    fn untyped(&self, view: &View<'a>) -> Vec<String> {
        let kind_of = |node: &Node| match node {
            Node::Leaf(raw) => format!("{:?}", raw.kind()).to_lowercase(),
            _ => "value".into(),
        };
        let mut kinds: Vec<String> = view.values().into_iter().map(kind_of).collect();
        if kinds.is_empty() && !view.is_nullable() {
            let lost = view.lost.as_deref().map(|lost| format!("the same as {}", named(lost)));
            kinds.push(lost.unwrap_or_else(|| "any value".into()));
        }
        kinds
    }
}

impl<'a> Tree<'a> {
    /// Writes a line. Returns false where the tree has all of its lines.
    fn line(&mut self, indent: usize, text: &str) -> bool {
        if self.lines_left == 0 || self.walk.left() == 0 {
            return false;
        }
        self.lines_left -= 1;
        if self.lines_left == 0 {
            let _ = writeln!(self.out, "{:indent$}… and more (see --json)", "");
            return false;
        }
        let _ = writeln!(self.out, "{:indent$}{text}", "");
        true
    }

    /// Writes a line for a property, its description, and what is inside it.
    fn property(&mut self, name: &str, node: &'a Node, is_required: bool, indent: usize, depth: usize) {
        let view = self.schema.view(node, &mut self.walk);
        let mut words = vec![self.kind(&view, depth)];
        words.extend(is_required.then(|| "required".into()));
        words.extend(facts(&view));
        words.extend(self.facts_of_items(&view));
        let again = view.parts.iter().any(|part| self.open.contains(&part.address()));
        words.extend((again && has_inside(&view)).then(|| "the same as the object around it".into()));
        if !self.line(indent, &format!("{NAME}{name}{NAME:#}  {}", words.join(", "))) {
            return;
        }
        self.description(&view, indent + 4);
        if !again {
            self.inside(&view, indent + 2, depth + 1);
        }
    }

    fn description(&mut self, view: &View<'_>, indent: usize) {
        let text = view.text("description").or_else(|| view.text("title")).unwrap_or_default();
        for line in text.trim().lines().take(MAX_DESCRIPTION_LINES) {
            if !self.line(indent, &visible::line(line)) {
                return;
            }
        }
    }

    /// Writes the properties, the items and the alternatives of a value.
    fn inside(&mut self, view: &View<'a>, indent: usize, depth: usize) {
        if !has_inside(view) {
            return;
        }
        if depth > MAX_DEPTH {
            self.line(indent, "… and more (see --json)");
            return;
        }
        let opened = self.open.len();
        self.open.extend(view.parts.iter().map(|part| part.address()));
        let required = view.required();
        for (name, node) in view.properties() {
            self.property(&named(name), node, required.contains(name), indent, depth);
        }
        if let Some(patterns) = view.get("patternProperties") {
            for (pattern, node) in patterns.members() {
                self.property(&format!("<name like {}>", named(pattern)), node, false, indent, depth);
            }
        }
        if let Some(node) = view.other_members() {
            self.property("<any name>", node, false, indent, depth);
        }
        for (place, node) in view.get("prefixItems").map_or(&[][..], Node::items).iter().enumerate() {
            self.property(&format!("[{place}]"), node, false, indent, depth);
        }
        if let Some(items) = view.items() {
            let items = self.schema.view(items, &mut self.walk);
            if !items.parts.iter().any(|part| self.open.contains(&part.address())) {
                self.inside(&items, indent, depth + 1);
            }
        }
        self.alternatives(view, indent, depth);
        for choice in &view.choices {
            let names: Vec<String> =
                choice.iter().take(MAX_VALUES).map(|names| named(&names.join(" and "))).collect();
            self.line(indent, &format!("one of these is required: {}", names.join(", ")));
        }
        if view.has(&["if", "not", "dependentRequired", "dependentSchemas", "dependencies"]) {
            self.line(indent, "(the schema has further conditions: see --json)");
        }
        self.open.truncate(opened);
    }

    /// Writes what is inside the alternatives, where their kinds do not say all.
    fn alternatives(&mut self, view: &View<'a>, indent: usize, depth: usize) {
        let views: Vec<View<'a>> = view
            .alternatives
            .iter()
            .take(MAX_VALUES)
            .map(|node| self.schema.view(node, &mut self.walk))
            .collect();
        let says_more = |view: &View<'_>| has_inside(view) || view.text("description").is_some();
        if !views.iter().any(says_more) || !self.line(indent, "one of:") {
            return;
        }
        for view in views {
            let mut words = vec![self.kind(&view, depth)];
            words.extend(facts(&view));
            let title = view.text("title").map_or_else(String::new, |title| format!("{}: ", named(&title)));
            if !self.line(indent, &format!("- {title}{}", words.join(", "))) {
                return;
            }
            let text = view.text("description").unwrap_or_default();
            for line in text.trim().lines().take(MAX_DESCRIPTION_LINES) {
                self.line(indent + 4, &visible::line(line));
            }
            if !view.parts.iter().any(|part| self.open.contains(&part.address())) {
                self.inside(&view, indent + 2, depth + 1);
            }
        }
    }

    /// An array with the type of its items.
    fn array(&mut self, view: &View<'a>, depth: usize) -> String {
        let Some(items) = view.items().filter(|_| depth <= MAX_DEPTH) else { return "array".into() };
        let items = self.schema.view(items, &mut self.walk);
        let kind = self.kind(&items, depth + 1);
        match kind.split_once(' ') {
            None => format!("array of {kind}s"),
            Some(("array", rest)) if !kind.contains(" or ") => format!("array of arrays {rest}"),
            Some(_) if kind == "any value" => "array".into(),
            Some(_) => format!("array of ({kind})"),
        }
    }

    /// The rules for each item of an array.
    fn facts_of_items(&mut self, view: &View<'a>) -> Option<String> {
        let items = self.schema.view(view.items()?, &mut self.walk);
        let facts = facts(&items);
        (!facts.is_empty()).then(|| format!("each {}", facts.join(", ")))
    }
}

/// Whether a value has lines of its own below it.
fn has_inside(view: &View<'_>) -> bool {
    !view.alternatives.is_empty()
        || !view.choices.is_empty()
        || view.items().is_some()
        || view.other_members().is_some()
        || view.has(&["properties", "patternProperties", "prefixItems", "if", "not"])
        || view.has(&["dependentRequired", "dependentSchemas", "dependencies"])
}

/// The rules for a value, in words.
fn facts(view: &View<'_>) -> Vec<String> {
    let mut facts = Vec::new();
    let values = view.values();
    match &values[..] {
        [] => {}
        [one] if view.has(&["const"]) => facts.push(format!("always {}", one.shown())),
        values => {
            let mut shown: Vec<String> = values.iter().take(MAX_VALUES).map(|value| value.shown()).collect();
            if values.len() > MAX_VALUES {
                shown.push(format!("{} more", values.len() - MAX_VALUES));
            }
            facts.push(format!("one of {}", shown.join(", ")));
        }
    }
    // Of a number it is the width in the memory of the server.
    let is_number = view.types().iter().any(|name| matches!(name.as_str(), "number" | "integer"));
    if let Some(format) = view.text("format").filter(|_| !is_number) {
        facts.push(format!("format {}", named(&format)));
    }
    facts.extend(bounds(view, "minimum", "maximum", ""));
    let number = |name: &str| view.get(name).filter(|node| node.number().is_some()).map(Node::shown);
    facts.extend(number("exclusiveMinimum").map(|least| format!("more than {least}")));
    facts.extend(number("exclusiveMaximum").map(|most| format!("less than {most}")));
    facts.extend(number("multipleOf").map(|step| format!("a multiple of {step}")));
    facts.extend(bounds(view, "minLength", "maxLength", "character"));
    facts.extend(
        view.text("pattern").map(|pattern| {
            format!("matches {}", visible::cut_chars(&visible::line(&pattern), MAX_VALUE_CHARS))
        }),
    );
    facts.extend(bounds(view, "minItems", "maxItems", "item"));
    facts.extend(bounds(view, "minProperties", "maxProperties", "member"));
    if view.get("uniqueItems").is_some_and(|unique| unique.is("true")) {
        facts.push("no duplicate items".into());
    }
    if let Some(default) = view.get("default") {
        facts.push(format!("default {}", default.shown()));
    } else if let Some(example) = view.get("examples").and_then(|examples| examples.items().first()) {
        facts.push(format!("for example {}", example.shown()));
    }
    facts
}

/// A range, of which one end may be missing. `noun`: what is counted.
fn bounds(view: &View<'_>, least: &str, most: &str, noun: &str) -> Option<String> {
    let number = |name: &str| view.get(name).filter(|node| node.number().is_some()).map(Node::shown);
    let (least, most) = (number(least), number(most));
    let unit = match most.as_ref().or(least.as_ref()) {
        _ if noun.is_empty() => String::new(),
        Some(count) if count == "1" => format!(" {noun}"),
        _ => format!(" {noun}s"),
    };
    Some(match (least, most) {
        (Some(least), Some(most)) if least == most => format!("exactly {least}{unit}"),
        (Some(least), Some(most)) => format!("{least} to {most}{unit}"),
        (Some(least), None) => format!("at least {least}{unit}"),
        (None, Some(most)) => format!("at most {most}{unit}"),
        (None, None) => return None,
    })
}
