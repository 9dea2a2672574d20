//! Any bytes as a saved plan: what is read is written and read again as the same, and a page is one that can exist.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::repair::plan::Plan;

fuzz_target!(|data: &[u8]| {
    let Ok(plan) = serde_json::from_slice::<Plan>(data) else { return };
    let text = serde_json::to_vec(&plan).expect("a plan can be written");
    let again: Plan = serde_json::from_slice(&text).expect("what was written can be read");
    assert_eq!(serde_json::to_vec(&again).expect("a plan can be written"), text);
    for step in &plan.steps {
        if let Some(page) = step.page.page_id() {
            let same = pgforensics::repair::plan::PlanPage::of(page);
            assert_eq!(same.page_id(), Some(page));
        }
    }
});
