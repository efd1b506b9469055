//! The engine's kinds of frames as their numbers on the wire. Path class: hot.

use oxifabric_engine::Kind;
use oxifabric_wire::reliable::kind;

macro_rules! numbers {
    ($($kind:ident: $number:ident),* $(,)?) => {
        /// Returns the number of a kind.
        #[inline(always)]
        pub(crate) const fn number(kind: Kind) -> u8 {
            match kind {
                $(Kind::$kind => kind::$number,)*
            }
        }

        /// Returns the kind with a number, if there is one.
        #[inline(always)]
        pub(crate) const fn kind(number: u8) -> Option<Kind> {
            Some(match number {
                $(kind::$number => Kind::$kind,)*
                _ => return None,
            })
        }
    };
}

numbers! {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_their_numbers() {
        let kinds = [
            Kind::Msg,
            Kind::Tagged,
            Kind::MsgRts,
            Kind::TaggedRts,
            Kind::Cts,
            Kind::Segment,
            Kind::Ack,
            Kind::Fin,
            Kind::Write,
            Kind::WriteRts,
            Kind::Read,
            Kind::Response,
            Kind::ResponseRts,
            Kind::Atomic,
            Kind::FetchAtomic,
            Kind::CompareAtomic,
            Kind::Collective,
            Kind::CollectiveRts,
        ];
        for (at, of) in (0..).zip(kinds) {
            assert_eq!((number(of), kind(at)), (at, Some(of)));
        }
        assert_eq!(kind(kinds.len() as u8), None);
    }
}
