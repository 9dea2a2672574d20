//! Records longer than what is kept of one.

use super::*;

const LENGTH: usize = 9 << 20;
/// Header of the record, and that of its main data.
const BEFORE_MAIN: usize = 24 + 5;

/// A logical message of 9 MiB between two short records, and the offset in the page bytes where it starts.
fn with_long_record() -> (WalWriter, usize) {
    let mut writer = WalWriter::new(FIRST);
    writer.heap(100);
    let mut body = vec![254];
    body.extend((LENGTH as u32).to_le_bytes());
    body.extend((0..LENGTH).map(|i| (i / 251) as u8 ^ i as u8));
    let start = writer.record(21, 0, &body);
    writer.heap(3000);
    writer.heap(10);
    (writer, (start - FIRST) as usize)
}

/// The records as they should be read again.
fn kept(writer: &WalWriter) -> Vec<(u64, u64, Vec<u8>)> {
    let cut = |bytes: &Vec<u8>| bytes[..bytes.len().min(KEPT_RECORD_BYTES)].to_vec();
    writer.records.iter().map(|(start, end, bytes)| (*start, *end, cut(bytes))).collect()
}

#[test]
fn a_long_record_is_checked_in_bounded_memory_in_pieces_of_any_size() {
    let (writer, _) = with_long_record();
    let expected = kept(&writer);
    assert_eq!(expected[1].2.len(), KEPT_RECORD_BYTES);
    for chunk in [61, PAGE, 7777, 1 << 20, usize::MAX] {
        let found = read_with(options(), FIRST, &writer.bytes, chunk);
        assert!(found.records == expected, "{chunk}");
        assert_eq!(found.end.unwrap().reason, EndReason::InputEnds);
        assert!(found.longest_buffer <= KEPT_RECORD_BYTES, "{}", found.longest_buffer);
    }
}

#[test]
fn a_long_record_says_that_its_main_data_is_cut() {
    let (writer, _) = with_long_record();
    let mut reader = WalReader::new(options(), Lsn(FIRST)).unwrap();
    let mut input = writer.bytes.as_slice();
    let mut seen = Vec::new();
    while let Some(event) = reader.next(&mut input) {
        let Event::Record(record) = event else { panic!("{event:?}") };
        let main_data = record.main_data();
        assert!(record.bytes.ends_with(main_data));
        let headers = if main_data.len() < 256 { 24 + 2 } else { BEFORE_MAIN as u64 };
        assert_eq!(record.main_data_lsn(), record.start_lsn.advanced_by(headers));
        seen.push((record.is_cut(), record.header.tot_len as usize, main_data.len(), record.blocks().count()));
    }
    let long = (true, BEFORE_MAIN + LENGTH, KEPT_RECORD_BYTES - BEFORE_MAIN, 0);
    assert_eq!(seen, [(false, 126, 100, 0), long, (false, 3029, 3000, 0), (false, 36, 10, 0)]);
}

#[test]
fn records_about_as_long_as_what_is_kept() {
    for length in [KEPT_RECORD_BYTES - 1, KEPT_RECORD_BYTES, KEPT_RECORD_BYTES + 1] {
        let mut writer = WalWriter::new(FIRST);
        writer.heap(length - BEFORE_MAIN);
        writer.heap(10);
        assert_eq!(writer.records[0].2.len(), length);
        for chunk in [1000, usize::MAX] {
            assert!(read_with(options(), FIRST, &writer.bytes, chunk).records == kept(&writer), "{length} {chunk}");
        }
    }
}

#[test]
fn one_flipped_bit_anywhere_in_a_long_record_is_found() {
    let (mut writer, start) = with_long_record();
    let end = (writer.records[1].1 - FIRST) as usize;
    // In its header, in the part that is kept, on both sides of the cut, far after it, and in its last bytes.
    let pages = KEPT_RECORD_BYTES / (PAGE - 24);
    for at in
        [start + 4, start + 5000, start + pages * PAGE - 3000, start + pages * PAGE + 5000, end - 300_000, end - 12]
    {
        // Never in a page header.
        let at = if at % PAGE < 40 && at != start + 4 { at + 40 } else { at };
        writer.bytes[at] ^= 0x10;
        let found = read_with(options(), FIRST, &writer.bytes, 100_000);
        writer.bytes[at] ^= 0x10;
        assert_eq!(found.records.len(), 1, "{at}");
        let end = found.end.unwrap();
        assert!(matches!(end.reason, EndReason::Checksum { .. }), "{at}: {:?}", end.reason);
        assert_eq!(end.at, Lsn(writer.records[1].0));
    }
}

#[test]
fn main_data_that_does_not_fill_a_long_record_is_found() {
    for stated in [LENGTH - 1, LENGTH + 1, KEPT_RECORD_BYTES - BEFORE_MAIN] {
        let mut writer = WalWriter::new(FIRST);
        let mut body = vec![254];
        body.extend((stated as u32).to_le_bytes());
        body.resize(5 + LENGTH, 7);
        writer.record(21, 0, &body);
        let end = read_with(options(), FIRST, &writer.bytes, usize::MAX).end.unwrap();
        let EndReason::Body(error) = end.reason else { panic!("{:?}", end.reason) };
        assert!(error.to_string().contains("fragments fill the rest"), "{error}");
    }
}

#[test]
fn a_long_record_whose_rest_is_missing_says_how_much_was_there() {
    let (writer, start) = with_long_record();
    let tot_len = (BEFORE_MAIN + LENGTH) as u32;
    // Somewhere after the cut, at the start of a page.
    let missing = (KEPT_RECORD_BYTES + (700 << 10)).next_multiple_of(PAGE);
    // By the page headers: a long one at the start of each segment, short ones else.
    let headers: usize = (start.next_multiple_of(PAGE)..missing)
        .step_by(PAGE)
        .map(|at| if at.is_multiple_of(SEGMENT) { 40 } else { 24 })
        .sum();
    let have = (missing - start - headers) as u64;
    assert!(have > KEPT_RECORD_BYTES as u64);
    let end = read_with(options(), FIRST, &writer.bytes[..missing], 5000).end.unwrap();
    assert_eq!(end.reason, EndReason::CutShort { structure: "record", have });

    let mut replaced = WalWriter { bytes: writer.bytes[..missing].to_vec(), ..WalWriter::new(FIRST) };
    replaced.prev = writer.records[0].0;
    let lost = writer.records[1].0;
    replaced.header(0, 0x08);
    replaced.record(0, 0xD0, &[&[255, 16][..], &lost.to_le_bytes(), &[0; 8]].concat());
    let found = read_with(options(), FIRST, &replaced.bytes, 5000);
    let missing_lsn = Lsn(FIRST + missing as u64);
    assert_eq!(found.aborted, [Aborted { start_lsn: Lsn(lost), missing_lsn, have, tot_len }]);
    assert_eq!(found.records.len(), 2);

    // A page after the cut that does not continue with what is left.
    let mut wrong = writer.bytes;
    wrong[missing + 16] ^= 1;
    let end = read_with(options(), FIRST, &wrong, 5000).end.unwrap();
    let expected = tot_len - have as u32;
    assert_eq!(end.reason, EndReason::ContinuationLength { found: expected ^ 1, expected });
}
