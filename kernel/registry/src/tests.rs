//! Registration and getinfo with a provider that a test makes up.

use core::ffi::{c_char, c_int, c_void};
use core::{fmt, ptr};
use std::string::{String, ToString};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::vec::Vec;

use oxifabric_abi::{FI_VERSION, fi_fabric_attr, fi_info, fi_ops, fid, fid_fabric};
use oxifabric_info::{free, from_c, to_c, to_c_list};
use oxifabric_types::{Caps, EpType, Errno, Info};

use crate::{System, VERSION, fabric, getinfo, kofi_provider, provider};

/// What the log says, and whether the module lets itself be got. The tests share the registry, so they run one after the other.
static WORLD: Mutex<World> = Mutex::new(World {
    log: Vec::new(),
    is_going: false,
    gets: 0,
});

struct World {
    log: Vec<String>,
    is_going: bool,
    gets: i32,
}

static ALONE: Mutex<()> = Mutex::new(());

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin() -> MutexGuard<'static, ()> {
    static INIT: Once = Once::new();
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    INIT.call_once(|| {
        let system = System {
            get_module: |_| {
                let mut world = world();
                world.gets += i32::from(!world.is_going);
                !world.is_going
            },
            put_module: |_| world().gets -= 1,
            log: |text: fmt::Arguments<'_>| world().log.push(text.to_string()),
        };
        assert!(crate::init(system));
    });
    world().log.clear();
    alone
}

unsafe extern "C" fn offers(
    _version: u32,
    _node: *const c_char,
    _service: c_int,
    _flags: u64,
    _hints: *mut fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    let mut offer = Info {
        caps: Caps::MSG | Caps::SEND | Caps::RECV,
        ..Info::default()
    };
    (offer.tx.caps, offer.rx.caps) = (Caps::MSG | Caps::SEND, Caps::MSG | Caps::RECV);
    offer.ep.kind = EpType::Rdm;
    // SAFETY: the registry passes a place for the list.
    unsafe { info.write(to_c_list(&[offer])) };
    0
}

unsafe extern "C" fn fails(
    _version: u32,
    _node: *const c_char,
    _service: c_int,
    _flags: u64,
    _hints: *mut fi_info,
    _info: *mut *mut fi_info,
) -> c_int {
    -Errno::IO.raw()
}

unsafe extern "C" fn release(info: *mut fi_info) -> c_int {
    // SAFETY: it came from `offers`.
    unsafe { free(info) };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: it came from `open`.
    drop(unsafe { std::boxed::Box::from_raw(fid.cast::<fid_fabric>()) });
    0
}

static OPS: fi_ops = fi_ops {
    close: Some(close),
    ..fi_ops::NONE
};

unsafe extern "C" fn open(
    _attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let new = fid_fabric {
        fid: fid {
            fclass: 1,
            context,
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        ops: ptr::null_mut(),
        api_version: VERSION,
    };
    // SAFETY: the registry passes a place for the handle.
    unsafe { fabric.write(std::boxed::Box::into_raw(std::boxed::Box::new(new))) };
    0
}

const PROVIDER: kofi_provider = kofi_provider {
    name: c"made_up".as_ptr(),
    version: 1,
    getinfo: Some(offers),
    freeinfo: Some(release),
    fabric: Some(open),
    owner: ptr::null_mut(),
};

fn query(hints: Option<&Info>) -> Result<Info, Errno> {
    let hints = hints.map_or(ptr::null_mut(), to_c);
    // SAFETY: the lists are of this crate.
    unsafe {
        let found = getinfo::getinfo(VERSION, ptr::null(), 0, 0, hints);
        free(hints);
        let list = found?;
        let first = from_c(list);
        free(list);
        first
    }
}

#[test]
fn a_provider_is_registered_once_and_not_deregistered_while_it_is_used() {
    let _alone = begin();
    let (mut own, mut twin) = (PROVIDER, PROVIDER);
    // SAFETY: both outlive their registration.
    unsafe {
        let later = FI_VERSION(2, 99);
        assert_eq!(provider::register(later, &raw mut own), Err(Errno::NOSYS));
        let null = ptr::null_mut();
        assert_eq!(provider::register(VERSION, null), Err(Errno::INVAL));
        assert_eq!(provider::register(VERSION, &raw mut own), Ok(()));
        let again = provider::register(VERSION, &raw mut twin);
        assert_eq!(again, Err(Errno::ALREADY));
    }
    let info = query(None).expect("an offer");
    assert_eq!(info.fabric.prov_name, "made_up");
    let list = to_c(&info);
    // SAFETY: the list is of this test, and the fabric is closed by its table.
    unsafe {
        let attr = (*list).fabric_attr;
        let open = fabric::open(attr, ptr::null_mut()).expect("a fabric");
        assert_eq!(provider::deregister(&raw mut own), Err(Errno::BUSY));
        assert_eq!(world().gets, 1);
        let close = (*(*open).fid.ops).close.expect("a call");
        assert_eq!(close(open.cast()), 0);
        assert_eq!(world().gets, 0, "the module may go");
        assert_eq!(provider::deregister(&raw mut own), Ok(()));
        assert_eq!(provider::deregister(&raw mut own), Err(Errno::NOENT));
        let gone = fabric::open(attr, ptr::null_mut());
        assert_eq!(
            gone.err(),
            Some(Errno::NODEV),
            "a linkage that is gone is an error"
        );
        free(list);
    }
}

#[test]
fn the_log_says_why_nothing_fits() {
    let _alone = begin();
    assert_eq!(query(None), Err(Errno::NODATA));
    assert!(
        world()
            .log
            .iter()
            .any(|line| line.contains("no provider is registered"))
    );
    let mut own = PROVIDER;
    // SAFETY: it outlives its registration.
    unsafe { provider::register(VERSION, &raw mut own) }.expect("registered");
    let hints = Info {
        caps: Caps::MULTICAST,
        ..Info::default()
    };
    assert_eq!(query(Some(&hints)), Err(Errno::NODATA));
    let reason = "made_up (FI_EP_RDM): caps: FI_MULTICAST was asked for and is not offered";
    assert!(world().log.iter().any(|line| line.contains(reason)));
    provider::deregister(&raw mut own).expect("deregistered");
}

#[test]
fn a_provider_that_fails_or_is_going_hides_no_other() {
    let _alone = begin();
    let mut good = PROVIDER;
    let mut bad = kofi_provider {
        name: c"broken".as_ptr(),
        getinfo: Some(fails),
        ..PROVIDER
    };
    // SAFETY: both outlive their registration.
    unsafe {
        provider::register(VERSION, &raw mut bad).expect("registered");
        provider::register(VERSION, &raw mut good).expect("registered");
    }
    assert!(query(None).is_ok());
    assert!(
        world()
            .log
            .iter()
            .any(|line| line.starts_with("broken: getinfo: "))
    );
    world().is_going = true;
    assert_eq!(
        query(None),
        Err(Errno::NODATA),
        "a module that is going is not called"
    );
    world().is_going = false;
    assert_eq!(world().gets, 0);
    for own in [&mut bad, &mut good] {
        provider::deregister(own).expect("deregistered");
    }
}
