//! Traffic classes: fi_endpoint(3) "Traffic Class". Set-up path.

use oxifabric_types::Info;

/// FI_TC_DSCP: the value itself is in the low bits.
const DSCP: u32 = 0x100;
/// FI_TC_LABEL: the first of the named classes.
const LABEL: u32 = 0x200;

/// Returns the DSCP value for packets of an endpoint, if its application chose a class: that of the endpoint, or else that of
/// the domain.
pub(crate) fn dscp(info: &Info) -> Option<u8> {
    let class = match info.tx.tclass {
        0 => info.domain.tclass,
        class => class,
    };
    match class {
        0 => None,
        class if class & LABEL != 0 => of_label(class - LABEL),
        class if class & DSCP != 0 => Some((class & 0x3f) as u8),
        _ => None,
    }
}

/// Maps the named classes to the code points that networks commonly use for such traffic (RFC 4594, RFC 8622).
const fn of_label(label: u32) -> Option<u8> {
    match label {
        // Best effort: the default.
        0 => Some(0),
        // Low latency: expedited forwarding.
        1 => Some(46),
        // Dedicated access: above all but network control.
        2 => Some(40),
        // Bulk data: AF11.
        3 => Some(10),
        // Scavenger: lower effort.
        4 => Some(1),
        // Network control.
        5 => Some(48),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(endpoint: u32, domain: u32) -> Option<u8> {
        let mut info = Info::default();
        (info.tx.tclass, info.domain.tclass) = (endpoint, domain);
        dscp(&info)
    }

    #[test]
    fn the_class_of_the_endpoint_goes_before_that_of_the_domain() {
        assert_eq!(marked(0, 0), None);
        assert_eq!(marked(0, LABEL + 4), Some(1));
        assert_eq!(marked(LABEL + 1, LABEL + 4), Some(46));
        assert_eq!(marked(DSCP | 12, 0), Some(12));
        assert_eq!(marked(LABEL + 77, 0), None);
        assert_eq!(marked(7, 0), None);
    }
}
