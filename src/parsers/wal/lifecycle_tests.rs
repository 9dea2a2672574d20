use proptest::prelude::*;

use super::*;

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn decode(major: Major, rmgr_id: u8, info: u8, numbers: &[u32]) -> Option<LifeCycle> {
    LifeCycle::decode(major, rmgr_id, info, 0, &words(numbers)).unwrap()
}

const REL: RelFileLocator = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16384 };

#[test]
fn storage_records() {
    assert_eq!(decode(Major::V10, 2, 0x10, &[1663, 5, 16384, 3]), Some(LifeCycle::Created { rel: REL, fork_code: 3 }));
    assert_eq!(
        decode(Major::V19, 2, 0x21, &[42, 1663, 5, 16384, 7]),
        Some(LifeCycle::Truncated { rel: REL, keeps_blocks: 42, flags: 7 })
    );
    assert!(LifeCycle::decode(Major::V19, 2, 0x20, 0, &words(&[42, 1663, 5, 16384])).is_err());
}

#[test]
fn dropped_relations_follow_what_comes_before_them() {
    let other = RelFileLocator { rel_number: 16390, ..REL };
    let rels = [2, 1663, 5, 16384, 1663, 5, 16390];
    let dropped = |committed| Some(LifeCycle::Dropped { committed, time: PgTimestamp(11), rels: vec![REL, other] });
    let only = [&[11, 0, 0x04][..], &rels].concat();
    let all = [&[11, 0, 0x187, 5, 1663, 2, 800, 801][..], &rels, &[1, 2, 3]].concat();
    for (info, committed) in [(0x80, true), (0xA0, false), (0xB0, true), (0xC0, false)] {
        for major in [Major::V10, Major::V14, Major::V19] {
            assert_eq!(decode(major, 1, info, &only), dropped(committed), "{info:#x}");
            assert_eq!(decode(major, 1, info, &all), dropped(committed), "{info:#x}");
        }
    }
    // Without the flag there is no xinfo, whatever bytes follow; other transaction records drop nothing.
    assert_eq!(decode(Major::V18, 1, 0x00, &only), None);
    assert_eq!(decode(Major::V18, 1, 0x90, &only), None);
    assert_eq!(decode(Major::V18, 1, 0x80, &[11, 0, 0x03, 5, 1663, 0]), None);
}

#[test]
fn counts_that_lie_are_errors() {
    let error = |numbers: &[u32]| LifeCycle::decode(Major::V18, 1, 0x80, 0x1000, &words(numbers)).unwrap_err();
    assert_eq!(
        error(&[11, 0, 4, 0x7FFF_FFFF, 1]).to_string(),
        "xl_xact_commit.nrels at offset 0x1010: input ends, 4 bytes left"
    );
    assert_eq!(
        error(&[11, 0, 4, u32::MAX, 1]).to_string(),
        "xl_xact_commit.nrels at offset 0x100C: found 0xFFFFFFFF, a count is not negative"
    );
}

#[test]
fn databases_by_major() {
    let copied = Some(LifeCycle::DatabaseCreated { db_oid: 9, spc_oid: 1663, copied_from: Some((1, 1664)) });
    for major in [Major::V10, Major::V14, Major::V15, Major::V19] {
        assert_eq!(decode(major, 4, 0x00, &[9, 1663, 1, 1664]), copied);
    }
    let logged = Some(LifeCycle::DatabaseCreated { db_oid: 9, spc_oid: 1663, copied_from: None });
    assert_eq!(decode(Major::V15, 4, 0x10, &[9, 1663]), logged);
    let dropped = |spc_oids: &[u32]| Some(LifeCycle::DatabaseDropped { db_oid: 9, spc_oids: spc_oids.to_vec() });
    assert_eq!(decode(Major::V12, 4, 0x10, &[9, 1663]), dropped(&[1663]));
    assert_eq!(decode(Major::V13, 4, 0x10, &[9, 2, 1663, 16400]), dropped(&[1663, 16400]));
    assert_eq!(decode(Major::V15, 4, 0x20, &[9, 1, 1663]), dropped(&[1663]));
    assert_eq!(decode(Major::V14, 4, 0x20, &[9, 1, 1663]), None);
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail_inside(
        bytes in prop::collection::vec(any::<u8>(), 0..100), rmgr_id in 0_u8..6, info in any::<u8>(),
        major in prop::sample::select(Major::ALL.to_vec()),
    ) {
        if let Err(error) = LifeCycle::decode(major, rmgr_id, info, 0, &bytes) {
            prop_assert!(error.offset <= bytes.len() as u64);
        }
    }
}
