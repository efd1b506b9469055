//! Reads the definitions of the C interface out of Rust: constants, structures, tables, calls. Bodies are skipped.

use std::ops::Range;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, Field, Fields, FieldsNamed, GenericArgument, Ident, Item, Lit, Macro, Meta,
    PathArguments, ReturnType, Token, Visibility, braced, parenthesized,
};

/// A type as C can say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Name(String),
    Pointer { is_const: bool, to: Box<Type> },
    Array { of: Box<Type>, length: String },
    Function(Box<Signature>),
}

/// Arguments with their names, and a result unless there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) arguments: Vec<Member>,
    pub(crate) result: Option<Type>,
}

/// A member of a structure or an argument of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) doc: Vec<String>,
    pub(crate) name: String,
    pub(crate) of: Type,
}

/// A definition, with its documentation line by line.
pub(crate) struct Definition {
    pub(crate) doc: Vec<String>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    Constant {
        of: Type,
        value: Expr,
        /// The comment above a group of constants, of which this is the first.
        heading: String,
    },
    Alias(Type),
    Structure(Vec<Member>),
    Union(Vec<Member>),
    /// A call through a table: the object's member, the operation in it, the type of a table that may be too short for it.
    Call {
        table: String,
        operation: String,
        signature: Signature,
        younger_in: Option<String>,
    },
    /// A function that is written by hand in C too.
    Function,
}

/// What a file defines, in its order.
pub(crate) struct Source {
    pub(crate) definitions: Vec<Definition>,
}

impl Source {
    /// Names that programs use, as C knows them.
    #[cfg(test)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let is_shown = |definition: &&Definition| {
            !matches!(definition.kind, Kind::Union(_))
                && !crate::c::IN_RUST_ONLY.contains(&definition.name.as_str())
        };
        let shown = self.definitions.iter().filter(is_shown);
        shown.map(|definition| definition.name.as_str())
    }
}

/// Reads a file.
pub(crate) fn read(text: &str) -> syn::Result<Source> {
    let lines: Vec<&str> = text.lines().collect();
    let mut definitions = Vec::new();
    let mut end = 0;
    for item in syn::parse_file(text)?.items {
        let span = item.span();
        let heading = comment(&lines, end..span.start().line - 1);
        end = span.end().line;
        definitions.extend(defined(item, heading)?);
    }
    Ok(Source { definitions })
}

/// Returns the comments in lines between two items, which are no part of the tree.
fn comment(lines: &[&str], between: Range<usize>) -> String {
    let lines = lines.get(between).unwrap_or_default().iter();
    let comments = lines.filter_map(|line| line.trim().strip_prefix("//"));
    let plain = comments.filter(|text| !text.starts_with(['/', '!']));
    plain.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Returns what an item defines for C.
fn defined(item: Item, heading: String) -> syn::Result<Vec<Definition>> {
    let is_public = |visibility: &Visibility| matches!(visibility, Visibility::Public(_));
    Ok(match item {
        Item::Const(item) if is_public(&item.vis) => {
            let kind = Kind::Constant {
                of: type_of(&item.ty)?,
                value: *item.expr,
                heading,
            };
            vec![definition(&item.attrs, &item.ident, kind)]
        }
        Item::Type(item) if is_public(&item.vis) => {
            let kind = Kind::Alias(type_of(&item.ty)?);
            vec![definition(&item.attrs, &item.ident, kind)]
        }
        Item::Struct(item) if is_public(&item.vis) => match item.fields {
            Fields::Named(fields) => {
                let kind = Kind::Structure(members(&fields)?);
                vec![definition(&item.attrs, &item.ident, kind)]
            }
            _ => Vec::new(),
        },
        Item::Union(item) if is_public(&item.vis) => {
            let kind = Kind::Union(members(&item.fields)?);
            vec![definition(&item.attrs, &item.ident, kind)]
        }
        Item::Fn(item) => vec![definition(&item.attrs, &item.sig.ident, Kind::Function)],
        Item::Macro(item) => expanded(&item.mac)?,
        _ => Vec::new(),
    })
}

fn expanded(call: &Macro) -> syn::Result<Vec<Definition>> {
    if call.path.is_ident("ops_table") {
        return Ok(vec![call.parse_body::<Table>()?.0]);
    }
    if call.path.is_ident("calls") {
        return Ok(call.parse_body::<Calls>()?.0);
    }
    Ok(Vec::new())
}

fn definition(attributes: &[Attribute], name: &Ident, kind: Kind) -> Definition {
    Definition {
        doc: documentation(attributes),
        name: name.to_string(),
        kind,
    }
}

/// Returns the lines of documentation among attributes.
fn documentation(attributes: &[Attribute]) -> Vec<String> {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect()
}

fn members(fields: &FieldsNamed) -> syn::Result<Vec<Member>> {
    let member = |field: &Field| {
        let name = field.ident.as_ref().map(ToString::to_string);
        Ok(Member {
            doc: documentation(&field.attrs),
            name: name.unwrap_or_default(),
            of: type_of(&field.ty)?,
        })
    };
    fields.named.iter().map(member).collect()
}

fn type_of(of: &syn::Type) -> syn::Result<Type> {
    Ok(match of {
        syn::Type::Ptr(pointer) => Type::Pointer {
            is_const: pointer.const_token.is_some(),
            to: Box::new(type_of(&pointer.elem)?),
        },
        syn::Type::Reference(reference) => type_of(&reference.elem)?,
        syn::Type::Array(array) => Type::Array {
            of: Box::new(type_of(&array.elem)?),
            length: length(&array.len)?,
        },
        syn::Type::BareFn(function) => {
            let argument = |one: &syn::BareFnArg| {
                let name = one.name.as_ref().map(|(name, _)| name.to_string());
                Ok(Member {
                    doc: Vec::new(),
                    name: name.ok_or_else(|| syn::Error::new(one.span(), "it has no name"))?,
                    of: type_of(&one.ty)?,
                })
            };
            let arguments: syn::Result<_> = function.inputs.iter().map(argument).collect();
            Type::Function(Box::new(Signature {
                arguments: arguments?,
                result: result(&function.output)?,
            }))
        }
        syn::Type::Path(path) => named(path)?,
        other => return Err(syn::Error::new(other.span(), "C has no such type")),
    })
}

/// Returns a type by its name; that in an `Option` is one that may be null in C.
fn named(path: &syn::TypePath) -> syn::Result<Type> {
    let last = path.path.segments.last();
    let last = last.ok_or_else(|| syn::Error::new(path.span(), "it has no name"))?;
    match &last.arguments {
        PathArguments::AngleBracketed(inner) if last.ident == "Option" => {
            match inner.args.first() {
                Some(GenericArgument::Type(of)) => type_of(of),
                _ => Err(syn::Error::new(inner.span(), "C has no such type")),
            }
        }
        _ => Ok(Type::Name(last.ident.to_string())),
    }
}

fn length(value: &Expr) -> syn::Result<String> {
    let length = match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => Some(number.to_string()),
            _ => None,
        },
        Expr::Path(path) => path.path.get_ident().map(Ident::to_string),
        _ => None,
    };
    length.ok_or_else(|| syn::Error::new(value.span(), "neither a number nor a name"))
}

fn result(output: &ReturnType) -> syn::Result<Option<Type>> {
    match output {
        ReturnType::Default => Ok(None),
        ReturnType::Type(_, of) => type_of(of).map(Some),
    }
}

impl Parse for Signature {
    /// `(name: type, ...) -> type`
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let inside;
        parenthesized!(inside in input);
        let arguments = Punctuated::<Member, Token![,]>::parse_terminated(&inside)?;
        Ok(Self {
            arguments: arguments.into_iter().collect(),
            result: result(&input.parse()?)?,
        })
    }
}

impl Parse for Member {
    /// `name: type`
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name: Ident = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Self {
            doc: Vec::new(),
            name: name.to_string(),
            of: type_of(&input.parse()?)?,
        })
    }
}

/// The body of `ops_table!`.
struct Table(Definition);

impl Parse for Table {
    /// `/// doc  name { /// doc  operation(arguments) -> result; ... }`
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let name: Ident = input.parse()?;
        let inside;
        braced!(inside in input);
        let mut members = vec![Member {
            doc: Vec::new(),
            name: "size".into(),
            of: Type::Name("usize".into()),
        }];
        while !inside.is_empty() {
            let doc = documentation(&inside.call(Attribute::parse_outer)?);
            let name = inside.parse::<Ident>()?.to_string();
            let of = Type::Function(Box::new(inside.parse()?));
            inside.parse::<Token![;]>()?;
            members.push(Member { doc, name, of });
        }
        let kind = Kind::Structure(members);
        Ok(Self(definition(&attributes, &name, kind)))
    }
}

/// The body of `calls!`; those that are not public are left out.
struct Calls(Vec<Definition>);

impl Parse for Calls {
    /// `/// doc  pub name: table.operation(arguments) -> result, in type; ...`
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut definitions = Vec::new();
        while !input.is_empty() {
            let attributes = input.call(Attribute::parse_outer)?;
            let visibility: Visibility = input.parse()?;
            let name: Ident = input.parse()?;
            input.parse::<Token![:]>()?;
            let table: Ident = input.parse()?;
            input.parse::<Token![.]>()?;
            let operation: Ident = input.parse()?;
            let kind = Kind::Call {
                table: table.to_string(),
                operation: operation.to_string(),
                signature: input.parse()?,
                younger_in: younger_in(input)?,
            };
            input.parse::<Token![;]>()?;
            if matches!(visibility, Visibility::Public(_)) {
                definitions.push(definition(&attributes, &name, kind));
            }
        }
        Ok(Self(definitions))
    }
}

fn younger_in(input: ParseStream<'_>) -> syn::Result<Option<String>> {
    if input.parse::<Option<Token![,]>>()?.is_none() {
        return Ok(None);
    }
    input.parse::<Token![in]>()?;
    Ok(Some(input.parse::<Ident>()?.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_heads_the_constant_below_it() {
        let text = "//! A file.\n\n// Some\n// flags.\n\n/// One.\npub const ONE: u64 = 1;\npub const TWO: u64 = 2;\n";
        let source = read(text).expect("it is Rust");
        let headings = source.definitions.iter().map(|one| match &one.kind {
            Kind::Constant { heading, .. } => heading.as_str(),
            _ => "no constant",
        });
        assert_eq!(headings.collect::<Vec<_>>(), ["Some flags.", ""]);
        assert_eq!(source.definitions[0].doc, ["One."]);
    }

    #[test]
    fn the_macros_define_tables_and_calls() {
        let text = "ops_table! { /** a */ fi_ops_a { open(fid: *mut fid, of: &fi_info,) -> c_int; } }\n\
                    calls! { pub fi_open: ops.open(fid: *mut fid) -> c_int, in fi_ops_a; fi_hidden: ops.x(f: *mut fid) -> c_int; }";
        let source = read(text).expect("it is Rust");
        assert_eq!(source.names().collect::<Vec<_>>(), ["fi_ops_a", "fi_open"]);
        let Kind::Structure(members) = &source.definitions[0].kind else {
            panic!("no such definition");
        };
        assert_eq!(members[1].name, "open");
        let Kind::Call { younger_in, .. } = &source.definitions[1].kind else {
            panic!("no such definition");
        };
        assert_eq!(younger_in.as_deref(), Some("fi_ops_a"));
    }

    #[test]
    fn what_c_cannot_say_is_refused() {
        for text in [
            "pub type a = (u8, u8);",
            "pub struct a { b: [u8; 1 + 1] }",
            "pub type a = Option<unsafe extern \"C\" fn(u8)>;",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
