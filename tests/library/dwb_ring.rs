//! The buffer with a control file: bytes of the tests' own writer, what is said of them, and a second reader in Python.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common;
use crate::common::ring_format::{Control, Slot, batch, batch_header, page, put_slot, sign, write_ring};
use pgforensics::analysis::dwb::format::RingFact;
use pgforensics::analysis::dwb::format::open_buffer;
use pgforensics::analysis::dwb::format::ring_finding::{PageAction, StartAction};
use pgforensics::analysis::dwb::report::examine_slots;
use pgforensics::analysis::dwb::slot_facts::{Condition, SlotFacts};
use pgforensics::analysis::dwb::trace::ClusterFacts;
use pgforensics::analysis::skipped::Coverage;
use pgforensics::cluster::page_source::{PageSource, RelationPages};
use pgforensics::cluster::relation_path::RelationPaths;
use pgforensics::parsers::dwb::ring::{RingDirectory, batch_file_bytes, image_region, pages_of_size};
use pgforensics::parsers::dwb::ring_control::RingControl;
use pgforensics::parsers::dwb::{CrcVerdict, DwbDirectory, FileRole, Knowledge};
use pgforensics::parsers::wal::version::Major;
use pgforensics::types::Lsn;
use proptest::prelude::*;
use serde_json::Value;

const G: u64 = 3;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn detect(file: &[u8], control: Option<&[u8]>) -> pgforensics::parsers::dwb::detect::Detection {
    RingDirectory.detect(file.len() as u64, None, control, &mut |offset, length| {
        file.get(usize::try_from(offset).ok()?..)?.get(..length).map(<[u8]>::to_vec)
    })
}

/// Vectors that two other implementations agree on.
#[test]
fn control_files_and_headers_of_the_description() {
    for (vector, batches, pages, flags, generation) in [
        ("43425744010000000100000040000000400000000000000001000000000000007176657100000000", 64, 64, 0, 1),
        ("43425744010000000100000010000000100000000000000000000000000000002b942fe100000000", 16, 16, 0, 0),
        ("43425744010000000100000010000000100000000000000001000000000000000ce913a800000000", 16, 16, 0, 1),
        ("43425744010000000100000010000000100000000100000001000000000000003c3d629900000000", 16, 16, 1, 1),
        ("4342574401000000010000001000000010000000000000000200000000000000656e577300000000", 16, 16, 0, 2),
    ] {
        let control = RingControl::decode(&bytes(vector)).unwrap();
        assert_eq!((control.num_batches, control.batch_pages, control.generation), (batches, pages, generation));
        assert_eq!((control.faults(), control.is_clean()), (vec![], flags == 1));
        let written = Control { min_version: 1, batches, pages, flags, generation };
        assert_eq!(hex(&written.bytes()), vector);
    }
    let header = "4242574401000000090000000000000001000000f763e7d2";
    assert_eq!(hex(&batch_header(9, 1)), header);
    let meta = "7f0600000500000064000000000000000700000000000000001000000000000003000000000000000000000054c8a7ae94f52eef00000000";
    let slot = Slot::new(7, 0x1000, 3, vec![0xAA; 8192]);
    assert_eq!(hex(&slot.meta()), meta);
    let file = batch(16, Some(9), 1, &[slot]);
    let found = detect(&file, None);
    let sound = found.sound_header().unwrap();
    assert_eq!((sound.batch_id, sound.slots_per_file, found.slot_count), (Some(9), 1, 16));
    let decoded = found.layout.decode_slot_header(24, &bytes(meta)).unwrap();
    assert_eq!((decoded.rel.to_string().as_str(), decoded.block, decoded.lsn), ("1663/5/100", 7, Lsn(0x1000)));
    assert_eq!((decoded.generation, decoded.crc, decoded.flags), (Some(3), 0xEF2E_F594, 0));
}

#[test]
fn sizes_of_batch_files() {
    for (pages, images, size) in [
        (16, 4096, 135_168),
        (32, 4096, 266_240),
        (64, 4096, 528_384),
        (72, 4096, 593_920),
        (73, 8192, 606_208),
        (128, 8192, 1_056_768),
        (256, 16_384, 2_113_536),
    ] {
        assert_eq!((image_region(pages), batch_file_bytes(pages)), (images, size));
        assert_eq!(pages_of_size(size), Some(pages));
        assert_eq!(pages_of_size(size - 1), None);
    }
}

#[test]
fn names_of_the_directory() {
    for (name, role) in [
        ("control", Some(FileRole::Control)),
        ("control.tmp", Some(FileRole::Leftover)),
        ("batch_0000", Some(FileRole::Slots(0))),
        ("batch_1023", Some(FileRole::Slots(1023))),
        ("batch_10000", Some(FileRole::Slots(10_000))),
        ("batch_01000", None),
        ("batch_012", None),
        ("batch_00a0", None),
        ("batch_99999999999", None),
        ("dwbuf_000", None),
    ] {
        assert_eq!(RingDirectory.role_of(name), role, "{name}");
    }
    assert_eq!(RingDirectory.knowledge(), Knowledge::SeenBuilt);
}

/// A ring in a directory of its own, with a table to go with it.
struct Case {
    data: tempfile::TempDir,
    control: Option<Vec<u8>>,
    files: Vec<Vec<u8>>,
    table: Vec<Vec<u8>>,
}

impl Case {
    fn new(control: Control) -> Self {
        let files = vec![batch(control.pages, None, 0, &[]); control.batches as usize];
        let data = tempfile::tempdir().unwrap();
        Self { data, control: Some(control.bytes()), files, table: Vec::new() }
    }

    fn write(&self) -> &Path {
        let root = self.data.path();
        write_ring(root, self.control.as_deref(), &self.files);
        fs::create_dir_all(root.join("base/5")).unwrap();
        fs::write(root.join("base/5/100"), self.table.concat()).unwrap();
        root
    }

    /// Sets what the table holds in a block.
    fn disk(&mut self, block: u32, bytes: Vec<u8>) {
        let at = block as usize;
        while self.table.len() <= at {
            self.table.push(page(self.table.len() as u32, 0x100, 1));
        }
        self.table[at] = bytes;
    }
}

/// A page of which only the first half of `new` has reached the disk.
fn torn(new: &[u8], old: &[u8]) -> Vec<u8> {
    [&new[..4096], &old[4096..]].concat()
}

/// A slot whose page on disk is torn, older, equal, newer: by `state`.
fn slot_over(case: &mut Case, block: u32, lsn: u64, state: &str) -> Slot {
    let image = page(block, lsn, 7);
    let older = page(block, lsn - 0x10, 9);
    let disk = match state {
        "torn" => torn(&image, &older),
        "older" => older,
        "newer" => page(block, lsn + 0x10, 8),
        "twin" => page(block, lsn, 6),
        "new" => vec![0; 8192],
        "new with content" => {
            let mut bytes = image.clone();
            bytes[14..16].fill(0);
            bytes
        }
        _ => image.clone(),
    };
    case.disk(block, disk);
    Slot::new(block, lsn, G, image)
}

/// Every case of the description: torn, older, newer, equal, a twin by hint bits, new, past the end, without file, aborted,
/// bad slot header, bad image, bad batch header, ties, earlier runs, a shorter filling, writes that were cut off.
fn every_case() -> Case {
    let mut case = Case::new(Control { min_version: 1, batches: 16, pages: 16, flags: 0, generation: G });
    let slots = |case: &mut Case, first: u32, states: &[&str]| -> Vec<Slot> {
        (first..).zip(states).map(|(block, state)| slot_over(case, block, 0x5000, state)).collect()
    };
    let of_run = |generation: u64, slots: Vec<Slot>| -> Vec<Slot> {
        slots.into_iter().map(|slot| Slot { generation, ..slot }).collect()
    };
    let first = slots(&mut case, 0, &["torn", "torn", "torn", "older", "older", "older", "newer", "equal"]);
    case.files[0] = batch(16, Some(10), 8, &first);
    let mut second = slots(&mut case, 8, &["newer", "equal", "twin", "twin", "new", "new with content"]);
    second.push(Slot::new(500, 0x5000, G, page(500, 0x5000, 7)));
    second.push(Slot { rel: [1663, 5, 999], ..Slot::new(0, 0x5000, G, page(0, 0x5000, 7)) });
    case.files[1] = batch(16, Some(11), 8, &second);
    let mut third = slots(&mut case, 14, &["torn", "torn", "torn", "older"]);
    third[0].flags = 1;
    third[1].meta_off = 1;
    third[2].image_off = 1;
    case.files[2] = batch(16, Some(12), 4, &third);
    case.files[3] = batch(16, Some(13), 4, &slots(&mut case, 18, &["torn"; 4]));
    case.files[3][20] ^= 1;
    // The same LSN in two files: the later filling counts, though it is in the earlier file. A higher LSN beats that.
    let tie = slot_over(&mut case, 22, 0x5000, "torn");
    let low = slot_over(&mut case, 24, 0x5000, "torn");
    let high = slot_over(&mut case, 24, 0x5010, "torn");
    case.files[4] = batch(16, Some(14), 2, &[tie.clone(), low]);
    case.files[5] = batch(16, Some(9), 2, &[Slot { image: page(22, 0x5000, 5), ..tie }, high]);
    let twin = slot_over(&mut case, 25, 0x5000, "torn");
    let other = slot_over(&mut case, 26, 0x5000, "older");
    case.files[6] = batch(16, Some(15), 3, &[Slot { image: page(25, 0x5000, 5), ..twin.clone() }, twin, other]);
    let earlier = slots(&mut case, 28, &["equal"; 8]);
    case.files[7] = batch(16, Some(40), 8, &of_run(G - 1, earlier));
    let long = slots(&mut case, 40, &["equal"; 6]);
    let short = slots(&mut case, 27, &["newer"]);
    case.files[8] = batch(16, Some(16), 1, &long);
    case.files[8][24..24 + 56 * 6].fill(0);
    put_slot(&mut case.files[8], 16, 0, &short[0]);
    // Images written, slot headers not yet.
    let old = slots(&mut case, 46, &["torn", "torn", "torn", "torn", "equal"]);
    case.files[9] = batch(16, Some(8), 5, &old);
    for index in 0..3 {
        let new = page(60 + index as u32, 0x6000, 3);
        case.files[9][4096 + 8192 * index..][..8192].copy_from_slice(&new);
    }
    // Slot headers written up to the middle of the second.
    let old = slots(&mut case, 52, &["torn"; 7]);
    let new = slot_over(&mut case, 61, 0x5000, "older");
    case.files[10] = batch(16, Some(17), 7, &old);
    for index in 0..7 {
        case.files[10][4096 + 8192 * index..][..8192].copy_from_slice(&page(70 + index as u32, 0x6000, 3));
    }
    put_slot(&mut case.files[10], 16, 0, &new);
    case.files[10][24 + 56..][..28].copy_from_slice(&Slot::new(99, 0x6000, G, page(71, 0x6000, 3)).meta()[..28]);
    let first_run = slots(&mut case, 63, &["torn"; 5]);
    case.files[11] = batch(16, Some(3), 5, &of_run(1, first_run));
    case
}

/// What this program says of a buffer.
struct Told {
    slots: BTreeMap<(u32, u64), SlotFacts>,
    codes: BTreeMap<(u32, u64), &'static str>,
    /// What a start does in mode `double_writes`.
    start: Option<&'static str>,
    /// Slots that a start in mode `double_writes` writes into data files.
    written: BTreeSet<(u32, u64)>,
    counted: Option<(u64, u64, u64)>,
}

fn tell(root: &Path) -> Told {
    let set = open_buffer(root, Some(8192));
    let facts = ClusterFacts { checksums_written: Some(true), block_size: Some(8192), ..ClusterFacts::default() };
    let mut slots = BTreeMap::new();
    let numbers: Vec<u32> = set.files.iter().map(|file| file.number.unwrap()).collect();
    let report = examine_slots(&set, &facts, 1, |file, slot| {
        slots.insert((numbers[file], slot.index), slot.clone());
        std::ops::ControlFlow::Continue(())
    });
    let pages = RelationPages::new(root, RelationPaths::new(Major::V18, 202_506_291, 131_072));
    let mut coverage = Coverage::default();
    let (mut codes, mut written) = (BTreeMap::new(), BTreeSet::new());
    let start = report.staleness.summaries().iter().flat_map(|ring| &ring.facts).find_map(|fact| match fact {
        ("start_in_double_writes", RingFact::Code(code)) => Some(*code),
        _ => None,
    });
    let mut buffer = vec![0; 8192];
    for (file, number) in numbers.iter().enumerate() {
        for ((_, index), slot) in slots.iter().filter(|((owner, _), _)| owner == number) {
            let Some((_, reason)) = report.staleness.verdict(file, *index) else { continue };
            codes.insert((*number, *index), reason.name());
            if reason.name() == "server_choice" && start == Some(StartAction::Applies.code()) {
                let page = slot.header.page_id().unwrap();
                let read = pages.read_page(page, &mut buffer).unwrap();
                if PageAction::of(read, &buffer, page, slot.header.lsn).is_write() {
                    written.insert((*number, *index));
                }
            }
        }
    }
    let found = report.staleness.start_writes(&pages, 8192, &mut coverage);
    assert_eq!(coverage.skipped, []);
    let counted = found.iter().filter_map(|writes| writes.finding.as_ref()).next().map(|finding| {
        assert_eq!(finding.rule.code, "ring_start_writes");
        let what = finding.to_string();
        let mut numbers = what.split(' ').filter_map(|word| word.parse().ok());
        let (count, candidates, left) = (numbers.next(), numbers.next(), numbers.next());
        (count.unwrap(), left.unwrap(), candidates.unwrap())
    });
    Told { slots, codes, start, written, counted }
}

/// What the second reader says of a buffer, a line a slot; `None` where it cannot run.
fn second_reader(root: &Path) -> Option<Vec<Value>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/dwb-b/vbref.py");
    let Ok(run) = Command::new("python3").arg(script).arg(root).output() else {
        common::skipped("there is no python3 for the second reader of pg_dwb");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let lines = String::from_utf8(run.stdout).unwrap();
    Some(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Holds both readers together: every slot, and what a start writes.
fn compare(root: &Path, told: &Told) -> Option<Vec<Value>> {
    let lines = second_reader(root)?;
    let mut restored = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for line in &lines {
        let at = (line["batch"].as_u64().unwrap() as u32, line["slot"].as_u64().unwrap());
        seen.insert(at);
        let slot = &told.slots[&at];
        let header = &slot.header;
        let word = |good: bool| if good { "ok" } else { "bad" };
        assert_eq!(line["meta_crc"], word(slot.computed_crc == Some(header.crc)), "{at:?}");
        assert_eq!(line["generation"].as_u64(), header.generation, "{at:?}");
        assert_eq!(line["block"].as_u64(), Some(u64::from(header.block)), "{at:?}");
        if slot.condition == Condition::Aborted {
            assert_eq!((&line["aborted"], header.lsn, slot.page.lsn), (&Value::Bool(true), Lsn(0), Lsn(0)), "{at:?}");
        } else {
            assert_eq!(line["image_crc"], word(slot.image_crc.unwrap().is_good()), "{at:?}");
            let lsn: Lsn = line["lsn"].as_str().unwrap().parse().unwrap();
            assert_eq!(lsn, header.lsn, "{at:?}");
        }
        let server = line["server"].as_str().unwrap();
        if server.starts_with("restore") {
            restored.insert(at);
        }
        let code = told.codes.get(&at).copied().unwrap_or("none");
        let expected: &[&str] = match server {
            "refuse: control file" => &["generation_guessed", "below_guessed_generation", "unreliable"],
            "skip: ring clean" => {
                &["ring_clean", "earlier_generation", "later_generation", "outside_ring", "unreliable"]
            }
            "skip: outside geometry" => &["outside_ring", "unreliable"],
            "skip: header" => &["batch_header_bad", "earlier_generation", "later_generation", "unreliable"],
            "skip: meta crc" | "skip: aborted" | "skip: image crc" => &["unreliable"],
            "skip: generation" => &["earlier_generation", "later_generation", "unreliable"],
            "skip: superseded" => &["superseded"],
            "refuse: min_version" => &[
                "ring_clean",
                "server_choice",
                "superseded",
                "earlier_generation",
                "later_generation",
                "batch_header_bad",
                "unreliable",
            ],
            _ => &["server_choice"],
        };
        assert!(expected.contains(&code), "{at:?}: {server} and {code}");
    }
    assert_eq!(restored, told.written);
    // What only this program shows lies after the slots that a header counts.
    for at in told.codes.keys().filter(|at| !seen.contains(*at)) {
        assert!(
            [
                "beyond_count",
                "unreliable",
                "earlier_generation",
                "later_generation",
                "ring_clean",
                "generation_guessed",
                "below_guessed_generation",
                "outside_ring"
            ]
            .contains(&told.codes[at]),
            "{at:?}"
        );
    }
    Some(lines)
}

#[test]
fn every_case_of_the_description_is_chosen_as_the_second_reader_does() {
    let case = every_case();
    let told = tell(case.write());
    assert_eq!((told.start, told.written.len()), (Some(StartAction::Applies.code()), 13));
    let (count, left, candidates) = told.counted.unwrap();
    assert_eq!((count, candidates), (13, 28));
    assert_eq!(left, 28 - 13 - 3, "three of the slots that count are superseded");
    let aborted: Vec<_> = told.slots.iter().filter(|(_, slot)| slot.condition == Condition::Aborted).collect();
    assert_eq!(aborted.iter().map(|(at, _)| **at).collect::<Vec<_>>(), [(2, 0)]);
    if let Some(lines) = compare(case.data.path(), &told) {
        let is_candidate = |line: &&Value| line["candidate"] == Value::Bool(true);
        assert_eq!((lines.len(), lines.iter().filter(is_candidate).count()), (57, 28));
    }
}

#[test]
fn second_pass_writes_nothing() {
    let mut case = every_case();
    let told = tell(case.write());
    for (batch, index) in &told.written {
        let slot = &told.slots[&(*batch, *index)];
        let image = case.files[*batch as usize][4096 + 8192 * *index as usize..][..8192].to_vec();
        case.disk(slot.header.block, image);
    }
    assert_eq!(tell(case.write()).written, BTreeSet::new());
}

/// What a start does, by the state of the control file and of the batch files.
#[test]
fn what_a_start_does() {
    let control = Control { min_version: 1, batches: 16, pages: 16, flags: 0, generation: G };
    let start = |change: &dyn Fn(&mut Case)| {
        let mut case = every_case();
        change(&mut case);
        tell(case.write()).start
    };
    let with = |control: Control| move |case: &mut Case| case.control = Some(control.bytes());
    assert_eq!(start(&|_| {}), Some("applies"));
    assert_eq!(start(&with(Control { flags: 1, ..control })), Some("applies_nothing"));
    assert_eq!(start(&with(Control { min_version: 2, ..control })), Some("refuses_control"));
    assert_eq!(start(&with(Control { batches: 17, ..control })), Some("fails_at_missing_file"));
    assert_eq!(start(&|case| case.control = None), Some("makes_anew"));
    assert_eq!(start(&|case| case.control.as_mut().unwrap()[24] ^= 1), Some("refuses_control"));
    assert_eq!(start(&|case| case.control.as_mut().unwrap().truncate(39)), Some("refuses_control"));
    assert_eq!(start(&|case| case.files[1].truncate(4096 + 8192 * 4)), Some("fails_at_short_file"));
    assert_eq!(start(&|case| case.files[12].truncate(4096 + 8192 * 4)), Some("applies"));
    assert_eq!(start(&|case| case.files[12].truncate(100)), Some("fails_at_short_file"));
}

/// A number from 0 to `below`, from a sequence that is the same in every run.
fn next(seed: &mut u64, below: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed % below
}

fn random_case(seed: &mut u64) -> Case {
    let pages = [4, 16, 64, 73, 146, 220][next(seed, 6) as usize];
    let batches = 1 + next(seed, 4) as u32;
    let flags = u32::from(next(seed, 6) == 0);
    let min_version = 1 + u32::from(next(seed, 12) == 0);
    let mut case = Case::new(Control { min_version, batches, pages, flags, generation: G });
    if next(seed, 8) == 0 {
        case.control.as_mut().unwrap()[next(seed, 36) as usize] ^= 1 << next(seed, 8);
    }
    let states = ["torn", "older", "newer", "twin", "new", "equal", "new with content"];
    for block in 0..8 {
        let lsn = 0x5000 + 0x10 * next(seed, 3);
        slot_over(&mut case, block, lsn, states[next(seed, 7) as usize]);
    }
    for file in 0..batches as usize {
        if next(seed, 6) == 0 {
            continue;
        }
        let count = 1 + next(seed, u64::from(pages.min(8))) as u32;
        let slots: Vec<Slot> = (0..count)
            .map(|_| {
                let block = next(seed, 10) as u32;
                let lsn = 0x5000 + 0x10 * next(seed, 3);
                let generation = [G, G, G, G, G - 1, G + 1][next(seed, 6) as usize];
                let mut slot = Slot::new(block, lsn, generation, page(block, lsn, next(seed, 4) as u8));
                slot.flags = u16::from(next(seed, 10) == 0);
                slot.meta_off = u32::from(next(seed, 10) == 0);
                slot.image_off = u32::from(next(seed, 10) == 0);
                slot
            })
            .collect();
        let counted = if next(seed, 8) == 0 { count - 1 } else { count };
        case.files[file] = batch(pages, Some(1 + next(seed, 3)), counted, &slots);
        if next(seed, 10) == 0 {
            case.files[file][next(seed, 24) as usize] ^= 1 << next(seed, 8);
        }
    }
    case
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn random_buffers_are_chosen_as_the_second_reader_does() {
    let mut seed = 0x9E37_79B9_7F4A_7C15;
    let mut written = 0;
    for _ in 0..40 {
        let case = random_case(&mut seed);
        let told = tell(case.write());
        written += told.written.len();
        if compare(case.data.path(), &told).is_none() {
            break;
        }
    }
    assert!(written > 0, "the cases show nothing");
}

#[test]
fn slot_lsn_of_another_kind_of_buffer_is_not_mistaken() {
    // A page with another block's checksum was not written by such a server: it is shown, and nobody is named for it.
    let mut case = Case::new(Control { min_version: 1, batches: 1, pages: 16, flags: 0, generation: G });
    let mut slot = slot_over(&mut case, 0, 0x5000, "torn");
    sign(&mut slot.image, 1);
    case.files[0] = batch(16, Some(1), 1, &[slot]);
    let told = tell(case.write());
    let slot = &told.slots[&(0, 0)];
    assert_eq!((slot.condition, slot.path), (Condition::Sound, None));
    assert_eq!(slot.crc, Some(CrcVerdict::Good));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn any_control_file_is_decoded_or_named_short(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        match RingControl::decode(&bytes) {
            Ok(control) => prop_assert!(bytes.len() >= 40 && (control.is_whole() || !control.faults().is_empty())),
            Err(error) => prop_assert!(bytes.len() < 40 && error.offset <= 40),
        }
    }

    #[test]
    fn flipped_bit_of_a_control_file_is_found(bit in 0_usize..36 * 8, generation in any::<u64>(), pages in 1_u32..=256) {
        let mut bytes = Control { min_version: 1, batches: 64, pages, flags: 0, generation }.bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!RingControl::decode(&bytes).unwrap().is_whole());
    }

    #[test]
    fn flipped_bit_of_a_batch_header_is_found(bit in 0_usize..24 * 8) {
        let mut file = batch(16, Some(5), 1, &[Slot::new(1, 0x1000, 1, page(1, 0x1000, 2))]);
        file[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(detect(&file, None).sound_header().is_none());
    }

    #[test]
    fn flipped_bit_of_a_slot_is_found(bit in 0_usize..52 * 8, in_image in 0_usize..8192 * 8) {
        let whole = batch(16, Some(5), 1, &[Slot::new(1, 0x1000, 1, page(1, 0x1000, 2))]);
        for at in [24 * 8 + bit, 4096 * 8 + in_image] {
            let mut file = whole.clone();
            file[at / 8] ^= 1 << (at % 8);
            let case = Case { data: tempfile::tempdir().unwrap(), control: None, files: vec![file], table: Vec::new() };
            let told = tell(case.write());
            prop_assert_eq!(told.slots[&(0, 0)].crc, Some(CrcVerdict::Bad));
        }
    }

    #[test]
    fn any_bytes_are_a_batch_file(head in prop::collection::vec(any::<u8>(), 0..6000), length in 0_usize..200_000, control in prop::collection::vec(any::<u8>(), 0..48)) {
        let mut file = head;
        file.resize(length, 0x5A);
        for control in [None, Some(control.as_slice()), Some(&Control { min_version: 1, batches: 9, pages: 256, flags: 0, generation: 1 }.bytes()[..])] {
            let found = detect(&file, control);
            prop_assert!(found.slot_count <= 256);
            for index in 0..found.slot_count {
                let ranges = found.layout.slot_ranges(found.block_size, index);
                prop_assert!(ranges.image.end <= file.len() as u64 && ranges.header.end <= ranges.image.start.max(16_384));
            }
        }
    }
}
