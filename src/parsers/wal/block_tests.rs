use proptest::prelude::*;

use super::*;
use crate::parsers::crc::crc32c;
use crate::parsers::image::ImageDecoder;
use crate::parsers::wal::tests::{VECTORS, bytes_of};

fn body_of(name: &str) -> (Major, Vec<u8>) {
    let vector = VECTORS.iter().find(|vector| vector.name == name).unwrap();
    (vector.major, bytes_of(vector.hex)[24..].to_vec())
}

fn decode(major: Major, body: &[u8]) -> Result<BodyLayout, String> {
    BodyLayout::decode(Lsn(0x1000), major, 8192, body).map_err(|error| error.to_string())
}

/// A reference to block 7 of 1663/5/16384 without image and data.
fn plain_block(id: u8) -> Vec<u8> {
    let mut bytes = vec![id, 0x00, 0, 0];
    for number in [1663_u32, 5, 16384, 7] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn images_of_real_records_restore_to_the_known_pages() {
    let mut decoder = ImageDecoder::new();
    for vector in VECTORS {
        let bytes = bytes_of(vector.hex);
        let layout = BodyLayout::decode(vector.lsn, vector.major, 8192, &bytes[24..]).unwrap();
        let images: Vec<_> = layout.blocks(vector.major, 8192, &bytes[24..]).filter_map(|block| block.image).collect();
        assert_eq!(images.len(), usize::from(vector.page_crc.is_some()), "{}", vector.name);
        assert_eq!(images.len(), usize::from(layout.image_count));
        for image in images {
            assert_eq!(layout.fpi_length as usize, image.bytes.len());
            let mut page = [0xEE; 8192];
            decoder.restore(&image, &mut page).unwrap();
            assert_eq!(Some(crc32c(&page)), vector.page_crc, "{}", vector.name);
            assert!(image.applies());
        }
    }
}

#[test]
fn fields_of_a_real_reference() {
    let (major, body) = body_of("FPI with hole");
    let layout = decode(major, &body).unwrap();
    let blocks: Vec<_> = layout.blocks(major, 8192, &body).collect();
    let [block] = blocks[..] else { panic!("{blocks:?}") };
    assert_eq!((block.block_id, block.block, block.data), (0, 0, &[][..]));
    assert_eq!(block.rel, RelFileLocator { spc_oid: 1663, db_oid: 1, rel_number: 6117 });
    assert_eq!((block.fork(), block.will_init()), (Some(ForkNumber::Main), false));
    let image = block.image.unwrap();
    assert_eq!((image.bytes.len(), image.hole_offset, image.hole_length, image.bimg_info), (88, 72, 8104, 0x03));
    assert_eq!(layout.main_data(&body), &[] as &[u8]);
}

#[test]
fn the_same_bytes_under_the_wrong_layout_are_refused() {
    let (_, body) = body_of("FPI with hole, old flags");
    // 0x05 means "hole, apply" up to 14, and "hole, pglz" from 15 on: there two bytes more belong to the header.
    assert!(decode(Major::V14, &body).is_ok());
    assert!(decode(Major::V15, &body).is_err());
}

#[test]
fn main_data_and_ids_in_any_legal_form() {
    let (major, body) = body_of("NEXTOID");
    let layout = decode(major, &body).unwrap();
    assert_eq!(layout.main_data(&body), 0x4710_u32.to_le_bytes());
    let body = joined(&[&plain_block(3), &plain_block(32), &[253, 1, 2, 252, 1, 2, 3, 4, 254, 2, 0, 0, 0, 9, 9]]);
    let layout = decode(Major::V14, &body).unwrap();
    assert_eq!((layout.block_count, layout.origin, layout.top_xid), (2, Some(0x0201), Some(0x0403_0201)));
    assert_eq!(layout.main_data(&body), [9, 9]);
    assert_eq!(layout.blocks(Major::V14, 8192, &body).map(|block| block.block_id).collect::<Vec<_>>(), [3, 32]);
    let body =
        joined(&[&[253, 1, 2, 252, 1, 2, 3, 4], &plain_block(0), &[252, 1, 2, 3, 4, 253, 1, 2], &plain_block(5)]);
    let layout = decode(Major::V14, &body).unwrap();
    assert_eq!(layout.blocks(Major::V14, 8192, &body).map(|block| block.block_id).collect::<Vec<_>>(), [0, 5]);
    assert!(decode(Major::V13, &body).unwrap_err().contains("no fragment has this id"));
    assert_eq!(decode(Major::V14, &[]), Ok(BodyLayout::default()));
}

#[test]
fn only_main_data_may_be_cut() {
    let image = [&[0, 0x30, 3, 0, 100, 0, 40, 0, 0x03][..], &plain_block(0)[4..]].concat();
    let headers = joined(&[&image, &[254, 0xE8, 3, 0, 0]]);
    let body = joined(&[&headers, &[1; 100], &[2; 3], &[3; 1000]]);
    let before = headers.len() + 103;
    let cut_at = |at: usize, beyond: usize| {
        BodyLayout::decode_cut(Lsn(0x1000), Major::V18, 8192, &body[..at], (beyond as u64, Keep::Blocks))
            .map_err(|error| error.to_string())
    };
    let whole = decode(Major::V18, &body).unwrap();
    for at in before..=body.len() {
        let kept = &body[..at];
        assert_eq!(cut_at(at, body.len() - at), Ok(whole));
        assert_eq!(whole.main_data(kept), &body[before..at]);
        let blocks: Vec<_> = whole.blocks(Major::V18, 8192, kept).collect();
        let [block] = blocks[..] else { panic!("{blocks:?}") };
        assert_eq!((block.image.unwrap().bytes, block.data), (&[1; 100][..], &[2; 3][..]));
        assert!(cut_at(at, body.len() - at + 1).unwrap_err().contains("fragments fill the rest"));
    }
    for at in 0..before {
        assert!(cut_at(at, body.len() - at).unwrap_err().contains("all but main data"), "{at}");
    }
}

#[test]
fn same_relation_is_that_of_the_reference_before() {
    let same = [1, 0x80, 0, 0, 9, 0, 0, 0];
    let body = joined(&[&plain_block(0), &same]);
    let blocks: Vec<_> = decode(Major::V18, &body).unwrap().blocks(Major::V18, 8192, &body).collect();
    assert_eq!((blocks[1].rel, blocks[1].block), (blocks[0].rel, 9));
    assert!(decode(Major::V18, &same).unwrap_err().contains("there is no relation before"));
}

#[test]
fn broken_rules_are_located() {
    let image = |length: u16, offset: u16, info: u8| {
        let mut bytes = vec![0, 0x10, 0, 0];
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.push(info);
        bytes.extend_from_slice(&plain_block(0)[4..]);
        bytes.extend(std::iter::repeat_n(0, usize::from(length)));
        bytes
    };
    let cases = [
        (joined(&[&plain_block(2), &plain_block(2)]), "id at offset 0x102C: found 0x2, ids of blocks ascend"),
        (joined(&[&plain_block(2), &plain_block(1)]), "id at offset 0x102C: found 0x1, ids of blocks ascend"),
        (vec![33, 0, 0], "id at offset 0x1018: found 0x21, no fragment has this id"),
        (joined(&[&[0, 0x20], &plain_block(0)[2..]]), "data_length at offset 0x101A: found 0x0, not 0 exactly"),
        (joined(&[&[0, 0x00, 1], &plain_block(0)[3..], &[1]]), "data_length at offset 0x101A: found 0x1, not 0"),
        (vec![255, 3, 1, 2], "length at offset 0x101A: found 0x3, fragments fill"),
        (vec![255, 1, 1, 2], "length at offset 0x101A: found 0x1, fragments fill"),
        (vec![254, 0xFF, 0xFF, 0xFF, 0xFF, 0], "length at offset 0x101D: found 0xFFFFFFFF, fragments fill"),
        (vec![255], "main data length at offset 0x1019: input ends"),
        (vec![0, 0, 0], "data_length at offset 0x101A: input ends"),
        (image(8193, 0, 0x02), "length at offset 0x101C: found 0x2001, more than a page"),
        (image(8192, 0, 0x06), "length at offset 0x101C: found 0x2000, a compressed image is shorter"),
        (image(8192, 40, 0x03), "hole_offset at offset 0x101C: found 0x28, image is marked as having a hole"),
        (image(100, 0, 0x03), "hole_offset at offset 0x101C: found 0x0, image is marked as having a hole"),
        (image(100, 40, 0x06), "hole_offset at offset 0x101C: found 0x28, 0 in an image without hole"),
        (image(100, 101, 0x03), "hole_offset at offset 0x101C: found 0x65, the hole ends inside the page"),
        (image(8000, 9000, 0x03), "hole_offset at offset 0x101C: found 0x2328, the hole ends inside the page"),
        (image(100, 0, 0x02), "length at offset 0x101C: found 0x64, a whole page"),
    ];
    for (body, words) in cases {
        let error = decode(Major::V18, &body).unwrap_err();
        assert!(error.contains(words), "{error}, expected {words}");
    }
}

#[test]
fn every_truncation_of_a_real_body_is_refused() {
    for vector in VECTORS.iter().filter(|vector| vector.name != "SWITCH") {
        let bytes = bytes_of(vector.hex);
        for cut in 25..bytes.len() {
            let error = BodyLayout::decode(Lsn(0x1000), vector.major, 8192, &bytes[24..cut]).unwrap_err();
            assert!((0x1018..=0x1000 + cut as u64).contains(&error.offset), "{error}");
        }
    }
}

proptest! {
    #[test]
    fn any_body_decodes_or_fails_inside_itself(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400), first in 0_u8..=3,
        flags in any::<u8>(), major in prop::sample::select(Major::ALL.to_vec()),
    ) {
        // Small ids and lengths, or nearly all bodies fail at their first byte.
        for (at, value) in [(0, first), (1, flags & 0xB0), (2, 40 * u8::from(flags & 0x20 != 0)), (3, 0)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        match BodyLayout::decode(Lsn(0), major, 8192, &bytes) {
            Err(error) => prop_assert!(error.offset <= bytes.len() as u64 + 24),
            Ok(layout) => {
                let blocks: Vec<_> = layout.blocks(major, 8192, &bytes).collect();
                prop_assert_eq!(blocks.len(), usize::from(layout.block_count));
                let images: usize = blocks.iter().filter_map(|block| block.image).map(|image| image.bytes.len()).sum();
                prop_assert_eq!(images, layout.fpi_length as usize);
            }
        }
    }
}
