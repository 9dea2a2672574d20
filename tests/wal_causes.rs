//! Why images were written: against WAL whose answer is known.

#[path = "common/wal.rs"]
mod wal;

use std::collections::BTreeMap;

use pgforensics::analysis::wal::forced::{always_images, never_forced};
use pgforensics::parsers::image::ImageDecoder;
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::wal::names::rmgr_name;
use pgforensics::parsers::wal::payload::XlogPayload;
use pgforensics::types::Lsn;
use wal::{Fixture, read_all};

#[test]
fn images_are_forced_by_the_type_of_the_record_alone() {
    let mut forced: BTreeMap<String, usize> = BTreeMap::new();
    for number in 10..=19 {
        let fixture = Fixture::load(number);
        let mut redo_points = Vec::new();
        read_all(&fixture, 1 << 20, |record| {
            if let Ok(Some(XlogPayload::CheckpointShutdown(point) | XlogPayload::CheckpointOnline(point))) =
                XlogPayload::of(record)
            {
                redo_points.push(point.redo_lsn);
            }
        });
        let (mut decoder, mut page) = (ImageDecoder::new(), vec![0; 8192]);
        let mut ordinary = 0;
        read_all(&fixture, 1 << 20, |record| {
            let redo = redo_points.iter().filter(|redo| **redo <= record.start_lsn).max();
            for block in record.blocks() {
                let (id, info) = (record.header.rmgr_id, record.header.info);
                let name = format!("{}/{}", rmgr_name(id), record.type_name());
                let image = block.image.filter(|image| image.applies());
                let is_forced = always_images(record.major, id, info, block.block_id);
                assert!(!is_forced || image.is_some(), "{number} {name} at {}", record.start_lsn);
                *forced.entry(name.clone()).or_default() += usize::from(is_forced);
                let (Some(image), Some(redo)) = (image, redo) else { continue };
                decoder.restore(&image, &mut page).unwrap();
                let old = PageHeader::decode(0, &page).unwrap().lsn;
                if never_forced(record.major, id, info, block.block_id) {
                    assert!(!is_forced && old <= *redo, "{number} {name} at {}: {old}", record.start_lsn);
                    ordinary += usize::from(old > Lsn(0));
                } else if old > *redo {
                    assert!(is_forced || name == "Generic/Generic", "{number} {name} at {}", record.start_lsn);
                }
            }
        });
        assert!(ordinary > 50, "{number}: {ordinary}");
    }
    forced.retain(|_, count| *count > 0);
    let names: Vec<&str> = forced.keys().map(String::as_str).collect();
    // No page of GIN is split here; on a live server one is.
    assert_eq!(names, ["Gin/VACUUM_PAGE", "Hash/SPLIT_PAGE", "XLOG/FPI"], "{forced:?}");
}
