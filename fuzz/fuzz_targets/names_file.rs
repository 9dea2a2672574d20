//! Any bytes as a list of names: whatever it says, it is a list or an error that says where it is not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::cluster::names::RelationNames;

fuzz_target!(|data: &[u8]| {
    let path = pgforensics_fuzz::file("names.json", data);
    let (first, again) = (RelationNames::from_json(&path), RelationNames::from_json(&path));
    assert_eq!(first.is_ok(), again.is_ok());
    if let (Ok((_, gaps)), Ok((_, same))) = (&first, &again) {
        assert_eq!(gaps.len(), same.len());
        // Each gap is about something that the list has.
        assert!(gaps.len() <= data.len());
    }
});
