//! Addresses of every format that has a text. Source: fi_av(3).

use super::writer::Writer;
use core::ffi::{c_int, c_void};
use core::fmt::Write as _;
use core::net::{Ipv4Addr, Ipv6Addr};
use libc::{AF_INET, AF_INET6, sa_family_t, sockaddr_in, sockaddr_in6};
use oxifabric_abi::*;

/// The family of InfiniBand socket addresses.
const AF_IB: c_int = 27;

/// Where the parts of an InfiniBand socket address lie, all in network order.
mod ib_offset {
    pub(super) const PKEY: usize = 2;
    pub(super) const GID: usize = 8;
    pub(super) const SERVICE: usize = 24;
    pub(super) const SCOPE: usize = 40;
}

/// Appends an address, or nothing if its format or family has no text.
///
/// # Safety
///
/// `addr` must point to an address of the format.
pub(super) unsafe fn write(out: &mut Writer<'_>, format: u32, addr: *const c_void) {
    // SAFETY: the format says what there is to read.
    unsafe {
        match format {
            FI_SOCKADDR => socket(out, addr, true),
            FI_SOCKADDR_IP => socket(out, addr, false),
            FI_SOCKADDR_IN => inet(out, addr),
            FI_SOCKADDR_IN6 => inet6(out, addr),
            FI_SOCKADDR_IB => ib(out, addr),
            FI_ADDR_STR => out.c_text(addr.cast()),
            _ => device(out, format, addr),
        }
    }
}

/// Writes a socket address, by its family.
///
/// # Safety
///
/// `addr` must point to a socket address of the family that it names.
unsafe fn socket(out: &mut Writer<'_>, addr: *const c_void, with_ib: bool) {
    // SAFETY: a socket address starts with its family, which says what there is to read.
    unsafe {
        match c_int::from(read::<sa_family_t>(addr, 0)) {
            AF_INET => inet(out, addr),
            AF_INET6 => inet6(out, addr),
            AF_IB if with_ib => ib(out, addr),
            _ => {}
        }
    }
}

/// Writes an IPv4 address and its port.
///
/// # Safety
///
/// `addr` must point to a `sockaddr_in`.
unsafe fn inet(out: &mut Writer<'_>, addr: *const c_void) {
    // SAFETY: the caller's contract; the address need not be aligned.
    let addr: sockaddr_in = unsafe { read(addr, 0) };
    if c_int::from(addr.sin_family) != AF_INET {
        return;
    }
    let ip = Ipv4Addr::from(u32::from_be(addr.sin_addr.s_addr));
    let _ = write!(out, "fi_sockaddr_in://{ip}:{}", u16::from_be(addr.sin_port));
}

/// Writes an IPv6 address and its port.
///
/// # Safety
///
/// `addr` must point to a `sockaddr_in6`.
unsafe fn inet6(out: &mut Writer<'_>, addr: *const c_void) {
    // SAFETY: the caller's contract; the address need not be aligned.
    let addr: sockaddr_in6 = unsafe { read(addr, 0) };
    if c_int::from(addr.sin6_family) != AF_INET6 {
        return;
    }
    let ip = InetNtop(addr.sin6_addr.s6_addr);
    let port = u16::from_be(addr.sin6_port);
    let _ = write!(out, "fi_sockaddr_in6://[{ip}]:{port}");
}

/// Writes an InfiniBand address.
///
/// # Safety
///
/// `addr` must point to an InfiniBand socket address.
unsafe fn ib(out: &mut Writer<'_>, addr: *const c_void) {
    // SAFETY: the caller's contract, for every offset.
    let (pkey, gid, service, scope): (u16, [u8; 16], u64, u64) = unsafe {
        (
            read(addr, ib_offset::PKEY),
            read(addr, ib_offset::GID),
            read(addr, ib_offset::SERVICE),
            read(addr, ib_offset::SCOPE),
        )
    };
    let (pkey, gid) = (u16::from_be(pkey), InetNtop(gid));
    let port_space = (u64::from_be(service) >> 16) & 0xfff;
    let scope = u64::from_be(scope) & 0xff;
    let _ = write!(
        out,
        "fi_sockaddr_ib://[{gid}]:{pkey:#x}:{port_space:#x}:{scope:#x}"
    );
}

/// Appends an address that only one kind of device uses.
///
/// # Safety
///
/// `addr` must point to an address of the format.
unsafe fn device(out: &mut Writer<'_>, format: u32, addr: *const c_void) {
    // SAFETY: the format says what there is to read; integers are in the order of this machine.
    let _ = unsafe {
        match format {
            FI_ADDR_EFA => write!(
                out,
                "fi_addr_efa://[{}]:{}:{}",
                InetNtop(read(addr, 0)),
                read::<u16>(addr, 16),
                read::<u32>(addr, 20)
            ),
            FI_ADDR_IB_UD => write!(
                out,
                "fi_addr_ib_ud://{}:{:x}/{:x}/{:x}/{:x}",
                InetNtop(read(addr, 0)),
                read::<u32>(addr, 16),
                read::<u16>(addr, 20),
                read::<u16>(addr, 22),
                read::<u8>(addr, 26)
            ),
            FI_ADDR_PSMX2 => {
                let [a, b] = read::<[u64; 2]>(addr, 0);
                write!(out, "fi_addr_psmx2://{a:x}:{b:x}")
            }
            FI_ADDR_PSMX3 => {
                let [a, b, c, d] = read::<[u64; 4]>(addr, 0);
                write!(out, "fi_addr_psmx3://{a:x}:{b:x}:{c:x}:{d:x}")
            }
            FI_ADDR_OPX => write!(out, "fi_addr_opx://{:016x}", read::<u64>(addr, 0)),
            FI_ADDR_MLX => write!(out, "fi_addr_mlx://{addr:p}"),
            FI_ADDR_UCX => write!(out, "fi_addr_ucx://{addr:p}"),
            FI_ADDR_CXI => write!(out, "fi_addr_cxi://{:#010x}", read::<u32>(addr, 0)),
            _ => Ok(()),
        }
    };
}

/// Reads a value at an offset, whatever its alignment.
///
/// # Safety
///
/// `addr` must point to at least `offset` bytes and a `T` behind them, of any bits.
unsafe fn read<T: Copy>(addr: *const c_void, offset: usize) -> T {
    // SAFETY: the caller's contract.
    unsafe { addr.byte_add(offset).cast::<T>().read_unaligned() }
}

/// An IPv6 address as `inet_ntop` spells it, which ends addresses of the old IPv4-compatible form in dotted digits.
struct InetNtop([u8; 16]);

impl core::fmt::Display for InetNtop {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let ip = Ipv6Addr::from(self.0);
        match ip.segments() {
            [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
                let ipv4 = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
                write!(f, "::{ipv4}")
            }
            _ => ip.fmt(f),
        }
    }
}
