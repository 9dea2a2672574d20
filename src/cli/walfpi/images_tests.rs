use std::path::Path;

use clap::Parser;

use super::*;
use crate::cli::walfpi::source::SourceArgs;

#[derive(Parser)]
struct Filter {
    #[command(flatten)]
    filter: ImageFilter,
}

/// Rows of all images and how many records there were; `threads`: 0 reads in order.
fn rows(archive: &Path, threads: u16) -> (Vec<Row>, u64) {
    let mut source = WalSource::open(&SourceArgs::of_paths(vec![archive.to_owned()])).unwrap();
    let (plan, filter, mut rows) = (source.plan(), Filter::parse_from([""]).filter, Vec::new());
    let mut add = |found: &FoundImage<'_>| {
        rows.push(image_row(found, &Names::default()));
        Ok::<(), ()>(())
    };
    if threads == 0 {
        each_image(&mut source, &plan, &filter, JobsArg::of(1), |_, found| add(found)).unwrap();
    } else {
        each_image_head(&mut source, &plan, &filter, JobsArg::of(threads), add).unwrap();
    }
    (rows, source.coverage.examined)
}

#[test]
fn segments_with_too_many_images_are_read_again() {
    for major in [10, 13, 16, 18] {
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/wal/pg{major}.tar.zst"));
        let in_order = rows(&archive, 0);
        assert!(in_order.0.len() > 5 * MAX_HEADS && in_order.1 > 1000, "{major}: {}", in_order.0.len());
        for threads in [1, 3] {
            assert_eq!(rows(&archive, threads), in_order, "{major} {threads}");
        }
    }
}

#[test]
fn error_of_the_visitor_ends_the_walk() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wal/pg16.tar.zst");
    for limit in [1, 3, 40] {
        let mut source = WalSource::open(&SourceArgs::of_paths(vec![archive.clone()])).unwrap();
        let (plan, filter, mut seen) = (source.plan(), Filter::parse_from([""]).filter, 0);
        let ended = each_image_head(&mut source, &plan, &filter, JobsArg::of(2), |_| {
            seen += 1;
            if seen < limit { Ok(()) } else { Err("enough") }
        });
        assert_eq!((ended, seen), (Err("enough"), limit));
    }
}
