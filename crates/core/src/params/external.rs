//! Parameters that code outside this library defines at run time (fi_param_define, fi_param_get).

use std::ffi::{CStr, CString};
use std::sync::{Mutex, PoisonError};

use core::ffi::c_char;

use oxifabric_abi::{FI_PARAM_BOOL, FI_PARAM_INT, FI_PARAM_SIZE_T, FI_PARAM_STRING};
use oxifabric_provider::environment;
use oxifabric_provider::params::sysconfig::{Origin, Sysconfig};
use oxifabric_provider::params::{parse_bool, parse_int, variable};
use oxifabric_types::Errno;

/// One parameter that was defined at run time.
#[derive(Clone, Debug)]
pub struct Defined {
    /// Address of the `fi_provider` that defined it; 0 for none.
    owner: usize,
    name: String,
    /// `enum fi_param_type`.
    pub kind: u32,
    /// What `fi_info -e` prints.
    pub help: String,
    /// The variable, of the environment or of libfabric.conf.
    pub variable: CString,
}

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text that the environment owns, or libfabric.conf's, which stays.
    Text(*const c_char),
    /// An integer or a truth value.
    Int(i32),
    /// A size.
    Size(usize),
}

static DEFINED: Mutex<Vec<Defined>> = Mutex::new(Vec::new());

/// Defines a parameter of the provider at the address `owner`, whose name is `provider`.
///
/// # Errors
/// `INVAL` for a name with a zero byte.
pub fn define(
    owner: usize,
    provider: &str,
    name: &str,
    kind: u32,
    help: String,
) -> Result<(), Errno> {
    let variable = CString::new(variable(provider, name)).map_err(|_| Errno::INVAL)?;
    let defined = Defined {
        owner,
        name: name.to_owned(),
        kind,
        help,
        variable,
    };
    table().push(defined);
    Ok(())
}

/// Reads a parameter that was defined before.
///
/// # Errors
/// `NOENT` if it was not defined, `NODATA` if its variable is not set, `INVAL` for a value that is no truth value.
pub fn value(owner: usize, name: &str) -> Result<Value, Errno> {
    let (kind, variable) = {
        let table = table();
        let is_it = |row: &&Defined| row.owner == owner && row.name == name;
        let row = table.iter().find(is_it).ok_or(Errno::NOENT)?;
        (row.kind, row.variable.clone())
    };
    let in_environment = match environment::is_trusted() {
        // SAFETY: the name is a C string. The text belongs to the environment, as C programs expect of this call.
        true => unsafe { libc::getenv(variable.as_ptr()) },
        false => core::ptr::null_mut(),
    };
    let name = variable.to_str().map_err(|_| Errno::NODATA)?;
    let text = match Sysconfig::of_system().origin(name, !in_environment.is_null()) {
        None => return Err(Errno::NODATA),
        Some(Origin::Environment) => in_environment.cast_const(),
        Some(Origin::File(value)) => value.as_ptr(),
    };
    // SAFETY: `getenv` returned a string, or it is the file's.
    let read = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    match kind {
        FI_PARAM_STRING => Ok(Value::Text(text)),
        FI_PARAM_INT => Ok(Value::Int(parse_int(&read).unwrap_or(0) as i32)),
        FI_PARAM_BOOL => match parse_bool(&read) {
            Some(value) => Ok(Value::Int(i32::from(value))),
            None => Err(Errno::INVAL),
        },
        FI_PARAM_SIZE_T => Ok(Value::Size(parse_int(&read).unwrap_or(0) as usize)),
        _ => Err(Errno::INVAL),
    }
}

/// Lists what was defined, in that order.
pub fn all() -> Vec<Defined> {
    table().clone()
}

fn table() -> std::sync::MutexGuard<'static, Vec<Defined>> {
    DEFINED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_read_only_by_its_owner() {
        define(1, "probe", "depth", FI_PARAM_INT, "Depth".to_owned()).unwrap();
        assert_eq!(value(1, "depth"), Err(Errno::NODATA));
        assert_eq!(value(2, "depth"), Err(Errno::NOENT));
        assert_eq!(value(1, "width"), Err(Errno::NOENT));
        let row = all().into_iter().find(|row| row.name == "depth").unwrap();
        assert_eq!(row.variable.to_str(), Ok("FI_PROBE_DEPTH"));
    }
}
