//! softnic within a process of the program: nothing until the process opens a device, then a connection to the switch and a thread that
//! runs the device.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::adapter::Adapter;
use crate::commands;
use crate::files::{self, Owner};
use crate::memory::DeviceFile;
use crate::objects::Context;
use crate::sys::{self, Interest};
use crate::uverbs;

/// The settings that `softnic run` passes in the environment.
#[derive(Debug)]
struct Setup {
    folder: PathBuf,
    host: u8,
    nics: u8,
}

static SETUP: OnceLock<Option<Setup>> = OnceLock::new();
/// The device, made with the first open and never freed: its thread uses it until the process ends.
static DEVICE: AtomicPtr<Device> = AtomicPtr::new(std::ptr::null_mut());
/// Held while the device is made.
static MAKING: Mutex<()> = Mutex::new(());
/// The connection's descriptor, which a child of fork(2) has to close: otherwise the switch would not see this process end.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);

#[derive(Debug)]
struct Device {
    adapter: Mutex<Adapter>,
    /// Wakes the thread of the device.
    bell: std::io::PipeWriter,
}

impl Device {
    fn lock(&self) -> MutexGuard<'_, Adapter> {
        self.adapter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Variables in which a launcher says which of a job's processes this is: they spread over the hosts.
const RANKS: [&str; 4] = [
    "PMI_RANK",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "SLURM_PROCID",
];

/// Reads the settings of `softnic run`, and lets libibverbs find the devices of this process's host.
pub(crate) fn start() {
    let setup = SETUP.get_or_init(|| {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let folder = PathBuf::from(std::env::var_os("SOFTNIC_RUN")?);
        let hosts = number("SOFTNIC_HOSTS")?.clamp(1, 64);
        let named = number("SOFTNIC_HOST").or_else(|| RANKS.into_iter().find_map(number));
        Some(Setup {
            folder,
            host: (named.unwrap_or(0) % hosts) as u8,
            nics: u8::try_from(number("SOFTNIC_NICS")?).ok()?,
        })
    });
    if let Some(setup) = setup {
        let devices = setup.folder.join(format!("host{}", setup.host));
        sys::set_variable("SYSFS_PATH", &devices);
        sys::after_fork(in_child);
    }
}

extern "C" fn in_child() {
    DEVICE.store(std::ptr::null_mut(), Ordering::Release);
    files::disown();
    sys::close_number(CONNECTION.swap(-1, Ordering::AcqRel));
}

fn setup() -> Option<&'static Setup> {
    SETUP.get()?.as_ref()
}

/// Whether the process was started by `softnic run`.
pub(crate) fn is_on() -> bool {
    setup().is_some()
}

/// Whether the host has a device with this number.
pub(crate) fn has_device(number: u8) -> bool {
    setup().is_some_and(|setup| number < setup.nics)
}

/// Whether the descriptor is that of an open device.
pub(crate) fn is_device(fd: c_int) -> bool {
    matches!(files::owner(fd), Some(Owner::Context(_) | Owner::Parent))
}

/// Returns which device the descriptor is of.
pub(crate) fn device_of(fd: c_int) -> Option<u8> {
    let Some(Owner::Context(context)) = files::owner(fd) else {
        return None;
    };
    let adapter = existing()?.lock();
    adapter.contexts.get(context).map(|context| context.nic)
}

fn existing() -> Option<&'static Device> {
    sys::leaked(DEVICE.load(Ordering::Acquire))
}

/// Returns the device, and makes it if this is the first time.
///
/// # Errors
/// `ENODEV` if `softnic run` is not there any more.
fn device() -> Result<&'static Device, c_int> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = existing() {
        return Ok(device);
    }
    let setup = setup().ok_or(libc::ENODEV)?;
    let adapter = Adapter::connect(&setup.folder.join("switch"), setup.host);
    let adapter = adapter.map_err(|error| {
        eprintln!("softnic: no connection to the switch of softnic run: {error}");
        libc::ENODEV
    })?;
    CONNECTION.store(adapter.link.fd(), Ordering::Release);
    let (ear, bell) = std::io::pipe().map_err(|_| libc::EMFILE)?;
    let adapter = Mutex::new(adapter);
    let device: &'static Device = Box::leak(Box::new(Device { adapter, bell }));
    DEVICE.store(std::ptr::from_ref(device).cast_mut(), Ordering::Release);
    sys::start_thread(move || drive(device, &ear)).map_err(|_| libc::EAGAIN)?;
    Ok(device)
}

/// Opens a device, and returns the descriptor.
///
/// # Errors
/// An error number for the caller of open(2).
pub(crate) fn open(number: u8) -> Result<c_int, c_int> {
    let device = device()?;
    let (file, fd) = DeviceFile::create().map_err(|_| libc::EMFILE)?;
    let context = device.lock().contexts.insert(Context {
        nic: number,
        file,
        events: None,
    });
    if !files::note(fd, Owner::Context(context)) {
        commands::close_context(&mut device.lock(), context);
        sys::close_number(fd);
        return Err(libc::EMFILE);
    }
    Ok(fd)
}

/// Carries out a command that was written to a device.
///
/// # Errors
/// An error number for the caller of write(2).
pub(crate) fn command(fd: c_int, bytes: &[u8]) -> Result<(), c_int> {
    // The kernel answers the same to a process that is not the one which opened the device.
    let Some(Owner::Context(context)) = files::owner(fd) else {
        return Err(libc::EIO);
    };
    let device = existing().ok_or(libc::EIO)?;
    let request = uverbs::parse(bytes)?;
    let done = commands::carry_out(&mut device.lock(), context, &request);
    wake(device);
    done
}

/// Destroys the object behind a descriptor, before the process closes that.
pub(crate) fn close(fd: c_int) {
    let Some(owner) = files::forget(fd) else {
        return;
    };
    let Some(device) = existing() else {
        return;
    };
    match owner {
        Owner::Context(context) => commands::close_context(&mut device.lock(), context),
        Owner::Channel(channel) => commands::close_channel(&mut device.lock(), channel),
        Owner::Parent => {}
    }
}

/// Returns how many objects of a kind there are; `None` for a kind that there is not.
pub(crate) fn objects(kind: &[u8]) -> Option<usize> {
    let Some(device) = existing() else {
        return Some(0);
    };
    device.lock().count(kind)
}

fn wake(device: &Device) {
    use std::io::Write;
    // The pipe cannot fill up while its reader empties it in every round, and if it did, the reader would be awake.
    let _ = (&device.bell).write(&[1]);
}

/// How long the thread sleeps between two looks at the doorbells: while something moved lately, and later. It never spins or yields, since the
/// programs that poll would then have the processor, and it would wait for their time to run out.
const NAP: Duration = Duration::from_micros(20);
const SLEEP: Duration = Duration::from_micros(250);

/// Runs the device, as its thread: looks at doorbells, sends and receives, until the process ends.
fn drive(device: &Device, ear: &std::io::PipeReader) {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    let mut idle = 0_u32;
    sys::run_promptly();
    loop {
        let (has_worked, link, has_queues) = {
            let mut adapter = device.lock();
            let has_worked = adapter.step();
            let link = Interest {
                fd: adapter.link.fd(),
                room: adapter.link.is_full(),
            };
            (has_worked, link, adapter.has_queues())
        };
        if has_worked {
            idle = 0;
            continue;
        }
        idle = idle.saturating_add(1);
        let limit = match idle {
            _ if !has_queues => None,
            0..500 => Some(NAP),
            _ => Some(SLEEP),
        };
        let bell = Interest {
            fd: ear.as_raw_fd(),
            room: false,
        };
        let interests = if device.lock().is_cut() {
            &[bell][..]
        } else {
            &[bell, link]
        };
        if sys::wait(interests, limit).first() == Some(&true) {
            let mut rings = [0; 64];
            let _ = (&mut &*ear).read(&mut rings);
            idle = 0;
        }
    }
}
