//! Kinds of frames and their numbers in a wire format, in both directions. Path class: hot.

use crate::Kind;

/// Makes the functions `number` and `kind` between [`Kind`] and the numbers in a module of constants, such as `MSG_RTS` for
/// [`Kind::MsgRts`].
#[macro_export]
macro_rules! kind_numbers {
    ($numbers:path) => {
        use $numbers as numbers;
        $crate::kind_numbers! {
            @ numbers:
            Msg: MSG,
            Tagged: TAGGED,
            MsgRts: MSG_RTS,
            TaggedRts: TAGGED_RTS,
            Cts: CTS,
            Segment: SEGMENT,
            Ack: ACK,
            Fin: FIN,
            Write: WRITE,
            WriteRts: WRITE_RTS,
            Read: READ,
            Response: RESPONSE,
            ResponseRts: RESPONSE_RTS,
            Atomic: ATOMIC,
            FetchAtomic: FETCH_ATOMIC,
            CompareAtomic: COMPARE_ATOMIC,
            Collective: COLLECTIVE,
            CollectiveRts: COLLECTIVE_RTS,
        }
    };
    (@ $numbers:ident: $($kind:ident: $number:ident),* $(,)?) => {
        /// Returns the number of a kind.
        #[inline(always)]
        pub(crate) const fn number(kind: $crate::Kind) -> u8 {
            match kind {
                $($crate::Kind::$kind => $numbers::$number,)*
            }
        }

        /// Returns the kind with a number, if there is one.
        #[inline(always)]
        pub(crate) const fn kind(number: u8) -> Option<$crate::Kind> {
            Some(match number {
                $($numbers::$number => $crate::Kind::$kind,)*
                _ => return None,
            })
        }
    };
}

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 18] = [
        Self::Msg,
        Self::Tagged,
        Self::MsgRts,
        Self::TaggedRts,
        Self::Cts,
        Self::Segment,
        Self::Ack,
        Self::Fin,
        Self::Write,
        Self::WriteRts,
        Self::Read,
        Self::Response,
        Self::ResponseRts,
        Self::Atomic,
        Self::FetchAtomic,
        Self::CompareAtomic,
        Self::Collective,
        Self::CollectiveRts,
    ];
}
