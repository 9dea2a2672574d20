//! Any bytes as a data directory of MySQL or MariaDB: system tablespace, doublewrite buffer, redo log and option file. What a page or a
//! slot says leads nowhere outside the input, threads change nothing, and without checkpoint or images nothing is promised.
#![no_main]

use std::fs::OpenOptions;
use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use pgforensics::inspect::innodb::HeldImage;
use pgforensics::inspect::innodb::check::{InnodbExamination, innodb_check};
use pgforensics::inspect::innodb::source::InnodbRequest;
use pgforensics::parsers::innodb::compressed::{
    FullCrc32Size, mariadb_length, unpack_full_crc32, unpack_mariadb, unpack_mysql,
};
use pgforensics::parsers::innodb::layout::SpaceFlags;
use pgforensics::parsers::innodb::DirectorySettings;
use pgforensics::parsers::innodb::page_check::PageState;
use pgforensics::parsers::innodb::redo::{RedoFormat, RedoHeader, checkpoints, latest};

const PAGE_BYTES: usize = 4096;

/// A single file of the doublewrite buffer has more than 512 slots; those after the input are holes.
const BUFFER_SLOTS: u64 = 516;

fuzz_target!(|data: &[u8]| {
    let [system, buffer, redo, cnf] = pgforensics_fuzz::parts(data);
    let stored = SpaceFlags::of_page_0(system).filter(SpaceFlags::is_possible);
    for flags in [SpaceFlags::plain(PAGE_BYTES), SpaceFlags::full_crc32(PAGE_BYTES)].into_iter().chain(stored) {
        for page in system.chunks_exact(flags.physical_bytes()).chain(buffer.chunks_exact(flags.physical_bytes())) {
            read_page(page, &flags);
        }
    }
    if let Some(header) = RedoHeader::decode(redo) {
        for format in [RedoFormat::of_word(header.format), RedoFormat::Directory] {
            let found = checkpoints(format, redo);
            assert!(found.iter().all(|one| one.offset < redo.len() as u64), "inside");
            let newest = latest(&found);
            assert!(newest.is_none_or(|newest| newest.is_valid && found.contains(&newest)));
            assert!(newest.is_some() || found.iter().all(|one| !one.is_valid));
        }
    }
    let text = String::from_utf8_lossy(cnf);
    let settings = DirectorySettings::parse(&text);
    assert!(!DirectorySettings::parse(&format!("{text}\n[mysqld]\ninnodb_doublewrite=1\n")).is_doublewrite_off);
    let off = DirectorySettings::parse(&format!("{text}\n[mysqld]\nskip_innodb_doublewrite\n!include x\n"));
    assert!(off.is_doublewrite_off && off.has_includes && off.undo == settings.undo);

    let _ = (pgforensics_fuzz::file("ibdata1", system), pgforensics_fuzz::file("ib_logfile0", redo));
    write_buffer(buffer);
    let Some(whole) = check(1) else { return };
    let Some(again) = check(3) else { panic!("it could be examined a moment ago") };
    assert_eq!(what(&whole), what(&again), "threads");
    for page in &whole.pages {
        assert!(page.offset < system.len() as u64, "inside");
        if let Some(chosen) = page.first() {
            assert!(chosen.facts.state.is_sound());
        }
    }
    write_buffer(&vec![0; buffer.len()]);
    let emptied = check(1).expect("as before");
    assert_eq!(emptied.scan.counts.damaged, whole.scan.counts.damaged);
    for page in &emptied.pages {
        assert!(matches!(page.held, HeldImage::Unknown | HeldImage::Missing), "without images: {page:?}");
    }
    write_buffer(buffer);
    let _ = pgforensics_fuzz::file("ib_logfile0", &[]);
    let without_log = check(1).expect("as before");
    assert_eq!(without_log.is_shut_down(), None, "without a checkpoint");
});

fn read_page(page: &[u8], flags: &SpaceFlags) {
    assert_eq!(PageState::of(page, flags), PageState::of(&page.to_vec(), flags));
    assert!(mariadb_length(page).is_none_or(|length| length <= page.len()));
    if let FullCrc32Size::Compressed(length) = FullCrc32Size::of(page) {
        assert!(length < page.len());
        assert!(unpack_full_crc32(page, length).map_or(true, |plain| plain.len() == page.len()));
    }
    for plain in [unpack_mysql(page), unpack_mariadb(page)].into_iter().flatten() {
        assert_eq!(plain.len(), page.len());
    }
    // A page of one version that is whole is not whole with another byte in the middle, whatever the checksum, but for none.
    if let PageState::Sound(algorithm) = PageState::of(page, flags)
        && ["crc32", "full_crc32"].contains(&algorithm.name())
        && !matches!(FullCrc32Size::of(page), FullCrc32Size::Compressed(_))
    {
        let mut other = page.to_vec();
        other[page.len() / 2] ^= 1;
        assert!(PageState::of(&other, flags).is_damaged(), "{algorithm:?}");
    }
}

fn write_buffer(bytes: &[u8]) {
    let path = pgforensics_fuzz::file(&format!("#ib_{PAGE_BYTES}_0.dblwr"), bytes);
    let file = OpenOptions::new().write(true).open(path).expect("a file");
    file.set_len(BUFFER_SLOTS * PAGE_BYTES as u64).expect("a longer file");
}

fn check(jobs: usize) -> Option<InnodbExamination> {
    let request = InnodbRequest { jobs, ..InnodbRequest::of(pgforensics_fuzz::directory()) };
    innodb_check(&request, true, &|_, _| ControlFlow::Continue(())).ok()
}

/// All that is said.
fn what(examined: &InnodbExamination) -> String {
    let InnodbExamination { pages, whole, end, findings, coverage, .. } = examined;
    format!("{pages:?} {whole:?} {end:?} {findings:?} {coverage:?} {:?}", examined.content.slots)
}
