//! Objects of the fabric interface and the tables that C programs call.
