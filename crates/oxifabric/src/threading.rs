//! Which threads may use the objects of a domain. Source: fi_domain(3) "threading".

use core::marker::PhantomData;

/// The level of threading of a domain: [`Shared`] or [`Local`].
pub trait Threading: sealed::Sealed + 'static {}

/// All threads at any time: the objects are `Send` and `Sync`, and the provider locks what has to be locked (`FI_THREAD_SAFE`).
#[derive(Clone, Copy, Debug)]
pub struct Shared(());

/// One thread: the objects are neither `Send` nor `Sync`, and the provider may do without locks (`FI_THREAD_DOMAIN`).
///
/// Objects of different levels do not mix: an endpoint of a [`Local`] domain takes no address vector of a [`Shared`] one.
#[derive(Clone, Copy, Debug)]
pub struct Local(PhantomData<*const ()>);

impl Threading for Shared {}
impl Threading for Local {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Shared {}
    impl Sealed for super::Local {}
}

/// Zero-sized field that carries the threading level of a public object.
pub(crate) type Marker<T> = PhantomData<T>;
