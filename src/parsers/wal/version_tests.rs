use super::*;

#[test]
fn released_magics_name_their_major() {
    let table = [
        (0xD097, 10),
        (0xD098, 11),
        (0xD101, 12),
        (0xD106, 13),
        (0xD10D, 14),
        (0xD110, 15),
        (0xD113, 16),
        (0xD116, 17),
        (0xD118, 18),
        (0xD119, 18),
        (0xD11B, 19),
        (0xD122, 19),
    ];
    for (magic, number) in table {
        assert_eq!(Major::from_magic(magic).map(Major::number), Ok(number));
    }
    assert_eq!((0..=u16::MAX).filter(|&magic| Major::from_magic(magic).is_ok()).count(), table.len());
}

#[test]
fn rows_stand_in_the_order_of_their_numbers() {
    let numbers: Vec<u32> = Major::ALL.into_iter().map(Major::number).collect();
    assert!(
        numbers.iter().zip(numbers.iter().skip(1)).all(|(one, next)| one == next || one + 1 == *next),
        "{numbers:?}"
    );
    assert!(Major::ALL.is_sorted() && Major::ALL.is_sorted_by_key(|major| major.magic()));
    assert_eq!((Major::OLDEST, Major::NEWEST), (Major::V10, Major::V19));
    for number in 0..1000 {
        let found = Major::from_number(number);
        assert_eq!(found.map(Major::number), (10..=19).contains(&number).then_some(number));
    }
}

/// Values of the servers' own headers, which the fixtures do not reach.
#[test]
fn facts_change_where_the_servers_did() {
    let majors = |is: &dyn Fn(&MajorFacts) -> bool| -> Vec<u32> {
        let mut found: Vec<u32> = Major::ALL.into_iter().filter(|major| is(major.facts())).map(Major::number).collect();
        found.dedup();
        found
    };
    assert_eq!(majors(&|facts| facts.max_record_length == 0x3FFF_FFFF), [10, 11, 12, 13, 14, 15]);
    assert_eq!(majors(&|facts| facts.max_record_length == 1_069_547_520), [16, 17, 18, 19]);
    assert_eq!(majors(&|facts| facts.control_version == 1300), [13, 14, 15, 16]);
    assert_eq!(majors(&|facts| facts.xlog.checkpoint_size() == 80), [10, 11]);
    assert_eq!(majors(&|facts| facts.xlog.checkpoint_size() == 96), [19]);
    assert_eq!(majors(&|facts| facts.has_top_xid), [14, 15, 16, 17, 18, 19]);
    assert_eq!(majors(&|facts| facts.database == DatabaseRecords::To12), [10, 11, 12]);
    assert_eq!(majors(&|facts| facts.database == DatabaseRecords::To14), [13, 14]);
    assert_eq!(majors(&|facts| facts.prune == PruneRecords::To13), [10, 11, 12, 13]);
    assert_eq!(majors(&|facts| facts.prune == PruneRecords::To18), [17, 18]);
    assert_eq!(majors(&|facts| facts.btree == BtreeRecords::To12), [10, 11, 12]);
    assert_eq!(majors(&|facts| facts.follows_spgist_redirects), [16, 17, 18, 19]);
    assert_eq!(majors(&|facts| facts.has_unlocked_copies), [19]);
    assert_eq!(majors(&|facts| facts.btree_delete_names_table), [10, 11]);
    assert_eq!(majors(&|facts| facts.freezes_by_plans), [16, 17, 18, 19]);
    assert_eq!(majors(&|facts| facts.updates_in_place_change), [14, 15, 16, 17, 18, 19]);
}

#[test]
fn unknown_magics_are_explained() {
    for (magic, words) in [
        (0, "never written"),
        (0xD093, "9.6"),
        (0xD095, "development version of 10"),
        (0xD100, "development version of 12"),
        (0xD104, "development version of 13"),
        (0xD10C, "development version of 14"),
        (0xD10F, "development version of 15"),
        (0xD112, "development version of 16"),
        (0xD114, "development version of 17"),
        (0xD115, "beta of 17"),
        (0xD117, "development version of 18"),
        (0xD11A, "development tree of 19"),
        (0x18D1, "big-endian"),
        (0xD11C, "development tree of 19"),
        (0xD120, "19beta1 or 19beta2"),
        (0xD121, "19beta3, or a development tree of 20"),
        (0xD123, "newer than the versions known here (10 to 19)"),
        (0xD1FF, "newer"),
        (0xD200, "not a WAL page"),
        (0xD05E, "before 9.6"),
        (0x1234, "not a WAL page"),
    ] {
        let said = UnknownMagic(magic).to_string();
        assert!(said.contains(words), "{said}");
        assert!(Major::from_magic(magic).is_err());
    }
}

#[test]
fn image_flags_have_two_layouts() {
    // The same value 0x07 means the same in both, by different bits.
    for major in Major::ALL {
        assert_eq!(major.image_compression(0x07), Some(Compression::Pglz));
        assert_ne!(0x07 & major.image_apply_flag(), 0);
    }
    assert_eq!(Major::V14.image_compression(0x05), None);
    assert_eq!(Major::V15.image_compression(0x05), Some(Compression::Pglz));
    assert_eq!(Major::V15.image_compression(0x0B), Some(Compression::Lz4));
    assert_eq!(Major::V19.image_compression(0x13), Some(Compression::Zstd));
    assert_eq!(Major::V15.image_compression(0x1F), Some(Compression::Pglz));
}

#[test]
fn custom_rmgrs_exist_from_15_on() {
    assert!(Major::V10.has_rmgr(21) && !Major::V19.has_rmgr(22) && !Major::V15.has_rmgr(127));
    assert!(!Major::V14.has_rmgr(128) && Major::V15.has_rmgr(128) && Major::V18.has_rmgr(255));
}

#[test]
fn programs_and_files_lead_to_their_format() {
    for (version, major) in [
        ("18.6", Major::V18),
        ("19rc1", Major::V19),
        ("19.0", Major::V19),
        ("19devel", Major::V19Devel),
        ("10.23", Major::V10),
    ] {
        assert_eq!(Major::from_program(version), Some(major), "{version}");
    }
    for unknown in ["20devel", "9.6.24", "devel", ""] {
        assert_eq!(Major::from_program(unknown), None, "{unknown}");
    }
    for (number, control, major) in [
        (19, Some(1901), Major::V19Devel),
        (19, Some(1905), Major::V19),
        (19, Some(1903), Major::V19),
        (19, None, Major::V19),
        (18, Some(1802), Major::V18Dwb),
        (18, Some(1801), Major::V18),
    ] {
        assert_eq!(Major::from_files(number, control), Some(major), "{number} {control:?}");
    }
}
