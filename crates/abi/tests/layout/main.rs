//! The layout of every structure and the value of every constant, compared with C.
//!
//! `recorded` compares with tables of the 2.7 headers; `ours` compiles programs against the headers of this project, `debian`
//! against those of the machine; `compiled` runs the compiler.

mod compiled;
mod constants;
mod debian;
mod ours;
mod recorded;
mod structures;
