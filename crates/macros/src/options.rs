//! The attributes of methods and their options. Used by `method`.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, Error, Expr, LitBool, LitStr, Meta, Result, Token};

/// What a method handles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tool,
    Prompt,
    Resource,
    Completion,
}

impl Kind {
    /// Returns what an attribute makes of its method: `#[tool]` or `#[mcpjoin::server::tool]`. `None` for the attributes of
    /// others.
    pub(crate) fn of(attribute: &Attribute) -> Option<Self> {
        let segments = &attribute.path().segments;
        let ours = segments.len() == 1 || segments.first().is_some_and(|first| first.ident == "mcpjoin");
        let name = segments.last().filter(|_| ours)?.ident.to_string();
        [Self::Tool, Self::Prompt, Self::Resource, Self::Completion]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Completion => "completion",
        }
    }

    /// The options with a value, a text or another expression.
    const fn values(self) -> &'static [&'static str] {
        match self {
            Self::Tool | Self::Prompt => &["name", "title", "description", "describe"],
            Self::Resource => &["name", "title", "description", "mime_type", "describe"],
            Self::Completion => &["prompt", "resource", "argument"],
        }
    }

    /// The options that stand alone.
    const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Tool => &[
                "read_only",
                "destructive",
                "idempotent",
                "open_world",
                "as_task",
                "requires_tasks",
                "inline",
                "blocking",
                "validate",
            ],
            Self::Prompt | Self::Resource | Self::Completion => &["blocking"],
        }
    }
}

/// The options of one attribute. Each is known to its kind, and stands once.
pub(crate) struct Options {
    /// The URI or the template of a resource.
    pub(crate) uri: Option<LitStr>,
    values: Vec<(Ident, Expr)>,
    flags: Vec<(Ident, bool)>,
}

impl Options {
    pub(crate) fn parse(kind: Kind, attribute: &Attribute) -> Result<Self> {
        let parser = |input: ParseStream<'_>| Self::parse_list(kind, input);
        match &attribute.meta {
            Meta::Path(_) if kind == Kind::Resource => Err(Error::new_spanned(
                attribute,
                r#"name the URI or its template: `#[resource("note://{id}")]`"#,
            )),
            Meta::Path(_) => parser.parse2(proc_macro2::TokenStream::new()),
            Meta::List(list) => parser.parse2(list.tokens.clone()),
            Meta::NameValue(pair) => {
                let message = format!("options stand in parentheses: `#[{}(name = \"..\")]`", kind.name());
                Err(Error::new_spanned(pair, message))
            }
        }
    }

    fn parse_list(kind: Kind, input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self { uri: None, values: Vec::new(), flags: Vec::new() };
        if kind == Kind::Resource {
            let uri = input.parse::<LitStr>();
            options.uri = Some(uri.map_err(|error| {
                Error::new(error.span(), "the URI or its template stands first: `\"note://{id}\"`")
            })?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        while !input.is_empty() {
            options.parse_option(kind, input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }

    fn parse_option(&mut self, kind: Kind, input: ParseStream<'_>) -> Result<()> {
        let option = input.call(Ident::parse_any)?;
        let name = option.to_string();
        if self.value(&name).is_some() || self.flag(&name).is_some() {
            return Err(Error::new(option.span(), format!("`{name}` is there twice: remove one")));
        }
        if kind.flags().contains(&&*name) {
            let value = match input.parse::<Option<Token![=]>>()? {
                Some(_) => input.parse::<LitBool>()?.value,
                None => true,
            };
            self.flags.push((option, value));
        } else if kind.values().contains(&&*name) {
            input.parse::<Token![=]>()?;
            self.values.push((option, input.parse()?));
        } else {
            let known: Vec<String> =
                kind.values().iter().chain(kind.flags()).map(|known| format!("`{known}`")).collect();
            let message = format!("`#[{}]` has no option `{name}`: it has {}", kind.name(), known.join(", "));
            return Err(Error::new(option.span(), message));
        }
        Ok(())
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Expr> {
        self.values.iter().find(|(option, _)| option == name).map(|(_, value)| value)
    }

    /// Returns the text of an option that the macro has to read.
    pub(crate) fn text(&self, name: &str) -> Result<Option<LitStr>> {
        match self.value(name) {
            None => Ok(None),
            Some(Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. })) => Ok(Some(text.clone())),
            Some(other) => Err(Error::new_spanned(other, format!("`{name}` is a text in quotes"))),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.flags.iter().find(|(flag, _)| flag == name).map(|(_, value)| *value)
    }

    /// Returns where a flag is set.
    pub(crate) fn set_at(&self, name: &str) -> Option<Span> {
        self.flags.iter().find(|(flag, value)| *value && flag == name).map(|(flag, _)| flag.span())
    }
}
