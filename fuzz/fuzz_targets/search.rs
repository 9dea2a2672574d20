//! Any text as search terms of the screen: it is understood or refused with a reason, and understood in the same way again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::tui::query::Query;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Query::parse(text) {
        Ok(query) => {
            assert_eq!(query.text(), text.trim());
            assert_eq!(Query::parse(query.text()), Ok(query.clone()));
            assert_eq!(query.is_empty(), text.trim().is_empty());
        }
        Err(why) => assert!(!why.is_empty()),
    }
});
