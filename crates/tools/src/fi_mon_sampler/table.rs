//! The table that is written: two columns for each operation and class of sizes, calls and bytes. Source: fi_mon_sampler(1).

/// What is counted, in the order of the files.
const COUNTED: [&str; 42] = [
    "mon_recv",
    "mon_recvv",
    "mon_recvmsg",
    "mon_trecv",
    "mon_trecvv",
    "mon_trecvmsg",
    "mon_send",
    "mon_sendv",
    "mon_sendmsg",
    "mon_inject",
    "mon_senddata",
    "mon_injectdata",
    "mon_tsend",
    "mon_tsendv",
    "mon_tsendmsg",
    "mon_tinject",
    "mon_tsenddata",
    "mon_tinjectdata",
    "mon_read",
    "mon_readv",
    "mon_readmsg",
    "mon_write",
    "mon_writev",
    "mon_writemsg",
    "mon_inject_write",
    "mon_writedata",
    "mon_inject_writedata",
    "mon_mr_reg",
    "mon_mr_regv",
    "mon_mr_regattr",
    "mon_cq_read",
    "mon_cq_readfrom",
    "mon_cq_readerr",
    "mon_cq_sread",
    "mon_cq_sreadfrom",
    "mon_cq_ctx",
    "mon_cq_msg_tx",
    "mon_cq_msg_rx",
    "mon_cq_data_tx",
    "mon_cq_data_rx",
    "mon_cq_tagged_tx",
    "mon_cq_tagged_rx",
];

/// Classes of sizes.
const SIZES: [&str; 9] = [
    "0_64", "64_512", "512_1K", "1K_4K", "4K_64K", "64K_256K", "256K_1M", "1M_4M", "4M_UP",
];

/// How many numbers a file holds: for each operation the calls of all classes, then their bytes.
pub(super) const NUMBERS: usize = COUNTED.len() * 2 * SIZES.len();

/// Returns the names of the columns.
pub(super) fn header() -> String {
    let columns = COUNTED.iter().flat_map(|operation| {
        let pair = move |size: &&str| format!("{operation}_{size}_c,{operation}_{size}_s");
        SIZES.iter().map(pair)
    });
    columns.collect::<Vec<_>>().join(",")
}

/// Returns the line of a sample.
pub(super) fn row(numbers: &[u64]) -> String {
    let columns = numbers.chunks(2 * SIZES.len()).flat_map(|operation| {
        let (calls, bytes) = operation.split_at(operation.len() / 2);
        let pair = |(calls, bytes): (&u64, &u64)| format!("{calls},{bytes}");
        calls.iter().zip(bytes).map(pair)
    });
    columns.collect::<Vec<_>>().join(",")
}

/// Returns a sample as a JSON object with the names of the columns.
pub(super) fn object(numbers: &[u64]) -> String {
    let (header, row) = (header(), row(numbers));
    let columns = header.split(',').zip(row.split(','));
    let columns = columns.map(|(name, number)| format!("\"{name}\": {number}"));
    format!("{{{}}}", columns.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_bytes_of_a_class_stand_side_by_side() {
        let mut numbers = vec![0; NUMBERS];
        // The second operation's first class: calls, and bytes behind the calls of all classes.
        (numbers[18], numbers[27]) = (3, 192);
        let (header, row) = (header(), row(&numbers));
        let columns: Vec<_> = header.split(',').zip(row.split(',')).collect();
        assert_eq!(columns.len(), NUMBERS);
        assert_eq!(
            columns[18..20],
            [("mon_recvv_0_64_c", "3"), ("mon_recvv_0_64_s", "192")]
        );
        assert!(header.ends_with("mon_cq_tagged_rx_4M_UP_s"));
        let object: serde_json::Value = serde_json::from_str(&object(&numbers)).unwrap();
        assert_eq!(object.as_object().map(serde_json::Map::len), Some(NUMBERS));
        assert_eq!(object["mon_recvv_0_64_s"], 192);
    }
}
