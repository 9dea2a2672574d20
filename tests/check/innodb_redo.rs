//! A redo log that is not whole: what a start replays is not known then, whatever the pages look like.
//!
//! Where the log of each directory begins and ends is worked out by hand from its headers: MySQL 9.7.4 has its checkpoint, LSN
//! 36542638, in `#ib_redo76`, whose header says 36290560, and the last block, which is 79 bytes long, at 39505408 in `#ib_redo88`; MySQL
//! 5.6.24 says itself that LSN 17494825 is at byte 719145 of its two files laid end to end; MariaDB 10.11.19 writes the LSN 12288 at byte
//! 12288 of its file, and so 19596708 at byte 2868644, after four turns over the 4182016 bytes that are not header.

use std::fs::{self, OpenOptions};
use std::path::Path;

use pgforensics::parsers::crc::crc32c;
use pgforensics::parsers::innodb::redo_mtr::{MTR_TRAILER_BYTES, Mtr};
use serde_json::Value;

use crate::common::{Ran, arg, dwbinspect};
use crate::innodb_variants::{copy_of, forget_what_is_lost, innodb, noise, start_of, write_at};

const CASES: [&str; 6] =
    ["mysql97", "mysql97-detect", "mysql56", "mariadb1011", "mariadb1011-crc32", "mariadb1011-compressed"];

/// What is done to a log.
enum Damage {
    Noise(u64, usize),
    Zeros(u64, usize),
    Cut(u64),
    Removed,
}

impl Damage {
    fn apply(&self, path: &Path) {
        match self {
            Self::Noise(at, length) => write_at(path, &noise(*length), *at),
            Self::Zeros(at, length) => write_at(path, &vec![0; *length], *at),
            Self::Cut(at) => OpenOptions::new().write(true).open(path).unwrap().set_len(*at).unwrap(),
            Self::Removed => fs::remove_file(path).unwrap(),
        }
    }
}

/// Findings about the redo log.
fn of_redo(ran: &Ran) -> Vec<Value> {
    let is_it = |finding: &Value| finding["kind"].as_str().is_some_and(|kind| kind.starts_with("innodb_redo_"));
    ran.of_type("finding").into_iter().filter(is_it).collect()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn logs_of_servers_that_were_killed_are_whole() {
    for case in CASES {
        let (_kept, data) = copy_of(case);
        assert!(of_redo(&innodb("check", &data)).is_empty(), "{case}");
        assert!(!innodb("check", &data).of_type("skipped").iter().any(|one| one["what"] == "the redo log"), "{case}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn start_is_unknown_where_the_log_is_damaged_cut_or_missing_after_the_checkpoint() {
    use Damage::{Cut, Noise, Removed, Zeros};
    for (case, damages) in [
        (
            "mysql97",
            vec![
                // The block of the checkpoint, one in the middle, the last one.
                ("#innodb_redo/#ib_redo76", Noise(254_000, 100)),
                ("#innodb_redo/#ib_redo80", Noise(100_000, 16)),
                ("#innodb_redo/#ib_redo80", Zeros(102_400, 4096)),
                ("#innodb_redo/#ib_redo88", Noise(95_744 + 20, 8)),
                ("#innodb_redo/#ib_redo80", Cut(100_000)),
                ("#innodb_redo/#ib_redo88", Cut(50_000)),
                ("#innodb_redo/#ib_redo80", Removed),
                ("#innodb_redo/#ib_redo88", Removed),
            ],
        ),
        (
            "mysql56",
            vec![
                ("ib_logfile0", Noise(719_145, 100)),
                ("ib_logfile0", Noise(2_000_000, 16)),
                ("ib_logfile1", Zeros(409_600, 4096)),
                ("ib_logfile1", Noise(846_336 + 20, 8)),
                ("ib_logfile0", Cut(2_000_000)),
                ("ib_logfile1", Cut(409_600)),
                ("ib_logfile1", Removed),
            ],
        ),
        (
            "mariadb1011",
            vec![
                ("ib_logfile0", Noise(2_868_644, 100)),
                ("ib_logfile0", Noise(3_300_000, 16)),
                ("ib_logfile0", Zeros(3_301_376, 4096)),
                ("ib_logfile0", Cut(3_300_000)),
            ],
        ),
    ] {
        let (_kept, data) = copy_of(case);
        forget_what_is_lost(&data);
        let before = innodb("check", &data);
        assert_eq!(start_of(&data), "nothing_against", "{case}");
        for (index, (file, damage)) in damages.iter().enumerate() {
            let path = data.join(file);
            let kept = fs::read(&path).unwrap();
            damage.apply(&path);
            let found = innodb("check", &data);
            // "Missing redo log file": of the last one nobody knows.
            let is_between = file.ends_with("redo80") && matches!(damage, Removed);
            let start = if is_between { "refuses" } else { "unknown" };
            assert_eq!(start_of(&data), start, "{case}: {file} {index}");
            assert!(found.status > 0, "{case}: {file} {index}");
            assert!(!of_redo(&found).is_empty() || found.status == 2, "{case}: {file} {index}");
            for page in found.of_type("page") {
                assert_ne!(page["verdict"], "server_restores", "{case}: {file} {index}: {page}");
            }
            fs::write(&path, kept).unwrap();
        }
        assert_eq!(innodb("check", &data).stdout, before.stdout, "{case}: as before");
    }
}

/// Noise in one block, and the log after it, are told by where they are.
#[test]
fn damage_of_a_log_is_told_with_its_place() {
    let (_kept, data) = copy_of("mysql97");
    Damage::Noise(100_000, 16).apply(&data.join("#innodb_redo/#ib_redo80"));
    let found = of_redo(&innodb("check", &data));
    let damaged: Vec<&Value> = found.iter().filter(|one| one["kind"] == "innodb_redo_damaged").collect();
    // The file begins with LSN 37330944 after 2048 bytes, and the block with byte 100000 is that of bytes 99840 to 100352. A server
    // counts the twelve bytes of its header to the LSN.
    assert_eq!((&damaged[0]["file"], &damaged[0]["offset"]), (&"#ib_redo80".into(), &"0x1860C".into()), "{found:?}");
    assert_eq!(damaged[0]["what"], "the redo log is damaged after LSN 37428748, and goes on after that");
    let text = dwbinspect(&["innodb", "check", arg(&data)]).stdout;
    assert!(text.contains("the redo log is damaged after LSN 37428748"), "{text}");
}

/// MySQL 9.7.4 writes checkpoints into the file that has their LSN: those of other files are old ones, and no crash of it left anything
/// in doubt where they were few.
#[test]
fn checkpoint_is_certain_where_no_block_is_lost_that_a_newer_one_can_be_in() {
    let (_kept, data) = copy_of("mysql97");
    let file = |number: u32| data.join(format!("#innodb_redo/#ib_redo{number}"));
    let is_certain = || {
        let findings = innodb("check", &data).of_type("finding");
        let kinds = ["innodb_checkpoint_uncertain", "innodb_no_checkpoint"];
        !findings.iter().any(|finding| kinds.iter().any(|kind| finding["kind"] == *kind))
    };
    for number in (64..88).filter(|number| file(*number).exists()) {
        // The checkpoint is in `#ib_redo76`.
        if number < 76 {
            write_at(&file(number), &[0x5A; 512], 512);
            write_at(&file(number), &[0x5A; 512], 1536);
        }
    }
    assert!(is_certain(), "old ones alone are lost");
    for (number, at) in [(76, 512), (76, 1536), (77, 512), (88, 1536)] {
        let kept = fs::read(file(number)).unwrap();
        for lost in [0, 0x5A] {
            write_at(&file(number), &[lost; 512], at);
            assert!(!is_certain(), "{number} {at}");
        }
        fs::write(file(number), kept).unwrap();
    }
    assert!(is_certain());
}

/// MySQL 5.6.24 has two files or more, and did not start with one: the log of this directory was in the first alone.
#[test]
fn second_file_of_an_older_log_is_missed_wherever_the_log_ends() {
    let (_kept, data) = copy_of("mysql56");
    let first = data.join("ib_logfile0");
    let at = 2_000_000_u64.next_multiple_of(512);
    Damage::Zeros(at, 4_194_304 - at as usize).apply(&first);
    fs::remove_file(data.join("ib_logfile1")).unwrap();
    assert!(of_redo(&innodb("check", &data)).iter().any(|finding| finding["kind"] == "innodb_redo_missing"));
    assert_eq!(start_of(&data), "unknown");
}

/// Changes a block of a redo log, and signs it.
fn sign_block(path: &Path, at: usize, change: &dyn Fn(&mut [u8])) {
    let mut block = fs::read(path).unwrap()[at..at + 512].to_vec();
    change(&mut block);
    let sum = crc32c(&block[..508]);
    block[508..].copy_from_slice(&sum.to_be_bytes());
    write_at(path, &block, at as u64);
}

/// Puts a mini-transaction where the last block of a log ends, `written` bytes into it. It is the first of the block then.
fn append_to_block(path: &Path, at: usize, written: usize, records: &[u8]) {
    sign_block(path, at, &|block| {
        let end = written + records.len();
        block[written..end].copy_from_slice(records);
        block[4..6].copy_from_slice(&u16::try_from(end).unwrap().to_be_bytes());
        block[6..8].copy_from_slice(&u16::try_from(written).unwrap().to_be_bytes());
    });
}

/// Puts a mini-transaction at the end of the redo log of `mysql97`.
pub fn append_to_log(data: &Path, records: &[u8]) {
    append_to_block(&data.join("#innodb_redo/#ib_redo88"), 95_744, 79, records);
}

/// The same for `mysql56`.
pub fn append_to_old_log(data: &Path, records: &[u8]) {
    append_to_block(&data.join("ib_logfile1"), 846_336, 317, records);
}

/// Where the redo log of `mariadb1011` ends, and the bit of its last turn.
fn end_of_mariadb_log(log: &[u8]) -> (usize, u8) {
    let (mut at, mut turn) = (2_868_644, None);
    while let Mtr::Whole { record_bytes, sequence_bit } = Mtr::read(&log[at..]) {
        if *turn.get_or_insert(sequence_bit) != sequence_bit {
            break;
        }
        at += record_bytes + MTR_TRAILER_BYTES;
    }
    (at, turn.unwrap())
}

/// Puts a mini-transaction at the end of the redo log of `mariadb1011`.
pub fn append_to_mariadb_log(data: &Path, records: &[u8]) {
    let path = data.join("ib_logfile0");
    let (at, turn) = end_of_mariadb_log(&fs::read(&path).unwrap());
    let sum = crc32c(records).to_be_bytes();
    write_at(&path, &[records, &[turn], &sum, &[0]].concat(), at as u64);
}

/// MariaDB 10.11.19, killed under load, left after its last record no byte of zero but what its buffer had held: the bytes that the log has two
/// writes of 4096 bytes before, up to the end of the write. After them the file had zeros.
#[test]
fn what_the_buffer_of_the_server_held_before_is_no_damage() {
    let (_kept, data) = copy_of("mariadb1011");
    forget_what_is_lost(&data);
    let path = data.join("ib_logfile0");
    let mut log = fs::read(&path).unwrap();
    let (end, _) = end_of_mariadb_log(&log);
    let next = end.next_multiple_of(4096);
    let is_left = |distance: &usize| Mtr::read(&log[end - distance..next - distance]) == Mtr::Broken;
    let distance = (8192..).step_by(4096).find(is_left).unwrap();
    log.copy_within(end - distance..next - distance, end);
    for after in [log[next..].to_vec(), vec![0; log.len() - next]] {
        log[next..].copy_from_slice(&after);
        fs::write(&path, &log).unwrap();
        let ran = innodb("check", &data);
        assert!(of_redo(&ran).is_empty(), "{}", ran.stdout);
        assert_eq!(start_of(&data), "nothing_against");
        // Bytes that no earlier write had may have been a record.
        for at in [end, end + 20] {
            log[at] ^= 0x42;
            fs::write(&path, &log).unwrap();
            assert_eq!(of_redo(&innodb("check", &data)).len(), 1, "{at}");
            assert_eq!(start_of(&data), "unknown", "{at}");
            log[at] ^= 0x42;
        }
    }
}

/// MySQL 9.7.4 left torn page 101 of `shop/archive` (tablespace 4), which its redo log did not change, and restored it where a record of the
/// tablespace had been put into the log.
#[test]
fn pages_are_restored_where_the_redo_log_changes_their_tablespace() {
    let (_kept, data) = copy_of("mysql97");
    let on_start = || {
        let pages = innodb("check", &data).of_type("page");
        let page = pages.into_iter().find(|page| page["space_id"] == 4 && page["page_no"] == 101).unwrap();
        (page["on_start"].clone(), page["on_start_certainty"].clone())
    };
    assert_eq!(on_start(), ("kept".into(), "likely".into()));
    // A counter is written, a file is made: no page is changed.
    append_to_log(&data, &[0x80 | 62, 4, 7, 1]);
    assert_eq!(on_start(), ("kept".into(), "likely".into()));
    append_to_log(&data, &[0x80 | 33, 4, 0, 1]);
    assert_eq!(on_start(), ("kept".into(), "likely".into()));
    // One byte of page 7, at offset 1000, of tablespaces 5 and 4.
    append_to_log(&data, &[0x80 | 1, 5, 7, 3, 0xE8, 1]);
    assert_eq!(on_start(), ("kept".into(), "likely".into()));
    append_to_log(&data, &[0x80 | 1, 4, 7, 3, 0xE8, 1]);
    assert_eq!(on_start(), ("restored".into(), "by_rule".into()));
    // In a block that is said to be encrypted the same bytes are no record.
    sign_block(&data.join("#innodb_redo/#ib_redo88"), 95_744, &|block| block[4] |= 0x80);
    assert_eq!(on_start(), ("kept".into(), "likely".into()));
}

/// MariaDB 10.11.19 did not open `shop/orders` (tablespace 1, 704 pages) with a damaged page 0, and restored it where its redo log had been made
/// to write the size of the tablespace.
#[test]
fn page_0_is_restored_by_mariadb_where_the_redo_log_has_the_size() {
    let (_kept, data) = copy_of("mariadb1011");
    write_at(&data.join("shop/orders.ibd"), &noise(64), 8192);
    let on_start = || {
        let page = innodb("check", &data).of_type("page").into_iter().find(|page| page["page_no"] == 0).unwrap();
        assert_eq!((&page["space_id"], &page["on_start_certainty"]), (&1.into(), &"likely".into()));
        page["on_start"].clone()
    };
    assert_eq!(on_start(), "kept");
    // Pages that are in use, at byte 50 of page 0.
    append_to_mariadb_log(&data, &[0x37, 1, 0, 50, 0, 0, 2, 0xC0]);
    assert_eq!(on_start(), "kept");
    append_to_mariadb_log(&data, &[0x37, 1, 0, 46, 0, 0, 2, 0xC0]);
    assert_eq!(on_start(), "restored");
}
