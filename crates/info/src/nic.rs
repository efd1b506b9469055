//! Network interfaces as C programs get them: fi_nic(3). As with `fi_info`, every piece comes from the allocator of libc on its own.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::{mem, ptr};

use oxifabric_abi::{
    Absent, FI_BUS_PCI, FI_CLASS_NIC, FI_DUP, FI_LINK_DOWN, FI_LINK_UNKNOWN, FI_LINK_UP,
    fi_bus_attr, fi_device_attr, fi_link_attr, fi_ops, fi_pci_attr, fid, fid_nic,
};
use oxifabric_types::{Errno, Nic};

use super::memory::{copy_text, text as copied, zeroed};
use crate::system;

static BASE: fi_ops = fi_ops {
    close: Some(close),
    control: Some(control),
    tostr: Some(tostr),
    bind: Some(absent3),
    ops_open: Some(absent5),
    ops_set: Some(absent5),
    ..fi_ops::NONE
};

/// An operation of three arguments that an interface does not have.
extern "C" fn absent3<A, B, C, R: Absent>(_: A, _: B, _: C) -> R {
    R::ABSENT
}

/// As [`absent3`], of five arguments.
extern "C" fn absent5<A, B, C, D, E, R: Absent>(_: A, _: B, _: C, _: D, _: E) -> R {
    R::ABSENT
}

/// Describes an interface for a C program, which releases it with the `fi_info` that it is in; `None` when memory is out.
pub(super) fn to_c(nic: &Nic) -> Option<*mut fid_nic> {
    let made = Made(alloc()?);
    // SAFETY: the object and its three parts have just been made.
    unsafe {
        let (device, bus, link) = parts(made.0)?;
        device.name = copied(&nic.name)?;
        device.device_id = copied(&nic.device_id)?;
        device.device_version = copied(&nic.device_version)?;
        device.vendor_id = copied(&nic.vendor_id)?;
        device.driver = copied(&nic.driver)?;
        device.firmware = copied(&nic.firmware)?;
        if let Some(at) = nic.pci {
            bus.bus_type = FI_BUS_PCI;
            bus.attr.pci = fi_pci_attr {
                domain_id: at.domain,
                bus_id: at.bus,
                device_id: at.device,
                function_id: at.function,
            };
        }
        link.address = copied(&nic.link.address)?;
        link.network_type = copied(&nic.link.network_type)?;
        link.mtu = nic.link.mtu;
        link.speed = nic.link.speed;
        link.state = match nic.link.is_up {
            Some(true) => FI_LINK_UP,
            Some(false) => FI_LINK_DOWN,
            None => FI_LINK_UNKNOWN,
        };
    }
    Some(made.finish())
}

/// An object under construction, which is freed unless [`Made::finish`] hands it out.
struct Made(*mut fid_nic);

impl Made {
    fn finish(self) -> *mut fid_nic {
        let nic = self.0;
        mem::forget(self);
        nic
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: the object is ours, and whatever of it is there came from the allocator of libc.
        unsafe { free(self.0) };
    }
}

/// Allocates an object with its three parts, all of them zero but for the `fid`.
fn alloc() -> Option<*mut fid_nic> {
    // SAFETY: all zeroes is a value of each; `free` takes null pointers too.
    unsafe {
        let nic: *mut fid_nic = zeroed();
        let made = Made(nic);
        let object = nic.as_mut()?;
        object.fid = fid {
            fclass: FI_CLASS_NIC,
            context: ptr::null_mut(),
            // For the C header, whose pointers are not const; nothing writes through them.
            ops: ptr::from_ref(&BASE).cast_mut(),
        };
        object.device_attr = zeroed();
        object.bus_attr = zeroed();
        object.link_attr = zeroed();
        parts(nic)?;
        Some(made.finish())
    }
}

/// Returns the parts of an object, if all are there.
///
/// # Safety
/// The object is one of ours, and no other reference to its parts exists.
unsafe fn parts<'a>(
    nic: *mut fid_nic,
) -> Option<(
    &'a mut fi_device_attr,
    &'a mut fi_bus_attr,
    &'a mut fi_link_attr,
)> {
    // SAFETY: the caller's contract; the parts are different ones.
    unsafe {
        let nic = nic.as_ref()?;
        Some((
            nic.device_attr.as_mut()?,
            nic.bus_attr.as_mut()?,
            nic.link_attr.as_mut()?,
        ))
    }
}

/// Frees an object, or the parts of it that were allocated.
///
/// # Safety
/// It is null or one of ours, and is not used any more.
unsafe fn free(nic: *mut fid_nic) {
    // SAFETY: the caller's contract; libc's `free` takes null.
    unsafe {
        let Some(object) = nic.as_ref() else {
            return;
        };
        if let Some(device) = object.device_attr.as_ref() {
            for text in [
                device.name,
                device.device_id,
                device.device_version,
                device.vendor_id,
                device.driver,
                device.firmware,
            ] {
                system::free(text.cast());
            }
        }
        if let Some(link) = object.link_attr.as_ref() {
            system::free(link.address.cast());
            system::free(link.network_type.cast());
        }
        system::free(object.device_attr.cast());
        system::free(object.bus_attr.cast());
        system::free(object.link_attr.cast());
        system::free(nic.cast());
    }
}

/// Copies an object; `None` when memory is out.
///
/// # Safety
/// It is one of ours, whose texts are null or end.
unsafe fn dup(from: *const fid_nic) -> Option<*mut fid_nic> {
    // SAFETY: the caller's contract. Texts that the copy would share are replaced before an allocation can fail.
    unsafe {
        let from = from.as_ref()?;
        let made = Made(alloc()?);
        let (device, bus, link) = parts(made.0)?;
        if let Some(from) = from.device_attr.as_ref() {
            device.name = copy_text(from.name)?;
            device.device_id = copy_text(from.device_id)?;
            device.device_version = copy_text(from.device_version)?;
            device.vendor_id = copy_text(from.vendor_id)?;
            device.driver = copy_text(from.driver)?;
            device.firmware = copy_text(from.firmware)?;
        }
        if let Some(from) = from.bus_attr.as_ref() {
            *bus = *from;
        }
        if let Some(from) = from.link_attr.as_ref() {
            link.address = copy_text(from.address)?;
            link.network_type = copy_text(from.network_type)?;
            (link.mtu, link.speed, link.state) = (from.mtu, from.speed, from.state);
        }
        Some(made.finish())
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the table is only in objects of ours, and the application gives this one up.
    unsafe { free(fid.cast()) };
    0
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    if command != FI_DUP {
        return -Errno::NOSYS.raw();
    }
    if arg.is_null() {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in objects of ours; with FI_DUP the argument is a place for a pointer.
    unsafe {
        match dup(fid.cast()) {
            Some(copy) => {
                arg.cast::<*mut fid_nic>().write(copy);
                0
            }
            None => -Errno::NOMEM.raw(),
        }
    }
}

unsafe extern "C" fn tostr(fid: *const fid, buf: *mut c_char, len: usize) -> c_int {
    if buf.is_null() || len == 0 {
        return -Errno::INVAL.raw();
    }
    // SAFETY: the table is only in objects of ours; the caller lends `len` characters.
    unsafe {
        let spelled = spell(fid.cast());
        let fits = spelled.len().min(len - 1);
        buf.cast::<u8>()
            .copy_from_nonoverlapping(spelled.as_ptr(), fits);
        buf.add(fits).write(0);
    }
    0
}

/// Spells an object as fi_tostr(3) does, on lines that are indented as those of `fi_info`.
///
/// # Safety
/// It is one of ours, whose texts are null or end.
unsafe fn spell(nic: *const fid_nic) -> String {
    let mut out = String::from("    nic:\n");
    // SAFETY: the caller's contract.
    let parts = unsafe {
        let nic = &*nic;
        (
            nic.device_attr.as_ref(),
            nic.bus_attr.as_ref(),
            nic.link_attr.as_ref(),
        )
    };
    let (Some(device), Some(bus), Some(link)) = parts else {
        return out;
    };
    // SAFETY: as above; the kind of the bus says which description there is.
    unsafe {
        out.push_str("        fi_device_attr:\n");
        for (key, text) in [
            ("name", device.name),
            ("device_id", device.device_id),
            ("device_version", device.device_version),
            ("vendor_id", device.vendor_id),
            ("driver", device.driver),
            ("firmware", device.firmware),
        ] {
            out += &format!("            {key}: {}\n", shown(text));
        }
        out.push_str("        fi_bus_attr:\n");
        if bus.bus_type == FI_BUS_PCI {
            let at = bus.attr.pci;
            out += &format!(
                "            bus_type: FI_BUS_PCI\n            fi_pci_attr:\n                domain_id: {}\n\
                 \x20               bus_id: {}\n                device_id: {}\n                function_id: {}\n",
                at.domain_id, at.bus_id, at.device_id, at.function_id
            );
        } else {
            out.push_str("            bus_type: FI_BUS_UNKNOWN\n");
        }
        let state = match link.state {
            FI_LINK_UP => "FI_LINK_UP",
            FI_LINK_DOWN => "FI_LINK_DOWN",
            _ => "FI_LINK_UNKNOWN",
        };
        out += &format!(
            "        fi_link_attr:\n            address: {}\n            mtu: {}\n            speed: {}\n\
             \x20           state: {state}\n            network_type: {}\n",
            shown(link.address),
            link.mtu,
            link.speed,
            shown(link.network_type)
        );
    }
    out
}

/// Returns a C string as [`spell`] shows it; `(null)` for null.
///
/// # Safety
/// `text` is null or a string that ends.
unsafe fn shown<'a>(text: *const c_char) -> Cow<'a, str> {
    if text.is_null() {
        return Cow::Borrowed("(null)");
    }
    // SAFETY: the caller's contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

#[cfg(test)]
mod tests {
    use super::super::{dup, free, to_c};
    use super::*;
    use alloc::boxed::Box;
    use oxifabric_types::{Info, LinkAttr, PciAddress};

    #[test]
    fn an_interface_goes_with_its_offer_into_every_copy() {
        let info = Info {
            nic: Some(Box::new(Nic {
                name: "efa_0".into(),
                firmware: "0.0.0.0".into(),
                pci: PciAddress::parse("0000:4f:00.1"),
                link: LinkAttr {
                    address: "EFA-fe80::1".into(),
                    mtu: 8760,
                    is_up: Some(true),
                    ..LinkAttr::default()
                },
                ..Nic::default()
            })),
            ..Info::default()
        };
        let first = to_c(&info);
        // SAFETY: the entries are ours; each is released once, and the copy is read after its original has gone.
        unsafe {
            let second = dup(first);
            free(first);
            let nic = (*second).nic;
            let (device, bus, link) = parts(nic).expect("it is whole");
            assert_eq!(CStr::from_ptr(device.name), c"efa_0");
            assert_eq!(CStr::from_ptr(device.driver), c"");
            assert_eq!(bus.bus_type, FI_BUS_PCI);
            assert_eq!((bus.attr.pci.bus_id, bus.attr.pci.function_id), (0x4f, 1));
            assert_eq!(CStr::from_ptr(link.address), c"EFA-fe80::1");
            assert_eq!((link.mtu, link.state), (8760, FI_LINK_UP));
            let text = spell(nic);
            assert!(
                text.starts_with("    nic:\n        fi_device_attr:\n            name: efa_0\n")
            );
            assert!(text.contains("                bus_id: 79\n                device_id: 0\n"));
            assert!(text.ends_with("            state: FI_LINK_UP\n            network_type: \n"));
            let mut room = [1 as c_char; 9];
            assert_eq!(tostr(nic.cast(), room.as_mut_ptr(), room.len()), 0);
            assert_eq!(CStr::from_ptr(room.as_ptr()), c"    nic:");
            let refused = control(nic.cast(), FI_DUP + 1, ptr::null_mut());
            assert_eq!(refused, -Errno::NOSYS.raw());
            free(second);
        }
    }
}
