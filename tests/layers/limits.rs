//! What a file may be and hold: sizes, names, and words that are kept out or in their place.

use crate::source::Source;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Files over this many lines hold a second idea.
pub(crate) const FILE_LINES: usize = 600;
pub(crate) const FUNCTION_LINES: usize = 80;
/// Files directly in `src`.
pub(crate) const ROOT_FILES: usize = 12;

pub(crate) fn too_many_in_the_root(sources: &[Source]) -> Vec<String> {
    let in_root = sources.iter().filter(|s| s.folder().is_none());
    let names: Vec<&str> = in_root.map(|s| s.path.as_str()).collect();
    match names.len() > ROOT_FILES {
        true => vec![format!("{} files: {}", names.len(), names.join(", "))],
        false => Vec::new(),
    }
}

pub(crate) fn long_files(sources: &[Source]) -> Vec<String> {
    let long = sources.iter().filter_map(|source| {
        let lines = source.text.lines().count();
        (lines > FILE_LINES).then(|| format!("{}: {lines} lines", source.path))
    });
    long.collect()
}

/// rustfmt puts the end of a function below its beginning, so lines tell.
pub(crate) fn long_functions(sources: &[Source]) -> Vec<String> {
    let mut long = Vec::new();
    for source in sources {
        let lines: Vec<&str> = source.text.lines().collect();
        for (first, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            let indent = &line[..line.len() - code.len()];
            let Some(name) = function(code) else { continue };
            let closes = |l: &&str| l.strip_prefix(indent).is_some_and(ends);
            let last = match ends_at_once(code) {
                true => 0,
                false => lines[first + 1..]
                    .iter()
                    .position(closes)
                    .map_or(0, |n| n + 1),
            };
            if last + 1 > FUNCTION_LINES {
                let place = format!("{}:{}", source.path, first + 1);
                long.push(format!("{place}: `{name}` has {} lines", last + 1));
            }
        }
    }
    long
}

/// Name of the function that this line begins.
fn function(code: &str) -> Option<&str> {
    let mut rest = code;
    let qualifiers = [
        "pub ",
        "pub(crate) ",
        "pub(super) ",
        "const ",
        "async ",
        "unsafe ",
        "extern \"C\" ",
    ];
    while let Some(after) = qualifiers.iter().find_map(|q| rest.strip_prefix(q)) {
        rest = after;
    }
    let name = rest.strip_prefix("fn ")?;
    Some(name.split(['(', '<']).next().unwrap_or(name))
}

fn ends_at_once(code: &str) -> bool {
    code.ends_with('}') || code.ends_with(';')
}

/// The closing brace of a body, or the end of a declaration without one.
fn ends(line: &str) -> bool {
    line.starts_with('}') || (line.starts_with(')') && line.ends_with(';'))
}

/// Clippy's `module_inception`, for folders whose modules are not of that name, too.
pub(crate) fn named_as_their_folder(sources: &[Source]) -> Vec<String> {
    let named = sources.iter().filter(|s| s.folder() == Some(s.stem()));
    named.map(|s| s.path.clone()).collect()
}

/// A word that a file of Rust holds outside comments and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Unsafe,
    /// `#[path = ...]`
    PathAttribute,
    /// `#[allow(dead_code)]`, or `expect`
    DeadCode,
    /// `unreachable!`
    Unreachable,
}

/// Files that hold the word.
pub(crate) fn files_with(sources: &[Source], word: Word) -> Vec<&str> {
    let holds = |s: &&Source| {
        let tokens = s.text.parse::<TokenStream>();
        let tokens = tokens.unwrap_or_else(|e| panic!("{}: {e}", s.path));
        found(&tokens.into_iter().collect::<Vec<_>>(), word)
    };
    sources
        .iter()
        .filter(holds)
        .map(|s| s.path.as_str())
        .collect()
}

fn found(tokens: &[TokenTree], word: Word) -> bool {
    tokens.iter().enumerate().any(|(i, token)| match token {
        TokenTree::Group(group) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let attribute = group.delimiter() == Delimiter::Bracket && after_hash(&tokens[..i]);
            attribute && in_attribute(&inner, word) || found(&inner, word)
        }
        TokenTree::Ident(ident) => match word {
            Word::Unsafe => ident == "unsafe",
            Word::Unreachable => ident == "unreachable" && is_punct(tokens.get(i + 1), '!'),
            Word::PathAttribute | Word::DeadCode => false,
        },
        _ => false,
    })
}

/// `#` or `#!` comes before.
fn after_hash(before: &[TokenTree]) -> bool {
    let inner = usize::from(is_punct(before.last(), '!'));
    is_punct(before[..before.len() - inner].last(), '#')
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == character)
}

fn in_attribute(tokens: &[TokenTree], word: Word) -> bool {
    let words = identifiers(tokens);
    let has = |name: &str| words.iter().any(|w| w == name);
    match word {
        Word::PathAttribute => {
            words.first().is_some_and(|w| w == "path") && is_punct(tokens.get(1), '=')
        }
        Word::DeadCode => (has("allow") || has("expect")) && has("dead_code"),
        Word::Unsafe | Word::Unreachable => false,
    }
}

fn identifiers(tokens: &[TokenTree]) -> Vec<String> {
    let of = |token: &TokenTree| match token {
        TokenTree::Ident(ident) => vec![ident.to_string()],
        TokenTree::Group(group) => identifiers(&group.stream().into_iter().collect::<Vec<_>>()),
        _ => Vec::new(),
    };
    tokens.iter().flat_map(of).collect()
}
