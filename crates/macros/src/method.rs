//! One method with an attribute: what it handles, its parameters, and what is wrong with it. Used by `expand`.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, ImplItemFn, Lit, LitStr, Meta, Pat, PatType, Receiver,
    ReceiverKind, Result, ReturnType, Type,
};

use crate::options::{Kind, Options};

/// A method that handles something.
pub(crate) struct Method {
    pub(crate) kind: Kind,
    pub(crate) options: Options,
    pub(crate) ident: Ident,
    /// The name of the tool, prompt or resource.
    pub(crate) name: LitStr,
    pub(crate) description: Option<Expr>,
    /// The `#[cfg]` attributes of the method.
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) is_async: bool,
    /// The receiver is `self: Arc<Self>`.
    pub(crate) takes_arc: bool,
    pub(crate) parameters: Vec<Parameter>,
    /// The type that the method returns: errors about it are shown there.
    pub(crate) output: Span,
}

pub(crate) enum Parameter {
    Context,
    /// A struct with all arguments.
    Arguments(Box<Type>),
    /// An argument by name.
    Named(Box<Named>),
}

pub(crate) struct Named {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) attributes: Vec<Attribute>,
}

impl Method {
    /// Reads a method, and removes the attributes that only this macro knows. `None` if it has none of them.
    pub(crate) fn take(method: &mut ImplItemFn) -> Result<Option<Self>> {
        let (ours, others): (Vec<_>, Vec<_>) =
            method.attrs.drain(..).partition(|attribute| Kind::of(attribute).is_some());
        method.attrs = others;
        let Some(first) = ours.first() else { return Ok(None) };
        let mut parameters = Vec::new();
        for input in &mut method.sig.inputs {
            if let FnArg::Typed(parameter) = input {
                let attributes = std::mem::take(&mut parameter.attrs);
                parameters.push((parameter.clone(), attributes));
            }
        }
        if let Some(second) = ours.get(1) {
            return Err(Error::new_spanned(
                second,
                "a method has one of these attributes: write a method for each",
            ));
        }
        let Some(kind) = Kind::of(first) else { return Ok(None) };
        Self::read(kind, first, method, parameters).map(Some)
    }

    fn read(
        kind: Kind,
        attribute: &Attribute,
        method: &ImplItemFn,
        parameters: Vec<(PatType, Vec<Attribute>)>,
    ) -> Result<Self> {
        let options = Options::parse(kind, attribute)?;
        let signature = &method.sig;
        let takes_arc = takes_arc(signature.receiver(), &signature.ident)?;
        if let Some(parameter) = signature.generics.params.first() {
            let message = "a handler is not generic: its arguments have one schema";
            return Err(Error::new_spanned(parameter, message));
        }
        if let (Some(_), Some(blocking)) = (signature.asyncness, options.set_at("blocking")) {
            let message = "`blocking` is for a `fn` that blocks its thread: remove `blocking`, or `async` from the method";
            return Err(Error::new(blocking, message));
        }
        if let Some(validate) = options.set_at("validate").filter(|_| !cfg!(feature = "json-schema")) {
            let message = "`validate` needs the feature `json-schema` of mcpjoin: `cargo add mcpjoin --features json-schema`";
            return Err(Error::new(validate, message));
        }
        let name = match options.text("name")? {
            Some(name) => name,
            None => LitStr::new(&signature.ident.unraw().to_string(), signature.ident.span()),
        };
        let own = Self {
            kind,
            ident: signature.ident.clone(),
            name,
            description: options.value("description").cloned().or_else(|| doc_comment(&method.attrs)),
            options,
            cfgs: method.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).cloned().collect(),
            is_async: signature.asyncness.is_some(),
            takes_arc,
            parameters: parameters
                .into_iter()
                .map(|(parameter, attributes)| Parameter::read(parameter, attributes))
                .collect::<Result<_>>()?,
            output: match &signature.output {
                ReturnType::Default => signature.ident.span(),
                ReturnType::Type(_, ty) => ty.span(),
            },
        };
        own.check_parameters()?;
        Ok(own)
    }

    fn check_parameters(&self) -> Result<()> {
        let has = |wanted: fn(&Parameter) -> bool| self.parameters.iter().filter(|p| wanted(p)).count();
        let contexts = has(|parameter| matches!(parameter, Parameter::Context));
        let wholes = has(|parameter| matches!(parameter, Parameter::Arguments(_)));
        let fault = if contexts > 1 {
            "a handler has one `Context`: remove the other one"
        } else if wholes > 1 || (wholes == 1 && self.named().count() > 0) {
            "`#[arguments]` is all of the arguments: remove the other ones, or put them into its type"
        } else if self.kind == Kind::Completion && wholes + self.named().count() != 1 {
            "a completion takes the text that was typed so far: `fn names(&self, typed: String)`"
        } else {
            return self.check_variables();
        };
        Err(Error::new(self.ident.span(), fault))
    }

    /// Checks that each argument by name is a variable of the template.
    fn check_variables(&self) -> Result<()> {
        let Some(uri) = &self.options.uri else { return Ok(()) };
        let known = variables(&uri.value());
        for named in self.named() {
            // Its name may be another one, which `ServerBuilder::build` checks.
            let renamed = named.attributes.iter().any(|attribute| attribute.path().is_ident("serde"));
            let name = named.ident.unraw().to_string();
            if !renamed && !known.contains(&name) {
                let message =
                    format!("`{}` has no variable `{{{name}}}`: rename the parameter or add it", uri.value());
                return Err(Error::new(named.ident.span(), message));
            }
        }
        if known.is_empty() && self.parameters.iter().any(|p| matches!(p, Parameter::Arguments(_))) {
            let message = "the URI has no variables: a method that reads it takes at most a `Context`";
            return Err(Error::new(self.ident.span(), message));
        }
        Ok(())
    }

    /// The arguments by name.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Named> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Named(named) => Some(&**named),
            _ => None,
        })
    }

    pub(crate) fn is_template(&self) -> bool {
        self.options.uri.as_ref().is_some_and(|uri| !variables(&uri.value()).is_empty())
    }
}

impl Parameter {
    fn read(parameter: PatType, mut attributes: Vec<Attribute>) -> Result<Self> {
        let marks = attributes.len();
        attributes.retain(|attribute| !attribute.path().is_ident("arguments"));
        if attributes.len() < marks {
            return Ok(Self::Arguments(parameter.ty));
        }
        if is_path_to(&parameter.ty, "Context") {
            return Ok(Self::Context);
        }
        if is_path_to(&parameter.ty, "NoArguments") {
            let message = "a handler without arguments has no parameter for them: remove it";
            return Err(Error::new_spanned(parameter, message));
        }
        let ident = match &*parameter.pat {
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => name.ident.clone(),
            other => {
                let message = "an argument has a name: write `name: Type`, or `#[arguments]` before a struct with all of \
                               them";
                return Err(Error::new_spanned(other, message));
            }
        };
        match &*parameter.ty {
            Type::Reference(reference) => {
                let message = match is_path_to(&reference.elem, "Context") {
                    true => "a handler owns its `Context`: write `Context` in place of `&Context`",
                    false => "an argument is owned: write `String` in place of `&str`",
                };
                Err(Error::new_spanned(reference, message))
            }
            Type::ImplTrait(implied) => {
                let message = "a handler is not generic: name the type of the argument";
                Err(Error::new_spanned(implied, message))
            }
            ty => Ok(Self::Named(Box::new(Named { ident, ty: ty.clone(), attributes }))),
        }
    }
}

/// Returns whether the receiver is an `Arc`, and what is wrong with another one.
fn takes_arc(receiver: Option<&Receiver>, method: &Ident) -> Result<bool> {
    let Some(receiver) = receiver else {
        let message = "a handler is a method: add `&self` as its first parameter";
        return Err(Error::new(method.span(), message));
    };
    match &receiver.kind {
        ReceiverKind::Reference(_, _, None) => Ok(false),
        ReceiverKind::Reference(_, _, Some(_)) => {
            let message = "a handler takes `&self`, because calls run at the same time: put what changes into a `Mutex`";
            Err(Error::new_spanned(receiver, message))
        }
        ReceiverKind::Typed(_, ty) if is_path_to(ty, "Arc") => Ok(true),
        _ => {
            let message = "a handler takes `&self` or `self: Arc<Self>`, because it is called many times";
            Err(Error::new_spanned(receiver, message))
        }
    }
}

/// Whether a type is a path with this last name.
fn is_path_to(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
        Type::Group(group) => is_path_to(&group.elem, name),
        _ => false,
    }
}

/// The names of the variables of a template.
fn variables(uri: &str) -> Vec<String> {
    let expressions = uri.split('{').skip(1).filter_map(|part| part.split_once('}'));
    expressions.map(|(name, _)| name.strip_prefix('+').unwrap_or(name).to_owned()).collect()
}

/// Returns the text of the doc comment. A part of it may be a macro, such as `#[doc = include_str!("tool.md")]`.
fn doc_comment(attributes: &[Attribute]) -> Option<Expr> {
    let mut text = String::new();
    let mut before: Vec<Expr> = Vec::new();
    for attribute in attributes {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        match &pair.value {
            _ if !pair.path.is_ident("doc") => {}
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => {
                let line = line.value();
                text.push_str(line.strip_prefix(' ').unwrap_or(&line));
                text.push('\n');
            }
            part => {
                let literal = LitStr::new(&std::mem::replace(&mut text, "\n".to_owned()), Span::call_site());
                before.extend([syn::parse_quote!(#literal), part.clone()]);
            }
        }
    }
    if !before.is_empty() {
        return Some(syn::parse_quote!(::core::concat!(#(#before,)* #text).trim()));
    }
    let text = text.trim();
    let literal = LitStr::new(text, Span::call_site());
    (!text.is_empty()).then(|| syn::parse_quote!(#literal))
}
