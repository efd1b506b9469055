//! Writes definitions as C that C++ takes too.

use std::collections::{BTreeMap, BTreeSet};

use syn::{BinOp, Expr, Lit, UnOp};

use crate::rust::{Definition, Kind, Member, Signature, Source, Type};

/// What the crate defines for Rust and C has no name for.
pub(crate) const IN_RUST_ONLY: [&str; 3] = ["FI_PROV_INI", "fi_prov_ini", "fi_profile_callback"];

/// Members that C also has under another name, and as another type where that says so.
const SECOND_NAMES: [(&str, &str, &str); 2] = [
    (
        "fi_domain_attr",
        "data_progress",
        "enum fi_progress progress",
    ),
    ("fi_mr_attr", "mr_iov", "const struct fi_mr_dmabuf *dmabuf"),
];

/// Columns of a line; longer lists of arguments are broken.
const WIDTH: usize = 110;

/// What the names of all files stand for.
pub(crate) struct Names<'a> {
    structures: BTreeMap<&'a str, &'a [Member]>,
    unions: BTreeMap<&'a str, &'a [Member]>,
    aliases: BTreeMap<&'a str, &'a Type>,
    error_numbers: BTreeMap<String, String>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(
        sources: impl Iterator<Item = &'a Source>,
        error_numbers: BTreeMap<String, String>,
    ) -> Self {
        let mut names = Self {
            structures: BTreeMap::new(),
            unions: BTreeMap::new(),
            aliases: BTreeMap::new(),
            error_numbers,
        };
        for definition in sources.flat_map(|source| &source.definitions) {
            let name = definition.name.as_str();
            match &definition.kind {
                Kind::Structure(members) => drop(names.structures.insert(name, members)),
                Kind::Union(members) => drop(names.unions.insert(name, members)),
                Kind::Alias(of) => drop(names.aliases.insert(name, of)),
                _ => {}
            }
        }
        names
    }

    /// Whether C has an enumeration of that name, which is a number in Rust.
    fn is_enumeration(&self, name: &str) -> bool {
        let number = Type::Name("u32".to_owned());
        self.aliases.get(name).is_some_and(|of| **of == number)
    }

    /// Spells a type whose name is alone.
    fn spell(&self, name: &str) -> Result<String, String> {
        let primitive = match name {
            "c_void" => "void",
            "c_char" => "char",
            "c_int" => "int",
            "u8" => "uint8_t",
            "u16" => "uint16_t",
            "u32" => "uint32_t",
            "u64" => "uint64_t",
            "usize" => "size_t",
            "isize" => "ssize_t",
            "bool" => "bool",
            "pthread_mutex_t" | "pthread_cond_t" => name,
            "iovec" | "pollfd" => return Ok(format!("struct {name}")),
            _ if self.structures.contains_key(name) => return Ok(format!("struct {name}")),
            _ if self.is_enumeration(name) => return Ok(format!("enum {name}")),
            _ if self.aliases.contains_key(name) => name,
            _ => return Err(format!("no type {name}")),
        };
        Ok(primitive.to_owned())
    }

    /// Declares `what`, which is a name with what stands around it.
    fn declare(&self, of: &Type, what: &str) -> Result<String, String> {
        match of {
            Type::Name(name) => match self.aliases.get(name.as_str()) {
                Some(function @ Type::Function(_)) => self.declare(function, what),
                _ => Ok(format!("{} {what}", self.spell(name)?)),
            },
            Type::Pointer { is_const, to } => match &**to {
                Type::Name(name) => {
                    let qualifier = if *is_const { "const " } else { "" };
                    Ok(format!("{qualifier}{} *{what}", self.spell(name)?))
                }
                to if *is_const => self.declare(to, &format!("const *{what}")),
                to => self.declare(to, &format!("*{what}")),
            },
            Type::Array { of, length } if length == "0" => self.declare(of, &format!("{what}[]")),
            Type::Array { of, length } => self.declare(of, &format!("{what}[{length}]")),
            Type::Function(signature) => self.function(signature, &format!("(*{what})")),
        }
    }

    /// Declares a function.
    fn function(&self, signature: &Signature, what: &str) -> Result<String, String> {
        let arguments: Result<Vec<String>, String> = signature
            .arguments
            .iter()
            .map(|argument| self.declare(&argument.of, c_name(&argument.name)))
            .collect();
        let mut arguments = arguments?.join(", ");
        if arguments.is_empty() {
            "void".clone_into(&mut arguments);
        }
        let what = format!("{what}({arguments})");
        match &signature.result {
            Some(result) => Ok(self.declare(result, &what)?),
            None => Ok(format!("void {what}")),
        }
    }

    /// Adds the structures that a type names, and to `inside` those whose size it needs.
    fn mentions<'b>(
        &'b self,
        of: &'b Type,
        named: &mut BTreeSet<&'b str>,
        inside: &mut Vec<&'b str>,
    ) {
        match of {
            Type::Name(name) => {
                if let Some(members) = self.unions.get(name.as_str()) {
                    members
                        .iter()
                        .for_each(|member| self.mentions(&member.of, named, inside));
                } else if let Some(of @ Type::Function(_)) = self.aliases.get(name.as_str()) {
                    self.mentions(of, named, inside);
                } else if self.structures.contains_key(name.as_str()) {
                    named.insert(name);
                    inside.push(name);
                }
            }
            Type::Array { of, .. } => self.mentions(of, named, inside),
            Type::Pointer { to, .. } => self.mentions(to, named, &mut Vec::new()),
            Type::Function(signature) => {
                let arguments = signature.arguments.iter().map(|argument| &argument.of);
                arguments
                    .chain(&signature.result)
                    .for_each(|of| self.mentions(of, named, &mut Vec::new()));
            }
        }
    }
}

/// Writes constants, enumerations and types; then the structures, each after those that it holds.
pub(crate) fn definitions(all: &[&Definition], names: &Names) -> Result<String, String> {
    let mut text = forward_declarations(all, names);
    for definition in all {
        match &definition.kind {
            _ if IN_RUST_ONLY.contains(&definition.name.as_str()) => {}
            Kind::Alias(_) if names.is_enumeration(&definition.name) => {
                text += &enumeration(definition, all, names)?;
            }
            Kind::Alias(of) => {
                text += &format!(
                    "\n{}typedef {};\n",
                    comment(&definition.doc, ""),
                    names.declare(of, &definition.name)?
                );
            }
            Kind::Constant {
                of: Type::Name(of), ..
            } if names.is_enumeration(of) => {}
            Kind::Constant { of, value, heading } => {
                if !heading.is_empty() {
                    text += &format!("\n{}", comment(std::slice::from_ref(heading), ""));
                } else if !definition.doc.is_empty() {
                    text.push('\n');
                }
                text += &comment(&definition.doc, "");
                text += &format!(
                    "#define {} {}\n",
                    definition.name,
                    expression(of, value, names)?
                );
            }
            _ => {}
        }
    }
    let mut written = BTreeSet::new();
    for definition in all {
        structure(definition, all, names, &mut written, &mut text)?;
    }
    Ok(text.trim_start().to_owned())
}

fn forward_declarations(all: &[&Definition], names: &Names) -> String {
    let mut named = BTreeSet::new();
    for definition in all {
        match &definition.kind {
            Kind::Structure(members) => {
                named.insert(definition.name.as_str());
                for member in members {
                    names.mentions(&member.of, &mut named, &mut Vec::new());
                }
            }
            Kind::Alias(of) if !IN_RUST_ONLY.contains(&definition.name.as_str()) => {
                names.mentions(of, &mut named, &mut Vec::new());
            }
            _ => {}
        }
    }
    named
        .iter()
        .map(|name| format!("struct {name};\n"))
        .collect()
}

fn enumeration(
    definition: &Definition,
    all: &[&Definition],
    names: &Names,
) -> Result<String, String> {
    let own = Type::Name(definition.name.clone());
    let mut rows = Vec::new();
    for constant in all {
        if let Kind::Constant { of, value, .. } = &constant.kind
            && *of == own
        {
            rows.push(format!(
                "    {} = {}",
                constant.name,
                expression(of, value, names)?
            ));
        }
    }
    let doc = comment(&definition.doc, "");
    Ok(format!(
        "\n{doc}enum {} {{\n{}\n}};\n",
        definition.name,
        rows.join(",\n")
    ))
}

/// Writes a structure unless it is there, and before it those of the same header that it holds.
fn structure(
    definition: &Definition,
    all: &[&Definition],
    names: &Names,
    written: &mut BTreeSet<String>,
    text: &mut String,
) -> Result<(), String> {
    let Kind::Structure(members) = &definition.kind else {
        return Ok(());
    };
    if !written.insert(definition.name.clone()) {
        return Ok(());
    }
    let mut inside = Vec::new();
    members
        .iter()
        .for_each(|member| names.mentions(&member.of, &mut BTreeSet::new(), &mut inside));
    for other in all {
        if inside.contains(&other.name.as_str()) {
            structure(other, all, names, written, text)?;
        }
    }
    *text += &format!(
        "\n{}struct {} {{\n",
        comment(&definition.doc, ""),
        definition.name
    );
    for one in members {
        *text += &member(&definition.name, one, names)?;
    }
    *text += "};\n";
    Ok(())
}

fn member(structure: &str, member: &Member, names: &Names) -> Result<String, String> {
    let name = c_name(&member.name);
    let doc = comment(&member.doc, "    ");
    if let Type::Name(of) = &member.of
        && let Some(choices) = names.unions.get(of.as_str())
    {
        let choices: Result<String, String> = choices
            .iter()
            .map(|choice| {
                Ok(format!(
                    "        {};\n",
                    names.declare(&choice.of, &choice.name)?
                ))
            })
            .collect();
        return Ok(format!("{doc}    union {{\n{}    }} {name};\n", choices?));
    }
    let declared = names.declare(&member.of, name)?;
    let second = SECOND_NAMES
        .iter()
        .find(|(of, first, _)| (*of, *first) == (structure, name));
    if let Some((_, _, second)) = second {
        return Ok(format!(
            "{doc}    union {{\n        {declared};\n        {second};\n    }};\n"
        ));
    }
    // C++ has arrays without a length as an extension only.
    let extension = if declared.ends_with("[]") {
        "__extension__ "
    } else {
        ""
    };
    Ok(format!(
        "{doc}{};\n",
        broken(&format!("    {extension}{declared}"))
    ))
}

/// Writes the inline functions that call through a table.
pub(crate) fn calls(all: &[&Definition], names: &Names) -> Result<String, String> {
    let mut text = String::new();
    for definition in all {
        let Kind::Call {
            table,
            operation,
            signature,
            younger_in,
        } = &definition.kind
        else {
            continue;
        };
        let arguments: Vec<&str> = signature
            .arguments
            .iter()
            .map(|argument| c_name(&argument.name))
            .collect();
        let object = arguments.first().ok_or("a call without an object")?;
        let declared = names.function(signature, &definition.name)?;
        text += &format!(
            "\n{}{}\n{{\n",
            comment(&definition.doc, ""),
            broken(&format!("static inline {declared}"))
        );
        if let Some(ops) = younger_in {
            text += &format!(
                "    if (!FI_CHECK_OP({object}->{table}, struct {ops}, {operation}))\n        return -FI_ENOSYS;\n"
            );
        }
        let call = format!(
            "    return {object}->{table}->{operation}({})",
            arguments.join(", ")
        );
        text += &format!("{};\n}}\n", broken(&call));
    }
    Ok(text.trim_start().to_owned())
}

/// Writes the value of a constant, in parentheses unless it is one word.
fn expression(of: &Type, value: &Expr, names: &Names) -> Result<String, String> {
    let is_wide = matches!(of, Type::Name(name) if ["u64", "fi_addr_t"].contains(&name.as_str()));
    let text = operand(value, is_wide, names)?;
    Ok(match value {
        Expr::Unary(_) | Expr::Binary(_) => format!("({text})"),
        _ => text,
    })
}

fn operand(value: &Expr, is_wide: bool, names: &Names) -> Result<String, String> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => {
                let suffix = if is_wide { "ULL" } else { "" };
                Ok(format!("{}{suffix}", number.to_string().replace('_', "")))
            }
            Lit::Str(text) => Ok(format!("{:?}", text.value())),
            Lit::CStr(text) => Ok(format!("{:?}", text.value().to_string_lossy())),
            _ => Err("C has no such literal".to_owned()),
        },
        Expr::Path(path) => named(&path.path, names),
        Expr::Unary(negation) if matches!(negation.op, UnOp::Neg(_)) => {
            Ok(format!("-{}", operand(&negation.expr, is_wide, names)?))
        }
        Expr::Binary(binary) => {
            let (operator, is_wide_right) = match binary.op {
                BinOp::Shl(_) => ("<<", false),
                BinOp::BitOr(_) => ("|", is_wide),
                BinOp::Add(_) => ("+", is_wide),
                _ => return Err("no such operator".to_owned()),
            };
            let left = operand(&binary.left, is_wide, names)?;
            let right = operand(&binary.right, is_wide_right, names)?;
            Ok(format!("{left} {operator} {right}"))
        }
        // `Errno::NAME.raw()`
        Expr::MethodCall(call) if call.method == "raw" => operand(&call.receiver, is_wide, names),
        _ => Err("C has no such expression".to_owned()),
    }
}

/// Writes another constant, the largest number of a type, or an error number.
fn named(path: &syn::Path, names: &Names) -> Result<String, String> {
    let words: Vec<String> = path
        .segments
        .iter()
        .map(|one| one.ident.to_string())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [name] => Ok(name.to_owned()),
        ["u64", "MAX"] => Ok("UINT64_MAX".to_owned()),
        ["usize", "MAX"] => Ok("SIZE_MAX".to_owned()),
        ["Errno", name] => {
            let number = names.error_numbers.get(name).cloned();
            number.ok_or_else(|| format!("no error {name}"))
        }
        _ => Err(format!("C has no {}", words.join("::"))),
    }
}

/// Rust cannot call a member `type`.
fn c_name(name: &str) -> &str {
    name.strip_suffix('_').unwrap_or(name)
}

/// Writes documentation without its marks.
fn comment(doc: &[String], indent: &str) -> String {
    let plain: Vec<String> = doc
        .iter()
        .map(|line| line.replace("[`", "").replace("`]", "").replace('`', ""))
        .collect();
    match plain.as_slice() {
        [] => String::new(),
        [line] => format!("{indent}/* {line} */\n"),
        lines => {
            let lines: String = lines
                .iter()
                .map(|line| format!("{indent} * {line}").trim_end().to_owned() + "\n")
                .collect();
            format!("{indent}/*\n{lines}{indent} */\n")
        }
    }
}

/// Breaks the last list of arguments in a long line.
fn broken(line: &str) -> String {
    let fits = line.len() < WIDTH;
    let Some(open) = line.rfind('(').filter(|_| !fits) else {
        return line.to_owned();
    };
    let indent = line.len() - line.trim_start().len() + 8;
    let mut text = String::new();
    let mut current = line[..=open].to_owned();
    for part in line[open + 1..].split_inclusive(", ") {
        if current.len() + part.trim_end().len() >= WIDTH {
            text += current.trim_end();
            text.push('\n');
            current = " ".repeat(indent);
        }
        current += part;
    }
    text + &current
}
