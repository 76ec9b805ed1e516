//! Generates the implementation of `mcpjoin::server::Handlers` for the type of an `impl`.
//!
//! Each method becomes one call of the builder, with a handler made by `mcpjoin::server::with`; arguments by name become a
//! struct. Every path starts at the root, and every error points at what the user wrote.

use std::collections::HashMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Error, Expr, ImplItem, ItemImpl, LitStr, Result};

use crate::method::{Method, Parameter};
use crate::options::Kind;

/// The expansion of `#[handlers]`.
pub(crate) fn handlers(options: TokenStream, item: TokenStream) -> TokenStream {
    let Ok(mut block) = syn::parse2::<ItemImpl>(item.clone()) else {
        let error = Error::new(Span::call_site(), "`#[handlers]` stands on an `impl` block");
        return with_errors(error, item);
    };
    match implementation(options, &mut block) {
        Ok(implementation) => quote!(#block #implementation),
        Err(error) => with_errors(error, quote!(#block)),
    }
}

/// The expansion of the attribute of a method that stands in no `impl` with `#[handlers]`.
pub(crate) fn misplaced(name: &str, item: TokenStream) -> TokenStream {
    let message = format!(
        "`#[{name}]` is for a method of an `impl` block with `#[handlers]`: put `#[mcpjoin::server::handlers]` on the `impl`"
    );
    with_errors(Error::new(Span::call_site(), message), item)
}

fn with_errors(error: Error, item: TokenStream) -> TokenStream {
    let error = error.into_compile_error();
    quote!(#error #item)
}

fn implementation(options: TokenStream, block: &mut ItemImpl) -> Result<TokenStream> {
    // The attributes are removed from each method, also after an error: nothing else knows them.
    let methods = methods(block);
    if !options.is_empty() {
        return Err(Error::new_spanned(
            options,
            "`#[handlers]` has no options: they are those of the methods",
        ));
    }
    if let Some((path, _)) = &block.trait_ {
        let message = "`#[handlers]` stands on the `impl` of a type, and not on that of a trait";
        return Err(Error::new_spanned(path, message));
    }
    let methods = methods?;
    if methods.is_empty() {
        let message = "no method of this `impl` is a handler: mark one with `#[tool]`, `#[prompt]`, `#[resource(\"..\")]` or \
                       `#[completion(..)]`";
        return Err(Error::new_spanned(&block.self_ty, message));
    }
    check_names(&methods)?;
    let entries = methods.iter().filter(|method| method.kind != Kind::Completion).map(entry);
    let completions = completions(&methods)?;
    let (generics, _, conditions) = block.generics.split_for_impl();
    let ty = &block.self_ty;
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::mcpjoin::server::Handlers for #ty #conditions {
            fn register(
                self: ::std::sync::Arc<Self>,
                builder: ::mcpjoin::server::ServerBuilder,
            ) -> ::mcpjoin::server::ServerBuilder {
                #(#entries)*
                #(#completions)*
                builder
            }
        }
    })
}

/// Reads the methods with attributes. The error has the faults of all of them.
fn methods(block: &mut ItemImpl) -> Result<Vec<Method>> {
    let mut methods = Vec::new();
    let mut faults: Option<Error> = None;
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        match Method::take(method) {
            Ok(method) => methods.extend(method),
            Err(fault) => match &mut faults {
                Some(faults) => faults.combine(fault),
                None => faults = Some(fault),
            },
        }
    }
    faults.map_or(Ok(methods), Err)
}

/// Checks that no name is there twice. A method with `#[cfg]` may replace another one.
fn check_names(methods: &[Method]) -> Result<()> {
    let mut seen: HashMap<(&str, String), &Ident> = HashMap::new();
    for method in methods.iter().filter(|method| method.cfgs.is_empty() && method.kind != Kind::Completion) {
        let identity = method.options.uri.as_ref().unwrap_or(&method.name);
        if let Some(first) = seen.insert((method.kind.name(), identity.value()), &method.ident) {
            let twice = match method.kind {
                Kind::Tool => "two tools are named",
                Kind::Prompt => "two prompts are named",
                _ => "two resources have the URI",
            };
            let message = format!("{twice} `{}`: the other one is the method `{first}`", identity.value());
            return Err(Error::new(identity.span(), message));
        }
    }
    Ok(())
}

/// The statement that adds a tool, a prompt or a resource.
fn entry(method: &Method) -> TokenStream {
    let Method { cfgs, name, .. } = method;
    let (definition, arguments) = arguments(method);
    let description = description(method);
    // Where errors about the output are shown.
    let at = method.output.resolved_at(Span::call_site());
    let handler = handler(method, &arguments, at);
    let add = match (method.kind, &method.options.uri) {
        (Kind::Resource, Some(uri)) if method.is_template() => quote_spanned! {at=>
            builder.resource_template(
                ::mcpjoin::server::resource_template::<#arguments>(#uri, #name)#description,
                #handler,
            )
        },
        (Kind::Resource, Some(uri)) => {
            let resource = quote!(::mcpjoin::proto::types::Resource::new(#uri, #name)#description);
            let resource = match method.options.value("describe") {
                Some(change) => quote!((#change)(#resource)),
                None => resource,
            };
            quote_spanned!(at=> builder.resource(#resource, #handler))
        }
        (Kind::Prompt, _) => quote_spanned! {at=>
            builder.prompt(::mcpjoin::server::prompt::<#arguments>(#name)#description, #handler)
        },
        _ => quote_spanned! {at=>
            builder.tool(::mcpjoin::server::tool::<#arguments>(#name)#description, #handler)
        },
    };
    quote! {
        #(#cfgs)*
        let builder = {
            #definition
            #add
        };
    }
}

/// The type of the arguments, and its definition if the method takes them by name.
fn arguments(method: &Method) -> (TokenStream, TokenStream) {
    if method.kind == Kind::Resource && !method.is_template() {
        return (TokenStream::new(), quote!(::mcpjoin::server::ReadRequest));
    }
    for parameter in &method.parameters {
        if let Parameter::Arguments(ty) = parameter {
            return (TokenStream::new(), quote!(#ty));
        }
    }
    if method.named().next().is_none() {
        return (TokenStream::new(), quote!(::mcpjoin::server::NoArguments));
    }
    let name = upper_camel(&method.ident.unraw().to_string());
    // `fn _1` is a method, and `1Arguments` is no type.
    let digit = if name.starts_with(|first: char| first.is_numeric()) { "_" } else { "" };
    let ident = format_ident!("{digit}{name}Arguments");
    let fields = method.named().map(|named| {
        let (attributes, ident, ty) = (&named.attributes, &named.ident, &named.ty);
        quote!(#(#attributes)* #ident: #ty)
    });
    let definition = quote! {
        #[derive(::mcpjoin::server::serde::Deserialize, ::mcpjoin::server::schemars::JsonSchema)]
        #[serde(crate = "::mcpjoin::server::serde")]
        #[schemars(crate = "::mcpjoin::server::schemars")]
        struct #ident { #(#fields),* }
    };
    (definition, quote!(#ident))
}

/// The calls that describe the entry, after the function that creates it.
fn description(method: &Method) -> TokenStream {
    let is_fixed = method.kind == Kind::Resource && !method.is_template();
    let mut calls = TokenStream::new();
    let mut call = |name: &str, value: &Expr| {
        let name = if is_fixed { format_ident!("with_{}", name) } else { format_ident!("{}", name) };
        calls.extend(quote!(.#name(#value)));
    };
    if let Some(description) = &method.description {
        call("description", description);
    }
    for name in ["title", "mime_type"] {
        if let Some(value) = method.options.value(name) {
            call(name, value);
        }
    }
    let hints: Vec<TokenStream> = ["read_only", "destructive", "idempotent", "open_world"]
        .into_iter()
        .filter_map(|hint| {
            let (name, value) = (format_ident!("with_{}_hint", hint), method.options.flag(hint)?);
            Some(quote!(.#name(#value)))
        })
        .collect();
    if !hints.is_empty() {
        calls.extend(quote!(.annotations(::mcpjoin::proto::types::ToolAnnotations::default()#(#hints)*)));
    }
    let calls_of_flags = [
        ("as_task", "as_task"),
        ("requires_tasks", "requires_tasks"),
        ("inline", "inline"),
        ("validate", "validate_arguments"),
    ];
    for (flag, name) in calls_of_flags {
        if method.options.flag(flag) == Some(true) {
            let name = format_ident!("{}", name);
            calls.extend(quote!(.#name()));
        }
    }
    if let Some(change) = method.options.value("describe").filter(|_| !is_fixed) {
        calls.extend(quote!(.describe(#change)));
    }
    calls
}

/// The handler of an entry.
fn handler(method: &Method, arguments: &TokenStream, at: Span) -> TokenStream {
    let given = method.parameters.iter().map(|parameter| match parameter {
        Parameter::Context => quote!(cx),
        Parameter::Arguments(_) => quote!(arguments),
        Parameter::Named(named) => {
            let ident = &named.ident;
            quote!(arguments.#ident)
        }
    });
    let call = call(method, given);
    let input = if method.parameters.iter().all(|parameter| matches!(parameter, Parameter::Context)) {
        quote!(_)
    } else {
        quote!(arguments)
    };
    let cx = context(method.parameters.iter());
    let parameters = quote! {
        handlers: ::std::sync::Arc<Self>, #input: #arguments, #cx: ::mcpjoin::server::Context
    };
    if is_blocking(method) {
        quote_spanned!(at=> ::mcpjoin::server::blocking_with(&self, |#parameters| #call))
    } else {
        quote_spanned!(at=> ::mcpjoin::server::with(&self, |#parameters| async move { #call }))
    }
}

/// Whether the method runs on the blocking pool.
fn is_blocking(method: &Method) -> bool {
    method.options.flag("blocking") == Some(true)
}

/// The name of the parameter for the context, which not every method takes.
fn context<'a>(mut parameters: impl Iterator<Item = &'a Parameter>) -> TokenStream {
    if parameters.any(|parameter| matches!(parameter, Parameter::Context)) { quote!(cx) } else { quote!(_) }
}

/// The call of a method.
fn call(method: &Method, given: impl Iterator<Item = TokenStream>) -> TokenStream {
    let ident = &method.ident;
    let receiver = if method.takes_arc { quote!(handlers) } else { quote!(&handlers) };
    let wait = method.is_async.then(|| quote!(.await));
    quote!(Self::#ident(#receiver #(, #given)*)#wait)
}

/// The completions of one prompt or resource template.
struct Completions<'a> {
    kind: Kind,
    reference: LitStr,
    /// Each argument with its method.
    methods: Vec<(LitStr, &'a Method)>,
}

/// The statements that add the completions: one for each prompt or template, which chooses by the name of the argument.
fn completions(methods: &[Method]) -> Result<Vec<TokenStream>> {
    let mut all: Vec<Completions<'_>> = Vec::new();
    for method in methods.iter().filter(|method| method.kind == Kind::Completion) {
        let options = &method.options;
        let (kind, reference) = match (options.text("prompt")?, options.text("resource")?) {
            (Some(prompt), None) => (Kind::Prompt, prompt),
            (None, Some(template)) => (Kind::Resource, template),
            _ => {
                let message =
                    "name what it completes: `prompt = \"..\"`, or `resource = \"..\"` with a template";
                return Err(Error::new(method.ident.span(), message));
            }
        };
        let argument = options.text("argument")?.ok_or_else(|| {
            Error::new(method.ident.span(), "name the argument that it completes: `argument = \"..\"`")
        })?;
        let known =
            all.iter_mut().find(|known| known.kind == kind && known.reference.value() == reference.value());
        let Some(known) = known else {
            all.push(Completions { kind, reference, methods: vec![(argument, method)] });
            continue;
        };
        let is_other = |other: &Method| other.cfgs.is_empty() && method.cfgs.is_empty();
        if known.methods.iter().any(|(known, other)| known.value() == argument.value() && is_other(other)) {
            let message = format!("there are two completions of `{}`: remove one", argument.value());
            return Err(Error::new(argument.span(), message));
        }
        known.methods.push((argument, method));
    }
    Ok(all.iter().map(completion).collect())
}

fn completion(Completions { kind, reference, methods }: &Completions<'_>) -> TokenStream {
    let arms = methods.iter().map(|(argument, method)| {
        let given = method.parameters.iter().map(|parameter| match parameter {
            Parameter::Context => quote!(cx),
            Parameter::Arguments(_) => quote!(params),
            Parameter::Named(_) => quote!(params.argument.value),
        });
        let (call, cfgs) = (call(method, given), &method.cfgs);
        let at = method.output.resolved_at(Span::call_site());
        let output = if is_blocking(method) {
            let own_cx = context(method.parameters.iter());
            quote_spanned! {at=>
                ::mcpjoin::server::blocking_with(
                    &handlers,
                    |handlers: ::std::sync::Arc<Self>,
                     params: ::mcpjoin::proto::types::CompleteParams,
                     #own_cx: ::mcpjoin::server::Context| #call,
                )(params, cx)
                .await
            }
        } else {
            call
        };
        quote_spanned! {at=>
            #(#cfgs)*
            #argument => ::mcpjoin::server::CompletionOutput::into_completion(#output),
        }
    });
    let reference = match kind {
        Kind::Prompt => quote!(::mcpjoin::proto::types::PromptReference::new(#reference)),
        _ => quote!(::mcpjoin::proto::types::ResourceTemplateReference::new(#reference)),
    };
    let cx = if methods.iter().any(|(_, method)| is_blocking(method)) {
        quote!(cx)
    } else {
        context(methods.iter().flat_map(|(_, method)| &method.parameters))
    };
    quote! {
        let builder = builder.completion(
            #reference,
            ::mcpjoin::server::with(
                &self,
                |handlers: ::std::sync::Arc<Self>,
                 params: ::mcpjoin::proto::types::CompleteParams,
                 #cx: ::mcpjoin::server::Context| async move {
                    match params.argument.name.as_str() {
                        #(#arms)*
                        _ => ::mcpjoin::server::Result::Ok(
                            ::mcpjoin::proto::types::Completion::new(::std::vec::Vec::new()),
                        ),
                    }
                },
            ),
        );
    }
}

/// `add_note` as the start of a type's name: `AddNote`.
fn upper_camel(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let mut chars = word.chars();
            chars.next().into_iter().flat_map(char::to_uppercase).chain(chars)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::handlers;

    #[test]
    fn validate_is_a_call_of_the_builder_or_names_the_feature_that_it_needs() {
        let expanded = handlers(quote!(), quote!(impl S { #[tool(validate)] fn a(&self) {} })).to_string();
        if cfg!(feature = "json-schema") {
            assert!(expanded.contains(". validate_arguments ()"), "{expanded}");
        } else {
            assert!(expanded.contains("cargo add mcpjoin --features json-schema"), "{expanded}");
        }
        let off = handlers(quote!(), quote!(impl S { #[tool(validate = false)] fn a(&self) {} })).to_string();
        assert!(!off.contains("validate_arguments") && !off.contains("compile_error"), "{off}");
    }

    #[test]
    fn a_doc_comment_that_a_macro_writes_is_a_part_of_the_description() {
        let method = quote!(
            /// Adds.
            #[doc = include_str!("add.md")]
            /// Twice.
            #[tool]
            fn add(&self) {}
        );
        let expanded = handlers(quote!(), quote!(impl S { #method })).to_string();
        let description = r#". description (:: core :: concat ! ("Adds.\n" , include_str ! ("add.md") , "\nTwice.\n") . trim ())"#;
        assert!(expanded.contains(description), "{expanded}");
    }

    #[test]
    fn the_arguments_of_a_method_have_a_type_whatever_its_name_begins_with() {
        for (method, of_arguments) in [(quote!(add), "AddArguments"), (quote!(_1), "_1Arguments")] {
            let expanded = handlers(quote!(), quote!(impl S { #[tool] fn #method(&self, a: i64) {} }));
            assert!(expanded.to_string().contains(&format!("struct {of_arguments} ")), "{expanded}");
        }
    }
}
