//! The layout of every structure and the value of every constant, compared with C.
//!
//! `recorded` compares with tables of the 2.6 headers; `debian` compiles a program against the headers of the machine.

mod constants;
mod debian;
mod recorded;
mod structures;
