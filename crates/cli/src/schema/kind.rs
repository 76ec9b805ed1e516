//! The kind of a value in one phrase, in two notations: `string | null` of a signature, `string or null` of a tree.

use std::collections::HashSet;

use mcpjoin::proto::Walk;

use super::{MAX_VALUES, Schema, View};

/// How a kind is written.
pub(super) trait Notation<'a> {
    /// What separates two kinds of one value.
    const OR: &'static str;
    /// The depth below which alternatives are not described.
    const DEPTH: usize;

    fn schema(&self) -> &'a Schema;

    fn walk(&mut self) -> &mut Walk;

    /// The values, where they say more than a type.
    fn values(&self, view: &View<'a>) -> Vec<String>;

    /// A type that the schema names.
    fn of_type(&mut self, name: &str, view: &View<'a>, depth: usize) -> String;

    /// The kinds of a value whose type the schema does not name.
    fn untyped(&self, view: &View<'a>) -> Vec<String>;

    /// All kinds of a value, each of them once.
    fn kind(&mut self, view: &View<'a>, depth: usize) -> String {
        let mut kinds = self.values(view);
        if kinds.is_empty() && depth < Self::DEPTH {
            for node in view.alternatives.iter().take(MAX_VALUES) {
                let schema = self.schema();
                let view = schema.view(node, self.walk());
                kinds.push(self.kind(&view, depth + 1));
            }
        }
        if kinds.is_empty() {
            for name in view.types().iter().take(MAX_VALUES) {
                kinds.push(self.of_type(name, view, depth));
            }
        }
        if kinds.is_empty() {
            kinds = self.untyped(view);
        }
        kinds.extend(view.is_nullable().then(|| "null".into()));
        let mut seen = HashSet::new();
        kinds.retain(|kind| seen.insert(kind.clone()));
        kinds.join(Self::OR)
    }
}
