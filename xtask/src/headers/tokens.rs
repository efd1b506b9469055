//! Cuts Rust into tokens, as far as the definitions of the C interface need them.

/// A token with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A line of documentation.
    Doc(String),
    /// A line of comment.
    Comment(String),
    /// An empty line.
    Gap,
    /// A name, a keyword, a number or a string.
    Word(String),
    /// A punctuation mark; `->`, `::` and `<<` are one mark.
    Mark(&'static str),
}

#[rustfmt::skip]
const MARKS: [&str; 28] = [
    "->", "::", "<<", "=>", "..", "&&", "||", "==", "!=", "<=",
    "(", ")", "{", "}", "[", "]", "<", ">", ":", ";", ",", "=", "&", "*", "#", "!", "-", "+",
];

/// Cuts a file into tokens; marks that no definition uses are left out.
pub(super) fn cut(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() {
            tokens.push(Token::Gap);
        } else if let Some(doc) = line.strip_prefix("///") {
            tokens.push(Token::Doc(doc.trim().to_owned()));
        } else if line.starts_with("//!") {
            continue;
        } else if let Some(comment) = line.strip_prefix("//") {
            tokens.push(Token::Comment(comment.trim().to_owned()));
        } else {
            cut_line(line, &mut tokens);
        }
    }
    tokens
}

fn cut_line(mut line: &str, tokens: &mut Vec<Token>) {
    while let Some(first) = line.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if line.starts_with("c\"") || first == '"' {
            let start = line.find('"').unwrap_or_default() + 1;
            line[start..]
                .find('"')
                .map_or(line.len(), |end| start + end + 1)
        } else if is_word(first) {
            line.find(|c| !is_word(c)).unwrap_or(line.len())
        } else if let Some(mark) = MARKS.iter().find(|mark| line.starts_with(**mark)) {
            tokens.push(Token::Mark(mark));
            line = &line[mark.len()..];
            continue;
        } else {
            line = &line[first.len_utf8()..];
            continue;
        };
        tokens.push(Token::Word(line[..length].to_owned()));
        line = &line[length..];
    }
}
