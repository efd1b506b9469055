//! Options of endpoints that only this provider has (fi_efa(7)). Set-up path.

use oxifabric_ibv::EfaCaps;
use oxifabric_provider::device::OwnValue;
use oxifabric_types::Errno;

use crate::hardware::Hardware;

/// Their numbers, with the C headers' values.
pub(crate) const RNR_RETRY: i32 = -251_265_024;
pub(crate) const EMULATED_READ: i32 = -251_265_023;
pub(crate) const EMULATED_WRITE: i32 = -251_265_022;
pub(crate) const EMULATED_ATOMICS: i32 = -251_265_021;
pub(crate) const USE_DEVICE_RDMA: i32 = -251_265_020;
pub(crate) const SENDRECV_IN_ORDER: i32 = -251_265_019;
pub(crate) const WRITE_IN_ORDER: i32 = -251_265_018;
pub(crate) const HOMOGENEOUS_PEERS: i32 = -251_265_017;
pub(crate) const USE_UNSOLICITED: i32 = -251_265_016;

/// Those of any endpoint, and those of endpoints with an engine only.
pub(crate) const ANY: [i32; 8] = [
    RNR_RETRY,
    EMULATED_READ,
    EMULATED_WRITE,
    USE_DEVICE_RDMA,
    SENDRECV_IN_ORDER,
    WRITE_IN_ORDER,
    HOMOGENEOUS_PEERS,
    USE_UNSOLICITED,
];
pub(crate) const WITH_ENGINE: [i32; 9] = [
    RNR_RETRY,
    EMULATED_READ,
    EMULATED_WRITE,
    EMULATED_ATOMICS,
    USE_DEVICE_RDMA,
    SENDRECV_IN_ORDER,
    WRITE_IN_ORDER,
    HOMOGENEOUS_PEERS,
    USE_UNSOLICITED,
];

/// The `rnr_retry` that retries without end: how often a send is retried while its receiver has posted no receive.
pub(crate) const WITHOUT_END: u8 = 7;

/// The `rnr_retry` of an endpoint with an engine, where the application sets none, as in the C library: the engine goes on from there, and can end what the
/// device would try without end.
pub(crate) const WITH_ENGINE_TRIES: u8 = 3;

/// Returns the `rnr_retry` that an application sets, before the endpoint is enabled.
///
/// # Errors
/// `INVAL` for what is none, or too late; `NOSYS` where the device knows of none.
pub(crate) fn rnr_retry(
    value: OwnValue,
    is_active: bool,
    hardware: &Hardware,
) -> Result<u8, Errno> {
    let OwnValue::Size(times) = value else {
        return Err(Errno::INVAL);
    };
    if is_active {
        return Err(Errno::INVAL);
    }
    if !hardware.can(EfaCaps::RNR_RETRY) {
        return Err(Errno::NOSYS);
    }
    let times = u8::try_from(times).ok();
    times
        .filter(|times| *times <= WITHOUT_END)
        .ok_or(Errno::INVAL)
}

/// Returns whether writes of peers with data are to use up no receive, as an application says before the endpoint is enabled. `may_forbid` says that receives are
/// there for them otherwise.
///
/// # Errors
/// `INVAL` for what is no truth value, `OPNOTSUPP` for false where no receives are there, `OPBADSTATE` if it is too late.
pub(crate) fn unsolicited(
    value: OwnValue,
    is_active: bool,
    may_forbid: bool,
) -> Result<bool, Errno> {
    match value {
        OwnValue::Size(_) => Err(Errno::INVAL),
        OwnValue::Bool(false) if !may_forbid => Err(Errno::OPNOTSUPP),
        OwnValue::Bool(_) if is_active => Err(Errno::OPBADSTATE),
        OwnValue::Bool(wanted) => Ok(wanted),
    }
}

/// Sets that blocks of 128 bytes arrive in order, which no device is known to do.
///
/// # Errors
/// `INVAL` for what is no truth value, `OPNOTSUPP` for true.
pub(crate) fn in_order(value: OwnValue) -> Result<(), Errno> {
    match value {
        OwnValue::Bool(false) => Ok(()),
        OwnValue::Bool(true) => Err(Errno::OPNOTSUPP),
        OwnValue::Size(_) => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_use_up_receives_only_where_there_are_some() {
        let (no, yes) = (OwnValue::Bool(false), OwnValue::Bool(true));
        assert_eq!(unsolicited(no, false, true), Ok(false));
        assert_eq!(unsolicited(no, false, false), Err(Errno::OPNOTSUPP));
        assert_eq!(unsolicited(yes, false, false), Ok(true));
        assert_eq!(unsolicited(yes, true, true), Err(Errno::OPBADSTATE));
        assert_eq!(
            unsolicited(OwnValue::Size(1), false, true),
            Err(Errno::INVAL)
        );
    }

    #[test]
    fn blocks_are_not_in_order() {
        assert_eq!(in_order(OwnValue::Bool(false)), Ok(()));
        assert_eq!(in_order(OwnValue::Bool(true)), Err(Errno::OPNOTSUPP));
        assert_eq!(in_order(OwnValue::Size(1)), Err(Errno::INVAL));
    }
}
