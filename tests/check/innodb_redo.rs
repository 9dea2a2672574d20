//! Checkpoint and end of the redo log.
//!
//! Where the log of each directory begins and ends is worked out by hand from its headers: MySQL 9.7.4 has its checkpoint, LSN
//! 36542638, in `#ib_redo76`, whose header says 36290560, and the last block, which is 79 bytes long, at 39505408 in `#ib_redo88`; MySQL
//! 5.6.24 says itself that LSN 17494825 is at byte 719145 of its two files laid end to end; MariaDB 10.11.19 writes the LSN 12288 at byte
//! 12288 of its file, and so 19596708 at byte 2868644, after four turns over the 4182016 bytes that are not header.

use std::fs;

use pgforensics::parsers::crc::crc32c;
use serde_json::Value;

use crate::common::Ran;
use crate::innodb_variants::{copy_of, innodb, write_at};

/// Findings about the redo log.
fn of_redo(ran: &Ran) -> Vec<Value> {
    let is_it = |finding: &Value| finding["kind"].as_str().is_some_and(|kind| kind.starts_with("innodb_redo_"));
    ran.of_type("finding").into_iter().filter(is_it).collect()
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
    write_at(&first, &vec![0; 4_194_304 - at as usize], at);
    fs::remove_file(data.join("ib_logfile1")).unwrap();
    assert!(of_redo(&innodb("check", &data)).iter().any(|finding| finding["kind"] == "innodb_redo_missing"));
}

/// All three servers were killed under load.
#[test]
fn end_of_the_log_follows_the_checkpoint_after_a_crash() {
    for (case, checkpoint, end) in
        [("mysql97", "36542638", Some("39505487")), ("mysql56", "17494825", None), ("mariadb1011", "19596708", None)]
    {
        let (_kept, data) = copy_of(case);
        let ran = innodb("check", &data);
        let summary = ran.of_type("summary").remove(0);
        assert_eq!((&summary["checkpoint_lsn"], &summary["shut_down_cleanly"]), (&checkpoint.into(), &false.into()));
        let number = |value: &Value| value.as_str().expect("an LSN").parse::<u64>().expect("a number");
        assert!(number(&summary["end_lsn"]) > number(&summary["checkpoint_lsn"]), "{case}: {summary}");
        assert!(end.is_none_or(|end| summary["end_lsn"] == end), "{case}: {summary}");
        assert!(ran.of_type("finding").iter().any(|one| one["kind"] == "innodb_not_shut_down"), "{case}");
    }
}

/// The checkpoint, and the log before it, do not show that nothing is missing: pages that are newer do.
#[test]
fn log_that_ends_before_the_pages_is_a_problem() {
    let (_kept, data) = copy_of("mysql97");
    write_at(&data.join("#innodb_redo/#ib_redo80"), &[0x5A; 16], 100_000);
    let ran = innodb("check", &data);
    assert!(of_redo(&ran).iter().any(|one| one["kind"] == "innodb_redo_behind"), "{}", ran.stdout);
    assert_eq!(ran.status, 1);
}

/// `mariabackup --prepare` leaves a log of 12304 bytes: header, checkpoint blocks and the record of the checkpoint.
///
/// Source: `xtrabackup_prepare_func`, `extra/mariabackup/xtrabackup.cc` of MariaDB.
#[test]
fn log_of_a_prepared_backup_is_clean() {
    let (_kept, data) = copy_of("mariadb1011");
    let path = data.join("ib_logfile0");
    let mut log = fs::read(&path).unwrap()[..12304].to_vec();
    // Newer than every page.
    let lsn = 1_000_000_000_u64.to_be_bytes();
    log[8..16].copy_from_slice(&lsn);
    let sum = crc32c(&log[..508]).to_be_bytes();
    log[508..512].copy_from_slice(&sum);
    for at in [4096, 8192] {
        log[at..at + 8].copy_from_slice(&lsn);
        log[at + 8..at + 16].copy_from_slice(&lsn);
        let sum = crc32c(&log[at..at + 60]).to_be_bytes();
        log[at + 60..at + 64].copy_from_slice(&sum);
    }
    log[12288..12291].copy_from_slice(&[0xFA, 0, 0]);
    log[12291..12299].copy_from_slice(&lsn);
    log[12299] = 1;
    let sum = crc32c(&log[12288..12299]).to_be_bytes();
    log[12300..12304].copy_from_slice(&sum);
    fs::write(&path, log).unwrap();
    let ran = innodb("check", &data);
    let summary = ran.of_type("summary").remove(0);
    assert_eq!((&summary["end_lsn"], &summary["shut_down_cleanly"]), (&"1000000016".into(), &true.into()));
    let kinds: Vec<Value> = ran.of_type("finding").into_iter().map(|one| one["kind"].clone()).collect();
    assert!(!kinds.contains(&"innodb_not_shut_down".into()) && of_redo(&ran).is_empty(), "{kinds:?}");
}
