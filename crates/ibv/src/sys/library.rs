//! The shared libraries, and the functions that they export.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;

use oxifabric_types::Errno;

use super::structures::*;

/// Why there is no libibverbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The library cannot be opened; the text is the loader's.
    Library(&'static str, String),
    /// The library is too old: it lacks this function in the symbol version that is looked up.
    Function(&'static str),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(name, reason) if reason.contains("cannot open shared object file") => {
                write!(
                    f,
                    "{name} is not installed (Debian: libibverbs1 ibverbs-providers)"
                )
            }
            Self::Library(name, reason) => write!(f, "{name} cannot be loaded: {reason}"),
            Self::Function(name) => write!(f, "the installed library is too old: it has no {name}"),
        }
    }
}

impl std::error::Error for Absence {}

/// An open shared library. It is never closed: drivers leave threads and exit handlers behind.
#[derive(Clone, Copy, Debug)]
struct Shared(*mut c_void);

impl Shared {
    fn open(name: &'static CStr) -> Result<Self, Absence> {
        // SAFETY: the name is a C string. The constructors of these libraries only list drivers.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            // SAFETY: dlerror returns null or a C string that lives until this thread's next call.
            let reason = unsafe { libc::dlerror() };
            let reason = if reason.is_null() {
                String::new()
            } else {
                // SAFETY: as above.
                unsafe { CStr::from_ptr(reason) }
                    .to_string_lossy()
                    .into_owned()
            };
            let name = name.to_str().unwrap_or_default();
            return Err(Absence::Library(name, reason));
        }
        Ok(Self(handle))
    }

    fn symbol(self, name: &'static CStr, version: &CStr) -> Result<*mut c_void, Absence> {
        // SAFETY: the handle is open; both names are C strings.
        let symbol = unsafe { libc::dlvsym(self.0, name.as_ptr(), version.as_ptr()) };
        if symbol.is_null() {
            return Err(Absence::Function(name.to_str().unwrap_or_default()));
        }
        Ok(symbol)
    }
}

/// Defines a structure of pointers to functions, and looks up each in the symbol version that has the type given here.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($name:ident @ $version:literal: fn($($argument:ty),*) $(-> $result:ty)?;)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            fn load(shared: Shared) -> Result<Self, Absence> {
                const fn c_name(bytes: &'static [u8]) -> &'static CStr {
                    match CStr::from_bytes_with_nul(bytes) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without its end"),
                    }
                }
                Ok(Self {
                    $($name: {
                        let name = c_name(concat!(stringify!($name), "\0").as_bytes());
                        let version = c_name(concat!($version, "\0").as_bytes());
                        let symbol = shared.symbol(name, version)?;
                        // SAFETY: the function of this name and version has this type, in verbs.h or efadv.h.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    /// The functions of libibverbs. Much of verbs.h is inline and calls through pointers in its structures.
    Functions {
        ibv_fork_init @ "IBVERBS_1.1": fn() -> c_int;
        ibv_get_device_list @ "IBVERBS_1.1": fn(*mut c_int) -> *mut *mut ibv_device;
        ibv_free_device_list @ "IBVERBS_1.1": fn(*mut *mut ibv_device);
        ibv_open_device @ "IBVERBS_1.1": fn(*mut ibv_device) -> *mut ibv_context;
        ibv_close_device @ "IBVERBS_1.1": fn(*mut ibv_context) -> c_int;
        ibv_query_device @ "IBVERBS_1.1": fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
        ibv_query_port @ "IBVERBS_1.1": fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
        ibv_query_gid @ "IBVERBS_1.1": fn(*mut ibv_context, u8, c_int, *mut [u8; 16]) -> c_int;
        ibv_alloc_pd @ "IBVERBS_1.1": fn(*mut ibv_context) -> *mut ibv_pd;
        ibv_dealloc_pd @ "IBVERBS_1.1": fn(*mut ibv_pd) -> c_int;
        ibv_reg_mr_iova2 @ "IBVERBS_1.8": fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
        ibv_dereg_mr @ "IBVERBS_1.1": fn(*mut ibv_mr) -> c_int;
        ibv_create_comp_channel @ "IBVERBS_1.0": fn(*mut ibv_context) -> *mut ibv_comp_channel;
        ibv_destroy_comp_channel @ "IBVERBS_1.0": fn(*mut ibv_comp_channel) -> c_int;
        ibv_get_cq_event @ "IBVERBS_1.1": fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events @ "IBVERBS_1.1": fn(*mut ibv_cq, c_uint);
        ibv_destroy_cq @ "IBVERBS_1.1": fn(*mut ibv_cq) -> c_int;
        ibv_modify_qp @ "IBVERBS_1.1": fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
        ibv_destroy_qp @ "IBVERBS_1.1": fn(*mut ibv_qp) -> c_int;
        ibv_qp_to_qp_ex @ "IBVERBS_1.6": fn(*mut ibv_qp) -> *mut ibv_qp_ex;
        ibv_create_ah @ "IBVERBS_1.1": fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
        ibv_destroy_ah @ "IBVERBS_1.1": fn(*mut ibv_ah) -> c_int;
    }
}

functions! {
    /// The functions of libefa.
    EfaFunctions {
        efadv_query_device @ "EFA_1.1": fn(*mut ibv_context, *mut efadv_device_attr, u32) -> c_int;
        efadv_query_ah @ "EFA_1.1": fn(*mut ibv_ah, *mut efadv_ah_attr, u32) -> c_int;
        efadv_create_qp_ex @ "EFA_1.1": fn(*mut ibv_context, *mut ibv_qp_init_attr_ex, *mut efadv_qp_init_attr, u32) -> *mut ibv_qp;
        efadv_create_cq @ "EFA_1.2": fn(*mut ibv_context, *mut ibv_cq_init_attr_ex, *mut efadv_cq_init_attr, u32) -> *mut ibv_cq_ex;
        efadv_cq_from_ibv_cq_ex @ "EFA_1.2": fn(*mut ibv_cq_ex) -> *mut efadv_cq;
    }
}

functions! {
    /// What libefa has since rdma-core 50.
    EfaRegionFunctions {
        efadv_query_mr @ "EFA_1.3": fn(*mut ibv_mr, *mut efadv_mr_attr, u32) -> c_int;
    }
}

/// libibverbs, and libefa if it is there.
#[derive(Debug)]
pub struct Verbs {
    pub(super) functions: Functions,
    pub(super) efa: Result<EfaFunctions, Absence>,
    pub(super) efa_regions: Result<EfaRegionFunctions, Absence>,
}

impl Verbs {
    /// Opens the libraries, once for the process.
    ///
    /// # Errors
    /// Why there is no libibverbs, in a text that says what to install.
    pub fn get() -> Result<&'static Self, &'static Absence> {
        static VERBS: OnceLock<Result<Verbs, Absence>> = OnceLock::new();
        let verbs = VERBS.get_or_init(|| {
            let functions = Functions::load(Shared::open(c"libibverbs.so.1")?)?;
            let efa = || Shared::open(c"libefa.so.1");
            Ok(Self {
                functions,
                efa: efa().and_then(EfaFunctions::load),
                efa_regions: efa().and_then(EfaRegionFunctions::load),
            })
        });
        verbs.as_ref()
    }

    /// Keeps memory that is registered from now on out of child processes, where the kernel does not see to that by itself (ibv_fork_init(3)).
    ///
    /// # Errors
    /// `INVAL` if memory of this process is registered already, `NOSYS` if the kernel cannot.
    pub fn keep_memory_from_children(&self) -> Result<(), Errno> {
        // SAFETY: the function takes no arguments; it changes libibverbs' own state, under its own lock.
        match unsafe { (self.functions.ibv_fork_init)() } {
            0 => Ok(()),
            code => Err(Errno::from_raw(code)),
        }
    }

    /// Returns why there is no libefa, without which no device of that type can be used.
    pub fn efa_absence(&self) -> Option<&Absence> {
        self.efa.as_ref().err()
    }
}

/// Returns the text of a C array of characters.
pub(super) fn text(characters: &[c_char]) -> String {
    let bytes = characters.iter().map(|character| *character as u8);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_explained() {
        let absence = Shared::open(c"libibverbs-of-another-day.so.1").expect_err("there is none");
        assert_eq!(
            absence.to_string(),
            "libibverbs-of-another-day.so.1 is not installed (Debian: libibverbs1 ibverbs-providers)"
        );
        let broken = Absence::Library("libefa.so.1", "version `X' not found".to_owned());
        assert_eq!(
            broken.to_string(),
            "libefa.so.1 cannot be loaded: version `X' not found"
        );
    }

    #[test]
    fn a_function_is_there_in_the_version_that_is_asked_for() {
        let c = Shared::open(c"libc.so.6").expect("the C library");
        assert!(c.symbol(c"getpid", c"GLIBC_2.2.5").is_ok() || cfg!(not(target_arch = "x86_64")));
        let absence = c
            .symbol(c"getpid", c"GLIBC_0.1")
            .expect_err("no such version");
        assert_eq!(absence, Absence::Function("getpid"));
    }
}
