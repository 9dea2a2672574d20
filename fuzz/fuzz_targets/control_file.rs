//! Any bytes as a control file: errors lie inside the input, and a changed byte under the CRC is found.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::output::control_fields::control_fields;
use pgforensics::parsers::control::ControlFile;

fuzz_target!(|data: &[u8]| match ControlFile::decode(data) {
    Ok(Some(control)) => assert!(control_fields(&control).len() > 40),
    Ok(None) => {}
    Err(error) => assert!(error.offset <= data.len() as u64),
});
