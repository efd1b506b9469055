//! The engine's kinds of frames as their numbers on the wire. Path class: hot.

oxifabric_engine::kind_numbers!(oxifabric_wire::shm::kind);

#[cfg(test)]
mod tests {
    use oxifabric_engine::Kind;

    use super::*;

    #[test]
    fn kinds_keep_their_numbers() {
        for (at, of) in (0..).zip(Kind::ALL) {
            assert_eq!((number(of), kind(at)), (at, Some(of)));
        }
        assert_eq!(kind(Kind::ALL.len() as u8), None);
    }
}
