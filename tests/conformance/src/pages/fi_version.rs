//! Versions, errors in words, and parameters: fi_version(3), fi_errno(3) and fi_provider(3).

use core::ffi::CStr;
use core::ptr::{null, null_mut};

use oxifabric_abi::*;
use oxifabric_fixtures::{Subject, c};

use crate::requirements;

/// Returns what fi_strerror says.
fn said(subject: &Subject, errno: i32) -> String {
    let text = c!((subject.library.strerror)(errno));
    assert!(!text.is_null());
    c!(CStr::from_ptr(text)).to_string_lossy().into_owned()
}

requirements! { "fi_version(3), fi_errno(3), fi_provider(3)";

/// The major number of the version is in the upper half, the minor one in the lower half.
fn a_version_has_two_numbers(subject) {
    let version = c!((subject.library.version)());
    assert!(FI_MAJOR(version) >= 1 && FI_MAJOR(version) < 100, "{version:#x}");
    assert_eq!(version, FI_VERSION(FI_MAJOR(version), FI_MINOR(version)));
}

/// Older versions of the interface can be asked for.
fn older_versions_are_served(subject) {
    for version in [FI_VERSION(1, 5), FI_VERSION(1, 9), FI_VERSION(1, 20), FI_VERSION(2, 0)] {
        let hints = subject.hints();
        let mut first = null_mut();
        let code = c!((subject.library.getinfo)(version, null(), null(), 0, hints.as_ptr(), &mut first));
        assert_eq!(code, 0, "{version:#x}");
        assert_eq!(c!((*(*first).fabric_attr).api_version), version);
        c!((subject.library.freeinfo)(first));
    }
}

/// Each error number of its own has words of its own.
fn each_error_has_its_words(subject) {
    let numbers = [
        FI_EOTHER, FI_ETOOSMALL, FI_EOPBADSTATE, FI_EAVAIL, FI_EBADFLAGS, FI_ENOEQ, FI_EDOMAIN, FI_ENOCQ, FI_ETRUNC,
        FI_ENOKEY, FI_ENOAV, FI_EOVERRUN, FI_ECANCELED, FI_EAGAIN, FI_EINVAL, FI_ENOSYS, FI_ECONNREFUSED,
    ];
    let mut words: Vec<_> = numbers.iter().map(|&errno| said(subject, errno)).collect();
    assert!(words.iter().all(|words| !words.is_empty()));
    words.sort();
    words.dedup();
    assert_eq!(words.len(), numbers.len());
}

/// Zero is a success, in words.
fn zero_is_success(subject) {
    assert!(said(subject, 0).to_lowercase().contains("success"));
}

/// A negative number, as calls return it, has the words of its error.
fn a_negative_number_is_its_error(subject) {
    assert_eq!(said(subject, -FI_ETRUNC), said(subject, FI_ETRUNC));
}

/// A number that is no error has words nevertheless.
fn an_unknown_number_has_words(subject) {
    assert!(!said(subject, 123_456).is_empty());
    assert!(!said(subject, i32::MIN).is_empty());
}

/// Parameters are listed with name, help and a type that exists.
fn parameters_are_listed(subject) {
    let (mut params, mut count) = (null_mut(), 0);
    assert_eq!(c!((subject.library.getparams)(&mut params, &mut count)), 0);
    assert!(count > 0);
    let listed = c!(core::slice::from_raw_parts(params, count as usize));
    for param in listed {
        assert!(!param.name.is_null() && !param.help_string.is_null());
        assert!(param.type_ <= FI_PARAM_SIZE_T);
    }
    c!((subject.library.freeparams)(params));
}

/// Names of parameters are those of environment variables, each once, and begin with FI_.
fn parameters_are_environment_variables(subject) {
    let (mut params, mut count) = (null_mut(), 0);
    assert_eq!(c!((subject.library.getparams)(&mut params, &mut count)), 0);
    let listed = c!(core::slice::from_raw_parts(params, count as usize));
    let mut names: Vec<_> = listed.iter().map(|param| c!(CStr::from_ptr(param.name)).to_owned()).collect();
    assert!(names.iter().all(|name| name.to_bytes().starts_with(b"FI_")));
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count as usize);
    c!((subject.library.freeparams)(params));
}
}
