//! Hints for fi_getinfo(3) as a C program of any age could have them.

use core::ffi::{CStr, c_char, c_void};
use core::{mem, ptr, slice};
use std::ffi::CString;

use arbitrary::{Arbitrary, Unstructured};
use oxifabric_abi::compat::{
    fi_domain_attr_1_0, fi_domain_attr_1_1, fi_domain_attr_1_3, fi_domain_attr_1_7,
    fi_domain_attr_1_8, fi_ep_attr_1_0, fi_fabric_attr_1_0, fi_info_1_0, fi_info_1_1,
    fi_tx_attr_1_0,
};
use oxifabric_abi::{
    FI_VERSION, fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr,
};
use oxifabric_core::info::Abi;

/// Releases whose headers differ, and one that does not exist.
pub(crate) const RELEASES: [u32; 9] = [
    FI_VERSION(1, 0),
    FI_VERSION(1, 5),
    FI_VERSION(1, 7),
    FI_VERSION(1, 8),
    FI_VERSION(1, 20),
    FI_VERSION(2, 0),
    FI_VERSION(2, 5),
    FI_VERSION(2, 6),
    FI_VERSION(3, 0),
];

/// An entry and everything that it points to.
#[derive(Debug)]
pub(crate) struct Hints {
    info: fi_info,
    tx: Option<fi_tx_attr>,
    rx: Option<fi_rx_attr>,
    ep: Option<fi_ep_attr>,
    domain: Option<fi_domain_attr>,
    fabric: Option<fi_fabric_attr>,
    /// Strings, addresses and keys, each exactly as long as it claims to be.
    kept: Vec<Box<[u8]>>,
}

/// A value near those that mean something.
#[derive(Arbitrary, Debug)]
enum Value {
    Small(u8),
    Bit(u8),
    Bits(u8, u8),
    Most,
    Any(u64),
}

impl Value {
    fn get(&self) -> u64 {
        match *self {
            Self::Small(value) => value.into(),
            Self::Bit(bit) => 1 << (bit & 63),
            Self::Bits(a, b) => 1 << (a & 63) | 1 << (b & 63),
            Self::Most => u64::MAX,
            Self::Any(value) => value,
        }
    }
}

/// Sets the fields of a structure that the input names.
macro_rules! set {
    ($input:expr, $to:expr; $($field:ident),* $(,)?) => {{
        let to = $to;
        let fields = [$(stringify!($field)),*].len() as u8;
        for _ in 0..$input.int_in_range(0..=6)? {
            let which = $input.int_in_range(0..=fields - 1)?;
            let value = $input.arbitrary::<Value>()?.get();
            let mut at = 0;
            $(
                if which == at {
                    to.$field = value as _;
                }
                at += 1;
            )*
            let _ = at;
        }
    }};
}

const NAMES: [&CStr; 8] = [
    c"tcp",
    c"shm",
    c"",
    c"TCP;ofi_rxm",
    c"^shm",
    c"lo",
    c"shm,tcp",
    c"unknown",
];

impl Hints {
    pub(crate) fn read(input: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let mut hints = Self {
            info: fi_info::ZERO,
            tx: None,
            rx: None,
            ep: None,
            domain: None,
            fabric: None,
            kept: Vec::new(),
        };
        set!(input, &mut hints.info; caps, mode, addr_format);
        if input.arbitrary()? {
            (hints.info.src_addr, hints.info.src_addrlen) = hints.address(input)?;
        }
        if input.arbitrary()? {
            (hints.info.dest_addr, hints.info.dest_addrlen) = hints.address(input)?;
        }
        if input.arbitrary()? {
            let tx = hints.tx.insert(fi_tx_attr::ZERO);
            set!(input, tx; caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit,
                rma_iov_limit, tclass);
        }
        if input.arbitrary()? {
            let rx = hints.rx.insert(fi_rx_attr::ZERO);
            set!(input, rx; caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit);
        }
        if input.arbitrary()? {
            let ep = &mut *hints.ep.insert(fi_ep_attr::ZERO);
            set!(input, &mut *ep; type_, protocol, protocol_version, max_msg_size, msg_prefix_size, max_order_raw_size,
                max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt, rx_ctx_cnt);
            // Without preference most requests have an answer.
            if input.arbitrary()? {
                ep.type_ = input.int_in_range(0..=3)?;
            }
        }
        if input.arbitrary()? {
            let domain = hints.domain.insert(fi_domain_attr::ZERO);
            set!(input, domain; threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode,
                mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_ep_tx_ctx, max_ep_rx_ctx,
                max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit, caps, mode, max_err_data, mr_cnt, tclass,
                max_ep_auth_key, max_group_id, max_cntr_value, max_err_cntr_value);
            let name = hints.name(input)?;
            if let Some(domain) = &mut hints.domain {
                domain.name = name;
            }
        }
        if input.arbitrary()? {
            let fabric = hints.fabric.insert(fi_fabric_attr::ZERO);
            set!(input, fabric; prov_version, api_version);
            let (name, prov_name) = (hints.name(input)?, hints.name(input)?);
            if let Some(fabric) = &mut hints.fabric {
                (fabric.name, fabric.prov_name) = (name, prov_name);
            }
        }
        Ok(hints)
    }

    /// Returns the entry in the newest layout; it is valid as long as this is not moved.
    pub(crate) fn entry(&mut self) -> fi_info {
        fn at<T>(attr: &mut Option<T>) -> *mut T {
            attr.as_mut().map_or(ptr::null_mut(), ptr::from_mut)
        }
        fi_info {
            tx_attr: at(&mut self.tx),
            rx_attr: at(&mut self.rx),
            ep_attr: at(&mut self.ep),
            domain_attr: at(&mut self.domain),
            fabric_attr: at(&mut self.fabric),
            ..self.info
        }
    }

    /// Calls with the entry as a program has it that was built for a release, where nothing lies behind any structure.
    pub(crate) fn in_layout<R>(
        &mut self,
        release: u32,
        call: impl FnOnce(*const c_void, Option<&Abi>) -> R,
    ) -> R {
        let sizes = Sizes::of(release);
        let mut kept = Vec::new();
        let mut info = self.entry();
        info.tx_attr = cut(info.tx_attr, sizes.tx, &mut kept);
        info.ep_attr = cut(info.ep_attr, sizes.ep, &mut kept);
        info.domain_attr = cut(info.domain_attr, sizes.domain, &mut kept);
        info.fabric_attr = cut(info.fabric_attr, sizes.fabric, &mut kept);
        let info = cut(&mut info, sizes.info, &mut kept);
        call(info.cast(), Abi::of_release(release).as_ref())
    }

    fn keep(&mut self, bytes: &[u8]) -> *mut u8 {
        self.kept.push(bytes.into());
        self.kept
            .last_mut()
            .map_or(ptr::null_mut(), |bytes| bytes.as_mut_ptr())
    }

    fn address(&mut self, input: &mut Unstructured<'_>) -> arbitrary::Result<(*mut c_void, usize)> {
        let mut bytes = match input.int_in_range(0..=3)? {
            0 => b"fi_shm://7\0".to_vec(),
            1 => [
                2_u16.to_ne_bytes().as_slice(),
                &[31, 144, 127, 0, 0, 1],
                &[0; 8],
            ]
            .concat(),
            2 => [10_u16.to_ne_bytes().as_slice(), &[0; 25], &[1]].concat(),
            _ => Vec::new(),
        };
        bytes.extend_from_slice(input.arbitrary()?);
        bytes.truncate(300);
        let len = bytes.len();
        Ok((self.keep(&bytes).cast(), len))
    }

    fn name(&mut self, input: &mut Unstructured<'_>) -> arbitrary::Result<*mut c_char> {
        let name = match input.int_in_range(0..=9)? {
            0 => return Ok(ptr::null_mut()),
            1 => CString::new(bytes_without_zero(input.arbitrary()?)).unwrap_or_default(),
            other => NAMES[other % NAMES.len()].to_owned(),
        };
        Ok(self.keep(name.as_bytes_with_nul()).cast())
    }
}

pub(crate) fn bytes_without_zero(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes[..end.unwrap_or(bytes.len())].to_vec()
}

/// Lengths of structures in the headers of a release.
struct Sizes {
    info: usize,
    tx: usize,
    ep: usize,
    domain: usize,
    fabric: usize,
}

impl Sizes {
    fn of(release: u32) -> Self {
        let before = |minor| release < FI_VERSION(1, minor);
        Self {
            info: match () {
                () if before(5) => size_of::<fi_info_1_0>(),
                () if before(7) => size_of::<fi_info_1_1>(),
                () => size_of::<fi_info>(),
            },
            tx: match before(8) {
                true => size_of::<fi_tx_attr_1_0>(),
                false => size_of::<fi_tx_attr>(),
            },
            ep: match before(5) {
                true => size_of::<fi_ep_attr_1_0>(),
                false => size_of::<fi_ep_attr>(),
            },
            domain: match () {
                () if before(5) => size_of::<fi_domain_attr_1_0>(),
                () if before(8) => size_of::<fi_domain_attr_1_1>(),
                () if before(20) => size_of::<fi_domain_attr_1_3>(),
                () if release < FI_VERSION(2, 0) => size_of::<fi_domain_attr_1_7>(),
                () if release < FI_VERSION(2, 5) => size_of::<fi_domain_attr_1_8>(),
                () => size_of::<fi_domain_attr>(),
            },
            fabric: match before(5) {
                true => size_of::<fi_fabric_attr_1_0>(),
                false => size_of::<fi_fabric_attr>(),
            },
        }
    }
}

/// Copies the beginning of a structure to memory of its own.
fn cut<T>(from: *mut T, len: usize, kept: &mut Vec<Box<[u64]>>) -> *mut T {
    if from.is_null() {
        return from;
    }
    let len = len.min(mem::size_of::<T>());
    // SAFETY: the structure is whole, and made of integers and pointers.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), len) };
    let words = bytes.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_ne_bytes(word)
    });
    kept.push(words.collect());
    kept.last_mut()
        .map_or(ptr::null_mut(), |words| words.as_mut_ptr().cast())
}
