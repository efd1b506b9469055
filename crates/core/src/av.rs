//! Address vectors: fi_av(3). Both types give indices in order of insertion; inserting does no I/O but name look-ups.

pub(crate) mod open;
mod ops;
mod shared;
mod symmetric;
mod table;

use core::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use oxifabric_abi::{
    FI_ADDR_NOTAVAIL, FI_AV_COMPLETE, FI_AV_USER_ID, FI_FIREWALL_ADDR, FI_MORE, FI_SYNC_ERR,
    fi_addr_t, fi_eq_entry, fid_av,
};
use oxifabric_types::{Address, Errno, FiAddr};

use crate::domain::Domain;
use crate::eq::{Eq, EqFailure};
use crate::handle::{Fid, Ref, Uses};
use crate::lock::lock;
use crate::misuse::Named;
use shared::Shared;
use table::Table;

/// An address vector.
#[repr(C)]
pub(crate) struct Av {
    fid: Fid<fid_av>,
    uses: Uses,
    domain: Ref<Domain>,
    table: Mutex<Table>,
    /// Counts insertions and removals, so that others see when what they remember is out of date.
    changes: AtomicU64,
    /// Counts removals.
    removals: AtomicU64,
    /// Insertions are reported to the event queue (`FI_EVENT`).
    asynchronous: bool,
    /// How many of the highest bits of an address name a receive context of its endpoint.
    context_bits: u32,
    /// Completions call addresses what fi_av_set_user_id says (`FI_AV_USER_ID`).
    named_by_user: bool,
    /// What other processes see of a named vector.
    shared: Option<Shared>,
    eq: Mutex<Option<Ref<Eq>>>,
}

/// How the outcome of each insertion is reported: fi_av(3) "flags".
struct Report {
    /// Where the new addresses go, if the application wants them.
    addresses: *mut fi_addr_t,
    /// Where error numbers go (`FI_SYNC_ERR`).
    errors: *mut i32,
    /// The places of the addresses hold what completions are to call them (`FI_AV_USER_ID`).
    users: bool,
    /// The addresses cannot be connected to (`FI_FIREWALL_ADDR`).
    firewalled: bool,
    context: *mut c_void,
}

impl Drop for Av {
    fn drop(&mut self) {
        let provider = self.domain.provider();
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        for at in table.indices().map(FiAddr) {
            let Some((address, times)) = table.entry(at) else {
                continue;
            };
            (0..times).for_each(|_| provider.dismiss(address));
        }
    }
}

impl Av {
    /// Returns what the log calls it.
    pub(crate) fn named(&self) -> Named {
        // SAFETY: the handle is ours and open.
        unsafe { Named::of(self.fid.as_ptr().cast()) }
    }

    /// Returns the domain.
    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns the address at an index.
    ///
    /// # Errors
    /// `INVAL` when the index is unused.
    pub(crate) fn address(&self, at: fi_addr_t) -> Result<Address, Errno> {
        let mut table = lock(&self.table);
        self.catch_up(&mut table);
        table.address(FiAddr(at)).cloned().ok_or(Errno::INVAL)
    }

    /// Returns the address that data transfers to `name` go to: that of the endpoint, or of the one of its receive contexts
    /// that `name` says (fi_rx_addr).
    ///
    /// # Errors
    /// `INVAL` when the index is unused.
    pub(crate) fn destination(&self, name: fi_addr_t) -> Result<Address, Errno> {
        let (at, context) = self.split(name);
        let address = self.address(at)?;
        if context == 0 {
            return Ok(address);
        }
        address.context(context).ok_or(Errno::INVAL)
    }

    /// Splits what fi_rx_addr made into index and receive context.
    pub(crate) const fn split(&self, name: fi_addr_t) -> (fi_addr_t, usize) {
        match self.context_bits {
            0 => (name, 0),
            bits => (name & (u64::MAX >> bits), (name >> (64 - bits)) as usize),
        }
    }

    /// Lists the indices that are in use, in order.
    pub(crate) fn indices(&self) -> Vec<fi_addr_t> {
        let mut table = lock(&self.table);
        self.catch_up(&mut table);
        table.indices().collect()
    }

    /// Returns what completions call the source at an address, if it or the scalable endpoint that it belongs to is in the
    /// vector; [`FI_ADDR_NOTAVAIL`] if the application is still to name it.
    pub(crate) fn source(&self, address: &Address) -> Option<fi_addr_t> {
        let mut table = lock(&self.table);
        self.catch_up(&mut table);
        let base = |context| table.find(&address.of_context(context)?);
        let at = (0..1 << self.context_bits).find_map(base)?;
        Some(match table.user(at) {
            Some(user) => user,
            None if self.named_by_user => FI_ADDR_NOTAVAIL,
            None => at.0,
        })
    }

    /// Returns the name that completions give to the source at an index.
    ///
    /// # Errors
    /// `INVAL` when the index is unused, or the vector was not opened for that.
    fn set_user(&self, at: fi_addr_t, user: fi_addr_t) -> Result<(), Errno> {
        if !self.named_by_user {
            return Err(Errno::INVAL);
        }
        lock(&self.table).set_user(FiAddr(at), user)?;
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Takes over what other processes did to a named vector.
    fn catch_up(&self, table: &mut Table) {
        if let Some(shared) = &self.shared
            && shared.version() != table.version
        {
            // Without the lock, what was known before stays known.
            let _ = shared.locked(|| {
                self.take_over(shared, table);
                Ok(())
            });
        }
    }

    /// Reads what other processes did; the lock of the vector is held.
    fn take_over(&self, shared: &Shared, table: &mut Table) {
        let version = shared.version();
        if version == table.version {
            return;
        }
        let mut replaced = false;
        shared.each(|at, entry| replaced |= table.set(at, entry));
        table.version = version;
        if replaced {
            self.removals.fetch_add(1, Ordering::Release);
        }
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Changes the table, for other processes as well if it is shared; `change` returns at which index.
    fn change<R>(
        &self,
        change: impl FnOnce(&mut Table) -> Result<(FiAddr, R), Errno>,
    ) -> Result<R, Errno> {
        let table = &mut *lock(&self.table);
        let Some(shared) = &self.shared else {
            return change(table).map(|(_, result)| result);
        };
        if shared.is_read_only() {
            return Err(Errno::ACCES);
        }
        shared.locked(|| {
            self.take_over(shared, table);
            let (at, result) = change(table)?;
            match shared.write(at.0 as usize, table.entry(at)) {
                Ok(version) => table.version = version,
                Err(errno) => {
                    let _ = table.remove(at);
                    return Err(errno);
                }
            }
            Ok(result)
        })
    }

    /// Returns a number that changes with every insertion and removal; never zero.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns a number that changes when an index may mean another address; never zero.
    #[inline]
    pub(crate) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Checks the arguments that all insertions share.
    fn check_insert(
        &self,
        flags: u64,
        addresses: *const fi_addr_t,
        context: *mut c_void,
    ) -> Result<(), Errno> {
        if flags & !(FI_MORE | FI_SYNC_ERR | FI_FIREWALL_ADDR | FI_AV_USER_ID) != 0 {
            // Authorization keys are not offered.
            return Err(Errno::BADFLAGS);
        }
        if flags & FI_AV_USER_ID != 0 && (self.named_by_user || addresses.is_null()) {
            return Err(Errno::INVAL);
        }
        if flags & FI_SYNC_ERR != 0 && (context.is_null() || self.asynchronous) {
            return Err(Errno::INVAL);
        }
        if self.asynchronous && lock(&self.eq).is_none() {
            return Err(Errno::NOEQ);
        }
        Ok(())
    }

    /// Inserts addresses and reports the result of each; returns what the call returns.
    ///
    /// # Safety
    /// The places of `report` have room for all addresses.
    unsafe fn insert(
        &self,
        addresses: impl Iterator<Item = Result<Address, Errno>>,
        report: &Report,
    ) -> usize {
        let mut inserted = 0;
        for (at, address) in addresses.enumerate() {
            // SAFETY: the caller's contract.
            let user = report.users.then(|| unsafe { *report.addresses.add(at) });
            let result = address.and_then(|address| self.insert_one(address, user));
            if let (true, Ok(at)) = (report.firewalled, &result) {
                self.set_firewalled(*at);
            }
            inserted += usize::from(result.is_ok());
            // SAFETY: the caller's contract.
            unsafe { self.report_one(at, result, report) };
        }
        self.changes.fetch_add(1, Ordering::Release);
        if !self.asynchronous {
            return inserted;
        }
        self.report_end(inserted, report);
        0
    }

    fn insert_one(&self, address: Address, user: Option<fi_addr_t>) -> Result<FiAddr, Errno> {
        let provider = self.domain.provider();
        provider.admit(&address)?;
        let inserted = self.change(|table| {
            let at = table.insert(address.clone());
            if let Some(user) = user {
                table.set_user(at, user)?;
            }
            Ok((at, at))
        });
        if inserted.is_err() {
            provider.dismiss(&address);
        }
        inserted
    }

    /// Notes that nothing can connect to an address (`FI_FIREWALL_ADDR`). Endpoints that know its peer look it up again.
    fn set_firewalled(&self, at: FiAddr) {
        if lock(&self.table).set_firewalled(at) {
            self.removals.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns whether the application said that nothing can connect to the address at an index (`FI_FIREWALL_ADDR`).
    pub(crate) fn is_behind_firewall(&self, at: fi_addr_t) -> bool {
        lock(&self.table).is_behind_firewall(FiAddr(at))
    }

    /// Reports the result of one insertion.
    ///
    /// # Safety
    /// As for [`Av::insert`].
    unsafe fn report_one(&self, at: usize, result: Result<FiAddr, Errno>, report: &Report) {
        // SAFETY: the caller's contract.
        unsafe {
            if !report.addresses.is_null() {
                *report.addresses.add(at) = result.unwrap_or(FiAddr::UNSPEC).0;
            }
            if !report.errors.is_null() {
                *report.errors.add(at) = result.err().map_or(0, Errno::raw);
            }
        }
        if let (Err(errno), Some(eq)) = (result, self.events()) {
            eq.post_failure(EqFailure {
                fid: self.fid.as_ptr().addr(),
                context: report.context.addr(),
                data: at as u64,
                errno,
                detail: Box::default(),
            });
        }
    }

    fn report_end(&self, inserted: usize, report: &Report) {
        if let Some(eq) = self.events() {
            let entry = fi_eq_entry {
                fid: self.fid.as_ptr().cast(),
                context: report.context,
                data: inserted as u64,
            };
            eq.post(FI_AV_COMPLETE, &entry);
        }
    }

    /// Returns the event queue if insertions are reported there.
    fn events(&self) -> Option<Ref<Eq>> {
        if !self.asynchronous {
            return None;
        }
        lock(&self.eq).clone()
    }

    /// Removes one address.
    fn remove(&self, at: fi_addr_t) -> Result<(), Errno> {
        let at = FiAddr(at);
        let (address, unused) = self.change(|table| {
            let address = table.address(at).cloned();
            let unused = table.remove(at)?;
            Ok((at, (address, unused)))
        })?;
        if let Some(address) = address {
            self.domain.provider().dismiss(&address);
        }
        if unused {
            self.removals.fetch_add(1, Ordering::Release);
            self.changes.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// Binds the event queue.
    fn bind(&self, eq: &Eq, flags: u64) -> Result<(), Errno> {
        let mut bound = lock(&self.eq);
        if flags != 0 || bound.is_some() {
            return Err(Errno::INVAL);
        }
        *bound = Some(Ref::to(eq));
        Ok(())
    }
}
