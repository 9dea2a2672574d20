//! Images of real servers, compressed again: what another setting of `wal_compression` would have stored.

#[path = "common/wal.rs"]
mod common;

use common::{Fixture, read_all};
use pgforensics::parsers::image::{Compression, ImageDecoder};
use pgforensics::parsers::pglz_compress::PglzCompressor;

/// Every image that a server compressed with pglz, of ten majors, comes out with the same bytes. How many there are is what
/// pg_waldump says in `expected/records.txt`.
#[test]
fn pglz_images_of_all_majors_come_out_byte_for_byte() {
    let (mut decoder, mut compressor) = (ImageDecoder::new(), PglzCompressor::new());
    let (mut page, mut output) = (vec![0; 8192], Vec::new());
    for major in 10..=19 {
        let fixture = Fixture::load(major);
        let mut images = 0;
        read_all(&fixture, 1 << 20, |record| {
            for image in record.blocks().filter_map(|block| block.image) {
                if image.compression() != Some(Compression::Pglz) {
                    continue;
                }
                decoder.restore(&image, &mut page).unwrap();
                let hole = usize::from(image.hole_offset);
                let raw = [&page[..hole], &page[hole + usize::from(image.hole_length)..]].concat();
                assert!(compressor.compress(&raw, &mut output), "{major} {}", record.start_lsn);
                assert_eq!(output, image.bytes, "{major} {}", record.start_lsn);
                images += 1;
            }
        });
        let said = fixture.expected("records.txt");
        // Up to 14 there is one method, which has no name.
        let mark = if major < 15 { "compression saved: " } else { "method: pglz" };
        assert_eq!(images, said.matches(mark).count(), "{major}");
        assert!(images >= 40, "{major}");
    }
}
