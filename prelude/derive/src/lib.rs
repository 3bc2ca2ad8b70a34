//! `#[derive(Tree)]` for structs of arrays.
//!
//! The struct's first type parameter is its leaf: `Params<Var>` is what the closure sees,
//! `Params<Tensor>` what goes in and out. Every field is a tree over that parameter, except those
//! marked `#[tree(static)]`: plain Rust values (`Clone + Eq + Hash + Debug + Send + Sync`) that
//! become part of the structure and so of the key under which compiled programs are kept.
//!
//! ```text
//! #[derive(Tree)]                             struct ParamsStructure { w: (), layers: Vec<LayerStructure>, act: Act }
//! struct Params<T> {                          impl<T: Leaf> Tree<T> for Params<T> { .. }
//!     w: T,                            =>     impl Args<Params<Var>> for Params<Tensor> { .. }
//!     layers: Vec<Layer<T>>,                  impl Args<Params<Var>> for Params<&Tensor> { .. }
//!     #[tree(static)] act: Act,               impl Args<Params<Var>> for Params<f64> { .. }
//! }
//! ```

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{
    Data, DeriveInput, Error, Field, Fields, GenericParam, Index, Member, parse_macro_input,
};

/// Implements `Tree` (and `Args`) for a struct whose first type parameter is its leaf.
///
/// See the documentation of `tapeloom::Tree`.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// One field, as the generated code needs it.
struct Part {
    member: Member,
    /// Its name in the structure.
    name: Ident,
    /// What a path says of it.
    segment: String,
    ty: TokenStream,
    is_static: bool,
}

fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "`Tree` is derived for structs only"));
    };
    let leaf = input.generics.type_params().next().ok_or_else(|| {
        Error::new_spanned(
            &input.ident,
            "`Tree` needs a type parameter for the leaves, as in `struct Params<T> { w: T }`",
        )
    })?;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new_spanned(lifetime, "a tree owns its leaves: no lifetimes here"));
    }
    let leaf = &leaf.ident;
    let parts = parts(&data.fields)?;

    let name = &input.ident;
    let structure = format_ident!("{name}Structure");
    let others: Vec<&GenericParam> = (input.generics.params.iter())
        .filter(|p| !matches!(p, GenericParam::Type(t) if t.ident == *leaf))
        .collect();
    let other_names: Vec<Ident> = others
        .iter()
        .filter_map(|p| match p {
            GenericParam::Type(t) => Some(t.ident.clone()),
            GenericParam::Const(c) => Some(c.ident.clone()),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    // Bounds without defaults, as impls want them.
    let others: Vec<TokenStream> = others
        .iter()
        .map(|p| match p {
            GenericParam::Type(t) => {
                let (ident, bounds) = (&t.ident, &t.bounds);
                quote!(#ident: #bounds)
            }
            GenericParam::Const(c) => {
                let (ident, ty) = (&c.ident, &c.ty);
                quote!(const #ident: #ty)
            }
            GenericParam::Lifetime(l) => l.to_token_stream(),
        })
        .collect();
    let where_clause = &input.generics.where_clause;
    let of = |leaf: TokenStream| {
        let args = input.generics.params.iter().filter_map(|p| match p {
            GenericParam::Type(t) if t.ident == input_leaf(input) => Some(leaf.clone()),
            GenericParam::Type(t) => Some(t.ident.to_token_stream()),
            GenericParam::Const(c) => Some(c.ident.to_token_stream()),
            GenericParam::Lifetime(_) => None,
        });
        quote!(#name<#(#args),*>)
    };
    let var = quote!(::tapeloom::Var);
    let with_leaf = |ty: &TokenStream, to: &TokenStream| substitute(ty.clone(), leaf, to);

    let structure_fields = parts.iter().map(|p| {
        let (name, ty) = (&p.name, with_leaf(&p.ty, &var));
        if p.is_static {
            quote!(#name: #ty)
        } else {
            quote!(#name: <#ty as ::tapeloom::Tree<#var>>::Structure)
        }
    });
    let tree = |p: &Part| {
        let ty = &p.ty;
        quote!(<#ty as ::tapeloom::Tree<#leaf>>)
    };
    let structure_of = parts.iter().map(|p| {
        let (name, member, tree) = (&p.name, &p.member, tree(p));
        if p.is_static {
            quote!(#name: ::core::clone::Clone::clone(&self.#member))
        } else {
            quote!(#name: #tree::structure(&self.#member))
        }
    });
    let into_leaves = parts.iter().filter(|p| !p.is_static).map(|p| {
        let (member, tree) = (&p.member, tree(p));
        quote!(#tree::into_leaves(self.#member, visit);)
    });
    // The same code makes a tree of other leaves: `from_leaves` of the fields' types with those.
    let build = |to: TokenStream| {
        let fields = parts.iter().map(|p| {
            let (name, member, ty) = (&p.name, &p.member, with_leaf(&p.ty, &to));
            if p.is_static {
                quote!(#member: ::core::clone::Clone::clone(&structure.#name))
            } else {
                let tree = quote!(<#ty as ::tapeloom::Tree<#to>>);
                quote!(#member: #tree::from_leaves(&structure.#name, next))
            }
        });
        quote!(#name { #(#fields),* })
    };
    let (from_leaves, with_leaves) = (build(leaf.to_token_stream()), build(quote!(__M)));
    let paths = parts.iter().filter(|p| !p.is_static).map(|p| {
        let (name, segment, tree) = (&p.name, &p.segment, tree(p));
        quote! {
            ::tapeloom::tree::with_segment(path, #segment, |path| {
                #tree::paths(&structure.#name, path, visit)
            });
        }
    });

    let (this, with, of_var) =
        (of(leaf.to_token_stream()), of(quote!(__M)), of(quote!(::tapeloom::Var)));
    let data = [
        (quote!(), quote!(::tapeloom::Tensor)),
        (quote!('__t,), quote!(&'__t ::tapeloom::Tensor)),
        (quote!(), quote!(f64)),
    ];
    let args = data.iter().map(|(lifetime, data)| {
        let of_data = of(data.clone());
        let arg = |p: &Part| {
            let (from, to) = (with_leaf(&p.ty, data), with_leaf(&p.ty, &var));
            quote!(<#from as ::tapeloom::Args<#to>>)
        };
        let structure_of = parts.iter().map(|p| {
            let (name, member, arg) = (&p.name, &p.member, arg(p));
            if p.is_static {
                quote!(#name: ::core::clone::Clone::clone(&self.#member))
            } else {
                quote!(#name: #arg::structure(&self.#member))
            }
        });
        let matches = parts.iter().map(|p| {
            let (name, member, arg) = (&p.name, &p.member, arg(p));
            if p.is_static {
                quote!(self.#member == structure.#name)
            } else {
                quote!(#arg::matches(&self.#member, &structure.#name))
            }
        });
        let tensors = parts.iter().filter(|p| !p.is_static).map(|p| {
            let (member, arg) = (&p.member, arg(p));
            quote!(#arg::tensors(&self.#member, out);)
        });
        quote! {
            #[automatically_derived]
            impl<#lifetime #(#others),*> ::tapeloom::Args<#of_var> for #of_data #where_clause {
                fn structure(&self) -> #structure<#(#other_names),*> {
                    #structure { #(#structure_of,)* __others: ::core::marker::PhantomData }
                }
                fn matches(&self, structure: &#structure<#(#other_names),*>) -> bool {
                    true #(&& #matches)*
                }
                fn tensors<'__a>(&'__a self, out: &mut ::tapeloom::tree::TensorRefs<'__a>) {
                    #(#tensors)*
                }
            }
        }
    });
    let type_names: Vec<&Ident> =
        input.generics.type_params().map(|t| &t.ident).filter(|i| *i != leaf).collect();

    Ok(quote! {
        const _: () = {
            #[doc(hidden)]
            #[allow(unreachable_pub, missing_docs, reason = "named by the impl alone")]
            #[derive(Clone, PartialEq, Eq, Hash, Debug)]
            pub struct #structure<#(#others),*> #where_clause {
                #(#structure_fields,)*
                __others: ::core::marker::PhantomData<fn() -> (#(#type_names,)*)>,
            }

            #[automatically_derived]
            impl<#leaf: ::tapeloom::tree::Leaf, #(#others),*> ::tapeloom::Tree<#leaf> for #this
            #where_clause
            {
                type With<__M: ::tapeloom::tree::Leaf> = #with;
                type Structure = #structure<#(#other_names),*>;
                fn structure(&self) -> Self::Structure {
                    #structure { #(#structure_of,)* __others: ::core::marker::PhantomData }
                }
                fn into_leaves(self, visit: &mut dyn FnMut(#leaf)) {
                    #(#into_leaves)*
                }
                fn from_leaves(
                    structure: &Self::Structure,
                    next: &mut dyn FnMut() -> #leaf,
                ) -> Self {
                    #from_leaves
                }
                fn with_leaves<__M: ::tapeloom::tree::Leaf>(
                    structure: &Self::Structure,
                    next: &mut dyn FnMut() -> __M,
                ) -> Self::With<__M> {
                    #with_leaves
                }
                fn paths(
                    structure: &Self::Structure,
                    path: &mut ::std::string::String,
                    visit: &mut dyn FnMut(&str),
                ) {
                    #(#paths)*
                }
            }

            #(#args)*
        };
    })
}

/// The name of the leaf parameter.
fn input_leaf(input: &DeriveInput) -> Ident {
    input.generics.type_params().next().map_or(input.ident.clone(), |t| t.ident.clone())
}

fn parts(fields: &Fields) -> Result<Vec<Part>, Error> {
    let part = |(i, field): (usize, &Field)| {
        let (member, name) = match &field.ident {
            Some(name) => (Member::Named(name.clone()), name.clone()),
            None => (Member::Unnamed(Index::from(i)), format_ident!("_{i}")),
        };
        let segment = format!(".{}", member.to_token_stream());
        let ty = field.ty.to_token_stream();
        Ok(Part { member, name, segment, ty, is_static: is_static(field)? })
    };
    fields.iter().enumerate().map(part).collect()
}

/// Whether a field is marked `#[tree(static)]`.
fn is_static(field: &Field) -> Result<bool, Error> {
    let mut found = false;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("tree")) {
        // `static` is a keyword, so this is compared as text.
        let text = attribute.meta.require_list()?.tokens.to_string();
        if text != "static" {
            return Err(Error::new_spanned(attribute, "the only attribute is `#[tree(static)]`"));
        }
        found = true;
    }
    Ok(found)
}

/// The tokens of a type with one name replaced.
fn substitute(tokens: TokenStream, name: &Ident, by: &TokenStream) -> TokenStream {
    let one = |token: TokenTree| match token {
        TokenTree::Ident(ident) if ident == *name => by.clone(),
        TokenTree::Group(group) => {
            let inner = substitute(group.stream(), name, by);
            TokenTree::Group(Group::new(group.delimiter(), inner)).into()
        }
        other => other.into(),
    };
    tokens.into_iter().map(one).collect()
}
