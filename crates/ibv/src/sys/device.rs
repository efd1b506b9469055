//! Devices and open devices.

use std::ptr::NonNull;
use std::sync::Arc;

use oxifabric_types::Errno;

use super::library::{Absence, EfaFunctions, Verbs, text};
use super::structures::*;
use super::{done, last_error, made};
use crate::Gid;
use crate::qp_attr::bits;

/// A device of this machine.
#[derive(Debug)]
pub struct Device {
    verbs: &'static Verbs,
    device: NonNull<ibv_device>,
    list: Arc<List>,
}

/// The array of devices of ibv_get_device_list(3); a device lives as long as the array that names it.
#[derive(Debug)]
struct List {
    verbs: &'static Verbs,
    array: NonNull<*mut ibv_device>,
}

// SAFETY: the array is not changed after it was made, and the library counts its devices' users under a lock.
unsafe impl Send for List {}
// SAFETY: as above.
unsafe impl Sync for List {}
// SAFETY: the device lives as long as its list, and its names never change.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the array is the library's and is freed once.
        unsafe { (self.verbs.functions.ibv_free_device_list)(self.array.as_ptr()) };
    }
}

impl Device {
    /// Lists the devices of this machine.
    ///
    /// # Errors
    /// That of ibv_get_device_list(3).
    pub fn list(verbs: &'static Verbs) -> Result<Vec<Self>, Errno> {
        let mut count = 0;
        // SAFETY: the count lives through the call.
        let array = made(unsafe { (verbs.functions.ibv_get_device_list)(&raw mut count) })?;
        let list = Arc::new(List { verbs, array });
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the array has so many entries.
        let entries = unsafe { std::slice::from_raw_parts(array.as_ptr(), count) };
        let devices = entries.iter().filter_map(|entry| NonNull::new(*entry));
        let devices = devices.map(|device| Self {
            verbs,
            device,
            list: Arc::clone(&list),
        });
        Ok(devices.collect())
    }

    /// Returns the kernel's name of the device, such as `efa_0`.
    pub fn name(&self) -> String {
        // SAFETY: the device lives as long as the list.
        text(unsafe { &(*self.device.as_ptr()).name })
    }

    /// Returns the folder in sysfs that describes the device.
    pub fn sysfs_path(&self) -> String {
        // SAFETY: the device lives as long as the list.
        text(unsafe { &(*self.device.as_ptr()).ibdev_path })
    }

    /// Opens the device.
    ///
    /// # Errors
    /// That of ibv_open_device(3).
    pub fn open(&self) -> Result<Arc<Context>, Errno> {
        // SAFETY: the device lives as long as the list.
        let context = unsafe { (self.verbs.functions.ibv_open_device)(self.device.as_ptr()) };
        Ok(Arc::new(Context {
            verbs: self.verbs,
            context: made(context)?,
            _list: Arc::clone(&self.list),
        }))
    }
}

/// An open device.
#[derive(Debug)]
pub struct Context {
    pub(super) verbs: &'static Verbs,
    pub(super) context: NonNull<ibv_context>,
    _list: Arc<List>,
}

// SAFETY: the library's functions on a context may be called by any thread, several at once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: all that was made from the context holds it, so nothing is left.
        unsafe { (self.verbs.functions.ibv_close_device)(self.context.as_ptr()) };
    }
}

/// The attributes of a device, as ibv_query_device(3) says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// The vendor.
    pub vendor: u32,
    /// Which of the vendor's devices it is.
    pub part: u32,
    /// The version of its firmware.
    pub firmware: String,
    /// The most queue pairs.
    pub max_qp: usize,
    /// The most completion queues.
    pub max_cq: usize,
    /// The most regions.
    pub max_mr: usize,
}

/// The attributes of a port, as ibv_query_port(3) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Whether it carries messages.
    pub is_active: bool,
    /// The longest message.
    pub max_msg_len: u32,
    /// The speed of all lanes together, in bits a second.
    pub speed: u64,
    /// How many GIDs it may have.
    pub gids: u32,
}

bits! {
    /// What an EFA device can do: `EFADV_DEVICE_ATTR_CAPS` of efadv.h.
    EfaCaps: u32 {
        /// Reads of a peer's memory.
        RDMA_READ = 1;
        /// The number of retries for receivers that are not ready can be set.
        RNR_RETRY = 1 << 1;
        /// Completions name the address of an unknown peer.
        CQ_WITH_SGID = 1 << 2;
        /// Writes of a peer's memory.
        RDMA_WRITE = 1 << 3;
        /// Writes with immediate data that need no receive.
        UNSOLICITED_WRITE_RECV = 1 << 4;
    }
}

/// The attributes of an EFA device, as efadv_query_device(3) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EfaAttributes {
    /// The most requests in a send queue.
    pub max_sq_wr: u32,
    /// The most requests in a receive queue.
    pub max_rq_wr: u32,
    /// The most pieces of memory (scatter-gather elements) of a send.
    pub max_sq_sge: u16,
    /// The most pieces of memory of a receive.
    pub max_rq_sge: u16,
    /// The most bytes that a send carries inline, in its request.
    pub inline_len: u16,
    /// The longest read or write.
    pub max_rdma_len: u32,
    /// What the device can do.
    pub caps: EfaCaps,
}

impl Context {
    /// Returns the attributes of the device.
    ///
    /// # Errors
    /// That of ibv_query_device(3).
    pub fn attributes(&self) -> Result<DeviceAttributes, Errno> {
        // SAFETY: all zeroes is a valid value; the library fills it in during the call.
        let attributes = unsafe {
            let mut attributes: ibv_device_attr = std::mem::zeroed();
            let query = self.verbs.functions.ibv_query_device;
            done(query(self.context.as_ptr(), &raw mut attributes))?;
            attributes
        };
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        Ok(DeviceAttributes {
            vendor: attributes.vendor_id,
            part: attributes.vendor_part_id,
            firmware: text(&attributes.fw_ver),
            max_qp: count(attributes.max_qp),
            max_cq: count(attributes.max_cq),
            max_mr: count(attributes.max_mr),
        })
    }

    /// Returns the attributes of a port; ports are counted from 1.
    ///
    /// # Errors
    /// That of ibv_query_port(3).
    pub fn port(&self, number: u8) -> Result<Port, Errno> {
        const ACTIVE: i32 = 4;
        // SAFETY: all zeroes is a valid value. The exported function fills in the structure as it was before its last three members were added.
        let attributes = unsafe {
            let mut attributes: ibv_port_attr = std::mem::zeroed();
            let query = self.verbs.functions.ibv_query_port;
            done(query(self.context.as_ptr(), number, &raw mut attributes))?;
            attributes
        };
        let lanes = match attributes.active_width {
            2 => 4,
            4 => 8,
            8 => 12,
            16 => 2,
            _ => 1,
        };
        let lane = match attributes.active_speed {
            1 => 2_500_000_000,
            2 => 5_000_000_000,
            4 | 8 => 10_000_000_000,
            16 => 14_000_000_000,
            32 => 25_000_000_000,
            64 => 50_000_000_000,
            128 => 100_000_000_000,
            _ => 0,
        };
        Ok(Port {
            is_active: attributes.state == ACTIVE,
            max_msg_len: attributes.max_msg_sz,
            speed: lanes * lane,
            gids: attributes.gid_tbl_len.try_into().unwrap_or(0),
        })
    }

    /// Returns an entry of a port's table of GIDs.
    ///
    /// # Errors
    /// That of ibv_query_gid(3).
    pub fn gid(&self, port: u8, index: u16) -> Result<Gid, Errno> {
        let mut gid = [0; 16];
        let query = self.verbs.functions.ibv_query_gid;
        // SAFETY: the address lives through the call.
        let result = unsafe { query(self.context.as_ptr(), port, index.into(), &raw mut gid) };
        if result == 0 {
            Ok(gid)
        } else {
            Err(last_error())
        }
    }

    /// Returns the attributes that EFA devices alone have.
    ///
    /// # Errors
    /// `OPNOTSUPP` if the device is no EFA, or if there is no libefa.
    pub fn efa(&self) -> Result<EfaAttributes, Errno> {
        let mut attributes = efadv_device_attr::default();
        let query = self.efa_functions()?.efadv_query_device;
        let len = size_of::<efadv_device_attr>() as u32;
        // SAFETY: the structure lives through the call and has the length.
        done(unsafe { query(self.context.as_ptr(), &raw mut attributes, len) })?;
        Ok(EfaAttributes {
            max_sq_wr: attributes.max_sq_wr,
            max_rq_wr: attributes.max_rq_wr,
            max_sq_sge: attributes.max_sq_sge,
            max_rq_sge: attributes.max_rq_sge,
            inline_len: attributes.inline_buf_size,
            max_rdma_len: attributes.max_rdma_size,
            caps: EfaCaps(attributes.device_caps),
        })
    }

    pub(super) fn efa_functions(&self) -> Result<&'static EfaFunctions, Errno> {
        let efa: Result<_, &Absence> = self.verbs.efa.as_ref();
        efa.map_err(|_| Errno::OPNOTSUPP)
    }
}
