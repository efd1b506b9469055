//! Reads the definitions of the C interface out of Rust: constants, structures, tables, calls. Bodies are skipped.

use super::tokens::{Token, cut};

/// A type as C can say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Name(String),
    Pointer { is_const: bool, to: Box<Type> },
    Array { of: Box<Type>, length: String },
    Function(Box<Signature>),
}

/// Arguments with their names, and a result unless there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) arguments: Vec<Member>,
    pub(super) result: Option<Type>,
}

/// A member of a structure or an argument of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) doc: Vec<String>,
    pub(super) name: String,
    pub(super) of: Type,
}

/// A definition, with its documentation line by line.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) doc: Vec<String>,
    pub(super) name: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A comment above a group of constants.
    Heading,
    Constant {
        of: Type,
        value: Vec<Token>,
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
#[derive(Debug)]
pub(super) struct Source {
    pub(super) definitions: Vec<Definition>,
}

impl Source {
    /// Names that programs use, as C knows them.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let is_shown = |definition: &&Definition| match definition.kind {
            Kind::Heading | Kind::Union(_) => false,
            _ => !super::c::IN_RUST_ONLY.contains(&definition.name.as_str()),
        };
        self.definitions
            .iter()
            .filter(is_shown)
            .map(|definition| definition.name.as_str())
    }
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Source, String> {
    let tokens = cut(text);
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        doc: Vec::new(),
        definitions: Vec::new(),
    };
    reader.file()?;
    Ok(Source {
        definitions: reader.definitions,
    })
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    /// Documentation that waits for its definition.
    doc: Vec<String>,
    definitions: Vec<Definition>,
}

impl Reader<'_> {
    fn file(&mut self) -> Result<(), String> {
        while let Some(token) = self.tokens.get(self.at).cloned() {
            self.at += 1;
            match token {
                Token::Doc(line) => self.doc.push(line),
                Token::Comment(line) => self.define(line, Kind::Heading),
                Token::Mark("#") => self.skip_group("[", "]")?,
                Token::Word(word) => self.item(&word)?,
                Token::Gap | Token::Mark(_) => {}
            }
        }
        Ok(())
    }

    fn item(&mut self, word: &str) -> Result<(), String> {
        match word {
            "pub"
                if self.is_word("const")
                    && self.tokens.get(self.at + 1) != Some(&Token::Word("fn".into())) =>
            {
                self.at += 1;
                self.constant()
            }
            "pub" if self.take_word("type") => self.alias(),
            "pub" if self.take_word("struct") => self.members(Kind::Structure),
            "pub" if self.take_word("union") => self.members(Kind::Union),
            "pub" => Ok(()),
            "ops_table" => self.table(),
            "calls" => self.calls(),
            "fn" => self.function(),
            "use" | "mod" | "zeroed" => self.skip_to(";"),
            "impl" | "trait" => {
                self.doc.clear();
                self.skip_group("{", "}")
            }
            _ => Ok(()),
        }
    }

    fn constant(&mut self) -> Result<(), String> {
        let name = self.word()?;
        self.expect(":")?;
        let of = self.type_of()?;
        self.expect("=")?;
        let start = self.at;
        self.skip_to(";")?;
        let value = self.tokens[start..self.at - 1].to_vec();
        self.define(name, Kind::Constant { of, value });
        Ok(())
    }

    fn alias(&mut self) -> Result<(), String> {
        let name = self.word()?;
        self.expect("=")?;
        let of = self.type_of()?;
        self.expect(";")?;
        self.define(name, Kind::Alias(of));
        Ok(())
    }

    fn members(&mut self, kind: fn(Vec<Member>) -> Kind) -> Result<(), String> {
        let name = self.word()?;
        let doc = std::mem::take(&mut self.doc);
        self.expect("{")?;
        let members = self.list("}")?;
        self.definitions.push(Definition {
            doc,
            name,
            kind: kind(members),
        });
        Ok(())
    }

    /// `ops_table! { /// doc  name { operation(arguments) -> result; } }`
    fn table(&mut self) -> Result<(), String> {
        self.expect("!")?;
        self.expect("{")?;
        let doc = self.documentation();
        let name = self.word()?;
        self.expect("{")?;
        let size = Type::Name("usize".into());
        let size = Member {
            doc: Vec::new(),
            name: "size".into(),
            of: size,
        };
        let mut members = vec![size];
        while !self.take("}") {
            let doc = self.documentation();
            let name = self.word()?;
            let of = Type::Function(Box::new(self.signature()?));
            self.expect(";")?;
            members.push(Member { doc, name, of });
        }
        self.expect("}")?;
        self.definitions.push(Definition {
            doc,
            name,
            kind: Kind::Structure(members),
        });
        Ok(())
    }

    /// `calls! { /// doc  pub name: table.operation(arguments) -> result, in type; }`
    fn calls(&mut self) -> Result<(), String> {
        self.expect("!")?;
        self.expect("{")?;
        while !self.take("}") {
            let doc = self.documentation();
            let is_public = self.take_word("pub");
            let name = self.word()?;
            self.expect(":")?;
            let (table, operation) = (self.word()?, self.word()?);
            let signature = self.signature()?;
            let younger_in = if self.take(",") {
                self.word()?;
                Some(self.word()?)
            } else {
                None
            };
            self.expect(";")?;
            if is_public {
                let kind = Kind::Call {
                    table,
                    operation,
                    signature,
                    younger_in,
                };
                self.definitions.push(Definition { doc, name, kind });
            }
        }
        Ok(())
    }

    fn function(&mut self) -> Result<(), String> {
        let name = self.word()?;
        self.skip_group("{", "}")?;
        self.define(name, Kind::Function);
        Ok(())
    }

    fn signature(&mut self) -> Result<Signature, String> {
        self.expect("(")?;
        let arguments = self.list(")")?;
        let result = if self.take("->") {
            Some(self.type_of()?)
        } else {
            None
        };
        Ok(Signature { arguments, result })
    }

    /// Members or arguments up to a closing mark.
    fn list(&mut self, end: &'static str) -> Result<Vec<Member>, String> {
        let mut members = Vec::new();
        loop {
            let doc = self.documentation();
            if self.take(end) {
                return Ok(members);
            }
            self.take_word("pub");
            let name = self.word()?;
            self.expect(":")?;
            let of = self.type_of()?;
            self.take(",");
            members.push(Member { doc, name, of });
        }
    }

    fn type_of(&mut self) -> Result<Type, String> {
        if self.take("*") {
            let is_const = self.word()? == "const";
            let to = Box::new(self.type_of()?);
            return Ok(Type::Pointer { is_const, to });
        }
        if self.take("&") {
            return self.type_of();
        }
        if self.take("[") {
            let of = Box::new(self.type_of()?);
            self.expect(";")?;
            let length = self.word()?;
            self.expect("]")?;
            return Ok(Type::Array { of, length });
        }
        match self.word()?.as_str() {
            "Option" => {
                self.expect("<")?;
                let of = self.type_of()?;
                self.take(",");
                self.expect(">")?;
                Ok(of)
            }
            "unsafe" => {
                // extern "C" fn
                self.at += 3;
                Ok(Type::Function(Box::new(self.signature()?)))
            }
            name => Ok(Type::Name(name.to_owned())),
        }
    }

    fn define(&mut self, name: String, kind: Kind) {
        let doc = std::mem::take(&mut self.doc);
        self.definitions.push(Definition { doc, name, kind });
    }

    /// Lines of documentation that come next; comments and empty lines are skipped.
    fn documentation(&mut self) -> Vec<String> {
        let mut doc = Vec::new();
        while let Some(token) = self.tokens.get(self.at) {
            match token {
                Token::Doc(line) => doc.push(line.clone()),
                Token::Comment(_) | Token::Gap => {}
                _ => break,
            }
            self.at += 1;
        }
        doc
    }

    fn word(&mut self) -> Result<String, String> {
        match self.tokens.get(self.at) {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word.clone())
            }
            other => Err(self.surprise("a word", other)),
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Word(found)) if found == word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_there = self.is_word(word);
        self.at += usize::from(is_there);
        is_there
    }

    fn take(&mut self, mark: &'static str) -> bool {
        let is_there = self.tokens.get(self.at) == Some(&Token::Mark(mark));
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, mark: &'static str) -> Result<(), String> {
        if self.take(mark) {
            return Ok(());
        }
        Err(self.surprise(mark, self.tokens.get(self.at)))
    }

    fn surprise(&self, expected: &str, found: Option<&Token>) -> String {
        let last = self
            .definitions
            .last()
            .map_or("the start", |definition| &definition.name);
        format!("after {last}: {found:?} where {expected} was expected")
    }

    fn skip_to(&mut self, mark: &'static str) -> Result<(), String> {
        while !self.take(mark) {
            self.at += 1;
            if self.at > self.tokens.len() {
                return Err(self.surprise(mark, None));
            }
        }
        Ok(())
    }

    /// Skips to the opening mark and over all that it encloses.
    fn skip_group(&mut self, open: &'static str, close: &'static str) -> Result<(), String> {
        self.skip_to(open)?;
        let mut depth = 1;
        while depth > 0 {
            if self.take(open) {
                depth += 1;
            } else if self.take(close) {
                depth -= 1;
            } else {
                self.at += 1;
            }
            if self.at > self.tokens.len() {
                return Err(self.surprise(close, None));
            }
        }
        Ok(())
    }
}
