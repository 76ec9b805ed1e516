//! A schema as one line: `edit_file(path: string, edits: {oldText: string, newText: string}[], dryRun?: boolean = false)`.

use mcpjoin::proto::Walk;

use super::kind::Notation;
use super::{MAX_STEPS, MAX_VALUES, Node, Schema, View, named};
use crate::visible;

/// The most characters of a signature.
pub(super) const MAX_CHARS: usize = 2_000;
/// Objects in objects below this depth are `object`.
const MAX_SIGNATURE_DEPTH: usize = 2;
/// The most characters of a default.
const MAX_DEFAULT_CHARS: usize = 40;

struct Signature<'a> {
    schema: &'a Schema,
    walk: Walk,
    /// The characters that are left.
    left: usize,
}

impl Schema {
    /// The parameters as one line, escaped.
    pub(crate) fn signature(&self) -> String {
        let mut signature = Signature { schema: self, walk: Walk::new(MAX_STEPS), left: MAX_CHARS };
        let view = self.view(&self.root, &mut signature.walk);
        visible::cut_chars(&signature.members(&view, 0), MAX_CHARS)
    }
}

impl<'a> Notation<'a> for Signature<'a> {
    const OR: &'static str = " | ";
    const DEPTH: usize = MAX_SIGNATURE_DEPTH;

    fn schema(&self) -> &'a Schema {
        self.schema
    }

    fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }

    fn values(&self, view: &View<'a>) -> Vec<String> {
        let values = view.values();
        let more = (values.len() > MAX_VALUES).then(|| "…".into());
        values.iter().take(MAX_VALUES).map(|value| value.shown()).chain(more).collect()
    }

    fn of_type(&mut self, name: &str, view: &View<'a>, depth: usize) -> String {
        match name {
            "array" => self.array(view, depth),
            "object" => self.object(view, depth),
            name => named(name),
        }
    }

    fn untyped(&self, view: &View<'a>) -> Vec<String> {
        (!view.is_nullable()).then(|| "any".into()).into_iter().collect()
    }
}

impl<'a> Signature<'a> {
    /// The members of an object, separated by commas.
    fn members(&mut self, view: &View<'a>, depth: usize) -> String {
        let required = view.required();
        let mut members = Vec::new();
        for (name, node) in view.properties() {
            if self.left == 0 {
                members.push("…".into());
                break;
            }
            let view = self.schema.view(node, &mut self.walk);
            let mut member = named(name);
            member.push_str(if required.contains(name) { ": " } else { "?: " });
            member.push_str(&self.kind(&view, depth));
            if let Some(default) = view.get("default") {
                member.push_str(" = ");
                member.push_str(&visible::cut_chars(&visible::line(&default.json()), MAX_DEFAULT_CHARS));
            }
            self.left = self.left.saturating_sub(member.len());
            members.push(member);
        }
        if let Some(other) = view.other_members() {
            let view = self.schema.view(other, &mut self.walk);
            members.push(format!("[name]: {}", self.kind(&view, depth)));
        }
        members.join(", ")
    }

    fn object(&mut self, view: &View<'a>, depth: usize) -> String {
        let has_members = !view.properties().is_empty() || view.other_members().is_some();
        if depth >= MAX_SIGNATURE_DEPTH || !has_members {
            return "object".into();
        }
        format!("{{{}}}", self.members(view, depth + 1))
    }

    fn array(&mut self, view: &View<'a>, depth: usize) -> String {
        let tuple = view.get("prefixItems").map_or(&[][..], Node::items);
        if depth > MAX_SIGNATURE_DEPTH {
            return "array".into();
        }
        if !tuple.is_empty() {
            let mut kinds = Vec::new();
            for node in tuple.iter().take(MAX_VALUES) {
                let view = self.schema.view(node, &mut self.walk);
                kinds.push(self.kind(&view, depth + 1));
            }
            return format!("[{}]", kinds.join(", "));
        }
        let Some(items) = view.items() else { return "any[]".into() };
        let items = self.schema.view(items, &mut self.walk);
        // The items may be such arrays again.
        let is_array = items.types().iter().any(|name| name == "array");
        let kind = self.kind(&items, depth + usize::from(is_array));
        if kind.contains(" | ") && !kind.starts_with('{') {
            format!("({kind})[]")
        } else {
            format!("{kind}[]")
        }
    }
}
