//! The data of an application that goes with a connection, as the C library's provider verbs puts it into the private data of rdma_cm: a byte
//! with its length, and the data. The connection manager pads what it transports, so that its own length says nothing.

use oxifabric_types::Errno;

/// Most that an application may send along: rdma_cm has 56 bytes in a request.
pub(crate) const LONGEST: usize = 55;

/// Private data as it is sent.
pub(crate) struct Private {
    bytes: [u8; LONGEST + 1],
}

impl Private {
    /// Packs data of an application.
    ///
    /// # Errors
    /// `INVAL` when it is too long.
    pub(crate) fn pack(data: &[u8]) -> Result<Self, Errno> {
        let mut bytes = [0; LONGEST + 1];
        let place = bytes.get_mut(1..=data.len()).ok_or(Errno::INVAL)?;
        place.copy_from_slice(data);
        bytes[0] = data.len() as u8;
        Ok(Self { bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..=usize::from(self.bytes[0])]
    }
}

/// Returns the data of the peer's application: as much as there is of what the peer says, and no more than an application may send here.
pub(crate) fn unpack(bytes: &[u8]) -> &[u8] {
    let Some((&len, data)) = bytes.split_first() else {
        return &[];
    };
    let len = usize::from(len).min(LONGEST).min(data.len());
    data.get(..len).unwrap_or(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_no_data() {
        let mut bytes = Private::pack(b"hello").unwrap().bytes().to_vec();
        assert_eq!(bytes, b"\x05hello");
        bytes.resize(56, 0);
        assert_eq!(unpack(&bytes), b"hello");
    }

    #[test]
    fn what_a_peer_says_is_bounded_by_what_there_is() {
        assert_eq!(unpack(&[]), b"");
        assert_eq!(unpack(&[0, 1, 2]), b"");
        assert_eq!(unpack(&[255, 1, 2]), [1, 2]);
        assert_eq!(unpack(&[196; 197]), [196; LONGEST]);
    }

    #[test]
    fn data_has_a_limit() {
        assert_eq!(Private::pack(&[7; LONGEST]).unwrap().bytes().len(), 56);
        assert!(Private::pack(&[7; LONGEST + 1]).is_err());
    }
}
