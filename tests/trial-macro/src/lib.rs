//! The attribute `test` of trials: it hands a function to the harness of `oxifabric-trials`, which reports at run time what
//! cannot run here.

use proc_macro::{TokenStream, TokenTree};

/// Registers a function without arguments as a trial, in place of libtest's attribute of the same name.
///
/// # Panics
/// What follows is no function; the compiler reports it there.
#[proc_macro_attribute]
pub fn test(_: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens = function.clone().into_iter();
    let is_fn =
        |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn");
    assert!(tokens.any(|token| is_fn(&token)), "a trial is a function");
    let name = tokens.next().expect("a function has a name");
    let registered = format!("::oxifabric_trials::registered! {{ {name} }}");
    let registered: TokenStream = registered.parse().expect("a macro call");
    function.into_iter().chain(registered).collect()
}
