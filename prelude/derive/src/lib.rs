//! `#[derive(Tree)]` for structs of arrays.
//!
//! The first type parameter of the struct is its leaf: `Params<Var>` inside the closure, `Params<Tensor>` as
//! argument and result of a call. Every field is a tree over that parameter, except fields marked
//! `#[tree(static)]`. These are plain Rust values (`Clone + Eq + Hash + Debug + Send + Sync`) that become part of
//! the structure, and so of the key of compiled programs. If the type of such a field contains `f32` or `f64`, or
//! if the mark is `#[tree(static, bits)]`, its values are compared by their bits (`tapeloom::tree::Bits`) instead
//! of `Eq`.
//!
//! ```text
//! #[derive(Tree)]                             struct ParamsStructure { w: (), layers: Vec<LayerStructure>, act: Act }
//! struct Params<T> {                          impl<T: Leaf> Tree<T> for Params<T> { .. }
//!     w: T,                            =>     impl<T: DataLeaf> Args<Params<Var>> for Params<T> { .. }
//!     layers: Vec<Layer<T>>,                  impl<T: AxisLeaf> BatchAxes<Params<Var>> for Params<T> { .. }
//!     #[tree(static)] act: Act,               impl<T: Leaf> RowResults<T> for Params<T> where T: RowResults<T>, .. { .. }
//! }
//! ```

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Field, Fields, GenericParam, Index, Member, parse_macro_input,
};

/// Implements `Tree` (and `Args`) for a struct whose first type parameter is its leaf type.
///
/// See the documentation of `tapeloom::Tree`.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// One field of the struct, with the names by which the generated code accesses it.
struct Part {
    member: Member,
    /// The name of the field in the generated `Structure` type.
    name: Ident,
    /// The segment that leads to the field in paths of leaves: a dot and the name of the field.
    segment: String,
    ty: TokenStream,
    kind: Holds,
}

/// How the generated code treats a field of the struct.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// A tree of leaves: the generated code visits these leaves.
    Arrays,
    /// A static value without leaves, compared by `Eq`.
    Equal,
    /// A static value without leaves that contains floats, compared by bits.
    Floats,
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
    let (parts, unmarked) = parts(&data.fields, leaf)?;

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
    // An impl repeats the bounds of the struct's generic parameters. Rust forbids default parameters in an impl, so
    // they are left out.
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
        match p.kind {
            Holds::Arrays => {
                let tree = as_tree(p, &ty, &var);
                quote!(#name: #tree::Structure)
            }
            Holds::Equal => quote!(#name: #ty),
            Holds::Floats => quote!(#name: ::tapeloom::tree::ByBits<#ty>),
        }
    });
    let tree = |p: &Part| as_tree(p, &p.ty, &leaf.to_token_stream());
    let structure_of = parts.iter().map(|p| {
        let (name, member, tree) = (&p.name, &p.member, tree(p));
        let copy = quote!(::core::clone::Clone::clone(&self.#member));
        match p.kind {
            Holds::Arrays => quote!(#name: #tree::structure(&self.#member)),
            Holds::Equal => quote!(#name: #copy),
            Holds::Floats => quote!(#name: ::tapeloom::tree::ByBits(#copy)),
        }
    });
    let has_structure = parts.iter().map(|p| {
        let (name, member, tree) = (&p.name, &p.member, tree(p));
        match p.kind {
            Holds::Arrays => quote!(#tree::has_structure(&self.#member, &structure.#name)),
            Holds::Equal => quote!(self.#member == structure.#name),
            Holds::Floats => quote!(structure.#name.is(&self.#member)),
        }
    });
    let leaves = parts.iter().filter(|p| p.kind == Holds::Arrays).map(|p| {
        let (member, tree) = (&p.member, tree(p));
        quote!(#tree::leaves(&self.#member, visit);)
    });
    let leaves_mut = parts.iter().filter(|p| p.kind == Holds::Arrays).map(|p| {
        let (member, tree) = (&p.member, tree(p));
        quote!(#tree::leaves_mut(&mut self.#member, visit);)
    });
    // Generates the expression that constructs the struct from leaves. With the struct's own leaf type it is the body
    // of `from_leaves`, with the type parameter `__M` that of `with_leaves`.
    let build = |to: TokenStream| {
        let fields = parts.iter().map(|p| {
            let (name, member, ty) = (&p.name, &p.member, with_leaf(&p.ty, &to));
            let tree = as_tree(p, &ty, &to);
            match p.kind {
                Holds::Arrays => quote!(#member: #tree::from_leaves(&structure.#name, next)),
                Holds::Equal => quote!(#member: ::core::clone::Clone::clone(&structure.#name)),
                Holds::Floats => quote!(#member: ::core::clone::Clone::clone(&structure.#name.0)),
            }
        });
        quote!(#name { #(#fields),* })
    };
    let (from_leaves, with_leaves) = (build(leaf.to_token_stream()), build(quote!(__M)));
    let paths = parts.iter().filter(|p| p.kind == Holds::Arrays).map(|p| {
        let (name, segment, tree) = (&p.name, &p.segment, tree(p));
        quote! {
            ::tapeloom::tree::with_segment(path, #segment, |path| {
                #tree::paths(&structure.#name, path, visit)
            });
        }
    });
    let differences = parts.iter().map(|p| {
        let (name, segment, tree) = (&p.name, &p.segment, tree(p));
        let difference = match p.kind {
            Holds::Arrays => quote!(#tree::differences(&one.#name, &other.#name, path, visit)),
            Holds::Equal | Holds::Floats => quote! {
                if one.#name != other.#name {
                    visit(path, ::std::format!("{:?}", one.#name), ::std::format!("{:?}", other.#name));
                }
            },
        };
        quote!(::tapeloom::tree::with_segment(path, #segment, |path| { #difference });)
    });

    let trees: Vec<&Part> = parts.iter().filter(|p| p.kind == Holds::Arrays).collect();
    // The impl of `RowResults` holds only if all fields that are trees implement that trait; otherwise its bounds fail,
    // and the impl has no effect. Each bound states the type `Structure` again, because a bound on a field's type hides
    // the associated type of the field's own impl from the compiler.
    let results = trees.iter().map(|p| {
        let (ty, of_var) = (&p.ty, with_leaf(&p.ty, &var));
        quote! {
            #ty: ::tapeloom::RowResults<#leaf>
                + ::tapeloom::Tree<#leaf, Structure = <#of_var as ::tapeloom::Tree<#var>>::Structure>
        }
    });
    let predicates = where_clause.iter().flat_map(|w| &w.predicates);
    let results = quote!(where #(#predicates,)* #(#results),*);
    let stacked = trees.iter().map(|p| {
        let (name, ty) = (&p.name, &p.ty);
        quote!(<#ty as ::tapeloom::RowResults<#leaf>>::stacked(&structure.#name, out);)
    });

    let (this, with, of_var) =
        (of(leaf.to_token_stream()), of(quote!(__M)), of(quote!(::tapeloom::Var)));
    let this_structure = quote!(#structure<#(#other_names),*>);
    let type_names: Vec<&Ident> =
        input.generics.type_params().map(|t| &t.ident).filter(|i| *i != leaf).collect();

    Ok(quote! {
        #(#unmarked)*
        const _: () = {
            #[doc(hidden)]
            #[allow(unreachable_pub, missing_docs, reason = "only the impl names it")]
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
                type Structure = #this_structure;
                fn structure(&self) -> Self::Structure {
                    #structure { #(#structure_of,)* __others: ::core::marker::PhantomData }
                }
                fn has_structure(&self, structure: &Self::Structure) -> bool {
                    true #(&& #has_structure)*
                }
                fn leaves<'__a>(&'__a self, visit: &mut dyn FnMut(&'__a #leaf)) {
                    #(#leaves)*
                }
                fn leaves_mut<'__a>(&'__a mut self, visit: &mut dyn FnMut(&'__a mut #leaf)) {
                    #(#leaves_mut)*
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
                fn differences(
                    one: &Self::Structure,
                    other: &Self::Structure,
                    path: &mut ::std::string::String,
                    visit: &mut dyn FnMut(&str, ::std::string::String, ::std::string::String),
                ) {
                    #(#differences)*
                }
            }

            #[automatically_derived]
            impl<#leaf: ::tapeloom::tree::DataLeaf, #(#others),*> ::tapeloom::Args<#of_var> for #this
            #where_clause
            {
                fn structure(&self) -> #this_structure {
                    <Self as ::tapeloom::Tree<#leaf>>::structure(self)
                }
                fn matches(&self, structure: &#this_structure) -> bool {
                    <Self as ::tapeloom::Tree<#leaf>>::has_structure(self, structure)
                }
                fn tensors<'__a>(&'__a self, out: &mut ::tapeloom::tree::TensorRefs<'__a>) {
                    <Self as ::tapeloom::Tree<#leaf>>::leaves(self, &mut |leaf| {
                        out.push(::tapeloom::tree::DataLeaf::tensor(leaf));
                    });
                }
                fn owned(&self, visit: &mut dyn FnMut(bool)) {
                    <Self as ::tapeloom::Tree<#leaf>>::leaves(self, &mut |_| {
                        visit(<#leaf as ::tapeloom::tree::DataLeaf>::OWNED);
                    });
                }
            }

            #[automatically_derived]
            #[allow(private_bounds, reason = "the types of fields are bounds")]
            impl<#leaf: ::tapeloom::tree::Leaf, #(#others),*> ::tapeloom::RowResults<#leaf> for #this
            #results
            {
                fn stacked(
                    structure: &<Self as ::tapeloom::Tree<#leaf>>::Structure,
                    out: &mut ::std::vec::Vec<bool>,
                ) {
                    #(#stacked)*
                }
            }

            #[automatically_derived]
            impl<#leaf: ::tapeloom::AxisLeaf, #(#others),*> ::tapeloom::BatchAxes<#of_var> for #this
            #where_clause
            {
                fn each(
                    &self,
                    structure: &#this_structure,
                    out: &mut ::std::vec::Vec<::core::option::Option<i32>>,
                ) -> ::core::result::Result<(), ::std::string::String> {
                    ::tapeloom::axes_of_struct::<#leaf, Self, #of_var>(self, structure, out)
                }
            }
        };
    })
}

/// Returns the name of the struct's first type parameter, which is the type of its leaves.
fn input_leaf(input: &DeriveInput) -> Ident {
    input.generics.type_params().next().map_or(input.ident.clone(), |t| t.ident.clone())
}

/// Returns the fields of a struct, and an error for each field that contains no leaf type and is not marked as static.
/// For such a field, code is generated as if it were marked, so that the compiler reports no further errors.
fn parts(fields: &Fields, leaf: &Ident) -> Result<(Vec<Part>, Vec<TokenStream>), Error> {
    let mut unmarked = Vec::new();
    let part = |(i, field): (usize, &Field)| {
        let (member, name) = match &field.ident {
            Some(name) => (Member::Named(name.clone()), name.clone()),
            None => (Member::Unnamed(Index::from(i)), format_ident!("_{i}")),
        };
        let shown = member.to_token_stream();
        let ty = field.ty.to_token_stream();
        let mut kind = holds(field, &ty)?;
        if kind == Holds::Arrays && !mentions(&ty, &[&leaf.to_string()]) && !is_unit(field) {
            let message = format!(
                "the field `{shown}` holds no arrays: its type does not mention `{leaf}`. \
                 Mark it `#[tree(static)]`, or make it a tree over `{leaf}`"
            );
            unmarked.push(Error::new_spanned(&field.ty, message).into_compile_error());
            kind = static_kind(&ty);
        }
        Ok(Part { member, name, segment: format!(".{shown}"), kind, ty })
    };
    let parts = fields.iter().enumerate().map(part).collect::<Result<_, Error>>()?;
    Ok((parts, unmarked))
}

/// Returns the tokens `<ty as Tree<leaf>>` with the source position of the field. If `ty` is not a tree, the compiler
/// reports the error at the field.
fn as_tree(part: &Part, ty: &TokenStream, leaf: &TokenStream) -> TokenStream {
    quote_spanned!(part.ty.span() => <#ty as ::tapeloom::Tree<#leaf>>)
}

/// Returns whether the type is `()`, which is a tree of any leaves.
fn is_unit(field: &Field) -> bool {
    matches!(&field.ty, syn::Type::Tuple(t) if t.elems.is_empty())
}

/// Returns the kind of a static field: compared by bits if its type contains floats, else by `Eq`.
fn static_kind(ty: &TokenStream) -> Holds {
    if mentions(ty, &["f32", "f64"]) { Holds::Floats } else { Holds::Equal }
}

/// Returns the kind of a field by its mark: `#[tree(static)]`, `#[tree(static, bits)]` or none.
fn holds(field: &Field, ty: &TokenStream) -> Result<Holds, Error> {
    let mut kind = Holds::Arrays;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("tree")) {
        // `static` is a keyword, which does not parse as a path, so compare the tokens as text.
        let text = attribute.meta.require_list()?.tokens.to_string().replace(' ', "");
        kind = match text.as_str() {
            "static" => static_kind(ty),
            "static,bits" => Holds::Floats,
            _ => {
                let message = "expected `#[tree(static)]` or `#[tree(static, bits)]`";
                return Err(Error::new_spanned(attribute, message));
            }
        };
    }
    Ok(kind)
}

/// Returns whether the tokens of a type contain one of the given identifiers.
fn mentions(ty: &TokenStream, names: &[&str]) -> bool {
    ty.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => names.iter().any(|name| ident == name),
        TokenTree::Group(group) => mentions(&group.stream(), names),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Returns the tokens of a type with each occurrence of the identifier `name` replaced by the tokens `by`.
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
