use std::path::Path;

use super::*;
use crate::inspect::wal::archives;
use crate::inspect::wal::request::{WalRequest, unwatched};

/// Words of all images and how many records there were; `threads`: 0 reads in order.
fn images(archive: &Path, threads: usize) -> (Vec<String>, u64) {
    let mut source = WalSource::open(&WalRequest::of_paths(vec![archive.to_owned()])).unwrap();
    let (selection, mut found) = (ImageSelection::default(), Vec::new());
    let mut add = |image: &FoundImage<'_>| {
        let header = BlockImage { bytes: &[], ..*image.image };
        let block = (image.block.block_id, image.block.rel, image.block.fork_code(), image.block.block);
        let record = (image.record.start_lsn, image.record.end_lsn, image.record.tli, image.record.header);
        found.push(format!("{record:?} {block:?} {header:?} {} {:?}", image.stored_bytes, image.cause));
        Ok::<(), ()>(())
    };
    if threads == 0 {
        source.each_image(&selection, 1, &unwatched, |_, image| add(image)).unwrap();
    } else {
        source.each_image_head(&selection, threads, &unwatched, add).unwrap();
    }
    (found, source.coverage.examined)
}

#[test]
fn segments_with_too_many_images_are_read_again() {
    for (major, archive) in archives(&[10, 13, 16, 18]) {
        let in_order = images(&archive, 0);
        assert!(in_order.0.len() > 5 * MAX_HEADS && in_order.1 > 1000, "{major}: {}", in_order.0.len());
        for threads in [1, 3] {
            assert_eq!(images(&archive, threads), in_order, "{major} {threads}");
        }
    }
}

#[test]
fn error_of_the_visitor_ends_the_walk() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wal/pg16.tar.zst");
    for limit in [1, 3, 40] {
        let mut source = WalSource::open(&WalRequest::of_paths(vec![archive.clone()])).unwrap();
        let mut seen = 0;
        let ended = source.each_image_head(&ImageSelection::default(), 2, &unwatched, |_| {
            seen += 1;
            if seen < limit { Ok(()) } else { Err("enough") }
        });
        assert_eq!((ended, seen), (Err("enough"), limit));
    }
}
